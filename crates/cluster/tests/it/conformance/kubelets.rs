//! What kubelets refuse, give and take away: admission, resizing, pressure, runtimes.

use serde_json::{Value, json};

use super::ground::{Answer, Ground};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pause(spec: Value) -> Value {
    let mut spec = spec;
    if spec["containers"].is_null() {
        spec["containers"] = json!([{ "name": "pause", "image": "registry.k8s.io/pause:3.10" }]);
    }
    spec
}

fn create(ground: &Ground, name: &str, spec: Value) -> Value {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": pause(spec) });
    ground.post(PODS, &pod).good();
    get(ground, name)
}

fn get(ground: &Ground, name: &str) -> Value {
    ground.get(&format!("{PODS}/{name}")).good()
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

fn messages(ground: &Ground, reason: &str) -> Vec<String> {
    let list = ground.get(&format!("/api/v1/namespaces/default/events?fieldSelector=reason={reason}")).good();
    let events = list["items"].as_array().into_iter().flatten();
    events.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

// upstream test: [sig-node] PodOSRejection [NodeConformance] Kubelet [LinuxOnly] should reject pod when the node OS doesn't match pod's OS
// upstream test: [sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Should recreate evicted statefulset [Conformance]
#[test]
fn pods_that_came_past_the_scheduler_are_refused() {
    let ground = Ground::with_nodes(1);
    let port = |name: &str| json!({ "nodeName": "node-0", "containers": [{ "name": name, "image": "nginx", "ports": [{ "containerPort": 80, "hostPort": 8080 }] }] });
    let first = create(&ground, "first", port("a"));
    assert_eq!(first["status"]["phase"], "Running");
    let cpu = json!({ "nodeName": "node-0", "containers": [{ "name": "a", "image": "nginx", "resources": { "requests": { "cpu": "9" } } }] });
    for (name, spec, reason, message) in [
        (
            "ports",
            port("b"),
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
        (
            "system",
            json!({ "nodeName": "node-0", "os": { "name": "windows" } }),
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ),
        ("cpu", cpu, "OutOfcpu", "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 8000"),
        (
            "selector",
            json!({ "nodeName": "node-0", "nodeSelector": { "disk": "ssd" } }),
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            "sysctl",
            json!({ "securityContext": { "sysctls": [{ "name": "kernel.msgmax", "value": "1" }] } }),
            "SysctlForbidden",
            "forbidden sysctl: \"kernel.msgmax\" not allowlisted",
        ),
    ] {
        let status = create(&ground, name, spec)["status"].clone();
        assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!(reason)), "{status}");
        assert_eq!(status["message"], format!("Pod was rejected: {message}"));
        assert_eq!(messages(&ground, reason), [message]);
    }
}

// upstream test: [sig-node] RuntimeClass should reject a Pod requesting a RuntimeClass with an unconfigured handler [Feature:RuntimeHandler]
#[test]
fn a_runtime_that_no_node_has_keeps_a_pod_waiting() {
    let ground = Ground::with_nodes(1);
    for (name, handler) in [("unconfigured", "nosuch-handler"), ("configured", "runc")] {
        let class = json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": name }, "handler": handler });
        ground.post("/apis/node.k8s.io/v1/runtimeclasses", &class).good();
        create(&ground, name, json!({ "runtimeClassName": name }));
    }
    ground.pass(600);
    let pod = get(&ground, "unconfigured");
    assert_eq!((&pod["status"]["phase"], pod["spec"]["nodeName"].is_string()), (&json!("Pending"), true));
    assert_eq!(messages(&ground, "FailedCreatePodSandBox").len(), 1);
    assert!(messages(&ground, "FailedCreatePodSandBox")[0].contains("no runtime for \"nosuch-handler\" is configured"));
    assert_eq!(get(&ground, "configured")["status"]["phase"], "Running");
}

fn resources(cpu: &str, memory: &str) -> Value {
    json!({ "requests": { "cpu": cpu, "memory": memory }, "limits": { "cpu": cpu, "memory": memory } })
}

fn sized(name: &str, resources: &Value) -> Value {
    json!({ "name": name, "image": "registry.k8s.io/pause:3.10", "resources": resources })
}

fn resize(ground: &Ground, pod: &str, containers: &Value) {
    try_to_resize(ground, pod, containers).good();
}

fn try_to_resize(ground: &Ground, pod: &str, containers: &Value) -> Answer {
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    let body = json!({ "spec": { "containers": containers } });
    ground.send("PATCH", &format!("{PODS}/{pod}/resize"), &headers, body.to_string())
}

// upstream test: [sig-node] Pod InPlace Resize Container guaranteed pods with multiple containers 3 containers - increase cpu & mem on c1, c2, decrease cpu & mem on c3 - net increase [MinimumKubeletVersion:1.34] [Conformance]
// upstream test: [sig-node] Pod InPlace Resize Container guaranteed pods with multiple containers 3 containers - increase cpu & mem on c1, decrease cpu & mem on c2, c3 - net decrease [MinimumKubeletVersion:1.34] [Conformance]
// upstream test: [sig-node] Pod InPlace Resize Container guaranteed pods with multiple containers 3 containers - increase: CPU (c1,c3), memory (c2, c3) ; decrease: CPU (c2) [MinimumKubeletVersion:1.34] [Conformance]
// upstream test: [sig-node] Pod InPlace Resize Container burstable pods - extended resize with equivalents [MinimumKubeletVersion:1.34] [Conformance]
#[test]
fn running_containers_are_given_other_resources() {
    let ground = Ground::with_nodes(1);
    let small = resources("20m", "20Mi");
    let pod = create(
        &ground,
        "pod",
        json!({ "containers": [sized("c1", &small), sized("c2", &small), sized("c3", &small)] }),
    );
    for status in pod["status"]["containerStatuses"].as_array().unwrap() {
        assert_eq!((&status["resources"], &status["allocatedResources"]), (&small, &small["requests"]));
    }
    let wanted = [resources("30m", "40Mi"), resources("15m", "15Mi"), resources("30m", "15Mi")];
    let changes: Vec<Value> = wanted
        .iter()
        .enumerate()
        .map(|(at, wanted)| json!({ "name": format!("c{}", at + 1), "resources": wanted }))
        .collect();
    resize(&ground, "pod", &json!(changes));
    let under_way = get(&ground, "pod");
    assert_eq!(condition(&under_way, "PodResizeInProgress")["observedGeneration"], 2, "{}", under_way["status"]);
    assert_eq!(under_way["status"]["containerStatuses"][0]["allocatedResources"], wanted[0]["requests"]);
    assert_eq!(under_way["status"]["containerStatuses"][0]["resources"], small);
    ground.pass(1);
    let done = get(&ground, "pod");
    assert_eq!(
        (condition(&done, "PodResizeInProgress"), &done["status"]["observedGeneration"]),
        (&Value::Null, &json!(2))
    );
    for (status, wanted) in done["status"]["containerStatuses"].as_array().unwrap().iter().zip(&wanted) {
        assert_eq!((&status["resources"], &status["restartCount"]), (wanted, &json!(0)));
    }
    assert!(messages(&ground, "ResizeStarted")[0].starts_with("Pod resize started: {\"containers\":[{\"name\":\"c1\""));
    assert!(messages(&ground, "ResizeCompleted")[0].ends_with("\"generation\":2}"));
}

// upstream test: [sig-node] Pod InPlace Resize Container burstable pods - extended 6 containers - various operations performed (including adding limits and requests) [MinimumKubeletVersion:1.34] [Conformance]
// upstream test: [sig-node] Pod InPlace Resize Container resize pod via the replace endpoint [MinimumKubeletVersion:1.34] [Conformance]
#[test]
fn a_resize_adds_what_was_not_asked_for_and_restarts_where_that_is_wanted() {
    let ground = Ground::with_nodes(1);
    let mut restarted = sized("c2", &json!({ "requests": { "memory": "20Mi" } }));
    restarted["resizePolicy"] = json!([{ "resourceName": "memory", "restartPolicy": "RestartContainer" }, { "resourceName": "cpu", "restartPolicy": "NotRequired" }]);
    let mut pod = create(
        &ground,
        "pod",
        json!({ "containers": [sized("c1", &json!({ "requests": { "cpu": "20m" } })), restarted] }),
    );
    pod["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "cpu": "30m", "memory": "10Mi" }, "limits": { "cpu": "40m" } });
    pod["spec"]["containers"][1]["resources"] =
        json!({ "requests": { "memory": "15Mi" }, "limits": { "memory": "50Mi" } });
    ground.put(&format!("{PODS}/pod/resize"), &pod).good();
    ground.pass(1);
    let statuses = get(&ground, "pod")["status"]["containerStatuses"].clone();
    for (index, restarts) in [(0, 0), (1, 1)] {
        assert_eq!(statuses[index]["resources"], pod["spec"]["containers"][index]["resources"]);
        assert_eq!(statuses[index]["restartCount"], restarts);
        assert!(statuses[index]["state"]["running"].is_object());
    }
}

#[test]
fn a_resize_that_does_not_fit_waits_for_room() {
    let ground = Ground::with_nodes(1);
    create(
        &ground,
        "other",
        json!({ "containers": [sized("main", &resources("5", "1Gi"))], "terminationGracePeriodSeconds": 0 }),
    );
    create(&ground, "pod", json!({ "containers": [sized("main", &resources("2", "1Gi"))] }));
    resize(&ground, "pod", &json!([{ "name": "main", "resources": resources("4", "1Gi") }]));
    let waits = get(&ground, "pod");
    let pending = condition(&waits, "PodResizePending");
    assert_eq!((&pending["reason"], &pending["status"]), (&json!("Deferred"), &json!("True")), "{}", waits["status"]);
    assert_eq!(
        pending["message"],
        "Node didn't have enough resource: cpu, requested: 4000, used: 5000, capacity: 8000"
    );
    assert_eq!(waits["status"]["containerStatuses"][0]["allocatedResources"]["cpu"], "2");
    assert_eq!(messages(&ground, "ResizeDeferred").len(), 1);
    ground.delete(&format!("{PODS}/other")).good();
    ground.pass(1);
    let done = get(&ground, "pod");
    assert_eq!(
        (condition(&done, "PodResizePending"), &done["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"]),
        (&Value::Null, &json!("4"))
    );
}

#[test]
fn a_resize_that_its_node_could_never_hold_is_refused() {
    let ground = Ground::with_nodes(1);
    create(&ground, "pod", json!({ "containers": [sized("main", &resources("2", "1Gi"))] }));
    let resize =
        |cpu: &str| try_to_resize(&ground, "pod", &json!([{ "name": "main", "resources": resources(cpu, "1Gi") }]));
    let answer = resize("9");
    let words = "node didn't have enough allocatable resources: cpu, requested: 9000, allocatable: 8000";
    assert!(answer.refused(403).contains(words), "{}", answer.json());
    assert_eq!(answer.json()["details"]["causes"], json!([{ "reason": "NodeCapacity" }]));
    ground
        .merge("/api/v1/nodes/node-0", &json!({ "metadata": { "labels": { "kubernetes.io/os": "windows" } } }))
        .good();
    assert!(resize("3").refused(403).contains("only supported on linux nodes"));
    ground.merge("/api/v1/nodes/node-0", &json!({ "metadata": { "labels": { "kubernetes.io/os": "linux" } } })).good();
    resize("3").good();
}

#[test]
fn a_node_short_of_memory_evicts_those_that_use_more_than_they_request() {
    let ground = Ground::with_nodes(1);
    for (name, value) in [("low", 10), ("high", 1000)] {
        let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name }, "value": value });
        ground.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).good();
    }
    create(&ground, "guaranteed", json!({ "containers": [sized("main", &resources("1", "1Gi"))] }));
    create(&ground, "greedy-high", json!({ "priorityClassName": "high" }));
    create(&ground, "greedy-low", json!({ "priorityClassName": "low" }));
    create(&ground, "vital", json!({ "priorityClassName": "system-node-critical" }));
    let annotate = |value: Value| {
        ground
            .merge("/api/v1/nodes/node-0", &json!({ "metadata": { "annotations": { "klab.dev/pressure": value } } }))
            .good()
    };
    annotate(json!("memory"));
    let reasons = || {
        ["greedy-low", "greedy-high", "guaranteed", "vital"]
            .map(|name| get(&ground, name)["status"]["reason"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(reasons(), ["Evicted", "", "", ""], "one at a time, the lowest priority first");
    let evicted = get(&ground, "greedy-low");
    assert_eq!(evicted["status"]["phase"], "Failed");
    assert_eq!(
        evicted["status"]["message"],
        "The node was low on resource: memory. Container pause was using 8Mi, request is 0, has larger consumption of memory. "
    );
    assert_eq!(condition(&evicted, "DisruptionTarget")["reason"], "TerminationByKubelet");
    ground.pass(10);
    assert_eq!(reasons(), ["Evicted", "Evicted", "", ""]);
    ground.pass(60);
    assert_eq!(reasons(), ["Evicted", "Evicted", "", ""]);
    let node = || ground.get("/api/v1/nodes/node-0").good();
    assert_eq!(condition(&node(), "MemoryPressure")["reason"], "KubeletHasInsufficientMemory");
    assert_eq!(node()["spec"]["taints"][0]["key"], "node.kubernetes.io/memory-pressure");
    let late = create(&ground, "late", json!({ "nodeName": "node-0" }))["status"].clone();
    assert_eq!(
        (&late["reason"], &late["message"]),
        (&json!("Evicted"), &json!("Pod was rejected: The node had condition: [MemoryPressure]. "))
    );
    annotate(Value::Null);
    ground.pass(299);
    assert_eq!(condition(&node(), "MemoryPressure")["status"], "True", "kept for five minutes");
    ground.pass(1);
    assert_eq!(
        (&condition(&node(), "MemoryPressure")["status"], &node()["spec"]["taints"]),
        (&json!("False"), &Value::Null)
    );
}

// upstream test: [sig-node] Pods Extended Pod Container lifecycle evicted pods should be terminal
#[test]
fn a_pod_that_writes_more_than_it_may_is_evicted() {
    let ground = Ground::with_nodes(1);
    let script = "sleep 10; dd if=/dev/zero of=file bs=1M count=10; sleep 10000";
    let bar = json!({ "name": "bar", "image": "busybox", "command": ["/bin/sh", "-c", script], "resources": { "limits": { "ephemeral-storage": "5Mi" } } });
    create(&ground, "pod", json!({ "restartPolicy": "OnFailure", "containers": [bar] }));
    ground.pass(9);
    assert_eq!(get(&ground, "pod")["status"]["phase"], "Running");
    ground.pass(1);
    let status = get(&ground, "pod")["status"].clone();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Evicted")));
    assert_eq!(status["message"], "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ");
    ground.pass(3600);
    assert_eq!(get(&ground, "pod")["status"]["phase"], "Failed");
}

// upstream test: [sig-apps] DisruptionController should evict ready pods with IfHealthyBudget UnhealthyPodEvictionPolicy
// upstream test: [sig-apps] DisruptionController should evict unready pods with AlwaysAllow UnhealthyPodEvictionPolicy
// upstream test: [sig-apps] DisruptionController should not evict unready pods with Default UnhealthyPodEvictionPolicy
// upstream test: [sig-apps] DisruptionController should not evict unready pods with IfHealthyBudget UnhealthyPodEvictionPolicy
#[test]
fn pods_that_are_not_ready_yet_count_as_unhealthy() {
    for (policy, ready, code) in [
        ("IfHealthyBudget", true, 201),
        ("AlwaysAllow", false, 201),
        ("Default", false, 429),
        ("IfHealthyBudget", false, 429),
    ] {
        let ground = Ground::with_nodes(1);
        let probe =
            json!({ "httpGet": { "path": "/", "port": 80 }, "initialDelaySeconds": if ready { 1 } else { 3600 } });
        let template = json!({ "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "web", "image": "nginx:1.27", "readinessProbe": probe }] } });
        let set = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "web" },
            "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "web" } }, "template": template } });
        ground.post("/apis/apps/v1/namespaces/default/replicasets", &set).good();
        let mut budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
            "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } } });
        if policy != "Default" {
            budget["spec"]["unhealthyPodEvictionPolicy"] = json!(policy);
        }
        ground.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget).good();
        ground.pass(5);
        let pods = ground.get(PODS).good();
        let name = pods["items"][0]["metadata"]["name"].as_str().unwrap();
        let status = ground.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web").good()["status"].clone();
        assert_eq!(status["currentHealthy"], if ready { 3 } else { 0 }, "{policy}");
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
        assert_eq!(ground.post(&format!("{PODS}/{name}/eviction"), &eviction).status, code, "{policy} {ready}");
    }
}

// upstream test: [sig-scheduling] SchedulerPredicates [Serial] validates pod overhead is considered along with resource limits of pods that are allowed to run verify pod overhead is accounted for
#[test]
fn what_is_said_of_a_nodes_capacity_is_given_to_pods() {
    let ground = Ground::with_nodes(1);
    let status = "/api/v1/nodes/node-0/status";
    let amounts = || {
        let node = ground.get("/api/v1/nodes/node-0").good();
        (node["status"]["allocatable"]["example.com/dongle"].clone(), node["status"]["allocatable"]["cpu"].clone())
    };
    let cpu = amounts().1;
    ground.merge(status, &json!({ "status": { "capacity": { "example.com/dongle": "4" } } })).good();
    assert_eq!(amounts(), (json!("4"), cpu.clone()));
    let class = json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "heavy" },
        "handler": "runc", "overhead": { "podFixed": { "example.com/dongle": "1" } } });
    ground.post("/apis/node.k8s.io/v1/runtimeclasses", &class).good();
    let resources = json!({ "limits": { "example.com/dongle": "2" }, "requests": { "example.com/dongle": "2" } });
    let wants = json!([{ "name": "pause", "image": "registry.k8s.io/pause:3.10", "resources": resources }]);
    let first = create(&ground, "first", json!({ "runtimeClassName": "heavy", "containers": wants }));
    assert_eq!(first["spec"]["nodeName"], "node-0");
    let second = create(&ground, "second", json!({ "containers": wants }));
    let because = condition(&second, "PodScheduled")["message"].as_str().unwrap_or_default();
    assert!(because.starts_with("0/1 nodes are available: 1 Insufficient example.com/dongle."), "{because}");
    ground.merge(status, &json!({ "status": { "capacity": { "example.com/dongle": null } } })).good();
    assert_eq!(amounts(), (Value::Null, cpu));
}

