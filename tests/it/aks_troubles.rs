//! Labs on AKS when something goes wrong: refusals, lost answers, what fails in Azure, what is somebody else's.

use std::path::Path;
use std::time::Duration;

use klab_operations::error::Kind;
use klab_operations::provider::aks::Aks;
use klab_operations::provider::aks::az::Pace;
use klab_operations::provider::{Options, Provider};
use serde_json::json;

use crate::aks::{COMPLETE, LAB, Setup, plain};
use crate::azure::api::Latency;
use crate::azure::fault::{Fault, Trouble};

#[test]
fn conflict_that_passes_is_waited_out_and_one_that_does_not_is_reported() {
    let busy = |times| {
        Fault::refuse(
            "PUT",
            "/agentpools/extra",
            times,
            409,
            "OperationNotAllowed",
            "Operation is not allowed: Another operation (Updating) is in progress, please wait for it to finish.",
        )
    };
    let setup = Setup::new();
    setup.fault(busy(3));
    setup.up(LAB, Options::default()).unwrap();
    assert_eq!(plain(&setup.everything()), COMPLETE);

    let setup = Setup::new();
    setup.fault(busy(u32::MAX));
    let error = setup.up(LAB, Options::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("could not create pool `extra`: ERROR: (OperationNotAllowed) Operation is not allowed"),
        "{error}"
    );
    // The other pool did not suffer.
    assert!(plain(&setup.everything()).contains(&"pool/klab-pools/burst".to_owned()));
}

#[test]
fn lost_answers_are_adopted_without_duplicates() {
    for (method, path) in [
        ("PUT", "/resourcegroups/"),
        ("PUT", "/managedclusters/"),
        ("PUT", "/agentpools/extra"),
        ("PUT", "/agentpools/burst"),
    ] {
        let setup = Setup::with(Latency {
            create: Duration::from_millis(30),
            pool: Duration::from_millis(30),
            delete: Duration::ZERO,
        });
        let fault = Fault { within: true, ..Fault::new(method, path, 1, Trouble::LoseAnswer) };
        setup.fault(fault);
        setup.up(LAB, Options::default()).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(plain(&setup.everything()), COMPLETE, "{path}");
        assert_eq!(setup.fake.model().faults[0].times, 0, "{path}: the fault did not fire");
    }
}

#[test]
fn requests_cut_on_the_way_are_made_again() {
    for (method, path) in [("PUT", "/managedclusters/"), ("PUT", "/agentpools/extra"), ("GET", "/agentpools")] {
        let setup = Setup::with(Latency {
            create: Duration::from_millis(10),
            pool: Duration::from_millis(30),
            delete: Duration::ZERO,
        });
        setup.fault(Fault { within: true, ..Fault::new(method, path, 1, Trouble::Cut) });
        setup.up(LAB, Options::default()).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(plain(&setup.everything()), COMPLETE, "{path}");
    }
}

#[test]
fn cluster_that_azure_hears_of_before_its_group_is_asked_for_again() {
    let setup = Setup::new();
    setup.fake.delay("group create", "aks create");
    setup.up(LAB, Options::default()).unwrap();
    assert_eq!(plain(&setup.everything()), COMPLETE);
    let calls = setup.fake.take_calls();
    let count = |words: &str| calls.iter().filter(|call| call.starts_with(words)).count();
    assert_eq!((count("group create"), count("aks create")), (1, 2), "{calls:#?}");
}

#[test]
fn question_that_got_lost_is_asked_again() {
    let setup = Setup::new();
    for trouble in [
        Trouble::Cut,
        Trouble::Refuse {
            status: 429,
            code: "TooManyRequests".to_owned(),
            message: "Wait.".to_owned(),
            retry_after: Some(1),
        },
    ] {
        setup.fault(Fault { within: true, ..Fault::new("GET", "/skus", 2, trouble) });
        assert!(setup.aks().preflight(&setup.lab(LAB)).is_empty());
        assert!(setup.fake.model().faults.iter().all(|fault| fault.times == 0));
    }
}

