//! How fast the cluster autoscaler decides: `cargo bench -p klab-scheduler --bench autoscaling`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and has nobody to report errors to")]

#[path = "../../../benches/machine/mod.rs"]
mod machine;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use klab_scheduler::autoscaler::{Budgets, Candidate, NodeGroup, Owner, Profile, Template, Verdict, judge, scale_up};
use klab_scheduler::{Cluster, TieBreak, admission};
use serde_json::{from_value, json};

use machine::machine;

const POOLS: usize = 20;
const PODS: usize = 1_000;
/// How long a decision may take.
const GOAL: Duration = Duration::from_millis(100);

fn main() {
    println!("machine: {}, klab {}", machine(), env!("CARGO_PKG_VERSION"));
    grow("50 deployments", &|number| (number % 50, 100 + 20 * (number % 50)));
    grow("every pod different", &|number| (number, 100 + number));
    shrink(200);
}

fn node(name: &str, pool: usize) -> Node {
    let cpu = 2 + 2 * (pool % 8);
    let resources = json!({ "cpu": cpu.to_string(), "memory": format!("{}Gi", 4 * cpu), "pods": "110" });
    from_value(json!({
        "metadata": { "name": name, "labels": { "agentpool": format!("pool-{pool}"), "kubernetes.io/hostname": name } },
        "status": { "allocatable": resources, "capacity": resources },
    }))
    .unwrap()
}

fn pod(name: &str, app: usize, cpu: usize) -> Pod {
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{app}"), "uid": app.to_string(), "controller": true }]);
    let requests = json!({ "requests": { "cpu": format!("{cpu}m"), "memory": "256Mi" } });
    let mut pod = from_value(json!({
        "metadata": { "name": name, "namespace": "default", "labels": { "app": format!("app-{app}") }, "ownerReferences": owner },
        "spec": { "containers": [{ "name": "main", "image": "x", "resources": requests }] },
    }))
    .unwrap();
    admission::admit(&mut pod).unwrap();
    pod
}

/// A cluster of full nodes, a few of each pool.
fn full(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new(TieBreak::Seeded(1));
    for number in 0..nodes {
        let name = format!("node-{number}");
        cluster.set_node(&node(&name, number % POOLS)).unwrap();
        cluster.bind(&pod(&format!("full-{number}"), number, 2_000 + 2_000 * (number % POOLS % 8)), &name).unwrap();
    }
    cluster
}

fn grow(what: &str, of: &dyn Fn(usize) -> (usize, usize)) {
    let cluster = full(100);
    let pods: Vec<Pod> = (0..PODS)
        .map(|number| {
            let (app, cpu) = of(number);
            pod(&format!("waiting-{number}"), app, cpu)
        })
        .collect();
    let pods: Vec<&Pod> = pods.iter().collect();
    let groups: Vec<NodeGroup> = (0..POOLS)
        .map(|pool| NodeGroup {
            name: Arc::from(format!("pool-{pool}")),
            min: 0,
            max: 1_000,
            target: 5,
            upcoming: 0,
            is_backed_off: false,
            template: Template::new(&node("template", pool), &[]).unwrap(),
        })
        .collect();
    let took = shortest(|| {
        let decided = scale_up(&cluster, &pods, &groups, &Profile::default(), None, 1);
        assert!(!decided.resizes.is_empty());
    });
    report(&format!("{PODS} pods that wait ({what}), {POOLS} pools, 100 full nodes: which pool grows"), took);
}

fn shrink(nodes: usize) {
    let mut cluster = Cluster::new(TieBreak::Seeded(1));
    let mut pods = Vec::new();
    for number in 0..nodes {
        let name: Arc<str> = Arc::from(format!("node-{number}"));
        cluster.set_node(&node(&name, number % POOLS)).unwrap();
        for more in 0..3 {
            let pod = pod(&format!("idle-{number}-{more}"), number, 100);
            cluster.bind(&pod, &name).unwrap();
            pods.push((Arc::clone(&name), pod));
        }
    }
    let candidates: Vec<Candidate<'_>> = pods
        .chunks(3)
        .map(|of_node| Candidate {
            node: Arc::clone(&of_node[0].0),
            is_disabled: false,
            pods: of_node.iter().map(|(_, pod)| pod).collect(),
        })
        .collect();
    let (profile, now) = (Profile::default(), Timestamp::UNIX_EPOCH);
    let took = shortest(|| {
        let judged = judge(&cluster, &candidates, Budgets::default(), &|_| Owner::Present, &profile, now);
        assert!(judged.iter().any(|it| matches!(it.verdict, Verdict::Unneeded { .. })));
    });
    report(&format!("{nodes} nodes with 3 pods each: which of them nobody needs"), took);
}

fn report(what: &str, took: Duration) {
    let verdict = if took <= GOAL { "met" } else { "MISSED" };
    println!("{what}: {:.1} ms (goal {} ms: {verdict})", took.as_secs_f64() * 1e3, GOAL.as_millis());
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