// upstream test: [sig-node] Pod Extended (RestartAllContainers) [FeatureGate:ContainerRestartRules] [Beta] [FeatureGate:RestartAllContainersOnContainerExits] [Beta] RestartAllContainers should allow multiple RestartAllContainers actions and not introduce a loop
// upstream test: [sig-node] Pod Extended (RestartAllContainers) [FeatureGate:ContainerRestartRules] [Beta] [FeatureGate:RestartAllContainersOnContainerExits] [Beta] RestartAllContainers should restart all containers on a previously restarted regular container exit
// upstream test: [sig-node] Pod Extended (RestartAllContainers) [FeatureGate:ContainerRestartRules] [Beta] [FeatureGate:RestartAllContainersOnContainerExits] [Beta] RestartAllContainers should restart all containers on regular container exit
// upstream test: [sig-node] Pod Extended (RestartAllContainers) [FeatureGate:ContainerRestartRules] [Beta] [FeatureGate:RestartAllContainersOnContainerExits] [Beta] RestartAllContainers should restart init and sidecar containers on init container exit
// upstream test: [sig-node] Pod Extended (RestartAllContainers) [FeatureGate:ContainerRestartRules] [Beta] [FeatureGate:RestartAllContainersOnContainerExits] [Beta] RestartAllContainers should restart all containers on sidecar container exit
#[test]
fn all_containers_begin_anew_when_one_ends_whose_rule_says_so() {
    let ground = Ground::with_nodes(1);
    let rules = json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [42] } }]);
    let mount = json!([{ "name": "work", "mountPath": "/mnt" }]);
    let container = |name: &str, script: &str| {
        json!({
            "name": name, "image": "busybox", "command": ["/bin/sh", "-c", script], "volumeMounts": mount,
            "restartPolicy": "Never", "restartPolicyRules": rules,
        })
    };
    let source = "if [ -f /mnt/done ]; then sleep 10000; else touch /mnt/done; sleep 10; exit 42; fi";
    create(
        &ground,
        "web",
        json!({
            "restartPolicy": "Never",
            "initContainers": [{ "name": "first", "image": "busybox", "command": ["sh", "-c", "echo ready"] }],
            "containers": [container("source", source), container("other", "sleep 10000")],
            "volumes": [{ "name": "work", "emptyDir": {} }],
        }),
    );
    let statuses = |pod: &Value| -> Vec<(String, i64, String)> {
        let all =
            ["initContainerStatuses", "containerStatuses"].map(|list| pod["status"][list].as_array().unwrap().clone());
        let told = |status: &Value| {
            let (state, _) = status["state"].as_object().unwrap().iter().next().unwrap();
            let last = status["lastState"]["terminated"]["reason"].as_str().unwrap_or_default();
            (state.clone(), status["restartCount"].as_i64().unwrap(), last.to_owned())
        };
        all.concat().iter().map(told).collect()
    };
    let one = |state: &str, count: i64, last: &str| (state.to_owned(), count, last.to_owned());
    ground.cluster.advance(std::time::Duration::from_secs(5));
    let pod = get(&ground, "web");
    assert_eq!(statuses(&pod), [one("terminated", 0, ""), one("running", 0, ""), one("running", 0, "")]);
    assert_eq!(condition(&pod, "AllContainersRestarting")["status"], "False");
    // Ten seconds after their start all are gone for a moment.
    ground.cluster.advance(std::time::Duration::from_millis(5_500));
    let pod = get(&ground, "web");
    let reason = "RestartingAllContainers";
    let gone = one("waiting", 1, reason);
    assert_eq!(statuses(&pod), [gone.clone(), gone.clone(), gone], "{}", pod["status"]);
    let restarting = condition(&pod, "AllContainersRestarting");
    assert_eq!((&restarting["status"], &restarting["reason"]), (&json!("True"), &json!("RestartAllContainersStarted")));
    assert_ne!(pod["status"]["phase"], "Failed");
    ground.cluster.advance(std::time::Duration::from_secs(5));
    let pod = get(&ground, "web");
    assert_eq!(statuses(&pod), [one("terminated", 1, reason), one("running", 1, reason), one("running", 1, reason)]);
    assert_eq!(condition(&pod, "AllContainersRestarting")["status"], "False");
    ground.cluster.advance(std::time::Duration::from_secs(600));
    let pod = get(&ground, "web");
    assert_eq!((&pod["status"]["phase"], statuses(&pod)[1].1), (&json!("Running"), 1), "once, and not again");
    // One that ends at once has them begin anew again and again, but not for ever at one instant.
    create(
        &ground,
        "loop",
        json!({
            "initContainers": [container("first", "exit 42")], "containers": [{ "name": "main", "image": "nginx" }],
            "volumes": [{ "name": "work", "emptyDir": {} }],
        }),
    );
    ground.cluster.advance(std::time::Duration::from_secs(10));
    let count = get(&ground, "loop")["status"]["initContainerStatuses"][0]["restartCount"].as_i64().unwrap();
    assert!((5..=11).contains(&count), "{count}");
}

