//! Tables: how many pods run, wait or have ended.

use super::*;

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
    let exist = || Condition::Exist(Count::exactly(1));
    let alone = || Cluster::default().pool("main", 2).deployment("web", 1).replica_set("web", 2);
    expect([
        (
            exist(),
            alone().pod("web", &unschedulable(SELECTOR)).pod("web", &new(starting("main-0"))),
            "not yet: 2 pods, some are going",
            "2 pods, wanted 1",
        ),
        (
            exist(),
            alone().running("web", "main-0", 1).pod("web", &new(unschedulable(SELECTOR))),
            "impossible: 2 pods, wanted 1",
            "2 pods, wanted 1",
        ),
    ]);
    // Pods that never ran do not "still run".
    let waiting = rollout()
        .pod("web", &unschedulable(SELECTOR))
        .pod("web", &new(running("main-0")))
        .pod("web", &new(running("main-1")));
    expect([(
        running_count(2),
        waiting,
        "not yet: 1 pod of the previous template still waits",
        "2 running, and 1 pod of the previous template still waits",
    )]);
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
