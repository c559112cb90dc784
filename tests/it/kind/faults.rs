//! What is refused, what goes wrong, klab killed: nothing is left behind.

use super::*;

#[test]
fn faults_end_with_words_and_leave_nothing() {
    for (fault, what, code, words) in [
        ("join-failure", "klab-pools-worker", 4, "unknown flag: --max-podz"),
        ("port-in-use", "30000", 3, "a port of this machine that the lab wants is in use"),
        ("late-container", "klab-pools-worker9", 4, "docker run --name lb"),
    ] {
        let stage = Stage::new(LAB);
        stage.pair.fault(fault, what);
        let talk = stage.fails(code, &["up", "pools.toml"]);
        assert!(talk.contains(words), "{fault}: {talk}");
        assert_eq!(stage.pair.containers(), Vec::<String>::new(), "{fault}");
        stage.up();
        stage.down();
    }
}

#[test]
fn what_is_missing_outside_is_said_before_anything_is_made() {
    let stage = Stage::new(LAB);
    stage.pair.fault("docker-down", "");
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("Docker is installed but does not run") && talk.contains("systemctl start docker"), "{talk}");
    stage.pair.end_fault("docker-down");
    stage.pair.fault("kind-version", "0.20.0");
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("kind 0.20.0 is too old"), "{talk}");
    stage.write(&LAB.replace("kubernetes = \"1.36\"", "kubernetes = \"1.35\""));
    stage.pair.fault("no-registry", "");
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("could not pull the image `kindest/node:v1.35.8"), "{talk}");
    assert_eq!(stage.pair.containers(), Vec::<String>::new());
    stage.down();
}

#[test]
fn cluster_of_somebody_else_is_left_alone() {
    let stage = Stage::new(LAB);
    stage.pair.add_foreign("klab-pools");
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("that this klab did not make") && talk.contains("KLAB_SEAT"), "{talk}");
    stage.succeeds(&["down", "pools"]);
    assert_eq!(stage.pair.containers(), ["klab-pools-control-plane"]);
    let seat = stage.command(&["up", "pools.toml"]).env("KLAB_SEAT", "s07").output().unwrap();
    assert!(seat.status.success(), "{}", stage.environment.shown(&seat));
    assert!(stage.pair.containers().contains(&"klab-pools-s07-worker3".to_owned()));
    // The record knows the seat: `down` needs no variable.
    stage.succeeds(&["down", "pools"]);
    assert_eq!(stage.pair.containers(), ["klab-pools-control-plane"]);
}

#[test]
fn down_works_without_kind_and_with_half_a_cluster() {
    let stage = Stage::new(LAB);
    stage.up();
    std::fs::remove_file(stage.environment.folder().join("pair/containers/klab-pools-control-plane.json")).unwrap();
    stage.pair.remove_program("kind");
    std::fs::remove_file(stage.environment.folder().join("pools.toml")).unwrap();
    stage.down();
}

#[test]
fn killed_kubeconfig_lock_does_not_block() {
    let stage = Stage::new(LAB);
    stage.environment.write("home/labs/pools/kubeconfig.lock", "");
    let talk = stage.up();
    assert!(talk.contains("which a killed kind had left"), "{talk}");
    stage.down();
}

/// klab killed at every entry of its journal: `up` converges, `down` leaves nothing.
fn killed_at_every_entry(moment: &str) {
    use std::os::unix::process::ExitStatusExt;
    for entry in 1.. {
        let stage = Stage::new(LAB);
        let fault = format!("{moment}:{entry}");
        let up = stage.command(&["up", "pools.toml"]).env("KLAB_FAULT", fault).output().unwrap();
        if up.status.success() {
            assert!(entry > 2, "{entry}");
            stage.down();
            return;
        }
        assert_eq!(up.status.signal(), Some(9), "{}", stage.environment.shown(&up));
        if entry % 2 == 0 {
            stage.up();
        }
        stage.down();
    }
}

#[test]
fn klab_killed_before_any_entry_converges_or_goes() {
    killed_at_every_entry("before");
}

#[test]
fn klab_killed_after_any_entry_converges_or_goes() {
    killed_at_every_entry("after");
}

#[test]
fn half_created_cluster_is_made_whole_or_removed() {
    for again in [true, false] {
        let stage = Stage::new(LAB);
        stage.pair.fault("kind-killed", "");
        let talk = stage.fails(4, &["up", "pools.toml"]);
        assert!(talk.contains("could not create the cluster"), "{talk}");
        if again {
            stage.up();
        }
        stage.down();
    }
}

