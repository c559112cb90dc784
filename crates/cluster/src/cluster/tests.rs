//! Writes and deletes: names, versions, parts, grace, finalizers, budgets.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS};
use serde_json::{Value, json};

use super::*;
use crate::clock::SteppedClock;

const KUBECTL: fn() -> WriteOptions<'static> = || WriteOptions::client("kubectl");

fn cluster() -> (Arc<SteppedClock>, Cluster) {
    let clock = Arc::new(SteppedClock::new(Timestamp::from_second(1_800_000_000).expect("in range")));
    (Arc::clone(&clock), Cluster::new(clock, 7))
}

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "app": name } }, "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] } })
}

fn config_map(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "a": "1" } })
}

#[test]
fn a_fresh_cluster_has_the_standard_namespaces_with_their_account() {
    let (_, cluster) = cluster();
    let names: Vec<String> =
        cluster.list(NAMESPACES, None).0.iter().map(|namespace| namespace.name.to_string()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    for name in names {
        assert!(cluster.get(klab_api_machinery::resource::SERVICE_ACCOUNTS, &name, "default").is_some());
    }
}

#[test]
fn a_namespace_has_its_account_also_where_its_maker_may_make_none() {
    struct NamespacesOnly;
    impl Guard for NamespacesOnly {
        fn check(&self, _: &Store, intent: &Intent<'_>) -> Result<(), Status> {
            let is_allowed = intent.resource == NAMESPACES;
            if is_allowed { Ok(()) } else { Err(Status::not_found(intent.resource.row(), intent.name)) }
        }
    }
    let (_, cluster) = cluster();
    let options = WriteOptions { guard: Some(&NamespacesOnly), ..KUBECTL() };
    cluster.create(NAMESPACES, "", json!({ "metadata": { "name": "team" } }), &options).expect("created");
    assert!(cluster.get(klab_api_machinery::resource::SERVICE_ACCOUNTS, "team", "default").is_some());
    cluster.create(CONFIG_MAPS, "team", config_map("x"), &options).expect_err("not allowed");
}

#[test]
fn names_are_generated_with_five_letters() {
    let (_, cluster) = cluster();
    let value = json!({ "metadata": { "generateName": "web-" } });
    let made = cluster.create(CONFIG_MAPS, "default", value, &KUBECTL()).expect("created");
    let suffix = made.name.strip_prefix("web-").expect("prefix");
    assert_eq!(suffix.len(), 5);
    assert!(suffix.chars().all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter)));
}

#[test]
fn creating_needs_a_name_and_a_living_namespace() {
    let (_, cluster) = cluster();
    let refused = cluster.create(CONFIG_MAPS, "default", json!({}), &KUBECTL()).expect_err("no name");
    assert_eq!(refused.code, 422);
    let refused = cluster.create(CONFIG_MAPS, "nosuch", config_map("x"), &KUBECTL()).expect_err("no namespace");
    assert_eq!((refused.code, refused.message.as_str()), (404, "namespaces \"nosuch\" not found"));
    cluster.create(NAMESPACES, "", json!({ "metadata": { "name": "team" } }), &KUBECTL()).expect("created");
    cluster.delete(NAMESPACES, "", "team", &DeleteOptions::default()).expect("terminating");
    let refused = cluster.create(CONFIG_MAPS, "team", config_map("late"), &KUBECTL()).expect_err("terminating");
    assert_eq!(
        refused.message,
        "configmaps \"late\" is forbidden: unable to create new content in namespace team because it is being terminated"
    );
}

#[test]
fn a_write_that_changes_nothing_keeps_the_version() {
    let (_, cluster) = cluster();
    let made = cluster.create(CONFIG_MAPS, "default", config_map("one"), &KUBECTL()).expect("created");
    let again =
        cluster.update(CONFIG_MAPS, Part::Main, "default", "one", config_map("one"), &KUBECTL()).expect("accepted");
    assert_eq!(made.resource_version, again.resource_version);
}

