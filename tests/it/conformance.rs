//! `docs/understand/conformance.md` and `docs/look-up/conformance.md`: what of Kubernetes' own suite passes, made of what was found when it was run and of the tests of
//! `klab-cluster` that stand for tests of it. `KLAB_BLESS=1 cargo test -p klab --test it conformance::` writes it again, and the line
//! of the README that has its number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::written::is_written;

/// Where the tests are, and what was found.
const FOLDER: &str = "crates/cluster/tests/it/conformance";
const OVERVIEW: &str = "docs/understand/conformance.md";
const TESTS: &str = "docs/look-up/conformance.md";
/// How the line of the README begins.
const LINE: &str = "- [Kubernetes' own tests](docs/understand/conformance.md): ";

/// What was found when the suite was run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Suite {
    /// Passed when the suite was run again, and not before.
    since: BTreeSet<String>,
    conformance: Vec<Group>,
    further: Vec<Group>,
    failed: Vec<Failed>,
    /// What did not pass again.
    #[serde(default)]
    left: Vec<Failed>,
}

/// The tests of one SIG.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    sig: String,
    tests: usize,
    passed: usize,
    containers: usize,
    skipped: usize,
}

/// Tests that did not pass.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    because: String,
    tests: Vec<String>,
}

fn sources() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect();
    sources.sort();
    sources
}

/// Of each test of the suite that one of klab's stands for: file and name of the first that does.
fn own_tests() -> BTreeMap<String, (String, String)> {
    let mut own = BTreeMap::new();
    for path in sources() {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut named = Vec::new();
        let mut is_test = false;
        for line in std::fs::read_to_string(&path).unwrap().lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("// upstream test: ") {
                named.push(name.to_owned());
            } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some(rest) = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn ")) {
                let name = rest.split('(').next().unwrap().to_owned();
                assert!(named.is_empty() || is_test, "{file}: {name} names tests of the suite and is no test");
                for test in named.drain(..) {
                    own.entry(test).or_insert_with(|| (file.clone(), name.clone()));
                }
                is_test = false;
            }
        }
        assert!(named.is_empty(), "{file}: no test follows {named:?}");
    }
    own
}

fn is_conformance(test: &str) -> bool {
    test.contains("[Conformance]")
}

fn sig(test: &str) -> &str {
    test.trim_start_matches('[').split(']').next().unwrap()
}

/// How many tests of one kind pass, and are left.
#[derive(Default, Clone, Copy)]
struct Sum {
    passed: usize,
    open: usize,
}

/// How a test that did not pass at first ended when the suite was run again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Now {
    Passes,
    Open,
}

fn table(groups: &[Group], failed: &[(&str, Now)], page: &mut String) -> Sum {
    page.push_str("| SIG | tests | need containers | pass | left |\n");
    page.push_str("|---|---|---|---|---|\n");
    let mut total = Sum::default();
    let (mut tests, mut containers) = (0, 0);
    for group in groups {
        let count = |wanted: Now| failed.iter().filter(|(test, now)| sig(test) == group.sig && *now == wanted).count();
        let (passed, open) = (group.passed + count(Now::Passes), count(Now::Open));
        let known = passed + open + group.containers + group.skipped;
        assert_eq!(known, group.tests, "{}: every test is somewhere", group.sig);
        let (sig, needed) = (&group.sig, group.containers);
        let all = group.tests - group.skipped;
        page.push_str(&format!("| {sig} | {all} | {needed} | {passed} | {open} |\n"));
        (tests, containers) = (tests + all, containers + needed);
        total = Sum { passed: total.passed + passed, open: total.open + open };
    }
    let Sum { passed, open } = total;
    page.push_str(&format!("| all | {tests} | {containers} | {passed} | {open} |\n\n"));
    total
}

