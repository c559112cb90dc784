//! How the sources are laid out: no circles among the files of a crate, a first line that says what a file is for, no file
//! that is too long.

mod graph;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::graph::{Graph, sources};

/// Most lines of a file.
const MOST_LINES: usize = 600;

/// Circles of the binary that are still to be broken, by their files below `src`. One that was broken, or lost a file, is
/// changed here, too; none is added.
const KNOWN: &[&[&str]] = &[
    &["commands/down.rs", "commands/seats/down.rs"],
    &["commands/kubeconfig.rs", "commands/mod.rs", "commands/seats/mod.rs"],
    &["commands/lesson.rs", "commands/seats/verify.rs", "commands/verify.rs", "commands/watch.rs"],
    &["commands/pause.rs", "commands/seats/pause.rs"],
    &["commands/seats/up.rs", "commands/up.rs"],
    &[
        "lesson/drain.rs",
        "lesson/history.rs",
        "lesson/nodes.rs",
        "lesson/perform.rs",
        "lesson/pools.rs",
        "lesson/set.rs",
        "lesson/stage.rs",
        "lesson/undo.rs",
        "lesson/workloads.rs",
    ],
    &[
        "provider/aks.rs",
        "provider/aks/cluster.rs",
        "provider/aks/converge.rs",
        "provider/aks/credentials.rs",
        "provider/aks/live.rs",
        "provider/aks/look.rs",
        "provider/aks/pools.rs",
        "provider/aks/registry.rs",
        "provider/aks/removal.rs",
        "provider/aks/replace.rs",
        "provider/aks/request.rs",
        "provider/aks/world.rs",
        "provider/kind.rs",
        "provider/kind/addons.rs",
        "provider/kind/commands.rs",
        "provider/kind/create.rs",
        "provider/kind/load.rs",
        "provider/kind/preflight.rs",
        "provider/kind/teardown.rs",
        "provider/kind/workers.rs",
        "provider/mod.rs",
        "provider/sim/mod.rs",
    ],
    &["provider/aks/answer.rs", "provider/aks/catalogue.rs", "provider/aks/failure.rs", "provider/aks/place.rs"],
    &["provider/kind/docker.rs", "provider/kind/docker/inspect.rs"],
];

/// Files of the binary without the line that says what they are for. Those that get one are taken out; none is added.
const UNTITLED: &[&str] = &["provider/kind/docker/tests.rs", "provider/kind/failure/tests.rs", "render/tests.rs"];

/// The sources of the crates below the binary.
fn crates() -> Vec<PathBuf> {
    let folders = std::fs::read_dir("crates").unwrap().map(|entry| entry.unwrap().path().join("src"));
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort();
    assert!(folders.len() >= 3, "{folders:?}");
    folders
}

#[test]
fn no_files_of_a_crate_are_in_a_circle() {
    let mut found = String::new();
    for folder in crates() {
        let graph = Graph::of(&sources(&folder));
        for circle in graph.circles() {
            found.push_str(&format!("{}, {} files:\n{}", folder.display(), circle.len(), graph.arrows_in(&circle)));
        }
    }
    assert!(
        found.is_empty(),
        "files that import from each other in a circle; move what they share below them\n{found}"
    );
}

#[test]
fn circles_of_the_binary_only_become_fewer() {
    let graph = Graph::of(&sources(Path::new("src")));
    let found = graph.circles();
    let owned = |files: &&[&str]| files.iter().map(|&file| file.to_owned()).collect::<BTreeSet<String>>();
    let known: BTreeSet<BTreeSet<String>> = KNOWN.iter().map(owned).collect();
    let new: String = found
        .difference(&known)
        .map(|circle| {
            let smaller = known.iter().any(|known| known.is_superset(circle));
            let what = if smaller { "part of a known circle, to be written for it in KNOWN" } else { "new or larger" };
            format!("{what}: {circle:?}\n{}", graph.arrows_in(circle))
        })
        .collect();
    let gone: String = known
        .difference(&found)
        .map(|circle| format!("no longer there, to be taken out of KNOWN: {circle:?}\n"))
        .collect();
    assert!(new.is_empty() && gone.is_empty(), "circles among the files of src\n{new}{gone}");
}

#[test]
fn every_file_says_in_its_first_line_what_it_is_for() {
    let untitled = |folder: &Path| -> Vec<String> {
        sources(folder).into_iter().filter(|(_, text)| !text.starts_with("//!")).map(|(path, _)| path).collect()
    };
    for folder in crates() {
        assert_eq!(untitled(&folder), [""; 0], "files of {} that do not begin with `//!`", folder.display());
    }
    assert_eq!(untitled(Path::new("src")), UNTITLED, "files of src that do not begin with `//!`");
}

