//! A host that runs as a process, and those who ask it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use http_body_util::BodyExt;
use klab_operations::client::bearer::{self, Trust};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long an answer may take, and each piece of it: a test that waits for ever says nothing.
pub(super) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(180);

/// A port of this machine that is free and stays so: the system gives no program a port below its own range, so another test
/// cannot get this one between here and the host's start.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 10_000).unwrap() + 20_000;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

/// Connections to a host, made when somebody asks.
pub(super) type Connections = tokio::sync::OnceCell<kube::Client>;

/// The first line of what a host says on its standard output; what it says on the other is shown where it says nothing. `within`
/// are words before klab's own, for another network namespace.
#[expect(clippy::zombie_processes, reason = "whoever is given the process waits for it")]
fn begin(home: &Path, within: &[String], arguments: &[&str]) -> (Child, Value) {
    let words: Vec<&str> = within.iter().map(String::as_str).chain([env!("CARGO_BIN_EXE_klab")]).collect();
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .arg("host")
        .args(arguments)
        .args(["--format", "json"])
        .env("KLAB_HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(home.join("host.err")).unwrap())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    loop {
        line.clear();
        let read = output.read_line(&mut line).unwrap();
        assert!(read > 0, "{}", std::fs::read_to_string(home.join("host.err")).unwrap());
        let document: Value = serde_json::from_str(&line).unwrap();
        if document["schema"] == "klab.host/1" {
            // Whoever writes to a pipe that nobody reads is ended.
            std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
            return (child, document);
        }
    }
}

/// A host.
pub(super) struct Running {
    home: TempDir,
    child: Child,
    within: Vec<String>,
    arguments: Vec<String>,
    pub(super) document: Value,
    pub(super) url: String,
    pub(super) code: String,
    client: Connections,
}

impl Running {
    pub(super) fn start(arguments: &[&str]) -> Self {
        Self::start_within(&[], arguments)
    }

    /// With words before klab's own.
    pub(super) fn start_within(within: &[&str], arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let within: Vec<String> = within.iter().map(|word| (*word).to_owned()).collect();
        let (child, document) = begin(home.path(), &within, arguments);
        let text = |key: &str| document[key].as_str().unwrap().to_owned();
        let (url, code) = (text("url"), text("code"));
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { home, child, within, arguments, url, code, document, client: tokio::sync::OnceCell::new() }
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// As the system does that has no memory left.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As [`Running::kill`], without waiting for the end.
    pub(super) fn strike(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    }

    /// As Ctrl-C does; returns when it has ended.
    pub(super) async fn end(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        while self.child.try_wait().unwrap().is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    pub(super) fn resume(&mut self) {
        self.begin(&["--resume"]);
    }

    /// With the same words as the first time.
    pub(super) fn begin_again(&mut self) {
        let arguments = self.arguments.clone();
        self.begin(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// As [`Running::begin_again`], for what was hosted before.
    pub(super) fn begin_again_resumed(&mut self) {
        let arguments: Vec<String> = self.arguments.iter().cloned().chain(["--resume".to_owned()]).collect();
        self.begin(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn begin(&mut self, arguments: &[&str]) {
        let (child, document) = begin(self.home.path(), &self.within, arguments);
        self.child = child;
        document["url"].as_str().unwrap().clone_into(&mut self.url);
        document["code"].as_str().unwrap().clone_into(&mut self.code);
        self.document = document;
    }

    /// What the instructor's link says.
    pub(super) fn word(&self) -> String {
        self.document["instructor"].as_str().unwrap().split_once("#open=").unwrap().1.to_owned()
    }

    /// The answer to a request: its status, its headers, its text.
    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (u16, http::HeaderMap, String) {
        self.ask_through(&self.client, method, path, headers, body).await
    }

    /// As [`Running::ask`], through connections of one's own: those of a seat are cut when its API server falls silent.
    pub(super) async fn ask_through(
        &self,
        connections: &Connections,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (u16, http::HeaderMap, String) {
        let made = || bearer::client(&self.url, Trust::Anybody, None, PATIENCE);
        let client = connections.get_or_try_init(made).await.unwrap();
        answered(client, method, path, headers, body).await.unwrap()
    }

    pub(super) async fn text(&self, path: &str) -> String {
        self.ask("GET", path, &[], Vec::new()).await.2
    }

    /// The seat that somebody gets, or why not.
    pub(super) async fn join(&self, code: &str, name: &str, pin: &str) -> Result<Value, String> {
        let body = json!({ "code": code, "name": name, "pin": pin }).to_string();
        let headers = [("content-type", "application/json"), ("accept", "application/json")];
        let (status, _, text) = self.ask("POST", "/api/join", &headers, body.into_bytes()).await;
        document(status, &text)
    }

    /// As [`Running::join`], of a host that may be killed meanwhile.
    pub(super) async fn try_join(&self, code: &str, name: &str, pin: &str) -> Option<Value> {
        let body = json!({ "code": code, "name": name, "pin": pin }).to_string();
        let headers = [("content-type", "application/json"), ("accept", "application/json")];
        let client = self.client.get().expect("somebody has joined before");
        let (status, _, text) = answered(client, "POST", "/api/join", &headers, body.into_bytes()).await?;
        document(status, &text).ok()
    }

    /// The status of an answer, of a host that may be killed meanwhile.
    pub(super) async fn try_ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let client = self.client.get().expect("somebody has joined before");
        Some(answered(client, method, path, headers, Vec::new()).await?.0)
    }

    /// What the API of a seat answers to its owner.
    pub(super) async fn of_seat(&self, seat: &Value, method: &str, path: &str) -> Result<Value, String> {
        self.of_seat_through(&self.client, seat, method, path).await
    }

    /// As [`Running::of_seat`], through connections of one's own.
    pub(super) async fn of_seat_through(
        &self,
        connections: &Connections,
        seat: &Value,
        method: &str,
        path: &str,
    ) -> Result<Value, String> {
        let bearer = format!("Bearer {}", seat["token"].as_str().unwrap());
        let path = format!("/api/seats/{}{path}", seat["seat"].as_str().unwrap());
        let headers = [("authorization", bearer.as_str())];
        let (status, _, text) = self.ask_through(connections, method, &path, &headers, Vec::new()).await;
        // A talk is lines; the last one says what came of it.
        let last = text.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
        document(status, last)
    }

    /// What the instructor is answered.
    pub(super) async fn instruct(&self, method: &str, path: &str) -> Result<String, String> {
        let bearer = format!("Bearer {}", self.word());
        let (status, _, text) = self.ask(method, path, &[("authorization", &bearer)], Vec::new()).await;
        if status < 300 { Ok(text) } else { Err(format!("{status} {text}")) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer to a request; none where nobody answers, or not wholly.
async fn answered(
    client: &kube::Client,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Option<(u16, http::HeaderMap, String)> {
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = client.send(request.body(kube::client::Body::from(body)).unwrap()).await.ok()?;
    let (parts, body) = answer.into_parts();
    let text = String::from_utf8_lossy(&body.collect().await.ok()?.to_bytes()).into_owned();
    Some((parts.status.as_u16(), parts.headers, text))
}

fn document(status: u16, text: &str) -> Result<Value, String> {
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    if status < 300 { Ok(document) } else { Err(format!("{status} {}", document["message"].as_str().unwrap_or(text))) }
}

/// The status of an answer.
pub(super) async fn status_of(host: &Running, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
    host.ask(method, path, headers, Vec::new()).await.0
}

/// A client of the cluster that a kubeconfig names.
pub(super) async fn client_of(kubeconfig: &Value) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig.as_str().unwrap()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}