/// The overview, the tests one by one, and the line of the README.
fn documents() -> (String, String, String) {
    let suite: Suite = toml::from_str(&std::fs::read_to_string(Path::new(FOLDER).join("suite.toml")).unwrap()).unwrap();
    let own = own_tests();
    let now = |test: &String| if suite.since.contains(test) { Now::Passes } else { Now::Open };
    let failed: Vec<(&str, Now)> =
        suite.failed.iter().flat_map(|group| &group.tests).map(|test| (test.as_str(), now(test))).collect();
    let reasons: BTreeMap<&str, &str> = (suite.left.iter())
        .flat_map(|group| group.tests.iter().map(|test| (test.as_str(), group.because.as_str())))
        .collect();
    for (test, now) in &failed {
        assert_eq!(
            reasons.contains_key(test),
            *now == Now::Open,
            "it passed again, or there is a reason why not: {test}"
        );
    }
    let of = |wanted: bool| -> Vec<(&str, Now)> {
        failed.iter().copied().filter(|(test, _)| is_conformance(test) == wanted).collect()
    };
    let mut page = "# Kubernetes' own tests\n\n\
        klab was held against the end-to-end suite of Kubernetes v1.36.2: an earlier version all of it, this one what had not passed then and\n\
        most of what had. This page has the totals, and [another one](../look-up/conformance.md) the tests. A test makes both from what was found\n\
        ([suite.toml](../../crates/cluster/tests/it/conformance/suite.toml)) and from the tests of\n\
        [klab-cluster](../../crates/cluster/tests/it/conformance/mod.rs) that stand for tests of the suite: in process, on a stepped clock, each\n\
        below the names of those that it stands for. They keep what the suite has shown.\n\n\
        Tests that need running containers (they execute commands in a shell, send packets, or have a server in a pod) cannot pass here:\n\
        [likeness and differences](fidelity.md). The tables count them as such, though some pass, because klab follows scripts and knows the pod and\n\
        its volumes. klab simulates no server of Kubernetes' test images: eight tests of the first table and one of the second passed\n\
        against such a simulation once, and are left.\n\
        The totals are from before klab's containers were reduced to what is certain; the suite has not been run again since.\n\n\
        ## Conformance\n\n"
        .to_owned();
    let sum = table(&suite.conformance, &of(true), &mut page);
    page.push_str("## Further tests that were chosen because they might need no container\n\n");
    table(&suite.further, &of(false), &mut page);
    let overview = page.trim_end().to_owned() + "\n";
    let mut page = "# Conformance: every test\n\nThe tests of Kubernetes' own suite that did not pass at first, by what kept them from it. \
        [The overview](../understand/conformance.md) has\nthe totals, and says how to read them.\n"
        .to_owned();
    for group in &suite.failed {
        page.push_str(&format!("\n## {}\n\n| test | now |\n|---|---|\n", group.because));
        for test in &group.tests {
            let kept = own.get(test).map(|(file, name)| format!("[{name}](../../{FOLDER}/{file})"));
            let now = match (reasons.get(test.as_str()), kept) {
                (None, Some(kept)) => format!("passes; kept by {kept}"),
                (None, None) => "passes".to_owned(),
                (Some(because), Some(kept)) => format!("{because}; the rest of it: {kept}"),
                (Some(because), None) => (*because).to_owned(),
            };
            page.push_str(&format!("| {} | {now} |\n", test.replace('|', "\\|")));
        }
    }
    let rest: Vec<_> = own.iter().filter(|(test, _)| !failed.iter().any(|(failed, _)| failed == test)).collect();
    if !rest.is_empty() {
        page.push_str("\n## Not among them, with a test of klab's as well\n\n| test | now |\n|---|---|\n");
        for (test, (file, name)) in rest {
            page.push_str(&format!("| {} | kept by [{name}](../../{FOLDER}/{file}) |\n", test.replace('|', "\\|")));
        }
    }
    let Sum { passed, open } = sum;
    let all = passed + open;
    let line = format!("{LINE}{passed} of the {all} conformance tests that need no container pass.");
    (overview, page, line)
}

#[test]
fn the_page_is_what_the_tests_say() {
    let (overview, tests, line) = documents();
    let pages = [(OVERVIEW, overview), (TESTS, tests)];
    let readme = std::fs::read_to_string("README.md").unwrap();
    let with_line = |readme: &str| -> String {
        let lines = readme.lines().map(|old| if old.starts_with(LINE) { &*line } else { old });
        lines.map(|line| format!("{line}\n")).collect()
    };
    for (path, page) in pages {
        is_written(Path::new(path), &page);
    }
    is_written(Path::new("README.md"), &with_line(&readme));
    assert!(readme.lines().any(|written| written.starts_with(LINE)), "README.md has no line of it: {line}");
}
