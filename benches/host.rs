//! A hosted class: how fast people join, how long kubectl's requests take while many learners work and while a seat floods, how soon a
//! host that was killed answers again, what open pages cost and how soon they show a change. `cargo bench --bench host`; learners are tasks of this process.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on must stop, and says where")]
#![expect(clippy::print_stdout, reason = "figures are for people")]

mod class;
mod machine;

use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use klab::seat::Host;
use klab_operations::client::bearer::{self, Trust};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use class::{begin, client_of};

/// People who join, so many at a time.
const JOINS: usize = 500;
const AT_ONCE: usize = 16;
/// People who join one after the other, each at a moment of their own, however long those before them wait.
const ARRIVALS: u32 = 6000;
const BETWEEN: Duration = Duration::from_millis(10);
/// Connections of the seat that floods.
const FLOODERS: usize = 64;
/// Learners who type something every two seconds, and for how long.
const LEARNERS: usize = 500;
const LONG: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_secs(2);
/// Learners who write when the host is killed.
const WRITERS: usize = 100;
/// Pages of learners that are open, besides the instructor's, and changes of which is timed how soon a page shows them.
const PAGES: usize = 1000;
const CHANGES: usize = 50;
/// Nobody waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time below which this share (in percent) of all lies.
fn within(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times.get((times.len() * percent / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

async fn join(url: &str, code: &str) -> Vec<Value> {
    let host = Host::new(url, Trust::Anybody, None).await.unwrap();
    let began = Instant::now();
    let joining = futures::stream::iter(0..JOINS).map(|number| {
        let (host, name) = (&host, format!("learner {number}"));
        async move {
            let since = Instant::now();
            let mut seat = host.join(code, &name, "246810", None).await.unwrap();
            let took = since.elapsed();
            seat["name"] = json!(name);
            (took, seat)
        }
    });
    let joined: Vec<(Duration, Value)> = joining.buffer_unordered(AT_ONCE).collect().await;
    let took = began.elapsed();
    let mut times: Vec<Duration> = joined.iter().map(|(time, _)| *time).collect();
    println!(
        "{JOINS} people join in {took:.2?}: {:.0} a second; half within {:.1?}, 99 % within {:.1?}",
        JOINS as f64 / took.as_secs_f64(),
        within(&mut times, 50),
        within(&mut times, 99),
    );
    joined.into_iter().map(|(_, seat)| seat).collect()
}

/// Lets people come to a host at their moments, each over a connection of their own. Whoever is not let in is lost.
async fn arrive(url: &str, code: &str) {
    let begun = tokio::time::Instant::now() + PAUSE;
    let mut waiting = Vec::new();
    for number in 0..ARRIVALS {
        // What a learner's machine does before it asks is not the host's.
        let host = Host::new(url, Trust::Anybody, None).await.unwrap();
        let (moment, code) = (begun + BETWEEN * number, code.to_owned());
        tokio::time::sleep_until(moment).await;
        waiting.push(tokio::spawn(async move {
            let joined = host.join(&code, &format!("arrival {number}"), "246810", None).await;
            (joined.is_ok(), moment.elapsed())
        }));
    }
    let (mut times, mut lost) = (Vec::new(), 0);
    for one in waiting {
        let (is_in, took) = one.await.unwrap();
        lost += usize::from(!is_in);
        times.push(took);
    }
    println!(
        "{ARRIVALS} people join, one each {BETWEEN:?}: half within {:.1?}, 99 % within {:.1?}, the slowest within {:.1?}, {lost} lost    bar 50 ms, none",
        within(&mut times, 50),
        within(&mut times, 99),
        within(&mut times, 100),
    );
}

/// One seat asks for its pods over many connections until it is ended, from a thread that nobody else waits for.
struct Flood {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<usize>,
    begun: Instant,
}

impl Flood {
    fn begin(seat: &Value) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, seat) = (Arc::clone(&is_over), seat.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let kubeconfig: Value = serde_saphyr::from_str(seat["kubeconfig"].as_str().unwrap()).unwrap();
            let url = kubeconfig["clusters"][0]["cluster"]["server"].as_str().unwrap();
            let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
            let flooders = (0..FLOODERS).map(|_| async {
                // One that does not wait because it is told to.
                let (client, mut sent) = (bearer::client(url, Trust::Anybody, Some(token), PATIENCE).await.unwrap(), 0);
                while !over.load(Ordering::Relaxed) {
                    let request = Request::get("/api/v1/pods").body(kube::client::Body::empty()).unwrap();
                    if let Ok(answer) = client.send(request).await {
                        let _ = answer.into_body().collect().await;
                    }
                    sent += 1;
                }
                sent
            });
            runtime.block_on(futures::future::join_all(flooders)).into_iter().sum()
        });
        Self { is_over, thread, begun: Instant::now() }
    }

    /// Ends it; says how many requests a second there were.
    fn end(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap() as f64 / self.begun.elapsed().as_secs_f64()
    }
}

