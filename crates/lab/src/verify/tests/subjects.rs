//! Tables: what a check is about, and what it says where there is nothing of it.

use super::*;

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
        (
            running_count(1),
            main(),
            "impossible: this condition says nothing about such a subject",
            "this condition says nothing about such a subject",
        ),
    ] {
        let seen = look(&check(Subject::Nodes(pool("main")), [condition.clone()]), &cluster);
        assert_eq!((seen.0.as_str(), seen.1.as_str()), (verdict, now), "{condition:?}");
    }
}

#[test]
fn pods_under_way_change_no_nodes() {
    let cluster = Cluster::default().pool("main", 1).deployment("web", 2).running("web", "gone-0", 2);
    let wanted = |nodes: u32| check(Subject::Nodes(pool("main")), [Condition::Exist(Count::exactly(nodes))]);
    assert_eq!(look(&wanted(2), &cluster).0, "impossible: 1 node, wanted 2");
    let pods = check(workload("web"), [Condition::On(pool("main"))]);
    assert_eq!(look(&pods, &cluster).0, "not yet: 2 pods are on nodes that are gone");
    // An autoscaler may bring nodes for what happens to pods.
    let text = "lab = 'x'\n[pool.main]\nmode = 'system'\n[pool.burst]\nautoscale = { min = 1, max = 3 }\n";
    let lab = crate::verify::tests::fixture::lab(text);
    let report = evaluate(&[wanted(2)], &cluster.snapshot, &Context::of(&lab));
    assert!(matches!(report.checks[0].verdict, Verdict::NotYet { .. }), "{:?}", report.checks[0].verdict);
}

#[test]
fn what_is_left_on_a_node_that_is_gone_holds_up_its_own_checks_only() {
    let cluster = || Cluster::default().pool("main", 1).pool("extra", 1).deployment("web", 1);
    let elsewhere = |owner: Cluster| owner.running("web", "extra-0", 1);
    let on_main = check(workload("web"), [Condition::On(pool("main"))]);
    let blocked = "impossible: 1 pod is not on pool:main";
    let lost = cluster().deployment("other", 1).running("other", "gone-0", 1);
    assert_eq!(
        look(&on_main, &elsewhere(lost)).0,
        "not yet: 1 pod is on a node that is gone",
        "another one will be made"
    );
    let going = cluster().deployment("other", 0).pod("other", &terminating("gone-0"));
    assert_eq!(look(&on_main, &elsewhere(going)).0, blocked, "another one is there already");
    let mut pod = running("gone-0");
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": true}]);
    let mut agent = cluster().pod("agent", &pod);
    agent.snapshot.daemon_sets.push(from(json!({
        "metadata": {"name": "agent", "namespace": "default", "uid": "agent", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
            "numberReady": 1, "numberMisscheduled": 0, "updatedNumberScheduled": 1},
    })));
    assert_eq!(look(&on_main, &elsewhere(agent.clone())).0, blocked, "no other one will be made");
    let own = check(workload("agent"), [Condition::On(pool("main"))]);
    assert_eq!(look(&own, &agent).0, "not yet: 1 pod is on a node that is gone");
}

#[test]
fn pods_that_only_a_person_replaces_are_said_to_wait_for_that() {
    let mut pod = running("main-0");
    pod["metadata"]["labels"] = json!({"app": "agent", "pod-template-generation": "1"});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": true}]);
    let agent = |strategy: &str| {
        let mut agent = Cluster::default().pool("main", 1).pod("agent", &pod);
        agent.snapshot.daemon_sets.push(from(json!({
            "metadata": {"name": "agent", "namespace": "default", "uid": "agent", "generation": 2,
                "annotations": {"deprecated.daemonset.template.generation": "2"}},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {}, "updateStrategy": {"type": strategy}},
            "status": {"observedGeneration": 2, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
                "numberReady": 1, "numberMisscheduled": 0},
        })));
        look(&check(workload("agent"), [running_count(1)]), &agent).0
    };
    assert_eq!(agent("RollingUpdate"), "not yet: 1 pod is still to be made");
    let waits = "impossible: its update strategy is OnDelete: you delete the pods of the previous template";
    assert_eq!(agent("OnDelete"), waits);
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

#[test]
fn nothing_is_waited_for_from_a_pod_that_names_a_node_that_never_was() {
    let pinned = json!({"spec": {"nodeName": "main-9"}, "status": {"conditions": null}});
    let seen = look(&check(workload("web"), [running_count(1)]), &cluster(1).pod("web", &pinned));
    assert!(seen.0.starts_with("impossible"), "{seen:?}");
    // One that the scheduler sent to a node that is gone is cleared away, and its owner makes another.
    let lost =
        json!({"spec": {"nodeName": "main-9"}, "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}});
    let seen = look(&check(workload("web"), [running_count(1)]), &cluster(1).pod("web", &lost));
    assert!(seen.0.starts_with("not yet"), "{seen:?}");
}

#[test]
fn a_pod_that_waits_for_a_claim_that_is_not_there_is_pending_and_nothing_is_coming() {
    let asks = json!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "wanted"}]}});
    let mut there = cluster(1).pod("web", &asks);
    let judged = |there: &Cluster| look(&check(workload("web"), [pending(1, None)]), there).0;
    assert!(judged(&there).starts_with("not yet"), "nothing is known of claims");
    there.snapshot.devices = Some(DeviceObjects::default());
    assert_eq!(judged(&there), "held");
    let running = look(&check(workload("web"), [running_count(1)]), &there);
    assert!(running.0.starts_with("impossible"), "{running:?}");
    let claim = json!({"metadata": {"name": "wanted", "namespace": "default"}, "spec": {}});
    there.snapshot.devices = Some(DeviceObjects { claims: vec![from(claim)], ..DeviceObjects::default() });
    assert!(judged(&there).starts_with("not yet"), "the claim is there, so a scheduler will look at the pod");
}
