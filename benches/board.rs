//! Figures of `klab board`, `klab watch` and reports: `cargo bench --bench board`. With `KLAB_BROWSER` (see `.ci/browser`) also
//! those that only a browser can tell.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod machine;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use machine::machine;

const KLAB: &str = env!("CARGO_BIN_EXE_klab");
/// Pages that are open at a time.
const PAGES: usize = 200;
const ROUNDS: usize = 15;

struct Bench {
    home: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { home: tempfile::tempdir().expect("a temporary folder") }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(KLAB);
        command.args(arguments).env("KLAB_HOME", self.home.path().join("state")).env_remove("KLAB_PROVIDER");
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command
    }

    fn klab(&self, arguments: &[&str]) {
        let output = self.command(arguments).output().expect("klab starts");
        assert!(output.status.success(), "klab {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn kubeconfig(&self, lab: &str) -> PathBuf {
        self.home.path().join("state/labs").join(lab).join("kubeconfig")
    }

    /// A lab of so many nodes and pods, up.
    fn with(nodes: usize, pods: usize) -> Self {
        let bench = Self::new();
        let text = format!(
            "lab = \"many\"\n[pool.main]\nmode = \"system\"\nnodes = {nodes}\nsize = \"Standard_D8s_v5\"\n\
             [workload.web]\nimage = \"nginx:1.27\"\nreplicas = {pods}\nrequests = {{ cpu = \"10m\", memory = \"10Mi\" }}\n\
             [[check]]\nworkload = \"web\"\nrunning = {pods}\n"
        );
        std::fs::write(bench.home.path().join("many.toml"), text).expect("the folder is ours");
        bench.klab(&["up", "many.toml", "--timeout", "5m"]);
        bench
    }

    fn page(&self) -> Page {
        let mut klab = self
            .command(&["board", "--no-open"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("klab starts");
        let mut link = String::new();
        BufReader::new(klab.stdout.take().expect("stdout is piped")).read_line(&mut link).expect("klab says where");
        let link = link.trim().to_owned();
        let (host, word) = link.strip_prefix("http://").and_then(|link| link.split_once("/?open=")).expect("a link");
        let (host, word) = (host.to_owned(), word.to_owned());
        Page { klab, link, host, word, cookie: String::new() }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.command(&["down", "--all"]).output();
        let _ = self.command(&["down"]).output();
    }
}

struct Page {
    klab: Child,
    link: String,
    host: String,
    word: String,
    cookie: String,
}

impl Page {
    /// An answer with its header, without reading a stream to an end that it does not have.
    fn send(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).expect("klab listens");
        let (host, cookie) = (&self.host, &self.cookie);
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("klab listens");
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut text = String::new();
        self.send(path).read_to_string(&mut text).expect("klab answers");
        text
    }

    fn come_in(&mut self) {
        let answer = self.get(&format!("/?open={}", self.word));
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        cookie.split(';').next().unwrap_or_default().clone_into(&mut self.cookie);
    }

    fn memory_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.klab.id())).expect("it is alive");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux tells memory");
        line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number") / 1024
    }

    /// Seconds of processor time so far.
    fn processor(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.klab.id())).expect("it is alive");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
        (ticks(11) + ticks(12)) / 100.0
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.klab.kill();
        let _ = self.klab.wait();
    }
}