/// What kind, kubeadm or the kubelet would refuse minutes later is refused at once, all of it.
#[test]
fn what_cannot_be_on_kind_is_refused_before_anything_is_made() {
    let stage = Stage::new(
        &LAB.replace("[pool.extra]", "[pool.extra]\nresources = { \"example.com/fpga\" = \"500m\" }")
            .replace("kubernetes = \"1.36\"", "kubernetes = \"1.36\"\n"),
    );
    let file = stage.environment.folder().join("pools.toml");
    let text = std::fs::read_to_string(&file).unwrap()
        + "\n[kind]\ncontrol_planes = 2\npod_subnet = \"10.96.0.0/12\"\nfeature_gates = { \"lower-case\" = true }\n\
           mounts = [{ host = \"absent\", container = \"/data\" }, { host = \".\", container = \"/proc/x\" }]\n\
           ports = [{ host = 30080, container = 80 }, { host = 30080, container = 81 }]\n\
           runtime_config = { \"everything\" = true }\nkubeadm_patches = [\"kind: [\", \"kind: Cluster\"]\n\n\
           [kind.registry_mirrors]\n\"docker.io\" = \"mirror.example.com\"\n";
    stage.write(&text);
    let talk = stage.fails(2, &["up", "pools.toml"]);
    for words in [
        "`example.com/fpga = \"500m\"` is not a whole number",
        "`control_planes = 2` gives no cluster that can lose a node",
        "the networks of pods (10.96.0.0/12) and services (10.96.0.0/16) overlap",
        "`lower-case` cannot be a feature gate",
        "`everything` names no API",
        "patch 1 of kubeadm is not YAML",
        "patch 2 of kubeadm has no `kind` that kubeadm knows",
        "should be mounted into the nodes, but does not exist",
        "`/proc/x` holds what the node itself needs",
        "port 30080 of this machine is mapped twice",
        "the mirror of `docker.io`, `mirror.example.com`, is not a URL",
        "nothing was created",
    ] {
        assert!(talk.contains(words), "{words}\n{talk}");
    }
    assert_eq!(stage.pair.containers(), Vec::<String>::new());
    // `check` says the same, on a machine without any of the tools.
    let checked = stage.environment.run(&["check", "pools.toml", "--provider", "kind"]);
    let talk = stage.environment.shown(&checked);
    assert_eq!(checked.status.code(), Some(2), "{talk}");
    for words in ["`control_planes = 2` gives no cluster", "is not a URL", "pools.toml has 11 errors"] {
        assert!(talk.contains(words), "{words}\n{talk}");
    }
}

#[test]
fn who_lacks_kind_and_docker_is_told_of_both() {
    let stage = Stage::new(LAB);
    let empty = stage.environment.folder().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let run = |arguments: &[&str]| {
        let output = stage.command(arguments).env("PATH", &empty).output().unwrap();
        stage.environment.shown(&output)
    };
    let talk = run(&["up", "pools.toml"]);
    for words in ["`docker` is not installed", "kind is not installed", "docs.docker.com", "apt install kind"] {
        assert!(talk.contains(words), "{words}: {talk}");
    }
    let doctor = run(&["doctor"]);
    for words in ["absent  containers", "absent  kind", "hint: containers:\n", "hint: kind: "] {
        assert!(doctor.contains(words), "{words}: {doctor}");
    }
}

#[test]
fn klab_killed_while_kind_begins_is_no_conflict_for_the_next() {
    use std::os::unix::process::ExitStatusExt;
    for again in [true, false] {
        let stage = Stage::new(LAB);
        stage.pair.fault("klab-killed", "");
        let up = stage.run(&["up", "pools.toml"]);
        assert_eq!(up.status.signal(), Some(9), "{}", stage.environment.shown(&up));
        if again {
            stage.up();
        }
        stage.down();
    }
}

/// Changes of a lab that is up, each by a command, and how many nodes there are afterwards.
const CHANGES: [(&[&str], usize); 4] = [
    (&["pool", "scale", "extra", "--lab", "pools", "--nodes", "3"], 6),
    (&["pool", "scale", "nodepool1", "--lab", "pools", "--nodes", "1"], 3),
    (&["pool", "add", "more", "--lab", "pools", "--nodes", "1"], 5),
    (&["pool", "delete", "extra", "--lab", "pools"], 3),
];

