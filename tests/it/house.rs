//! How the sources are laid out: no circles among the files and rooms of a crate, a first line that says what a file is for,
//! no file that is too long.

mod field_names;
mod graph;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::LazyLock;

use self::graph::{Graph, sources};

/// Most lines of a file.
const MAX_LINES: usize = 600;
/// The most lines of a source without its tests.
const MAX_PRODUCT_LINES: usize = 500;

/// The sources of all crates.
fn crates() -> Vec<PathBuf> {
    let folders = std::fs::read_dir("crates").unwrap().map(|entry| entry.unwrap().path().join("src"));
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.push(PathBuf::from("src"));
    folders.sort();
    assert!(folders.len() >= 5, "{folders:?}");
    folders
}

/// The graphs of all crates: of their files, and of their rooms.
static GRAPHS: LazyLock<Vec<(PathBuf, Graph, Graph)>> = LazyLock::new(|| {
    let read = |folder: PathBuf| {
        let (files, rooms) = Graph::of(&sources(&folder));
        (folder, files, rooms)
    };
    crates().into_iter().map(read).collect()
});

/// The arrows inside all circles of a graph.
fn in_circles(graph: &Graph) -> String {
    graph.circles().iter().map(|circle| graph.arrows_in(circle)).collect()
}

#[test]
fn no_files_of_a_crate_are_in_a_circle() {
    for (folder, files, _) in &*GRAPHS {
        let arrows = in_circles(files);
        assert!(
            arrows.is_empty(),
            "files of {} import in a circle; move what they share below them\n{arrows}",
            folder.display()
        );
    }
}

/// Files and folders at the top of a crate depend on each other in one direction, methods included.
#[test]
fn no_rooms_of_a_crate_are_in_a_circle() {
    for (folder, _, rooms) in &*GRAPHS {
        let arrows = in_circles(rooms);
        assert!(
            arrows.is_empty(),
            "rooms of {} are in a circle; move what they share below them\n{arrows}",
            folder.display()
        );
    }
}

#[test]
fn every_file_says_in_its_first_line_what_it_is_for() {
    for folder in crates() {
        let untitled = sources(&folder).into_iter().filter(|(_, text)| !text.starts_with("//!"));
        let untitled: Vec<String> = untitled.map(|(path, _)| path).collect();
        assert_eq!(untitled, [""; 0], "files of {} that do not begin with `//!`", folder.display());
    }
}

/// A provider is a row: whatever differs between them is asked of the row, or of the trait.
#[test]
fn no_file_asks_for_the_name_of_a_provider() {
    let rows = ["spec/profile.rs", "spec/raw/skip.rs", "provider/row.rs"];
    let names =
        ["Sim", "Kind", "Aks", "Existing"].map(|name| [format!("Provider::{name}"), format!("Name::{name}")]).concat();
    for folder in crates() {
        for (path, text) in sources(&folder) {
            let named = names.iter().find(|name| without_tests(&path, &text).contains(name.as_str()));
            assert!(named.is_none() || rows.contains(&path.as_str()), "{path} asks for {named:?}");
        }
    }
}

/// Text of others moves no cursor and two writers do not mix: what reaches a terminal goes through one file.
#[test]
fn one_file_writes_to_a_terminal() {
    // The second has the terminal for itself while a picture is shown; `ui.rs` waits.
    let known = ["crates/operations/src/ui.rs", "src/watch/terminal.rs"];
    let ways = ["stdout()", "stderr()", "anstream::std", "println!", "print!("];
    for folder in crates() {
        for (path, text) in sources(&folder) {
            let path = folder.join(path).display().to_string();
            let way = ways.iter().find(|way| without_tests(&path, &text).contains(**way));
            assert!(way.is_none() || known.contains(&path.as_str()), "{path} writes by {way:?}");
        }
    }
}

#[test]
fn no_file_is_too_long() {
    for folder in crates() {
        for (path, text) in sources(&folder) {
            let (all, product) = (text.lines().count(), without_tests(&path, &text).lines().count());
            let is_fine = all <= MAX_LINES && product <= MAX_PRODUCT_LINES;
            assert!(is_fine, "{}/{path} has {all} lines, {product} of them product code", folder.display());
        }
    }
}

/// What of a source is shipped.
fn without_tests<'t>(path: &str, text: &'t str) -> &'t str {
    if path.ends_with("tests.rs") || path.contains("tests/") {
        return "";
    }
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Words that hide the actor of a sentence, in comments.
const IDIOMS: [&str; 7] = ["nobody", "whoever", "told", "anew", "so many", "as it is to be", "as they are to be"];

