//! The autoscaler's decisions, as tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, from_value, json};

use super::*;
use crate::{Cluster, TieBreak, admission};

fn node(name: &str, cpu: &str, labels: &Value, taints: &Value) -> Node {
    let resources = json!({ "cpu": cpu, "memory": "8Gi", "pods": "30" });
    from_value(json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints },
        "status": { "allocatable": resources, "capacity": resources },
    }))
    .unwrap()
}

fn group(name: &str, (min, target, max): (u32, u32, u32), cpu: &str, taints: Value) -> NodeGroup {
    group_with(name, (min, target, max), &node("template", cpu, &json!({ "agentpool": name }), &taints), &[])
}

fn group_with(name: &str, (min, target, max): (u32, u32, u32), node: &Node, daemons: &[DaemonSet]) -> NodeGroup {
    let template = Template::new(node, daemons).unwrap();
    NodeGroup { name: Arc::from(name), min, max, target, upcoming: 0, is_backed_off: false, template }
}

fn pod(name: &str, cpu: &str, extra: Value) -> Pod {
    let mut spec =
        json!({ "containers": [{ "name": "main", "image": "x", "resources": { "requests": { "cpu": cpu } } }] });
    spec.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap_or_default());
    let owner =
        json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true }]);
    let metadata =
        json!({ "name": name, "namespace": "default", "labels": { "app": "web" }, "ownerReferences": owner });
    let mut pod: Pod = from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
    admission::admit(&mut pod).unwrap();
    pod
}

fn pods(count: usize, cpu: &str) -> Vec<Pod> {
    (0..count).map(|number| pod(&format!("web-{number}"), cpu, json!({}))).collect()
}

fn cluster(nodes: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::new(TieBreak::FirstName);
    for (name, cpu) in nodes {
        cluster.set_node(&node(name, cpu, &json!({}), &json!([]))).unwrap();
    }
    cluster
}

fn decide(cluster: &Cluster, pods: &[Pod], groups: &[NodeGroup], settings: &[(&str, &str)]) -> ScaleUp {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let priorities = BTreeMap::from([(Arc::from("small"), 10), (Arc::from("large"), 50)]);
    let pods: Vec<&Pod> = pods.iter().collect();
    scale_up(cluster, &pods, groups, &Profile::of(&settings).unwrap(), Some(&priorities), 7)
}

/// `small 0->2 | triggered 4 | web-0: why`
fn told(result: &ScaleUp, pods: &[Pod]) -> String {
    let mut parts: Vec<String> = result.resizes.iter().map(ToString::to_string).collect();
    if !result.triggered.is_empty() {
        parts.push(format!("{} pods", result.triggered.len()));
    }
    for remaining in &result.remaining {
        let name = pods[remaining.pod].metadata.name.as_deref().unwrap();
        let message = remaining.message();
        parts.push(format!("{name}: {}", message.trim_start_matches("pod didn't trigger scale-up: ")));
    }
    parts.join(" | ")
}

#[test]
fn pools_grow_as_far_as_pods_need_and_bounds_allow() {
    let small = |sizes| group("small", sizes, "2", json!([]));
    let tainted = json!([{ "key": "gpu", "value": "true", "effect": "NoSchedule" }]);
    for (pods, groups, expected) in [
        (pods(0, "1"), vec![small((0, 0, 9))], ""),
        (pods(4, "1"), vec![small((0, 0, 9))], "{small 0->2 (max: 9)} | 4 pods"),
        (pods(5, "1"), vec![small((0, 1, 9))], "{small 1->4 (max: 9)} | 5 pods"),
        // As many as the pool may have; the others wait for the next turn.
        (pods(9, "1"), vec![small((0, 1, 3))], "{small 1->3 (max: 3)} | 4 pods"),
        (pods(1, "1"), vec![small((0, 3, 3))], "web-0: 1 max node group size reached"),
        (pods(1, "3"), vec![small((0, 0, 9))], "web-0: 1 Insufficient cpu"),
        (
            pods(1, "3"),
            vec![small((0, 0, 9)), group("gpu", (0, 0, 9), "8", tainted), small((1, 2, 2))],
            "web-0: 1 Insufficient cpu, 1 max node group size reached, 1 node(s) had untolerated taint(s)",
        ),
        (pods(1, "3"), vec![], "web-0: "),
    ] {
        let groups: Vec<_> = groups
            .into_iter()
            .enumerate()
            .map(|(at, group)| if at == 2 { NodeGroup { name: Arc::from("full"), ..group } } else { group })
            .collect();
        assert_eq!(told(&decide(&cluster(&[]), &pods, &groups, &[]), &pods), expected);
    }
}

