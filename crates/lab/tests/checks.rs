//! The reference of checks: every example is a valid lab, and fails as its console block shows.
//!
//! `KLAB_BLESS=1 cargo test -p klab-lab --test checks` writes the console blocks again.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop, and says where")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use klab_lab::report::{Styles, human, json};
use klab_lab::spec::{Lab, LoadOptions, parse};
use klab_lab::verify::{Before, Context, Report, Snapshot, diagnose, evaluate};
use serde_json::{Value, json};

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/look-up/checks.md")
}

/// A fenced block of the document: its info string, where its text begins and ends.
struct Block {
    info: String,
    start: usize,
    end: usize,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, usize)> = None;
    let mut at = 0;
    for line in document.split_inclusive('\n') {
        if let Some(info) = line.strip_prefix("```") {
            match open.take() {
                Some((info, start)) => blocks.push(Block { info, start, end: at }),
                None => open = Some((info.trim().to_owned(), at + line.len())),
            }
        }
        at += line.len();
    }
    assert!(open.is_none(), "a block of docs/look-up/checks.md is not closed");
    blocks
}

fn lab(base: &str, check: &str) -> Lab {
    let text = format!("{base}\n{check}");
    parse("labs/checks.toml", &text, &LoadOptions::default()).unwrap_or_else(|problems| {
        panic!("{check}\n{:#?}", problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>())
    })
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn node(pool: &str, number: u32, changes: &Value) -> Value {
    let name = format!("{pool}-{number}");
    let mut node = json!({
        "metadata": {"name": name, "labels": {
            "agentpool": pool, "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("westeurope-{}", number + 1),
        }},
        "spec": {},
        "status": {"allocatable": {"cpu": "1900m", "memory": "5Gi", "pods": "30"}, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    json_patch::merge(&mut node, changes);
    node
}

fn pod(app: &str, number: u32, node: Option<&str>) -> Value {
    let (phase, condition) = match node {
        Some(_) => ("Running", json!({"type": "Ready", "status": "True"})),
        None => (
            "Pending",
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu."}),
        ),
    };
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}]);
    json!({
        "metadata": {"name": format!("{app}-{number}"), "namespace": "default", "labels": {"app": app, "klab.dev/workload": app},
            "uid": format!("{app}-{number}"), "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": owner},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx",
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]},
        "status": {"phase": phase, "conditions": [condition]},
    })
}

