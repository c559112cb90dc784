//! What `docs/typed.md` says that readers of guides type: every row, in real shells.

use std::thread;
use std::time::{Duration, Instant};

use crate::environment::{Environment, has_kubectl, is_there};

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
        // A new shell for each row, in the folder of the manifests; `az` is klab also where no lab is up yet.
        let line = format!("PATH=\"$PWD/bin:$PATH\"\neval \"$(klab env 2>/dev/null)\"\n{typed}");
        let only_looks = ["kubectl get", "kubectl describe", "kubectl top"].iter().any(|verb| typed.starts_with(verb));
        let begun = Instant::now();
        loop {
            let output = environment.shell(shell, &line).output().unwrap();
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
    if !has_kubectl() || !is_there("jq", &["--version"]) {
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
