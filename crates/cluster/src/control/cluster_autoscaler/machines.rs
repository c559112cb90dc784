//! What a cloud would do for the autoscaler: machines that are started and register as nodes after a while.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::component::writes;
use super::configuration::pools;
use crate::clock::later;
use crate::cluster::{Cluster, Part};
use crate::control::plane::Plane;
use crate::node_pools::{NAMESPACE, NODE_POOLS, NodePool, POOL_LABEL, Present};
use crate::resource::{CONFIG_MAPS, NODES};

/// Writes which machines of a pool are being started.
fn set_starting(cluster: &Cluster, name: &str, pool: &NodePool) {
    let text = serde_json::to_string(pool).unwrap_or_default();
    // Whoever removed the pool meanwhile wants no machines of it.
    let _written = cluster.modify(CONFIG_MAPS, Part::Main, NAMESPACE, NODE_POOLS, &writes(), |map| {
        if map["data"][name].is_string() {
            map["data"][name] = json!(text);
        }
    });
}

/// Starts machines of a pool.
pub(super) fn start(plane: &Plane, name: &str, pool: &mut NodePool, count: u32) {
    let due = later(plane.now(), SignedDuration::from_secs(i64::from(pool.start_seconds)));
    pool.starting.extend((0..count).map(|_| due));
    set_starting(&plane.cluster, name, pool);
}

/// Registers the machines whose time has come; says whether any came, and when the next one comes.
pub(super) fn register(plane: &mut Plane) -> (bool, Option<Timestamp>) {
    let now = plane.now();
    let (mut any, mut next): (bool, Option<Timestamp>) = (false, None);
    for (name, mut pool) in pools(&plane.cluster) {
        let due = pool.starting.iter().filter(|due| **due <= now).count();
        pool.starting.retain(|due| *due > now);
        next = pool.starting.iter().copied().chain(next).min();
        if due == 0 {
            continue;
        }
        any = true;
        for _ in 0..due {
            let Some(node) = pool.next_node(&present(plane, &name)) else { break };
            if let Err(status) = plane.cluster.create(NODES, "", node, &writes()) {
                tracing::warn!(pool = name, status.message, "a node could not be registered");
            }
        }
        set_starting(&plane.cluster, &name, &pool);
    }
    (any, next)
}

/// The nodes of the cluster, read from it: the view may not have those of this moment.
fn present(plane: &Plane, pool: &str) -> Vec<Present> {
    let (nodes, _) = plane.cluster.list(NODES, None);
    nodes
        .iter()
        .map(|node| {
            let value = node.value();
            let addresses = value["status"]["addresses"].as_array();
            let mut addresses = addresses.into_iter().flatten();
            let internal = addresses.find(|address| address["type"] == "InternalIP");
            Present {
                name: node.name.to_string(),
                address: internal.and_then(|it| it["address"].as_str()).unwrap_or_default().to_owned(),
                is_of_pool: node.label(POOL_LABEL) == Some(pool),
            }
        })
        .collect()
}

/// How many nodes each pool has, the ones that are there.
pub(super) fn counts(plane: &Plane) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for node in plane.view.nodes() {
        if let Some(pool) = node.object.label(POOL_LABEL) {
            *counts.entry(pool.to_owned()).or_insert(0) += 1;
        }
    }
    counts
}
