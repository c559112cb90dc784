//! What executed commands write: later commands see it, probes, the container's own script and other containers do.

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::resource::{NODES, PODS as POD};
use klab_cluster::api::Api;
use klab_cluster::clock::{Clock, SteppedClock};
use klab_cluster::cluster::{Cluster, WriteOptions};
use klab_cluster::control::{ControlPlane, Settings};
use serde_json::{Value, json};

use super::exec::{Executed, executed, path};
use super::ground::Ground;

const PODS: &str = "/api/v1/namespaces/default/pods";
const PROTOCOL: &str = "v5.channel.k8s.io";

fn container(name: &str, script: &str) -> Value {
    json!({ "name": name, "image": "busybox:1.37", "command": ["sh", "-c", script] })
}

fn probe(command: &[&str]) -> Value {
    json!({ "exec": { "command": command }, "periodSeconds": 5, "failureThreshold": 2 })
}

fn pod(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" }, "spec": spec })
}

impl Ground {
    fn begin(&self, name: &str, spec: Value) {
        self.post(PODS, &pod(name, spec)).good();
        self.pass(3);
    }

    /// Executes commands in a container, one after another; what all of them print.
    #[track_caller]
    fn prints(&self, name: &str, container: &str, commands: &[&str], out: &str) {
        let mut all = String::new();
        for command in commands {
            let executed = self.run_in(name, container, command);
            assert_eq!((executed.err.as_str(), executed.code()), ("", 0), "{command}");
            all.push_str(&executed.out);
        }
        assert_eq!(all, out, "{commands:?}");
    }

    #[track_caller]
    fn run_in(&self, name: &str, container: &str, command: &str) -> Executed {
        let words: Vec<&str> = command.split(' ').collect();
        let executed = self.spoken(&path(name, &words, &format!("&container={container}")), PROTOCOL).unwrap();
        self.cluster.settle();
        executed
    }

    fn status(&self, name: &str, container: &str) -> Value {
        let pod = self.get(&format!("{PODS}/{name}")).good();
        let all = pod["status"]["containerStatuses"].as_array().unwrap();
        all.iter().find(|status| status["name"] == container).unwrap().clone()
    }

    fn ready(&self, name: &str, container: &str) -> bool {
        self.status(name, container)["ready"] == true
    }
}

#[test]
fn later_commands_see_what_was_written() {
    let ground = Ground::with_nodes(1);
    ground.begin("box", json!({ "containers": [container("main", "echo old > /tmp/old; sleep 100000")] }));
    ground.prints("box", "main", &["touch /tmp/new /tmp/other", "rm /tmp/old"], "");
    ground.prints("box", "main", &["ls /tmp", "stat -c %a:%s /tmp/new"], "new\nother\n644:0\n");
    assert_eq!(ground.run_in("box", "main", "test -e /tmp/old").code(), 1);
    ground.prints("box", "main", &["rm -f /tmp/new /tmp/none", "ls /tmp"], "other\n");
    // What is refused leaves nothing.
    assert!(ground.run_in("box", "main", "touch -d yesterday /tmp/perhaps").message().contains("`touch -d"));
    ground.prints("box", "main", &["ls /tmp"], "other\n");
}

#[test]
fn a_pod_becomes_ready_when_somebody_makes_the_file_that_its_probe_looks_for() {
    let ground = Ground::with_nodes(1);
    let mut main = container("main", "sleep 100000");
    main["readinessProbe"] = probe(&["cat", "/tmp/ready"]);
    let mut inverse = container("inverse", "sleep 100000");
    inverse["readinessProbe"] = probe(&["sh", "-c", "! [ -e /tmp/bad ]"]);
    ground.begin("web", json!({ "containers": [main, inverse] }));
    ground.pass(20);
    assert!(!ground.ready("web", "main") && ground.ready("web", "inverse"));
    ground.prints("web", "main", &["touch /tmp/ready"], "");
    ground.prints("web", "inverse", &["touch /tmp/bad"], "");
    ground.pass(11);
    assert!(ground.ready("web", "main") && !ground.ready("web", "inverse"));
    ground.prints("web", "main", &["rm /tmp/ready"], "");
    ground.prints("web", "inverse", &["rm /tmp/bad"], "");
    ground.pass(4);
    assert!(ground.ready("web", "main"), "it has to fail twice");
    ground.pass(6);
    assert!(!ground.ready("web", "main") && ground.ready("web", "inverse"));
    assert_eq!(ground.status("web", "main")["restartCount"], 0);
}

/// Of files that programs may have made whom nobody knows, only what executed commands have done is known.
#[test]
fn a_probe_of_an_unknown_program_succeeds_until_somebody_removes_its_file() {
    let ground = Ground::with_nodes(1);
    let mut main = json!({ "name": "main", "image": "nginx:1.27", "livenessProbe": probe(&["cat", "/tmp/healthy"]) });
    main["readinessProbe"] = probe(&["sh", "-c", "test -e /tmp/healthy"]);
    ground.begin("web", json!({ "terminationGracePeriodSeconds": 1, "containers": [main] }));
    ground.pass(60);
    assert!(ground.ready("web", "main"));
    ground.prints("web", "main", &["touch /tmp/healthy"], "");
    ground.pass(60);
    assert_eq!((ground.ready("web", "main"), &ground.status("web", "main")["restartCount"]), (true, &json!(0)));
    ground.prints("web", "main", &["rm /tmp/healthy"], "");
    ground.pass(30);
    assert_eq!((ground.ready("web", "main"), &ground.status("web", "main")["restartCount"]), (true, &json!(1)));
}