async fn work(seats: &[Value]) {
    let clients = futures::future::join_all(seats.iter().take(LEARNERS).map(client_of)).await;
    let until = Instant::now() + LONG;
    let learners = clients.into_iter().enumerate().map(|(number, client)| async move {
        let nodes: Api<Node> = Api::all(client);
        let mut times = Vec::new();
        tokio::time::sleep(PAUSE.mul_f64(number as f64 / LEARNERS as f64)).await;
        while Instant::now() < until {
            let since = Instant::now();
            nodes.list(&ListParams::default()).await.unwrap();
            times.push(since.elapsed());
            tokio::time::sleep(PAUSE).await;
        }
        times
    });
    let mut times = futures::future::join_all(learners).await.concat();
    println!(
        "{} learners list nodes every {PAUSE:?}, {} answers: half within {:.1?}, 99 % within {:.1?}",
        seats.len().min(LEARNERS),
        times.len(),
        within(&mut times, 50),
        within(&mut times, 99),
    );
}

/// A page's stream of frames, as the browser whose cookie it is has it.
struct Page {
    frames: kube::client::Body,
}

impl Page {
    /// Opens a page by what lets its browser in, and waits for its first frame.
    async fn open(url: &str, path: &str, cookie: &str) -> Self {
        let client = bearer::client(url, Trust::Anybody, None, PATIENCE).await.unwrap();
        let request = Request::get(path).header("cookie", cookie).body(kube::client::Body::empty()).unwrap();
        let answer = client.send(request).await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        let mut page = Self { frames: answer.into_body() };
        page.next().await;
        page
    }

    async fn next(&mut self) {
        let frame = tokio::time::timeout(PATIENCE, self.frames.frame()).await;
        frame.expect("a page hears of its seat").unwrap().unwrap();
    }

    /// Takes what has come until nothing comes for a while.
    async fn rest(&mut self) {
        while tokio::time::timeout(Duration::from_millis(700), self.frames.frame()).await.is_ok() {}
    }
}

/// The cookie that a form gives to the browser that sends it.
async fn cookie(url: &str, path: &str, body: String) -> String {
    let client = bearer::client(url, Trust::Anybody, None, PATIENCE).await.unwrap();
    let request = Request::post(path).header("origin", url).header("content-type", "application/x-www-form-urlencoded");
    let answer = client.send(request.body(body.into_bytes().into()).unwrap()).await.unwrap();
    let set = answer.headers().get("set-cookie").unwrap_or_else(|| panic!("{path}: {}", answer.status()));
    set.to_str().unwrap().split(';').next().unwrap().to_owned()
}

