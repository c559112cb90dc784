//! What kubelets make of pods: init containers, ends, restarts, probes, deadlines, grace.

use serde_json::{Value, json};

use super::ground::Ground;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

fn container(name: &str, command: &[&str]) -> Value {
    json!({ "name": name, "image": "registry.k8s.io/e2e-test-images/busybox:1.37", "command": command })
}

impl Ground {
    fn create(&self, name: &str, spec: Value) {
        self.post(PODS, &pod(name, spec)).good();
    }

    fn pod(&self, name: &str) -> Value {
        self.get(&format!("{PODS}/{name}")).good()
    }

    fn events_of(&self, reason: &str) -> Vec<String> {
        let list = self.get(&format!("/api/v1/namespaces/default/events?fieldSelector=reason={reason}")).good();
        let messages = list["items"].as_array().into_iter().flatten();
        messages.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let all = pod["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

// upstream test: [sig-node] InitContainer [NodeConformance] should invoke init containers on a RestartNever pod [Conformance]
#[test]
fn init_containers_come_first_and_a_pod_that_is_not_restarted_ends() {
    let ground = Ground::with_nodes(1);
    let init = [container("init1", &["/bin/true"]), container("init2", &["/bin/true"])];
    let spec =
        json!({ "restartPolicy": "Never", "initContainers": init, "containers": [container("run1", &["/bin/true"])] });
    ground.create("pod-init", spec);
    ground.pass(30);
    let pod = ground.pod("pod-init");
    assert_eq!(pod["status"]["phase"], "Succeeded", "{}", pod["status"]);
    assert_eq!(condition(&pod, "Initialized")["status"], "True");
    for status in pod["status"]["initContainerStatuses"].as_array().unwrap() {
        assert_eq!((&status["ready"], &status["state"]["terminated"]["exitCode"]), (&json!(true), &json!(0)));
    }
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
}

// upstream test: [sig-node] InitContainer [NodeConformance] should not start app containers and fail the pod if init containers fail on a RestartNever pod [Conformance]
// upstream test: [sig-node] Pods Extended Pod Container Status should never report container start when an init container fails
#[test]
fn an_init_container_that_fails_fails_a_pod_that_is_not_restarted() {
    let ground = Ground::with_nodes(1);
    let init = [container("init1", &["/bin/true"]), container("init2", &["/bin/false"])];
    let spec =
        json!({ "restartPolicy": "Never", "initContainers": init, "containers": [container("run1", &["/bin/true"])] });
    ground.create("pod-init", spec);
    let pod = ground.pod("pod-init");
    assert_eq!(pod["status"]["phase"], "Failed");
    let initialized = condition(&pod, "Initialized");
    assert_eq!(initialized["reason"], "ContainersNotInitialized");
    assert_eq!(initialized["message"], "containers with incomplete status: [init2]");
    let run = &pod["status"]["containerStatuses"][0];
    assert_eq!(
        (&run["state"], &run["started"]),
        (&json!({ "waiting": { "reason": "PodInitializing" } }), &json!(false))
    );
}

// upstream test: [sig-node] InitContainer [NodeConformance] should not start app containers if init containers fail on a RestartAlways pod [Conformance]
#[test]
fn an_init_container_that_fails_is_tried_again_and_again() {
    let ground = Ground::with_nodes(1);
    let init = [container("init1", &["/bin/false"]), container("init2", &["/bin/true"])];
    let spec = json!({ "initContainers": init, "containers": [container("run1", &["/bin/sleep", "infinity"])] });
    ground.create("pod-init", spec);
    let waits: Vec<Value> = [0, 10, 20]
        .into_iter()
        .map(|seconds| {
            ground.pass(seconds);
            ground.pod("pod-init")["status"]["initContainerStatuses"][0].clone()
        })
        .collect();
    let restarts: Vec<_> = waits.iter().map(|status| status["restartCount"].as_i64().unwrap()).collect();
    assert_eq!(restarts, [1, 2, 3], "at once, after 10 s, after 20 s more");
    let pod = ground.pod("pod-init");
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        waits[2]["state"]["waiting"],
        json!({ "reason": "CrashLoopBackOff",
            "message": format!("back-off 40s restarting failed container=init1 pod=pod-init_default({uid})") })
    );
    assert_eq!(waits[2]["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(condition(&pod, "Initialized")["message"], "containers with incomplete status: [init1 init2]");
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
}

// upstream test: [sig-node] Pods Extended Pod Container Status should never report success for a pending container
#[test]
fn a_pod_is_deleted_with_its_last_word_said() {
    let ground = Ground::with_nodes(1);
    let spec = json!({ "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container("fail", &["/bin/false"])] });
    for seconds in 0..3 {
        let name = format!("pod-terminate-status-{seconds}");
        ground.create(&name, spec.clone());
        let version = ground.pod(&name)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        ground.pass(seconds);
        ground.delete(&format!("{PODS}/{name}")).good();
        ground.pass(5);
        let events =
            ground.events(&format!("{PODS}?watch=1&resourceVersion={version}&fieldSelector=metadata.name={name}"), &[]);
        let last = events.last().unwrap();
        assert_eq!(last["type"], "DELETED", "{events:?}");
        let status = &last["object"]["status"];
        assert_eq!(status["phase"], "Failed");
        let code = &status["containerStatuses"][0]["state"]["terminated"]["exitCode"];
        assert!(*code == 1 || *code == 137, "{status}");
    }
}

// upstream test: [sig-node] Pods should allow activeDeadlineSeconds to be updated [NodeConformance] [Conformance]
#[test]
fn a_pod_that_is_active_for_too_long_fails() {
    let ground = Ground::with_nodes(1);
    ground.create("late", json!({ "containers": [{ "name": "pause", "image": "registry.k8s.io/pause:3.10" }] }));
    ground.pass(3);
    ground.merge(&format!("{PODS}/late"), &json!({ "spec": { "activeDeadlineSeconds": 5 } })).good();
    ground.pass(1);
    assert_eq!(ground.pod("late")["status"]["phase"], "Running");
    ground.pass(1);
    let status = ground.pod("late")["status"].clone();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
    assert_eq!(status["message"], "Pod was active on the node longer than the specified deadline");
    assert!(status["containerStatuses"][0]["state"]["terminated"].is_object());
}

// upstream test: [sig-node] Probing container with readiness probe should not be ready before initial delay and never restart [NodeConformance] [Conformance]
// upstream test: [sig-node] Probing container with readiness probe that fails should never be ready and never restart [NodeConformance] [Conformance]
#[test]
fn probes_are_asked_after_their_delay() {
    let ground = Ground::with_nodes(1);
    let probed = |name: &str, probe: Value| {
        let web = json!({ "name": name, "image": "nginx:1.27", "readinessProbe": probe });
        ground.create(name, json!({ "containers": [web] }));
    };
    probed("delayed", json!({ "httpGet": { "path": "/", "port": 80 }, "initialDelaySeconds": 15 }));
    probed("failing", json!({ "httpGet": { "path": "/", "port": 81 } }));
    probed("false", json!({ "exec": { "command": ["/bin/false"] } }));
    ground.pass(14);
    assert_eq!(condition(&ground.pod("delayed"), "Ready")["status"], "False");
    ground.pass(1);
    let delayed = ground.pod("delayed");
    assert_eq!(condition(&delayed, "Ready")["status"], "True");
    assert_eq!(delayed["status"]["containerStatuses"][0]["restartCount"], 0);
    ground.pass(600);
    let failing = ground.pod("failing");
    assert_eq!(condition(&failing, "Ready")["message"], "containers with unready status: [failing]");
    assert_eq!(
        (&failing["status"]["phase"], &failing["status"]["containerStatuses"][0]["restartCount"]),
        (&json!("Running"), &json!(0))
    );
    assert_eq!(condition(&ground.pod("false"), "Ready")["message"], "containers with unready status: [false]");
    let address = failing["status"]["podIP"].as_str().unwrap();
    let refused = format!(
        "Readiness probe failed: Get \"http://{address}:81/\": dial tcp {address}:81: connect: connection refused"
    );
    assert_eq!(ground.events_of("Unhealthy"), [refused.as_str(), "Readiness probe failed: "]);
}

#[test]
fn a_container_whose_liveness_probe_fails_is_started_anew() {
    let ground = Ground::with_nodes(1);
    let mut liveness =
        container("liveness", &["/bin/sh", "-c", "touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600"]);
    liveness["livenessProbe"] =
        json!({ "exec": { "command": ["cat", "/tmp/healthy"] }, "initialDelaySeconds": 5, "periodSeconds": 5 });
    ground.create("liveness-exec", json!({ "containers": [liveness], "terminationGracePeriodSeconds": 30 }));
    ground.pass(69);
    assert_eq!(
        ground.pod("liveness-exec")["status"]["containerStatuses"][0]["restartCount"],
        0,
        "it is killed at 70 s: a shell does not heed SIGTERM"
    );
    ground.pass(1);
    let status = ground.pod("liveness-exec")["status"]["containerStatuses"][0].clone();
    assert_eq!((&status["restartCount"], &status["lastState"]["terminated"]["exitCode"]), (&json!(1), &json!(137)));
    assert_eq!(ground.events_of("Killing"), ["Container liveness failed liveness probe, will be restarted"]);
}

// upstream test: [sig-node] Container Runtime blackbox test on terminated container should report termination message as empty when pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set [NodeConformance] [Conformance]
#[test]
fn restart_policies_and_back_off() {
    let ground = Ground::with_nodes(1);
    for (policy, script) in [("Always", "exit 1"), ("OnFailure", "exit 0"), ("Never", "sleep 2; exit 3")] {
        let name = policy.to_lowercase();
        ground.create(
            &name,
            json!({ "restartPolicy": policy, "containers": [container("main", &["sh", "-c", script])] }),
        );
    }
    ground.pass(4);
    let always = ground.pod("always");
    assert_eq!(
        (&always["status"]["phase"], &always["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]),
        (&json!("Running"), &json!("CrashLoopBackOff"))
    );
    assert_eq!(ground.pod("onfailure")["status"]["phase"], "Succeeded");
    let never = ground.pod("never");
    assert_eq!(
        (&never["status"]["phase"], &never["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]),
        (&json!("Failed"), &json!(3))
    );
    assert!(never["status"]["containerStatuses"][0]["state"]["terminated"]["message"].is_null());
    ground.pass(3600);
    let restarts = ground.pod("always")["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap();
    assert_eq!(restarts, 16, "10, 20, 40, 80, 160 s, then every 5 min");
}

// upstream test: [sig-node] Pods Extended Pod TerminationGracePeriodSeconds is negative pod with negative grace period
#[test]
fn a_negative_grace_period_is_one_second() {
    let ground = Ground::with_nodes(1);
    let spec = json!({ "containers": [container("foo", &["/bin/sh", "-c", "sleep 10000"])], "terminationGracePeriodSeconds": -1 });
    ground.create("negative", spec);
    let mut pod = ground.pod("negative");
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 1);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(-1);
    ground.put(&format!("{PODS}/negative"), &pod).good();
    assert_eq!(ground.pod("negative")["spec"]["terminationGracePeriodSeconds"], 1);
}

// upstream test: [sig-node] Pods Extended Delete Grace Period should be submitted and removed
#[test]
fn grace_periods_are_used_up_by_those_that_do_not_heed_the_signal() {
    let ground = Ground::with_nodes(1);
    ground.create("deaf", json!({ "containers": [container("main", &["sleep", "3600"])] }));
    ground.create("hears", json!({ "containers": [{ "name": "pause", "image": "registry.k8s.io/pause:3.10" }] }));
    let hook = json!({ "preStop": { "sleep": { "seconds": 7 } } });
    ground.create(
        "hook",
        json!({ "containers": [{ "name": "pause", "image": "registry.k8s.io/pause:3.10", "lifecycle": hook }] }),
    );
    for name in ["deaf", "hears", "hook"] {
        let deleted = ground.delete(&format!("{PODS}/{name}?gracePeriodSeconds=30")).good();
        assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    }
    let on_node = || {
        let list = ground.get("/api/v1/nodes/node-0:10250/proxy/pods").good();
        let names =
            list["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(on_node(), ["deaf", "hook"]);
    ground.pass(7);
    assert_eq!(on_node(), ["deaf"]);
    ground.pass(22);
    assert_eq!(on_node(), ["deaf"]);
    ground.pass(1);
    assert!(on_node().is_empty());
}

// upstream: test/e2e/framework/metrics/metrics_grabber.go GrabFromKubelet, which shows the words of an answer that is no Status (v1.36)
#[test]
fn figures_of_a_kubelet_are_refused_in_plain_words() {
    let ground = Ground::with_nodes(1);
    for path in ["metrics", "metrics/resource", "metrics/cadvisor", "stats/summary", "configz"] {
        let refused = ground.get(&format!("/api/v1/nodes/node-0/proxy/{path}"));
        let words = String::from_utf8_lossy(&refused.bytes).into_owned();
        let why =
            format!("NotImplemented: the embedded cluster runs no containers: no kubelet answers at /{path}; kind");
        assert!(refused.status == 501 && words.starts_with(&why), "{words}");
    }
}

#[test]
fn a_handler_of_sigterm_takes_its_time() {
    let ground = Ground::with_nodes(1);
    let script = "_term(){\n sleep 5\n exit 143\n}\ntrap _term SIGTERM\nwhile true; do\n sleep 1\ndone";
    ground.create(
        "slow",
        json!({ "restartPolicy": "Never", "containers": [container("c", &["/bin/sh", "-c", script])] }),
    );
    let version = ground.pod("slow")["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    ground.delete(&format!("{PODS}/slow")).good();
    ground.pass(4);
    assert_eq!(ground.pod("slow")["status"]["phase"], "Running");
    ground.pass(1);
    let events = ground.events(&format!("{PODS}?watch=1&resourceVersion={version}"), &[]);
    let last = &events.last().unwrap()["object"]["status"];
    assert_eq!(last["phase"], "Failed");
    assert_eq!(last["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
}

// upstream test: [sig-apps] Job should adopt matching orphans and release non-matching pods [Conformance]
// upstream test: [sig-apps] Job should update the status ready field
#[test]
fn a_job_whose_containers_pause_goes_on() {
    let ground = Ground::with_nodes(1);
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "registry.k8s.io/pause:3.10" }] } });
    let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "foo" },
        "spec": { "parallelism": 2, "completions": 4, "template": template } });
    ground.post("/apis/batch/v1/namespaces/default/jobs", &job).good();
    ground.pass(300);
    let status = ground.get("/apis/batch/v1/namespaces/default/jobs/foo").good()["status"].clone();
    assert_eq!((&status["active"], &status["ready"]), (&json!(2), &json!(2)), "{status}");
}

// upstream test: [sig-node] Ephemeral Containers [NodeConformance] will start an ephemeral container in an existing pod [Conformance]
// upstream test: [sig-node] Ephemeral Containers [NodeConformance] should update the ephemeral containers in an existing pod [Conformance]
#[test]
fn ephemeral_containers_run_beside_the_others() {
    let ground = Ground::with_nodes(1);
    ground.create("pod", json!({ "containers": [container("main", &["/bin/sleep", "10000"])] }));
    let mut pod = ground.pod("pod");
    let debugger = |name: &str, script: &str| container(name, &["/bin/sh", "-c", script]);
    pod["spec"]["ephemeralContainers"] =
        json!([debugger("debugger", "while true; do echo polo; sleep 2; done"), debugger("brief", "exit 4")]);
    ground.put(&format!("{PODS}/pod/ephemeralcontainers"), &pod).good();
    ground.pass(1);
    let status = ground.pod("pod")["status"].clone();
    let ephemeral = &status["ephemeralContainerStatuses"];
    assert!(ephemeral[0]["state"]["running"].is_object(), "{status}");
    assert_eq!(ephemeral[1]["state"]["terminated"]["exitCode"], 4);
    assert_eq!((&status["phase"], &status["containerStatuses"][0]["ready"]), (&json!("Running"), &json!(true)));
}

#[test]
fn sidecars_start_before_and_end_after_the_others() {
    let ground = Ground::with_nodes(1);
    let mut sidecar = container("proxy", &["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]);
    sidecar["restartPolicy"] = json!("Always");
    sidecar["startupProbe"] = json!({ "exec": { "command": ["true"] }, "initialDelaySeconds": 5 });
    let spec = json!({ "restartPolicy": "Never", "initContainers": [sidecar, container("setup", &["sleep", "3"])], "containers": [container("main", &["sleep", "10"])] });
    ground.create("pod", spec);
    let states = |ground: &Ground| {
        let status = ground.pod("pod")["status"].clone();
        let state = |status: &Value| status["state"].as_object().unwrap().keys().next().unwrap().clone();
        let init = status["initContainerStatuses"].as_array().unwrap().iter().map(state);
        let mains = status["containerStatuses"].as_array().unwrap().iter().map(state);
        (init.chain(mains).collect::<Vec<_>>(), status["phase"].as_str().unwrap().to_owned())
    };
    assert_eq!(states(&ground), (vec!["running".into(), "waiting".into(), "waiting".into()], "Pending".into()));
    ground.pass(5);
    assert_eq!(states(&ground), (vec!["running".into(), "running".into(), "waiting".into()], "Pending".into()));
    ground.pass(3);
    assert_eq!(states(&ground), (vec!["running".into(), "terminated".into(), "running".into()], "Running".into()));
    ground.pass(10);
    assert_eq!(
        states(&ground),
        (vec!["terminated".into(), "terminated".into(), "terminated".into()], "Succeeded".into())
    );
}

// upstream test: [sig-node] Pods Extended (pod generation) Pod Generation custom-set generation on new pods and graceful delete [Conformance]
// upstream test: [sig-node] Pods Extended (pod generation) Pod Generation issue 500 podspec updates and verify generation and observedGeneration eventually converge [MinimumKubeletVersion:1.34] [Conformance]
// upstream test: [sig-node] Pods Extended (pod generation) Pod Generation pod observedGeneration field set in pod conditions
#[test]
fn generations_are_observed() {
    let ground = Ground::with_nodes(1);
    let main =
        json!({ "name": "main", "image": "localhost/some-image-that-doesnt-exist", "command": ["sleep", "3600"] });
    let mut pod = pod("pod", json!({ "containers": [main], "activeDeadlineSeconds": 5000 }));
    pod["metadata"]["generation"] = json!(100);
    ground.post(PODS, &pod).good();
    let observed = |expected: i64| {
        let pod = ground.pod("pod");
        assert_eq!(
            (&pod["metadata"]["generation"], &pod["status"]["observedGeneration"]),
            (&json!(expected), &json!(expected))
        );
        for kind in ["Initialized", "Ready", "ContainersReady", "PodScheduled"] {
            assert_eq!(condition(&pod, kind)["observedGeneration"], expected, "{kind}");
        }
        pod
    };
    assert_eq!(observed(1)["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ErrImagePull");
    ground.pass(2);
    assert_eq!(observed(1)["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ImagePullBackOff");
    ground.merge(&format!("{PODS}/pod"), &json!({ "spec": { "activeDeadlineSeconds": 4999 } })).good();
    observed(2);
    let mut pod = ground.pod("pod");
    pod["spec"]["containers"][0]["image"] = json!("registry.k8s.io/e2e-test-images/agnhost:2.57");
    ground.put(&format!("{PODS}/pod"), &pod).good();
    let running = observed(3);
    assert_eq!(running["status"]["phase"], "Running", "{}", running["status"]);
    ground.delete(&format!("{PODS}/pod?gracePeriodSeconds=60")).good();
    assert_eq!(ground.pod("pod")["metadata"]["generation"], 4);
}

// upstream test: [sig-apps] Daemon set [Serial] should rollback without unnecessary restarts [Conformance]
// upstream test: [sig-apps] Deployment deployment should support proportional scaling [Conformance]
#[test]
fn images_that_do_not_exist_are_tried_again() {
    let ground = Ground::with_nodes(1);
    for (name, image) in [("daemon", "foo:non-existent"), ("web", "webserver:404")] {
        ground.create(name, json!({ "containers": [{ "name": "main", "image": image }] }));
    }
    ground.pass(3);
    for name in ["daemon", "web"] {
        let status = ground.pod(name)["status"].clone();
        assert_eq!(
            (&status["phase"], &status["containerStatuses"][0]["state"]["waiting"]["reason"]),
            (&json!("Pending"), &json!("ImagePullBackOff"))
        );
    }
    ground.pass(7);
    assert_eq!(
        ground.pod("web")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
        "ErrImagePull",
        "after 10 s"
    );
    ground.create("named", json!({ "containers": [{ "name": "main", "image": "Nginx" }] }));
    assert_eq!(ground.pod("named")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "InvalidImageName");
}

// upstream test: [sig-node] NodeLease [NodeConformance] NodeLease the kubelet should create and update a lease in the kube-node-lease namespace
#[test]
fn leases_are_renewed_when_somebody_looks() {
    let ground = Ground::with_nodes(1);
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let renewed = || {
        let one = ground.get(&format!("{path}/node-0")).good()["spec"]["renewTime"].clone();
        assert_eq!(ground.get(path).good()["items"][0]["spec"]["renewTime"], one);
        one.as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
    };
    let (before, version) = (renewed(), ground.cluster.inner().version());
    ground.pass(35);
    let after = renewed();
    assert_eq!(after.duration_since(before).as_secs(), 30);
    assert_eq!(ground.cluster.inner().version(), version, "nothing is done for it");
    let version = ground.get(&format!("{path}/node-0")).good()["metadata"]["resourceVersion"].clone();
    ground
        .merge("/api/v1/nodes/node-0", &json!({ "metadata": { "annotations": { "klab.dev/heartbeat": "stopped" } } }))
        .good();
    ground.pass(45);
    let silent = renewed();
    assert!(silent.duration_since(after).as_secs() < 10);
    assert_ne!(
        ground.get(&format!("{path}/node-0")).good()["metadata"]["resourceVersion"],
        version,
        "the last word is written down"
    );
}
