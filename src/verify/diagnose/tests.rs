//! What failed checks look like to people, causes and fixes included.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::report::{Styles, human};
use crate::spec::{Check, Condition, NodeSet, Subject};
use crate::verify::fixture::*;
use crate::verify::{Context, diagnose, evaluate};

/// The report on checks after a look at a cluster of a lab: pools `extra` (line 5) and `main` (line 8), Deployment `web`
/// (line 40).
fn said(checks: &[Check], cluster: &Cluster) -> String {
    let mut snapshot = cluster.snapshot.clone();
    snapshot.taken_at = Some("2026-01-01T00:00:31Z".parse().unwrap());
    let pools = [lab_pool("extra", 1, 5, &[("workload", "extra")]), lab_pool("main", 2, 8, &[])];
    let workloads = [lab_workload("web", 2, 40)];
    let context = Context { lab: "test", pools: &pools, workloads: &workloads, provider: None };
    let mut report = evaluate(checks, &snapshot, &context);
    diagnose(&mut report, checks, &snapshot, &context);
    human(&report, Styles::plain())
}

fn cluster(extra: Value) -> Cluster {
    let mut changes = json!({"metadata": {"labels": {"workload": "extra"}}});
    json_patch::merge(&mut changes, &extra);
    Cluster::default().node("extra", 0, changes).pool("main", 2).deployment("web", 2)
}

fn with(mut pod: Value, spec: &Value) -> Value {
    json_patch::merge(&mut pod, &json!({ "spec": spec }));
    pod
}

fn on_extra() -> [Check; 1] {
    [check(workload("web"), [Condition::On(pool("extra")), running_count(2)])]
}

#[test]
fn pending_pods_of_a_tainted_pool() {
    let tainted = json!({"spec": {"taints": [{"key": "dedicated", "value": "special", "effect": "NoSchedule"}]}});
    let pod = with(unschedulable("0/3 nodes are available"), &json!({"nodeSelector": {"workload": "extra"}}));
    let cluster = cluster(tainted).pod("web", &pod).pod("web", &pod);
    assert_snapshot!(said(&on_extra(), &cluster), @r#"
    ✗ failed   web: on pool:extra, 2 running → 0 of 2 on pool:extra, 2 Pending; 0 running, wanted 2 (2 Pending)
        web-1, web-2  Pending for 31.0 s, fits on none of 3 nodes:
          extra-0         taint dedicated=special:NoSchedule is not tolerated
          main-0, main-1  no label workload, nodeSelector asks for workload=extra
        fix: add `tolerations = ["dedicated=special:NoSchedule"]` to `[workload.web]` (labs/x.toml:40)
         or: remove the taint dedicated=special:NoSchedule from pool extra: `kubectl taint nodes -l agentpool=extra dedicated=special:NoSchedule-`
        at labs/x.toml:10
    "#);
}

#[test]
fn pods_on_the_wrong_nodes() {
    let cluster = cluster(json!({})).running("web", "main-0", 1).running("web", "extra-0", 1);
    assert_snapshot!(said(&on_extra(), &cluster), @r#"
    ✗ failed   web: on pool:extra, 2 running → 1 of 2 on pool:extra, 1 on main
        web-1  runs on main-0 (pool main)
        fix: add `workload = "extra"` to the node selector of `[workload.web]` (labs/x.toml:40)
        at labs/x.toml:10
    "#);
    // With a taint in the way it takes a toleration as well.
    let tainted = json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}});
    let cluster = self::cluster(tainted).running("web", "main-0", 2);
    assert_snapshot!(said(&on_extra(), &cluster), @r#"
    ✗ failed   web: on pool:extra, 2 running → 0 of 2 on pool:extra, 2 on main
        web-1, web-2  runs on main-0 (pool main)
        fix: add `workload = "extra"` to the node selector of `[workload.web]` and add `tolerations = ["gpu:NoSchedule"]` to `[workload.web]` (labs/x.toml:40)
         or: add `workload = "extra"` to the node selector of `[workload.web]` and remove the taint gpu:NoSchedule from pool extra (labs/x.toml:40)
        at labs/x.toml:10
    "#);
}