/// Memory of a process, in MiB.
fn memory(child: &Child) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Opens the pages of learners and the instructor's, and changes something in one seat after the other.
async fn look(document: &Value, child: &Child, seats: &[Value]) {
    let text = |key: &str| document[key].as_str().unwrap();
    let (url, before) = (text("url"), memory(child));
    let word = text("instructor").split_once("#open=").unwrap().1.to_owned();
    let mut teacher = Page::open(url, "/teach/events", &cookie(url, "/teach/open", word).await).await;
    // Who was given which seat is known by the name.
    let cookies = futures::stream::iter(seats).map(|seat| async move {
        let name = seat["name"].as_str().unwrap();
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("code", text("code")), ("name", name), ("pin", "246810")])
            .finish();
        cookie(url, "/join", form).await
    });
    let cookies: Vec<String> = cookies.buffered(AT_ONCE).collect().await;
    let opened = (0..PAGES).map(|number| Page::open(url, "/learn/scheduling/events", &cookies[number % cookies.len()]));
    let mut pages: Vec<Page> = futures::stream::iter(opened).buffered(AT_ONCE).collect().await;
    let more = memory(child) - before;
    println!("{PAGES} pages of learners and the instructor's are open: {more:.0} MiB more    bar 300 MiB");
    let mut times = Vec::new();
    for (seat, page) in seats.iter().zip(&mut pages).take(CHANGES) {
        let nodes: Api<Node> = Api::all(client_of(seat).await);
        let node = nodes.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
        page.rest().await;
        let since = Instant::now();
        nodes.cordon(&node).await.unwrap();
        page.next().await;
        times.push(since.elapsed());
    }
    teacher.next().await;
    println!(
        "a change is on its page: half within {:.1?}, 90 % within {:.1?}, the slowest of {CHANGES} within {:.1?}    bar 500 ms",
        within(&mut times, 50),
        within(&mut times, 90),
        within(&mut times, 100),
    );
}

/// Kills the host while learners write, and looks for what was acknowledged.
async fn kill(home: &Path, mut child: Child, seats: &[Value]) -> Child {
    let map = |number: usize| -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": format!("written-{number}") } })).unwrap()
    };
    let clients = futures::future::join_all(seats.iter().take(WRITERS).map(client_of)).await;
    let writers: Vec<_> = clients
        .into_iter()
        .map(|client| {
            tokio::spawn(async move {
                let maps: Api<ConfigMap> = Api::default_namespaced(client);
                let mut written = 0;
                while maps.create(&PostParams::default(), &map(written)).await.is_ok() {
                    written += 1;
                }
                written
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let since = Instant::now();
    let (child, _) = begin(home, &["--resume"]);
    let mut found = 0;
    let mut first = None;
    for (seat, writer) in seats.iter().zip(writers) {
        let acknowledged: usize = writer.await.unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(client_of(seat).await);
        let there = maps.list(&ListParams::default()).await.unwrap();
        first.get_or_insert_with(|| since.elapsed());
        let kept = (0..acknowledged).filter(|number| {
            let name = format!("written-{number}");
            there.items.iter().any(|map| map.metadata.name.as_deref() == Some(&name))
        });
        let kept = kept.count();
        assert_eq!(kept, acknowledged, "an acknowledged write is lost");
        found += kept;
    }
    println!(
        "killed while {WRITERS} learners write: {found} acknowledged writes, none lost; the first answer after {:.2?}",
        first.unwrap_or_default()
    );
    child
}

/// What only a browser can tell, of a class with a console.
fn browse() {
    if std::env::var_os("KLAB_BROWSER").is_none() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (mut child, document) = begin(home.path(), &["scheduling", "--console", "--console-unconfined"]);
    let words = ["url", "code", "instructor"].map(|key| document[key].as_str().unwrap());
    let drive = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/drive.mjs");
    let output = std::process::Command::new("node").arg(drive).arg("classFigures").args(words).output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    child.kill().unwrap();
    child.wait().unwrap();
}

fn main() {
    println!("{}", machine::machine());
    browse();
    let home = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let (child, document) = begin(home.path(), &["scheduling", "--max-seats", "10000"]);
    println!("klab host scheduling: ready in {:.2?}", began.elapsed());
    let (url, code) = (document["url"].as_str().unwrap().to_owned(), document["code"].as_str().unwrap().to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut child = runtime.block_on(async {
        let seats = join(&url, &code).await;
        arrive(&url, &code).await;
        work(&seats).await;
        let flood = Flood::begin(&seats[JOINS - 1]);
        work(&seats[..LEARNERS - 1]).await;
        println!(
            "    the same beside a seat that asks {:.0} times a second over {FLOODERS} connections    bar 100 ms",
            flood.end()
        );
        look(&document, &child, &seats).await;
        kill(home.path(), child, &seats).await
    });
    child.kill().unwrap();
    child.wait().unwrap();
}