#[test]
fn pool_that_failed_is_made_once_more_then_reported() {
    let failing = |times| {
        Fault::fail_later(
            "/agentpools/extra",
            times,
            "AllocationFailed",
            "Allocation failed. We do not have sufficient capacity for the requested VM size in this region.",
        )
    };
    let setup = Setup::new();
    setup.fault(failing(1));
    setup.up(LAB, Options::default()).unwrap();
    assert_eq!(plain(&setup.everything()), COMPLETE);
    let told = setup.told.0.lock().unwrap().clone();
    assert!(told.len() == 1 && told[0].contains("pool `extra` failed in Azure: (AllocationFailed)"), "{told:?}");

    let setup = Setup::new();
    setup.fault(failing(2));
    let error = setup.up(LAB, Options::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Outside);
    assert!(error.to_string().contains("We do not have sufficient capacity"), "{error}");
    assert!(error.left_behind[0].contains("in state Failed"), "{:?}", error.left_behind);
    // The next `up` asks for it again, and takes nothing away.
    setup.fake.take_calls();
    setup.up(LAB, Options::default()).unwrap();
    assert_eq!(plain(&setup.everything()), COMPLETE);
    assert_eq!(setup.calls_with("aks nodepool delete"), 0);
}

#[test]
fn pool_whose_change_failed_is_asked_to_change_again_and_never_removed() {
    let scarce = "We do not have sufficient capacity for the requested VM size in this region.";
    for pool in ["extra", "system"] {
        let setup = Setup::new();
        setup.up(LAB, Options::default()).unwrap();
        let machines = |setup: &Setup| {
            let pools = setup.fake.model().pools();
            pools.into_iter().map(|pool| (pool.name, pool.generation)).collect::<Vec<_>>()
        };
        let before = machines(&setup);
        let larger = if pool == "extra" {
            LAB.replace("nodes = 2", "nodes = 3")
        } else {
            LAB.replace("mode = \"system\"", "mode = \"system\"\nnodes = 2")
        };
        assert_ne!(larger, LAB);
        setup.fault(Fault::fail_later(&format!("/agentpools/{pool}"), 2, "AllocationFailed", scarce));
        setup.fake.take_calls();
        for _ in 0..2 {
            let error = setup.up(&larger, Options::default()).unwrap_err();
            assert!(error.to_string().contains(scarce), "{error}");
            assert!(error.left_behind[0].contains("asks for it again"), "{:?}", error.left_behind);
        }
        let actions = setup.up(&larger, Options::default()).unwrap();
        assert_eq!(actions.len(), 1, "{actions:?}");
        assert_eq!(setup.calls_with("aks nodepool delete"), 0);
        assert_eq!(machines(&setup), before, "no machine was recreated");
        assert_eq!(setup.up(&larger, Options::default()).unwrap(), []);
    }
}

#[test]
fn change_that_azure_itself_broke_is_asked_for_once_more_at_once() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    setup.fault(Fault::fail_later("/agentpools/extra", 1, "InternalOperationError", "Internal server error"));
    setup.up(&LAB.replace("nodes = 2", "nodes = 3"), Options::default()).unwrap();
    let told = setup.told.0.lock().unwrap().clone();
    assert!(told.len() == 1 && told[0].contains("it is asked for once more"), "{told:?}");
    assert_eq!(setup.up(&LAB.replace("nodes = 2", "nodes = 3"), Options::default()).unwrap(), []);
}

#[test]
fn cluster_that_came_up_once_is_not_made_again_when_everything_in_it_failed() {
    let text = "lab = \"pools\"\nprovider = \"aks\"\n[pool.system]\nmode = \"system\"\n";
    let setup = Setup::new();
    setup.up(text, Options::default()).unwrap();
    setup.fake.model().fail_all("InternalOperationError", "Internal server error");
    setup.fake.take_calls();
    setup.up(text, Options::default()).unwrap();
    let calls = setup.fake.take_calls();
    assert!(!calls.iter().any(|call| call.contains("delete") || call.contains("create")), "{calls:#?}");
    assert_eq!(setup.up(text, Options::default()).unwrap(), []);
}

