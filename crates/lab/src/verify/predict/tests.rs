//! Predictions in tables: what a set of objects comes to on a small cluster.

use serde_json::{Value, json};

use super::*;
use crate::verify::tests::fixture::{Cluster as Fixture, running};

fn deployment(name: &str, replicas: u32, spec: Value) -> Value {
    let mut pod =
        json!({"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}}]});
    json_patch::merge(&mut pod, &spec);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod}},
    })
}

fn said(cluster: &Fixture, objects: &[Value]) -> Vec<String> {
    let prediction = predict(&cluster.snapshot, &Context::default(), objects, TieBreak::default());
    let one = |workload: &PredictedWorkload| {
        let pools: Vec<String> = workload.pools.iter().map(|(pool, pods)| format!("{pool} {pods}")).collect();
        let total: u32 = workload.nodes.values().sum();
        assert_eq!(total, workload.pools.values().sum::<u32>());
        let message = workload.message.as_deref().map(|text| format!(" ({text})")).unwrap_or_default();
        format!("{}: {}; {} pending{message}", workload.name, pools.join(", "), workload.pending)
    };
    prediction.workloads.iter().map(one).collect()
}

fn cluster() -> Fixture {
    let tainted = json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}});
    Fixture::default().pool("extra", 1).pool("main", 2).node("gpu", 0, tainted)
}

#[test]
fn deployments_go_by_selector_and_room() {
    let extra = json!({"nodeSelector": {"agentpool": "extra"}});
    assert_eq!(
        said(&cluster(), &[deployment("web", 6, extra), deployment("free", 8, json!({}))]),
        [
            "web: extra 4; 2 pending (0/4 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling.)",
            "free: main 8; 0 pending",
        ]
    );
}

#[test]
fn pods_go_by_the_profile_of_the_lab_that_they_name() {
    let text = r#"
        lab = "packed"
        [pool.main]
        [[scheduler.profiles]]
        schedulerName = "default-scheduler"
        [[scheduler.profiles]]
        schedulerName = "packing"
        plugins       = { score = { disabled = [{ name = "*" }], enabled = [{ name = "NodeResourcesFit" }] } }
        pluginConfig  = [{ name = "NodeResourcesFit", args = { scoringStrategy = { type = "MostAllocated" } } }]
    "#;
    let lab = crate::spec::parse("lab.toml", text, &crate::spec::LoadOptions::default()).unwrap();
    let cluster = Fixture::default().pool("main", 4);
    let nodes = |scheduler: &str| {
        let web = deployment("web", 4, json!({ "schedulerName": scheduler }));
        let prediction = predict(&cluster.snapshot, &Context::of(&lab), &[web], TieBreak::default());
        let workload = &prediction.workloads[0];
        (workload.nodes.values().filter(|pods| **pods > 0).count(), workload.pending)
    };
    assert_eq!((nodes("packing"), nodes("default-scheduler")), ((1, 0), (4, 0)));
}

#[test]
fn every_kind_of_object() {
    let kind = |kind: &str, api: &str, name: &str, extra: Value| {
        let mut object = deployment(name, 1, json!({}));
        object["kind"] = json!(kind);
        object["apiVersion"] = json!(api);
        json_patch::merge(&mut object["spec"], &extra);
        object
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "single"}, "spec": {
        "nodeName": "gpu-0", "containers": [{"name": "main", "image": "nginx"}]}});
    let objects = [
        kind("DaemonSet", "apps/v1", "agent", json!({"replicas": null})),
        kind(
            "StatefulSet",
            "apps/v1",
            "db",
            json!({"replicas": 2, "template": {"spec": {"nodeSelector": {"agentpool": "main"}}}}),
        ),
        kind(
            "Job",
            "batch/v1",
            "job",
            json!({"replicas": null, "completions": 2, "parallelism": 5, "template": {"spec": {"nodeSelector": {"agentpool": "extra"}}}}),
        ),
        pod,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}),
    ];
    assert_eq!(
        said(&cluster(), &objects),
        [
            "agent: extra 1, main 2; 0 pending",
            "db: main 2; 0 pending",
            "job: extra 2; 0 pending",
            "single: gpu 1; 0 pending"
        ]
    );
}

#[test]
fn what_is_there_stays_and_takes_room() {
    let here = cluster()
        .deployment_with("web", 3, json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}, "terminationMessagePath": "/dev/termination-log"}]}, "metadata": {"labels": {"app": "web"}}}}}))
        .replica_set("web", 1)
        .running("web", "main-0", 2)
        .running("other", "extra-0", 19);
    // Two pods stay on main-0 though a new Deployment would spread them; 19 pods of others take 1.9 of 2 CPUs.
    assert_eq!(said(&here, &[deployment("web", 3, json!({}))]), ["web: main 3; 0 pending"]);
    let two = predict(&here.snapshot, &Context::default(), &[deployment("web", 2, json!({}))], TieBreak::default());
    assert_eq!(two.workloads[0].nodes, [("main-0".to_owned(), 2)].into());
    // Another template: all of them go again.
    let changed = deployment("web", 3, json!({"nodeSelector": {"agentpool": "extra"}}));
    let again = predict(&here.snapshot, &Context::default(), &[changed], TieBreak::default());
    assert_eq!((again.workloads[0].pools.clone(), again.workloads[0].pending), (BTreeMap::new(), 3));
}

#[test]
fn pods_that_wait_for_others_get_their_place_when_those_have_it() {
    let follower = deployment(
        "follower",
        1,
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "leader"}}, "topologyKey": "kubernetes.io/hostname"}]}}}),
    );
    let leader = deployment("leader", 1, json!({"nodeSelector": {"agentpool": "extra"}}));
    assert_eq!(said(&cluster(), &[follower, leader]), ["follower: extra 1; 0 pending", "leader: extra 1; 0 pending"]);
}

#[test]
fn higher_priority_displaces_lower() {
    let class = |name: &str, value: i32| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    let extra = |class: &str| json!({"nodeSelector": {"agentpool": "extra"}, "priorityClassName": class});
    let objects = [
        class("high", 100),
        class("low", 1),
        deployment("batch", 4, extra("low")),
        deployment("web", 3, extra("high")),
    ];
    let said_all = said(&cluster(), &objects);
    assert_eq!(said_all[1], "web: extra 3; 0 pending");
    assert!(said_all[0].starts_with("batch: extra 1; 3 pending"), "{}", said_all[0]);
    // On a cluster that has the low ones already they are displaced.
    let mut full = cluster().deployment("batch", 4);
    for _ in 0..4 {
        let mut pod = running("extra-0");
        json_patch::merge(
            &mut pod["spec"],
            &json!({"priority": 1, "nodeSelector": {"agentpool": "extra"}, "containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}}]}),
        );
        full = full.pod("batch", &pod);
    }
    assert_eq!(said(&full, &[class("high", 100), deployment("web", 3, extra("high"))]), ["web: extra 3; 0 pending"]);
}

#[test]
fn differences_name_both_sides() {
    let objects = [deployment("web", 4, json!({"nodeSelector": {"agentpool": "extra"}}))];
    let prediction = predict(&cluster().snapshot, &Context::default(), &objects, TieBreak::default());
    let as_predicted = cluster().deployment("web", 4).running("web", "extra-0", 4);
    assert_eq!(compare(&prediction, &as_predicted.snapshot, &Context::default()), []);
    let otherwise = cluster().deployment("web", 4).running("web", "extra-0", 3).running("web", "main-1", 1);
    let differences = compare(&prediction, &otherwise.snapshot, &Context::default());
    let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["deployment/web: predicted extra 4, the cluster placed extra 3, main 1"]);
}