#[test]
fn no_file_is_too_long() {
    for folder in crates().into_iter().chain([PathBuf::from("src")]) {
        for (path, text) in sources(&folder) {
            let lines = text.lines().count();
            assert!(lines <= MOST_LINES, "{}/{path} has {lines} lines; {MOST_LINES} are enough", folder.display());
        }
    }
}

/// The circles of a made-up crate, each as its files and the arrows among them.
fn circles_of(files: &[(&str, &str)]) -> Vec<(Vec<String>, String)> {
    let sources: BTreeMap<String, String> =
        files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect();
    let graph = Graph::of(&sources);
    let told = |circle: BTreeSet<String>| (graph.arrows_in(&circle), circle.into_iter().collect());
    graph.circles().into_iter().map(told).map(|(arrows, files)| (files, arrows)).collect()
}

#[test]
fn a_circle_of_a_made_up_crate_is_found_with_its_arrows() {
    let found = circles_of(&[
        ("lib.rs", "mod a; mod b; mod room;"),
        ("a.rs", "use super::b::{self, B};\nfn f(_: B) { b::g() }"),
        ("b.rs", "use crate::room::Leaf;"),
        ("room/mod.rs", "mod deep; mod leaf;\npub(crate) use leaf::Leaf as Leaf;\nfn f() { deep::dig(); }"),
        ("room/leaf.rs", "fn f() -> crate::a::A {}"),
        ("room/deep.rs", "pub(super) fn dig() {}"),
    ]);
    let arrows = "    a.rs -> b.rs {B, g, self}\n    b.rs -> room/leaf.rs {Leaf}\n    room/leaf.rs -> a.rs {A}\n";
    let files = ["a.rs", "b.rs", "room/leaf.rs"].map(str::to_owned).to_vec();
    assert_eq!(found, [(files, arrows.to_owned())]);
}

#[test]
fn a_parent_whose_child_imports_from_it_is_a_circle() {
    let parent = "mod child;\npub(crate) struct Shared;\nfn f() { child::g(); }";
    let of = |child| circles_of(&[("lib.rs", "mod room;"), ("room.rs", parent), ("room/child.rs", child)]).len();
    assert_eq!(of("use super::Shared;"), 1);
    assert_eq!(of("fn g(_: &super::Shared) {}"), 1);
    assert_eq!(of("use std::fmt;\nimpl fmt::Display for Own {}"), 0);
}

#[test]
fn what_a_re_export_names_is_followed_to_its_file() {
    let found = circles_of(&[
        ("lib.rs", "mod a; mod b; mod front;"),
        ("a.rs", "use crate::front::{Other, inner::Thing};"),
        ("b.rs", "pub mod inner;\npub use crate::a::A as Other;"),
        ("b/inner.rs", "use crate::a::A;"),
        ("front.rs", "pub use crate::b::{Other, inner};"),
    ]);
    let arrows = "    a.rs -> b/inner.rs {Thing}\n    b/inner.rs -> a.rs {A}\n";
    assert_eq!(found, [(["a.rs", "b/inner.rs"].map(str::to_owned).to_vec(), arrows.to_owned())]);
}

#[test]
fn comments_texts_and_tests_are_no_imports() {
    let of =
        |text: &str| circles_of(&[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", text)]).len();
    assert_eq!(of("use crate::a::A;"), 1);
    for text in [
        "//! [`crate::a::A`]\n/* crate::a::A */",
        r##"const T: [&str; 2] = ["https://\"crate::a::A", r#""crate::a::A"#];"##,
        "#[cfg(test)]\npub(crate) mod tests { fn f() { if true { crate::a::A } } }",
    ] {
        assert_eq!(of(text), 0, "{text}");
    }
    // What comes after them is read again.
    for text in
        ["const Q: char = '\"'; use crate::a::A; const R: char = '\"';", "#[cfg(test)] mod t { }\nuse crate::a::A;"]
    {
        assert_eq!(of(text), 1, "{text}");
    }
    let with_tests = [("lib.rs", "mod a;"), ("a.rs", "#[cfg(test)]\nmod tests;\nfn f() { tests::g(); }")];
    assert_eq!(circles_of(&[with_tests[0], with_tests[1], ("a/tests.rs", "use super::A;")]), []);
}