#[test]
fn pool_that_never_came_up_is_made_again_with_another_size_only_when_allowed() {
    let setup = Setup::new();
    let scarce = "We do not have sufficient capacity for the requested VM size in this region.";
    setup.fault(Fault::fail_later("/agentpools/extra", 2, "AllocationFailed", scarce));
    setup.up(LAB, Options::default()).unwrap_err();
    let other = LAB.replacen("nodes = 2\nsize = \"Standard_B2ms\"", "nodes = 2\nsize = \"Standard_B4ms\"", 1);
    let error = setup.up(&other, Options::default()).unwrap_err();
    assert!(error.hints[0].contains("--replace-pools"), "{:?}", error.hints);
}

#[test]
fn cluster_that_failed_is_made_once_more() {
    let setup = Setup::new();
    let fault = Fault::fail_later("/managedclusters/", 1, "InternalServerError", "Internal server error");
    setup.fault(Fault { within: true, ..fault });
    setup.up(LAB, Options::default()).unwrap();
    assert_eq!(plain(&setup.everything()), COMPLETE);
}

#[test]
fn what_is_left_and_costs_is_named_whatever_went_wrong() {
    let setup = Setup::new();
    let words = "The client 'c' does not have authorization to perform action 'a' over scope 's'.";
    setup.fault(Fault::refuse("PUT", "/agentpools/extra", 1, 403, "AuthorizationFailed", words));
    let error = setup.up(LAB, Options::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Outside);
    let left = error.left_behind.join("\n");
    assert!(left.contains("resource group `klab-pools-") && left.contains("whose machines cost money"), "{left}");
}

#[test]
fn expired_login_is_said_once() {
    let setup = Setup::new();
    let fault = Fault::refuse(
        "GET",
        "",
        u32::MAX,
        401,
        "ExpiredAuthenticationToken",
        "The access token expiry UTC time has passed.",
    );
    setup.fault(Fault { within: true, ..fault });
    let problems = setup.aks().preflight(&setup.lab(LAB));
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(problems[0].hints[0].contains("az login"), "{problems:#?}");
}

#[test]
fn group_of_somebody_else_is_not_touched() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    setup.fake.model().tag_all("klab-owner", "somebody-else");
    let error = setup.up(&LAB.replace("nodes = 2", "nodes = 3"), Options::default()).unwrap_err();
    assert!(error.to_string().contains("does not carry the tags of this lab"), "{error}");
    let before = plain(&setup.everything());
    let error = setup.down().unwrap_err();
    assert!(error.to_string().contains("does not carry the tags of this lab"), "{error}");
    assert_eq!(plain(&setup.everything()), before);
}

#[test]
fn removal_that_azure_does_not_do_is_asked_for_again() {
    for text in [LAB.to_owned(), format!("{LAB}\n[aks]\nresource_group = \"team\"\n")] {
        for keeps_reasons in [true, false] {
            let setup = Setup::with(Latency { delete: Duration::from_millis(20), ..Latency::NONE });
            setup.fake.model().add_group("team", json!({}));
            setup.fake.model().keeps_reasons = keeps_reasons;
            setup.up(&text, Options::default()).unwrap();
            let path = if text == LAB { "/resourcegroups/klab-pools" } else { "/managedclusters/klab-pools" };
            setup.fault(Fault::stays(path, 2, "InternalOperationError", "The network interface is in use."));
            assert_eq!(setup.down().unwrap(), Vec::<String>::new());
            assert_eq!(setup.everything(), ["group/team"]);
            let told = setup.told.0.lock().unwrap().clone();
            assert!(told.len() == 2 && told[0].contains("is asked again"), "{told:?}");
            assert!(told[0].contains("The network interface is in use."), "{told:?}");
        }
    }
}

