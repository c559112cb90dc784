//! "Why are nearly all pods on one node, and why does a drain not end?": each answer names the rule, and each command spreads the
//! pods, or empties the node.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cases::{HOST, created, deployment, merged, node, nodes, spread, stateful_set};
use super::{Case, World, fault, offered};
use klab_lab::verify::{Context, Snapshot, explain};

/// A node that the scheduler would rather not use.
fn disliked(name: &str) -> Value {
    node(name, json!({ "spec": { "taints": [{ "key": "spare", "effect": "PreferNoSchedule" }] } }))
}

fn liked_and_disliked() -> Vec<Value> {
    vec![node("n1", json!({})), disliked("n2"), disliked("n3")]
}

fn preferring(key: &str, value: &str) -> Value {
    json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
        { "weight": 100, "preference": { "matchExpressions": [{ "key": key, "operator": "In", "values": [value] }] } }] } } })
}

fn uneven() -> Vec<Case> {
    let of = |name, nodes: Vec<Value>, objects: Vec<Value>| Case::of(name, nodes, objects, "deployment/web");
    let apart = json!({ "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
        { "weight": 1, "podAffinityTerm": { "labelSelector": { "matchLabels": { "app": "web" } }, "topologyKey": HOST } }] } } });
    vec![
        of("nodes that came later", nodes(1), vec![deployment("web", 6, json!({}))])
            .then(created(&node("n2", json!({}))))
            .then(created(&node("n3", json!({}))))
            .says(
                "6 of its 6 pods are on n1, none on n2, none on n3: n2 and n3 came after the pods",
                "kubectl rollout restart",
            ),
        Case::of(
            "a StatefulSet, and a node that came later",
            nodes(1),
            vec![stateful_set("db", 4, json!({}))],
            "sts/db",
        )
        .then(created(&node("n2", json!({}))))
        .says("4 of its 4 pods are on n1, none on n2: n2 came after the pods", "kubectl rollout restart")
        // Its new pods have the names of the old ones.
        .unproven(),
        of("a node that was cordoned", nodes(2), vec![])
            .then("kubectl cordon n2")
            .then(created(&deployment("web", 4, json!({}))))
            .then("kubectl uncordon n2")
            .says("new pods would spread", "kubectl rollout restart"),
        of("nodes that are rather not used", liked_and_disliked(), vec![deployment("web", 6, json!({}))])
            .says("TaintToleration gives it 300 points more", "a topology spread constraint"),
        of(
            "a spread that is a wish",
            liked_and_disliked(),
            vec![deployment("web", 6, spread("web", HOST, json!({ "whenUnsatisfiable": "ScheduleAnyway" })))],
        )
        .says("is only a preference: `ScheduleAnyway`", "require the spread"),
        of(
            "a spread that counts other pods",
            liked_and_disliked(),
            vec![deployment("web", 6, spread("wbe", HOST, json!({})))],
        )
        .says("its `labelSelector` matches none of them", "require the spread"),
        of(
            "a spread that allows too much",
            liked_and_disliked(),
            vec![deployment("web", 6, spread("web", HOST, json!({ "maxSkew": 5 })))],
        )
        .says("allows a difference of 5", "require the spread"),
        of("anti-affinity that is a wish", liked_and_disliked(), vec![deployment("web", 6, apart)])
            .says("their anti-affinity is only a preference", "a topology spread constraint"),
        of(
            "a preferred node affinity, and a taint",
            vec![node("n1", json!({ "metadata": { "labels": { "disk": "ssd" } } })), node("n2", json!({}))],
            vec![deployment(
                "web",
                4,
                merged(
                    preferring("disk", "ssd"),
                    &spread("web", "rack", json!({ "whenUnsatisfiable": "ScheduleAnyway" })),
                ),
            )],
        )
        .says(
            "is what their preferred node affinity asks for, for which NodeAffinity gives it 200 points",
            "a topology spread constraint",
        ),
    ]
}

fn per_node(snapshot: &Snapshot) -> BTreeMap<String, usize> {
    let names = snapshot.nodes.iter().filter_map(|node| node.metadata.name.clone());
    let mut counts: BTreeMap<String, usize> = names.map(|name| (name, 0)).collect();
    for node in snapshot.pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_ref()) {
        *counts.get_mut(node).unwrap() += 1;
    }
    counts
}

