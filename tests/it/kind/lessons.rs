//! Lessons and classes on kind.

use std::path::PathBuf;

use super::*;

#[test]
fn lessons_stop_and_start_the_containers_of_nodes() {
    let lab = format!(
        "{LAB}\n[[step]]\nname = \"fails\"\ndo = [{{ fail_node = \"pool:extra\" }}]\n\n\
         [[step]]\nname = \"returns\"\ndo = [{{ restore_node = \"pool:extra\" }}]\n"
    );
    let stage = Stage::new(&lab);
    stage.succeeds(&["test", "pools.toml", "--provider", "kind"]);
    let calls: Vec<String> = stage.pair.calls().into_iter().map(|(call, _)| call).collect();
    let at = |wanted: &str| calls.iter().position(|call| call.starts_with(wanted) && call.ends_with("-worker3"));
    let (stopped, started) = (at("docker stop -t 1 klab-"), at("docker start klab-"));
    assert!(stopped.is_some() && started > stopped, "{calls:?}");
    stage.nothing_is_left();
}

#[test]
fn an_api_server_that_fails_is_a_paused_control_plane() {
    let lab = format!(
        "{LAB}\n[[step]]\nname = \"silent\"\ndo = [{{ fail_api = \"1s\" }}]\n\
         [[step.check]]\nnodes = \"pool:extra\"\nready = true\n"
    );
    let stage = Stage::new(&lab);
    stage.succeeds(&["test", "pools.toml", "--provider", "kind"]);
    let calls: Vec<String> = stage.pair.calls().into_iter().map(|(call, _)| call).collect();
    let at = |verb: &str| calls.iter().position(|call| call.starts_with(verb) && call.ends_with("-control-plane"));
    let (paused, unpaused) = (at("docker pause klab-"), at("docker unpause klab-"));
    assert!(paused.is_some() && unpaused > paused, "{calls:?}");
    stage.nothing_is_left();
}

/// A lesson for the stand-in: one step beyond the set-up.
fn lesson() -> String {
    format!(
        "{LAB}\n[[step]]\nname = \"scale\"\ndo = [{{ scale = \"web\", replicas = 3 }}]\n\
         [[step.check]]\nworkload = \"web\"\nrunning = 3\n"
    )
}

#[test]
fn lessons_are_tried_on_clusters_of_their_own_and_removed() {
    let stage = Stage::new(&lesson());
    stage.up();
    let before = stage.pair.containers();
    let folder = stage.environment.folder().join("temporary");
    std::fs::create_dir(&folder).unwrap();
    let test = |arguments: &[&str]| stage.command(arguments).env("TMPDIR", &folder).output().unwrap();
    let output = test(&["test", "pools.toml", "--provider", "kind"]);
    assert!(output.status.success(), "{}", stage.environment.shown(&output));
    let made = stage.pair.calls().iter().filter(|(call, _)| call.contains("create cluster")).count();
    assert_eq!(made, 2, "the lab that is up, and one for the test: {:?}", stage.pair.calls());
    assert_eq!(stage.pair.containers(), before, "the lab that is up stays as it is");

    stage.write(&lesson().replace("running = 3\n", "pending = 3\n"));
    let output = test(&["test", "pools.toml", "--provider", "kind", "--step-timeout", "1s"]);
    assert_eq!(output.status.code(), Some(1), "{}", stage.environment.shown(&output));
    assert_eq!(stage.pair.containers(), before);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing of the tests is left");
    stage.down();
}

#[test]
fn an_interrupted_test_leaves_no_cluster() {
    let stage = Stage::new(&lesson());
    let folder = stage.environment.folder().join("temporary");
    std::fs::create_dir(&folder).unwrap();
    let mut command = stage.command(&["test", "pools.toml", "--provider", "kind"]);
    let child = command.env("TMPDIR", &folder).stderr(std::process::Stdio::piped()).spawn().unwrap();
    while stage.pair.containers().is_empty() {
        std::thread::yield_now();
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{words}");
    assert!(words.contains("what was made is being removed"), "{words}");
    assert_eq!(stage.pair.containers(), Vec::<String>::new(), "{words}");
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "{words}");
}

#[test]
fn seats_are_clusters_of_their_own() {
    let stage = Stage::new(LAB);
    stage.succeeds(&["up", "pools.toml", "--seats", "2"]);
    let clusters: BTreeMap<String, usize> = stage.pair.containers().iter().fold(BTreeMap::new(), |mut all, name| {
        *all.entry(stage.pair.container(name).cluster).or_default() += 1;
        all
    });
    assert_eq!(clusters.keys().collect::<Vec<_>>(), ["klab-pools-01", "klab-pools-02"]);
    stage.succeeds(&["verify", "pools-02"]);
    stage.succeeds(&["verify", "--seats"]);
    stage.succeeds(&["down"]);
    stage.nothing_is_left();
}

#[test]
fn a_lab_stays_on_kind_where_nobody_names_a_provider() {
    let stage = Stage::new(LAB);
    stage.up();
    let unnamed = |arguments: &[&str]| {
        let output = stage.command(arguments).env_remove("KLAB_PROVIDER").output().unwrap();
        (output.status.code(), stage.environment.shown(&output))
    };
    let (status, talk) = unnamed(&["up", "pools.toml"]);
    assert!(status == Some(0) && talk.contains("nothing changed"), "{talk}");
    stage.write(&LAB.replacen("kubernetes =", "provider = \"sim\"\nkubernetes =", 1));
    let (status, talk) = unnamed(&["up", "pools.toml"]);
    assert!(status == Some(0) && talk.contains("stays on kind, where it is up"), "{talk}");
    let (_, plan) = unnamed(&["plan", "pools.toml", "--format", "json"]);
    assert!(plan.contains("\"provider\":\"kind\""), "{plan}");
    let (status, talk) = unnamed(&["up", "pools.toml", "--provider", "sim"]);
    assert!(status == Some(2) && talk.contains("is up on `kind`, not on `sim`"), "{talk}");
    stage.down();
    stage.succeeds(&["up", "pools.toml", "--seats", "1"]);
    let (status, talk) = unnamed(&["up", "pools.toml", "--seats", "1"]);
    assert!(status == Some(0) && talk.contains("1 unchanged"), "{talk}");
    stage.succeeds(&["down"]);
}
