//! Commands that are executed in containers, on a WebSocket, as kubectl speaks it.

use futures::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use klab_cluster::api::Api;
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
        let service = service_fn(move |request| {
            let api = api.clone();
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
pub(super) async fn executed(api: &Api, path: &str, protocol: &str, typed: &[&[u8]]) -> Result<Executed, String> {
    executed_seeing(api, path, protocol, typed, || {}).await
}

/// [`executed`], with what is done whenever something was printed.
pub(super) async fn executed_seeing(
    api: &Api,
    path: &str,
    protocol: &str,
    typed: &[&[u8]],
    mut seen: impl FnMut(),
) -> Result<Executed, String> {
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
    for text in typed {
        socket.send(Message::binary(text.to_vec())).await.unwrap();
    }
    let (mut out, mut err, mut status) = (Vec::new(), Vec::new(), Value::Null);
    while let Some(Ok(message)) = socket.next().await {
        let Message::Binary(message) = message else { continue };
        match message[0] {
            1 => {
                out.extend_from_slice(&message[1..]);
                seen();
            }
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
        self.spoken(&path(pod, command, ""), "v5.channel.k8s.io, v4.channel.k8s.io", &[]).unwrap()
    }

    pub(super) fn spoken(&self, path: &str, protocol: &str, typed: &[&[u8]]) -> Result<Executed, String> {
        self.wait_for(executed(&self.api(), path, protocol, typed))
    }
}

fn sleeper() -> Value {
    json!({
        "hostAliases": [{ "ip": "123.45.67.89", "hostnames": ["foo", "bar"] }],
        "dnsPolicy": "None",
        "dnsConfig": { "nameservers": ["1.1.1.1"], "searches": ["resolv.conf.local"] },
        "containers": [{
            "name": "main", "image": "busybox:1.37", "command": ["sh", "-c", "echo up > /tmp/ready; sleep 100000"],
            "env": [{ "name": "COLOUR", "value": "blue" }],
            "resources": { "requests": { "cpu": "500m" }, "limits": { "cpu": "1", "memory": "64Mi" } },
        }],
    })
}

// upstream test: [sig-node] Pods should support remote command execution over websockets [NodeConformance] [Conformance]
// upstream test: [sig-node] KubeletManagedEtcHosts should test kubelet managed /etc/hosts file [LinuxOnly] [NodeConformance] [Conformance]
#[test]
fn commands_whose_outcome_is_known_are_executed() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    for (command, out) in [
        (&["echo", "remote execution test"][..], "remote execution test\n"),
        (&["sh", "-c", "echo $COLOUR; cat /tmp/ready | tr a-z A-Z"], "blue\nUP\n"),
        (&["hostname"], "box\n"),
        (&["printenv", "COLOUR"], "blue\n"),
        (&["cat", "/etc/resolv.conf"], "search resolv.conf.local\nnameserver 1.1.1.1\n"),
        (&["sh", "-c", "head -n 1 /sys/fs/cgroup/cpu.max; cat /sys/fs/cgroup/memory.max"], "100000 100000\n67108864\n"),
        (&["mount", "-t", "cgroup2"], "cgroup on /sys/fs/cgroup type cgroup2 (ro,nosuid,nodev,noexec,relatime)\n"),
        (&["id"], "uid=0(root) gid=0(root) groups=0(root),10(wheel)\n"),
        (&["sh", "-c", "cd /tmp && pwd && ls"], "/tmp\nready\n"),
        (&["sh", "-c", "for f in /tmp/*; do test -s $f && echo $f; done"], "/tmp/ready\n"),
        (&["sh", "-c", "cd /; echo t*/ready /t?p/r* [s-u]mp/ //tmp/re*"], "tmp/ready /tmp/ready tmp/ //tmp/ready\n"),
        (
            &["sh", "-c", "echo /tm*/none /tmp/n* /tmp/ready/* /tmp/.*"],
            "/tm*/none /tmp/n* /tmp/ready/* /tmp/. /tmp/..\n",
        ),
    ] {
        let executed = ground.execute("box", command);
        assert_eq!((executed.out.as_str(), executed.code()), (out, 0), "{command:?} {executed:?}");
    }
    assert!(
        ground
            .execute("box", &["cat", "/etc/hosts"])
            .out
            .contains("\n# Entries added by HostAliases.\n123.45.67.89\tfoo\tbar\n")
    );
    let failed = ground.execute("box", &["cat", "/none"]);
    assert_eq!((failed.err.as_str(), failed.code()), ("cat: can't open '/none': No such file or directory\n", 1));
    assert_eq!(ground.execute("box", &["sh", "-c", "exit 7"]).code(), 7);
    let old = ground.spoken(&path("box", &["echo", "x"], ""), "v4.channel.k8s.io", &[]).unwrap();
    assert_eq!((old.out.as_str(), old.code()), ("x\n", 0));
}

#[test]
fn a_shell_prints_its_commands_where_it_is_told_to() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    let script = "x='1 2'; for i in 1; do [ $i = 1 ] && y=3 echo \"it's\" >/dev/null; done; set +x; echo end";
    let executed = ground.execute("box", &["sh", "-x", "-c", script]);
    assert_eq!(executed.out, "end\n");
    assert_eq!(executed.err, "+ x='1 2'\n+ '[' 1 '=' 1 ]\n+ y=3 echo 'it'\"'\"'s'\n+ set +x\n");
}

/// A web server whose readiness is a file of its image that commands move away and back.
// upstream test: [sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Scaling should happen in predictable order and halt if any stateful pod is unhealthy [Slow] [Conformance]
// upstream test: [sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Burst scaling should run to completion even with unhealthy pods [Slow] [Conformance]
// upstream test: [sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should perform rolling updates and roll backs of template modifications [Conformance]
#[test]
fn a_file_that_is_moved_is_told_of_and_is_missed() {
    let ground = Ground::with_nodes(1);
    ground.start(
        "web",
        json!({ "containers": [{
            "name": "main", "image": "registry.k8s.io/e2e-test-images/agnhost:2.59", "args": ["test-webserver"],
            "readinessProbe": { "httpGet": { "path": "/localhost.crt", "port": 80 }, "periodSeconds": 1, "failureThreshold": 1 },
        }]}),
    );
    let ready = || ground.get(&format!("{PODS}/web")).good()["status"]["containerStatuses"][0]["ready"] == true;
    assert!(ready());
    let (away, back) = ("mv -v /localhost.crt /tmp/ || true", "mv -v /tmp/localhost.crt / || true");
    let gone = |file: &str| format!("mv: can't rename '{file}': No such file or directory\n");
    for (command, out, err, is_ready) in [
        (away, "'/localhost.crt' -> '/tmp/localhost.crt'\n", String::new(), false),
        (away, "'/localhost.crt' -> '/tmp/localhost.crt'\n", gone("/localhost.crt"), false),
        (back, "'/tmp/localhost.crt' -> '/localhost.crt'\n", String::new(), true),
        (back, "'/tmp/localhost.crt' -> '/localhost.crt'\n", gone("/tmp/localhost.crt"), true),
    ] {
        let executed = ground.execute("web", &["/bin/sh", "-x", "-c", command]);
        let err = format!("{}{err}{}", err_of(command), if err.is_empty() { "" } else { "+ true\n" });
        assert_eq!((executed.out.as_str(), executed.err.as_str(), executed.code()), (out, &*err, 0), "{command}");
        ground.pass(3);
        assert_eq!(ready(), is_ready, "{command}");
    }
    let events = ground.get("/api/v1/namespaces/default/events?fieldSelector=reason=Unhealthy").good();
    assert_eq!(events["items"][0]["message"], "Readiness probe failed: HTTP probe failed with statuscode: 404");
    // GNU's has other words.
    ground.start("debian", json!({ "containers": [{ "name": "main", "image": "debian:12", "command": ["sh", "-c", "echo x > /tmp/a; sleep 1d"] }] }));
    for (command, out) in [
        ("mv -v /tmp/a /tmp/b", "renamed '/tmp/a' -> '/tmp/b'\n"),
        ("cp -v /tmp/b /tmp/c && cat /tmp/c", "'/tmp/b' -> '/tmp/c'\nx\n"),
    ] {
        assert_eq!(ground.execute("debian", &["sh", "-c", command]).out, out, "{command}");
    }
}

/// What a shell with `-x` says of the first command of a line.
fn err_of(command: &str) -> String {
    format!("+ {}\n", command.split(" || ").next().unwrap_or_default())
}

#[test]
fn what_is_not_known_is_said_and_what_is_not_there_in_the_runtimes_words() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    ground.start("web", json!({ "containers": [{ "name": "main", "image": "acme/web:1" }] }));
    ground.start("pause", json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] }));
    for (pod, command, why) in [
        ("box", &["ping", "web"][..], "what `ping` does is not known"),
        ("box", &["cat", "/etc/passwd"], "what is in `/etc/passwd` is not known"),
        ("box", &["ps"], "what `ps` prints is not known"),
        ("box", &["mkdir", "-v", "/tmp/new"], "what `mkdir -v` prints is not known"),
        ("box", &["mv", "-v", "/etc/passwd", "/tmp/"], "what `mv -v` prints is not known"),
        ("web", &["sh", "-c", "echo hi"], "whether the image `acme/web:1` has `sh` is not known"),
    ] {
        let executed = ground.execute(pod, command);
        assert_eq!(executed.message(), format!("the embedded cluster runs no containers: {why}"), "{command:?}");
    }
    let absent = ground.execute("pause", &["sh"]);
    assert!(
        absent.message().starts_with("Internal error occurred: error executing command in container: "),
        "{}",
        absent.message()
    );
    assert!(absent.message().ends_with("exec: \"sh\": executable file not found in $PATH"), "{}", absent.message());
    assert!(ground.execute("box", &["curl"]).message().ends_with("exec: \"curl\": executable file not found in $PATH"));
    let refused = |path: &str, protocol: &str| ground.spoken(path, protocol, &[]).unwrap_err();
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
fn commands_read_what_they_are_given_and_shells_what_is_typed() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    let given =
        ground.spoken(&path("box", &["wc", "-l"], "&stdin=true"), "v5.channel.k8s.io", &[b"\0a\nb\n", &[255, 0]]);
    assert_eq!(given.unwrap().out, "2\n");
    let unread = ground.spoken(&path("box", &["echo", "x"], "&stdin=true"), "v5.channel.k8s.io", &[]);
    assert_eq!(unread.unwrap().out, "x\n", "nobody has to type anything");
    let typed: [&[u8]; 3] = [b"\0cd /tmp\r", b"\0x=1; echo $((x + 1)) > n\r", b"\0cat n; exit 4\r"];
    let shell = ground.spoken(&path("box", &["sh"], "&stdin=true&tty=true"), "v5.channel.k8s.io", &typed).unwrap();
    assert_eq!(shell.code(), 4);
    assert_eq!(shell.out, "/ # cd /tmp\r\n/tmp # x=1; echo $((x + 1)) > n\r\n/tmp # cat n; exit 4\r\n2\r\n");
}