// upstream test: [sig-node] Pod InPlace Resize Init Container [FeatureGate:InPlacePodVerticalScalingInitContainers] [Beta] should support resizing a non-sidecar init container
#[test]
fn a_container_that_initializes_is_resized_while_it_runs() {
    let ground = Ground::with_nodes(1);
    let amounts =
        |cpu: &str| json!({ "requests": { "cpu": cpu, "memory": "64Mi" }, "limits": { "cpu": cpu, "memory": "64Mi" } });
    let first = json!({
        "name": "first", "image": "busybox", "command": ["sleep", "1000"], "resources": amounts("100m"),
        "resizePolicy": [{ "resourceName": "cpu", "restartPolicy": "NotRequired" }],
    });
    create(
        &ground,
        "web",
        json!({
            "initContainers": [first],
            "containers": [{ "name": "main", "image": "nginx", "resources": amounts("100m") }],
        }),
    );
    let wanted = json!({ "spec": { "initContainers": [{ "name": "first", "resources": amounts("200m") }] } });
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    ground.send("PATCH", &format!("{PODS}/web/resize"), &headers, wanted.to_string()).good();
    ground.cluster.advance(std::time::Duration::from_secs(3));
    let status = get(&ground, "web")["status"]["initContainerStatuses"][0].clone();
    assert_eq!(
        (&status["resources"]["limits"]["cpu"], &status["restartCount"]),
        (&json!("200m"), &json!(0)),
        "{status}"
    );
    assert_eq!(status["allocatedResources"]["cpu"], "200m");
}
