//! klab killed at every journal entry, its server killed, its state damaged: `up` converges, `down` leaves nothing.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;

use crate::environment::Environment;

const LAB: &str = r#"
lab = "faults"

[pool.nodepool1]
mode = "system"
nodes = 1
size = "Standard_B2ms"

[pool.extra]
nodes = 1
size = "Standard_B2ms"
labels = { workload = "extra" }

[workload.web]
replicas = 2
image = "nginx:1.27"
requests = { cpu = "50m", memory = "64Mi" }
node_selector = { workload = "extra" }

[[check]]
workload = "web"
on = "pool:extra"
running = 2
"#;

fn environment() -> (Environment, PathBuf) {
    let environment = Environment::new();
    let lab = environment.write("faults.toml", LAB);
    (environment, lab)
}

/// Runs `arguments` killed at each journal entry in turn, with `before` ahead of it and `after` once it is dead.
/// Returns at how many entries it was killed.
fn killed_at_every_entry(
    moment: &str,
    before: impl Fn(&Environment),
    arguments: &[&str],
    after: impl Fn(&Environment),
) -> usize {
    for entry in 1.. {
        let (environment, _) = environment();
        before(&environment);
        let output = environment.command(arguments).env("KLAB_FAULT", format!("{moment}:{entry}")).output().unwrap();
        if output.status.success() {
            return entry - 1;
        }
        assert_eq!(output.status.signal(), Some(9), "{}", environment.shown(&output));
        after(&environment);
    }
    unreachable!("the loop ends with the first run that is not killed")
}

fn up(environment: &Environment) {
    environment.succeeds(&["up", "faults.toml"]);
}

fn up_verify_down(environment: &Environment) {
    up(environment);
    environment.succeeds(&["verify", "faults"]);
    down(environment);
}

fn down(environment: &Environment) {
    environment.succeeds(&["down", "faults"]);
    environment.nothing_is_left();
}

#[test]
fn up_killed_before_an_entry_converges() {
    let entries = killed_at_every_entry("before", |_| {}, &["up", "faults.toml"], up_verify_down);
    assert!(entries >= 4, "{entries}");
}

#[test]
fn up_killed_after_an_entry_converges() {
    killed_at_every_entry("after", |_| {}, &["up", "faults.toml"], up_verify_down);
}

#[test]
fn up_killed_and_taken_down_leaves_nothing() {
    for moment in ["before", "after"] {
        killed_at_every_entry(moment, |_| {}, &["up", "faults.toml"], down);
    }
}

#[test]
fn down_killed_and_repeated_leaves_nothing() {
    for moment in ["before", "after"] {
        let entries = killed_at_every_entry(moment, up, &["down", "faults"], down);
        assert!(entries >= 3, "{entries}");
    }
}

#[test]
fn server_killed_between_commands_comes_back_with_all_objects() {
    let (environment, _) = environment();
    up(&environment);
    let pid = environment.server_pid().unwrap();
    std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    environment.succeeds(&["verify"]);
    assert_ne!(environment.server_pid().unwrap(), pid);
    let ready = environment.json(&["up", "faults.toml"]);
    assert_eq!((&ready["event"], &ready["changed"]), (&"ready".into(), &false.into()), "{ready}");
    down(&environment);
}

