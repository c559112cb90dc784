//! A hosted class in which learners do their worst: how long a neighbour waits meanwhile, and how much memory the host takes
//! before, at its height, and a minute after.

mod attacks;
mod unread;

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt;
use klab::seat::Host;
use klab_operations::client::bearer::Trust;
use kube::Client;
use serde_json::{Value, json};

use crate::class::{begin, client_of};

/// The slowest answer of a neighbour.
const BAR: Duration = Duration::from_millis(300);
/// What a load may leave in memory.
const LEFT: f64 = 60.0;
/// How long each goes on, and how long after it memory is looked at.
const ATTACK: Duration = Duration::from_secs(15);
const AFTER: Duration = Duration::from_secs(60);
/// Between two requests of the neighbour, and between two of its large ones.
const PAUSE: Duration = Duration::from_millis(25);
const BETWEEN_LARGE: Duration = Duration::from_millis(500);
/// Bytes of the neighbour's ConfigMap.
const LARGE: usize = 600_000;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// What some learners do.
struct Load {
    name: &'static str,
    what: &'static str,
    /// How many of them.
    learners: usize,
    /// Whether the neighbour sends large ConfigMaps, too.
    large: bool,
    act: fn(Arc<Class>) -> BoxFuture<'static, ()>,
}

const LOADS: [Load; 9] = [
    Load { name: "ports", what: "pods with very many ports", learners: 2, large: false, act: attacks::ports },
    Load { name: "long", what: "two labs send pods of 2.5 MB", learners: 2, large: true, act: attacks::long },
    Load { name: "bodies", what: "bodies of 3 MB at once", learners: 2, large: false, act: attacks::bodies },
    Load {
        name: "objects",
        what: "1,000 large pods, made and deleted",
        learners: 1,
        large: false,
        act: attacks::objects,
    },
    Load {
        name: "definitions",
        what: "definitions with hostile patterns",
        learners: 2,
        large: false,
        act: attacks::definitions,
    },
    Load { name: "lists", what: "lists of 20 MB, and 200 watches", learners: 2, large: false, act: attacks::lists },
    Load {
        name: "strangers",
        what: "96,000 unread pages, no credentials",
        learners: 0,
        large: false,
        act: unread::strangers,
    },
    Load { name: "unread", what: "unread answers of 1 MB of a seat", learners: 1, large: false, act: unread::learners },
    Load { name: "parked", what: "300 seats, used and parked", learners: 300, large: false, act: attacks::parked },
];

/// A class with learners.
pub(crate) struct Class {
    url: String,
    seats: Vec<Value>,
    until: Instant,
    ended: AtomicBool,
}

impl Class {
    async fn client(&self, seat: usize) -> Client {
        client_of(&self.seats[seat]).await
    }

    /// Whether the learners have had their time.
    fn is_over(&self) -> bool {
        Instant::now() > self.until
    }
}

/// Sends a request and reads the answer; gives its status, and 0 where there is none.
async fn send(client: &Client, method: &str, path: &str, body: &[u8]) -> u16 {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let Ok(answer) = client.send(request.body(body.to_vec().into()).unwrap()).await else { return 0 };
    let status = answer.status().as_u16();
    let read = answer.into_body().collect().await;
    if read.is_ok() { status } else { 0 }
}

fn map(name: &str, bytes: usize) -> Vec<u8> {
    json!({ "metadata": { "name": name }, "data": { "a": "x".repeat(bytes) } }).to_string().into_bytes()
}

/// MiB of memory of a process, of this line of its status.
fn memory(child: &Child) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// The slowest of something, as one thread notes it and another reads it.
#[derive(Default)]
struct Slowest {
    milliseconds: AtomicU64,
    answers: AtomicU64,
}

