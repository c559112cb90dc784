//! Figures of lessons, practice and classes: `cargo bench --bench lessons`, or `-- lessons practice class seeds` for some.
//!
//! Every figure is of whole processes of the release binary, started as a user would start them.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod machine;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use machine::machine;

const KLAB: &str = env!("CARGO_BIN_EXE_klab");
const ROUNDS: usize = 5;
const SEATS: &str = "200";
const SEEDS: &str = "200";

fn klab(home: &Path, arguments: &[&str]) -> (Duration, Output) {
    let started = Instant::now();
    let output = Command::new(KLAB)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("KLAB_HOME", home)
        .env_remove("KLAB_PROVIDER")
        .stdin(Stdio::null())
        .output()
        .expect("klab starts");
    (started.elapsed(), output)
}

fn succeeds(home: &Path, arguments: &[&str]) -> Duration {
    let (elapsed, output) = klab(home, arguments);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "klab {arguments:?}: {}{words}", String::from_utf8_lossy(&output.stdout));
    elapsed
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let home = home.path().join("state");
    println!("{}", machine());
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let figures = [("lessons", lessons as fn(&Path)), ("practice", practice), ("class", class), ("seeds", seeds)];
    for (name, figure) in figures {
        if asked.is_empty() || asked.iter().any(|word| word == name) {
            figure(&home);
        }
    }
}

/// All shipped lessons and tasks, every step, in process.
fn lessons(home: &Path) {
    let time = median((0..ROUNDS).map(|_| succeeds(home, &["test", "labs/"])).collect());
    let bar = Duration::from_secs(20);
    println!("klab test labs/, median of {ROUNDS}: {time:.2?}   bar {bar:.0?} {}", verdict(time < bar));
}

/// From one task of a practice to the next, and what its server takes.
fn practice(home: &Path) {
    succeeds(home, &["practice", "--minutes", "120", "--draw", "1"]);
    let time = median((0..20).map(|_| succeeds(home, &["next"])).collect());
    let memory = server_memory_kib(home) / 1024;
    succeeds(home, &["practice", "--end"]);
    let bar = Duration::from_millis(100);
    println!("klab next, median of 20 tasks: {time:.0?}   bar {bar:.0?} {}", verdict(time < bar));
    println!("its server, at most: {memory} MiB resident   bar 100 MiB {}", verdict(memory < 100));
}

/// A class from nothing, every seat's checks held, and what its server takes.
fn class(home: &Path) {
    let (mut up, mut memory) = (Vec::new(), 0);
    for _ in 0..3 {
        up.push(succeeds(home, &["up", "labs/scheduling.toml", "--seats", SEATS]));
        memory = memory.max(server_memory_kib(home));
        succeeds(home, &["down"]);
    }
    let (time, bar) = (median(up), Duration::from_secs(5));
    println!("klab up labs/scheduling.toml --seats {SEATS}: {time:.2?}   bar {bar:.0?} {}", verdict(time < bar));
    let mebibytes = memory / 1024;
    println!("its server, at most: {mebibytes} MiB resident   bar 700 MiB {}", verdict(mebibytes < 700));
}

/// The most memory the server ever had.
fn server_memory_kib(home: &Path) -> u64 {
    let record = std::fs::read(home.join("server/access.json")).expect("the server runs");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("its record is JSON");
    let status = std::fs::read_to_string(format!("/proc/{}/status", record["pid"])).expect("it is alive");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux tells memory");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
}

/// Every lesson with every seed.
fn seeds(home: &Path) {
    let (time, output) = klab(home, &["test", "labs/", "--seeds", SEEDS, "--format", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a JSON document");
    for lab in document["labs"].as_array().expect("labs") {
        let failed = lab["failed_seeds"].as_array().map_or(0, Vec::len);
        let seeds = lab["seeds"].as_u64().unwrap_or_default();
        let name = lab["lab"].as_str().unwrap_or_default();
        println!("{name:<12} {} of {seeds} seeds pass   bar all {}", seeds as usize - failed, verdict(failed == 0));
    }
    println!("all labs with {SEEDS} seeds: {time:.1?}");
}
