//! One flow on one fresh cluster.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use klab_server::{Delays, Figures, Flavour, Seed, Server};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use regex::Regex;
use serde_json::{Value, json};

use super::compare::{self, Actual};
use super::flow::{Flow, Request, Step};
use super::known;
use super::kubectl::Kubectl;
use super::normalise::Normaliser;

/// Longest time for a command that was not interrupted when it was recorded.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a command that only looks is repeated until it sees what was recorded.
const LOOKS_AGAIN: Duration = Duration::from_millis(1500);

/// What became of a step.
pub(crate) struct Outcome {
    pub(crate) step: usize,
    pub(crate) what: String,
    pub(crate) difference: Option<String>,
}

impl Outcome {
    /// A step that panicked, and with it the rest of its flow.
    pub(crate) fn aborted(step: usize, panic: &(dyn std::any::Any + Send)) -> Self {
        let words =
            panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let difference = format!("the flow ends here: {}", words.unwrap_or("panicked"));
        Self { step, what: "a step that could not be replayed".to_owned(), difference: Some(difference) }
    }
}

pub(crate) struct Replay<'a> {
    folder: &'a Path,
    flow: &'a Flow,
    kubectl: &'a Kubectl,
    normaliser: &'a Normaliser,
    server: &'a Server,
    runtime: &'a tokio::runtime::Handle,
    cluster: String,
    home: tempfile::TempDir,
    /// Name of a pod that a command printed, for raw requests that name it by placeholder.
    pod: std::cell::RefCell<String>,
    /// `continue` of the last list, and the version of the first one.
    page: std::cell::RefCell<(String, String)>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        folder: &'a Path,
        flow: &'a Flow,
        attempt: usize,
        kubectl: &'a Kubectl,
        normaliser: &'a Normaliser,
        server: &'a Server,
        runtime: &'a tokio::runtime::Handle,
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        let cluster = format!("{}-{attempt}", flow.name.replace(['_', '.'], "-"));
        let nodes: Vec<Value> =
            serde_json::from_str(&std::fs::read_to_string(folder.join(&flow.nodes)).unwrap()).unwrap();
        let seed = Seed {
            ties_by_name: false,
            seed: 7,
            flavour: Flavour::Bare,
            objects: nodes,
            missing_images: Vec::new(),
            delays: Delays { start: 500, job: 1000, stop: 600, as_recorded: true },
            metrics: Figures::Absent,
            heartbeat_annotation: Some("lab.example/heartbeat".to_owned()),
            host: Some("vm".to_owned()),
            scheduler: None,
            ..Seed::default()
        };
        let _guard = runtime.enter();
        server.add(&cluster, seed).unwrap_or_else(|status| panic!("{}: {status}", flow.name));
        let kubeconfig = server.kubeconfig_with_certificate(&cluster, "lab", "lab-admin").unwrap();
        std::fs::write(home.path().join("config"), kubeconfig).unwrap();
        std::os::unix::fs::symlink(folder.join("manifests"), home.path().join("manifests")).unwrap();
        Self {
            folder,
            flow,
            kubectl,
            normaliser,
            server,
            runtime,
            cluster,
            home,
            pod: std::cell::RefCell::default(),
            page: std::cell::RefCell::default(),
        }
    }

    /// Adds what becomes of each step, so that those before a step that panics are known.
    pub(crate) fn run(&self, outcomes: &mut Vec<Outcome>) {
        for (at, step) in self.flow.steps.iter().enumerate() {
            let number = at + 1;
            if std::env::var_os("KLAB_GOLDEN_TRACE").is_some() {
                println!("{} {number}", self.flow.name);
            }
            if let Some(millis) = step.sleep_ms {
                std::thread::sleep(Duration::from_millis(millis));
            } else if let Some(argv) = &step.settle {
                outcomes.push(Outcome {
                    step: number,
                    what: format!("settle {}", argv.join(" ")),
                    difference: self.settle(step, argv),
                });
            } else if let Some(text) = &step.fixture {
                self.fixture(text);
            } else if let Some(what) = &step.http {
                let note = step.note.as_deref().unwrap_or_default();
                outcomes.push(Outcome {
                    step: number,
                    what: format!("{what} ({note})"),
                    difference: self.raw(number, &step.requests[0]),
                });
            } else if let Some(argv) = &step.argv {
                outcomes.push(Outcome {
                    step: number,
                    what: argv.join(" "),
                    difference: self.compared(number, step, argv),
                });
            }
        }
    }

    /// Runs a command and compares. One that only looks may have looked a moment too early, at a cluster in motion: it
    /// looks again for a while.
    fn compared(&self, number: usize, step: &Step, argv: &[String]) -> Option<String> {
        let freedom = known::freedom(&self.flow.name, number);
        let first = compare::command(step, &self.command(step, argv), freedom)?;
        let looks = argv.get(1).is_some_and(|verb| matches!(verb.as_str(), "get" | "describe" | "top" | "events"))
            && step.interrupted.is_none()
            && step.during.is_empty();
        let reason = known::reason(&self.flow.name, number, self.kubectl.version == self.flow.kubectl);
        if !looks || reason.is_some_and(|reason| reason != known::Reason::Pace) {
            return Some(first);
        }
        let began = Instant::now();
        while began.elapsed() < LOOKS_AGAIN {
            std::thread::sleep(Duration::from_millis(100));
            compare::command(step, &self.command(step, argv), freedom)?;
        }
        Some(first)
    }

    fn prepared(&self, step: &Step, argv: &[String]) -> Command {
        let mut command = Command::new(&self.kubectl.path);
        command
            .args(&argv[1..])
            .current_dir(self.home.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("config"))
            .envs(&step.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn command(&self, step: &Step, argv: &[String]) -> Actual {
        let mut child = self.prepared(step, argv).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        if let Some(text) = &step.stdin {
            // A command that refuses its arguments does not read.
            let _ = stdin.write_all(text.as_bytes());
        }
        drop(stdin);
        let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stdout.read_to_end(&mut text);
            text
        });
        let error_reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            text
        });
        let began = Instant::now();
        if !step.during.is_empty() {
            std::thread::sleep(Duration::from_millis(400));
            for (at, other) in step.during.iter().enumerate() {
                if at > 0 && step.interrupted.is_some() {
                    // The recorder let what the one set going come to its end before the next.
                    std::thread::sleep(Duration::from_millis(900));
                }
                if let Some(argv) = &other.argv {
                    self.command(other, argv);
                }
            }
        }
        let limit = step.interrupted.as_deref().map_or(PATIENCE, |text| {
            let seconds = text.trim_start_matches("SIGINT after ").trim_end_matches('s');
            Duration::from_secs_f64(seconds.parse().unwrap())
        });
        let mut interrupted = false;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() > limit + Duration::from_secs(5) {
                child.kill().unwrap();
            } else if began.elapsed() > limit && !interrupted {
                interrupted = true;
                let pid = rustix::process::Pid::from_child(&child);
                rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = |bytes: Vec<u8>| self.normaliser.text(&String::from_utf8_lossy(&bytes), step.node_any);
        let raw_stdout = reader.join().unwrap();
        if argv.iter().any(|argument| argument.contains("items[0].metadata.name")) {
            String::from_utf8_lossy(&raw_stdout).trim().clone_into(&mut self.pod.borrow_mut());
        }
        Actual {
            exit: if interrupted { None } else { status.code() },
            stdout: text(raw_stdout),
            stderr: text(error_reader.join().unwrap()),
        }
    }

    /// Runs a command until its output matches.
    fn settle(&self, step: &Step, argv: &[String]) -> Option<String> {
        let until = Regex::new(&format!("(?s){}", step.until)).unwrap();
        let most = std::env::var("KLAB_GOLDEN_PATIENCE").ok().and_then(|seconds| seconds.parse().ok());
        let patience = Duration::from_secs_f64(step.timeout_s.unwrap_or(30.0).min(most.unwrap_or(60.0)));
        let began = Instant::now();
        loop {
            let output = self.prepared(step, argv).stdin(Stdio::null()).output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            if until.is_match(&text) {
                return None;
            }
            if began.elapsed() > patience {
                return Some(format!("never matched {}\nlast output: {text}", step.until));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// State that the recorder made outside kubectl.
    fn fixture(&self, text: &str) {
        if text.starts_with("7 ConfigMaps") {
            for at in 1..=7 {
                let body = json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": format!("c{at}"), "labels": {"n": (at % 2).to_string()}},
                    "data": {"k": at.to_string()},
                });
                self.drive("POST", "/api/v1/namespaces/default/configmaps", &body);
            }
        } else if text.starts_with("metrics.k8s.io") {
            self.server.api(&self.cluster).unwrap().set_metrics(Figures::Fixed.metrics());
        } else {
            panic!("{}: unknown fixture: {text}", self.flow.name);
        }
    }

    fn sending(
        &self,
        authenticated: bool,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> tokio::task::JoinHandle<(u16, String, String)> {
        let kubeconfig = std::fs::read_to_string(self.home.path().join("config")).unwrap();
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.runtime.spawn(send(kubeconfig, authenticated, method.to_owned(), path.to_owned(), headers, body))
    }

    /// A request of the recorder's own driver.
    fn drive(&self, method: &str, path: &str, body: &Value) {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let headers = [("user-agent", "lab-driver/1"), ("content-type", media)];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let sending = self.sending(true, method, path, &headers, body);
        let (status, _, text) = self.runtime.block_on(sending).unwrap();
        assert!((200..300).contains(&status), "{}: {method} {path}: {text}", self.flow.name);
    }

    /// What the recorder's driver did while a raw watch was open.
    fn meanwhile(&self, step: usize) {
        let all = "/api/v1/namespaces/default/configmaps";
        let made = |name: &str, n: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"n": n}}, "data": {"a": "b"}});
        match step {
            28 => {
                self.drive("POST", all, &made("w1", "1"));
                self.drive("PATCH", &format!("{all}/w1"), &json!({"data": {"a": "c"}}));
                self.drive("DELETE", &format!("{all}/w1"), &Value::Null);
            }
            31 => self.drive("POST", all, &made("w2", "1")),
            33 => {
                self.drive("POST", all, &made("w3", "1"));
                self.drive("PATCH", &format!("{all}/w3"), &json!({"metadata": {"labels": {"n": "0"}}}));
            }
            36 => self.drive("POST", all, &made("w4", "1")),
            _ => {}
        }
    }

    fn raw(&self, number: usize, recorded: &Request) -> Option<String> {
        let (pod, (more, version)) = (self.pod.borrow().clone(), self.page.borrow().clone());
        let path = recorded.path.replace("web-<HASH>-<RAND>", &pod);
        let query = recorded.query.clone().unwrap_or_default();
        // Versions that the recorder chose to be too new or too old are not in the recording, but its notes tell.
        let wanted = match (self.flow.name.as_str(), number) {
            ("kuberaw", 17) => "999999999",
            ("kuberaw", 18 | 34) => "1",
            _ => version.as_str(),
        };
        let query =
            query.replace("resourceVersion=<RV>", &format!("resourceVersion={wanted}")).replace("<CONTINUE>", &more);
        let path = encoded(&path);
        let target = if query.is_empty() { path } else { format!("{path}?{}", encoded(&query)) };
        let stale = |text: String| {
            text.replace("<RV>", "1")
                .replace("<UID>", "00000000-0000-4000-8000-000000000000")
                .replace("web-<HASH>-<RAND>", &pod)
        };
        let body = match &recorded.body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => stale(other.to_string()),
        };
        let headers: Vec<(&str, &str)> = recorded
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain([("user-agent", "kube-rs/1")])
            .collect();
        let authenticated = recorded.status != 401;
        let sending = self.sending(authenticated, &recorded.method, &target, &headers, body);
        if self.flow.name == "kuberaw" && matches!(number, 28 | 31 | 33 | 36) {
            std::thread::sleep(Duration::from_millis(300));
            self.meanwhile(number);
        }
        let (status, kind, text) = self.runtime.block_on(sending).unwrap();
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let mut page = self.page.borrow_mut();
            if let Some(more) = value["metadata"]["continue"].as_str() {
                more.clone_into(&mut page.0);
            }
            if let Some(version) = value["metadata"]["resourceVersion"].as_str()
                && value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
                && number < 28
            {
                version.clone_into(&mut page.1);
            }
        }
        self.compare_raw(recorded, status, &kind, &text)
    }

    fn compare_raw(&self, recorded: &Request, status: u16, kind: &str, text: &str) -> Option<String> {
        use std::fmt::Write;
        let mut difference = String::new();
        if status != recorded.status {
            let _ = writeln!(difference, "  status: recorded {}, now {status}", recorded.status);
        }
        if let Some(wanted) = &recorded.response_content_type
            && wanted != kind
        {
            let _ = writeln!(difference, "  content type: recorded {wanted}, now {kind}");
        }
        let expected = self.resolved(&recorded.response_body);
        let text = self.normaliser.body(text);
        if let Some(events) = expected.get("$stream").and_then(Value::as_array) {
            let stream: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            // How many bookmarks come at the end is a matter of time.
            let no_trailing = |events: &[Value]| -> Vec<Value> {
                events
                    .iter()
                    .filter(|event| {
                        event["type"] != "BOOKMARK" || !event["object"]["metadata"]["annotations"].is_null()
                    })
                    .cloned()
                    .collect()
            };
            let mut stream = no_trailing(&stream);
            if expected.get("$total_events").is_some() {
                // Only the first ones were kept.
                stream.truncate(no_trailing(events).len());
            }
            compare::shape(&mut difference, "", &Value::Array(no_trailing(events)), &Value::Array(stream));
        } else if expected.get("$omitted").is_none() {
            let actual = serde_json::from_str(&text).unwrap_or(Value::String(text));
            compare::shape(&mut difference, "", &expected, &actual);
        }
        (!difference.is_empty()).then_some(difference)
    }

    /// Follows references to other bodies.
    fn resolved(&self, body: &Value) -> Value {
        if let Some(at) = body.get("$same_as").and_then(Value::as_array) {
            let index = |at: &Value| at.as_u64().unwrap() as usize;
            return self.resolved(&self.flow.requests[index(&at[0])][index(&at[1])].response_body);
        }
        if let Some(file) = body.get("$file").and_then(Value::as_str) {
            let packed: PathBuf = self.folder.join(format!("{file}.gz"));
            let path = if packed.exists() { packed } else { self.folder.join(file) };
            return serde_json::from_str(&super::flow::read_text(&path)).unwrap();
        }
        body.clone()
    }
}