/// The comment of a line in lower case, its quotations left out.
fn comment(line: &str) -> Option<String> {
    let start = if line.trim_start().starts_with("//") { line.find("//") } else { line.find(" // ") }?;
    let prose = line[start..].split('`').step_by(2).collect::<String>();
    Some(prose.to_lowercase())
}

#[test]
fn comments_name_the_actor() {
    for folder in crates() {
        for (path, text) in sources(&folder) {
            let path = folder.join(path).display().to_string();
            // A phrase may go on in the next line.
            let comments: Vec<String> = text.lines().filter_map(comment).collect();
            let prose = comments.join(" ").replace("/// ", "").replace("//! ", "").replace("// ", "");
            let words = |idiom: &str| {
                let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
                prose.match_indices(idiom).any(|(at, _)| {
                    let (before, after) = (&prose[..at], &prose[at + idiom.len()..]);
                    !before.ends_with(is_part) && !after.starts_with(is_part)
                })
            };
            let found = IDIOMS.iter().find(|idiom| words(idiom));
            assert_eq!(found, None, "a comment of {path}: say who does what (CONTRIBUTING.md, Style)");
        }
    }
}

/// Circles, each as its members and the arrows among them.
type Circles = Vec<(Vec<String>, String)>;

/// The circles of a made-up crate: of its files, and of its rooms.
fn both_circles_of(files: &[(&str, &str)]) -> [Circles; 2] {
    let sources: BTreeMap<String, String> =
        files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect();
    let (files, rooms) = Graph::of(&sources);
    [files, rooms].map(|graph| {
        let shown = |circle: BTreeSet<String>| (graph.arrows_in(&circle), circle.into_iter().collect());
        graph.circles().into_iter().map(shown).map(|(arrows, members)| (members, arrows)).collect()
    })
}

/// The circles of the files of a made-up crate.
fn circles_of(files: &[(&str, &str)]) -> Circles {
    let [of_files, _] = both_circles_of(files);
    of_files
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

/// Files that are in no circle with each other can close one among their rooms.
#[test]
fn a_circle_of_rooms_is_found_where_their_files_are_in_none() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "pub mod low; mod high;"),
        ("a/low.rs", "pub struct Low;"),
        ("a/high.rs", "use crate::b::B;"),
        ("b.rs", "use crate::a::low::Low; pub struct B(Low);"),
    ];
    let arrows = "    a -> b {B for a/high.rs}\n    b -> a {Low for b.rs}\n";
    assert_eq!(both_circles_of(&files), [vec![], vec![(vec!["a".to_owned(), "b".to_owned()], arrows.to_owned())]]);
}

/// Who calls a method names nobody, so methods count where they stand: `x.f()` leads into the room of the `impl`.
#[test]
fn an_impl_outside_of_the_room_of_its_type_is_an_arrow_both_ways() {
    let of = |text: &str| {
        let ground = ("ground/mod.rs", "mod kept; pub(crate) use kept::Kept;");
        let kept = ("ground/kept.rs", "pub(crate) struct Kept;");
        let files = [("lib.rs", "mod ground; mod upper;"), ground, kept, ("ground/more.rs", ""), ("upper.rs", text)];
        both_circles_of(&files)
    };
    let arrows =
        "    ground -> upper {impl Kept in upper.rs}\n    upper -> ground {Kept for upper.rs, impl Kept in upper.rs}\n";
    let circle = (vec!["ground".to_owned(), "upper".to_owned()], arrows.to_owned());
    assert_eq!(of("use crate::ground::Kept;\nimpl Kept { fn f(&self) {} }"), [vec![], vec![circle.clone()]]);
    assert_eq!(of("impl crate::ground::Kept { fn f(&self) {} }"), [vec![], vec![circle]]);
    for text in [
        "use crate::ground::Kept;\nfn f(_: &Kept) {}",
        "use crate::ground::Kept;\nimpl Clone for Kept { fn clone(&self) -> Self { Kept } }",
        "use crate::ground::Kept;\nstruct Own(Kept);\nimpl Own { fn f(&self) {} }",
        "#[cfg(test)]\nmod tests { use crate::ground::Kept; impl Kept { fn f(&self) {} } }",
    ] {
        assert_eq!(of(text), [vec![], vec![]], "{text}");
    }
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
    assert_eq!(of("fn f() { assert!(matches!(1, crate::a::A)) }"), 1);
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
