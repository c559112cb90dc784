//! Figures of the embedded cluster's API server: `cargo bench --bench api`, or `-- applies lists bindings watches large labs` for some.
//!
//! The server is the release binary's own process; its clients are this process, over TLS on the loopback address.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and stops where it fails"
)]

mod machine;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use klab_operations::provider::sim::server::{Client as Admin, access};
use klab_server::{Delays, Flavour, Seed};
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};

use machine::machine;

const KLAB: &str = env!("CARGO_BIN_EXE_klab");
const ROUNDS: usize = 7;

/// A server process with a home of its own; both end with this value.
struct Server {
    home: tempfile::TempDir,
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("server");
        let process = Command::new(KLAB)
            .args(["serve", "--state-directory"])
            .arg(&state)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the server starts");
        let begun = Instant::now();
        while access(&state).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(10), "the server does not get ready");
            std::thread::sleep(Duration::from_millis(2));
        }
        Self { home, process }
    }

    async fn admin(&self) -> Admin {
        let found = access(&self.home.path().join("server")).unwrap();
        Admin::new(&found).await.unwrap_or_else(|error| panic!("{:#}", error.source))
    }

    /// Makes a cluster and a client of it.
    async fn cluster(&self, name: &str, seed: &Seed) -> Client {
        let made = self.admin().await.add(name, seed).await.unwrap_or_else(|error| panic!("{:#}", error.source));
        client(&made.kubeconfig).await
    }

    fn status(&self, field: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = text.lines().find(|line| line.starts_with(field)).expect("Linux tells memory");
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap()
    }

    /// Resident memory in MiB: now and at its highest.
    fn memory(&self) -> (f64, f64) {
        (self.status("VmRSS:") as f64 / 1024.0, self.status("VmHWM:") as f64 / 1024.0)
    }

    /// Processor time so far.
    fn processor(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        // Linux counts in hundredths of a second for every program that asks.
        Duration::from_millis(ticks * 10)
    }
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Prints a figure with its bar.
fn figure(what: &str, value: f64, unit: &str, bar: f64, more_is_better: bool) {
    let reached = if more_is_better { value >= bar } else { value <= bar };
    let sign = if more_is_better { "≥" } else { "≤" };
    println!("{what:<66} {value:>9.1} {unit:<11} bar {sign} {bar:>6} {}", if reached { "reached" } else { "MISSED" });
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() {
    let picked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wants = |name: &str| picked.is_empty() || picked.iter().any(|picked| picked == name);
    println!("{}", machine());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if wants("applies") {
        runtime.block_on(applies());
    }
    if wants("lists") {
        runtime.block_on(lists());
    }
    if wants("bindings") {
        for (nodes, bar) in [(1_000, 4_000.0), (5_000, 2_500.0)] {
            runtime.block_on(bindings(nodes, "*,-kubelet", "without kubelets", bar));
            runtime.block_on(bindings(nodes, "*", "that run meanwhile", 0.0));
        }
    }
    if wants("watches") {
        runtime.block_on(watches());
    }
    if wants("large") {
        runtime.block_on(large_cluster());
    }
    if wants("labs") {
        many_labs();
    }
}

fn node(number: usize, cpu: &str) -> Value {
    let name = format!("node-{number:04}");
    let resources = json!({"cpu": cpu, "memory": "64Gi", "pods": "250", "ephemeral-storage": "100Gi"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "agentpool": "nodepool1",
            "topology.kubernetes.io/zone": format!("zone-{}", number % 3)}},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn seed(nodes: usize) -> Seed {
    let objects = (0..nodes).map(|number| node(number, "16")).collect();
    Seed { objects, flavour: Flavour::Bare, delays: Delays { start: 50, ..Delays::default() }, ..Seed::default() }
}

/// Server-side applies of new ConfigMaps, as many at once as `klab up` and a few more.
async fn applies() {
    let server = Server::start();
    let client = server.cluster("applies", &seed(1)).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut times = Vec::new();
    for round in 0..=ROUNDS {
        let begun = Instant::now();
        stream::iter(0..1000)
            .for_each_concurrent(32, |number| {
                let maps = maps.clone();
                async move {
                    let name = format!("config-{round}-{number}");
                    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                        "data": {"key": format!("value-{number}")}});
                    maps.patch(&name, &PatchParams::apply("bench"), &Patch::Apply(&wanted)).await.unwrap();
                }
            })
            .await;
        times.push(begun.elapsed());
    }
    // The first round opens the connections.
    let rate = 1000.0 / median(&mut times[1..]).as_secs_f64();
    figure("1,000 ConfigMaps by concurrent server-side apply through kube-rs", rate, "requests/s", 5000.0, true);
}