#[test]
fn a_container_whose_file_somebody_removes_is_started_anew_and_has_forgotten() {
    let ground = Ground::with_nodes(1);
    let mut main = container("main", "touch /tmp/healthy; sleep 100000");
    main["livenessProbe"] = probe(&["cat", "/tmp/healthy"]);
    ground.begin("web", json!({ "terminationGracePeriodSeconds": 1, "containers": [main] }));
    ground.pass(30);
    ground.prints("web", "main", &["rm /tmp/healthy", "touch /tmp/mine"], "");
    ground.pass(4);
    assert_eq!(ground.status("web", "main")["restartCount"], 0);
    ground.pass(10);
    assert_eq!(ground.status("web", "main")["restartCount"], 1);
    ground.prints("web", "main", &["ls /tmp"], "healthy\n");
    ground.pass(60);
    assert_eq!(ground.status("web", "main")["restartCount"], 1);
    let events = ground.get("/api/v1/namespaces/default/events?fieldSelector=reason=Killing").good();
    assert_eq!(events["items"][0]["message"], "Container main failed liveness probe, will be restarted");
}

#[test]
fn a_script_meets_what_was_written_when_it_was() {
    let ground = Ground::with_nodes(1);
    let mut alive = container("alive", "while true; do touch /tmp/alive; sleep 5; done");
    alive["livenessProbe"] = probe(&["cat", "/tmp/alive"]);
    let reader = container("reader", "while true; do [ -e /tmp/word ] && echo hello || echo none; sleep 10; done");
    let mut ending = container("ending", "while [ ! -f /tmp/end ]; do sleep 1; done; exit 4");
    ending["image"] = json!("alpine:3.20");
    ground.begin("web", json!({ "restartPolicy": "OnFailure", "containers": [alive, reader, ending] }));
    ground.pass(60);
    ground.prints("web", "alive", &["rm /tmp/alive"], "");
    ground.prints("web", "reader", &["touch /tmp/word"], "");
    ground.prints("web", "ending", &["touch /tmp/end"], "");
    ground.pass(1);
    let ended = ground.status("web", "ending");
    assert_eq!((&ended["restartCount"], &ended["lastState"]["terminated"]["exitCode"]), (&json!(1), &json!(4)));
    ground.pass(60);
    assert_eq!(ground.status("web", "alive")["restartCount"], 0, "it makes its file again");
    ground.prints("web", "alive", &["ls /tmp"], "alive\n");
    let log = ground.get(&format!("{PODS}/web/log?container=reader"));
    assert_eq!(String::from_utf8_lossy(&log.bytes), format!("{}{}", "none\n".repeat(7), "hello\n".repeat(6)));
}

#[test]
fn an_empty_dir_is_seen_by_all_containers_until_the_pod_is_gone() {
    let ground = Ground::with_nodes(1);
    let mount = json!([{ "name": "shared", "mountPath": "/shared" }]);
    let mut one = container("one", "sleep 100000");
    one["volumeMounts"] = mount.clone();
    one["livenessProbe"] = probe(&["sh", "-c", "test ! -e /tmp/bad"]);
    let script = "until [ -f /data/go ]; do sleep 2; done; echo found; rm /data/go; sleep 100000";
    let mut other = container("other", script);
    other["volumeMounts"] = json!([{ "name": "shared", "mountPath": "/data" }]);
    other["readinessProbe"] = probe(&["cat", "/data/ready"]);
    let spec = json!({ "terminationGracePeriodSeconds": 1, "containers": [one, other], "volumes": [{ "name": "shared", "emptyDir": {} }] });
    ground.begin("web", spec.clone());
    ground.pass(20);
    assert!(!ground.ready("web", "other"));
    ground.prints("web", "one", &["touch /shared/go /shared/ready /tmp/bad"], "");
    ground.prints("web", "other", &["test -e /data/go"], "");
    ground.pass(3);
    let log = ground.get(&format!("{PODS}/web/log?container=other&sinceSeconds=5"));
    assert_eq!(&log.bytes[..], b"found\n", "its script goes on with what it was waiting for");
    ground.prints("web", "one", &["ls /shared"], "ready\n");
    ground.prints("web", "other", &["ls /data"], "ready\n");
    ground.pass(20);
    assert!(ground.ready("web", "other"));
    assert_eq!(ground.status("web", "one")["restartCount"], 1);
    ground.prints("web", "one", &["ls /shared", "ls /tmp"], "ready\n");
    ground.delete(&format!("{PODS}/web")).good();
    ground.pass(60);
    ground.begin("web", spec);
    ground.prints("web", "one", &["ls /shared"], "");
}