fn say(what: &str, value: f64, unit: &str, bar: f64) {
    let verdict = if value <= bar { "reached" } else { "MISSED" };
    println!("{what:<72} {value:>9.1} {unit:<4} bar ≤ {bar:>6} {verdict}");
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

fn main() {
    println!("{}", machine());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    sizes(root);
    for (nodes, pods, bar) in [(30, 300, 200.0), (1000, 10_000, 1500.0)] {
        first_picture(root, nodes, pods, bar);
    }
    change(root);
    many_pages();
}

/// What the page weighs, and the report of all lessons.
fn sizes(root: &Path) {
    let bench = Bench::new();
    bench.klab(&["up", root.join("labs/scheduling.toml").to_str().expect("the path is text")]);
    let mut page = bench.page();
    page.come_in();
    let mut packed = 0;
    for path in ["/", "/board.css", "/board.js"] {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let answer = page.get(path);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        encoder.write_all(body.as_bytes()).expect("into memory");
        packed += encoder.finish().expect("into memory").len();
    }
    say("page of labs/scheduling.toml with style and script, compressed", packed as f64 / 1024.0, "KiB", 100.0);
    let labs = root.join("labs");
    bench.klab(&["test", labs.to_str().expect("the path is text"), "--report", "report.html"]);
    let report = std::fs::metadata(bench.home.path().join("report.html")).expect("it was written").len();
    say("klab test labs/ --report", report as f64 / 1024.0 / 1024.0, "MiB", 2.0);
}

/// From the request of the page to all of its bytes; with a browser to its picture.
fn first_picture(root: &Path, nodes: usize, pods: usize, bar: f64) {
    let bench = Bench::with(nodes, pods);
    let began = Instant::now();
    let mut page = bench.page();
    let ready = began.elapsed();
    if let Some(times) = browser(root, &bench, "many", &page.link, &[]) {
        let picture = times["first_picture_ms"].as_f64().unwrap_or_default();
        say(&format!("first picture of {nodes} nodes, {pods} pods, in Chromium"), picture, "ms", bar);
        let bytes = times["bytes"].as_f64().unwrap_or_default();
        println!(
            "    of {:.1} MiB; klab itself was ready after {:.0} ms",
            bytes / 1_048_576.0,
            ready.as_secs_f64() * 1000.0
        );
        return;
    }
    page.come_in();
    let began = Instant::now();
    page.get("/");
    say(&format!("page of {nodes} nodes, {pods} pods, all bytes"), began.elapsed().as_secs_f64() * 1000.0, "ms", bar);
}

/// From a change in the cluster to the event that tells of it; with a browser to the pixel.
fn change(root: &Path) {
    let bench = Bench::new();
    bench.klab(&["up", root.join("labs/scheduling.toml").to_str().expect("the path is text")]);
    let mut page = bench.page();
    let taint = "taint nodes -l agentpool=extra lesson=over:NoExecute";
    if let Some(times) =
        browser(root, &bench, "scheduling", &page.link, &[taint, "taint nodes -l agentpool=extra lesson-"])
    {
        let pixel = times["change_to_pixel_after_kubectl_ms"].as_f64().unwrap_or_default();
        say("change to pixel, from the end of kubectl", pixel, "ms", 100.0);
        println!("frames while pods move: {:.0} a second", times["frames_per_second"].as_f64().unwrap_or_default());
        page = bench.page();
    }
    page.come_in();
    let mut stream = page.send("/events?since=0");
    let mut bytes = vec![0; 1 << 20];
    let mut times = Vec::new();
    // What was there already.
    let _ = stream.read(&mut bytes);
    std::thread::sleep(Duration::from_millis(500));
    for round in 0..ROUNDS {
        let label = format!("round=r{round}");
        let kubeconfig = bench.kubeconfig("scheduling");
        let verb = if round % 2 == 0 { "cordon" } else { "uncordon" };
        let done = Command::new("kubectl").args([verb, "-l", "agentpool=extra"]).env("KUBECONFIG", kubeconfig).output();
        let Ok(done) = done else { return println!("no kubectl: {label} not made") };
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        // kubectl ends a few milliseconds after the server has answered it.
        let began = Instant::now();
        let _ = stream.read(&mut bytes);
        times.push(began.elapsed());
        std::thread::sleep(Duration::from_millis(300));
    }
    say("change to event, from the end of kubectl (0: it came before), median", median(times), "ms", 100.0);
    let (before, began) = (page.processor(), Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    let share = (page.processor() - before) / began.elapsed().as_secs_f64() * 100.0;
    say("processor time while nothing happens", share, "%", 2.0);
}

/// Many pages on one server, all of which see every change.
fn many_pages() {
    let bench = Bench::with(30, 300);
    let mut page = bench.page();
    page.come_in();
    page.get("/");
    let before = page.memory_mib();
    let mut streams: Vec<TcpStream> = (0..PAGES).map(|_| page.send("/events?since=0")).collect();
    let kubeconfig = bench.kubeconfig("many");
    let last = "last=yes:NoSchedule";
    for taint in ["a=b:NoSchedule", "c=d:NoSchedule", last] {
        let done =
            Command::new("kubectl").args(["taint", "nodes", "--all", taint]).env("KUBECONFIG", &kubeconfig).output();
        assert!(done.is_ok_and(|done| done.status.success()), "kubectl taint");
    }
    let mut missed = 0;
    for stream in &mut streams {
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        let (mut text, mut bytes) = (String::new(), vec![0; 1 << 20]);
        // Each node says the last taint once it is shown.
        while text.matches("last=yes:NoSchedule").count() < 30 {
            match stream.read(&mut bytes) {
                Ok(read) if read > 0 => text.push_str(&String::from_utf8_lossy(&bytes[..read])),
                _ => {
                    missed += 1;
                    break;
                }
            }
        }
    }
    println!("{PAGES} open pages: {missed} missed a change");
    say("memory that they take", page.memory_mib().saturating_sub(before) as f64, "MiB", 100.0);
}

/// What a browser tells, where there is one.
fn browser(root: &Path, bench: &Bench, lab: &str, link: &str, words: &[&str]) -> Option<serde_json::Value> {
    std::env::var_os("KLAB_BROWSER")?;
    let mut node = Command::new("node");
    node.arg(root.join("tests/browser/drive.mjs")).args(["figures", link]).args(words);
    let output = node.env("KUBECONFIG", bench.kubeconfig(lab)).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).ok()
}
