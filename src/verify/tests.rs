//! Tables: every condition held, not yet, impossible, and never vacuous.

use std::time::Duration;

use serde_json::json;

use super::fixture::*;
use super::*;
use crate::spec::{Check, Condition, Count, NodeSet, ObjectRef, Subject};

const SELECTOR: &str = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";

/// `held`, or `not-yet` or `impossible` with why; then what is true now.
fn look(check: &Check, cluster: &Cluster) -> (String, String) {
    let report = evaluate(std::slice::from_ref(check), &cluster.snapshot, &Context::default());
    let result = &report.checks[0];
    let verdict = match &result.verdict {
        Verdict::Held => "held".to_owned(),
        Verdict::NotYet { waiting_for } => format!("not yet: {waiting_for}"),
        Verdict::Impossible { because } => format!("impossible: {because}"),
    };
    (verdict, result.now())
}

fn expect(rows: impl IntoIterator<Item = (Condition, Cluster, &'static str, &'static str)>) {
    for (condition, cluster, verdict, now) in rows {
        let check = check(workload("web"), [condition.clone()]);
        let seen = look(&check, &cluster);
        assert_eq!((seen.0.as_str(), seen.1.as_str()), (verdict, now), "{condition:?}");
    }
}

/// Pools `extra` (1 node) and `main` (2 nodes), a Deployment `web`.
fn cluster(replicas: u32) -> Cluster {
    Cluster::default().pool("extra", 1).pool("main", 2).deployment("web", replicas)
}

fn mixed() -> Cluster {
    cluster(2).running("web", "extra-0", 1).running("web", "main-0", 1)
}

#[test]
fn on() {
    let on = || Condition::On(pool("extra"));
    expect([
        (on(), cluster(2).running("web", "extra-0", 2), "held", "2 of 2 on pool:extra"),
        (on(), mixed(), "impossible: 1 pod is not on pool:extra", "1 of 2 on pool:extra, 1 on main"),
        (
            on(),
            cluster(2).running("web", "extra-0", 1).pod("web", &starting("extra-0")),
            "not yet: 1 pod is starting",
            "1 of 2 on pool:extra, 1 starting",
        ),
        (
            on(),
            cluster(1).pod("web", &starting("main-0")),
            "impossible: 1 pod is not on pool:extra",
            "0 of 1 on pool:extra, 1 starting",
        ),
        (
            on(),
            cluster(1).pod("web", &json!({})),
            "not yet: 1 pod is starting",
            "0 of 1 on pool:extra, 1 not scheduled yet",
        ),
        (
            on(),
            cluster(1).unschedulable("web", 1, SELECTOR),
            "impossible: 1 pod is unschedulable",
            "0 of 1 on pool:extra, 1 Pending",
        ),
        (
            Condition::On(pool("gone")),
            cluster(1).running("web", "main-0", 1),
            "impossible: no node is in pool:gone",
            "0 of 1 on pool:gone (no node is in pool:gone), 1 on main",
        ),
        (
            Condition::On(NodeSet::Node("main-1".into())),
            cluster(1).running("web", "main-1", 1),
            "held",
            "1 of 1 on node:main-1",
        ),
    ]);
}

#[test]
fn not_on() {
    let not_on = || Condition::NotOn(pool("extra"));
    expect([
        (not_on(), cluster(2).running("web", "main-0", 2), "held", "none of 2 on pool:extra: 2 on main"),
        (not_on(), mixed(), "impossible: 1 of 2 on pool:extra", "1 of 2 on pool:extra"),
        (
            not_on(),
            cluster(1).pod("web", &starting("extra-0")),
            "impossible: 1 of 1 on pool:extra",
            "1 of 1 on pool:extra",
        ),
        (
            not_on(),
            cluster(1).pod("web", &json!({})),
            "not yet: 1 pod is starting",
            "none of 1 on pool:extra: 1 not scheduled yet",
        ),
        (not_on(), cluster(1).unschedulable("web", 1, SELECTOR), "held", "none of 1 on pool:extra: 1 Pending"),
        (
            Condition::NotOn(NodeSet::Node("mian-0".into())),
            cluster(1).running("web", "main-1", 1),
            "impossible: no node is in node:mian-0, so this could not fail",
            "no node is in node:mian-0, so this could not fail",
        ),
    ]);
}