#[test]
fn removal_that_azure_never_does_ends_with_what_is_left() {
    let setup = Setup::with(Latency { delete: Duration::from_millis(5), ..Latency::NONE });
    setup.up(LAB, Options::default()).unwrap();
    setup.fault(Fault::stays("/resourcegroups/", u32::MAX, "InternalOperationError", "A nested lock."));
    let error = setup.down().unwrap_err();
    let words = error.to_string();
    assert!(
        words.contains("is still there; Azure took 4 requests to remove it") && words.contains("A nested lock."),
        "{words}"
    );
    assert!(error.left_behind[0].contains("in state Succeeded"), "{:?}", error.left_behind);
    assert!(error.hints.iter().any(|hint| hint.contains("az lock list")), "{:?}", error.hints);
}

#[test]
fn cluster_of_somebody_else_in_klabs_group_does_not_go_without_a_word() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    let group = setup.everything().into_iter().find_map(|name| name.strip_prefix("group/klab-").map(str::to_owned));
    let group = format!("klab-{}", group.unwrap());
    setup.fake.model().add_cluster(&group, "precious", json!({ "cost": "42" }));
    let before = setup.everything();
    let error = setup.down().unwrap_err();
    assert!(error.to_string().contains("cluster `precious`") && error.kind() == Kind::Outside, "{error}");
    assert!(error.hints.iter().any(|hint| hint.contains("az group delete")), "{:?}", error.hints);
    assert_eq!(setup.everything(), before);
}

#[test]
fn what_azure_did_not_take_is_asked_again_wherever_it_was_asked() {
    let trouble = |status: u16| Trouble::Refuse {
        status,
        code: "InternalServerError".to_owned(),
        message: "Encountered internal server error.".to_owned(),
        retry_after: None,
    };
    for trouble in [Trouble::Cut, trouble(500)] {
        let setup = Setup::new();
        setup.fault(Fault::new("POST", "/listclusterusercredential", 2, trouble));
        setup.up(LAB, Options::default()).unwrap();
        assert_eq!(setup.fake.model().faults[0].times, 0);
    }
}

#[test]
fn group_that_aks_has_not_heard_of_yet_is_waited_for() {
    let setup = Setup::new();
    let words = "Resource group 'klab-pools' could not be found.";
    let fault = Fault::refuse("PUT", "/managedclusters/", 2, 404, "ResourceGroupNotFound", words);
    setup.fault(Fault { within: true, ..fault });
    setup.up(LAB, Options::default()).unwrap();
    assert_eq!(plain(&setup.everything()), COMPLETE);
}

#[test]
fn reason_that_azure_did_not_keep_is_looked_up() {
    let setup = Setup::new();
    setup.fake.model().keeps_reasons = false;
    let scarce = "We do not have sufficient capacity for the requested VM size in this region.";
    setup.fault(Fault::fail_later("/agentpools/extra", 2, "AllocationFailed", scarce));
    let error = setup.up(LAB, Options::default()).unwrap_err();
    assert!(error.to_string().contains(scarce) && error.kind() == Kind::Outside, "{error}");
    assert!(error.hints[0].contains("another size"), "{:?}", error.hints);
}

#[test]
fn missing_az_is_explained() {
    let setup = Setup::new();
    let aks = Aks::with(&setup.home, Path::new("/nowhere/az"), Pace::default());
    let problems = aks.preflight(&setup.lab(LAB));
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(problems[0].hints[0].contains("install"), "{problems:#?}");
}

/// What other programs write to the two streams of az.
const NOISE: [(&str, &str); 5] = [
    (
        "",
        "/usr/lib/python3/dist-packages/requests/__init__.py:87: RequestsDependencyWarning: urllib3 (2.0.7) or chardet (5.1.0) doesn't match a supported version!\n  warnings.warn(\n",
    ),
    ("\u{feff}", "WARNING: You have 2 update(s) available.\n"),
    ("[notice] A new release of pip is available\n", "mesg: ttyname failed: Inappropriate ioctl for device\n"),
    ("{\"level\":\"info\"}\n", "sys:1: ResourceWarning: unclosed <socket.socket fd=3>\n"),
    ("\r\n\r\n", "\n"),
];