#[test]
fn too_little_room() {
    let big = |pod: Value| {
        with(
            pod,
            &json!({"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "1500m"}}}], "nodeSelector": {"workload": "extra"}}),
        )
    };
    let cluster = cluster(json!({})).pod("web", &big(running("extra-0"))).pod("web", &big(unschedulable("")));
    assert_snapshot!(said(&on_extra(), &cluster), @"
    ✗ failed   web: on pool:extra, 2 running → 1 of 2 on pool:extra, 1 Pending; 1 running, wanted 2 (1 Pending)
        web-2  Pending for 31.0 s, fits on none of 3 nodes:
          extra-0         1.5 cpu requested, 0.5 of 2 free
          main-0, main-1  no label workload, nodeSelector asks for workload=extra
        fix: set `pool.extra.nodes = 2` (from 1) (labs/x.toml:6)
         or: lower `requests.cpu` of `[workload.web]` from 1.5 to `500m` (labs/x.toml:42)
        at labs/x.toml:10
    ");
}

#[test]
fn containers_that_do_not_start() {
    let pulling = json!({"spec": {"nodeName": "extra-0"}, "status": {"containerStatuses": [{
        "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"ngnix\""}}}]}});
    let cluster = cluster(json!({})).pod("web", &pulling).pod("web", &pulling);
    assert_snapshot!(said(&on_extra(), &cluster), @r#"
    ✗ failed   web: on pool:extra, 2 running → 0 of 2 on pool:extra, 2 ImagePullBackOff; 0 running, wanted 2 (2 ImagePullBackOff)
        web-1, web-2  ImagePullBackOff on extra-0 (pool extra): Back-off pulling image "ngnix"
        at labs/x.toml:10
    "#);
}

#[test]
fn pods_that_run_but_are_to_stay_pending() {
    let checks = [check(workload("web"), [pending(2, Some("untolerated taint"))])];
    let cluster = cluster(json!({})).running("web", "extra-0", 1).unschedulable(
        "web",
        1,
        "0/3 nodes are available: Insufficient cpu",
    );
    assert_snapshot!(said(&checks, &cluster), @"
    ✗ failed   web: 2 Pending, untolerated taint → 1 Pending, 0 of them with `untolerated taint`, wanted 2
        web-2  Pending for 31.0 s, would fit on extra-0, main-0 and main-1 now
        web-1  runs on extra-0 (pool extra), but is to stay Pending
        at labs/x.toml:10
    ");
}

#[test]
fn more_pods_than_the_workload_has() {
    let checks = [check(workload("web"), [running_count(4)])];
    let cluster = cluster(json!({})).running("web", "extra-0", 1).running("web", "main-0", 1);
    assert_snapshot!(said(&checks, &cluster), @"
    ✗ failed   web: 4 running → 2 running, wanted 4
        fix: set `workload.web.replicas = 4` (from 2) (labs/x.toml:41)
        at labs/x.toml:10
    ");
}

#[test]
fn nodes_and_missing_subjects() {
    let taint =
        serde_json::from_value(json!({"key": "dedicated", "value": "special", "effect": "NoSchedule"})).unwrap();
    let checks = [
        check(Subject::Nodes(pool("extra")), [Condition::Tainted(taint)]),
        check(Subject::Nodes(NodeSet::Node("main-0".into())), [Condition::Schedulable(false)]),
        check(workload("wep"), [running_count(1)]),
    ];
    let cluster = cluster(json!({})).running("web", "extra-0", 2);
    assert_snapshot!(said(&checks, &cluster), @"
    ✗ failed   nodes pool:extra: tainted dedicated=special:NoSchedule → 0 of 1 tainted dedicated=special:NoSchedule, not extra-0
        fix: taint 1 node: `kubectl taint nodes -l agentpool=extra dedicated=special:NoSchedule --overwrite`
        at labs/x.toml:10
    ✗ failed   nodes node:main-0: cordoned → 0 of 1 cordoned, not main-0
        fix: cordon 1 node: `kubectl cordon main-0`
        at labs/x.toml:10
    ✗ failed   wep: 1 running → no workload wep in the cluster; there is web
        at labs/x.toml:10
    ");
}