#[test]
fn what_is_there_and_what_is_on_its_way_counts() {
    let pods = pods(3, "1");
    let mut groups = vec![group("small", (0, 1, 9), "2", json!([]))];
    assert_eq!(decide(&cluster(&[("free", "8")]), &pods, &groups, &[]).fitting.len(), 3);
    groups[0].upcoming = 1;
    let result = decide(&cluster(&[("free", "500m")]), &pods, &groups, &[]);
    let told = told(&result, &pods);
    assert_eq!((result.fitting, told.as_str()), (vec![0, 1], "{small 1->2 (max: 9)} | 1 pods"));
}

#[test]
fn pods_of_daemon_sets_take_room_on_new_nodes_where_they_would_run() {
    let daemon = |selector: Value| -> DaemonSet {
        let resources = json!({ "requests": { "cpu": "500m" } });
        from_value(json!({
            "metadata": { "name": "agent", "namespace": "kube-system", "uid": "7" },
            "spec": { "selector": {}, "template": { "spec": {
                "nodeSelector": selector, "containers": [{ "name": "main", "image": "x", "resources": resources }],
            } } },
        }))
        .unwrap()
    };
    let template = node("template", "2", &json!({ "agentpool": "small" }), &json!([]));
    let pods = pods(4, "1");
    for (selector, expected) in [
        (json!({ "agentpool": "small" }), "{small 0->4 (max: 9)} | 4 pods"),
        (json!({ "agentpool": "other" }), "{small 0->2 (max: 9)} | 4 pods"),
    ] {
        let groups = [group_with("small", (0, 0, 9), &template, &[daemon(selector)])];
        assert_eq!(told(&decide(&cluster(&[]), &pods, &groups, &[]), &pods), expected);
    }
}

#[test]
fn pods_that_stand_apart_need_a_node_each() {
    let terms =
        json!([{ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }]);
    let apart =
        json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } } });
    let spread = json!({ "topologySpreadConstraints": [{
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] });
    for (rule, expected) in [(apart, "{small 0->3 (max: 9)} | 3 pods"), (spread, "{small 0->1 (max: 9)} | 3 pods")] {
        let pods: Vec<Pod> = (0..3).map(|number| pod(&format!("web-{number}"), "100m", rule.clone())).collect();
        let groups = [group("small", (0, 0, 9), "2", json!([]))];
        assert_eq!(told(&decide(&cluster(&[]), &pods, &groups, &[]), &pods), expected);
    }
}

#[test]
fn expanders_choose_among_pools() {
    let groups = [group("small", (0, 0, 2), "2", json!([])), group("large", (0, 0, 9), "8", json!([]))];
    let pods = pods(5, "1");
    for (expander, expected) in [
        // Of small 2 × 2 CPUs nothing is left over, and one pod waits on.
        ("least-waste", "{small 0->2 (max: 2)} | 4 pods"),
        ("most-pods", "{large 0->1 (max: 9)} | 5 pods"),
        ("priority", "{large 0->1 (max: 9)} | 5 pods"),
    ] {
        assert_eq!(
            told(&decide(&cluster(&[]), &pods, &groups, &[("expander", expander)]), &pods),
            expected,
            "{expander}"
        );
    }
    let chosen = |seed| {
        let pods: Vec<&Pod> = pods.iter().collect();
        scale_up(&cluster(&[]), &pods, &groups, &Profile::default(), None, seed).resizes[0].group.to_string()
    };
    let chance: Vec<String> = (0..20).map(chosen).collect();
    assert_eq!(chance, (0..20).map(chosen).collect::<Vec<_>>(), "the seed decides");
    assert!(chance.contains(&"small".to_owned()) && chance.contains(&"large".to_owned()));
}