/// Makes Deployments and waits until all their pods run.
async fn run_pods(client: &Client, deployments: usize, replicas: usize) -> Duration {
    let begun = Instant::now();
    for number in 0..deployments {
        let name = format!("web-{number:03}");
        let container = json!({"name": "main", "image": "nginx:1.27",
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}});
        let body = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}},
        });
        let request = http::Request::post("/apis/apps/v1/namespaces/default/deployments")
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap();
        client.request_text(request).await.unwrap();
    }
    let most = Duration::from_secs(300);
    loop {
        let path = "/apis/apps/v1/deployments";
        let list: Value = client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        let items = list["items"].as_array().unwrap();
        let ready: u64 = items.iter().filter_map(|item| item["status"]["availableReplicas"].as_u64()).sum();
        if ready as usize == deployments * replicas {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < most, "{ready} pods run after {most:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn read(client: &Client, path: &str, accept: &str) -> Bytes {
    let request = http::Request::get(path).header("accept", accept).body(kube::client::Body::empty()).unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn lists() {
    let server = Server::start();
    let client = server.cluster("lists", &seed(100)).await;
    run_pods(&client, 50, 100).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for (what, path, accept, bar) in [
        ("LIST of 5,000 pods as JSON", "/api/v1/pods", "application/json", 60.0),
        ("LIST of 5,000 pods as a table", "/api/v1/pods", table, 150.0),
        (
            "LIST of the pods of one node among 5,000",
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-0007",
            "application/json",
            60.0,
        ),
    ] {
        let (mut times, mut length) = (Vec::new(), 0);
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            length = read(&client, path, accept).await.len();
            times.push(begun.elapsed());
        }
        let what = format!("{what} ({:.1} MB)", length as f64 / 1e6);
        figure(&what, milliseconds(median(&mut times)), "ms", bar, false);
    }
}

/// Plain pods that are made through the API until the last is bound.
const PODS: usize = 5_000;

async fn bindings(nodes: usize, controllers: &str, what: &str, bar: f64) {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(bind(nodes, controllers).await);
    }
    let rate = PODS as f64 / median(&mut times).as_secs_f64();
    figure(&format!("5,000 pods {what}, made and bound on {nodes} nodes"), rate, "pods/s", bar, true);
}

/// How long 16 clients and a server of its own take from the first request to the last binding.
async fn bind(nodes: usize, controllers: &str) -> Duration {
    let mut server = Command::new(KLAB)
        .args(["serve", "--ephemeral", "--nodes", &nodes.to_string(), "--controllers", controllers])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let client = client(&line).await;
    let ask = |method: &str, path: &str, body: String| {
        let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        client.request_text(request.body(body.into_bytes()).unwrap())
    };
    let begun = Instant::now();
    stream::iter(0..PODS)
        .for_each_concurrent(16, |number| {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{number}")}, "spec": {"containers":
                [{"name": "main", "image": "nginx:1.27", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}});
            let made = ask("POST", "/api/v1/namespaces/default/pods", pod.to_string());
            async { drop(made.await.unwrap()) }
        })
        .await;
    let unbound = "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3D&limit=1";
    while ask("GET", unbound, String::new()).await.unwrap().contains("\"uid\"") {
        assert!(begun.elapsed() < Duration::from_secs(60), "pods are not bound");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let bound = begun.elapsed();
    let all = ask("GET", "/api/v1/namespaces/default/pods", String::new()).await.unwrap();
    assert_eq!(all.matches("\"nodeName\"").count(), PODS, "every pod has a node");
    let _ = server.kill();
    let _ = server.wait();
    bound
}

