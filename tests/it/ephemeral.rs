//! `klab serve --ephemeral`: a cluster for a program's tests, ready in one line, gone with its parent, leaving nothing.

pub(crate) mod languages;
mod refusals;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::environment::Environment;

/// What may take long on a machine with much else to do, and must end.
const PATIENCE: Duration = Duration::from_mins(1);

/// A `klab serve` that has said that it is ready.
pub(crate) struct Served {
    pub(crate) process: Child,
    pub(crate) line: String,
    output: Option<BufReader<ChildStdout>>,
}

/// What work in a thread of its own comes to, if it comes to an end.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("never happened: {what}"))
}

/// What a command that must end comes to; one that does not is ended.
fn finished(mut command: Command) -> Output {
    let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = process.id().to_string();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(process.wait_with_output().unwrap()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let _ = Command::new("kill").args(["-KILL", &id]).status();
        panic!("it does not end: {command:?}");
    })
}

impl Served {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let (line, output) = in_time("the line that says ready", move || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            (line, output)
        });
        Self { process, line, output: Some(output) }
    }

    /// Waits until nobody has its stdout any more: the process has ended. Gives what it said after the first line.
    pub(crate) fn ended(&mut self) -> String {
        let mut output = self.output.take().unwrap();
        in_time("the end of the server", move || {
            let mut rest = String::new();
            output.read_to_string(&mut rest).unwrap();
            rest
        })
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn served(environment: &Environment, arguments: &[&str]) -> Served {
    Served::start(environment.command(&[&["serve", "--ephemeral"], arguments].concat()))
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn clock(client: &Client, body: Option<&str>) -> Result<Value, (u16, String)> {
    let request = http::Request::builder().method(if body.is_some() { "POST" } else { "GET" }).uri("/klab/v1/clock");
    let request = request.body(body.unwrap_or_default().as_bytes().to_vec()).unwrap();
    client.request::<Value>(request).await.map_err(|error| match error {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => panic!("{other}"),
    })
}

fn deployment() -> Deployment {
    let labels = json!({ "app": "web" });
    serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 3, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "web", "image": "web:1" }] } },
        },
    }))
    .unwrap()
}

