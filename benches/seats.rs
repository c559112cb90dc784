//! Classes on the embedded cluster: `cargo bench --bench seats`, or `-- 200 500 10000` for classes of some sizes.
//!
//! Of each class: how long it takes to be up and verified, what a seat that nobody uses costs in memory and on disk, how
//! fast one is there that somebody asks for, what a few hundred in use cost, what is left of that when they are quiet again,
//! a reset, a seat that floods beside others, a server that is killed, the end. Every process is the release binary.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and stops where it fails"
)]

mod machine;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use klab_operations::provider::sim::server;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;
use tokio::runtime::Runtime;

use machine::machine;

const KLAB: &str = env!("CARGO_BIN_EXE_klab");
/// The class's lab.
const LAB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/labs/scheduling.toml");
const NAME: &str = "scheduling";
/// Seats that are used at a time.
const IN_USE: usize = 500;
/// Seats whose first answers are timed.
const FIRST: usize = 200;
/// Resets that are timed.
const RESETS: usize = 50;
/// How long one seat floods, over so many connections.
const FLOOD: Duration = Duration::from_secs(5);
const FLOODERS: usize = 64;

/// A klab home; its server ends with this value.
struct Home(tempfile::TempDir);

impl Drop for Home {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("home")
    }

    fn klab(&self, arguments: &[&str]) -> Duration {
        let begun = Instant::now();
        let output = Command::new(KLAB)
            .args(arguments)
            .env("KLAB_HOME", self.path())
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "klab {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        begun.elapsed()
    }

    fn server(&self) -> Option<u32> {
        server::access(&self.path().join("server")).map(|access| access.pid)
    }

    fn kill(&self) {
        if let Some(pid) = self.server() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }

    /// Resident memory of the server, in KiB.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server().unwrap())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// What all files and folders take on the disk, in KiB; one with several names counts once.
    fn disk(&self) -> f64 {
        fn of(path: &Path, seen: &mut std::collections::HashSet<u64>) -> u64 {
            let Ok(about) = path.symlink_metadata() else { return 0 };
            let own = if seen.insert(about.ino()) { about.blocks() * 512 } else { 0 };
            let inside = std::fs::read_dir(path).into_iter().flatten().flatten();
            own + if about.is_dir() { inside.map(|entry| of(&entry.path(), seen)).sum() } else { 0 }
        }
        of(&self.path(), &mut std::collections::HashSet::new()) as f64 / 1024.0
    }

    fn seat(number: usize) -> String {
        format!("{NAME}-{number:02}")
    }

    async fn client(&self, seat: &str) -> Client {
        let path = self.path().join("server/clusters").join(seat).join("kubeconfig");
        let kubeconfig = Kubeconfig::read_from(path).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        // As kubectl, it sends what it has at once; kube's own client waits for the other end first, which takes 40 ms.
        klab_operations::client::client_of(config).unwrap()
    }

    async fn admin(&self) -> server::Client {
        let access = server::access(&self.path().join("server")).unwrap();
        server::Client::new(&access).await.unwrap_or_else(|error| panic!("{error:?}"))
    }
}

/// A line of the report.
fn figure(what: &str, found: f64, unit: &str, bar: f64) {
    let reached = if found <= bar { "reached" } else { "MISSED" };
    println!("  {what:<62} {found:>10.1} {unit:<4} bar ≤ {bar} {unit} {reached}");
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The time that this share of the times does not exceed.
fn quantile(times: &mut [Duration], share: f64) -> f64 {
    times.sort();
    let at = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1;
    milliseconds(times[at])
}

fn main() {
    let picked: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let picked = if picked.is_empty() { vec![200, 500, 10_000] } else { picked };
    println!("{}", machine());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for seats in picked {
        class(&runtime, seats);
    }
}

fn class(runtime: &Runtime, seats: usize) {
    println!("\na class of {seats}");
    let home = Home::new();
    let bar = match seats {
        0..=200 => 1.0,
        201..=500 => 2.0,
        _ => 15.0,
    };
    let up = home.klab(&["up", LAB, "--seats", &seats.to_string()]);
    figure("up and verified", up.as_secs_f64(), "s", bar);
    let (memory, disk) = (home.memory(), home.disk());
    // What the server and the first seat take, which all others share.
    let alone = Home::new();
    alone.klab(&["up", LAB, "--seats", "1"]);
    figure("a parked seat: memory", (memory - alone.memory()).max(0.0) / seats as f64, "KiB", 32.0);
    figure("a parked seat: disk", (disk - alone.disk()).max(0.0) / seats as f64, "KiB", 64.0);
    drop(alone);

    let first = runtime.block_on(first_answers(&home, seats));
    figure("first answer of a parked seat, TLS included: median", first.0, "ms", 10.0);
    figure("first answer of a parked seat, TLS included: 99 %", first.1, "ms", 10.0);
    runtime.block_on(in_use(&home, seats));
    runtime.block_on(resets(&home));
    flood(&home, seats);
    runtime.block_on(quiet(&home, seats, memory));

    home.kill();
    let again = home.klab(&["verify", &Home::seat(seats)]);
    figure("after a kill -9: a seat verified, the server started for it", again.as_secs_f64(), "s", 2.0);
    let down = home.klab(&["down", NAME]);
    println!("  {:<62} {:>10.1} s", "down", down.as_secs_f64());
}

/// Median and 99 % of the first answers of seats that nobody has used, each over a connection of its own.
async fn first_answers(home: &Home, seats: usize) -> (f64, f64) {
    let mut times = Vec::new();
    for number in (2..=seats).rev().take(FIRST) {
        let client = home.client(&Home::seat(number)).await;
        let begun = Instant::now();
        let nodes = Api::<Node>::all(client).list(&ListParams::default()).await.unwrap();
        times.push(begun.elapsed());
        assert!(!nodes.items.is_empty());
    }
    (quantile(&mut times, 0.5), quantile(&mut times, 0.99))
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "a": "b" } })).unwrap()
}