#[test]
fn a_client_that_does_not_ask_for_a_stream_gets_none_and_long_output_comes_whole() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    let long = format!("i=0; while [ $i -lt 5000 ]; do echo {}; i=$((i + 1)); done", "x".repeat(63));
    let deaf = path("box", &["sh", "-c", &long], "").replace("stdout=true&", "");
    let deaf = ground.spoken(&deaf, "v5.channel.k8s.io", &[]).unwrap();
    assert_eq!((deaf.code(), deaf.out.len(), deaf.err.len()), (0, 0, 0));
    let long = ground.execute("box", &["sh", "-c", &long]);
    assert_eq!((long.code(), long.out.len()), (0, 5000 * 64));
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

fn attach(pod: &str, tty: bool) -> String {
    format!(
        "{PODS}/{pod}/attach?container=main&stdin=true&stdout=true&tty={tty}{}",
        if tty { "" } else { "&stderr=true" }
    )
}

fn attachable(command: &[&str]) -> Value {
    json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox:1.37", "args": command,
        "stdin": true, "stdinOnce": true, "tty": true }] })
}

#[test]
fn who_attaches_to_a_shell_types_into_it_and_its_container_ends_with_it() {
    let ground = Ground::with_nodes(1);
    ground.start("shell", attachable(&["sh"]));
    let phase = || ground.get(&format!("{PODS}/shell")).good()["status"]["phase"].clone();
    assert_eq!(phase(), "Running", "it waits");
    assert_eq!(ground.get(&format!("{PODS}/shell/log")).bytes, "", "it has said nothing yet");
    let typed: [&[u8]; 2] = [b"\0echo $((20 + 3))\r", b"\0exit 7\r"];
    let told = ground.spoken(&attach("shell", true), "v5.channel.k8s.io", &typed).unwrap();
    assert_eq!((told.out.as_str(), told.code()), ("/ # echo $((20 + 3))\r\n23\r\n/ # exit 7\r\n", 0));
    ground.pass(2);
    assert_eq!(phase(), "Failed");
    let status = ground.get(&format!("{PODS}/shell")).good()["status"]["containerStatuses"][0].clone();
    assert_eq!(status["state"]["terminated"]["exitCode"], 7, "{status}");
    let log = ground.get(&format!("{PODS}/shell/log"));
    assert!(log.refused(501).ends_with("what was said to who was attached to it is not kept"));
    assert_eq!(ground.get(&attach("shell", true)).status, 404, "it has ended");
}

