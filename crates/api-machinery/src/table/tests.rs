//! The cells of each kind, as kubectl prints them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::resource::{self, ResourceId};
use super::Row;
use crate::registry;

fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

fn row(resource: ResourceId, object: &Value) -> Vec<String> {
    (registry::of(resource).cells)(&Row { object, now: now() })
        .into_iter()
        .map(|cell| match cell {
            Value::String(text) => text,
            other => other.to_string(),
        })
        .collect()
}

fn pod_status(spec: &Value, status: &Value, deleting: bool) -> (String, String, String) {
    let mut object = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
    if deleting {
        object["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:30Z");
    }
    let row = row(resource::PODS, &object);
    (row[1].clone(), row[2].clone(), row[3].clone())
}

#[test]
fn the_status_cell_of_pods() {
    let one = json!({"containers": [{"name": "a"}]});
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let with_init = json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]});
    let sidecar = json!({"initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}]});
    let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
    let running = json!({"running": {"startedAt": "2026-11-21T09:59:00Z"}});
    let ended = |reason: &str, code: i64| json!({"terminated": {"reason": reason, "exitCode": code}});
    for (spec, status, deleting, expected) in [
        (&one, json!({"phase": "Pending"}), false, ("0/1", "Pending", "0")),
        (
            &one,
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            false,
            ("0/1", "SchedulingGated", "0"),
        ),
        (
            &one,
            json!({"phase": "Pending", "containerStatuses": [{"name": "a", "state": waiting("ContainerCreating")}]}),
            false,
            ("0/1", "ContainerCreating", "0"),
        ),
        (
            &one,
            json!({"phase": "Running", "containerStatuses": [{"name": "a", "ready": true, "restartCount": 3,
                "state": running, "lastState": {"terminated": {"finishedAt": "2026-11-21T09:55:00Z"}}}]}),
            false,
            ("1/1", "Running", "3 (5m ago)"),
        ),
        (
            &one,
            json!({"phase": "Running", "containerStatuses": [{"name": "a", "ready": true, "state": running}]}),
            true,
            ("1/1", "Terminating", "0"),
        ),
        (
            &one,
            json!({"phase": "Succeeded", "containerStatuses": [{"name": "a", "state": ended("Completed", 0)}]}),
            true,
            ("0/1", "Completed", "0"),
        ),
        (
            &two,
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [
                {"name": "a", "state": ended("Completed", 0)}, {"name": "b", "ready": true, "state": running}]}),
            false,
            ("1/2", "NotReady", "0"),
        ),
        (&one, json!({"phase": "Failed", "reason": "Evicted"}), false, ("0/1", "Evicted", "0")),
        (
            &with_init,
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": waiting("PodInitializing")}]}),
            false,
            ("0/1", "Init:0/1", "0"),
        ),
        (
            &with_init,
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": ended("Error", 1)}]}),
            false,
            ("0/1", "Init:Error", "0"),
        ),
        (
            &sidecar,
            json!({"phase": "Running",
                "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "state": running}],
                "containerStatuses": [{"name": "a", "ready": true, "state": running}]}),
            false,
            ("2/2", "Running", "0"),
        ),
        (
            &one,
            json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": ended("", 3)}]}),
            false,
            ("0/1", "ExitCode:3", "0"),
        ),
    ] {
        let (ready, reason, restarts) = pod_status(spec, &status, deleting);
        assert_eq!((ready.as_str(), reason.as_str(), restarts.as_str()), expected, "{status}");
    }
}

#[test]
fn nodes() {
    let node = json!({
        "metadata": {"name": "n", "creationTimestamp": "2026-11-21T09:59:00Z",
            "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "agent"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "nodeInfo": {"kubeletVersion": "v1.36.2"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    });
    assert_eq!(
        row(resource::NODES, &node)[..7],
        ["n", "NotReady,SchedulingDisabled", "agent,worker", "60s", "v1.36.2", "10.0.0.1", "<none>"]
    );
}

#[test]
fn services_and_budgets() {
    let service = json!({
        "metadata": {"name": "s"},
        "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.9", "selector": {"b": "2", "a": "1"},
            "ports": [{"port": 80, "nodePort": 30123, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]},
    });
    assert_eq!(
        row(resource::SERVICES, &service),
        ["s", "LoadBalancer", "10.0.0.9", "<pending>", "80:30123/TCP,53/UDP", "<unknown>", "a=1,b=2"]
    );
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"maxUnavailable": "30%"}, "status": {"disruptionsAllowed": 1}});
    assert_eq!(row(resource::POD_DISRUPTION_BUDGETS, &budget), ["b", "N/A", "30%", "1", "<unknown>"]);
}

#[test]
fn quotas_are_sorted_and_split() {
    let quota = json!({"metadata": {"name": "q"}, "status": {
        "hard": {"requests.cpu": "1", "limits.cpu": "2", "pods": "4"}, "used": {"pods": "1", "limits.cpu": "500m"}}});
    assert_eq!(row(resource::RESOURCE_QUOTAS, &quota)[1..3], ["pods: 1/4, requests.cpu: 0/1", "limits.cpu: 500m/2"]);
}

#[test]
fn autoscaler_targets() {
    let autoscaler = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 6, "minReplicas": 2,
        "scaleTargetRef": {"kind": "Deployment", "name": "web"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 70}}}]}});
    assert_eq!(
        row(resource::HORIZONTAL_POD_AUTOSCALERS, &autoscaler),
        ["h", "Deployment/web", "cpu: <unknown>/70%", "2", "6", "0", "<unknown>"]
    );
}
