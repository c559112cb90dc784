//! Figures of `klab serve --ephemeral`: `cargo bench --bench ephemeral`.
//!
//! Every figure is of whole processes of the release binary, started as a test starts them.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod machine;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use machine::machine;

const KLAB: &str = env!("CARGO_BIN_EXE_klab");
const ROUNDS: usize = 25;
/// Clusters at the same time.
const MANY: usize = 100;

/// A cluster that has said that it is ready, and when it did.
struct Served {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
    ready: Duration,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let begun = Instant::now();
        let mut command = Command::new(KLAB);
        command.args(["serve", "--ephemeral"]).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        Self::wait(begun, command.spawn().expect("klab starts"))
    }

    fn wait(begun: Instant, mut process: Child) -> Self {
        let mut output = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says that it is ready");
        assert!(line.starts_with('{'), "it is ready: {line}");
        Self { process, output, ready: begun.elapsed() }
    }

    fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it is alive");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux tells memory");
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
    }

    fn end(mut self) {
        self.process.kill().expect("it is alive");
        self.process.wait().expect("it was started here");
    }
}

fn report(what: &str, times: &mut [Duration], bar: Option<Duration>) {
    times.sort();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let median = times[times.len() / 2];
    let verdict = bar.map_or_else(String::new, |bar| {
        let verdict = if median <= bar { "reached" } else { "MISSED" };
        format!("   bar {:>4.0} ms {verdict}", milliseconds(bar))
    });
    println!(
        "{what:<58} min {:>7.1}  median {:>7.1}  max {:>7.1} ms{verdict}",
        milliseconds(times[0]),
        milliseconds(median),
        milliseconds(times[times.len() - 1]),
    );
}

fn main() {
    println!("{}", machine());
    for clock in ["machine", "stepped"] {
        let mut memory = 0;
        let mut ready: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let served = Served::start(&["--nodes", "3", "--clock", clock]);
                let ready = served.ready;
                memory = memory.max(served.memory_kib());
                served.end();
                ready
            })
            .collect();
        report(&format!("ready, from exec, three nodes, {clock} clock"), &mut ready, Some(Duration::from_millis(60)));
        println!("{:<58} {:.1} MiB resident", "its memory", memory as f64 / 1024.0);
    }
    let mut gone: Vec<Duration> = (0..ROUNDS).map(|_| gone_after_its_parent()).collect();
    report("gone after its parent was killed", &mut gone, Some(Duration::from_millis(50)));
    many();
}

/// A shell starts it and is killed; until the last who has the shell's stdout is gone.
fn gone_after_its_parent() -> Duration {
    let line = format!("'{KLAB}' serve --ephemeral & exec sleep 600");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut parent = Served::wait(Instant::now(), command.spawn().expect("a shell starts"));
    let killed = Instant::now();
    parent.process.kill().expect("it is alive");
    let mut rest = String::new();
    parent.output.read_to_string(&mut rest).expect("it ends");
    let gone = killed.elapsed();
    parent.process.wait().expect("it was started here");
    gone
}

/// All started at once; until each of them is ready.
fn many() {
    let begun = Instant::now();
    let starting: Vec<_> = (0..MANY).map(|_| std::thread::spawn(|| Served::start(&["--clock", "stepped"]))).collect();
    let served: Vec<Served> = starting.into_iter().map(|one| one.join().expect("it is ready")).collect();
    let all = begun.elapsed();
    let memory: u64 = served.iter().map(Served::memory_kib).sum();
    let mut ready: Vec<Duration> = served.iter().map(|one| one.ready).collect();
    report(&format!("{MANY} started at once, ready"), &mut ready, None);
    let seconds = all.as_secs_f64();
    println!("{:<58} {seconds:.2} s, {:.0} MiB resident", "all of them", memory as f64 / 1024.0);
    let ending = Instant::now();
    served.into_iter().for_each(Served::end);
    println!("{:<58} {:.2} s", "all of them ended, one after the other", ending.elapsed().as_secs_f64());
}
