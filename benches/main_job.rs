//! Figures of klab's main job on the embedded cluster: `cargo bench --bench main_job`.
//!
//! Every figure is of whole processes of the release binary, started as a user would start them.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod machine;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use machine::machine;

const KLAB: &str = env!("CARGO_BIN_EXE_klab");
const ROUNDS: usize = 15;

struct Bench {
    home: tempfile::TempDir,
}

impl Bench {
    fn klab(&self, arguments: &[&str]) -> (Duration, Output) {
        let started = Instant::now();
        let output = Command::new(KLAB)
            .args(arguments)
            .env("KLAB_HOME", self.home.path().join("state"))
            .env_remove("KLAB_PROVIDER")
            .stdin(Stdio::null())
            .output()
            .expect("klab starts");
        let elapsed = started.elapsed();
        assert!(output.status.success(), "klab {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        (elapsed, output)
    }

    fn server_memory_kib(&self) -> u64 {
        let record = std::fs::read(self.home.path().join("state/server/access.json")).expect("the server runs");
        let record: serde_json::Value = serde_json::from_slice(&record).expect("its record is JSON");
        let status = std::fs::read_to_string(format!("/proc/{}/status", record["pid"])).expect("it is alive");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux tells memory");
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
    }
}

fn report(what: &str, times: &mut [Duration], bar: Duration) {
    times.sort();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let median = times[times.len() / 2];
    let verdict = if median < bar { "reached" } else { "MISSED" };
    println!(
        "{what:<58} min {:>8.1}  median {:>8.1}  max {:>8.1} ms   bar {:>6.0} ms {verdict}",
        milliseconds(times[0]),
        milliseconds(median),
        milliseconds(times[times.len() - 1]),
        milliseconds(bar),
    );
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    println!("{}", machine());
    scheduling_lab(&root.join("labs/scheduling.toml"));
    large_lab();
}

/// Up, verify and down of the shipped lab, each round from nothing.
fn scheduling_lab(lab: &Path) {
    let lab = lab.to_str().expect("the path is text");
    let (mut up, mut verify, mut down, mut version) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut memory = 0;
    for _ in 0..ROUNDS {
        let bench = Bench { home: tempfile::tempdir().expect("a temporary folder") };
        version.push(bench.klab(&["--version"]).0);
        up.push(bench.klab(&["up", lab]).0);
        verify.push(bench.klab(&["verify"]).0);
        memory = memory.max(bench.server_memory_kib());
        down.push(bench.klab(&["down"]).0);
    }
    report("klab --version", &mut version, Duration::from_millis(10));
    report("klab up labs/scheduling.toml, cold, all checks hold", &mut up, Duration::from_millis(150));
    report("klab verify", &mut verify, Duration::from_millis(30));
    report("klab down", &mut down, Duration::from_millis(100));
    let mebibytes = memory as f64 / 1024.0;
    let verdict = if mebibytes < 40.0 { "reached" } else { "MISSED" };
    println!("{:<58} {mebibytes:.1} MiB resident   bar 40 MiB {verdict}", "server memory with this lab");
}

/// 1,000 ConfigMaps and 100 Deployments against a server that runs already.
fn large_lab() {
    let bench = Bench { home: tempfile::tempdir().expect("a temporary folder") };
    // Another lab keeps the server running between the rounds.
    let keeper = bench.home.path().join("keeper.toml");
    let text = "lab = \"keeper\"\n\n[pool.nodepool1]\nmode = \"system\"\nnodes = 1\nsize = \"Standard_B2ms\"\n";
    std::fs::write(&keeper, text).expect("the folder is writable");
    bench.klab(&["up", keeper.to_str().expect("the path is text")]);
    let lab = write_large_lab(bench.home.path());
    let lab = lab.to_str().expect("the path is text");
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        first.push(bench.klab(&["up", lab]).0);
        again.push(bench.klab(&["up", lab]).0);
        bench.klab(&["down", "large"]);
    }
    bench.klab(&["down", "keeper"]);
    report("klab up of 1,000 ConfigMaps and 100 Deployments, settled", &mut first, Duration::from_secs(2));
    report("the same again, unchanged", &mut again, Duration::from_secs(1));
}

fn write_large_lab(folder: &Path) -> PathBuf {
    let mut manifests = String::new();
    for number in 0..1000 {
        let _ = write!(
            manifests,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config-{number}\ndata:\n  key: value-{number}\n"
        );
    }
    std::fs::write(folder.join("config.yaml"), manifests).expect("the folder is writable");
    let mut lab = String::from(
        "lab = \"large\"\n\n[pool.nodepool1]\nmode = \"system\"\nnodes = 4\nsize = \"Standard_D16s_v5\"\n\n\
         [[manifest]]\npath = \"config.yaml\"\n",
    );
    for number in 0..100 {
        let _ = write!(
            lab,
            "\n[workload.web-{number}]\nimage = \"nginx:1.27\"\nrequests = {{ cpu = \"10m\", memory = \"16Mi\" }}\n\n\
             [[check]]\nworkload = \"web-{number}\"\nrunning = 1\n"
        );
    }
    let path = folder.join("large.toml");
    std::fs::write(&path, lab).expect("the folder is writable");
    path
}