#[test]
fn whatever_others_print_beside_az_a_lab_comes_up_changes_and_goes() {
    let changed = LAB.replace("nodes = 2", "nodes = 3").replace("workload = \"extra\"", "workload = \"other\"");
    let message = "The client 'c' does not have authorization to perform action 'a' over scope 's'.";
    for (stdout, stderr) in NOISE {
        let setup = Setup::new();
        setup.fake.add_noise(stdout, stderr);
        setup.up(LAB, Options::default()).unwrap_or_else(|error| panic!("{stdout:?} {stderr:?}: {error}"));
        assert_eq!(setup.up(LAB, Options::default()).unwrap(), []);
        setup.fault(Fault::refuse("PUT", "/agentpools/extra", 1, 403, "AuthorizationFailed", message));
        let error = setup.up(&changed, Options::default()).unwrap_err();
        assert!(error.to_string().contains(message) && error.kind() == Kind::Outside, "{stderr:?}: {error}");
        assert!(!error.to_string().contains("Dependency"), "{error}");
        setup.up(&changed, Options::default()).unwrap();
        assert_eq!(plain(&setup.everything()), COMPLETE);
        assert_eq!(setup.down().unwrap(), Vec::<String>::new());
        assert_eq!(setup.everything(), Vec::<String>::new());
    }
}

#[test]
fn az_that_prints_no_answer_is_told_once_and_with_its_words() {
    let folder = tempfile::tempdir().unwrap();
    for (script, told) in [
        ("exit 0", "az ended well and printed nothing"),
        ("echo '<html>Blocked by the proxy</html>'", "<html>Blocked by the proxy</html>"),
        ("echo '{ \"value\": ['; echo '  {}'", "az printed no answer"),
        ("echo 'az: line 3: python3: command not found' >&2; exit 127", "python3: command not found"),
        (
            "echo 'Traceback (most recent call last):' >&2; echo '  File \"<string>\"' >&2; \
             echo \"ModuleNotFoundError: No module named 'azure'\" >&2; exit 1",
            "ModuleNotFoundError: No module named 'azure'",
        ),
        ("exit 1", "az exited with code 1 and printed nothing"),
    ] {
        let setup = Setup::new();
        let az = folder.path().join("az");
        std::fs::write(&az, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&az, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let problems = Aks::with(&setup.home, &az, Setup::pace()).preflight(&setup.lab(LAB));
        assert_eq!(problems.len(), 1, "{script}: {problems:#?}");
        let problem = &problems[0];
        assert!(problem.to_string().contains(told) && problem.kind() == Kind::Outside, "{script}: {problem}");
        assert!(problem.hints[0].ends_with("\naz version"), "{:?}", problem.hints);
    }
}

#[test]
fn pools_of_others_are_neither_removed_nor_taken_for_a_stand_in() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    let cluster = setup.everything().into_iter().find_map(|name| name.strip_prefix("cluster/").map(str::to_owned));
    let cluster = cluster.unwrap();
    for name in ["theirs", "extrax"] {
        setup.az(&format!("aks nodepool add -g {cluster} --cluster-name {cluster} -n {name} -c 1 -s Standard_B2ms --tags owner=somebody"));
    }
    assert_eq!(setup.up(LAB, Options::default()).unwrap(), []);
    let larger = LAB.replacen("nodes = 2\nsize = \"Standard_B2ms\"", "nodes = 2\nsize = \"Standard_B4ms\"", 1);
    setup.fake.take_calls();
    // Nothing answers behind the stand-in's kubeconfig, so that it goes as far as the drain.
    setup.up(&larger, Options { replace_pools: true }).unwrap_err();
    let calls = setup.fake.take_calls();
    assert!(
        calls.iter().any(|call| call.starts_with("aks nodepool add") && call.contains(" -n extray ")),
        "{calls:#?}"
    );
    assert!(!calls.iter().any(|call| call.starts_with("aks nodepool delete")), "{calls:#?}");
}