/// Everything of a watch until the version `last`; says how many events came, and in order.
async fn follow(client: Client, from: String, last: u64) -> usize {
    let path = format!("/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={from}");
    let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
    let mut body = client.send(request).await.unwrap().into_body();
    let (mut rest, mut seen, mut count) = (Vec::new(), 0_u64, 0);
    while seen < last {
        let data = body.frame().await.expect("the watch goes on").unwrap().into_data().unwrap();
        rest.extend_from_slice(&data);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
        for line in rest[..end].split(|byte| *byte == b'\n') {
            let version = version_of(line);
            assert!(version > seen, "version {version} after {seen}");
            (seen, count) = (version, count + 1);
        }
        rest.drain(..=end);
    }
    count
}

/// The resourceVersion in an event, without reading the rest.
fn version_of(line: &[u8]) -> u64 {
    const FIELD: &[u8] = b"\"resourceVersion\":\"";
    let at = line.windows(FIELD.len()).position(|part| part == FIELD).expect("an object") + FIELD.len();
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// 1,000 changes, and 1,000 watches that each must see all of them.
async fn watches() {
    const WATCHES: usize = 1000;
    const EVENTS: usize = 1000;
    let server = Server::start();
    let client = server.cluster("watches", &seed(1)).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let first = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "watched"}, "data": {"at": "0"}});
    let made = maps.patch("watched", &PatchParams::apply("bench"), &Patch::Apply(&first)).await.unwrap();
    let version = made.metadata.resource_version.unwrap();
    let last = version.parse::<u64>().unwrap() + EVENTS as u64;
    let watching: Vec<_> = (0..WATCHES).map(|_| tokio::spawn(follow(client.clone(), version.clone(), last))).collect();
    // Every watch has its connection before the first change.
    while server_connections(&server) < WATCHES {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begun = Instant::now();
    stream::iter(1..=EVENTS)
        .for_each_concurrent(16, |number| {
            let maps = maps.clone();
            async move {
                let data = json!({"data": {"at": number.to_string()}});
                maps.patch("watched", &PatchParams::default(), &Patch::Merge(&data)).await.unwrap();
            }
        })
        .await;
    let written = begun.elapsed();
    for watch in watching {
        assert_eq!(watch.await.unwrap(), EVENTS, "every event, once");
    }
    let what = "1,000 events to each of 1,000 watches, all delivered in order";
    figure(what, begun.elapsed().as_secs_f64(), "s", 2.0, false);
    println!("    of which {:.2} s passed until the last change was written", written.as_secs_f64());
}

/// Sockets the server's process has open.
fn server_connections(server: &Server) -> usize {
    let folder = format!("/proc/{}/fd", server.process.id());
    let links = std::fs::read_dir(folder).unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

async fn large_cluster() {
    let server = Server::start();
    let begun = Instant::now();
    let client = server.cluster("large", &seed(5000)).await;
    println!("5,000 nodes in {:.1} s", begun.elapsed().as_secs_f64());
    let elapsed = run_pods(&client, 300, 100).await;
    println!("30,000 pods of 300 Deployments created, scheduled and running in {:.1} s", elapsed.as_secs_f64());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (now, highest) = server.memory();
    figure("server with 5,000 nodes and 30,000 running pods, resident", now, "MiB", 1024.0, false);
    figure("the same at its highest", highest, "MiB", 1024.0, false);
    let (begun, before) = (Instant::now(), server.processor());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let share = server.processor().saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
    figure("its processor time while nobody asks", share, "%", 1.0, false);
}

/// 500 labs in one server, made by one command as a class is.
fn many_labs() {
    const LABS: usize = 500;
    let server = Server::start();
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("labs/scheduling.toml");
    let begun = Instant::now();
    let output = Command::new(KLAB)
        .args(["up", "--seats", &LABS.to_string()])
        .arg(&lab)
        .env("KLAB_HOME", server.home.path())
        .env_remove("KLAB_PROVIDER")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let elapsed = begun.elapsed();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (now, highest) = server.memory();
    figure("500 labs of labs/scheduling.toml in one server, all checks hold", elapsed.as_secs_f64(), "s", 15.0, false);
    figure("its memory, resident", now, "MiB", 1536.0, false);
    figure("the same at its highest", highest, "MiB", 1536.0, false);
}
