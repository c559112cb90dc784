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
    assert!(talk.contains("`klab resume pools`"), "{talk}");
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
