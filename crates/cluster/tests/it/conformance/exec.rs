//! Commands that are executed in containers, on a WebSocket, as kubectl speaks it.

use futures::StreamExt;
use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use klab_cluster::api::{Api, Upgrade};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::ground::Ground;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// What came of a command.
#[derive(Debug)]
pub(super) struct Executed {
    pub(super) out: String,
    pub(super) err: String,
    status: Value,
}

impl Executed {
    pub(super) fn code(&self) -> i64 {
        if self.status["status"] == "Success" {
            return 0;
        }
        let cause = &self.status["details"]["causes"][0];
        assert_eq!(
            (&self.status["reason"], &cause["reason"]),
            (&json!("NonZeroExitCode"), &json!("ExitCode")),
            "{}",
            self.status
        );
        cause["message"].as_str().unwrap().parse().unwrap()
    }

    pub(super) fn message(&self) -> &str {
        self.status["message"].as_str().unwrap()
    }
}

/// A connection on which something was asked for, and the head of the answer.
async fn asked(api: &Api, method: &str, path: &str, headers: &str) -> (DuplexStream, String) {
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let api = api.clone();
    tokio::spawn(async move {
        let service = service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
            let api = api.clone();
            if let Some(connection) = request.extensions_mut().remove::<OnUpgrade>() {
                let changed = async { connection.await.map(TokioIo::new).map_err(std::io::Error::other) };
                request.extensions_mut().insert(Upgrade::new(changed));
            }
            async move { Ok::<_, std::convert::Infallible>(api.answer(request).await) }
        });
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(server), service)
            .with_upgrades()
            .await;
    });
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n{headers}\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(client.read_u8().await.unwrap());
    }
    (client, String::from_utf8(answer).unwrap())
}

/// Asks for a WebSocket; the head of another answer where there is none.
pub(super) async fn executed(api: &Api, path: &str, protocol: &str) -> Result<Executed, String> {
    let headers = format!(
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: {protocol}\r\n"
    );
    let (client, answer) = asked(api, "GET", path, &headers).await;
    if !answer.starts_with("HTTP/1.1 101 ") {
        return Err(answer);
    }
    // The key's answer in RFC 6455.
    assert!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
    assert!(answer.contains("v5.channel.k8s.io") == protocol.contains("v5"), "{answer}");
    let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
    let (mut out, mut err, mut status) = (Vec::new(), Vec::new(), Value::Null);
    while let Some(Ok(message)) = socket.next().await {
        let Message::Binary(message) = message else { continue };
        match message[0] {
            1 => out.extend_from_slice(&message[1..]),
            2 => err.extend_from_slice(&message[1..]),
            _ => status = serde_json::from_slice(&message[1..]).unwrap(),
        }
    }
    Ok(Executed { out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap(), status })
}

pub(super) fn path(pod: &str, command: &[&str], more: &str) -> String {
    let query: String = command.iter().map(|word| format!("&command={}", percent(word))).collect();
    format!("{PODS}/{pod}/exec?stdout=true&stderr=true{query}{more}")
}

fn percent(word: &str) -> String {
    word.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Ground {
    pub(super) fn start(&self, name: &str, spec: Value) {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec });
        self.post(PODS, &pod).good();
        self.pass(3);
    }

    pub(super) fn execute(&self, pod: &str, command: &[&str]) -> Executed {
        self.spoken(&path(pod, command, ""), "v5.channel.k8s.io, v4.channel.k8s.io").unwrap()
    }

    pub(super) fn spoken(&self, path: &str, protocol: &str) -> Result<Executed, String> {
        self.wait_for(executed(&self.api(), path, protocol))
    }
}

fn sleeper() -> Value {
    json!({
        "containers": [{
            "name": "main", "image": "busybox:1.37", "command": ["sh", "-c", "echo up > /tmp/ready; sleep 100000"],
            "env": [{ "name": "COLOUR", "value": "blue" }],
        }],
    })
}