#[test]
fn who_attaches_to_a_command_that_asks_the_network_is_told_what_it_is_told() {
    let ground = Ground::with_nodes(1);
    let web = json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0",
        "args": ["netexec"] }] });
    ground.start("web", web);
    let address = ground.get(&format!("{PODS}/web")).good()["status"]["podIP"].as_str().unwrap().to_owned();
    ground.start("once", attachable(&["wget", "-qO-", &format!("http://{address}:8080/hostname")]));
    let told = ground.spoken(&attach("once", false), "v5.channel.k8s.io", &[]).unwrap();
    assert_eq!((told.out.as_str(), told.code()), ("web", 0));
    ground.pass(2);
    assert_eq!(ground.get(&format!("{PODS}/once")).good()["status"]["phase"], "Succeeded");
    ground.start("other", json!({ "containers": [{ "name": "main", "image": "acme/web", "stdin": true }] }));
    let refused = ground.spoken(&attach("other", false), "v5.channel.k8s.io", &[]).unwrap_err();
    assert!(refused.starts_with("HTTP/1.1 501 "), "{refused}");
}

fn reader(command: &[&str]) -> Value {
    json!({ "restartPolicy": "OnFailure", "containers": [{ "name": "main", "image": "busybox:1.37", "args": command,
        "stdin": true, "stdinOnce": true }] })
}