#[test]
fn pools_that_are_alike_share_new_nodes_when_asked() {
    let zone = |name: &str, sizes, zone: &str| {
        let labels = json!({ "agentpool": name, "topology.kubernetes.io/zone": zone });
        group_with(name, sizes, &node("template", "2", &labels, &json!([])), &[])
    };
    let groups = [zone("a", (0, 2, 9), "1"), zone("b", (0, 0, 9), "2"), group("large", (0, 0, 9), "8", json!([]))];
    let pods = pods(8, "1");
    let balanced = [("balance-similar-node-groups", "true"), ("expander", "least-waste")];
    assert_eq!(
        told(&decide(&cluster(&[]), &pods, &groups[..2], &balanced), &pods),
        "{a 2->3 (max: 9)} | {b 0->3 (max: 9)} | 8 pods"
    );
    assert_eq!(decide(&cluster(&[]), &pods, &groups[..2], &[]).resizes.len(), 1);
}

// Down.

const NOW: &str = "2026-01-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// What is found about a node of 4 CPUs with one pod, beside a node with as much room as `free`.
fn about(pod: &Pod, settings: &[(&str, &str)], budgets: &[PodDisruptionBudget], owner: Owner, free: &str) -> String {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut cluster = cluster(&[("idle", "4"), ("other", free)]);
    cluster.bind(pod, "idle").unwrap();
    let candidates = [Candidate { node: Arc::from("idle"), is_disabled: false, pods: vec![pod] }];
    let profile = Profile::of(&settings).unwrap();
    let judged = judge(&cluster, &candidates, Budgets::new(budgets), &|_| owner, &profile, now());
    match &judged[0].verdict {
        Verdict::Unneeded { moved, awaits_completion: true, .. } => format!("waits, {} moved", moved.len()),
        Verdict::Unneeded { moved, is_risky, .. } => {
            format!("{} moved{}", moved.len(), if *is_risky { ", risky" } else { "" })
        }
        Verdict::Needed(Obstacle::BlockedByPod(_, reason)) => reason.to_string(),
        Verdict::Needed(obstacle) => obstacle.to_string(),
    }
}

#[test]
fn pods_keep_their_nodes_for_the_reasons_of_the_cluster_autoscaler() {
    let with = |change: fn(&mut Pod)| {
        let mut pod = pod("web", "1", json!({}));
        change(&mut pod);
        pod
    };
    let annotated = |value: &'static str| {
        let mut pod = pod("web", "1", json!({}));
        let key = "cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned();
        pod.metadata.annotations = Some(BTreeMap::from([(key, value.to_owned())]));
        pod
    };
    let kind = |kind: &str| {
        let mut pod = pod("web", "1", json!({}));
        pod.metadata.owner_references.as_mut().unwrap()[0].kind = kind.to_owned();
        pod
    };
    let system = |age: SignedDuration| {
        let mut pod = pod("dns", "1", json!({}));
        pod.metadata.namespace = Some("kube-system".to_owned());
        pod.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now().saturating_sub(age).unwrap()));
        pod
    };
    let local = || pod("web", "1", json!({ "volumes": [{ "name": "data", "emptyDir": {} }] }));
    let keeps_local: &[_] = &[("skip-nodes-with-local-storage", "true")];
    let minute = SignedDuration::from_mins(1);
    for (what, pod, settings, expected) in vec![
        ("plain", with(|_| {}), &[][..], "1 moved"),
        ("bare", with(|pod| pod.metadata.owner_references = None), &[], "NotReplicated"),
        ("custom controller", kind("Rollout"), &[], "NotReplicated"),
        ("daemon", kind("DaemonSet"), &[], "0 moved"),
        ("annotated false", annotated("false"), &[], "NotSafeToEvictAnnotation"),
        ("annotated true", annotated("true"), &[], "1 moved"),
        ("on completion", annotated("on-completion"), &[], "waits, 0 moved"),
        ("local storage", local(), keeps_local, "LocalStorageRequested"),
        ("local storage on AKS", local(), &[], "1 moved"),
        ("system", system(minute), &[], "UnmovableKubeSystemPod"),
        ("old system", system(SignedDuration::from_hours(2)), &[], "1 moved"),
        ("system, when asked", system(minute), &[("skip-nodes-with-system-pods", "false")], "1 moved"),
        ("busy", pod("web", "2100m", json!({})), &[], "it is used above the threshold"),
        (
            "busy, other threshold",
            pod("web", "2100m", json!({})),
            &[("scale-down-utilization-threshold", "0.6")],
            "1 moved",
        ),
        (
            "no room",
            pod("web", "1", json!({ "nodeSelector": { "a": "b" } })),
            &[],
            "its pods would find no other place",
        ),
    ] {
        assert_eq!(about(&pod, settings, &[], Owner::Present, "4"), expected, "{what}");
    }
    let plain = pod("web", "1", json!({}));
    assert_eq!(about(&plain, &[], &[], Owner::Gone, "4"), "ControllerNotFound");
    assert_eq!(about(&plain, &[], &[], Owner::Present, "500m"), "its pods would find no other place");
    for (allowed, expected) in [(0, "NotEnoughPdb"), (1, "1 moved")] {
        let budget = from_value(json!({
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "selector": { "matchLabels": { "app": "web" } } },
            "status": { "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 },
        }))
        .unwrap();
        assert_eq!(about(&plain, &[], &[budget], Owner::Present, "4"), expected);
    }
}

