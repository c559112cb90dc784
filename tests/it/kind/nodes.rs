//! Nodes that are late, drifted or stopped.

use super::*;

#[test]
fn worker_that_kind_forgot_is_made() {
    let stage = Stage::new(LAB);
    stage.pair.fault("missing-worker", "klab-pools-worker2");
    let talk = stage.up();
    assert!(talk.contains("klab-pools-worker2 is not there"), "{talk}");
    assert_eq!(
        stage.pools(),
        ["klab-pools-worker=nodepool1", "klab-pools-worker2=nodepool1", "klab-pools-worker3=extra"]
    );
    stage.down();
}

#[test]
fn node_that_registers_late_is_waited_for() {
    let stage = Stage::new(LAB);
    stage.pair.fault("slow-worker", "");
    stage.up();
    assert_eq!(stage.nodes().len(), 4);
    stage.down();
}

#[test]
fn node_that_never_registers_fails_with_its_kubelets_words_and_is_made_again() {
    let stage = Stage::new(LAB);
    stage.pair.fault("reservation", "klab-pools-worker2");
    let mut command = stage.command(&["up", "pools.toml"]);
    let output = command.env("KLAB_KIND_READY", "1").output().unwrap();
    let talk = stage.environment.shown(&output);
    assert_eq!(output.status.code(), Some(5), "{talk}");
    assert!(talk.contains("waiting for klab-pools-worker2 to register"), "{talk}");
    assert!(talk.contains("invalid Node Allocatable configuration"), "{talk}");
    stage.up();
    assert_eq!(stage.nodes().len(), 4);
    stage.down();
}

#[test]
fn drift_on_live_nodes_is_mended() {
    let stage = Stage::new(LAB);
    stage.up();
    // Docker lost a worker; another's kubelet was given other flags.
    std::fs::remove_file(stage.environment.folder().join("pair/containers/klab-pools-worker2.json")).unwrap();
    stage.up();
    assert_eq!(
        stage.pools(),
        ["klab-pools-worker=nodepool1", "klab-pools-worker2=nodepool1", "klab-pools-worker3=extra"]
    );
    stage.down();
}

#[test]
fn stopped_nodes_are_started_and_not_made_again() {
    let stage = Stage::new(LAB);
    stage.up();
    for name in stage.pair.containers() {
        let docker = stage.environment.folder().join("pair/bin/docker");
        assert!(Command::new(docker).args(["stop", &name]).status().unwrap().success());
    }
    stage.pair.forget_calls();
    let talk = stage.up();
    assert!(talk.contains("Started 4 stopped nodes"), "{talk}");
    assert!(!stage.pair.calls().iter().any(|(call, _)| call.starts_with("kind create")), "{:?}", stage.pair.calls());
    stage.succeeds(&["verify"]);
    stage.down();
}

/// One node lost its power; and what the API says of a node that was stopped is not believed.
#[test]
fn stopped_worker_is_started_and_its_kubelet_waited_for() {
    let stage = Stage::new(LAB);
    stage.up();
    let docker = stage.environment.folder().join("pair/bin/docker");
    assert!(Command::new(docker).args(["stop", "klab-pools-worker3"]).status().unwrap().success());
    stage.pair.fault("slow-start", "klab-pools-worker3");
    stage.pair.forget_calls();
    let plan = stage.run(&["plan", "pools.toml"]);
    let plan = String::from_utf8(plan.stdout).unwrap();
    assert!(plan.contains("\ncommands\n  docker start klab-pools-worker3\n"), "{plan}");
    let talk = stage.up();
    assert!(talk.contains("Started 1 stopped node"), "{talk}");
    let restarted =
        stage.pair.calls().iter().any(|(call, _)| call.ends_with("klab-pools-worker3 systemctl restart kubelet"));
    assert!(restarted, "up ended before the kubelet of the node had reported: {:?}", stage.pair.calls());
    stage.down();
}

#[test]
fn paused_lab_is_stopped_and_comes_back_as_it_was() {
    let stage = Stage::new(LAB);
    stage.up();
    let before = stage.pools();
    let talk = stage.succeeds(&["pause"]);
    assert!(talk.contains("Stopped 4 nodes"), "{talk}");
    assert!(stage.pair.containers().iter().all(|name| !stage.pair.container(name).running));
    let talk = stage.fails(3, &["kubeconfig"]);
    assert!(talk.contains("\n        klab resume pools"), "{talk}");
    let talk = stage.succeeds(&["resume", "pools"]);
    assert!(talk.contains("Started 4 stopped nodes"), "{talk}");
    assert_eq!(stage.pools(), before);
    stage.succeeds(&["verify"]);
    stage.down();
}

