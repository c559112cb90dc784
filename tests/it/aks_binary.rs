//! `klab … --provider aks` as people type it, through the fake az, with Kubernetes behind it; killed at every call.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::core::v1::Node;
use klab_operations::client::connect;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};

use crate::azure::api::{Latency, Model};
use crate::azure::fake::{Fake, Moment};
use crate::azure::kubernetes;
use crate::environment::Environment;

const SMALL: &str = r#"
lab = "small"
provider = "aks"

[pool.system]
mode = "system"
size = "Standard_B2ms"

[pool.extra]
size = "Standard_B2ms"
labels = { workload = "extra" }

[workload.web]
image = "nginx:1.27"
node_selector = { workload = "extra" }

[[check]]
workload = "web"
on = "pool:extra"
running = 1
"#;

pub(crate) struct Setup {
    pub(crate) environment: Environment,
    pub(crate) fake: Fake,
    _kubernetes: kubernetes::Behind,
}

impl Setup {
    pub(crate) fn new(latency: Latency) -> Self {
        let environment = Environment::new();
        let fake = Fake::start(Model::new(latency));
        let kubernetes = kubernetes::attach(&fake.model, environment.folder());
        environment.write("small.toml", SMALL);
        Self { environment, fake, _kubernetes: kubernetes }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.environment.command(arguments);
        command.env("KLAB_AZ", self.fake.program(self.environment.folder())).env("KLAB_AKS_POLL", "2ms");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let shown = self.environment.shown(&output);
        assert!(output.status.success(), "klab {arguments:?}\n{shown}");
        shown
    }

    pub(crate) fn everything(&self) -> Vec<String> {
        self.fake.model().everything()
    }

    /// Does something with the nodes of the lab's cluster.
    fn with_nodes<T, F: Future<Output = T>>(&self, act: impl FnOnce(Api<Node>) -> F) -> T {
        let path = self.run(&["kubeconfig", "small", "--path"]);
        let path = String::from_utf8(path.stdout).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { act(Api::all(connect(Path::new(path.trim())).await.unwrap())).await })
    }

    /// Pool, label `workload` and taints of each node.
    fn nodes(&self) -> Vec<String> {
        let nodes = self.with_nodes(|api| async move { api.list(&ListParams::default()).await.unwrap().items });
        let mut lines: Vec<String> = nodes
            .iter()
            .map(|node| {
                let label = |key: &str| node.labels().get(key).cloned().unwrap_or_default();
                let taints =
                    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).map(klab_lab::plan::taint_text);
                let taints: Vec<String> = taints.collect();
                format!("{} workload={} {}", label("agentpool"), label("workload"), taints.join(","))
            })
            .collect();
        lines.sort();
        lines
    }

    fn change_nodes(&self, patch: &serde_json::Value, selector: &str) {
        self.with_nodes(|api| async move {
            for node in api.list(&ListParams::default().labels(selector)).await.unwrap() {
                api.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
            }
        });
    }
}

#[test]
fn scheduling_lab_goes_up_changes_and_leaves_nothing() {
    let setup = Setup::new(Latency::NONE);
    let text = std::fs::read_to_string("labs/scheduling.toml").unwrap();
    setup.environment.write("scheduling.toml", &text);
    setup.succeeds(&["up", "scheduling.toml", "--provider", "aks"]);
    setup.succeeds(&["verify", "scheduling"]);
    let changed = text.replace(
        "nodes  = 1\nsize   = \"Standard_B2ms\"\nlabels = { workload = \"extra\" }",
        "nodes  = 2\nsize   = \"Standard_B2ms\"\nlabels = { workload = \"extra\", team = \"a\" }",
    );
    assert_ne!(changed, text);
    let changed = changed.replace("exist   = 1", "exist   = 2").replace("running      = 3", "running      = 4");
    setup.environment.write("scheduling.toml", changed);
    setup.succeeds(&["up", "scheduling.toml", "--provider", "aks"]);
    let verified = setup.succeeds(&["verify", "scheduling"]);
    assert!(verified.contains("5 of 5"), "{verified}");
    setup.succeeds(&["down", "scheduling"]);
    assert_eq!((setup.everything(), setup.environment.leftovers()), (Vec::new(), Vec::new()));
}

