//! How long answers take: `cargo bench -p klab-whatif`, on a cluster of 1,000 nodes with 10,000 pods.
#![expect(clippy::print_stdout, reason = "the figures are the purpose")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot go on has failed")]

use std::time::{Duration, Instant};

use klab_api_machinery::resource::ResourceId;
use klab_cluster::Cluster;
use klab_whatif::{Capture, Change, KINDS, Twin, fit, shrink, survive, what_if};
use serde_json::{Value, json};

/// klab's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: usize = 1_000;
const WORKLOADS: usize = 200;
const PODS_OF_EACH: usize = 50;

fn node(number: usize) -> Value {
    let resources = json!({ "cpu": "8", "memory": "32Gi", "pods": "110" });
    let name = format!("node-{number:04}");
    let labels = json!({
        "kubernetes.io/hostname": name, "agentpool": format!("pool{}", number % 4),
        "topology.kubernetes.io/zone": format!("westeurope-{}", number % 3),
    });
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
        "status": { "capacity": resources, "allocatable": resources, "nodeInfo": { "kubeletVersion": "v1.36.2" } },
    })
}

fn deployment(number: usize) -> Value {
    let labels = json!({ "app": format!("app-{number}") });
    let requests = json!({ "cpu": format!("{}m", 100 + number % 7 * 100), "memory": "256Mi" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": format!("app-{number}") },
        "spec": {
            "replicas": PODS_OF_EACH, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1.27", "resources": { "requests": requests } }] },
            },
        },
    })
}

fn captured(cluster: &Cluster) -> Capture {
    let mut capture = Capture::default();
    for kind in KINDS {
        let Some(resource) = ResourceId::by_kind(kind.api_version, kind.kind) else { continue };
        let objects: Vec<Value> =
            cluster.inner().list(resource, None).0.iter().map(|object| object.to_value()).collect();
        capture.add(kind, &objects);
    }
    capture.finish();
    capture
}

/// Seconds of processor time that this process has used, as Linux counts it in hundredths: what others use does not change it.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn timed<T>(what: &str, target: Duration, work: impl FnOnce() -> T) -> T {
    let (begun, used) = (Instant::now(), processor_time());
    let done = work();
    let (took, used) = (begun.elapsed(), processor_time() - used);
    let met = if took <= target { "met" } else { "MISSED" };
    println!(
        "{what}: {:.2} s ({used:.2} s of processor time); target {:.1} s: {met}",
        took.as_secs_f64(),
        target.as_secs_f64()
    );
    done
}

fn main() {
    let objects = (0..NODES).map(node).chain((0..WORKLOADS).map(deployment));
    let cluster = Cluster::builder().objects(objects).build().expect("a cluster");
    cluster.advance(Duration::from_mins(2));
    let capture = timed("a capture of its objects", Duration::from_secs(10), || captured(&cluster));
    let text = capture.text();
    println!("{} objects, {} MiB as a file", capture.objects.len(), text.len() >> 20);
    let capture = timed("the file read", Duration::from_secs(1), || Capture::read(&text).expect("a capture"));
    timed("one copy", Duration::from_secs(1), || Twin::of(&capture, 0).expect("a copy"));
    for change in [
        Change::pool("pool1=200").expect("a change"),
        Change::Drain { target: "pool2".to_owned() },
        Change::ZoneDown { zone: "1".to_owned() },
        Change::scale("deployment/app-3=500").expect("a change"),
        Change::pool("pool0=300").expect("a change"),
    ] {
        let answer = timed(&change.words(), Duration::from_secs(1), || {
            what_if(&capture, std::slice::from_ref(&change)).expect("an answer")
        });
        println!("  {} workloads changed, {} pods blocked", answer.workloads.len(), answer.blocked.len());
    }
    let survival = timed("survive", Duration::from_secs(10), || survive(&capture).expect("an answer"));
    println!("  {} nodes, {} pools, {} zones", survival.nodes.len(), survival.pools.len(), survival.zones.len());
    let fits = timed("fit", Duration::from_secs(1), || fit(&capture, &deployment(3)).expect("an answer"));
    println!("  {} more", fits.count());
    let shrunk = timed("shrink", Duration::from_secs(10), || shrink(&capture, false).expect("an answer"));
    println!("  {} nodes can go", shrunk.removed.values().map(Vec::len).sum::<usize>());
    // Linux alone says how much memory a process had at most.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("peak memory: {}", most.map_or("unknown", str::trim));
}