#[test]
fn klabs_az_changes_pools_on_kind_and_stops_and_starts_the_cluster() {
    let stage = Stage::new(LAB);
    stage.up();
    let cluster = ["-g", "klab-pools", "-n", "klab-pools"];
    let az = |code: i32, words: &[&str]| {
        let output = stage.run(&[&["az", "aks"], words].concat());
        let shown = stage.environment.shown(&output);
        assert_eq!(output.status.code(), Some(code), "{shown}");
        shown
    };
    let pool = |verb: &'static str, rest: &[&'static str]| {
        [&["nodepool", verb, "-g", "klab-pools", "--cluster-name", "klab-pools"], rest].concat()
    };
    az(0, &pool("add", &["-n", "more", "-c", "1", "-s", "Standard_B2ms", "--labels", "a=b", "-o", "none"]));
    az(0, &pool("delete", &["-n", "extra", "--no-wait"]));
    az(0, &pool("wait", &["-n", "extra", "--deleted"]));
    // The pool is gone with its last node; the process of `--no-wait` then frees the name of the container.
    let begun = std::time::Instant::now();
    while stage.pair.containers().iter().any(|name| name == "klab-pools-worker3") {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "the container stays");
        std::thread::yield_now();
    }
    // A pool that could not be made is Failed until somebody deletes it.
    stage.pair.fault("reservation", "klab-pools-worker3");
    let add = [
        "az",
        "aks",
        "nodepool",
        "add",
        "-g",
        "klab-pools",
        "--cluster-name",
        "klab-pools",
        "-n",
        "bad",
        "-c",
        "1",
        "--no-wait",
    ];
    let output = stage.command(&add).env("KLAB_KIND_READY", "1").output().unwrap();
    assert!(output.status.success(), "{}", stage.environment.shown(&output));
    let failed = az(1, &pool("wait", &["-n", "bad", "--created"]));
    assert!(failed.contains("ERROR: The operation failed"), "{failed}");
    let states = az(0, &pool("list", &["--query", "[].[name, provisioningState]", "-o", "tsv"]));
    assert!(
        states.contains("more\tSucceeded\nbad\tFailed\n") || states.contains("bad\tFailed\nmore\tSucceeded\n"),
        "{states}"
    );
    az(0, &pool("delete", &["-n", "bad"]));
    let names = az(0, &pool("list", &["--query", "[].[name, count, nodeLabels.a]", "-o", "tsv"]));
    assert!(names.contains("nodepool1\t2\tNone\nmore\t1\tb\n"), "{names}");
    let refused = az(1, &[&["upgrade"], &cluster[..], &["-k", "1.35", "--yes"]].concat());
    assert!(refused.contains("the version of its control plane is that of the image"), "{refused}");
    az(0, &[&["stop"], &cluster[..]].concat());
    let state = ["--query", "[powerState.code, length(agentPoolProfiles)]", "-o", "tsv"];
    let stopped = az(0, &[&["show"], &cluster[..], &state[..]].concat());
    assert!(stopped.contains("Stopped\n2\n"), "{stopped}");
    let refused = az(1, &pool("scale", &["-n", "more", "-c", "2"]));
    assert!(refused.contains("(OperationNotAllowed)") && refused.contains("az aks start"), "{refused}");
    az(0, &[&["start"], &cluster[..]].concat());
    let running = az(0, &[&["show"], &cluster[..], &state[..]].concat());
    assert!(running.contains("Running\n2\n"), "{running}");
    stage.down();
}

/// The shape of the shipped lessons: every worker has a name, and one pool grows beyond its names.
const NAMED: &str = r#"
lab        = "pools"
kubernetes = "1.36"

[pool.system]
mode  = "system"
nodes = 1
names = ["control1"]
size  = "Standard_B2ms"

[pool.small]
nodes  = 2
names  = ["worker1", "worker2"]
size   = "Standard_B2ms"
labels = { size = "small" }

[workload.pinned]
kind      = "pod"
image     = "nginx:1.27"
node_name = "worker2"

[[check]]
workload = "pinned"
node     = "worker2"
running  = 1

[[step]]
name = "fails"
do   = [{ fail_node = "node:worker1" }]

[[step]]
name = "returns"
do   = [{ restore_node = "node:worker1" }]
"#;