/// Runs `arguments` killed at each call of az in turn; gives the number of calls.
fn killed_at_every_call(moment: Moment, prepare: impl Fn(&Setup), arguments: &[&str], after: impl Fn(&Setup)) -> usize {
    let latency = Latency {
        create: std::time::Duration::from_millis(25),
        pool: std::time::Duration::from_millis(25),
        delete: std::time::Duration::from_millis(10),
    };
    for call in 1.. {
        let setup = Setup::new(latency);
        prepare(&setup);
        setup.fake.kill_at(call, moment);
        let output = setup.run(arguments);
        if !setup.fake.stop_killing() {
            assert!(output.status.success(), "{}", setup.environment.shown(&output));
            return call - 1;
        }
        assert_eq!(output.status.signal(), Some(9), "call {call}: {}", setup.environment.shown(&output));
        after(&setup);
    }
    unreachable!("the loop ends with the first run that is not killed")
}

fn converges_and_goes(setup: &Setup) {
    setup.succeeds(&["up", "small.toml"]);
    let everything = setup.everything();
    assert_eq!(everything.len(), 5, "group, group of machines, cluster, two pools: {everything:?}");
    setup.succeeds(&["down", "small"]);
    assert_eq!((setup.everything(), setup.environment.leftovers()), (Vec::new(), Vec::new()));
}

fn goes(setup: &Setup) {
    setup.succeeds(&["down", "small"]);
    assert_eq!((setup.everything(), setup.environment.leftovers()), (Vec::new(), Vec::new()));
}

#[test]
fn up_killed_before_any_call_of_az_converges() {
    let calls = killed_at_every_call(Moment::Before, |_| {}, &["up", "small.toml"], converges_and_goes);
    assert!(calls >= 10, "{calls}");
}

#[test]
fn up_killed_after_any_call_of_az_converges() {
    let calls = killed_at_every_call(Moment::After, |_| {}, &["up", "small.toml"], converges_and_goes);
    assert!(calls >= 10, "{calls}");
}

#[test]
fn up_killed_at_any_call_of_az_goes_down_without_a_rest() {
    killed_at_every_call(Moment::After, |_| {}, &["up", "small.toml"], goes);
}

#[test]
fn what_az_makes_after_its_klab_was_killed_goes_with_the_next_down() {
    let calls = killed_at_every_call(Moment::Meanwhile, |_| {}, &["up", "small.toml", "--no-wait"], goes);
    assert!(calls >= 10, "{calls}");
}

#[test]
fn down_killed_at_any_call_of_az_is_finished_by_another() {
    let up = |setup: &Setup| drop(setup.succeeds(&["up", "small.toml"]));
    let calls = killed_at_every_call(Moment::After, up, &["down", "small"], goes);
    assert!(calls >= 4, "{calls}");
}