#[test]
fn tags_that_a_policy_takes_away_are_noticed_at_once_and_nothing_is_said_to_be_gone() {
    for (fits, prefix, what) in [
        ((|_| true) as fn(&str) -> bool, "klab-", "resource group `klab-pools"),
        (|_| true, "klab-owner", "resource group `klab-pools"),
        (|path| !path.contains("/providers/"), "klab-", "resource group `klab-pools"),
        (|path| path.contains("/managedclusters/"), "klab-", "cluster `klab-pools"),
    ] {
        let setup = Setup::new();
        setup.fake.model().strips = Some((fits, prefix));
        let error = setup.up(LAB, Options::default()).unwrap_err();
        let words = error.to_string();
        assert!(words.contains(what) && words.contains("does not carry the tags of this lab"), "{words}");
        assert!(error.hints.iter().any(|hint| hint.contains("az policy assignment list")), "{:?}", error.hints);
        let left = error.left_behind.join("\n");
        assert!(left.contains("resource group `klab-pools") && left.contains("without the lab's tags"), "{left}");
        let before = setup.everything();
        for _ in 0..2 {
            let error = setup.down().unwrap_err();
            assert!(error.to_string().contains("does not carry the tags"), "{error}");
            assert!(error.left_behind.join(" ").contains("resource group `klab-pools"), "{:?}", error.left_behind);
            assert!(error.hints.iter().any(|hint| hint.contains("az group delete -n klab-pools")), "{:?}", error.hints);
            assert_eq!(setup.everything(), before);
        }
    }
}

#[test]
fn pools_without_their_tags_are_told_and_stay() {
    let setup = Setup::new();
    setup.fake.model().strips = Some((|path| path.contains("/agentpools/"), "klab-"));
    setup.up(LAB, Options::default()).unwrap();
    let told = setup.told.0.lock().unwrap().clone();
    assert!(told.len() == 2 && told.iter().all(|words| words.contains("came without the lab's tags")), "{told:?}");
    setup.up(&LAB.replace("nodes = 2", "nodes = 3"), Options::default()).unwrap();
    assert_eq!(setup.up(&LAB.replace("[pool.extra]", "[pool.other]"), Options::default()).unwrap().len(), 1);
    assert!(plain(&setup.everything()).contains(&"pool/klab-pools/extra".to_owned()));
    assert_eq!(setup.down().unwrap(), Vec::<String>::new());
}

/// Every question, answered for a while as if there were nothing yet.
#[test]
fn what_azure_shows_late_is_waited_for() {
    for (path, within, times, code) in [
        ("/managedclusters/klab-pools", true, 6, "ResourceNotFound"),
        ("/managedclusters/klab-pools", true, 6, "ResourceGroupNotFound"),
        ("/agentpools", false, 4, "NotFound"),
        ("/resourcegroups/klab-pools", true, 5, "ResourceGroupNotFound"),
    ] {
        let setup = Setup::with(Latency {
            create: Duration::from_millis(30),
            pool: Duration::from_millis(30),
            delete: Duration::ZERO,
        });
        let fault = Fault::refuse("GET", path, times, 404, code, "It could not be found.");
        setup.fault(Fault { within, ..fault });
        setup.up(LAB, Options::default()).unwrap_or_else(|error| panic!("{path} {code}: {error}"));
        assert_eq!(plain(&setup.everything()), COMPLETE, "{path} {code}");
        assert_eq!(setup.fake.model().faults[0].times, 0, "{path}: the fault did not fire");
    }
}

#[test]
fn what_azure_does_not_show_for_a_moment_is_removed_all_the_same() {
    for text in [LAB.to_owned(), format!("{LAB}\n[aks]\nresource_group = \"team\"\n")] {
        for times in [1, 2] {
            let setup = Setup::with(Latency { delete: Duration::from_millis(20), ..Latency::NONE });
            setup.fake.model().add_group("team", json!({}));
            setup.up(&text, Options::default()).unwrap();
            let fault =
                Fault::refuse("GET", "/resourcegroups/", times, 404, "ResourceNotFound", "It could not be found.");
            setup.fault(Fault { within: true, ..fault });
            assert_eq!(setup.down().unwrap(), Vec::<String>::new());
            assert_eq!(setup.everything(), ["group/team"]);
        }
    }
}