#[test]
fn uneven_pods_are_spread_by_what_is_offered() {
    let mut faults = Vec::new();
    for case in uneven() {
        if let Some(fault) = fault(&case) {
            faults.push(format!("### {}\n{fault}", case.name));
            continue;
        }
        let snapshot = World::of(&case).snapshot();
        let explained = explain(&snapshot, &Context::default(), case.target, None).unwrap();
        for command in offered(&explained).iter().filter_map(|fix| fix.command.as_ref()) {
            let world = World::of(&case);
            world.does(command);
            (0..6).for_each(|_| world.pass());
            let counts = per_node(&world.snapshot());
            if counts.values().max() > counts.values().min().map(|least| least + 1).as_ref() {
                faults.push(format!("### {}\n{command}\n{counts:?}", case.name));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pods_that_are_spread_or_have_no_other_place_are_not_called_uneven() {
    let tainted = node("n2", json!({ "spec": { "taints": [{ "key": "only", "effect": "NoSchedule" }] } }));
    for (name, nodes, object) in [
        ("spread", nodes(3), deployment("web", 7, json!({}))),
        ("no other place", vec![node("n1", json!({})), tainted], deployment("web", 4, json!({}))),
        ("one pod", nodes(3), deployment("web", 1, json!({}))),
        ("pinned", nodes(2), deployment("web", 4, json!({ "nodeSelector": { HOST: "n1" } }))),
    ] {
        let world = World::of(&Case::of(name, nodes, vec![object], "deployment/web"));
        let explained = explain(&world.snapshot(), &Context::default(), "deployment/web", None).unwrap();
        assert_eq!(explained.hindrances, Vec::new(), "{name}");
    }
}

/// A policy about a verb on pods, with its binding.
fn policy(resource: &str, expression: &str) -> [Value; 2] {
    let version = "admissionregistration.k8s.io/v1";
    [
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": { "name": "keep" },
            "spec": {
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource] }] },
                "validations": [{ "expression": expression, "message": "ask the owner first" }],
            },
        }),
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": "everywhere" },
            "spec": { "policyName": "keep", "validationActions": ["Deny"] },
        }),
    ]
}

#[test]
fn a_drain_that_a_policy_stops_is_explained_and_nothing_is_evicted_by_the_question() {
    let refusing = |object: Value, target: &'static str| {
        let objects =
            policy("pods/eviction", "object.metadata.namespace != 'default'").into_iter().chain([object]).collect();
        Case::of("a policy that refuses evictions", nodes(2), objects, target).then("kubectl cordon n1")
    };
    let words = "a drain cannot evict it: pods \"";
    let case = refusing(deployment("web", 2, json!({})), "deployment/web")
        .says(words, "kubectl rollout restart deployment/web");
    assert_eq!(fault(&case), None);
    let world = World::of(&case);
    let names = |snapshot: &Snapshot| -> Vec<String> {
        snapshot
            .pods
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .filter_map(|pod| pod.metadata.name.clone())
            .collect()
    };
    let before = world.snapshot();
    assert_eq!(before.refused_evictions.len(), 1, "{:?}", before.refused_evictions);
    world.pass();
    assert_eq!(names(&before), names(&world.snapshot()));
    world.does("kubectl rollout restart deployment/web");
    (0..4).for_each(|_| world.pass());
    assert_eq!(per_node(&world.snapshot())["n1"], 0);

    // A bare pod has nothing that would bring another; the policy is what there is to look at.
    let bare = refusing(
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
            "spec": { "nodeName": "n1", "containers": [{ "name": "c", "image": "nginx:1.27" }] },
        }),
        "web",
    );
    assert_eq!(fault(&bare.says(words, "kubectl get validatingadmissionpolicy keep -o yaml")), None);

    // A policy that lets this pod go changes nothing, and neither does a budget, which has words of its own.
    let objects = policy("pods/eviction", "object.metadata.namespace == 'default'").into_iter().chain([deployment(
        "web",
        2,
        json!({}),
    )]);
    let open = Case::of("a policy that lets evictions pass", nodes(2), objects.collect(), "deployment/web")
        .then("kubectl cordon n1");
    assert_eq!(fault(&open.says("to empty n1, drain it", "kubectl drain n1").unproven()), None);
}
