//! How fast the embedded cluster takes writes: server-side apply, creates, patches, with and without the log.
//!
//! `cargo bench -p klab-cluster`
#![expect(clippy::print_stdout, reason = "the figures are the purpose")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use klab_api_machinery::resource::{CONFIG_MAPS, DEPLOYMENTS, NODES, PODS};
use klab_cluster::clock::SystemClock;
use klab_cluster::cluster::{Cluster, Part, WriteOptions};
use klab_cluster::control::{ControlPlane, Progress};
use klab_cluster::seed::Seed;
use klab_cluster::system::Flavour;
use klab_fields::Patch;
use serde_json::{Value, json};

fn main() {
    let start = Instant::now();
    let memory = Cluster::new(Arc::new(SystemClock), 1);
    println!("a fresh cluster in memory: {:?} (the first includes reading the table of types)", start.elapsed());
    let start = Instant::now();
    drop(Cluster::new(Arc::new(SystemClock), 1));
    println!("another: {:?}", start.elapsed());
    measure("in memory", &memory);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.log");
    let (durable, _) = Cluster::open(&path, Arc::new(SystemClock), 1).unwrap();
    measure("with the log", &durable);
    pods(&durable);
    let size = std::fs::metadata(&path).unwrap().len() >> 20;
    drop(durable);
    let start = Instant::now();
    let (_, recovery) = Cluster::open(&path, Arc::new(SystemClock), 1).unwrap();
    println!("restart: {} objects from {size} MiB in {:?}", recovery.objects, start.elapsed());
    nodes();
}

/// A lab of very many nodes, as its control plane sees it.
fn nodes() {
    const COUNT: usize = 5_000;
    let cluster = Arc::new(Cluster::new(Arc::new(SystemClock), 1));
    let seed = Seed { flavour: Flavour::Aks, ..Seed::default() };
    seed.fill(&cluster, "bench").unwrap();
    let mut plane = ControlPlane::new(Arc::clone(&cluster), seed.settings());
    plane.run();
    let resources = json!({ "cpu": "2", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi" });
    for at in 0..COUNT {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": format!("n{at}"), "labels": { "kubernetes.io/os": "linux", "agentpool": "p" } },
            "status": { "capacity": resources, "allocatable": resources },
        });
        cluster.create(NODES, "", node, &WriteOptions::by("kubelet")).unwrap();
    }
    apply(&cluster, deployment(0));
    let start = Instant::now();
    let is_running = || {
        let (pods, _) = cluster.list(PODS, Some("default"));
        !pods.is_empty() && pods.iter().all(|pod| pod.value()["status"]["phase"] == "Running")
    };
    while !is_running() {
        plane.run_for(Duration::from_millis(10));
    }
    let running = start.elapsed();
    while plane.run_for(Duration::from_millis(10)) == Progress::Unfinished {}
    let pods = cluster.list(PODS, None).0.len();
    println!("{COUNT} nodes as on AKS: a workload runs after {running:?}, all {pods} pods after {:?}", start.elapsed());
}

fn apply(cluster: &Cluster, value: Value) {
    let (resource, name) = match value["kind"].as_str() {
        Some("ConfigMap") => (CONFIG_MAPS, &value["metadata"]["name"]),
        _ => (DEPLOYMENTS, &value["metadata"]["name"]),
    };
    let name = name.as_str().unwrap().to_owned();
    let patch = Patch::Apply { value, force: true };
    cluster.patch(resource, Part::Main, "default", &name, patch, &WriteOptions::client("klab")).unwrap();
}

fn config_map(at: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("c{at}"), "labels": { "app.kubernetes.io/managed-by": "klab", "klab.dev/lab": "bench" } },
        "data": { "index": at.to_string(), "text": "some configuration" },
    })
}

fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{
            "name": "main", "image": "nginx:1.27", "ports": [{ "containerPort": 80 }],
            "resources": { "requests": { "cpu": "50m", "memory": "64Mi" } },
        }] },
    })
}

fn deployment(at: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": format!("d{at}") },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template() },
    })
}

fn measure(what: &str, cluster: &Cluster) {
    const COUNT: usize = 10_000;
    let rate = |label: &str, count: usize, work: &dyn Fn(usize)| {
        let start = Instant::now();
        (0..count).for_each(work);
        let took = start.elapsed();
        println!(
            "{what}: {label}: {:.0}/s, {:.1} µs each",
            count as f64 / took.as_secs_f64(),
            took.as_secs_f64() * 1e6 / count as f64
        );
    };
    rate("apply new ConfigMaps", COUNT, &|at| apply(cluster, config_map(at)));
    rate("apply them unchanged", COUNT, &|at| apply(cluster, config_map(at)));
    rate("apply new Deployments", 1000, &|at| apply(cluster, deployment(at)));
    rate("apply them unchanged", 1000, &|at| apply(cluster, deployment(at)));
    rate("change the status of a Deployment", 1000, &|at| {
        cluster
            .modify(DEPLOYMENTS, Part::Status, "default", &format!("d{at}"), &WriteOptions::by("c"), |value| {
                value["status"]["replicas"] = json!(2);
            })
            .unwrap();
    });
}

fn pods(cluster: &Cluster) {
    const COUNT: usize = 30_000;
    let before = resident();
    let start = Instant::now();
    let controller = WriteOptions::by("kube-controller-manager");
    for at in 0..COUNT {
        let mut pod = template();
        pod["metadata"]["name"] = json!(format!("p{at}"));
        pod["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true }]);
        cluster.create(PODS, "default", pod, &controller).unwrap();
    }
    let created = start.elapsed();
    let start = Instant::now();
    for at in 0..COUNT {
        let name = format!("p{at}");
        cluster.bind("default", &name, "node").unwrap();
        cluster
            .modify(PODS, Part::Status, "default", &name, &WriteOptions::by("kubelet"), |value| {
                value["status"]["phase"] = json!("Running");
                value["status"]["podIP"] = json!("10.1.2.3");
            })
            .unwrap();
    }
    println!(
        "{COUNT} pods: created in {created:?}, bound and running in {:?}; {} MiB more resident",
        start.elapsed(),
        (resident() - before) >> 10
    );
    let start = Instant::now();
    let bytes: usize = cluster.list(PODS, None).0.iter().map(|pod| pod.json.len()).sum();
    println!("list of {COUNT} pods: {:?}, {} MiB", start.elapsed(), bytes >> 20);
}

/// Resident memory of this process in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap_or_default()
}