#[test]
fn what_is_kept_has_a_bound_and_is_nobody_s_to_see() {
    let ground = Ground::with_nodes(1);
    ground.begin("box", json!({ "containers": [container("main", "sleep 100000")] }));
    let write = |from: usize| {
        let names: Vec<String> = (from..from + 150).map(|index| format!("/tmp/a-file-{index}")).collect();
        ground.run_in("box", "main", &format!("touch {}", names.join(" ")))
    };
    assert_eq!(write(0).code(), 0);
    let [_, _, refused] = [150, 300, 450].map(write);
    assert_eq!(refused.message(), "what executed commands write is kept up to 64 KiB of a pod, and this would be more");
    ground.prints("box", "main", &["test -e /tmp/a-file-149"], "");
    assert!(!String::from_utf8_lossy(&ground.get("/apis").bytes).contains("internal.klab.dev"));
    assert_eq!(ground.get("/apis/internal.klab.dev/1/namespaces/default/containerfiles").status, 404);
    assert_eq!(ground.get("/apis/internal.klab.dev/1").status, 404);
    assert!(ground.get(&format!("{PODS}/box")).good()["metadata"]["annotations"].is_null());
    ground.delete(&format!("{PODS}/box?gracePeriodSeconds=0")).good();
    let kind = klab_api_machinery::resource::CONTAINER_FILES;
    assert!(ground.cluster.inner().list(kind, None).0.is_empty());
}

#[test]
fn a_restart_of_the_server_forgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let start: Timestamp = "2026-06-01T08:00:00Z".parse().unwrap();
    let clock = Arc::new(SteppedClock::new(start));
    let open = || {
        let clock: Arc<dyn Clock> = Arc::<SteppedClock>::clone(&clock);
        let cluster = Arc::new(Cluster::open(&file, clock, 7).unwrap().0);
        let plane = ControlPlane::new(Arc::clone(&cluster), Settings::default());
        (cluster, plane)
    };
    let run = |plane: &mut ControlPlane, seconds: i64| {
        for _ in 0..seconds {
            plane.run();
            clock.step_to(clock.now() + jiff::SignedDuration::from_secs(1));
        }
        plane.run();
    };
    let execute = |cluster: &Arc<Cluster>, command: &[&str]| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let api = Api::new(Arc::clone(cluster));
        runtime.block_on(executed(&api, &path("web", command, ""), PROTOCOL)).unwrap()
    };
    let (cluster, mut plane) = open();
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a" },
        "status": { "allocatable": { "cpu": "2", "memory": "4Gi", "pods": "9" }, "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    cluster.create(NODES, "", node, &WriteOptions::by("test")).unwrap();
    let mut main = container("main", "sleep 100000");
    main["readinessProbe"] = probe(&["cat", "/tmp/ready"]);
    cluster.create(POD, "default", pod("web", json!({ "containers": [main] })), &WriteOptions::client("test")).unwrap();
    run(&mut plane, 20);
    assert_eq!(execute(&cluster, &["touch", "/tmp/ready"]).code(), 0);
    drop((cluster, plane));
    let (cluster, mut plane) = open();
    run(&mut plane, 20);
    let web = cluster.get(POD, "default", "web").unwrap().to_value();
    assert_eq!(web["status"]["containerStatuses"][0]["ready"], true, "{}", web["status"]);
    assert_eq!(execute(&cluster, &["ls", "/tmp"]).out, "ready\n");
}

#[test]
fn files_that_several_may_write_or_that_have_several_paths_are_not_followed() {
    let ground = Ground::with_nodes(1);
    let whole = json!({ "name": "work", "mountPath": "/whole" });
    let mut main = container("main", "sleep 100000");
    main["volumeMounts"] = json!([whole, { "name": "work", "mountPath": "/part", "subPath": "a/b" }]);
    let shared = json!([{ "name": "shared", "mountPath": "/shared" }]);
    let mut writer = container("writer", "sleep 5; echo one > /shared/file; sleep 100000");
    writer["volumeMounts"] = shared.clone();
    let mut reader = container("reader", "while sleep 10; do cat /shared/file; done");
    reader["volumeMounts"] = shared;
    let volumes = json!([{ "name": "work", "emptyDir": {} }, { "name": "shared", "emptyDir": {} }]);
    ground.begin("two", json!({ "containers": [main, writer, reader], "volumes": volumes }));
    for command in ["touch /whole/a/b/c", "touch /part/c", "ls /part", "test -e /whole/c"] {
        assert!(ground.run_in("two", "main", command).message().contains("is not known"), "{command}");
    }
    ground.prints("two", "main", &["test -d /whole/a/b"], "");
    ground.pass(30);
    let log = ground.get(&format!("{PODS}/two/log?container=reader"));
    assert!(log.refused(501).contains("what comes first of what containers do in a volume is not known"));
    ground.prints("two", "writer", &["cat /shared/file"], "one\n");
    ground.prints("two", "reader", &["cat /shared/file", "ls /shared"], "one\nfile\n");
}