/// Every change of a pool, killed before and after every outside action, then asked for again; then `up`.
#[test]
fn change_killed_at_any_entry_is_finished_by_another_and_leaves_no_phantom() {
    use std::os::unix::process::ExitStatusExt;
    for (change, nodes) in CHANGES {
        let stage = Stage::new(LAB);
        stage.up();
        let mut entry = 0;
        loop {
            entry += 1;
            let mut killed = false;
            for moment in ["before", "after"] {
                let fault = format!("{moment}:{entry}");
                let output = stage.command(change).env("KLAB_FAULT", &fault).output().unwrap();
                let shown = stage.environment.shown(&output);
                if output.status.signal() != Some(9) {
                    assert!(output.status.success(), "{change:?} {fault}: {shown}");
                    stage.up();
                    continue;
                }
                killed = true;
                // What is half made is there, and what is half gone is not: `pool add` and `pool delete` say so.
                let again = stage.run(change);
                let shown = stage.environment.shown(&again);
                assert!(matches!(again.status.code(), Some(0 | 2)), "{change:?} {fault}: {shown}");
                assert!(!again.status.success() || stage.nodes().len() == nodes, "{change:?} {fault}: {shown}");
                stage.up();
                assert_eq!(stage.nodes().len(), 4, "{change:?} {fault}");
                assert_eq!(stage.pair.containers().len(), 4, "{change:?} {fault}");
            }
            if !killed {
                break;
            }
        }
        assert!(entry > 1, "{change:?}");
        stage.down();
    }
}

/// A command, interrupted as by Ctrl-C at every call of kind and docker, before one and after the next; then `up`, or not, and `down`.
fn interrupted_at_every_call(before: &[&[&str]], command: &[&str]) {
    for call in 1.. {
        let stage = Stage::new(LAB);
        for command in before {
            stage.succeeds(command);
        }
        let moment = ["before", "after"][call % 2];
        stage.pair.fault("interrupt", &format!("{moment}:{call}"));
        let output = stage.run(command);
        let shown = stage.environment.shown(&output);
        if stage.pair.has_fault("interrupt") {
            assert!(output.status.success() && call > 1, "{command:?} {moment}:{call}\n{shown}");
            break;
        }
        // The last call may have been all there was to wait for.
        assert!(matches!(output.status.code(), Some(0 | 130)), "{command:?} {moment}:{call}\n{shown}");
        if call % 3 == 0 {
            stage.up();
            assert_eq!(stage.pair.containers().len(), 4, "{command:?} {moment}:{call}");
        }
        stage.down();
    }
}

const UP: &[&str] = &["up", "pools.toml"];

#[test]
fn up_that_is_interrupted_at_any_call_converges_or_goes() {
    interrupted_at_every_call(&[], UP);
}

#[test]
fn down_that_is_interrupted_at_any_call_is_finished_by_another() {
    interrupted_at_every_call(&[UP], &["down", "pools"]);
}

#[test]
fn change_that_is_interrupted_at_any_call_converges_or_goes() {
    interrupted_at_every_call(&[UP], CHANGES[0].0);
}

/// What the interruption of a removal leaves at each moment: the node gone, its container gone, stopped, or on its way.
#[test]
fn worker_that_is_half_removed_is_no_phantom() {
    for (what, is_there) in [("node", true), ("container", false), ("both", false), ("stopped", true)] {
        let stage = Stage::new(LAB);
        stage.up();
        stage.succeeds(&["pool", "scale", "extra", "--lab", "pools", "--nodes", "2"]);
        let worker = "klab-pools-worker4";
        let docker = stage.environment.folder().join("pair/bin/docker");
        if what != "container" {
            stage.delete_node(worker);
        }
        match what {
            "container" | "both" => drop(Command::new(docker).args(["rm", "--force", worker]).output().unwrap()),
            "stopped" => drop(Command::new(docker).args(["stop", worker]).output().unwrap()),
            _ => {}
        }
        assert_eq!(stage.pair.containers().contains(&worker.to_owned()), is_there, "{what}");
        stage.succeeds(&["pool", "scale", "extra", "--lab", "pools", "--nodes", "1"]);
        stage.up();
        assert_eq!(stage.nodes().len(), 4, "{what}");
        assert_eq!(stage.pair.containers().len(), 4, "{what}");
        stage.down();
    }
}