/// The cluster of a console block: two nodes of pool `system`, one of `extra`, Deployments `api` and `redis`.
fn cluster(name: &str) -> Snapshot {
    let mut extra = json!({"metadata": {"labels": {"workload": "extra"}}});
    let at = |places: &[Option<&str>]| -> Vec<Value> {
        (1..).zip(places).map(|(number, node)| pod("api", number, *node)).collect()
    };
    let mut pods = match name {
        "on" | "not_on" | "placement" => at(&[Some("extra-0"), Some("system-1")]),
        "spread" | "one_per_node" | "apart_from" => at(&[Some("system-0"), Some("system-0")]),
        "with" => at(&[Some("system-0"), Some("extra-0")]),
        "running" | "nominated" => at(&[Some("system-0"), None]),
        "pending" => at(&[None, None]),
        "exist" => at(&[Some("system-0")]),
        "same_pods" => vec![pod("api", 1, Some("system-0")), pod("api", 3, Some("system-1"))],
        _ => at(&[Some("system-0"), Some("system-1")]),
    };
    pods.push(pod("redis", 1, Some("system-0")));
    match name {
        "running" => {
            pods[1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
        }
        "pending" => {
            for pod in &mut pods[..2] {
                pod["spec"]["nodeSelector"] = json!({"workload": "extra"});
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2500m");
            }
        }
        "succeeded" => {
            let mut import = pod("import", 1, Some("extra-0"));
            import["metadata"]["ownerReferences"] = Value::Null;
            import["status"] = json!({"phase": "Failed", "reason": "Evicted"});
            pods.push(import);
        }
        "nominated" => pods[1]["status"]["nominatedNodeName"] = json!("system-1"),
        "ready" => extra["status"] = json!({"conditions": [{"type": "Ready", "status": "Unknown"}]}),
        _ => {}
    }
    let replicas = if name == "exist" { 1 } else { 2 };
    let deployment = |name: &str, replicas: u32| {
        json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("deployment-{name}"), "generation": 1},
            "spec": {"replicas": if name == "api" { replicas } else { 1 }, "selector": {"matchLabels": {"app": name}}, "template": {}},
            "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas, "updatedReplicas": replicas},
        })
    };
    let set = |name: &str| {
        json!({
            "metadata": {"name": name, "namespace": "default", "uid": name,
                "annotations": {"deployment.kubernetes.io/revision": "1"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": format!("deployment-{name}"), "controller": true}]},
            "spec": {"selector": {"matchLabels": {"app": name}}},
        })
    };
    let mut api = deployment("api", replicas);
    if name == "cel" {
        for field in [
            "/spec/replicas",
            "/status/replicas",
            "/status/readyReplicas",
            "/status/availableReplicas",
            "/status/updatedReplicas",
        ] {
            *api.pointer_mut(field).unwrap() = json!(3);
        }
    }
    let preempted = |by: &str| {
        let pod = |name: &str| json!({"kind": "Pod", "namespace": "default", "name": name});
        json!({"metadata": {}, "reason": "Preempted", "involvedObject": pod("api-x7k2p"), "related": pod(by)})
    };
    Snapshot {
        events: if name == "event" { vec![object(preempted("debug"))] } else { Vec::new() },
        taken_at: Some("2026-01-01T00:00:31Z".parse().unwrap()),
        nodes: [node("system", 0, &json!({})), node("system", 1, &json!({})), node("extra", 0, &extra)]
            .into_iter()
            .map(object)
            .collect(),
        pods: pods.into_iter().map(object).collect(),
        deployments: vec![object(api), object(deployment("redis", 1))],
        replica_sets: vec![object(set("api")), object(set("redis"))],
        ..Snapshot::default()
    }
}

fn look(lab: &Lab, snapshot: &Snapshot) -> Report {
    let context = Context::of(lab);
    let mut report = evaluate(&lab.checks, snapshot, &context);
    diagnose(&mut report, &lab.checks, snapshot, &context);
    report
}

#[test]
fn every_example_of_the_reference_fails_as_shown() {
    let document = std::fs::read_to_string(path()).unwrap();
    let blocks = blocks(&document);
    let base = &document[blocks[0].start..blocks[0].end];
    let mut written = BTreeMap::new();
    for pair in blocks[1..].chunks(2) {
        let [example, console] = pair else { panic!("an example of docs/look-up/checks.md has no console block") };
        assert_eq!(example.info, "toml");
        let name = console.info.strip_prefix("console ").unwrap();
        let check = &document[example.start..example.end];
        assert!(check.contains(name), "the example before `{name}` is about something else");
        let mut lab = lab(base, check);
        if let Some(step) = lab.steps.pop() {
            // Before the step the cluster was as everything holds.
            lab.checks = step.checks.clone();
            Before::of(&step.checks, &cluster(""), &Context::of(&lab)).tell(&mut lab.checks);
        }
        let report = look(&lab, &cluster(name));
        assert!(!report.ok(), "{name} holds");
        let said = human(&report, Styles::plain());
        if std::env::var_os("KLAB_BLESS").is_none() {
            assert_eq!(&document[console.start..console.end], said, "{name}");
        }
        written.insert(console.start, (console.end, said));
    }
    if std::env::var_os("KLAB_BLESS").is_some() {
        let mut document = document.clone();
        for (start, (end, said)) in written.into_iter().rev() {
            document.replace_range(start..end, &said);
        }
        std::fs::write(path(), document).unwrap();
    }
}

#[test]
fn machines_read_the_same_as_people() {
    let document = std::fs::read_to_string(path()).unwrap();
    let base = &document[blocks(&document)[0].start..blocks(&document)[0].end];
    let lab =
        lab(base, "[[check]]\nworkload = \"api\"\nrunning = 2\n[[check]]\nnodes = \"pool:extra\"\nready = true\n");
    let report = json(&look(&lab, &cluster("running")));
    assert_eq!(report["schema"], "klab.report/1");
    assert_eq!(
        (report["ok"].as_bool(), report["held"].as_u64(), report["total"].as_u64()),
        (Some(false), Some(1), Some(2))
    );
    let failed = &report["checks"][0];
    assert_eq!(failed["verdict"], "impossible");
    let refusals = failed["causes"][0]["nodes"].as_array().unwrap();
    let short: Vec<(u64, u64)> = refusals
        .iter()
        .map(|group| &group["reasons"][0])
        .filter(|reason| reason["reason"] == "insufficient-cpu")
        .map(|reason| (reason["requested_milli"].as_u64().unwrap(), reason["allocatable_milli"].as_u64().unwrap()))
        .collect();
    assert_eq!(short, [(3000, 1900), (3000, 1900)]);
    assert_eq!(report["checks"][1]["verdict"], "held");
}
