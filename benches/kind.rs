//! klab's own share of the time on kind: `cargo bench --bench kind`.
//!
//! kind and docker are played by this program ([`pair`]); what a call of them takes is written down by it and taken off,
//! as is the start of the script that hands it over, measured apart. Nodes are Ready at once. What remains of a whole `klab` is its own.

#![expect(clippy::print_stdout, reason = "figures are the result")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use self::machine::machine;
use self::pair::Pair;

mod machine;
#[path = "../tests/kind/pair.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "made for tests")]
mod pair;

const ROUNDS: usize = 9;
const LAB: &str = "lab = \"figures\"\nkubernetes = \"1.36\"\n\n[pool.nodepool1]\nmode = \"system\"\nnodes = 2\n\n\
                   [pool.extra]\nnodes = 1\nlabels = { workload = \"extra\" }\ntaints = [\"dedicated=special:NoSchedule\"]\n";

struct Bench {
    folder: tempfile::TempDir,
    pair: Pair,
    /// What starting the stand-in takes, beside what it writes down.
    start: Duration,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pair = Pair::new(folder.path());
        let mut bench = Self { folder, pair, start: Duration::ZERO };
        let mut starts: Vec<Duration> = (0..ROUNDS).map(|_| bench.time_of_a_start()).collect();
        starts.sort();
        bench.start = starts[ROUNDS / 2];
        bench
    }

    fn time_of_a_start(&self) -> Duration {
        self.pair.forget_calls();
        let started = Instant::now();
        let docker = self.folder.path().join("pair/bin/docker");
        let status = Command::new(docker).args(["network", "ls"]).stdout(Stdio::null()).status();
        assert!(status.expect("the stand-in starts").success());
        started.elapsed().saturating_sub(self.in_calls())
    }

    fn in_calls(&self) -> Duration {
        self.pair.calls().iter().map(|(_, seconds)| Duration::from_secs_f64(*seconds)).sum()
    }

    /// Runs klab: the whole of its time, its own share, and how many calls it made.
    fn klab(&self, arguments: &[&str]) -> (Duration, Duration, usize) {
        self.pair.forget_calls();
        let started = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_klab"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("KLAB_HOME", self.folder.path().join("state"))
            .env("KLAB_PROVIDER", "kind")
            .env("PATH", self.pair.path())
            .stdin(Stdio::null())
            .output()
            .expect("klab starts");
        let whole = started.elapsed();
        assert!(output.status.success(), "klab {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let calls = self.pair.calls().len();
        let theirs = self.in_calls() + self.start * u32::try_from(calls).expect("few calls");
        (whole, whole.saturating_sub(theirs), calls)
    }

    fn write(&self, lab: &str) {
        std::fs::write(self.folder.path().join("figures.toml"), lab).expect("the folder is writable");
    }
}

fn report(what: &str, times: &mut [Duration], bar: Duration, note: &str) {
    times.sort();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let median = times[times.len() / 2];
    let verdict = if median < bar { "reached" } else { "MISSED" };
    println!(
        "{what:<52} min {:>7.1}  median {:>7.1}  max {:>7.1} ms   bar {:>6.0} ms {verdict}{note}",
        milliseconds(times[0]),
        milliseconds(median),
        milliseconds(times[times.len() - 1]),
        milliseconds(bar),
    );
}

fn main() {
    println!("{}", machine());
    let (mut up, mut again, mut added, mut down) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut calls_up, mut calls_again) = (0, 0);
    for _ in 0..ROUNDS {
        let bench = Bench::new();
        bench.write(LAB);
        let (_, own, calls) = bench.klab(&["up", "--no-wait", "figures.toml"]);
        up.push(own);
        calls_up = calls;
        let (whole, _, calls) = bench.klab(&["up", "figures.toml"]);
        again.push(whole);
        calls_again = calls;
        bench.write(&format!("{LAB}\n[pool.more]\nnodes = 1\n"));
        added.push(bench.klab(&["up", "--no-wait", "figures.toml"]).1);
        down.push(bench.klab(&["down"]).1);
    }
    let second = Duration::from_secs(1);
    report("klab's share of `up` (3 workers)", &mut up, second / 2, &format!(", {calls_up} calls"));
    report("unchanged `up`, whole", &mut again, second, &format!(", {calls_again} calls"));
    report("klab's share of adding a pool of one", &mut added, second / 2, "; with kind's own 6 s the bar is 10 s");
    report("klab's share of `down`", &mut down, second / 2, "");
}