#[test]
fn interrupted_up_says_what_goes_on_and_how_to_go_on() {
    let long = std::time::Duration::from_mins(1);
    let setup =
        Setup::new(Latency { create: std::time::Duration::ZERO, pool: long, delete: std::time::Duration::ZERO });
    let child = setup.command(&["up", "small.toml"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let started = std::time::Instant::now();
    while !setup
        .fake
        .model()
        .requests
        .iter()
        .any(|request| request.starts_with("PUT") && request.contains("agentPools"))
    {
        assert!(started.elapsed() < long, "no pool was asked for");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    for expected in [
        "pool `extra` of cluster `klab-small-",
        "is being created",
        "this continues:\n    klab up small.toml\n",
        "this removes it:\n    klab down small\n",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    setup.succeeds(&["down", "small"]);
    assert_eq!((setup.everything(), setup.environment.leftovers()), (Vec::new(), Vec::new()));
}

#[test]
fn up_takes_back_what_steps_and_kubectl_put_on_nodes() {
    let setup = Setup::new(Latency::NONE);
    let step = "\n[[step]]\nname = \"taint\"\ndo = [{ taint = \"dedicated=special:NoSchedule\", nodes = \"agentpool=extra\" }]\n";
    setup.environment.write("small.toml", format!("{SMALL}{step}"));
    setup.succeeds(&["up", "small.toml"]);
    setup.succeeds(&["step", "small"]);
    let nodes = || setup.nodes();
    assert_eq!(nodes(), ["extra workload=extra dedicated=special:NoSchedule", "system workload= "]);
    setup.change_nodes(&serde_json::json!({ "metadata": { "labels": { "workload": "x" } } }), "agentpool=extra");
    assert_eq!(nodes(), ["extra workload=x dedicated=special:NoSchedule", "system workload= "]);
    let said = setup.succeeds(&["up", "small.toml"]);
    assert_eq!(nodes(), ["extra workload=extra ", "system workload= "], "{said}");
    assert!(said.contains("label workload=extra, no taint dedicated=special:NoSchedule"), "{said}");
    assert!(!said.contains("nothing changed") && !said.contains("drift"), "{said}");
    let said = setup.succeeds(&["up", "small.toml"]);
    assert!(said.contains("nothing changed"), "{said}");
    setup.succeeds(&["step", "small"]);
    setup.succeeds(&["down", "small"]);
}

#[test]
fn a_step_has_azure_take_spot_machines_back() {
    let setup = Setup::new(Latency::NONE);
    let step = "\n[pool.burst]\nsize = \"Standard_B2ms\"\nspot = true\nnodes = 2\n\
                \n[[step]]\nname = \"spot\"\ndo = [{ reclaim_pool = \"burst\", count = 1 }]\n";
    setup.environment.write("small.toml", format!("{SMALL}{step}"));
    setup.succeeds(&["up", "small.toml"]);
    let nodes = setup.with_nodes(|api| async move {
        api.list(&ListParams::default().labels("agentpool=burst")).await.unwrap().items
    });
    let name = nodes[0].name_any();
    let set = name.strip_suffix("000000").unwrap();
    let said = setup.succeeds(&["step", "small"]);
    assert!(said.contains(&format!("Reclaiming node {name}")), "{said}");
    let calls = std::fs::read_to_string(setup.environment.home().join("labs/small/az.log")).unwrap();
    let asked: Vec<&str> = calls.lines().filter(|line| line.contains("simulate-eviction")).collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains(&format!("vmss simulate-eviction -g mc_small -n {set} --instance-id 0")), "{asked:?}");
    setup.succeeds(&["down", "small"]);
}

#[test]
fn removal_is_finished_by_list() {
    let setup = Setup::new(Latency::NONE);
    setup.succeeds(&["up", "small.toml", "--no-wait"]);
    setup.fake.model().held = true;
    setup.succeeds(&["down", "small", "--no-wait"]);
    let listed = setup.succeeds(&["list"]);
    assert!(listed.contains("being removed"), "{listed}");
    setup.fake.model().held = false;
    assert_eq!(setup.everything(), Vec::<String>::new());
    setup.succeeds(&["list"]);
    assert_eq!(setup.environment.leftovers(), Vec::<String>::new());
}

#[test]
fn paused_lab_costs_no_machines_and_comes_back() {
    let setup = Setup::new(Latency::NONE);
    setup.succeeds(&["up", "small.toml"]);
    setup.succeeds(&["pause", "small"]);
    let refused = setup.environment.shown(&setup.run(&["up", "small.toml"]));
    assert!(refused.contains("klab resume small") && refused.contains("status 3"), "{refused}");
    setup.succeeds(&["resume"]);
    setup.succeeds(&["up", "small.toml"]);
    setup.succeeds(&["down", "small"]);
}

#[test]
fn expired_labs_are_collected_on_demand_only() {
    let setup = Setup::new(Latency::NONE);
    setup.environment.write("small.toml", format!("ttl = \"8h\"\n{SMALL}"));
    setup.succeeds(&["up", "small.toml", "--no-wait"]);
    let young = setup.succeeds(&["gc", "--yes"]);
    assert!(young.contains("0 expired labs") && !setup.everything().is_empty(), "{young}");
    setup.fake.model().tag_all("klab-expires", "2026-01-01T00:00:00Z");
    let listed = setup.succeeds(&["gc"]);
    assert!(
        listed.contains("small") && listed.contains("2026-01-01 00:00 UTC") && !setup.everything().is_empty(),
        "{listed}"
    );
    setup.succeeds(&["gc", "--yes"]);
    assert_eq!((setup.everything(), setup.environment.leftovers()), (Vec::new(), Vec::new()));
}

#[test]
fn pool_is_made_again_while_its_pods_have_a_place() {
    let setup = Setup::new(Latency::NONE);
    setup.succeeds(&["up", "small.toml"]);
    setup.environment.write(
        "small.toml",
        SMALL.replace("[pool.extra]\nsize = \"Standard_B2ms\"", "[pool.extra]\nsize = \"Standard_B4ms\""),
    );
    let refused = setup.environment.shown(&setup.run(&["up", "small.toml"]));
    assert!(
        refused.contains("size Standard_B2ms becomes Standard_B4ms") && refused.contains("--replace-pools"),
        "{refused}"
    );
    setup.fake.take_calls();
    setup.succeeds(&["up", "small.toml", "--replace-pools"]);
    let calls = setup.fake.take_calls();
    let changes: Vec<String> = calls
        .iter()
        .filter(|call| call.starts_with("aks nodepool add") || call.starts_with("aks nodepool delete"))
        .map(|call| {
            let words: Vec<&str> = call.split(' ').collect();
            let name = words.iter().position(|word| *word == "-n").map_or("?", |at| words[at + 1]);
            format!("{} {name}", words[2])
        })
        .collect();
    assert_eq!(changes, ["add extrax", "delete extra", "add extra", "delete extrax"]);
    setup.succeeds(&["verify", "small"]);
    setup.succeeds(&["down", "small"]);
}

#[test]
fn replacement_killed_at_any_call_of_az_is_finished_by_another() {
    let up = |setup: &Setup| {
        setup.succeeds(&["up", "small.toml"]);
        let larger = SMALL.replace("[pool.extra]\nsize = \"Standard_B2ms\"", "[pool.extra]\nsize = \"Standard_B4ms\"");
        setup.environment.write("small.toml", larger);
    };
    let replace = ["up", "small.toml", "--replace-pools"];
    let after = |setup: &Setup| {
        setup.succeeds(&replace);
        let everything = setup.everything();
        assert_eq!(everything.len(), 5, "group, group of machines, cluster, two pools: {everything:?}");
        let verified = setup.succeeds(&["verify", "small"]);
        assert!(verified.contains("1 of 1"), "{verified}");
        goes(setup);
    };
    let calls = killed_at_every_call(Moment::After, up, &replace, after);
    assert!(calls >= 8, "{calls}");
}

#[test]
fn end_of_a_lab_follows_its_ttl() {
    let setup = Setup::new(Latency::NONE);
    let tags = |text: &str| {
        setup.environment.write("small.toml", text);
        setup.fake.take_calls();
        let said = setup.succeeds(&["up", "small.toml"]);
        let calls = setup.fake.take_calls();
        let writes_tags = calls.iter().any(|call| call.starts_with("tag update"));
        assert!(!(writes_tags && said.contains("nothing changed")), "{said}");
        let of_tags = calls.into_iter().filter(|call| call.starts_with("tag update"));
        of_tags
            .map(|call| call.split(' ').filter(|word| word.starts_with("klab-ttl=")).collect::<String>())
            .collect::<Vec<String>>()
    };
    let with = |ttl: &str| format!("ttl = \"{ttl}\"\n{SMALL}");
    let none: Vec<String> = Vec::new();
    assert_eq!(tags(&with("8h")), none, "group and cluster are made with their tags");
    assert_eq!(tags(&with("8h")), none);
    assert_eq!(tags(&with("24h")), ["klab-ttl=24h", "klab-ttl=24h"], "group and cluster");
    assert_eq!(tags(SMALL), ["klab-ttl=never", "klab-ttl=never"]);
    assert_eq!(tags(SMALL), none);
    setup.succeeds(&["down", "small"]);
}

#[test]
fn seat_whose_cluster_is_gone_is_made_again_and_a_class_is_paused() {
    let setup = Setup::new(Latency::NONE);
    setup.succeeds(&["up", "small.toml", "--seats", "2", "--no-wait"]);
    setup.fake.model().remove_group("klab-small-02");
    let again = setup.succeeds(&["up", "small.toml", "--seats", "2", "--no-wait"]);
    assert!(again.contains("1 made, 1 unchanged"), "{again}");
    assert_eq!(setup.everything().iter().filter(|name| name.starts_with("cluster/")).count(), 2);
    setup.succeeds(&["pause", "small"]);
    assert_eq!(setup.fake.model().pools_by_cluster(), [], "no machine runs");
    let refused = setup.environment.shown(&setup.run(&["up", "small.toml", "--seats", "2"]));
    assert!(refused.contains("klab resume small-01"), "{refused}");
    setup.succeeds(&["resume", "small.toml"]);
    assert_eq!(setup.fake.model().pools_by_cluster().len(), 2);
    setup.succeeds(&["down", "small"]);
    assert_eq!((setup.everything(), setup.environment.leftovers()), (Vec::new(), Vec::new()));
}

#[test]
fn class_without_the_quota_for_all_its_seats_is_refused_before_anything_is_made() {
    let setup = Setup::new(Latency::NONE);
    setup.fake.model().quota.insert("cores".to_owned(), 8);
    let refused = setup.environment.shown(&setup.run(&["up", "small.toml", "--seats", "3", "--no-wait"]));
    assert!(refused.contains("3 seats of the lab need 12 vCPUs") && refused.contains("status 3"), "{refused}");
    assert_eq!(setup.everything(), Vec::<String>::new());
}

#[test]
fn plan_shows_what_up_would_refuse() {
    let setup = Setup::new(Latency::NONE);
    setup.fake.model().quota.insert("cores".to_owned(), 3);
    let shown = setup.environment.shown(&setup.run(&["plan", "small.toml"]));
    assert!(shown.contains("create the cluster") && shown.contains("status 3"), "{shown}");
    assert!(shown.contains("the lab needs 4 vCPUs"), "{shown}");
    setup.fake.model().quota.insert("cores".to_owned(), 100);
    setup.succeeds(&["up", "small.toml", "--no-wait"]);
    setup.fake.model().tag_all("klab-owner", "somebody-else");
    std::fs::remove_dir_all(setup.environment.home().join("labs/small")).unwrap();
    let shown = setup.environment.shown(&setup.run(&["plan", "small.toml"]));
    assert!(shown.contains("does not carry the tags of this lab") && shown.contains("status 3"), "{shown}");
    assert!(!shown.contains("create the cluster"), "{shown}");
}

#[test]
fn plan_without_a_login_makes_up_no_names() {
    let setup = Setup::new(Latency::NONE);
    let mut command = setup.environment.command(&["plan", "small.toml"]);
    let shown = setup.environment.shown(&command.env("KLAB_AZ", "/nowhere/az").output().unwrap());
    assert!(shown.contains("-n klab-small-xxxxxx ") && shown.contains("status 0"), "{shown}");
}

#[test]
fn paused_lab_is_told_as_such() {
    let setup = Setup::new(Latency::NONE);
    setup.succeeds(&["up", "small.toml", "--no-wait"]);
    setup.succeeds(&["pause", "small"]);
    let listed = setup.succeeds(&["list"]);
    assert!(listed.contains("paused"), "{listed}");
    // Its API is not to be reached then.
    let kubeconfig = setup.environment.home().join("labs/small/kubeconfig");
    let nowhere = "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                   contexts: [{name: a, context: {cluster: a, user: u}}]\nusers: [{name: u, user: {token: t}}]\n";
    std::fs::write(kubeconfig, nowhere).unwrap();
    let shown = setup.environment.shown(&setup.run(&["verify", "small"]));
    assert!(shown.contains("lab `small` is paused") && shown.contains("klab resume small"), "{shown}");
    setup.fake.model().remove_group("klab-small");
    let down = setup.succeeds(&["down", "small"]);
    assert!(down.contains("it was gone") && !down.contains("Removed"), "{down}");
}

#[test]
fn lab_that_costs_too_much_is_refused_before_anything_is_asked_of_azure() {
    let setup = Setup::new(Latency::NONE);
    let refused = setup.environment.shown(&setup.run(&["up", "small.toml", "--max-hourly", "0.1"]));
    assert!(
        refused.contains("the lab may cost $0.1920 an hour, more than $0.1000") && refused.contains("status 2"),
        "{refused}"
    );
    assert_eq!(setup.fake.take_calls(), Vec::<String>::new());
    setup.succeeds(&["up", "small.toml", "--no-wait", "--max-hourly", "0.2"]);
    setup.succeeds(&["down", "small"]);
}

#[test]
fn lab_on_aks_is_left_to_the_az_of_azure() {
    let setup = Setup::new(Latency::NONE);
    setup.succeeds(&["up", "small.toml", "--no-wait"]);
    let variables = setup.succeeds(&["env", "small"]);
    let value = |name: &str| {
        let line = variables.lines().find_map(|line| line.strip_prefix(&format!("export {name}=")));
        line.unwrap().to_owned()
    };
    let (group, cluster) = (value("RES_GROUP"), value("AKS_NAME"));
    let output = setup.run(&["az", "aks", "show", "-g", &group, "-n", &cluster]);
    let shown = setup.environment.shown(&output);
    assert!(shown.contains("which is on AKS itself") && output.status.code() == Some(1), "{shown}");
    assert!(setup.succeeds(&["az", "aks", "list"]).contains("[]"));
    let mut shell = setup
        .command(&["shell", "small"])
        .env("SHELL", "/bin/sh")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut shell.stdin.take().unwrap(), b"echo $PATH\n").unwrap();
    let path = String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(path.trim_end(), std::env::var("PATH").unwrap());
    setup.succeeds(&["down", "small"]);
}

impl Setup {
    /// az as a user types it, of the only cluster.
    fn pool(&self, verb: &str, rest: &str) {
        let cluster = self.everything().into_iter().find_map(|name| name.strip_prefix("cluster/").map(str::to_owned));
        let cluster = cluster.unwrap();
        let line = format!("aks nodepool {verb} -g {cluster} --cluster-name {cluster} {rest}");
        let output = Command::new(self.fake.program(self.environment.folder())).args(line.split(' ')).output().unwrap();
        assert!(output.status.success(), "az {line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let shown = self.environment.shown(&output);
        assert_eq!(output.status.code(), Some(code), "klab {arguments:?}\n{shown}");
        shown
    }

    fn has_pool(&self, name: &str) -> bool {
        self.everything().iter().any(|thing| thing.starts_with("pool/") && thing.ends_with(&format!("/{name}")))
    }
}

#[test]
fn pool_of_somebody_else_goes_only_where_it_is_named() {
    let setup = Setup::new(Latency::NONE);
    setup.succeeds(&["up", "small.toml"]);
    setup.pool("add", "-n theirs -c 1 -s Standard_B2ms --tags owner=somebody");
    let plan = setup.succeeds(&["plan", "small.toml"]);
    assert!(plan.contains("as the lab file says") && plan.contains("pool `theirs` (1 node) does not carry"), "{plan}");
    for command in [&["up", "small.toml"][..], &["up", "small.toml", "--replace-pools"], &["reset", "small", "--yes"]] {
        let said = setup.succeeds(command);
        assert!(said.contains("it stays as it is without `--take-pool theirs`"), "{said}");
        assert!(setup.has_pool("theirs"), "{said}");
    }
    assert!(setup.succeeds(&["diff", "small"]).contains("nothing differs"));
    let said = setup.fails(2, &["up", "small.toml", "--take-pool", "their"]);
    assert!(said.contains("has no pool `their`"), "{said}");
    setup.succeeds(&["up", "small.toml", "--take-pool", "theirs"]);
    assert!(!setup.has_pool("theirs"));
    setup.succeeds(&["down", "small"]);
}

#[test]
fn pool_of_somebody_else_under_a_name_of_the_lab_is_replaced_only_where_it_is_named() {
    let setup = Setup::new(Latency::NONE);
    setup.succeeds(&["up", "small.toml"]);
    setup.pool("delete", "-n extra");
    setup.pool("add", "-n extra -c 1 -s Standard_B4ms --labels workload=extra");
    let plan = setup.fails(2, &["plan", "small.toml"]);
    assert!(plan.contains("klab changes it, and neither replaces nor removes it"), "{plan}");
    for command in [&["up", "small.toml"][..], &["up", "small.toml", "--replace-pools"]] {
        let said = setup.fails(2, command);
        assert!(
            said.contains("size Standard_B4ms becomes Standard_B2ms") && said.contains("--take-pool extra"),
            "{said}"
        );
    }
    setup.succeeds(&["up", "small.toml", "--replace-pools", "--take-pool", "extra"]);
    let sizes = setup.fake.model().pools();
    assert!(sizes.iter().all(|pool| pool.properties["vmSize"] == "Standard_B2ms"));
    setup.succeeds(&["down", "small"]);
}

#[test]
fn pool_that_a_step_had_the_learner_type_is_the_labs() {
    let setup = Setup::new(Latency::NONE);
    let step = "\n[pool.spare]\nsize = \"Standard_B2ms\"\nlabels = { workload = \"spare\" }\ndeferred = true\n\
                \n[[step]]\nname = \"spare\"\ndo = [{ add_pool = \"spare\" }]\n[[step.check]]\nnodes = \"pool:spare\"\nexist = 1\n";
    setup.environment.write("small.toml", format!("{SMALL}{step}"));
    setup.succeeds(&["up", "small.toml"]);
    // Typed before any step asked for it, it is somebody's.
    setup.pool("add", "-n spare -c 1 -s Standard_B2ms --labels workload=spare");
    setup.succeeds(&["up", "small.toml"]);
    assert!(setup.has_pool("spare"));
    setup.succeeds(&["step", "small"]);
    setup.succeeds(&["step", "small", "--back"]);
    assert!(!setup.has_pool("spare"));
    setup.succeeds(&["step", "small"]);
    setup.pool("delete", "-n spare");
    setup.pool("add", "-n spare -c 1 -s Standard_B2ms --labels workload=spare");
    let said = setup.succeeds(&["up", "small.toml"]);
    assert!(!setup.has_pool("spare"), "{said}");
    setup.succeeds(&["down", "small"]);
}

/// What AKS, its add-ons and an organisation's controllers put into a cluster, before `up` is done and later.
#[test]
fn what_the_provider_puts_into_a_cluster_is_no_difference_and_stays() {
    use klab_operations::client::connect;
    let setup = Setup::new(Latency::NONE);
    setup.succeeds(&["up", "small.toml", "--no-wait"]);
    let path = String::from_utf8(setup.run(&["kubeconfig", "small", "--path"]).stdout).unwrap();
    let apply = |name: &'static str, namespace: Option<&'static str>, labels: serde_json::Value| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = connect(Path::new(path.trim())).await.unwrap();
            let kind = if namespace.is_some() { "ConfigMap" } else { "Namespace" };
            let resource = kube::discovery::ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk("", "v1", kind));
            let api: Api<kube::api::DynamicObject> = match namespace {
                Some(namespace) => Api::namespaced_with(client, namespace, &resource),
                None => Api::all_with(client, &resource),
            };
            let object =
                serde_json::json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "labels": labels } });
            api.create(&kube::api::PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        });
    };
    let nothing_differs = |when: &str| {
        let said = setup.succeeds(&["diff", "small"]);
        assert!(said.contains("nothing differs"), "{when}: {said}");
    };
    nothing_differs("right after up");
    apply("gatekeeper-system", None, serde_json::json!({}));
    apply("aks-istio-system", None, serde_json::json!({}));
    apply("by-label", None, serde_json::json!({ "addonmanager.kubernetes.io/mode": "Reconcile" }));
    apply("cm", Some("by-label"), serde_json::json!({}));
    apply("istio-ca-root-cert", Some("default"), serde_json::json!({}));
    apply("addon", Some("default"), serde_json::json!({ "kubernetes.azure.com/managedby": "aks" }));
    nothing_differs("with add-ons");
    apply("mine", None, serde_json::json!({}));
    apply("mine", Some("default"), serde_json::json!({}));
    let said = setup.succeeds(&["reset", "small", "--yes"]);
    let deleted: Vec<&str> = said.lines().filter_map(|line| line.trim().strip_prefix("Deleted ")).collect();
    assert!(deleted.len() == 2 && deleted.iter().all(|line| line.contains("/mine")), "{said}");
    assert!(!said.contains("Unlabelled"), "{said}");
    nothing_differs("after reset");
    setup.succeeds(&["down", "small"]);
}

