//! The page in a real browser, driven by `tests/browser/drive.mjs`. `.ci/browser` installs what that takes and says where, in
//! `KLAB_BROWSER`; without it these tests are skipped, and say so. `KLAB_PICTURES` names a folder for screenshots.

use std::path::PathBuf;
use std::process::Command;

use super::Page;
use crate::environment::{Environment, has_kubectl};
use crate::skipped::skipped;

/// Plays a scenario with the page of a lab, and with files.
fn play(environment: &Environment, lab: &str, scenario: &str, files: &[&str]) {
    let link = Page::of(environment);
    let mut node = Command::new("node");
    node.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/browser/drive.mjs")).arg(scenario).arg(&link.link);
    node.args(files.iter().map(|file| environment.folder().join(file)));
    let kubeconfig = environment.home().join("labs").join(lab).join("kubeconfig");
    let output = node.env("KUBECONFIG", kubeconfig).output().unwrap();
    assert!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The lab of the README, where there is a browser.
fn scheduling() -> Option<Environment> {
    if !is_driven() || !has_kubectl() {
        return None;
    }
    let environment = Environment::new();
    let lab = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("labs/scheduling.toml");
    environment.succeeds(&["up", lab.to_str().unwrap()]);
    Some(environment)
}

pub(crate) fn is_driven() -> bool {
    let driven = std::env::var_os("KLAB_BROWSER").is_some();
    if !driven {
        skipped("KLAB_BROWSER names no folder with playwright-core and axe-core; `.ci/browser` makes one");
    }
    driven
}

#[test]
fn the_scripts_are_what_their_comments_say_they_are() {
    if !is_driven() {
        return;
    }
    let modules = std::env::var_os("KLAB_BROWSER").unwrap();
    let mut node = Command::new("node");
    node.arg(PathBuf::from(modules).join("node_modules/typescript/bin/tsc"));
    node.args(["--allowJs", "--checkJs", "--noEmit", "--strict", "--target", "es2022"]);
    node.args(["--lib", "es2022,dom,dom.iterable"]);
    for folder in ["templates/board", "templates/host"] {
        let entries = std::fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        node.args(files.filter(|file| file.extension().is_some_and(|end| end == "js")));
    }
    assert!(node.get_args().count() > 12, "the scripts are there");
    let output = node.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_taint_fills_the_tray_a_pod_says_why_and_the_past_comes_back() {
    if let Some(environment) = scheduling() {
        play(&environment, "scheduling", "changes", &[]);
    }
}

#[test]
fn the_lesson_is_read_and_gone_through() {
    if let Some(environment) = scheduling() {
        play(&environment, "scheduling", "lesson", &[]);
    }
}

#[test]
fn everything_is_reached_by_keyboard() {
    if let Some(environment) = scheduling() {
        play(&environment, "scheduling", "keyboard", &[]);
    }
}

#[test]
fn axe_finds_nothing_on_the_page_nor_in_files() {
    if let Some(environment) = scheduling() {
        environment.succeeds(&["board", "--save", "board.html"]);
        environment.succeeds(&["test", "taints", "--report", "test.html"]);
        play(&environment, "scheduling", "accessibility", &["board.html", "test.html"]);
    }
}

#[test]
fn a_strangers_lab_runs_and_loads_nothing() {
    if !is_driven() {
        return;
    }
    let environment = Environment::new();
    environment.write(
        "stranger.toml",
        r#"lab = "stranger"
title = "<script>hacked=1</script><img src=x onerror=hacked=1>"
description = """
<script>hacked=1</script>

<img src="https://evil.example/x.png" onerror="hacked=1"> ![x](https://evil.example/y.png)
[go](javascript:hacked=1) <iframe src="https://evil.example"></iframe>
"""

[pool.main]
mode = "system"
nodes = 1
size = "Standard_B2ms"
labels = { team = "a" }

[workload.web]
image = "nginx:1.27"
node_selector = { team = "a" }
annotations = { note = "<script>hacked=1</script>" }

[[check]]
name = "</title><script>hacked=1</script>"
workload = "web"
running = 1
hint = "<svg onload=hacked=1>"

[[step]]
name = "one"
title = "\"><img src=x onerror=hacked=1>"
text = "<style>@import 'https://evil.example/z.css'</style>"
"#,
    );
    environment.succeeds(&["up", "stranger.toml"]);
    environment.succeeds(&["board", "--save", "stranger.html"]);
    play(&environment, "stranger", "stranger", &["stranger.html"]);
}
