//! Drains of a copy's nodes: evictions by the budgets' leave, round by round, as kubectl and AKS do it.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use klab_api_machinery::resource::{NODES, PODS};
use klab_api_machinery::value::items;
use klab_cluster::Cluster;
use klab_cluster::clock::later;
use klab_cluster::cluster::{DeleteOptions, Part, WriteOptions};
use klab_scheduler::hash::{fnv64, mix};
use serde_json::json;

use crate::sanitise::stays;
use crate::twin::owner;

/// The pause between two rounds.
const PAUSE: Duration = Duration::from_secs(5);
/// How many rounds without an eviction show that a budget blocks for good: two minutes, in which new pods become ready.
const MAX_IDLE_ROUNDS: usize = 24;

/// A pod that a drain cannot evict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocked {
    /// The node.
    pub node: String,
    /// `namespace/name`.
    pub pod: String,
    /// Why, in the API server's words.
    pub why: String,
}

/// Who writes in a copy.
pub(crate) fn writer() -> WriteOptions<'static> {
    WriteOptions::client("klab-whatif")
}

/// Keeps new pods off nodes, or lets them come again.
pub(crate) fn cordon(cluster: &Cluster, nodes: &[String], unschedulable: bool) {
    for node in nodes {
        // A node that is gone needs none.
        let _changed = cluster.inner().modify(NODES, Part::Main, "", node, &writer(), |node| {
            node["spec"]["unschedulable"] = json!(unschedulable);
        });
    }
    cluster.settle();
}

/// Of what is done to several objects: lets controllers act in between, in half of the copies, as long as the seed says. It is a
/// few pieces of their work or some seconds.
pub(crate) fn meanwhile(cluster: &Cluster, seed: u64, object: &str) {
    if seed & 2 != 0 {
        let lot = mix(seed ^ fnv64(&[object.as_bytes()]));
        let mut left = 1_u32 << (lot % 10);
        let pause = SignedDuration::from_secs([0, 0, 1, 3][(lot >> 62) as usize]);
        cluster.pass_while(later(cluster.now(), pause), &mut || {
            left -= 1;
            left > 0
        });
    }
}

/// Cordons nodes and evicts their pods; gives those that no budget lets go. All are asked to go at once, so the seed says which is
/// the first, and whether controllers are as fast as the drain.
pub(crate) fn drain(cluster: &Cluster, nodes: &[String], seed: u64) -> Vec<Blocked> {
    cordon(cluster, nodes, true);
    let names: BTreeSet<&str> = nodes.iter().map(String::as_str).collect();
    let mut idle = 0;
    loop {
        let mut blocked = Vec::new();
        let (mut evicted, mut leaving) = (0, 0);
        let mut pods = cluster.inner().list(PODS, None).0;
        if seed > 0 {
            pods.sort_by_cached_key(|pod| mix(seed ^ fnv64(&[pod.uid.as_bytes()])));
        }
        for pod in pods {
            let value = pod.value();
            let Some(node) = value["spec"]["nodeName"].as_str().filter(|node| names.contains(node)) else { continue };
            if owner(&pod, &value).is_some_and(|(kind, _)| stays(kind)) {
                continue;
            }
            if pod.deleting {
                leaving += 1;
                continue;
            }
            match cluster.inner().evict(&pod.namespace, &pod.name, &DeleteOptions::default()) {
                Ok(_) => {
                    evicted += 1;
                    meanwhile(cluster, seed, &pod.uid);
                }
                Err(status) => {
                    let causes = items(&status.details["causes"]).iter().filter_map(|cause| cause["message"].as_str());
                    let why = causes.map(str::to_owned).next().unwrap_or(status.message);
                    let (node, pod) = (node.to_owned(), format!("{}/{}", pod.namespace, pod.name));
                    blocked.push(Blocked { node, pod, why });
                }
            }
        }
        idle = if evicted + leaving > 0 { 0 } else { idle + 1 };
        if evicted + leaving == 0 && blocked.is_empty() {
            return blocked;
        }
        if idle > MAX_IDLE_ROUNDS {
            return blocked;
        }
        cluster.advance(PAUSE);
    }
}