/// Of the pods that are not about to end: where they are.
async fn places(client: &Client) -> Vec<String> {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    let staying = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let running =
        staying.filter(|pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running")));
    running.map(|pod| pod.spec.unwrap().node_name.unwrap()).collect()
}

#[tokio::test]
async fn a_cluster_whose_clock_is_moved_by_its_client() {
    let environment = Environment::new();
    let served = served(&environment, &["--nodes", "3", "--clock", "stepped", "--print-kubeconfig"]);
    let client = client(&served.line).await;
    let work = async {
        let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
        deployments.create(&PostParams::default(), &deployment()).await.unwrap();
        // Where time stands still, an answer comes when all that follows has been done.
        let before = places(&client).await;
        assert_eq!(before.len(), 3);
        let failed = before[0].clone();
        let silent = json!({ "metadata": { "annotations": { "klab.dev/heartbeat": "stopped" } } });
        let nodes: Api<Node> = Api::all(client.clone());
        nodes.patch(&failed, &PatchParams::default(), &Patch::Merge(silent)).await.unwrap();
        assert_eq!(clock(&client, None).await.unwrap(), json!({ "now": "2026-06-01T08:00:00Z", "stepped": true }));
        clock(&client, Some(r#"{"advance":"1m"}"#)).await.unwrap();
        assert!(places(&client).await.contains(&failed), "pods tolerate it for five minutes");
        let now = clock(&client, Some(r#"{"advance":"5m"}"#)).await.unwrap();
        assert_eq!(now["now"], "2026-06-01T08:06:00Z");
        let after = places(&client).await;
        assert!(after.len() == 3 && !after.contains(&failed), "{after:?}");

        for (body, words) in [
            (r#"{"advance":"-1m"}"#, "goes back in time"),
            (r#"{"advance":"soon"}"#, "is no duration"),
            (r#"{"forward":"1m"}"#, "not a move of the clock"),
            ("", "not a move of the clock"),
        ] {
            let (code, message) = clock(&client, Some(body)).await.unwrap_err();
            assert!(code == 400 && message.contains(words), "{body}: {code} {message}");
        }
    };
    tokio::time::timeout(PATIENCE, work).await.unwrap();
}

#[tokio::test]
async fn service_accounts_may_do_what_their_roles_say_and_not_move_the_clock() {
    let environment = Environment::new();
    let served = served(&environment, &["--clock", "stepped"]);
    let mut kubeconfig: Value = serde_json::from_str(&served.line).unwrap();
    let work = async {
        let request = http::Request::post("/api/v1/namespaces/default/serviceaccounts/default/token");
        let body =
            json!({ "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": { "audiences": [] } });
        let request = request.header("content-type", "application/json").body(body.to_string().into_bytes()).unwrap();
        let token: Value = client(&served.line).await.request(request).await.unwrap();
        let mut ask = async |token: &Value| {
            kubeconfig["users"][0]["user"]["token"] = token.clone();
            let client = client(&kubeconfig.to_string()).await;
            let pods = Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default()).await;
            let code = match pods {
                Err(kube::Error::Api(status)) => status.code,
                other => panic!("{other:?}"),
            };
            (code, clock(&client, None).await.unwrap_err().0)
        };
        assert_eq!(ask(&token["status"]["token"]).await, (403, 403));
        assert_eq!(ask(&json!("somebody's")).await, (401, 401));
    };
    tokio::time::timeout(PATIENCE, work).await.unwrap();
}

#[tokio::test]
async fn by_the_machines_clock_nodes_are_ready_and_time_is_not_moved() {
    let environment = Environment::new();
    let served = served(&environment, &["--nodes", "2"]);
    let client = client(&served.line).await;
    let work = async {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
        assert_eq!(nodes.len(), 2);
        for node in nodes {
            let conditions = node.status.unwrap().conditions.unwrap();
            assert!(conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"), "{conditions:?}");
        }
        let (code, message) = clock(&client, Some(r#"{"advance":"5m"}"#)).await.unwrap_err();
        assert!(code == 400 && message.contains("--clock stepped"), "{message}");
        assert_eq!(clock(&client, None).await.unwrap()["stepped"], false);
    };
    tokio::time::timeout(PATIENCE, work).await.unwrap();
}

#[tokio::test]
async fn definitions_are_served_when_it_is_ready_and_controllers_are_left_out() {
    let environment = Environment::new();
    environment.write("crds/websites.yaml", WEBSITES);
    let arguments = ["--crds", "crds", "--controllers", "*,-deployment", "--clock", "stepped"];
    let served = served(&environment, &arguments);
    let client = client(&served.line).await;
    let work = async {
        let list: Value = client
            .request(http::Request::get("/apis/example.com/v1/websites").body(Vec::new()).unwrap())
            .await
            .unwrap();
        assert_eq!((&list["kind"], &list["items"]), (&json!("WebsiteList"), &json!([])));
        let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
        deployments.create(&PostParams::default(), &deployment()).await.unwrap();
        assert_eq!(places(&client).await, [""; 0]);
    };
    tokio::time::timeout(PATIENCE, work).await.unwrap();
}

/// A definition as tools write it.
const WEBSITES: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: websites.example.com }
spec:
  group: example.com
  scope: Namespaced
  names: { kind: Website, plural: websites }
  versions:
  - { name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object } } }
";

#[test]
fn nothing_is_on_the_disk_but_a_kubeconfig_for_its_user_until_the_end() {
    let environment = Environment::new();
    let command = || {
        let mut command = environment.command(&["serve", "--ephemeral", "--kubeconfig", "kubeconfig"]);
        command.env("TMPDIR", environment.folder());
        command
    };
    let found = || -> Vec<String> {
        let entries = std::fs::read_dir(environment.folder()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    };
    for (name, code) in [("TERM", 0), ("HUP", 0), ("INT", 130)] {
        let mut served = Served::start(command());
        assert!(served.line.starts_with("ready https://127.0.0.1:"), "{}", served.line);
        assert_eq!(found(), ["kubeconfig"]);
        let path = environment.folder().join("kubeconfig");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Kubeconfig::read_from(&path).is_ok());
        served.signal(name);
        assert_eq!(served.ended(), "");
        assert_eq!(in_time("its exit code", move || served.process.wait().unwrap().code()), Some(code), "{name}");
        assert_eq!(found(), [""; 0], "{name}");
    }
    // What one that was killed left is written over by the next.
    let mut killed = Served::start(command());
    killed.process.kill().unwrap();
    killed.ended();
    assert_eq!(found(), ["kubeconfig"]);
    let next = Served::start(command());
    assert!(next.line.starts_with("ready "), "{}", next.line);
}

#[test]
fn it_ends_with_its_parent() {
    let environment = Environment::new();
    // The shell starts klab as its child, and is killed; klab keeps the shell's stdout open for as long as it lives.
    let line = "klab serve --ephemeral --kubeconfig kubeconfig & exec sleep 600";
    let mut parent = Served::start(environment.shell("sh", line));
    assert!(parent.line.starts_with("ready "), "{}", parent.line);
    parent.process.kill().unwrap();
    assert_eq!(parent.ended(), "");
    assert!(!environment.folder().join("kubeconfig").exists());
}

#[test]
fn a_thread_of_the_parent_may_end() {
    let environment = Environment::new();
    let command = environment.command(&["serve", "--ephemeral"]);
    let served = std::thread::spawn(move || Served::start(command)).join().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = runtime.block_on(async {
        let version = async { client(&served.line).await.apiserver_version().await };
        tokio::time::timeout(PATIENCE, version).await.unwrap()
    });
    assert_eq!(asked.unwrap().git_version, "v1.36.2");
}

#[test]
fn a_descriptor_is_told_when_it_is_ready() {
    let environment = Environment::new();
    let line = "klab serve --ephemeral --ready-fd 3 3>told";
    let served = Served::start(environment.shell("sh", &format!("exec {line}")));
    assert!(serde_json::from_str::<Value>(&served.line).is_ok());
    // It is told after the line.
    in_time("the word", {
        let told = environment.folder().join("told");
        move || {
            while std::fs::read_to_string(&told).unwrap() != "ready\n" {
                std::thread::yield_now();
            }
        }
    });
}