#[test]
fn port_taken_by_another_after_a_kill_moves_the_lab_to_a_new_port() {
    let (environment, _) = environment();
    up(&environment);
    let record = std::fs::read_to_string(environment.home().join("server/access.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let port: u16 = record["address"].as_str().unwrap().rsplit_once(':').unwrap().1.parse().unwrap();
    std::process::Command::new("kill").args(["-9", &record["pid"].to_string()]).status().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let taken = loop {
        match std::net::TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => break listener,
            Err(error) => assert!(std::time::Instant::now() < until, "{error}"),
        }
    };
    environment.succeeds(&["verify"]);
    let kubeconfig = std::fs::read_to_string(environment.home().join("labs/faults/kubeconfig")).unwrap();
    assert!(!kubeconfig.contains(&format!(":{port}/")), "{kubeconfig}");
    drop(taken);
    down(&environment);
}

#[test]
fn down_works_with_the_lab_file_edited_or_gone() {
    let (environment, lab) = environment();
    up(&environment);
    std::fs::write(&lab, "not a lab any more").unwrap();
    environment.succeeds(&["down", "faults.toml"]);
    environment.nothing_is_left();
    std::fs::write(&lab, LAB).unwrap();
    up(&environment);
    std::fs::remove_file(&lab).unwrap();
    environment.succeeds(&["down"]);
    environment.nothing_is_left();
}

#[test]
fn damaged_record_is_kept_aside_and_the_lab_goes_on() {
    let (environment, _) = environment();
    up(&environment);
    std::fs::write(environment.home().join("labs/faults/record.json"), "{\"schema\":").unwrap();
    let output = environment.run(&["up", "faults.toml"]);
    assert!(output.status.success(), "{}", environment.shown(&output));
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(talk.contains("was rebuilt from its journal"), "{talk}");
    assert!(environment.leftovers().iter().any(|file| file.contains("record.damaged-")));
    down(&environment);
}

#[test]
fn full_disk_stops_before_anything_is_done() {
    let (environment, _) = environment();
    let folder = environment.home().join("labs/faults");
    std::fs::create_dir_all(&folder).unwrap();
    let record = r#"{"schema":"klab.record/1","lab":"faults","provider":"sim","source":"/faults.toml",
        "created":"2026-01-01T00:00:00Z","applied":null,"kinds":[]}"#;
    std::fs::write(folder.join("record.json"), record).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.join("journal.jsonl")).unwrap();
    let output = environment.run(&["up", "faults.toml"]);
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{talk}");
    assert!(talk.contains("No space left on device") && talk.contains("hint: free some space there"), "{talk}");
    assert_eq!(environment.server_pid(), None);
}