fn log_of(ground: &Ground, pod: &str) -> String {
    String::from_utf8(ground.get(&format!("{PODS}/{pod}/log")).bytes.to_vec()).unwrap()
}

/// What is typed, with the end of it.
fn closed<'a>(typed: &[&'a [u8]]) -> Vec<&'a [u8]> {
    typed.iter().copied().chain([&[255_u8, 0][..]]).collect()
}

// upstream: test/e2e/kubectl/kubectl.go "should support inline execution and attach" (v1.36)
#[test]
fn a_container_that_reads_waits_for_its_input_and_its_log_has_what_came_of_it() {
    let ground = Ground::with_nodes(1);
    ground.start("run-test", reader(&["sh", "-c", "echo -n read: && cat && echo 'stdin closed'"]));
    let phase = || ground.get(&format!("{PODS}/run-test")).good()["status"]["phase"].clone();
    let log = || log_of(&ground, "run-test");
    // As of a real runtime, a line that has no end yet is in no log.
    assert_eq!((phase(), log().as_str()), (json!("Running"), ""));
    let typed = closed(&[b"\0value\n", b"\0abcd1234"]);
    let attached = ground.spoken(&attach("run-test", false), "v5.channel.k8s.io", &typed).unwrap();
    assert_eq!((attached.out.as_str(), attached.code()), ("value\nabcd1234stdin closed\n", 0));
    ground.pass(2);
    assert_eq!((phase(), log().as_str()), (json!("Succeeded"), "read:value\nabcd1234stdin closed\n"));
}