#[test]
fn placement_by_pool() {
    expect([
        (placement([("extra", 1), ("main", 1)]), mixed(), "held", "extra 1, main 1"),
        (
            placement([("extra", 2), ("main", 0)]),
            mixed(),
            "impossible: 1 on extra, wanted 2",
            "extra 1 (wanted 2), main 1 (wanted 0)",
        ),
        (
            placement([("extra", 2)]),
            cluster(2).running("web", "extra-0", 1).pod("web", &starting("extra-0")),
            "not yet: 1 of 2 on extra, more are coming",
            "extra 1 (wanted 2), 1 starting",
        ),
        (
            placement([("extra", 2)]),
            cluster(2).running("web", "extra-0", 1).unschedulable("web", 1, SELECTOR),
            "impossible: 1 on extra, wanted 2",
            "extra 1 (wanted 2), 1 Pending",
        ),
        // Two pods too many, and the Deployment is about to take them away.
        (
            placement([("extra", 1)]),
            cluster(1).running("web", "extra-0", 3),
            "not yet: 3 on extra, some are going",
            "extra 3 (wanted 1)",
        ),
    ]);
}

#[test]
fn running_pods() {
    let crashing = json!({"spec": {"nodeName": "main-0"}, "status": {"phase": "Running", "containerStatuses": [
        {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
    expect([
        (running_count(2), mixed(), "held", "2 running"),
        (
            running_count(2),
            cluster(2).running("web", "main-0", 1),
            "not yet: 1 of 2 running, more are coming",
            "1 running, wanted 2",
        ),
        (
            running_count(2),
            cluster(2)
                .running("web", "main-0", 1)
                .pod("web", &json!({"spec": {"nodeName": "main-0"}, "status": {"phase": "Running"}})),
            "not yet: 1 of 2 running, more are coming",
            "1 running, wanted 2 (1 not ready)",
        ),
        (
            running_count(2),
            cluster(1).running("web", "main-0", 1),
            "impossible: 1 running, wanted 2",
            "1 running, wanted 2",
        ),
        (
            running_count(2),
            cluster(2).running("web", "main-0", 1).unschedulable("web", 1, SELECTOR),
            "impossible: 1 pod is unschedulable",
            "1 running, wanted 2 (1 Pending)",
        ),
        (
            running_count(4),
            cluster(4).running("web", "main-0", 1).pod("web", &starting("main-0")).unschedulable("web", 2, SELECTOR),
            "impossible: 2 pods are unschedulable",
            "1 running, wanted 4 (2 Pending, 1 starting)",
        ),
        (
            running_count(1),
            cluster(1).pod("web", &crashing),
            "impossible: 1 pod is in CrashLoopBackOff",
            "0 running, wanted 1 (1 CrashLoopBackOff)",
        ),
        (running_count(1), mixed(), "impossible: 2 running, wanted 1", "2 running, wanted 1"),
        (running_count(0), cluster(0), "held", "0 running"),
        (
            running_count(1),
            cluster(0),
            "impossible: no pod: deployment/web wants none",
            "no pod: deployment/web wants none",
        ),
        (Condition::Running(Count { min: 1, max: Some(3) }), mixed(), "held", "2 running"),
    ]);
}

#[test]
fn pending_pods() {
    let gated = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates"}]}});
    let tainted = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector.";
    expect([
        (pending(2, None), cluster(2).unschedulable("web", 2, SELECTOR), "held", "2 Pending"),
        (pending(1, Some("Untolerated taint")), cluster(1).unschedulable("web", 1, tainted), "held", "1 Pending"),
        (
            pending(2, Some("untolerated taint")),
            cluster(2).unschedulable("web", 1, tainted).unschedulable("web", 1, SELECTOR),
            "impossible: 1 Pending, wanted 2",
            "2 Pending, 1 of them with `untolerated taint`, wanted 2",
        ),
        (
            pending(1, None),
            cluster(1).running("web", "main-0", 1),
            "impossible: 0 Pending, wanted 1",
            "0 Pending, wanted 1 (1 running)",
        ),
        (
            pending(1, None),
            cluster(1).pod("web", &json!({})),
            "not yet: 0 of 1 Pending, more are coming",
            "0 Pending, wanted 1 (1 not scheduled yet)",
        ),
        // Bound and not started is phase Pending too, but no fault of the scheduler's.
        (
            pending(1, None),
            cluster(1).pod("web", &starting("main-0")),
            "impossible: 0 Pending, wanted 1",
            "0 Pending, wanted 1 (1 starting)",
        ),
        (pending(1, None), cluster(1).pod("web", &gated), "impossible: 0 Pending, wanted 1", "0 Pending, wanted 1"),
        (pending(1, Some("gates")), cluster(1).pod("web", &gated), "held", "1 Pending"),
        (pending(0, None), cluster(1).running("web", "main-0", 1), "held", "0 Pending (1 running)"),
    ]);
}

#[test]
fn succeeded_pods() {
    let done = json!({"spec": {"nodeName": "main-0"}, "status": {"phase": "Succeeded"}});
    let failed = json!({"spec": {"nodeName": "main-0"}, "status": {"phase": "Failed", "reason": "Evicted"}});
    let count = || Condition::Succeeded(Count::exactly(1));
    let bare = || Cluster::default().pool("main", 1);
    for (cluster, verdict, now) in [
        (bare().pod("web", &done), "held", "1 succeeded"),
        (
            bare().running("web", "main-0", 1),
            "not yet: 0 of 1 succeeded, more are coming",
            "0 succeeded, wanted 1 (1 running)",
        ),
        (bare().pod("web", &failed), "impossible: 0 succeeded, wanted 1", "0 succeeded, wanted 1 (1 failed (Evicted))"),
    ] {
        let mut cluster = cluster;
        for pod in &mut cluster.snapshot.pods {
            let mut renamed = (**pod).clone();
            renamed.metadata.name = Some("web".to_owned());
            *pod = renamed.into();
        }
        let seen = look(&check(workload("web"), [count()]), &cluster);
        assert_eq!((seen.0.as_str(), seen.1.as_str()), (verdict, now));
    }
}

#[test]
fn a_change_that_its_controller_has_not_seen_decides_nothing() {
    let stale = Cluster::default()
        .pool("extra", 1)
        .deployment_with("web", 1, json!({"metadata": {"generation": 2}}))
        .replica_set("web", 1)
        .running("web", "extra-0", 1);
    let waiting = "not yet: the latest change of deployment/web has not been seen by its controller";
    expect([
        (
            running_count(1),
            stale.clone(),
            waiting,
            "1 running, but the latest change of deployment/web has not been seen by its controller",
        ),
        (
            Condition::On(pool("gone")),
            stale.clone(),
            waiting,
            "0 of 1 on pool:gone (no node is in pool:gone), 1 on extra",
        ),
        (
            pending(0, None),
            stale,
            waiting,
            "0 Pending (1 running), but the latest change of deployment/web has not been seen by its controller",
        ),
        (
            running_count(1),
            Cluster::default().deployment_with("web", 1, json!({"status": null})),
            waiting,
            "no pod yet: the latest change of deployment/web has not been seen by its controller",
        ),
    ]);
}

#[test]
fn only_pods_of_the_present_template_count() {
    let rollout = || cluster(2).replica_set("web", 2);
    let new = |pod| of_revision("web", 2, pod);
    expect([
        (
            running_count(2),
            rollout().running("web", "main-0", 1).pod("web", &new(running("main-0"))),
            "not yet: 1 of 2 running, more are coming",
            "1 running, wanted 2",
        ),
        (
            running_count(2),
            rollout()
                .running("web", "main-0", 1)
                .pod("web", &new(running("main-0")))
                .pod("web", &new(running("main-1"))),
            "not yet: 1 pod of the previous template still runs",
            "2 running, and 1 pod of the previous template still runs",
        ),
        (
            running_count(2),
            rollout()
                .pod("web", &terminating("main-0"))
                .pod("web", &new(running("main-0")))
                .pod("web", &new(running("main-1"))),
            "held",
            "2 running",
        ),
        // The new pod cannot be placed, so the old ones stay: for ever.
        (
            Condition::Running(Count { min: 0, max: Some(2) }),
            rollout().running("web", "main-0", 2).pod("web", &new(unschedulable(SELECTOR))),
            "impossible: 2 pods of the previous template still run: the rollout waits for web-3",
            "0 running (1 Pending), and 2 pods of the previous template still run",
        ),
    ]);
    // Which is just what a check on Pending pods may want to see.
    let stuck = rollout().running("web", "main-0", 2).pod("web", &new(unschedulable(SELECTOR)));
    expect([(pending(1, None), stuck, "held", "1 Pending")]);
}

#[test]
fn what_is_under_way_elsewhere_keeps_a_blocked_check_open() {
    let blocked = || cluster(1).unschedulable("web", 1, SELECTOR);
    expect([
        (
            running_count(1),
            blocked().pod("other", &terminating("main-0")),
            "not yet: 1 pod is terminating",
            "0 running, wanted 1 (1 Pending)",
        ),
        (
            running_count(1),
            blocked().node("new", 0, json!({"status": {"conditions": null}})),
            "not yet: 1 node is not ready yet",
            "0 running, wanted 1 (1 Pending)",
        ),
        (
            running_count(1),
            blocked().node("lost", 0, json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})),
            "impossible: 1 pod is unschedulable",
            "0 running, wanted 1 (1 Pending)",
        ),
        (
            running_count(1),
            blocked().pod("other", &json!({})),
            "not yet: 1 pod has not been scheduled yet",
            "0 running, wanted 1 (1 Pending)",
        ),
        (
            running_count(1),
            blocked().pod("other", &json!({"spec": {"schedulerName": "mine"}})),
            "impossible: 1 pod is unschedulable",
            "0 running, wanted 1 (1 Pending)",
        ),
    ]);
}

#[test]
fn the_autoscaler_is_waited_for_after_it_announced_nodes() {
    let mut cluster = cluster(1).unschedulable("web", 1, SELECTOR);
    let check = check(workload("web"), [running_count(1)]);
    cluster.snapshot.taken_at = Some("2026-01-01T00:05:00Z".parse().unwrap());
    let event = |time: &str| {
        from(json!({
            "metadata": {}, "reason": "TriggeredScaleUp", "lastTimestamp": time,
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-1"},
        }))
    };
    cluster.snapshot.events = vec![event("2026-01-01T00:04:00Z")];
    assert_eq!(look(&check, &cluster).0, "not yet: the autoscaler is adding nodes");
    cluster.snapshot.events = vec![event("2025-12-31T00:04:00Z")];
    assert_eq!(look(&check, &cluster).0, "impossible: 1 pod is unschedulable");
}

#[test]
fn one_per_node() {
    let every = || Condition::OnePerNode(pool("main"));
    expect([
        (
            every(),
            cluster(2).running("web", "main-0", 1).running("web", "main-1", 1),
            "held",
            "2 of 2 nodes have exactly one",
        ),
        (
            every(),
            cluster(2).running("web", "main-0", 2),
            "impossible: main-0 has 2 pods",
            "0 of 2 nodes have exactly one, none on main-1, 2 on main-0",
        ),
        (
            every(),
            cluster(3).running("web", "main-0", 1).running("web", "main-1", 1).running("web", "extra-0", 1),
            "impossible: 1 pod is on another node",
            "2 of 2 nodes have exactly one, 1 elsewhere",
        ),
        (
            every(),
            cluster(2).running("web", "main-0", 1).pod("web", &starting("main-1")),
            "not yet: 1 node is still without a pod",
            "1 of 2 nodes have exactly one, none on main-1, 1 starting",
        ),
        (
            every(),
            cluster(1).running("web", "main-0", 1),
            "impossible: no pod is coming to main-1",
            "1 of 2 nodes have exactly one, none on main-1",
        ),
        (
            Condition::OnePerNode(pool("gone")),
            mixed(),
            "impossible: no node is in pool:gone",
            "no node is in pool:gone",
        ),
    ]);
}

#[test]
fn beside_and_apart() {
    let with = |selector: &str| Condition::With(selector.parse().unwrap());
    let apart = |selector: &str| Condition::ApartFrom(selector.parse().unwrap());
    let beside = || cluster(2).running("web", "main-0", 1).running("db", "main-0", 1);
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    let mut foreign = running("main-0");
    json_patch::merge(&mut foreign, &elsewhere);
    expect([
        (with("app=db"), beside(), "held", "1 of 1 beside a pod app=db"),
        (
            with("app=db"),
            cluster(1).running("web", "main-0", 1).pod("db", &foreign),
            "held",
            "1 of 1 beside a pod app=db",
        ),
        (
            with("app=db"),
            beside().running("web", "main-1", 1),
            "impossible: 1 pod runs without one beside it",
            "1 of 2 beside a pod app=db, 1 on main",
        ),
        (
            with("app=db"),
            cluster(1).running("web", "main-0", 1).pod("db", &starting("main-0")),
            "not yet: a pod app=db is starting",
            "0 of 1 beside a pod app=db, 1 on main",
        ),
        (with("app=none"), beside(), "impossible: no pod app=none runs", "no pod app=none runs"),
        // A pod is not its own companion.
        (
            with("app=web"),
            cluster(1).running("web", "main-0", 1),
            "impossible: 1 pod runs without one beside it",
            "0 of 1 beside a pod app=web, 1 on main",
        ),
        (
            apart("app=db"),
            beside(),
            "impossible: 1 of 1 share a node with another pod app=db",
            "1 of 1 share a node with another pod app=db",
        ),
        (
            apart("app=db"),
            cluster(1).running("web", "main-1", 1).running("db", "main-0", 1),
            "held",
            "none of 1 shares a node with another pod app=db",
        ),
        (
            apart("app=web"),
            cluster(2).running("web", "main-0", 1).running("web", "main-1", 1),
            "held",
            "none of 2 shares a node with another pod app=web",
        ),
        (
            apart("app=web"),
            cluster(2).running("web", "main-0", 1).unschedulable("web", 1, SELECTOR),
            "impossible: 1 pod is unschedulable",
            "none of 2 shares a node with another pod app=web, 1 Pending",
        ),
        (
            apart("app=web"),
            cluster(1).running("web", "main-0", 1),
            "impossible: no other pod app=web runs, so this could not fail",
            "no other pod app=web runs, so this could not fail",
        ),
    ]);
}

#[test]
fn spread_over_a_label() {
    let spread = || Condition::Spread { over: "topology.kubernetes.io/zone".to_owned(), max_skew: 1 };
    let zones = || Cluster::default().pool("main", 3).deployment("web", 3);
    let cordoned = json!({"spec": {"unschedulable": true}});
    expect([
        (
            spread(),
            zones().running("web", "main-0", 1).running("web", "main-1", 1).running("web", "main-2", 1),
            "held",
            "z0 1, z1 1, z2 1: skew 0",
        ),
        (
            spread(),
            zones().running("web", "main-0", 2).running("web", "main-1", 1),
            "impossible: skew 2 over topology.kubernetes.io/zone",
            "z0 2, z1 1, z2 0: skew 2, at most 1 wanted",
        ),
        // A zone whose nodes are cordoned is none that the pods could be in.
        (
            spread(),
            Cluster::default()
                .pool("main", 2)
                .node("main", 2, cordoned)
                .deployment("web", 3)
                .running("web", "main-0", 2)
                .running("web", "main-1", 1),
            "held",
            "z0 2, z1 1: skew 1",
        ),
        (
            spread(),
            zones().running("web", "main-0", 2).pod("web", &starting("main-1")),
            "not yet: pods are still coming and going",
            "z0 2, z1 0, z2 0: skew 2, at most 1 wanted; 1 without a place",
        ),
        (
            spread(),
            Cluster::default().pool("main", 1).deployment("web", 1).running("web", "main-0", 1),
            "impossible: `z0` is the only value of topology.kubernetes.io/zone among the nodes the pods may use, so this could not fail",
            "`z0` is the only value of topology.kubernetes.io/zone among the nodes the pods may use, so this could not fail",
        ),
    ]);
}

#[test]
fn a_subject_without_pods_never_holds() {
    let gone = cluster(1).running("wbe", "main-0", 1);
    for condition in [
        Condition::On(pool("main")),
        Condition::NotOn(pool("main")),
        placement([("main", 0)]),
        running_count(0),
        pending(0, None),
        Condition::Succeeded(Count::exactly(0)),
        Condition::Spread { over: "topology.kubernetes.io/zone".into(), max_skew: 1 },
        Condition::OnePerNode(pool("main")),
    ] {
        let seen = look(&check(workload("db"), [condition.clone()]), &gone);
        assert_eq!(seen.0, "impossible: no workload db in the cluster", "{condition:?}");
    }
    assert_eq!(
        look(&check(workload("db"), [Condition::Exist(Count::exactly(0))]), &gone),
        ("held".into(), "0 pods".into())
    );
    assert_eq!(
        look(&check(workload("db"), [Condition::Exist(Count::exactly(1))]), &gone),
        ("impossible: 0 pods, wanted 1".into(), "0 pods, wanted 1".into())
    );
}

#[test]
fn nodes() {
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let taint = json!({"spec": {"taints": [{"key": "dedicated", "value": "special", "effect": "NoSchedule"}]}});
    let wanted = || Condition::Tainted(serde_json::from_value(taint["spec"]["taints"][0].clone()).unwrap());
    let main = || Cluster::default().pool("main", 2);
    for (condition, cluster, verdict, now) in [
        (Condition::Exist(Count::exactly(2)), main(), "held", "2 nodes"),
        (Condition::Exist(Count::exactly(3)), main(), "impossible: 2 nodes, wanted 3", "2 nodes, wanted 3"),
        (Condition::Ready(true), main(), "held", "2 of 2 ready"),
        (
            Condition::Ready(true),
            main().node("main", 2, not_ready.clone()),
            "impossible: 1 node is not ready",
            "2 of 3 ready, not main-2",
        ),
        (
            Condition::Ready(true),
            main().node("main", 2, json!({"status": {"conditions": null}})),
            "not yet: 1 node is not ready",
            "2 of 3 ready, not main-2",
        ),
        (Condition::Ready(false), Cluster::default().node("main", 0, not_ready), "held", "1 of 1 not ready"),
        (
            Condition::Ready(false),
            main(),
            "impossible: 2 nodes are still ready",
            "0 of 2 not ready, not main-0 and main-1",
        ),
        (Condition::Schedulable(true), main(), "held", "2 of 2 schedulable"),
        (
            Condition::Schedulable(true),
            main().node("main", 2, json!({"spec": {"unschedulable": true}})),
            "impossible: 1 node is cordoned",
            "2 of 3 schedulable, not main-2",
        ),
        (
            Condition::Schedulable(false),
            Cluster::default().node("main", 0, json!({"spec": {"unschedulable": true}})),
            "held",
            "1 of 1 cordoned",
        ),
        (
            wanted(),
            Cluster::default().node("main", 0, taint.clone()),
            "held",
            "1 of 1 tainted dedicated=special:NoSchedule",
        ),
        (
            wanted(),
            main(),
            "impossible: 2 nodes are without the taint dedicated=special:NoSchedule",
            "0 of 2 tainted dedicated=special:NoSchedule, not main-0 and main-1",
        ),
        (
            Condition::Ready(true),
            Cluster::default().pool("other", 1),
            "impossible: no node is in pool:main; there are other-0",
            "no node is in pool:main; there are other-0",
        ),
        (Condition::Exist(Count::exactly(0)), Cluster::default().pool("other", 1), "held", "0 nodes"),
        (running_count(1), main(), "impossible: this condition is about pods", "this condition is about pods"),
    ] {
        let seen = look(&check(Subject::Nodes(pool("main")), [condition.clone()]), &cluster);
        assert_eq!((seen.0.as_str(), seen.1.as_str()), (verdict, now), "{condition:?}");
    }
}

#[test]
fn objects() {
    let reference = |kind: &str, name: &str| ObjectRef {
        kind: kind.into(),
        group: None,
        name: name.into(),
        namespace: "default".into(),
    };
    let mut cluster = cluster(2);
    cluster.snapshot.objects = vec![FetchedObject {
        reference: reference("configmap", "settings"),
        object: Some(json!({"data": {"mode": "fast"}}).into()),
    }];
    let cel = |text: &str| Condition::Cel(text.to_owned());
    let one = || Condition::Exist(Count::exactly(1));
    for (subject, condition, verdict) in [
        (reference("deploy", "web"), cel("object.spec.replicas == 2"), "held"),
        (reference("deploy", "web"), cel("object.spec.replicas == 3"), "not yet: its controller is still at work"),
        (reference("deploy", "wbe"), cel("object.spec.replicas == 2"), "impossible: there is no deploy/wbe"),
        (reference("deploy", "web"), one(), "held"),
        (reference("deploy", "wbe"), one(), "impossible: deploy/wbe does not exist"),
        (reference("deploy", "web"), Condition::Exist(Count::exactly(0)), "impossible: deploy/web exists"),
        (reference("configmap", "settings"), cel("object.data.mode == 'fast'"), "held"),
        (
            reference("configmap", "settings"),
            cel("object.data.mode == 'slow'"),
            "impossible: `object.data.mode == 'slow'` is false; object.data.mode is \"fast\"",
        ),
        (reference("configmap", "other"), one(), "impossible: configmap/other does not exist"),
    ] {
        let seen = look(&check(Subject::Object(subject.clone()), [condition.clone()]), &cluster);
        assert_eq!(seen.0, verdict, "{subject} {condition:?}");
    }
}

/// Plays snapshots at times in milliseconds and gives verdicts and when to look again.
fn play(check: &Check, history: &[(u64, &Cluster)]) -> Vec<(&'static str, Option<u64>)> {
    let windows = Windows { settle: Duration::from_secs(1), pending: Duration::from_secs(2) };
    let mut stability = Stability::new(windows);
    history
        .iter()
        .map(|(at, cluster)| {
            let now = Duration::from_millis(*at);
            let seen = stability.observe(std::slice::from_ref(check), &cluster.snapshot, &Context::default(), now);
            let next = seen.look_again_at.map(|at| u64::try_from(at.as_millis()).unwrap());
            (seen.report.checks[0].verdict.code(), next)
        })
        .collect()
}

#[test]
fn windows() {
    let waiting = cluster(1).unschedulable("web", 1, SELECTOR);
    let running = cluster(1).running("web", "main-0", 1);
    let mut heartbeat = waiting.clone();
    for node in &mut heartbeat.snapshot.nodes {
        let mut beaten = (**node).clone();
        beaten.metadata.resource_version = Some("7".to_owned());
        *node = beaten.into();
    }
    heartbeat.snapshot.pods.reverse();
    heartbeat.snapshot.nodes.reverse();

    let runs = check(workload("web"), [running_count(1)]);
    // What holds, holds at once.
    assert_eq!(play(&runs, &[(0, &running)]), [("held", None)]);
    // What is blocked must stay so while nothing changes; heartbeats and order are no change.
    assert_eq!(
        play(&runs, &[(0, &waiting), (900, &heartbeat), (1000, &waiting)]),
        [("not-yet", Some(1000)), ("not-yet", Some(1000)), ("impossible", None)]
    );
    // A change in between begins the window anew.
    let other = waiting.clone().running("other", "main-0", 1);
    assert_eq!(
        play(&runs, &[(0, &waiting), (900, &other), (1000, &other), (1900, &other)]),
        [("not-yet", Some(1000)), ("not-yet", Some(1900)), ("not-yet", Some(1900)), ("impossible", None)]
    );
    // Pending pods must stay so.
    let pends = check(workload("web"), [pending(1, None)]);
    assert_eq!(
        play(&pends, &[(0, &waiting), (1999, &waiting), (2000, &waiting)]),
        [("not-yet", Some(2000)), ("not-yet", Some(2000)), ("held", None)]
    );
    assert_eq!(
        play(&pends, &[(0, &waiting), (1500, &running), (1600, &waiting), (2600, &waiting), (3600, &waiting)]).last(),
        Some(&("held", None))
    );
    // The author's windows win.
    let briefly = Check { hold: Some(jiff::SignedDuration::from_millis(100)), ..pends.clone() };
    assert_eq!(play(&briefly, &[(0, &waiting), (100, &waiting)]), [("not-yet", Some(100)), ("held", None)]);
    let starting = cluster(1).pod("web", &starting("main-0"));
    let within = Check { within: Some(jiff::SignedDuration::from_secs(3)), ..runs };
    assert_eq!(play(&within, &[(0, &starting), (3000, &starting)]), [("not-yet", Some(3000)), ("impossible", None)]);
    // Nothing goes on, yet the author says that something will.
    assert_eq!(
        play(&within, &[(0, &waiting), (1500, &waiting), (3000, &waiting)]),
        [("not-yet", Some(1000)), ("not-yet", Some(3000)), ("impossible", None)]
    );
}

#[test]
fn pods_of_a_workload_by_label_and_by_owner() {
    let by_label = json!({"metadata": {"name": "labelled", "labels": {"klab.dev/workload": "web"}}});
    let elsewhere = json!({"metadata": {"name": "stranger", "labels": {"klab.dev/workload": "api"}}});
    let cluster = cluster(1).running("web", "main-0", 1).pod("x", &by_label).pod("y", &elsewhere);
    let names: Vec<_> = cluster
        .snapshot
        .pods_of("web", &Context::default())
        .iter()
        .filter_map(|pod| pod.metadata.name.clone())
        .collect();
    assert_eq!(names, ["labelled", "web-1"]);
}
