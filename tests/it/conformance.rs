//! `docs/understand/conformance.md` and `docs/look-up/conformance.md`: how Kubernetes' own tests end against klab. `tools/conformance` writes
//! the results, `reasons.toml` says why tests fail, and tests of `klab-cluster` name the tests that they stand for.
//! `KLAB_BLESS=1 cargo test -p klab --test it conformance::` writes both pages again, and the line of the README that has the number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::written::is_written;

/// Where the results and klab's own tests are.
const FOLDER: &str = "crates/cluster/tests/it/conformance";
const OVERVIEW: &str = "docs/understand/conformance.md";
const TESTS: &str = "docs/look-up/conformance.md";
/// How the line of the README begins.
const LINE: &str = "- [Kubernetes' own tests](docs/understand/conformance.md): ";

/// How tests of the suite ended, by name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Suite {
    passed: BTreeSet<String>,
    skipped: BTreeSet<String>,
    failed: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reasons {
    reason: Vec<Reason>,
}

/// Why some tests fail.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    /// After a colon.
    because: String,
    /// Whether the tests need running containers.
    containers: bool,
    tests: BTreeSet<String>,
}

fn read<T: DeserializeOwned>(file: &str) -> T {
    toml::from_str(&std::fs::read_to_string(Path::new(FOLDER).join(file)).unwrap()).unwrap()
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

/// Tests of one SIG, or of all.
#[derive(Default, Clone, Copy)]
struct Sum {
    passed: usize,
    containers: usize,
    left: usize,
}

/// Writes a table with a row for each SIG. Returns the last row.
fn table(suite: &Suite, reasons: &Reasons, conformance: bool, page: &mut String) -> Sum {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for test in suite.passed.iter().filter(|test| is_conformance(test) == conformance) {
        sums.entry(sig(test)).or_default().passed += 1;
    }
    for reason in &reasons.reason {
        for test in reason.tests.iter().filter(|test| is_conformance(test) == conformance) {
            let sum = sums.entry(sig(test)).or_default();
            *if reason.containers { &mut sum.containers } else { &mut sum.left } += 1;
        }
    }
    let mut all = Sum::default();
    page.push_str("| SIG | tests | pass | need containers | fail otherwise |\n|---|---|---|---|---|\n");
    let mut row = |sig: &str, Sum { passed, containers, left }: Sum| {
        page.push_str(&format!("| {sig} | {} | {passed} | {containers} | {left} |\n", passed + containers + left));
    };
    for (sig, sum) in sums {
        row(sig, sum);
        all.passed += sum.passed;
        all.containers += sum.containers;
        all.left += sum.left;
    }
    row("all", all);
    page.push('\n');
    all
}

/// The overview, the tests one by one, and the line of the README.
fn documents() -> (String, String, String) {
    let (suite, reasons): (Suite, Reasons) = (read("suite.toml"), read("reasons.toml"));
    let explained: BTreeSet<&String> = reasons.reason.iter().flat_map(|reason| &reason.tests).collect();
    assert_eq!(explained, suite.failed.iter().collect(), "reasons.toml names each test that fails, and no other");

    let mut page = "# Kubernetes' own tests\n\n\
        The end-to-end suite of Kubernetes v1.36.2 runs against `klab serve --ephemeral`. You can repeat it: build `e2e.test` from Kubernetes'\n\
        sources with `go test -c ./test/e2e`, and run\n\n    \
        tools/conformance --conformance e2e.test target/release/klab > suite.toml\n\n\
        A run takes about an hour, most of it waiting; without `--conformance` it takes further tests as well. This page has the totals of\n\
        [suite.toml](../../crates/cluster/tests/it/conformance/suite.toml); [another page](../look-up/conformance.md) names each test that fails, with\n\
        the reason, and klab's own tests that stand for tests of the suite.\n\n\
        Tests that need running containers cannot pass here: they execute commands in a shell, send packets, or have a server in a pod.\n\
        [Likeness and differences](fidelity.md) says what klab answers for containers.\n\n\
        ## Conformance\n\n"
        .to_owned();
    let Sum { passed, containers, left } = table(&suite, &reasons, true, &mut page);
    if suite.passed.iter().chain(&suite.failed).any(|test| !is_conformance(test)) {
        page.push_str(
            "## Other tests of the suite\n\nWithout those that are slow, serial, disruptive or flaky, or that need a driver, a cloud or a feature that is off by default.\n\n",
        );
        table(&suite, &reasons, false, &mut page);
    }
    if !suite.skipped.is_empty() {
        page.push_str(&format!("The suite itself skips {} tests in these clusters.\n", suite.skipped.len()));
    }
    let overview = page.trim_end().to_owned() + "\n";

    let mut page = "# Conformance: every test\n\nThe tests of Kubernetes' own suite that fail against klab, by reason, and those that klab keeps with a test of its own.\n\
        [The overview](../understand/conformance.md) has the totals.\n"
        .to_owned();
    let escaped = |test: &str| test.replace('|', "\\|");
    for reason in &reasons.reason {
        let why = if reason.containers { "Needs running containers" } else { "Fails" };
        page.push_str(&format!("\n## {why}: {}\n\n", reason.because));
        page.extend(reason.tests.iter().map(|test| format!("- {}\n", escaped(test))));
    }
    page.push_str("\n## Tests of klab's that stand for tests of the suite\n\n| test | klab's |\n|---|---|\n");
    for (test, (file, name)) in own_tests() {
        page.push_str(&format!("| {} | [{name}](../../{FOLDER}/{file}) |\n", escaped(&test)));
    }
    let others = if left == 0 { String::new() } else { format!(", {left} fail otherwise") };
    let all = passed + containers + left;
    let line = format!("{LINE}{passed} of {all} conformance tests pass, {containers} need running containers{others}.");
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