/// Memory while many seats are used, each by somebody who writes and watches.
async fn in_use(home: &Home, seats: usize) {
    let mut watches = Vec::new();
    for number in 1..=seats.min(IN_USE) {
        let client = home.client(&Home::seat(number)).await;
        let maps = Api::<ConfigMap>::default_namespaced(client.clone());
        maps.create(&PostParams::default(), &map("mine")).await.unwrap();
        let watch = http::Request::get("/api/v1/pods?watch=true").body(Vec::new()).unwrap();
        watches.push(client.request_stream(watch).await.unwrap());
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let what = format!("{} seats of {seats} in use: memory of the server", watches.len());
    figure(&what, home.memory() / 1024.0, "MiB", 1536.0);
}

async fn resets(home: &Home) {
    let admin = home.admin().await;
    let mut times = Vec::new();
    for _ in 0..RESETS {
        let client = home.client(&Home::seat(2)).await;
        let maps = Api::<ConfigMap>::default_namespaced(client);
        maps.patch(
            "changed",
            &PatchParams::apply("bench"),
            &Patch::Apply(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "changed" }, "data": { "a": "b" },
            })),
        )
        .await
        .unwrap();
        let begun = Instant::now();
        admin.reset(&Home::seat(2)).await.unwrap_or_else(|error| panic!("{error:?}"));
        times.push(begun.elapsed());
        assert!(maps.get_opt("changed").await.unwrap().is_none());
    }
    figure("reset of a seat: slowest", quantile(&mut times, 1.0), "ms", 50.0);
}

/// Answers of a seat while another one floods, from a thread that does not wait for those who flood.
fn flood(home: &Home, seats: usize) {
    let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let flooders = (0..FLOODERS).map(|_| async {
                let client = home.client(&Home::seat(2)).await;
                while !over.load(Ordering::Relaxed) {
                    let request = http::Request::get("/api/v1/pods").body(Vec::new()).unwrap();
                    let _: Result<String, _> = client.request_text(request).await;
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
            runtime.block_on(futures::future::join_all(flooders));
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let nodes = Api::<Node>::all(home.client(&Home::seat(seats)).await);
            let begun = Instant::now();
            while begun.elapsed() < FLOOD {
                let asked = Instant::now();
                nodes.list(&ListParams::default()).await.unwrap();
                times.push(asked.elapsed());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        over.store(true, Ordering::Relaxed);
    });
    let sent = sent.load(Ordering::Relaxed) as f64 / FLOOD.as_secs_f64();
    figure(
        &format!("answer beside a seat that floods ({sent:.0} requests a second): 99 %"),
        quantile(&mut times, 0.99),
        "ms",
        100.0,
    );
}

/// Memory when nobody has used anything for a while.
async fn quiet(home: &Home, seats: usize, before: f64) {
    let (admin, begun) = (home.admin().await, Instant::now());
    for number in 1..=seats.min(IN_USE) {
        while admin.state(&Home::seat(number)).await.unwrap_or_else(|error| panic!("{error:?}")).active {
            assert!(begun.elapsed() < Duration::from_mins(2), "seat {number} is not parked");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let what = "all quiet again: memory beyond what it was before";
    figure(what, (home.memory() - before).max(0.0) / 1024.0, "MiB", 100.0);
}
