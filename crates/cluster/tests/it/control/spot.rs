//! Spot machines that Azure takes back.

use super::*;

/// Two nodes, of which Azure takes the first one back now: the pods of `web` are on it.
fn taken_back() -> Lab {
    let mut lab = Lab::new(1);
    lab.apply(deployment("web", 2));
    lab.cluster.create(NODES, "", node("node-1", 1), &WriteOptions::by("test")).expect("node");
    lab.plane.run();
    lab
}

fn annotate(lab: &mut Lab, value: Value) {
    lab.change(NODES, "node-0", |node| node["metadata"]["annotations"]["klab.dev/spot"] = value);
}

fn taints(lab: &Lab) -> Vec<Value> {
    lab.get(NODES, "node-0")["spec"]["taints"].as_array().cloned().unwrap_or_default()
}

fn nodes_of(pods: &[Value]) -> Vec<&str> {
    pods.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap_or("none")).collect()
}

#[test]
fn the_notice_comes_first_then_the_drain_then_the_end() {
    let mut lab = taken_back();
    annotate(&mut lab, json!("preempt"));
    let notice = "Preempt Scheduled: Mon, 01 Jun 2026 08:00:30 GMT. DurationInSeconds: -1.  \
                  For more information, see https://aka.ms/aks/scheduledevents.";
    let node = lab.get(NODES, "node-0");
    let have = condition(&node, "VMEventScheduled");
    assert_eq!((&have["status"], &have["message"]), (&json!("True"), &json!(notice)));
    assert_eq!(lab.messages("PreemptScheduled"), [notice]);
    let event = format!("Node condition VMEventScheduled is now: True, reason: VMEventScheduled, message: {notice:?}");
    assert_eq!(lab.messages("VMEventScheduled"), [event]);
    lab.seconds(5);
    assert_eq!((taints(&lab).len(), nodes_of(&lab.pods())), (0, vec!["node-0", "node-0"]), "nothing has begun");

    lab.seconds(1);
    let keys: Vec<Value> = taints(&lab).iter().map(|taint| taint["key"].clone()).collect();
    assert_eq!(keys, ["remediator.kubernetes.azure.com/unschedulable", "node.kubernetes.io/unschedulable"]);
    assert_eq!(lab.messages("Killing").len(), 2, "AKS evicts the pods while the kubelet can still end them");
    lab.seconds(23);
    assert_eq!(condition(&lab.get(NODES, "node-0"), "Ready")["status"], "True");
    let live: Vec<Value> = lab.pods().into_iter().filter(is_ready).collect();
    assert_eq!(nodes_of(&live), ["node-1", "node-1"]);

    lab.seconds(1 + 49);
    assert_eq!(condition(&lab.get(NODES, "node-0"), "Ready")["status"], "True", "its lease is not overdue yet");
    lab.seconds(2);
    assert_eq!(condition(&lab.get(NODES, "node-0"), "Ready")["status"], "Unknown");
    lab.seconds(5);
    assert!(lab.get(NODES, "node-0").is_null());
    assert_eq!(lab.messages("DeletingNode"), ["Deleting node node-0 because it does not exist in the cloud provider"]);
    assert_eq!(lab.running(), 2);
}

#[test]
fn pods_that_a_budget_keeps_end_with_the_machine() {
    let mut lab = taken_back();
    lab.apply(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } },
    }));
    annotate(&mut lab, json!("preempt"));
    lab.seconds(60);
    assert_eq!(nodes_of(&lab.pods()), ["node-0", "node-0"], "the budget forbids each eviction");
    lab.seconds(30);
    assert!(lab.get(NODES, "node-0").is_null());
    lab.seconds(45);
    assert_eq!(nodes_of(&lab.pods()), ["node-1", "node-1"]);
    assert_eq!(lab.running(), 2);
}

#[test]
fn a_notice_that_is_withdrawn_leaves_the_node_as_it_was() {
    let mut lab = taken_back();
    annotate(&mut lab, json!("preempt"));
    lab.seconds(10);
    annotate(&mut lab, Value::Null);
    lab.seconds(120);
    let node = lab.get(NODES, "node-0");
    assert_eq!(condition(&node, "VMEventScheduled")["reason"], "NoVMEventScheduled");
    assert_eq!((taints(&lab).len(), &node["spec"]["unschedulable"]), (0, &Value::Null));
    assert_eq!(condition(&node, "Ready")["status"], "True");
}

#[test]
fn another_value_and_a_notice_of_others_change_nothing() {
    let mut lab = taken_back();
    annotate(&mut lab, json!("no"));
    let by_hand =
        json!([{ "type": "VMEventScheduled", "status": "True", "lastTransitionTime": "2026-06-01T08:00:00Z" }]);
    lab.cluster
        .modify(NODES, Part::Status, "", "node-0", &WriteOptions::by("test"), |node| {
            let conditions = node["status"]["conditions"].as_array_mut().expect("conditions");
            conditions.extend(by_hand.as_array().expect("one").clone());
        })
        .expect("posted");
    lab.seconds(120);
    assert_eq!(condition(&lab.get(NODES, "node-0"), "VMEventScheduled")["status"], "True");
    assert_eq!((taints(&lab).len(), nodes_of(&lab.pods())), (0, vec!["node-0", "node-0"]));
}