impl Slowest {
    fn note(&self, since: Instant) {
        self.milliseconds.fetch_max(since.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    fn tell(&self, what: &str) {
        let (slowest, answers) = (self.milliseconds.load(Ordering::Relaxed), self.answers.load(Ordering::Relaxed));
        let reached = if u128::from(slowest) <= BAR.as_millis() { "reached" } else { "MISSED" };
        println!("    {what}: slowest of {answers} {slowest} ms   bar ≤ {} ms {reached}", BAR.as_millis());
    }
}

/// A neighbour works until the class is over.
async fn neighbour(class: Arc<Class>, seat: usize, large: bool, small: Arc<Slowest>, of_large: Arc<Slowest>) {
    let client = class.client(seat).await;
    let lists = async {
        while !class.ended.load(Ordering::Relaxed) {
            let since = Instant::now();
            let status = send(&client, "GET", MAPS, &[]).await;
            assert_eq!(status, 200, "after {:?}", since.elapsed());
            small.note(since);
            tokio::time::sleep(PAUSE).await;
        }
    };
    let writes = async {
        let body = map("large", LARGE);
        while large && !class.ended.load(Ordering::Relaxed) {
            let since = Instant::now();
            let status = send(&client, "POST", &format!("{MAPS}?dryRun=All"), &body).await;
            assert_eq!(status, 201, "after {:?}", since.elapsed());
            of_large.note(since);
            tokio::time::sleep(BETWEEN_LARGE).await;
        }
    };
    tokio::join!(lists, writes);
}

/// Where attackers run. Real ones have machines of their own: here they get the processor time that the host and the neighbour leave.
pub(crate) fn runtime_of_attackers() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let last_of_all = || {
        rustix::process::nice(19).unwrap();
    };
    builder.worker_threads(2).enable_all().on_thread_start(last_of_all).build().unwrap()
}

fn run_one(load: &Load) {
    let home = tempfile::tempdir().unwrap();
    let (mut child, document) = begin(home.path(), &["scheduling", "--max-seats", "1000"]);
    let runtime = runtime_of_attackers();
    let class = runtime.block_on(async {
        let (url, code) = (document["url"].as_str().unwrap().to_owned(), document["code"].as_str().unwrap().to_owned());
        let host = Host::new(&url, Trust::Anybody, None).await.unwrap();
        let mut seats = Vec::new();
        for number in 0..=load.learners {
            seats.push(host.join(&code, &format!("learner {number}"), "246810", None).await.unwrap());
        }
        Arc::new(Class { url, seats, until: Instant::now() + ATTACK, ended: AtomicBool::new(false) })
    });
    let (small, large) = (Arc::<Slowest>::default(), Arc::<Slowest>::default());
    let before = memory(&child);
    let height = std::thread::scope(|scope| {
        // The neighbour has a thread and a client of its own, so that it does not wait for those who attack.
        let one = neighbour(Arc::clone(&class), load.learners, load.large, Arc::clone(&small), Arc::clone(&large));
        scope.spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(one);
        });
        let acting = runtime.spawn((load.act)(Arc::clone(&class)));
        let mut height = before;
        while !acting.is_finished() {
            height = height.max(memory(&child));
            std::thread::sleep(PAUSE);
        }
        class.ended.store(true, Ordering::Relaxed);
        runtime.block_on(acting).unwrap();
        height
    });
    drop(runtime);
    std::thread::sleep(AFTER);
    let after = memory(&child);
    println!("{}", load.what);
    small.tell("a neighbour's small list");
    if load.large {
        large.tell("a neighbour's ConfigMap of 600 KB");
    }
    let reached = if after <= before + LEFT { "reached" } else { "MISSED" };
    println!(
        "    memory before, at its height, a minute after: {before:.0}, {height:.0}, {after:.0} MiB   bar ≤ {:.0} MiB {reached}",
        before + LEFT
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Runs the loads that are wanted.
pub(crate) fn run(wants: impl Fn(&str) -> bool) {
    for load in LOADS.iter().filter(|load| wants(load.name)) {
        run_one(load);
    }
}
