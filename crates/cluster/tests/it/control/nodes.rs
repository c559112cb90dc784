//! Nodes: registration, taints, heartbeats, evictions.

use super::*;

fn taints(lab: &Lab, node: &str) -> Vec<String> {
    let mut taints: Vec<_> = lab.get(NODES, node)["spec"]["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|taint| format!("{}:{}", taint["key"].as_str().unwrap_or("?"), taint["effect"].as_str().unwrap_or("?")))
        .collect();
    taints.sort();
    taints
}

fn bare_pod(name: &str, node: &str, tolerations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "nodeName": node, "containers": [{ "name": "main", "image": "nginx:1.27" }],
            "terminationGracePeriodSeconds": 30, "tolerations": tolerations,
        },
    })
}

fn patient() -> Value {
    json!(["not-ready", "unreachable"].map(|key| json!({
        "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
        "tolerationSeconds": 300,
    })))
}

#[test]
fn are_registered_with_a_lease_and_an_event() {
    let lab = Lab::new(1);
    let node = lab.get(NODES, "node-0");
    assert_eq!(node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"], "0");
    assert_eq!(condition(&node, "Ready")["lastHeartbeatTime"], "2026-06-01T08:00:00Z");
    let lease = lab.cluster.get(LEASES, "kube-node-lease", "node-0").expect("a lease").value();
    assert_eq!(lease["spec"]["holderIdentity"], "node-0");
    assert_eq!(lab.messages("RegisteredNode"), ["Node node-0 event: Registered Node node-0 in Controller"]);
}

#[test]
fn cordoned_ones_are_tainted_until_uncordoned() {
    let mut lab = Lab::new(1);
    lab.change(NODES, "node-0", |node| {
        node["spec"]["unschedulable"] = json!(true);
        node["spec"]["taints"] = json!([{ "key": "own", "effect": "NoSchedule" }]);
    });
    assert_eq!(taints(&lab, "node-0"), ["node.kubernetes.io/unschedulable:NoSchedule", "own:NoSchedule"]);
    lab.change(NODES, "node-0", |node| node["spec"]["unschedulable"] = Value::Null);
    assert_eq!(taints(&lab, "node-0"), ["own:NoSchedule"]);
}

#[test]
fn conditions_become_taints() {
    let mut lab = Lab::new(2);
    let set = |lab: &mut Lab, kind: &str, status: &str| {
        lab.cluster
            .modify(NODES, Part::Status, "", "node-0", &WriteOptions::client("test"), |node| {
                let conditions = node["status"]["conditions"].as_array_mut().expect("conditions");
                match conditions.iter_mut().find(|condition| condition["type"] == kind) {
                    Some(have) => have["status"] = json!(status),
                    None => conditions.push(json!({ "type": kind, "status": status })),
                }
            })
            .expect("patched");
        lab.plane.run();
    };
    for (kind, key) in [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ] {
        set(&mut lab, kind, "True");
        assert_eq!(taints(&lab, "node-0"), [format!("node.kubernetes.io/{key}:NoSchedule")]);
        set(&mut lab, kind, "False");
        assert!(taints(&lab, "node-0").is_empty());
    }
    set(&mut lab, "Ready", "False");
    lab.seconds(1);
    assert_eq!(
        taints(&lab, "node-0"),
        ["node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/not-ready:NoSchedule"]
    );
}

#[test]
fn a_stopped_one_is_unknown_after_50_seconds_and_its_pods_leave_300_later() {
    let mut lab = Lab::new(2);
    lab.apply(bare_pod("pinned", "node-0", patient()));
    lab.apply(bare_pod("stays", "node-0", json!([{ "operator": "Exists" }])));
    assert_eq!(lab.running(), 2);
    lab.heartbeat("node-0", json!("stopped"));
    lab.seconds(49);
    assert_eq!(condition(&lab.get(NODES, "node-0"), "Ready")["status"], "True");
    lab.seconds(2);
    let node = lab.get(NODES, "node-0");
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        let have = condition(&node, kind);
        assert_eq!((have["status"].as_str(), have["reason"].as_str()), (Some("Unknown"), Some("NodeStatusUnknown")));
    }
    assert_eq!(
        taints(&lab, "node-0"),
        ["node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"]
    );
    assert_eq!(lab.running(), 0);
    assert_eq!(lab.messages("NodeNotReady").len(), 3, "one for the node, one for each pod");
    lab.seconds(298);
    assert!(lab.get(PODS, "pinned")["metadata"]["deletionTimestamp"].is_null());
    lab.seconds(2);
    let pinned = lab.get(PODS, "pinned");
    assert!(!pinned["metadata"]["deletionTimestamp"].is_null(), "no kubelet is there to end it");
    assert_eq!(condition(&pinned, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    assert!(lab.get(PODS, "stays")["metadata"]["deletionTimestamp"].is_null());
    lab.heartbeat("node-0", Value::Null);
    lab.seconds(1);
    assert!(taints(&lab, "node-0").is_empty());
    assert!(lab.get(PODS, "pinned").is_null());
    assert_eq!(lab.running(), 1);
}

/// Nodes whose pods are told to leave.
fn leaving(lab: &Lab, nodes: usize) -> Vec<usize> {
    let unreachable = "node.kubernetes.io/unreachable:NoExecute".to_owned();
    (0..nodes).filter(|number| taints(lab, &format!("node-{number}")).contains(&unreachable)).collect()
}

#[test]
fn the_nodes_of_a_zone_lose_their_pods_one_after_the_other() {
    let mut lab = Lab::new(9);
    // Of three zones in turn: 0, 3 and 6 are in one, 1 is in another.
    for number in [0, 1, 3] {
        lab.heartbeat(&format!("node-{number}"), json!("stopped"));
    }
    lab.seconds(51);
    assert_eq!(leaving(&lab, 9), [0, 1]);
    lab.seconds(10);
    assert_eq!(leaving(&lab, 9), [0, 1, 3]);
}

#[test]
fn a_small_zone_of_which_most_is_gone_keeps_its_pods() {
    let mut lab = Lab::new(12);
    for number in [0, 3, 6] {
        lab.heartbeat(&format!("node-{number}"), json!("stopped"));
    }
    lab.seconds(300);
    assert_eq!(leaving(&lab, 12), Vec::<usize>::new());
    lab.heartbeat("node-6", Value::Null);
    lab.seconds(12);
    assert_eq!(leaving(&lab, 12), [0, 3]);
}

#[test]
fn nothing_leaves_while_no_node_answers() {
    let mut lab = Lab::new(2);
    lab.apply(bare_pod("pinned", "node-0", patient()));
    for number in [0, 1] {
        lab.heartbeat(&format!("node-{number}"), json!("stopped"));
    }
    lab.seconds(600);
    assert_eq!(leaving(&lab, 2), Vec::<usize>::new());
    assert_eq!(taints(&lab, "node-0"), ["node.kubernetes.io/unreachable:NoSchedule"]);
    assert!(lab.get(PODS, "pinned")["metadata"]["deletionTimestamp"].is_null());
    lab.heartbeat("node-1", Value::Null);
    lab.seconds(10);
    assert_eq!(leaving(&lab, 2), [0]);
}

#[test]
fn a_restart_remembers_what_is_stopped_and_how_long_pods_have() {
    let mut lab = Lab::new(2);
    lab.apply(bare_pod("pinned", "node-0", patient()));
    lab.heartbeat("node-0", json!("stopped"));
    lab.seconds(100);
    lab.plane = ControlPlane::new(Arc::clone(&lab.cluster), Settings::default());
    lab.seconds(249);
    assert!(lab.get(PODS, "pinned")["metadata"]["deletionTimestamp"].is_null());
    lab.seconds(3);
    assert!(!lab.get(PODS, "pinned")["metadata"]["deletionTimestamp"].is_null());
}

#[test]
fn no_execute_taints_evict_by_toleration() {
    let mut lab = Lab::new(1);
    let own = |seconds: Value| {
        let mut toleration = json!({ "key": "maintenance", "operator": "Exists", "effect": "NoExecute" });
        if !seconds.is_null() {
            toleration["tolerationSeconds"] = seconds;
        }
        json!([toleration])
    };
    lab.apply(bare_pod("intolerant", "node-0", json!([])));
    lab.apply(bare_pod("fiveseconds", "node-0", own(json!(5))));
    lab.apply(bare_pod("forever", "node-0", own(Value::Null)));
    lab.change(NODES, "node-0", |node| {
        node["spec"]["taints"] = json!([{ "key": "maintenance", "value": "now", "effect": "NoExecute" }]);
    });
    let names = |lab: &Lab| -> Vec<String> {
        lab.pods().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&lab), ["fiveseconds", "forever"]);
    lab.seconds(4);
    assert_eq!(names(&lab), ["fiveseconds", "forever"]);
    lab.seconds(1);
    assert_eq!(names(&lab), ["forever"]);
    assert_eq!(
        lab.messages("TaintManagerEviction"),
        ["Marking for deletion Pod default/fiveseconds", "Marking for deletion Pod default/intolerant"]
    );
}

#[test]
fn taking_the_taint_away_in_time_cancels_the_eviction() {
    let mut lab = Lab::new(1);
    lab.apply(bare_pod(
        "p",
        "node-0",
        json!([
            { "key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60 },
        ]),
    ));
    lab.change(NODES, "node-0", |node| {
        node["spec"]["taints"] = json!([{ "key": "maintenance", "effect": "NoExecute" }]);
    });
    lab.seconds(30);
    lab.change(NODES, "node-0", |node| node["spec"]["taints"] = json!([]));
    lab.seconds(60);
    assert_eq!(lab.running(), 1);
    assert_eq!(lab.messages("TaintManagerEviction"), ["Cancelling deletion of Pod default/p"]);
}

#[test]
fn pods_of_a_deleted_one_are_collected() {
    let mut lab = Lab::new(2);
    lab.apply(bare_pod("pinned", "node-0", json!([])));
    lab.delete(NODES, "node-0", Propagation::Background);
    assert!(lab.cluster.get(LEASES, "kube-node-lease", "node-0").is_none());
    lab.seconds(39);
    assert_eq!(lab.pods().len(), 1);
    lab.seconds(2);
    assert!(lab.pods().is_empty());
}

// upstream: pkg/controller/podgc/gc_controller_test.go TestTerminatingOnOutOfServiceNode (v1.36)
#[test]
fn pods_of_one_that_is_out_of_service_end_without_it() {
    let mut lab = Lab::new(1);
    lab.apply(bare_pod("web", "node-0", patient()));
    lab.seconds(5);
    lab.heartbeat("node-0", json!("stopped"));
    lab.seconds(60);
    lab.delete(PODS, "web", Propagation::Background);
    lab.seconds(60);
    assert!(lab.get(PODS, "web")["metadata"]["deletionTimestamp"].is_string(), "nobody ends it");
    lab.change(NODES, "node-0", |node| {
        let taint =
            json!({ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" });
        node["spec"]["taints"].as_array_mut().expect("taints").push(taint);
    });
    lab.seconds(21);
    assert_eq!(lab.get(PODS, "web"), Value::Null);
}