#[test]
fn group_that_is_taken_away_under_up_leaves_nothing_to_be_told() {
    // Longer than it takes to take the group away.
    let setup = Setup::with(Latency { pool: Duration::from_mins(10), ..Latency::NONE });
    let model = std::sync::Arc::clone(&setup.fake.model);
    let taken = std::thread::spawn(move || {
        loop {
            let mut model = model.lock().unwrap();
            if model.requests.iter().any(|request| request.starts_with("PUT") && request.contains("/agentPools/")) {
                return model.remove_group("klab-pools");
            }
            drop(model);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let error = setup.up(LAB, Options::default()).unwrap_err();
    taken.join().unwrap();
    assert_eq!(error.left_behind, Vec::<String>::new(), "{error}");
    assert_eq!(setup.down().unwrap(), Vec::<String>::new());
}

#[test]
fn cluster_that_somebody_stops_meanwhile_is_told_to_be_paused() {
    let setup = Setup::with(Latency { pool: Duration::from_millis(200), ..Latency::NONE });
    setup.up(LAB, Options::default()).unwrap();
    let cluster = setup.everything().into_iter().find_map(|name| name.strip_prefix("cluster/").map(str::to_owned));
    let cluster = cluster.unwrap();
    // Seen by `up` before it began.
    let (lab, aks) = (setup.lab(LAB), setup.aks());
    let observed = aks.observe("pools", Some(&lab)).unwrap();
    setup.az(&format!("aks stop -g {cluster} -n {cluster} --no-wait"));
    let error = setup.work("up", |work| aks.check_nodes(&lab, true, work)).unwrap_err();
    assert!(error.to_string().contains("lab `pools` is paused") && !observed.stopped, "{error}");
    let error = setup.up(LAB, Options::default()).unwrap_err();
    assert!(error.to_string().contains("is paused") && error.hints[0].contains("klab resume pools"), "{error}");
}

#[test]
fn lab_under_a_lock_that_is_as_declared_stays_usable() {
    let setup = Setup::new();
    // Its kubeconfig does not name the cluster as Azure does.
    setup.fake.model().kubeconfig = Box::new(|_| "apiVersion: v1\nkind: Config\n".to_owned());
    setup.up(LAB, Options::default()).unwrap();
    let locked = "The scope 's' cannot perform write operation because following scope(s) are locked";
    setup.fault(Fault::refuse("POST", "/listclusterusercredential", u32::MAX, 409, "ScopeLocked", locked));
    assert_eq!(setup.up(LAB, Options::default()).unwrap(), []);
}

#[test]
fn cluster_without_local_accounts_is_told_what_to_do() {
    let setup = Setup::new();
    let words = "Getting static credential is not allowed because this cluster is set to disable local accounts.";
    setup.fault(Fault::refuse("POST", "/listclusterusercredential", u32::MAX, 400, "BadRequest", words));
    let error = setup.up(LAB, Options::default()).unwrap_err();
    assert!(error.hints.iter().any(|hint| hint.contains("--enable-local-accounts")), "{:?}", error.hints);
}

#[test]
fn what_is_left_of_a_cluster_that_failed_is_told_once() {
    let setup = Setup::new();
    let fault = Fault::fail_later("/managedclusters/", 2, "InternalServerError", "Internal server error");
    setup.fault(Fault { within: true, ..fault });
    let error = setup.up(LAB, Options::default()).unwrap_err();
    let about = error.left_behind.iter().filter(|words| words.starts_with("cluster ")).collect::<Vec<_>>();
    assert!(about.len() == 1 && about[0].contains("in state Failed"), "{:?}", error.left_behind);
}
