//! How fast pods are placed and explained: `cargo bench -p klab-scheduler`.
//!
//! Every pod is read from its API object, filtered and scored against every node, and bound; no node is left out.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and has nobody to report errors to")]

#[path = "../../../benches/machine/mod.rs"]
mod machine;

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use klab_scheduler::{Cluster, Outcome, Profiles, TieBreak, admission};
use serde_json::{Value, json};

use machine::machine;

fn main() {
    println!("machine: {}, klab {}", machine(), env!("CARGO_PKG_VERSION"));
    let default = Profiles::default();
    throughput("plain pods", &default, 1_000, 10_000, 20_000, &plain);
    throughput("plain pods", &default, 5_000, 30_000, 10_000, &plain);
    throughput("zone spread + hostname anti-affinity", &default, 1_000, 3_000, 5_000, &|number| spread(number, 10));
    throughput("20 deployments of a service (default spreading)", &default, 1_000, 10_000, 0, &of_service);
    throughput("every pod different", &default, 1_000, 2_000, 0, &different);
    for (what, profile) in configured() {
        throughput(&format!("plain pods, {what}"), &profile, 1_000, 10_000, 50_000, &plain);
    }
    if wanted("reasons") {
        explain(5_000);
    }
    if wanted("preemption") {
        preempt(5_000);
    }
    if wanted("what if") {
        what_if(5_000);
    }
}

fn node(number: usize) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": format!("node-{number:05}"), "labels": {
            "kubernetes.io/hostname": format!("node-{number:05}"),
            "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
            "topology.kubernetes.io/region": "region",
            "kubernetes.io/os": "linux",
            "pool": format!("pool-{}", number % 10),
        }},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}},
    }))
    .unwrap()
}

fn pod(name: String, app: &str, cpu: usize, extra: Value) -> Pod {
    let mut spec = json!({
        "containers": [{"name": "c", "image": "reg.example/web:1",
            "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": "128Mi"}}}],
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let object = json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": app}}, "spec": spec});
    let mut pod = serde_json::from_value(object).unwrap();
    admission::admit(&mut pod).unwrap();
    pod
}

fn plain(number: usize) -> Pod {
    pod(format!("plain-{number}"), "plain", 100, json!({}))
}

/// Of `apps` applications, each with at most one pod a node.
fn spread(number: usize, apps: usize) -> Pod {
    let app = format!("app-{}", number % apps);
    let selector = json!({"matchLabels": {"app": app}});
    let extra = json!({
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]}},
    });
    pod(format!("spread-{number}"), &app, 100, extra)
}

fn of_service(number: usize) -> Pod {
    pod(format!("web-{number}"), &format!("svc-{}", number % 20), 50, json!({}))
}

fn different(number: usize) -> Pod {
    pod(format!("odd-{number}"), &format!("odd-{number}"), 10 + number % 1000, json!({"priority": number}))
}

fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new(TieBreak::Seeded(1));
    for number in 0..nodes {
        cluster.set_node(&node(number)).unwrap();
    }
    for number in 0..20 {
        let app = format!("svc-{number}");
        let service = json!({"metadata": {"name": app, "namespace": "default"}, "spec": {"selector": {"app": app}}});
        cluster.set_service(&serde_json::from_value(service).unwrap());
    }
    cluster
}