#[test]
fn two_klabs_do_not_work_on_one_lab() {
    let (environment, _) = environment();
    let folder = environment.home().join("labs/faults");
    std::fs::create_dir_all(&folder).unwrap();
    let held = std::fs::File::create(folder.join("lock")).unwrap();
    held.lock().unwrap();
    std::fs::write(folder.join("lock"), r#"{"pid":4321,"command":"up","since":"2026-01-01T00:00:00Z"}"#).unwrap();
    let output = environment.run(&["down", "faults"]);
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{talk}");
    assert!(talk.contains("lab `faults` is in use: `klab up` (process 4321)"), "{talk}");
}

fn signal(name: &str, pid: u32) {
    assert!(std::process::Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Of a lab that is up and whose checks are waited for.
#[test]
fn interrupted_while_it_waits_up_says_that_the_lab_is_up() {
    let (environment, _) = environment();
    let slow = r#"
[[manifest]]
yaml = """
apiVersion: v1
kind: Pod
metadata: { name: slow, labels: { app: slow } }
spec:
  initContainers: [{ name: first, image: busybox, command: [sleep, "3600"] }]
  containers: [{ name: main, image: nginx }]
"""

[[check]]
pods = "app=slow"
running = 1
"#;
    environment.write("faults.toml", format!("{LAB}{slow}"));
    let mut up = environment.command(&["up", "faults.toml"]);
    let mut up = up.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(up.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("Applied")), "the lab is made");
    // Whoever works on a lab holds its lock.
    std::fs::File::open(environment.home().join("labs/faults/lock")).unwrap().lock().unwrap();
    signal("-INT", up.id());
    let said: Vec<String> = said.collect();
    assert_eq!(up.wait().unwrap().code(), Some(130));
    let end = "interrupted; lab `faults` is up; this says what holds:\n    klab verify faults\nthis removes it:\n    klab down faults";
    assert!(said.join("\n").ends_with(end), "{said:#?}");
    down(&environment);
}

/// Two labs on a server that is stopped: commands say so, `down` ends it, the other lab comes back.
#[test]
fn a_server_that_does_not_answer_is_told_and_ended() {
    let (environment, _) = environment();
    up(&environment);
    environment.write("other.toml", LAB.replace("\"faults\"", "\"other\""));
    environment.succeeds(&["up", "other.toml"]);
    let pid = environment.server_pid().unwrap();
    signal("-STOP", pid);
    let silent = format!("the embedded cluster's server (process {pid}, which is stopped) has not answered");
    let advice = format!("kill -CONT {pid}");
    for (arguments, status) in [
        (&["verify", "faults", "--timeout", "5s"][..], 3),
        (&["status", "faults"], 3),
        (&["up", "faults.toml"], 3),
        (&["doctor"], 3),
        (&["list"], 0),
    ] {
        let shown = environment.klab(arguments);
        let advised = shown.lines().any(|line| line.trim() == advice);
        assert!(shown.contains(&silent) && advised, "{arguments:?}: {shown}");
        assert!(shown.ends_with(&format!("--- status {status}\n")), "{arguments:?}: {shown}");
    }
    let states = environment.json(&["list"]);
    assert_eq!(states["labs"][0]["state"], "no answer", "{states}");

    let shown = environment.klab(&["down", "faults"]);
    assert!(shown.contains(&silent) && shown.contains("its other labs come back"), "{shown}");
    assert!(shown.ends_with("--- status 0\n"), "{shown}");
    environment.succeeds(&["verify", "other"]);
    environment.succeeds(&["down", "other"]);
    environment.nothing_is_left();
}

/// As in the moment after a kill: the lock is held and connections are taken, but nobody serves them.
#[test]
fn a_server_that_dies_under_a_request_is_brought_back_once() {
    let (environment, _) = environment();
    up(&environment);
    signal("-9", environment.server_pid().unwrap());
    let server = environment.home().join("server");
    let lock = std::fs::File::options().write(true).open(server.join("lock")).unwrap();
    lock.lock().unwrap();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    std::fs::write(server.join("lock"), std::process::id().to_string()).unwrap();
    let access = std::fs::read(server.join("access.json")).unwrap();
    let mut access: serde_json::Value = serde_json::from_slice(&access).unwrap();
    let old = access["address"].as_str().unwrap().to_owned();
    access["pid"] = std::process::id().into();
    access["address"] = listener.local_addr().unwrap().to_string().into();
    std::fs::write(server.join("access.json"), access.to_string()).unwrap();
    let kubeconfig = server.join("clusters/faults/kubeconfig");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    std::fs::write(&kubeconfig, text.replace(&old, &listener.local_addr().unwrap().to_string())).unwrap();

    let dying = std::thread::spawn(move || {
        // The look whether it takes connections, and the first request.
        let _look = listener.accept().unwrap();
        let _request = listener.accept().unwrap();
        drop(lock);
    });
    environment.succeeds(&["verify"]);
    dying.join().unwrap();
    down(&environment);
}

#[test]
fn a_broken_lab_is_told_and_removed_and_keeps_no_other_down() {
    let (environment, _) = environment();
    up(&environment);
    environment.write("other.toml", LAB.replace("\"faults\"", "\"other\""));
    environment.succeeds(&["up", "other.toml"]);
    std::fs::write(environment.home().join("server/clusters/faults/seed.json"), "").unwrap();
    signal("-9", environment.server_pid().unwrap());
    environment.succeeds(&["verify", "other"]);
    for command in ["verify", "status"] {
        let shown = environment.klab(&[command, "faults"]);
        let words = "cluster `faults` cannot be served: could not use its `seed.json`";
        assert!(shown.contains(words) && shown.contains("[FOLDER]/home/server/clusters/faults"), "{shown}");
        assert!(shown.contains("klab down faults"), "{shown}");
        assert!(shown.ends_with("--- status 3\n"), "{shown}");
    }
    let listed = environment.klab(&["list"]);
    assert!(listed.contains("lab `faults`: cluster `faults` cannot be served"), "{listed}");
    environment.succeeds(&["down", "faults"]);
    environment.succeeds(&["up", "faults.toml"]);
    environment.succeeds(&["verify", "other"]);
    environment.succeeds(&["down", "other"]);
    down(&environment);
}

#[test]
fn a_refused_up_leaves_no_lab() {
    let (environment, _) = environment();
    environment.write("seat.toml", LAB.replace("\"faults\"", "\"faults-02\""));
    environment.succeeds(&["up", "seat.toml"]);
    let refused = environment.klab(&["up", "faults.toml", "--seats", "2"]);
    assert!(refused.contains("would have the names of labs that are up: `faults-02`"), "{refused}");
    let labs = environment.json(&["list"]);
    assert_eq!(labs["labs"].as_array().unwrap().len(), 1, "{labs}");
    environment.succeeds(&["down", "faults-02"]);
    environment.nothing_is_left();
    // No Docker, no kind.
    let output = environment.command(&["up", "faults.toml", "--provider", "kind"]).env("PATH", "/nowhere").output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", environment.shown(&output));
    environment.nothing_is_left();
}

/// As a klab that was killed right after it started the server for a class.
#[test]
fn a_server_without_labs_is_ended_by_down() {
    for arguments in [&["down", "faults"][..], &["down"]] {
        let (environment, _) = environment();
        up(&environment);
        std::fs::remove_dir_all(environment.home().join("labs/faults")).unwrap();
        std::fs::remove_dir_all(environment.home().join("server/clusters/faults")).unwrap();
        assert!(environment.server_pid().is_some());
        environment.succeeds(arguments);
        let left = environment.leftovers();
        assert!(!left.iter().any(|file| file.starts_with("server")), "{arguments:?}: {left:?}");
        assert_eq!(environment.server_pid(), None);
    }
}

#[test]
fn a_lab_is_not_taken_over_by_another_file_unless_asked() {
    let (environment, lab) = environment();
    up(&environment);
    let edited = LAB.replace("replicas = 2", "replicas = 3").replace("running = 2", "running = 3");
    let other = environment.write("other.toml", &edited);
    let refused = environment.klab(&["up", "other.toml"]);
    assert!(refused.contains("lab `faults` is up from another file, `[FOLDER]/faults.toml`"), "{refused}");
    assert!(refused.contains("klab up other.toml --take-over") && refused.ends_with("--- status 2\n"), "{refused}");
    environment.succeeds(&["verify"]);
    // A copy says the same.
    std::fs::write(&other, LAB).unwrap();
    environment.succeeds(&["up", "other.toml"]);
    // The file that is up was edited; the one before is another one now.
    std::fs::write(&other, &edited).unwrap();
    environment.succeeds(&["up", "other.toml"]);
    let refused = environment.klab(&["up", "faults.toml"]);
    assert!(refused.contains("is up from another file, `[FOLDER]/other.toml`"), "{refused}");
    environment.succeeds(&["up", "faults.toml", "--take-over"]);
    // A file that was moved takes its lab along.
    std::fs::rename(&lab, environment.folder().join("moved.toml")).unwrap();
    environment.succeeds(&["up", "moved.toml"]);
    down(&environment);
}

/// As a `down` that was killed while it removed the server's folder, with the lock gone already.
#[test]
fn half_a_folder_of_the_server_is_removed() {
    let (environment, _) = environment();
    environment.write("home/server/port", "4711");
    environment.write("home/labs/faults/lock", "");
    environment.succeeds(&["down", "faults"]);
    environment.nothing_is_left();
}

/// As a server that was killed while it made a cluster, or removed one whose lab is known.
#[test]
fn a_cluster_of_which_a_part_is_there_is_made_again() {
    for gone in ["seed.json", "kubeconfig"] {
        let (environment, _) = environment();
        up(&environment);
        signal("-KILL", environment.server_pid().unwrap());
        std::fs::remove_file(environment.home().join("server/clusters/faults").join(gone)).unwrap();
        up_verify_down(&environment);
    }
}
