//! The pages of a class in a real browser, driven by `tests/browser/drive.mjs` as the board's are.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::identity::Provider;
use super::running::Running;
use crate::board::Page;
use crate::board::browser::is_driven;
use crate::environment::{Environment, has_kubectl};

/// Longest that a scenario may take; beside two others it takes up to four minutes on two processors.
const PATIENCE: Duration = Duration::from_mins(15);

/// Plays a scenario with a class: its address, its code, the instructor's link, and what else it takes.
pub(super) fn play(host: &Running, scenario: &str, words: &[String]) {
    let said = host.home().join("drive.err");
    let mut node = Command::new("node");
    node.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/browser/drive.mjs")).arg(scenario);
    node.args([&host.url, &host.code, host.document["instructor"].as_str().unwrap()]).args(words);
    node.env("KLAB_SCRATCH", host.home());
    let mut node = node.stdin(Stdio::null()).stderr(std::fs::File::create(&said).unwrap()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    let status = loop {
        match node.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() > until => break None,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    if status.is_none() {
        let _ = node.kill();
        let _ = node.wait();
    }
    let said = std::fs::read_to_string(said).unwrap();
    assert!(status.is_some_and(|status| status.success()), "{scenario}: {said}");
}

#[test]
fn somebody_joins_and_learns_while_the_instructor_helps() {
    if is_driven() {
        play(&Running::start(&["scheduling"]), "class", &[]);
    }
}

#[test]
fn a_class_practises_against_the_clock() {
    if is_driven() && has_kubectl() {
        let tasks = ["practice/uncordon-the-right-node", "practice/customers-go-first"];
        play(&Running::start(&["--practice", "--minutes", "30", tasks[0], tasks[1]]), "practice", &[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_signs_in_from_two_browsers_and_has_one_seat() {
    if is_driven() {
        let provider = Provider::start().await;
        let (host, _folder) = super::oidc::class(&provider, &["--oidc-instructors", "groups=platform"]);
        tokio::task::spawn_blocking(move || play(&host, "signin", &[])).await.unwrap();
    }
}

/// Plays a scenario with a class that has a console.
fn play_with_console(scenario: &str) {
    if is_driven() && has_kubectl() {
        play(&Running::start(&["scheduling", "--console", "--console-unconfined"]), scenario, &[]);
    }
}

#[test]
fn a_console_is_typed_in_by_keyboard_and_axe_finds_nothing() {
    play_with_console("console");
}

#[test]
fn a_small_board_stands_beside_the_row_where_somebody_rests() {
    play_with_console("rests");
}

#[test]
fn seats_and_classes_are_used_by_keyboard_alone() {
    play_with_console("byKeyboard");
}

#[test]
fn pages_that_were_cut_off_show_what_happened_meanwhile() {
    play_with_console("cutOff");
}

#[test]
fn pages_that_are_open_for_a_night_do_not_grow() {
    play_with_console("overnight");
}

/// Plays a scenario with every page there is: a class, a board, a report and the pieces of the design.
fn play_with_every_page(scenario: &str) {
    if !is_driven() || !has_kubectl() {
        return;
    }
    let environment = Environment::new();
    environment.succeeds(&["up", concat!(env!("CARGO_MANIFEST_DIR"), "/labs/scheduling.toml")]);
    environment.succeeds(&["test", "taints", "--report", "report.html"]);
    let board = Page::of(&environment);
    let report = format!("report={}", environment.folder().join("report.html").display());
    let design = concat!("design=", env!("CARGO_MANIFEST_DIR"), "/templates/design/index.html").to_owned();
    let host = Running::start(&["scheduling", "--console", "--console-unconfined"]);
    play(&host, scenario, &[board.link.clone(), report, design]);
}

#[test]
fn every_page_looks_as_it_did() {
    play_with_every_page("pictures");
}

#[test]
fn every_page_fits_when_it_is_enlarged_to_200_percent() {
    play_with_every_page("enlarged");
}
