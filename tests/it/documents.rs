//! What `docs/typed.md` says that readers of guides type: every row, in real shells.

use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::environment::Environment;

/// The document, as it is published.
const DOCUMENT: &str = include_str!("../../docs/typed.md");

/// How long a command that only looks is repeated until it shows what the row says.
const PATIENCE: Duration = Duration::from_secs(10);

/// A row of a table.
struct Row {
    typed: String,
    exit: i32,
    shows: String,
}

/// The rows below a heading.
fn rows(heading: &str) -> Vec<Row> {
    let section = DOCUMENT.split("\n## ").find_map(|section| section.strip_prefix(heading)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| about |"));
    rows.map(|line| {
        let even = line.replace("\\|", "\u{1}");
        let cells: Vec<String> = even.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let [_, _, typed, exit, shows, _] = cells.as_slice() else { panic!("{line}") };
        let typed = typed.strip_prefix('`').and_then(|typed| typed.strip_suffix('`')).unwrap();
        Row { typed: typed.to_owned(), exit: exit.parse().unwrap(), shows: shows.clone() }
    })
    .collect()
}

/// Whether a program is on this machine; a test that is skipped says so.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn is_there(program: &str, version: &[&str]) -> bool {
    let there = Command::new(program).args(version).output().is_ok();
    if !there {
        println!("skipped: there is no {program} on this machine");
    }
    there
}

/// Types one line into a new shell, in the folder of the manifests.
fn types(environment: &Environment, shell: &str, line: &str) -> Output {
    let klab = Path::new(env!("CARGO_BIN_EXE_klab")).parent().unwrap();
    let own = environment.folder().join("bin");
    let path = format!("{}:{}:{}", own.display(), klab.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(shell);
    if shell == "zsh" {
        command.arg("-f");
    }
    command
        .args(["-c", line])
        .current_dir(environment.folder())
        .env_clear()
        .env("PATH", path)
        .env("HOME", environment.folder())
        .env("KLAB_HOME", environment.home())
        .output()
        .unwrap()
}

/// Goes through a table in one shell; `lab` is up before the first row, where one is named.
fn goes_through(heading: &str, lab: Option<&str>, shell: &str) {
    let environment = Environment::new();
    for file in std::fs::read_dir("labs/experiments").unwrap() {
        let file = file.unwrap();
        environment.write(&file.file_name().to_string_lossy(), std::fs::read(file.path()).unwrap());
    }
    let bin = environment.write("bin/.made", "");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_klab"), bin.with_file_name("az")).unwrap();
    if let Some(lab) = lab {
        environment.succeeds(&["up", lab]);
    }
    for Row { typed, exit, shows } in rows(heading) {
        let line = format!("eval \"$(klab env 2>/dev/null)\"\n{typed}");
        let only_looks = ["kubectl get", "kubectl describe", "kubectl top"].iter().any(|verb| typed.starts_with(verb));
        let begun = Instant::now();
        loop {
            let output = types(&environment, shell, &line);
            let said =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if output.status.code() == Some(exit) && said.contains(&shows) {
                break;
            }
            assert!(
                only_looks && begun.elapsed() < PATIENCE,
                "{heading}, {shell}: `{typed}` is to end with {exit} and show `{shows}`\n{}",
                environment.shown(&output)
            );
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Goes through a table in every shell that is here.
fn works_as_typed(heading: &str, lab: Option<&str>) {
    if !is_there("kubectl", &["version", "--client"]) || !is_there("jq", &["--version"]) {
        return;
    }
    thread::scope(|scope| {
        for shell in ["bash", "zsh"] {
            if is_there(shell, &["--version"]) {
                scope.spawn(move || goes_through(heading, lab, shell));
            }
        }
    });
}

#[test]
fn workshop_chapter() {
    works_as_typed("The workshop chapter", Some("scheduling"));
}

#[test]
fn node_pool_article() {
    works_as_typed("The node-pool article", None);
}

#[test]
fn scheduling_article() {
    works_as_typed("The scheduling article", Some("experiments"));
}

#[test]
fn slides() {
    works_as_typed("The slides", Some("experiments"));
}

#[test]
fn crash_course() {
    works_as_typed("The crash course", Some("experiments"));
}

#[test]
fn tables_are_complete() {
    let wanted = [
        ("The workshop chapter", 22),
        ("The node-pool article", 18),
        ("The scheduling article", 11),
        ("The slides", 25),
        ("The crash course", 11),
    ];
    for (heading, least) in wanted {
        assert!(rows(heading).len() >= least, "{heading} has only {} rows", rows(heading).len());
    }
}
