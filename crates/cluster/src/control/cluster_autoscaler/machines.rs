//! What a cloud would do for the autoscaler: machines that are started and register as nodes after a while, or never do.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{CONFIG_MAPS, NODES};
use klab_api_machinery::status::Status;
use klab_api_machinery::views::ConfigMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::component::writes;
use super::configuration::pools;
use crate::clock::{earlier, later};
use crate::cluster::{Cluster, Part};
use crate::control::plane::Plane;
use klab_api_machinery::node_pools::{MAX_NODES, NAMESPACE, NODE_POOLS, NodePool, POOL_LABEL, Present, STARTING};

/// Changes which machines of a pool are being started. All else in the ConfigMap is others' and stays as it is at that moment.
fn change_starting(cluster: &Cluster, name: &str, change: impl FnOnce(&mut Vec<Timestamp>)) -> Result<(), Status> {
    let written = cluster.modify(CONFIG_MAPS, Part::Main, NAMESPACE, NODE_POOLS, &writes(), |map| {
        // A pool that was removed meanwhile gets no machines.
        let Some(text) = ConfigMap(map).data().get(name) else { return };
        let Ok(mut pool) = serde_json::from_str::<Map<String, Value>>(text) else { return };
        let known = pool.get(STARTING).map(Vec::<Timestamp>::deserialize);
        let mut starting = known.and_then(Result::ok).unwrap_or_default();
        change(&mut starting);
        pool.insert(STARTING.to_owned(), json!(starting));
        map["data"][name] = json!(Value::Object(pool).to_string());
    });
    written.map(drop)
}

/// Starts machines of a pool.
///
/// # Errors
/// When it cannot be noted that they are on their way: then none is.
pub(super) fn start(plane: &Plane, name: &str, pool: &mut NodePool, count: u32) -> Result<(), Status> {
    let due = later(plane.now(), SignedDuration::from_secs(i64::from(pool.start_seconds)));
    let new = vec![due; count as usize];
    change_starting(&plane.cluster, name, |starting| starting.extend(&new))?;
    pool.starting.extend(new);
    Ok(())
}

/// Gives up the machines of a pool that are on their way.
pub(super) fn give_up(plane: &Plane, name: &str, pool: &mut NodePool) {
    pool.starting.clear();
    if let Err(status) = change_starting(&plane.cluster, name, Vec::clear) {
        tracing::warn!(pool = name, status.message, "machines that did not come could not be crossed out");
    }
}

/// When machines were asked for last, of those that are still to come.
pub(super) fn asked(pool: &NodePool) -> Option<Timestamp> {
    let due = pool.starting.iter().copied().max()?;
    Some(earlier(due, SignedDuration::from_secs(i64::from(pool.start_seconds))))
}

/// Registers the machines whose time has come and which the cloud has; says whether any came, and when the next one comes.
pub(super) fn register(plane: &mut Plane) -> (bool, Option<Timestamp>) {
    let now = plane.now();
    let pools = pools(&plane.cluster);
    let next = pools.values().flat_map(|pool| &pool.starting).copied().filter(|due| *due > now).min();
    let due = |pool: &NodePool| pool.starting.iter().any(|due| *due <= now);
    let pools: BTreeMap<String, NodePool> = pools.into_iter().filter(|(_, pool)| due(pool)).collect();
    if pools.is_empty() {
        return (false, next);
    }
    let mut any = false;
    let mut present = present(plane);
    for (name, pool) in &pools {
        let have = present.iter().filter(|node| node.pool == *name).count();
        let room = (pool.capacity.unwrap_or(MAX_NODES) as usize).saturating_sub(have);
        if room == 0 {
            continue;
        }
        // Crossed out first: what cannot be crossed out would come again and again.
        let mut come = 0;
        let crossed_out = change_starting(&plane.cluster, name, |starting| {
            starting.retain(|due| {
                let comes = *due <= now && come < room;
                come += usize::from(comes);
                !comes
            });
        });
        if let Err(status) = crossed_out {
            tracing::warn!(pool = name, status.message, "machines whose time has come could not be crossed out");
            continue;
        }
        any |= come > 0;
        let nodes: Vec<Value> = pool.new_nodes(name, &present).take(come).collect();
        for node in nodes {
            present.push(Present::of(&node));
            if let Err(status) = plane.cluster.create(NODES, "", node, &writes()) {
                tracing::warn!(pool = name, status.message, "a node could not be registered");
            }
        }
    }
    (any, next)
}

/// The nodes of the cluster, read from it: the view may not have those of this moment.
fn present(plane: &Plane) -> Vec<Present> {
    let (nodes, _) = plane.cluster.list(NODES, None);
    nodes.iter().map(|node| Present::of(&node.value())).collect()
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
