//! The examples on the pages of placement codes: each is what `klab explain` prints of such a cluster.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::explain;
use crate::code::{Example, pages};
use crate::report::{Styles, explanation_text};
use crate::verify::tests::fixture::{Cluster, from, running, starting, terminating, unschedulable};
use crate::verify::{Context, DeviceObjects};

/// A Pending pod of Deployment `web`, with a spec, and a node `main-0` beside these.
fn pending(cluster: Cluster, spec: &Value) -> Cluster {
    let mut pod = unschedulable("0/1 nodes are available");
    pod["spec"] = spec.clone();
    cluster
        .deployment_with("web", 1, json!({"spec": {"template": {"spec": spec}}}))
        .replica_set("web", 1)
        .pod("web", &pod)
}

fn node(changes: Value) -> Cluster {
    Cluster::default().node("main", 0, changes)
}

fn plain() -> Cluster {
    node(json!({}))
}

fn cordoned() -> Cluster {
    node(json!({"spec": {"unschedulable": true}}))
}

/// The claim `data`, bound to the volume `pv-a`.
fn bound(mut cluster: Cluster, mode: &str) -> Cluster {
    cluster.snapshot.persistent_volume_claims.push(from(json!({
        "metadata": {"name": "data", "namespace": "default", "uid": "data"},
        "spec": {"accessModes": [mode], "volumeName": "pv-a", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    })));
    cluster.snapshot.persistent_volumes.push(from(json!({
        "metadata": {"name": "pv-a", "labels": {"topology.kubernetes.io/zone": "z9"}},
        "spec": {"accessModes": [mode], "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": "data", "uid": "data"}},
        "status": {"phase": "Bound"},
    })));
    cluster
}

/// Deployment `web` without its pods, as the API server refuses them.
fn refused(why: &str) -> Cluster {
    let failed =
        json!({"type": "ReplicaFailure", "status": "True", "message": format!("pods \"web-1-x\" is forbidden: {why}")});
    plain().deployment_with("web", 2, json!({"status": {"conditions": [failed]}})).replica_set("web", 1)
}

/// A page, the object that it explains, and the cluster.
type Row = (&'static str, &'static str, Cluster);

/// Pods that rules keep from nodes.
fn by_rules() -> Vec<Row> {
    let port = |mut pod: Value| {
        pod["spec"]["containers"] =
            json!([{"name": "main", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 8080}]}]);
        pod
    };
    let cpu = json!({"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "2"}}}]});
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disktype", "operator": "In", "values": ["ssd"]}]}]}}}});
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "minDomains": 2,
        "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}}]});
    let with = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}]}}});
    let gated = json!({"spec": {"schedulingGates": [{"name": "example.com/quota"}]}, "status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}});
    let taint = json!({"spec": {"taints": [{"key": "dedicated", "value": "special", "effect": "NoSchedule"}]}});
    let large = node(json!({"status": {"allocatable": {"cpu": "8"}}}));
    let both = node(taint.clone()).node("extra", 0, json!({"spec": {"unschedulable": true}}));
    vec![
        ("K0501", "web", pending(cordoned(), &json!({}))),
        ("K0502", "pinned-1", plain().pod("pinned", &json!({"spec": {"nodeName": "worker-9"}}))),
        ("K0503", "web", pending(node(taint), &json!({}))),
        ("K0504", "web", pending(plain(), &json!({"nodeSelector": {"disktype": "ssd"}}))),
        ("K0505", "web", pending(plain(), &affinity)),
        ("K0506", "web-2", plain().pod("old", &port(running("main-0"))).pod("web", &port(unschedulable("")))),
        ("K0507", "web", pending(large.running("old", "main-0", 30), &json!({}))),
        ("K0508", "web", pending(plain().running("old", "main-0", 1), &cpu)),
        ("K0512", "web", pending(plain().running("web", "main-0", 1), &spread)),
        ("K0513", "web", pending(plain(), &with)),
        ("K0516", "web-1", plain().pod("web", &gated)),
        ("K0540", "web", pending(both, &json!({}))),
    ]
}

/// Pods that wait for volumes and devices.
fn by_claims() -> Vec<Row> {
    let mounting = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    let mut holder = running("main-0");
    holder["spec"]["volumes"] = mounting["volumes"].clone();
    let zone = node(json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z9"}}}));
    let gpu = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]});
    let mut unclaimed = pending(plain(), &gpu);
    unclaimed.snapshot.devices = Some(DeviceObjects::default());
    let mut claimed = unclaimed.clone();
    claimed.snapshot.devices.iter_mut().for_each(|devices| {
        devices.claims.push(from(json!({"metadata": {"name": "gpu", "namespace": "default", "uid": "gpu"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}})));
    });
    vec![
        ("K0509", "web", pending(plain(), &mounting)),
        ("K0510", "web", pending(bound(plain(), "ReadWriteOnce"), &mounting)),
        ("K0511", "web", pending(bound(zone, "ReadWriteOncePod").pod("old", &holder), &mounting)),
        ("K0514", "web", claimed),
        ("K0515", "web", unclaimed),
    ]
}