#[test]
fn a_stale_version_is_a_conflict_and_identity_stays() {
    let (_, cluster) = cluster();
    let made = cluster.create(CONFIG_MAPS, "default", config_map("one"), &KUBECTL()).expect("created");
    let mut stale = made.to_value();
    stale["data"]["a"] = json!("2");
    let newer = cluster.update(CONFIG_MAPS, Part::Main, "default", "one", stale.clone(), &KUBECTL()).expect("updated");
    assert_eq!(newer.uid, made.uid);
    let refused = cluster.update(CONFIG_MAPS, Part::Main, "default", "one", stale, &KUBECTL()).expect_err("stale");
    assert_eq!((refused.code, refused.reason), (409, "Conflict"));
    let mut other = config_map("one");
    other["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    let refused = cluster.update(CONFIG_MAPS, Part::Main, "default", "one", other, &KUBECTL()).expect_err("immutable");
    assert_eq!(refused.code, 422);
}

#[test]
fn status_and_spec_are_written_apart() {
    let (_, cluster) = cluster();
    cluster.create(PODS, "default", pod("p"), &KUBECTL()).expect("created");
    let options = WriteOptions::by("kubelet");
    let written = cluster
        .modify(PODS, Part::Status, "default", "p", &options, |value| {
            value["status"]["phase"] = json!("Running");
            value["spec"]["priority"] = json!(7);
        })
        .expect("written")
        .value();
    assert_eq!(written["status"]["phase"], "Running");
    assert_ne!(written["spec"]["priority"], 7);
    assert_eq!(written["metadata"]["generation"], 1);
    let written = cluster
        .modify(PODS, Part::Main, "default", "p", &options, |value| {
            value["status"]["phase"] = json!("Failed");
            value["spec"]["containers"][0]["image"] = json!("nginx:1.28");
        })
        .expect("written")
        .value();
    assert_eq!(written["status"]["phase"], "Running");
    assert_eq!(written["metadata"]["generation"], 2);
}

#[test]
fn a_bound_pod_is_deleted_gracefully_and_an_unbound_one_at_once() {
    let (clock, cluster) = cluster();
    cluster.create(PODS, "default", pod("free"), &KUBECTL()).expect("created");
    let gone = cluster.delete(PODS, "default", "free", &DeleteOptions::default()).expect("deleted");
    assert!(matches!(gone, Deleted::Gone(_)));
    cluster.create(PODS, "default", pod("bound"), &KUBECTL()).expect("created");
    cluster.bind("default", "bound", "node-1").expect("bound");
    let refused = cluster.bind("default", "bound", "node-2").expect_err("bound already");
    assert_eq!(
        refused.message,
        "Operation cannot be fulfilled on pods/binding \"bound\": pod bound is already assigned to node \"node-1\""
    );
    let Deleted::Terminating(first) =
        cluster.delete(PODS, "default", "bound", &DeleteOptions::default()).expect("deleted")
    else {
        panic!("a bound pod stays for its grace period")
    };
    assert_eq!(first.value()["metadata"]["deletionGracePeriodSeconds"], 30);
    clock.step(SignedDuration::from_secs(5));
    let again = cluster.delete(PODS, "default", "bound", &DeleteOptions::default()).expect("deleted");
    assert_eq!(again.object().resource_version, first.resource_version);
    let shorter = DeleteOptions { grace_seconds: Some(10), ..DeleteOptions::default() };
    let shortened = cluster.delete(PODS, "default", "bound", &shorter).expect("deleted").object().value();
    assert_eq!(shortened["metadata"]["deletionTimestamp"], "2027-01-15T08:00:10Z");
    let now = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
    assert!(matches!(cluster.delete(PODS, "default", "bound", &now).expect("deleted"), Deleted::Gone(_)));
    assert!(cluster.get(PODS, "default", "bound").is_none());
}

#[test]
fn finalizers_keep_an_object_until_the_last_one_goes() {
    let (_, cluster) = cluster();
    let mut value = config_map("held");
    value["metadata"]["finalizers"] = json!(["lab.example/hold"]);
    cluster.create(CONFIG_MAPS, "default", value, &KUBECTL()).expect("created");
    let stays = cluster.delete(CONFIG_MAPS, "default", "held", &DeleteOptions::default()).expect("deleted");
    assert!(matches!(stays, Deleted::Terminating(_)));
    let refused = cluster
        .modify(CONFIG_MAPS, Part::Main, "default", "held", &KUBECTL(), |value| {
            value["metadata"]["finalizers"] = json!(["lab.example/hold", "lab.example/more"]);
        })
        .expect_err("no new finalizers");
    assert_eq!(refused.code, 422);
    cluster
        .modify(CONFIG_MAPS, Part::Main, "default", "held", &KUBECTL(), |value| {
            value["metadata"]["finalizers"] = json!([]);
        })
        .expect("removed");
    assert!(cluster.get(CONFIG_MAPS, "default", "held").is_none());
}

#[test]
fn foreground_deletion_leaves_a_finalizer_for_the_collector() {
    let (_, cluster) = cluster();
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "m", "image": "i" }] } },
        },
    });
    cluster.create(DEPLOYMENTS, "default", deployment, &KUBECTL()).expect("created");
    let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    let marked = cluster.delete(DEPLOYMENTS, "default", "web", &options).expect("deleted").object().value();
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(marked["metadata"]["generation"], 2);
    let web = cluster.get(DEPLOYMENTS, "default", "web").expect("a deployment");
    let scale = cluster.scale_shown(DEPLOYMENTS, &web).expect("scale");
    assert_eq!(scale["status"], json!({ "replicas": 0, "selector": "app=web" }));
}

