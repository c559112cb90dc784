//! What `docs/look-up/typed.md` and `typed-courses.md` say that readers of guides type: every row, in real shells.

use std::thread;
use std::time::{Duration, Instant};

use crate::environment::{Environment, has_kubectl};
use crate::skipped::{is_there, not_possible_here};

/// The pages, as they are published.
const DOCUMENT: &str =
    concat!(include_str!("../../docs/look-up/typed.md"), "\n", include_str!("../../docs/look-up/typed-courses.md"));

/// How long a command that only looks is repeated until it shows what the row says.
const PATIENCE: Duration = Duration::from_secs(60);

/// A row of a table.
struct Row {
    about: String,
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
        let [_, about, typed, exit, shows, _] = cells.as_slice() else { panic!("{line}") };
        let typed = typed.strip_prefix('`').and_then(|typed| typed.strip_suffix('`')).unwrap();
        Row { about: about.clone(), typed: typed.to_owned(), exit: exit.parse().unwrap(), shows: shows.clone() }
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
    for Row { typed, exit, shows, .. } in rows(heading) {
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
    if !has_kubectl() || !is_there("jq") {
        return;
    }
    thread::scope(|scope| {
        for shell in ["bash", "zsh"] {
            if is_there(shell) {
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

/// What the documents have a reader do: words of each, and the row that stands for them.
const IDEAS: &str = include_str!("../documents.txt");

/// The ideas of a document.
fn ideas(heading: &str) -> Vec<(&'static str, &'static str)> {
    let section = IDEAS.split("\n## ").find_map(|section| section.strip_prefix(heading)).unwrap();
    section.lines().filter(|line| !line.is_empty()).map(|line| line.rsplit_once(" | ").unwrap()).collect()
}

/// The documents, with how many commands and ideas were counted in each when klab was tried on them first.
const DOCUMENTS: [(&str, usize); 5] = [
    ("The workshop chapter", 22),
    ("The node-pool article", 18),
    ("The scheduling article", 11),
    ("The slides", 25),
    ("The crash course", 11),
];

#[test]
fn every_idea_of_the_documents_has_its_row() {
    for (heading, least) in DOCUMENTS {
        let (ideas, rows) = (ideas(heading), rows(heading));
        assert!(ideas.len() >= least, "{heading}: {} ideas of {least}", ideas.len());
        for (place, (words, about)) in ideas.iter().enumerate() {
            let known = ideas[..place].iter().find(|(other, row)| other == words || row == about);
            assert!(known.is_none(), "{heading}: `{words}` and `{known:?}` are one");
            let own: Vec<&Row> = rows.iter().filter(|row| row.about == *about).collect();
            let [row] = own.as_slice() else { panic!("{heading}: `{words}` asks for one row `{about}`") };
            // A command of the document is typed there: names of nodes, and dashes of a word processor, may differ.
            let verb: Vec<&str> = words.split(' ').take(2).collect();
            if ["kubectl", "az"].contains(&verb[0]) {
                assert!(row.typed.contains(&verb.join(" ")), "{heading}: `{words}` is not typed by `{}`", row.typed);
            }
        }
    }
}

/// The list of ideas is the documents': each of their words is there, and each line that is a command is in the list.
#[test]
fn ideas_are_those_of_the_documents() {
    let Some(folder) = std::env::var_os("KLAB_DOCUMENTS") else {
        return not_possible_here("KLAB_DOCUMENTS names no folder of the documents, which are not public");
    };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), DOCUMENTS.len());
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (file, (heading, _)) in files.iter().zip(DOCUMENTS) {
        let text = String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
        let (whole, ideas) = (plain(&text), ideas(heading));
        for (words, _) in &ideas {
            assert!(whole.contains(&plain(words)), "{heading} does not say `{words}`");
        }
        let command = |line: &str| line.trim_start_matches([' ', '$', '\u{2022}', '\u{a0}']).trim().to_owned();
        let commands = text.lines().map(command).filter(|line| line.starts_with("kubectl ") || line.starts_with("az "));
        for line in commands {
            let is_known =
                |words: &str| line.contains(words) || plain(words).contains(line.trim_end_matches([' ', '`', '\\']));
            assert!(ideas.iter().any(|(words, _)| is_known(words)), "{heading}: no idea is `{line}`");
        }
    }
}