#[test]
fn nodes_have_the_names_of_the_lab_file_and_keep_them() {
    let stage = Stage::new(NAMED);
    let talk = stage.up();
    assert!(talk.contains("Added 2 nodes to pool small (worker1, worker2)"), "{talk}");
    let named = ["control1=system", "worker1=small", "worker2=small"];
    assert_eq!(stage.pools(), named);
    let nodes = stage.nodes();
    assert_eq!(nodes["worker1"].labels()["kubernetes.io/hostname"], "worker1");
    // kind made the control plane alone, and takes its taint away then.
    let control_plane = &nodes["klab-pools-control-plane"];
    assert_eq!(taints(control_plane), ["node-role.kubernetes.io/control-plane=:NoSchedule"]);
    assert!(control_plane.labels().contains_key("node.kubernetes.io/exclude-from-external-load-balancers"));
    // The names are the nodes': containers of other clusters may be called so.
    let runs: Vec<String> = stage.pair.calls().into_iter().map(|(call, _)| call).collect();
    let run = runs.iter().find(|call| call.contains("--hostname worker2 ")).unwrap();
    assert!(run.starts_with("docker run --name klab-pools-node-worker2 --hostname worker2 "), "{run}");
    stage.succeeds(&["verify"]);
    let unchanged = stage.up();
    assert!(unchanged.contains("nothing changed"), "{unchanged}");

    // A node that docker lost comes back under its name; a pool that outgrows its names gets kind's.
    std::fs::remove_file(stage.environment.folder().join("pair/containers/klab-pools-node-worker1.json")).unwrap();
    stage.up();
    assert_eq!(stage.pools(), named);
    stage.succeeds(&["pool", "scale", "small", "--nodes", "3"]);
    assert_eq!(stage.pools(), ["control1=system", "klab-pools-worker=small", "worker1=small", "worker2=small"]);
    stage.succeeds(&["pool", "scale", "small", "--nodes", "1"]);
    stage.succeeds(&["pool", "scale", "small", "--nodes", "2"]);
    assert_eq!(stage.pools(), named);

    // Steps, pauses and a lost record find the containers of the nodes.
    stage.pair.forget_calls();
    stage.succeeds(&["step"]);
    stage.succeeds(&["step"]);
    let calls: Vec<String> = stage.pair.calls().into_iter().map(|(call, _)| call).collect();
    for call in ["docker stop -t 1 klab-pools-node-worker1", "docker start klab-pools-node-worker1"] {
        assert!(calls.iter().any(|made| made == call), "{call}: {calls:?}");
    }
    stage.succeeds(&["pause"]);
    stage.succeeds(&["resume", "pools"]);
    assert_eq!(stage.pools(), named);
    std::fs::remove_file(stage.environment.home().join("labs/pools/kind/cluster.json")).unwrap();
    let talk = stage.up();
    assert!(!talk.contains("Removed node"), "{talk}");
    assert_eq!(stage.pools(), named);
    stage.succeeds(&["reset", "--yes"]);
    assert_eq!(stage.pools(), named);
    stage.down();
}

#[test]
fn named_nodes_are_made_whole_after_a_kill() {
    let stage = Stage::new(NAMED);
    stage.pair.fault("reservation", "klab-pools-node-worker2");
    let output = stage.command(&["up", "pools.toml"]).env("KLAB_KIND_READY", "1").output().unwrap();
    let talk = stage.environment.shown(&output);
    assert_eq!(output.status.code(), Some(5), "{talk}");
    assert!(talk.contains("worker2: its kubelet says"), "{talk}");
    stage.pair.forget_calls();
    stage.up();
    assert_eq!(stage.pools(), ["control1=system", "worker1=small", "worker2=small"]);
    let made_again = stage.pair.calls().iter().any(|(call, _)| call.contains("create cluster"));
    assert!(!made_again, "what kind made is kept: {:?}", stage.pair.calls());
    stage.down();
}

#[test]
fn api_server_that_a_killed_klab_left_frozen_is_let_go_on() {
    let stage = Stage::new(LAB);
    stage.up();
    let docker = stage.environment.folder().join("pair/bin/docker");
    let freeze =
        || assert!(Command::new(&docker).args(["pause", "klab-pools-control-plane"]).status().unwrap().success());
    freeze();
    let talk = stage.fails(3, &["verify"]);
    assert!(talk.contains("\n        klab resume pools"), "{talk}");
    stage.succeeds(&["resume", "pools"]);
    stage.succeeds(&["verify"]);
    freeze();
    stage.up();
    stage.succeeds(&["verify"]);
    freeze();
    stage.succeeds(&["pause", "pools"]);
    stage.down();
}

#[test]
fn dead_kubelet_of_a_container_that_runs_is_started() {
    let stage = Stage::new(LAB);
    stage.up();
    let docker = stage.environment.folder().join("pair/bin/docker");
    let stop = ["exec", "--privileged", "klab-pools-worker3", "systemctl", "stop", "kubelet"];
    assert!(Command::new(docker).args(stop).status().unwrap().success());
    let talk = stage.up();
    assert!(talk.contains("Started the kubelet of node klab-pools-worker3"), "{talk}");
    let nodes = stage.nodes();
    assert!(klab_lab::verify::is_ready(&nodes["klab-pools-worker3"]));
    stage.down();
}