// upstream test: [sig-node] Pods should support remote command execution over websockets [NodeConformance] [Conformance]
#[test]
fn commands_whose_outcome_is_known_are_executed() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    for (command, out) in [
        (&["echo", "remote execution test"][..], "remote execution test\n"),
        (&["cat", "/tmp/ready"], "up\n"),
        (&["ls", "/tmp"], "ready\n"),
        (&["stat", "-c", "%a %U:%G %s", "/tmp/ready"], "644 root:root 3\n"),
        (&["test", "-s", "/tmp/ready"], ""),
        (&["hostname"], "box\n"),
        (&["printenv", "COLOUR"], "blue\n"),
        (&["id"], "uid=0(root) gid=0(root) groups=0(root),10(wheel)\n"),
    ] {
        let executed = ground.execute("box", command);
        assert_eq!((executed.out.as_str(), executed.code()), (out, 0), "{command:?} {executed:?}");
    }
    let script = ground.execute("box", &["sh", "-c", "GREETING=hi; test -f /tmp/ready && echo $GREETING; exit 3"]);
    assert_eq!((script.out.as_str(), script.code()), ("hi\n", 3));
    let failed = ground.execute("box", &["cat", "/tmp/none"]);
    assert_eq!((failed.err.as_str(), failed.code()), ("cat: can't open '/tmp/none': No such file or directory\n", 1));
    assert_eq!(ground.execute("box", &["false"]).code(), 1);
    let old = ground.spoken(&path("box", &["echo", "x"], ""), "v4.channel.k8s.io").unwrap();
    assert_eq!((old.out.as_str(), old.code()), ("x\n", 0));
}

#[test]
fn what_is_not_known_is_said_and_what_is_not_there_in_the_runtimes_words() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    ground.start("web", json!({ "containers": [{ "name": "main", "image": "acme/web:1" }] }));
    ground.start("pause", json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] }));
    let known = "is not followed; klab follows env, printenv, cat, ls, stat, id, hostname, date, echo, test, touch, rm, true, false, sleep, sh -c";
    for (pod, command, why) in [
        ("box", &["ping", "web"][..], format!("`ping` {known}")),
        ("box", &["sh"], format!("`sh` {known}")),
        ("box", &["sh", "-c", "ping web"], "what `ping` does is not known".to_owned()),
        ("box", &["cat", "/etc/hosts"], "what is in `/etc/hosts` is not known".to_owned()),
        ("box", &["cat", "-n", "/tmp/ready"], "what `cat -n` does is not followed".to_owned()),
        ("box", &["ls", "-l", "/tmp"], "what `ls -l /tmp` does is not followed".to_owned()),
        ("box", &["env", "-i"], "what `env` or `printenv` does with `-i` is not followed".to_owned()),
        ("web", &["ls"], "whether the image `acme/web:1` has `ls` is not known".to_owned()),
    ] {
        let executed = ground.execute(pod, command);
        let expected = format!(
            "the embedded cluster runs no containers: {why}; kind runs real containers (`klab up LAB --provider kind`)"
        );
        assert_eq!(executed.message(), expected, "{command:?}");
    }
    let absent = ground.execute("pause", &["sh"]);
    assert!(
        absent.message().starts_with("Internal error occurred: error executing command in container: "),
        "{}",
        absent.message()
    );
    assert!(absent.message().ends_with("exec: \"sh\": executable file not found in $PATH"), "{}", absent.message());
    assert!(ground.execute("box", &["exit"]).message().ends_with("exec: \"exit\": executable file not found in $PATH"));
    let typed = ground.spoken(&path("box", &["cat"], "&stdin=true"), "v5.channel.k8s.io").unwrap();
    assert!(typed.message().contains("what a client types is not followed"), "{}", typed.message());
    let refused = |path: &str, protocol: &str| ground.spoken(path, protocol).unwrap_err();
    assert!(refused(&path("none", &["ls"], ""), "v5.channel.k8s.io").starts_with("HTTP/1.1 404 "));
    assert!(refused(&path("box", &["ls"], "&container=x"), "v5.channel.k8s.io").starts_with("HTTP/1.1 400 "));
    assert!(refused(&path("box", &["ls"], ""), "v9.channel.k8s.io").starts_with("HTTP/1.1 400 "));
    assert!(refused(&path("box", &[], ""), "v5.channel.k8s.io").starts_with("HTTP/1.1 400 "));
    let plain = ground.get(&path("box", &["ls"], ""));
    assert_eq!(plain.refused(400), "Upgrade request required");
    let upgrade = [("upgrade", "SPDY/3.1"), ("connection", "Upgrade")];
    let spdy = |path: &str| ground.send("POST", path, &upgrade, "");
    let old = spdy(&path("box", &["ls"], ""));
    assert!(old.refused(400).contains("use kubectl 1.31 or later"), "{}", old.refused(400));
    for (what, why) in [("attach?stdout=true", "attach to"), ("portforward?ports=80", "forward to")] {
        let refused = spdy(&format!("{PODS}/box/{what}"));
        let said = refused.refused(501);
        assert!(
            said.starts_with(&format!("the embedded cluster runs no containers: there is nothing to {why}")),
            "{said}"
        );
    }
}