#[test]
fn kubeconfig_that_the_cluster_does_not_accept_is_fetched_again() {
    let setup = Setup::new(Latency::NONE);
    setup.succeeds(&["up", "small.toml"]);
    let file = setup.environment.home().join("labs/small/kubeconfig");
    let good = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = good.split_once("  user:\n").unwrap();
    let (_, after) = rest.split_once("contexts:").unwrap();
    std::fs::write(&file, format!("{before}  user:\n    token: of-another\ncontexts:{after}")).unwrap();
    let said = setup.fails(3, &["verify", "small"]);
    assert!(said.contains("does not accept its kubeconfig any more") && said.contains("klab up "), "{said}");
    setup.succeeds(&["up", "small.toml"]);
    setup.succeeds(&["verify", "small"]);
    setup.succeeds(&["down", "small"]);
}

/// Two pods that pack by a profile of their own, on the first node that has room.
const PACKING: &str = r#"
lab = "packing"
[pool.system]
mode = "system"
nodes = 3

[scheduler]
[[scheduler.profiles]]
schedulerName = "packing"
pluginConfig = [
  { name = "NodeResourcesFit", args = { scoringStrategy = { type = "MostAllocated", resources = [{ name = "cpu", weight = 1 }] } } },
]

[workload.web]
replicas = 3
scheduler_name = "packing"
requests = { cpu = "100m" }