/// Pods that have a node.
fn on_nodes() -> Vec<Row> {
    let silent = json!({
        "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    });
    let mut unready = running("main-0");
    unready["status"]["conditions"][0]["status"] = json!("False");
    unready["status"]["containerStatuses"] = json!([{"name": "main", "image": "nginx", "imageID": "", "restartCount": 0,
        "ready": false, "started": true, "state": {"running": {}}}]);
    unready["spec"]["containers"] =
        json!([{"name": "main", "image": "nginx", "readinessProbe": {"httpGet": {"port": 80, "path": "/healthz"}}}]);
    let template = json!({"spec": {"template": {"spec": {"containers": unready["spec"]["containers"]}}}});
    let mut tolerant = unready.clone();
    tolerant["spec"]["tolerations"] =
        json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300}]);
    let mut unpulled = starting("main-0");
    unpulled["status"]["containerStatuses"] = json!([{"name": "main", "image": "ngnix", "imageID": "", "restartCount": 0,
        "ready": false, "state": {"waiting": {"reason": "ErrImagePull", "message": "ngnix: not found"}}}]);
    let mut held = terminating("main-0");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    held["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
    let mut budget = cordoned().deployment("web", 2).running("web", "main-0", 2);
    budget.snapshot.pod_disruption_budgets.push(from(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0, "expectedPods": 2, "desiredHealthy": 2, "currentHealthy": 2},
    })));
    vec![
        ("K0518", "web", node(silent).deployment("web", 1).pod("web", &tolerant)),
        ("K0519", "web", plain().deployment("web", 1).pod("web", &unpulled)),
        ("K0520", "web", plain().deployment_with("web", 1, template).replica_set("web", 1).pod("web", &unready)),
        ("K0521", "web-1", plain().pod("web", &held)),
        ("K0522", "web", budget),
        ("K0523", "web", Cluster::default().pool("main", 2).deployment("web", 4).running("web", "main-0", 4)),
    ]
}

/// Workloads without their pods.
fn without_pods() -> Vec<Row> {
    let quota = "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1";
    vec![
        ("K0530", "web", refused(quota)),
        ("K0531", "web", refused("maximum cpu usage per Container is 500m, but limit is 1")),
        ("K0532", "web", refused("violates PodSecurity \"restricted:latest\": runAsNonRoot != true")),
        ("K0533", "web", refused("no PriorityClass with name high was found")),
        ("K0534", "web", plain().deployment_with("web", 1, json!({"spec": {"paused": true}}))),
    ]
}

#[test]
fn pages_show_what_is_printed() {
    let (mut wrong, mut shown) = (String::new(), BTreeSet::new());
    for (code, target, mut cluster) in [by_rules(), by_claims(), on_nodes(), without_pods()].concat() {
        shown.insert(code);
        cluster.snapshot.taken_at = Some("2026-01-01T00:00:31Z".parse().unwrap());
        let explained = explain(&cluster.snapshot, &Context::default(), target, None).unwrap();
        let printed = format!("$ klab explain {target}\n{}", explanation_text(&explained, Styles::plain()));
        let page = pages().iter().find(|page| page.code == code).unwrap();
        let is_there = matches!(&page.example, Example::Terminal(text) if text.trim() == printed.trim());
        if !is_there || !printed.contains(&format!("({code})")) {
            wrong.push_str(&format!("[{code}]\n{printed}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let all: BTreeSet<&str> =
        pages().iter().map(|page| page.code.as_str()).filter(|code| code.starts_with("K05")).collect();
    assert_eq!(shown, all);
}