#[test]
fn a_namespace_terminates_until_its_finalizers_are_cleared() {
    let (_, cluster) = cluster();
    cluster.create(NAMESPACES, "", json!({ "metadata": { "name": "team" } }), &KUBECTL()).expect("created");
    let marked = cluster.delete(NAMESPACES, "", "team", &DeleteOptions::default()).expect("deleted").object().value();
    assert_eq!(marked["status"]["phase"], "Terminating");
    cluster
        .modify(NAMESPACES, Part::Finalize, "", "team", &KUBECTL(), |value| value["spec"]["finalizers"] = json!([]))
        .expect("finalized");
    assert!(cluster.get(NAMESPACES, "", "team").is_none());
    let refused = cluster.delete(NAMESPACES, "", "default", &DeleteOptions::default()).expect_err("immortal");
    assert_eq!(refused.message, "namespaces \"default\" is forbidden: this namespace may not be deleted");
}

#[test]
fn eviction_respects_the_budget() {
    let (_, cluster) = cluster();
    let running = |name: &str| {
        let mut value = pod(name);
        value["metadata"]["labels"]["app"] = json!("web");
        cluster.create(PODS, "default", value, &KUBECTL()).expect("created");
        cluster.bind("default", name, "n").expect("bound");
        cluster
            .modify(PODS, Part::Status, "default", name, &WriteOptions::by("kubelet"), |value| {
                value["status"]["phase"] = json!("Running");
                value["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
            })
            .expect("running");
    };
    running("a");
    running("b");
    let budget = json!({
        "metadata": { "name": "web" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    cluster.create(POD_DISRUPTION_BUDGETS, "default", budget, &KUBECTL()).expect("created");
    let unseen = cluster.evict("default", "a", &DeleteOptions::default()).expect_err("not processed");
    assert_eq!(unseen.code, 429);
    cluster
        .modify(POD_DISRUPTION_BUDGETS, Part::Status, "default", "web", &WriteOptions::by("c"), |value| {
            value["status"] = json!({
                "observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 1,
            });
        })
        .expect("status");
    let dry = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    cluster.evict("default", "a", &dry).expect("would be evicted");
    cluster.evict("default", "a", &DeleteOptions::default()).expect("evicted");
    let refused = cluster.evict("default", "b", &DeleteOptions::default()).expect_err("budget is used up");
    assert_eq!(
        refused.details["causes"][0]["message"],
        "The disruption budget web needs 1 healthy pods and has 2 currently"
    );
}

#[test]
fn deletion_preconditions_hold() {
    let (_, cluster) = cluster();
    cluster.create(CONFIG_MAPS, "default", config_map("one"), &KUBECTL()).expect("created");
    let other = DeleteOptions { uid: Some("x".to_owned()), ..DeleteOptions::default() };
    let refused = cluster.delete(CONFIG_MAPS, "default", "one", &other).expect_err("another uid");
    assert_eq!((refused.code, &refused.details["kind"]), (409, &json!("ConfigMap")));
    let dry = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    cluster.delete(CONFIG_MAPS, "default", "one", &dry).expect("would be deleted");
    assert!(cluster.get(CONFIG_MAPS, "default", "one").is_some());
}

#[test]
fn concurrent_changes_are_all_kept() {
    let (_, cluster) = cluster();
    cluster.create(CONFIG_MAPS, "default", json!({ "metadata": { "name": "count" } }), &KUBECTL()).expect("created");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cluster = &cluster;
            scope.spawn(move || {
                for at in 0..100 {
                    cluster
                        .modify(CONFIG_MAPS, Part::Main, "default", "count", &KUBECTL(), |value| {
                            value["data"][format!("k{thread}-{at}")] = json!("x");
                        })
                        .expect("written");
                }
            });
        }
    });
    let value = cluster.get(CONFIG_MAPS, "default", "count").expect("there").value();
    assert_eq!(value["data"].as_object().map(serde_json::Map::len), Some(400));
    assert!(cluster.list(NODES, None).0.is_empty());
}
