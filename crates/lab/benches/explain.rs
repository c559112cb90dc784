//! How long it takes to explain one Pending pod on a large cluster, API calls left aside. `cargo bench -p klab-lab`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its figures and may stop at a fault")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use klab_lab::verify::{Context, Explainer, Explanation, Snapshot, Why};
use serde_json::{Value, json};

const NODES: usize = 5_000;
const POOLS: usize = 10;
const ROUNDS: usize = 15;

fn node(number: usize) -> Arc<Node> {
    let pool = format!("pool{}", number % POOLS);
    let name = format!("aks-{pool}-12345678-vmss{number:06}");
    let taints = (number % POOLS == 9).then(|| json!([{"key": "gpu", "value": "true", "effect": "NoSchedule"}]));
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {
                "agentpool": pool, "kubernetes.io/hostname": name, "disk": if number.is_multiple_of(2) { "ssd" } else { "hdd" },
                "topology.kubernetes.io/zone": format!("westeurope-{}", number % 3 + 1),
            }},
            "spec": {"taints": taints},
            "status": {
                "allocatable": {"cpu": "3860m", "memory": "12Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }))
        .unwrap(),
    )
}

fn pod(number: usize, node: Option<&str>, spec: &Value) -> Arc<Pod> {
    let app = number % 200;
    let mut pod = json!({
        "metadata": {"name": format!("app{app}-{number:06}"), "namespace": "default", "labels": {"app": format!("app{app}")}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "nginx:1.27", "resources": {"requests": {"cpu": "300m", "memory": "512Mi"}}}],
        },
        "status": {"phase": if node.is_some() { "Running" } else { "Pending" }},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn snapshot(pods: usize, pending: &Value) -> Snapshot {
    let nodes: Vec<Arc<Node>> = (0..NODES).map(node).collect();
    let name = |number: usize| nodes[number % NODES].metadata.name.as_deref();
    let mut placed: Vec<Arc<Pod>> = (0..pods).map(|number| pod(number, name(number), &json!({}))).collect();
    placed.push(pod(pods, None, pending));
    Snapshot { nodes, pods: placed, ..Snapshot::default() }
}

/// Time this thread has had a processor, where the system tells: other work on the machine leaves it alone.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let cases = [
        ("selector and taint", json!({"nodeSelector": {"agentpool": "pool9"}})),
        ("cpu", json!({"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "3"}}}]})),
        (
            "too large for any node",
            json!({"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "8", "memory": "64Gi"}}}]}),
        ),
        (
            "selector, affinity and cpu",
            json!({
                "nodeSelector": {"disk": "nvme", "rack": "r1"},
                "affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}}},
                "containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "3"}}}],
            }),
        ),
        (
            "anti-affinity to all others",
            json!({"affinity": {"podAntiAffinity": {required: [
            {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "topologyKey": "kubernetes.io/hostname"}]}}}),
        ),
    ];
    println!("explain one Pending pod, {NODES} nodes, median of {ROUNDS} rounds");
    println!(
        "{:>7}  {:<30} {:>10} {:>12} {:>12}  suggestions",
        "pods", "what is in the way", "read cpu", "explain cpu", "both, wall"
    );
    for pods in [0, 30_000] {
        for (name, pending) in &cases {
            // Without other pods nothing but the pod's own rules can be in the way.
            if pods == 0 && matches!(*name, "cpu" | "anti-affinity to all others") {
                continue;
            }
            let snapshot = snapshot(pods, pending);
            let context = Context::default();
            let target = snapshot.pods.last().unwrap().metadata.name.clone().unwrap();
            let (mut reads, mut explains, mut both) = (Vec::new(), Vec::new(), Vec::new());
            let mut suggestions = 0;
            for _ in 0..ROUNDS {
                let start = Instant::now();
                let cpu = || processor_time().unwrap_or_else(|| start.elapsed());
                let cpu_start = cpu();
                let mut explainer = Explainer::new(&snapshot, &context);
                let cpu_read = cpu();
                let explanations: Vec<Explanation> = explainer.explain(&target, None).unwrap().pods;
                let (all, cpu_end) = (start.elapsed(), cpu());
                let Why::Pending(pending) = &explanations[0].why else { panic!("the pod has a place") };
                assert!(pending.fits.is_empty(), "the pod fits: {:?}", pending.fits.first());
                suggestions = pending.suggestions.len();
                reads.push(cpu_read.saturating_sub(cpu_start));
                explains.push(cpu_end.saturating_sub(cpu_read));
                both.push(all);
            }
            let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
            println!(
                "{pods:>7}  {name:<30} {:>10} {:>12} {:>12}  {suggestions}",
                ms(median(reads)),
                ms(median(explains)),
                ms(median(both))
            );
        }
    }
}
