//! How long upgrades of pools take: `cargo bench -p klab-cluster --bench upgrade`.
//!
//! A pool of 100 nodes with 3,000 pods is brought to another version on a clock that is stepped: with AKS's usual surge of 10%, and
//! with a budget that lets a drain take a few pods at a time. The time of the machine counts, not that of the cluster.
#![expect(clippy::print_stdout, reason = "the figures are the purpose")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot go on has failed")]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use klab_api_machinery::node_pools::{ADDRESS, NAME, NAMESPACE, NodeNames, NodePool, POOL_LABEL};
use klab_api_machinery::pool_upgrades::{End, POOL_UPGRADES, PoolUpgrade};
use klab_api_machinery::resource::{CONFIG_MAPS, DEPLOYMENTS, NODES, POD_DISRUPTION_BUDGETS, PODS};
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, DeleteOptions, WriteOptions};
use klab_cluster::control::{ControlPlane, Settings};
use serde_json::{Value, json};

/// klab's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES_OF_POOL: u32 = 100;
const PODS_OF_EACH: u32 = 30;
/// What an upgrade may take.
const TARGET: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;

fn pool(version: &str) -> NodePool {
    let resources = json!({ "cpu": "8", "memory": "32Gi", "pods": "110" });
    NodePool {
        min: 0,
        max: 0,
        group: "aks-apps-vmss".to_owned(),
        names: NodeNames::ScaleSet("aks-apps-vmss".to_owned()),
        first_address: Ipv4Addr::new(10, 224, 0, 4),
        templates: vec![json!({
            "metadata": { "name": NAME, "labels": { "kubernetes.io/hostname": NAME, POOL_LABEL: "apps" } },
            "status": {
                "capacity": resources, "allocatable": resources, "nodeInfo": { "kubeletVersion": version },
                "addresses": [{ "type": "InternalIP", "address": ADDRESS }],
            },
        })],
        capacity: None,
        start_seconds: 60,
        starting: Vec::new(),
    }
}

/// A cluster of which all pods run.
fn cluster(budget: bool) -> (Arc<SteppedClock>, Arc<Cluster>, ControlPlane) {
    let clock = Arc::new(SteppedClock::new("2026-06-01T08:00:00Z".parse().expect("a time")));
    let cluster = Arc::new(Cluster::new(Arc::<SteppedClock>::clone(&clock), 7));
    let options = WriteOptions::client("bench");
    for number in 0..NODES_OF_POOL {
        let text = pool("v1.35.0").templates[0].to_string();
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 224, 0, 4)).wrapping_add(number)).to_string();
        let text = text.replace(NAME, &format!("aks-apps-vmss{number:06}")).replace(ADDRESS, &address);
        let node: Value = serde_json::from_str(&text).expect("a node");
        cluster.create(NODES, "", node, &options).expect("a node");
    }
    let template = json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "main", "image": "nginx", "resources": { "requests": { "cpu": "200m" } } }] },
    });
    let selector = json!({ "matchLabels": { "app": "web" } });
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": { "replicas": NODES_OF_POOL * PODS_OF_EACH, "selector": selector, "template": template },
    });
    cluster.create(DEPLOYMENTS, "default", deployment, &options).expect("a Deployment");
    if budget {
        let budget = json!({ "metadata": { "name": "web" }, "spec": { "maxUnavailable": "1%", "selector": selector } });
        cluster.create(POD_DISRUPTION_BUDGETS, "default", budget, &options).expect("a budget");
    }
    let mut plane = ControlPlane::new(Arc::clone(&cluster), Settings::default());
    plane.run();
    (clock, cluster, plane)
}

/// The time of the machine, and that of the cluster.
fn upgrade(budget: bool) -> (Duration, SignedDuration) {
    let (clock, cluster, mut plane) = cluster(budget);
    assert_eq!(cluster.count(PODS), (NODES_OF_POOL * PODS_OF_EACH) as usize);
    let machines = pool("v1.36.0");
    let (nodes, _) = cluster.list(NODES, None);
    let members = nodes.iter().filter_map(|node| {
        let address = node.value()["status"]["addresses"][0]["address"].as_str()?.to_owned();
        PoolUpgrade::member(&machines, &node.name, &address)
    });
    let surge = NODES_OF_POOL / 10;
    let upgrade = PoolUpgrade {
        nodes: members.collect(),
        surge,
        at_once: surge,
        drain_timeout: 30 * 60,
        soak: 0,
        quarantines: false,
        replaces: false,
        blue_green: None,
        rollback: None,
        surge_nodes: Vec::new(),
        end: None,
        pool: machines,
    };
    let asked = json!({
        "metadata": { "name": POOL_UPGRADES, "namespace": NAMESPACE },
        "data": { "apps": serde_json::to_string(&upgrade).expect("JSON") },
    });
    let (begun, before) = (Instant::now(), cluster.now());
    let _none = cluster.delete(CONFIG_MAPS, NAMESPACE, POOL_UPGRADES, &DeleteOptions::default());
    cluster.create(CONFIG_MAPS, NAMESPACE, asked, &WriteOptions::client("bench")).expect("a ConfigMap");
    loop {
        let next = plane.run();
        let map = cluster.get(CONFIG_MAPS, NAMESPACE, POOL_UPGRADES).expect("a ConfigMap").value();
        if let Some(end) = PoolUpgrade::read(&map).remove("apps").and_then(|upgrade| upgrade.end) {
            assert_eq!(end, End::Succeeded);
            return (begun.elapsed(), cluster.now().duration_since(before));
        }
        clock.step_to(next.expect("an upgrade goes on"));
    }
}

fn main() {
    for (budget, words) in [(false, "no budget"), (true, "a budget that lets 30 pods be missing")] {
        let mut times: Vec<(Duration, SignedDuration)> = (0..ROUNDS).map(|_| upgrade(budget)).collect();
        times.sort();
        let (machine, cluster) = times[ROUNDS / 2];
        let verdict = match (budget, machine <= TARGET) {
            (true, _) => String::new(),
            (false, true) => format!("; target {TARGET:?}: reached"),
            (false, false) => format!("; target {TARGET:?}: MISSED"),
        };
        let pods = NODES_OF_POOL.saturating_mul(PODS_OF_EACH);
        println!(
            "upgrade of {NODES_OF_POOL} nodes with {pods} pods, {words}: {machine:.2?} for {cluster:#} of the cluster's \
             time{verdict}"
        );
    }
}