#[test]
fn a_client_that_does_not_ask_for_a_stream_gets_none_and_a_terminal_ends_lines() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    let deaf = path("box", &["cat", "/tmp/ready"], "").replace("stdout=true&", "");
    let deaf = ground.spoken(&deaf, "v5.channel.k8s.io").unwrap();
    assert_eq!((deaf.code(), deaf.out.len(), deaf.err.len()), (0, 0, 0));
    let terminal = ground.spoken(&path("box", &["cat", "/tmp/ready"], "&stdin=true&tty=true"), "v5.channel.k8s.io");
    assert_eq!(terminal.unwrap().out, "up\r\n");
}

#[test]
fn who_may_create_executions_may_execute() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    let path = path("box", &["ls"], "");
    let asked = |user: &str| ground.send("GET", &path, &[("impersonate-user", user)], "");
    assert!(asked("ann").refused(403).contains("cannot create resource \"pods/exec\""));
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "x" },
        "rules": [{ "apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"] }] });
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "x" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann" }] });
    ground.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &role).good();
    ground.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &binding).good();
    assert_eq!(asked("ann").refused(400), "Upgrade request required");
    assert_eq!(ground.send("GET", &format!("{PODS}/box/log"), &[("impersonate-user", "ann")], "").status, 403);
}

#[test]
fn a_log_is_followed_until_the_container_ends() {
    let ground = Ground::with_nodes(1);
    let script = "for i in 1 2 3; do echo $i; sleep 5; done";
    ground.start("three", json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox", "command": ["sh", "-c", script] }] }));
    let api = ground.api();
    let cluster = &ground.cluster;
    let text = ground.wait_for(async move {
        let request = http::Request::get(format!("{PODS}/three/log?follow=true")).body(String::new()).unwrap();
        let mut body = api.answer(request).await.into_body();
        let mut text = Vec::new();
        for _ in 0..100 {
            match tokio::time::timeout(std::time::Duration::from_millis(50), body.frame()).await {
                Ok(Some(frame)) => text.extend_from_slice(&frame.unwrap().into_data().unwrap()),
                Ok(None) => break,
                Err(_) => cluster.advance(std::time::Duration::from_secs(1)),
            }
        }
        String::from_utf8(text).unwrap()
    });
    assert_eq!(text, "1\n2\n3\n");
}

#[test]
fn who_connects_to_a_pod_is_asked_about() {
    const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": "no-exec" },
        "spec": { "failurePolicy": "Fail", "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["pods/exec"], "operations": ["CONNECT"] }] },
            "validations": [{ "expression": "!(has(object.command) && 'sh' in object.command)", "message": "no shells" }] },
    });
    let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "no-exec" }, "spec": { "policyName": "no-exec", "validationActions": ["Deny"] } });
    ground.post(&format!("{ADMISSION}/validatingadmissionpolicies"), &policy).good();
    ground.post(&format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding).good();
    let exec = |word: &str| ground.get(&format!("{PODS}/box/exec?stdout=true&command={word}"));
    assert!(exec("sh").refused(422).ends_with("denied request: no shells"));
    assert_eq!(exec("ls").refused(400), "Upgrade request required");
}