[[check]]
workload = "web"
spread = { max_skew = 3 }
running = 3
"#;

/// The scheduler that a lab configures, on AKS and on embedded clusters that are like AKS or like kind.
#[test]
fn a_configured_scheduler_comes_changes_and_goes_with_the_lab_file() {
    let setup = Setup::new(Latency::NONE);
    let other = PACKING.replace("\"packing\"\npluginConfig", "\"other\"\npluginConfig");
    let without = &PACKING[..PACKING.find("[scheduler]").unwrap()];
    for (provider, like) in [("aks", "aks"), ("sim", "aks"), ("sim", "kind")] {
        let like = format!("\n[sim]\nlike = \"{like}\"\n");
        let up = |text: &str| {
            setup.environment.write("packing.toml", format!("{text}{like}"));
            setup.run(&["up", "packing.toml", "--provider", provider, "--timeout", "4s"])
        };
        let is_good = |output: Output| {
            assert!(output.status.success(), "{provider}{like}{}", setup.environment.shown(&output));
        };
        // One that is there before the lab file configures its scheduler.
        is_good(up(without));
        is_good(up(PACKING));
        is_good(up(PACKING));
        // Pods that run stay; a new one waits for a scheduler that is gone.
        let more = other.replace("replicas = 3", "replicas = 4").replace("running = 3", "running = 4");
        let output = up(&more);
        let shown = setup.environment.shown(&output);
        assert!(
            shown.contains("3 running, wanted 4") && shown.contains("waits for the scheduler `packing`"),
            "{shown}"
        );
        setup.succeeds(&["down", "packing"]);
    }
}