/// A container whose command reads waits for input, and then prints what the same command prints when it is executed.
#[test]
fn what_is_read_is_the_same_attached_and_executed() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    let text = "b 1\na 2\n";
    let typed = [b"\0b 1\n".as_slice(), b"\0a 2\n"];
    for (at, (script, wanted)) in [
        ("cat", text),
        ("wc -l", "2\n"),
        ("sort", "a 2\nb 1\n"),
        ("head -n1", "b 1\n"),
        ("tr a-z A-Z", "B 1\nA 2\n"),
        ("cat | cat", text),
        ("cat | wc -l", "2\n"),
        ("read x; read y; echo $y-$x", "a 2-b 1\n"),
        ("while read word number; do echo $number; done; echo over", "1\n2\nover\n"),
        ("x=$(cat); echo \"<$x>\"", "<b 1\na 2>\n"),
        ("cat > /tmp/f; cat /tmp/f", text),
        ("echo before; sh -c cat; echo after", "before\nb 1\na 2\nafter\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let command = ["sh", "-c", script];
        let executed =
            ground.spoken(&path("box", &command, "&stdin=true"), "v5.channel.k8s.io", &closed(&typed)).unwrap();
        assert_eq!((executed.out.as_str(), executed.code()), (wanted, 0), "executed: {script}");
        let name = format!("reader-{at}");
        ground.start(&name, reader(&command));
        let before = log_of(&ground, &name);
        assert!(before.is_empty() || before == "before\n", "{script} has read nothing: {before}");
        let attached = ground.spoken(&attach(&name, false), "v5.channel.k8s.io", &closed(&typed)).unwrap();
        assert_eq!(format!("{before}{}", attached.out), wanted, "attached: {script}");
        ground.pass(2);
        let pod = ground.get(&format!("{PODS}/{name}")).good();
        assert_eq!(pod["status"]["phase"], "Succeeded", "{script}");
        assert_eq!(log_of(&ground, &name), wanted, "the log of: {script}");
    }
}

// upstream: test/e2e/kubectl/kubectl.go "should support exec" (v1.36)
#[test]
fn a_shell_without_a_terminal_runs_each_line_as_it_comes() {
    let ground = Ground::with_nodes(1);
    ground.start("box", sleeper());
    let shell =
        |typed: &[&[u8]]| ground.spoken(&path("box", &["sh"], "&stdin=true"), "v5.channel.k8s.io", typed).unwrap();
    // The input stays open: `exit` ends the shell.
    let lines = shell(&[b"\0echo hi\nfor i in 1 2; do\n", b"\0echo $i; done\nexit 3\n"]);
    assert_eq!((lines.out.as_str(), lines.err.as_str(), lines.code()), ("hi\n1\n2\n", "", 3));
    let last = shell(&closed(&[b"\0cd /tmp\npwd"]));
    assert_eq!((last.out.as_str(), last.code()), ("/tmp\n", 0), "the last line has no end");
    // How much of its input a shell leaves to its commands depends on the shell.
    let shared = shell(&[b"\0echo first\nread x\nhello\n"]);
    assert_eq!(shared.out, "first\n");
    assert!(shared.message().ends_with("a command of a shell reads what the shell reads, too"), "{}", shared.message());
}