/// A raw request with the credentials of a kubeconfig, or without any. Answers status, media type and body.
async fn send(
    kubeconfig: String,
    authenticated: bool,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
) -> (u16, String, String) {
    let mut kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
    if !authenticated {
        kubeconfig.auth_infos[0].auth_info = Some(AuthInfo::default());
    }
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // What the server answers is wanted, errors too.
    config.default_retry = false;
    let client = kube::Client::try_from(config).unwrap();
    let mut request = http::Request::builder().method(method.as_str()).uri(path);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let response = client.send(request.body(body.into_bytes().into()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").map_or("", |value| value.to_str().unwrap()).to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, kind, String::from_utf8_lossy(&body).into_owned())
}

/// What may not stand in the path or the query of an address. Separators stay, and so does what is encoded already.
const NOT_PLAIN: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

/// Encodes what may not stand in an address, and an operator of a selector that looks like separators.
fn encoded(text: &str) -> String {
    utf8_percent_encode(&text.replace("===", "%3D%3D%3D"), NOT_PLAIN).to_string()
}

#[test]
fn addresses_are_encoded() {
    for path in
        ["/api/v1/namespaces/a b/pods/<none>", "/apis/x/ü/{name}|^`\\\"", "/api/v1/pods?a===b&c=%20", "/a\u{7f}\t"]
    {
        let encoded = encoded(path);
        assert!(encoded.parse::<http::Uri>().is_ok(), "{path}: {encoded}");
    }
    assert_eq!(encoded("/api/v1/a b?c=%20&d"), "/api/v1/a%20b?c=%20&d");
}