/// Profiles that do other work for a pod than the default one.
fn configured() -> Vec<(&'static str, Profiles)> {
    let resources = json!([{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]);
    let shape =
        json!([{"utilization": 0, "score": 0}, {"utilization": 60, "score": 10}, {"utilization": 100, "score": 4}]);
    let ratio = json!({"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}, "resources": [
        {"name": "cpu", "weight": 2}, {"name": "memory"}, {"name": "ephemeral-storage"}, {"name": "example.com/gpu", "weight": 5}]});
    let balanced = json!({"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": "ephemeral-storage"}]});
    let preferred = json!({"weight": 10, "preference": {
        "matchExpressions": [{"key": "pool", "operator": "In", "values": ["pool-3", "pool-7"]}]}});
    let filters = ["InterPodAffinity", "PodTopologySpread", "NodeResourcesFit"].map(|name| json!({ "name": name }));
    let profiles = [
        (
            "bin packing (MostAllocated)",
            json!({
                "pluginConfig": [
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated", "resources": resources}}}],
                "plugins": {"multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 5}],
                    "disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
            }),
        ),
        (
            "a shape and four resources, added affinity",
            json!({
                "pluginConfig": [
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": ratio}},
                    {"name": "NodeResourcesBalancedAllocation", "args": balanced},
                    {"name": "NodeAffinity", "args": {"addedAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}}],
            }),
        ),
        ("filters in another order", json!({"plugins": {"filter": {"enabled": filters}}})),
    ];
    let read = |(what, profile): (&'static str, Value)| {
        let configuration = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [profile]});
        (what, Profiles::from_configuration(&configuration).unwrap())
    };
    profiles.map(read).into()
}

/// Time on a processor, which other work on the machine does not lengthen.
fn cpu_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(schedstat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// Whether a case is asked for: all are, unless words of their titles are given (`-- plain`).
fn wanted(title: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| title.contains(&word))
}

fn throughput(what: &str, profiles: &Profiles, nodes: usize, pods: usize, goal: usize, make: &dyn Fn(usize) -> Pod) {
    if !wanted(what) {
        return;
    }
    let mut cluster = cluster(nodes);
    cluster.set_profiles(Arc::new(profiles.clone()));
    let pods: Vec<Pod> = (0..pods).map(make).collect();
    let before = resident();
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut placed = 0;
    for pod in &pods {
        if let Outcome::Scheduled { node } = cluster.schedule(pod).unwrap().outcome {
            cluster.bind(pod, &node).unwrap();
            placed += 1;
        }
    }
    let (took, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    let bytes = resident().saturating_sub(before);
    let per_second = |time: Duration| pods.len() as f64 / time.as_secs_f64();
    println!(
        "{what}: {nodes} nodes, {} pods ({placed} placed): {:.0} pods/s, {:.0} per second of cpu time, {} bytes a placed pod{}",
        pods.len(),
        per_second(took),
        per_second(cpu),
        bytes / placed.max(1),
        verdict(goal as f64, per_second(took), per_second(cpu)),
    );
}

fn verdict(goal: f64, rate: f64, by_cpu: f64) -> String {
    match goal {
        0.0 => String::new(),
        _ if rate >= goal => format!(" (goal {goal}: met)"),
        _ if by_cpu >= goal => format!(" (goal {goal}: met by cpu time, the machine is busy)"),
        _ => format!(" (goal {goal}: MISSED)"),
    }
}

/// The shortest of five runs, after one to warm up.
fn shortest(mut run: impl FnMut()) -> Duration {
    run();
    let times = (0..5).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

/// A cluster in which most nodes are full, and a pod that fits nowhere.
fn full(nodes: usize) -> (Cluster, Pod) {
    let mut cluster = cluster(nodes);
    for number in 0..nodes * 4 {
        let pod = pod(format!("full-{number}"), "full", 1_900, json!({}));
        cluster.bind(&pod, &format!("node-{:05}", number % nodes)).unwrap();
    }
    let extra = json!({"nodeSelector": {"pool": "pool-3"}, "affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "full"}}}]}}});
    (cluster, pod("pending".to_owned(), "pending", 2_000, extra))
}

fn explain(nodes: usize) {
    let (mut cluster, pod) = full(nodes);
    let took = shortest(|| assert_eq!(cluster.evaluate_all(&pod).unwrap().len(), nodes));
    println!("all reasons of a pending pod on {nodes} nodes: {:.1} ms", took.as_secs_f64() * 1e3);
    let took = shortest(|| assert_eq!(cluster.attempt(&pod).unwrap().nodes.len(), nodes));
    println!("full attempt with message and preemption on {nodes} nodes: {:.1} ms", took.as_secs_f64() * 1e3);
    let took = shortest(|| assert!(!cluster.schedule(&pod).unwrap().message.is_empty()));
    println!("the same without details: {:.1} ms", took.as_secs_f64() * 1e3);
}

fn preempt(nodes: usize) {
    let (mut cluster, _) = full(nodes);
    let low = pod("low".to_owned(), "low", 2_000, json!({}));
    let took = shortest(|| assert!(!cluster.schedule(&low).unwrap().message.is_empty()));
    println!("a pod that fits nowhere and may evict nobody, {nodes} nodes: {:.1} ms", took.as_secs_f64() * 1e3);
    let high = pod("high".to_owned(), "high", 2_000, json!({"priority": 1000}));
    let took = shortest(|| match cluster.schedule(&high).unwrap().outcome {
        Outcome::Preempting(preemption) => assert_eq!(preemption.candidates.len(), nodes),
        other => panic!("{other:?}"),
    });
    println!("a pod that preempts, victims weighed on all of {nodes} nodes: {:.1} ms", took.as_secs_f64() * 1e3);
}

fn what_if(nodes: usize) {
    let (cluster, pod) = full(nodes);
    let took = shortest(|| {
        let mut other = cluster.clone();
        other.set_node(&node(nodes)).unwrap();
        assert!(!other.schedule(&pod).unwrap().message.is_empty());
    });
    println!(
        "clone of {nodes} nodes with {} pods, one more node, one decision: {:.1} ms",
        nodes * 4,
        took.as_secs_f64() * 1e3
    );
}