#[test]
fn a_node_that_could_go_takes_no_pods_of_the_next_one() {
    let first = pod("first", "1", json!({}));
    let second = pod("second", "1", json!({}));
    let mut cluster = cluster(&[("a", "2"), ("b", "2")]);
    cluster.bind(&first, "a").unwrap();
    cluster.bind(&second, "b").unwrap();
    let candidate = |node: &str, pod| Candidate { node: Arc::from(node), is_disabled: false, pods: vec![pod] };
    let candidates = [candidate("a", &first), candidate("b", &second)];
    let judged = judge(&cluster, &candidates, Budgets::default(), &|_| Owner::Present, &Profile::default(), now());
    let stays: Vec<bool> = judged.iter().map(|it| matches!(it.verdict, Verdict::Needed(_))).collect();
    assert_eq!(stays, [false, true]);
    assert_eq!(judged[0].utilization.unwrap().to_string(), "{0.5 0 0 0 cpu 0.5}");
}

fn judged(node: &str, moved: usize, is_risky: bool) -> Judgement {
    let moved = (0..moved).map(|number| crate::PodKey::new("default", &number.to_string())).collect();
    let verdict = Verdict::Unneeded { moved, awaits_completion: false, is_risky };
    Judgement { node: Arc::from(node), utilization: None, verdict }
}

#[test]
fn nodes_go_after_their_time_empty_ones_first_and_within_bounds() {
    let profile = Profile { most_at_once: 3, ..Profile::default() };
    let judgements = [
        judged("risky", 1, true),
        judged("full", 2, false),
        judged("a", 0, false),
        judged("b", 0, false),
        judged("c", 0, false),
    ];
    let mut unneeded = Unneeded::default();
    let begun = now().saturating_sub(SignedDuration::from_mins(10)).unwrap();
    unneeded.update(&judgements[1..], begun, |_| None);
    // Its taint tells since when; the last one came late.
    unneeded.update(&judgements, now(), |node| (node == "risky").then_some(begun));
    let gone = |spare: u32, under_way: InProgress, now: Timestamp| -> Vec<String> {
        let spare = BTreeMap::from([(Arc::from("pool"), spare)]);
        let node = |_: &str| Some((Arc::from("pool"), true));
        let removals = unneeded.removable(&judgements, &profile, now, spare, node, under_way);
        removals.iter().map(|it| format!("{}{}", it.judgement.node, if it.drains { " drained" } else { "" })).collect()
    };
    let none = InProgress::default();
    assert_eq!(gone(9, none, begun), [""; 0]);
    assert_eq!(gone(9, none, now()), ["a", "b", "c"]);
    assert_eq!(gone(2, none, now()), ["a", "b"]);
    assert_eq!(gone(9, InProgress { empty: 2, drained: 0 }, now()), ["a"]);
    assert_eq!(unneeded.due("a", false, &profile), Some(begun.saturating_add(profile.unready_time).unwrap()));
    let judgements = &judgements[..2];
    let node = |_: &str| Some((Arc::from("pool"), true));
    let spare = || BTreeMap::from([(Arc::from("pool"), 5)]);
    let first = |under_way| {
        let removals = unneeded.removable(judgements, &profile, now(), spare(), node, under_way);
        removals.iter().map(|it| it.judgement.node.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(first(none), ["full"], "one at a time, those whose evictions are allowed first");
    assert_eq!(first(InProgress { empty: 0, drained: 1 }), [""; 0]);
    unneeded.update(&judgements[..1], now(), |_| None);
    assert!(unneeded.contains("risky") && !unneeded.contains("full"));
}
