//! Nodes of a copy that a change selects, makes and takes away.

use std::collections::{BTreeMap, BTreeSet};

use klab_api_machinery::resource::{CSI_NODES, NODES, RESOURCE_SLICES};
use klab_cluster::Cluster;
use klab_cluster::cluster::DeleteOptions;
use klab_lab::spec::{Machine, VmSize};
use klab_lab::words::first_of;
use serde_json::{Value, json};

use crate::error::ChangeError;
use crate::pool::{pool_of, zone_of};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// The nodes by name, as they are.
pub(crate) fn all(cluster: &Cluster) -> BTreeMap<String, Value> {
    let nodes = cluster.inner().list(NODES, None).0;
    nodes.iter().map(|node| (node.name.to_string(), node.to_value())).collect()
}

/// The nodes of a pool, the highest number last.
pub(crate) fn of_pool(cluster: &Cluster, pool: &str) -> Result<Vec<(String, Value)>, ChangeError> {
    let all = all(cluster);
    let mut of_pool: Vec<_> =
        all.iter().filter(|(_, node)| pool_of(node) == pool).map(|(name, node)| (name.clone(), node.clone())).collect();
    of_pool.sort_by_key(|(name, _)| (name.len(), name.clone()));
    if of_pool.is_empty() {
        Err(ChangeError::NoPool { name: pool.to_owned(), pools: pools(&all) })
    } else {
        Ok(of_pool)
    }
}

/// The nodes that a node's or a pool's name means.
pub(crate) fn targeted(cluster: &Cluster, target: &str) -> Result<Vec<String>, ChangeError> {
    let all = all(cluster);
    if all.contains_key(target) {
        return Ok(vec![target.to_owned()]);
    }
    let nodes = names(&all, |node| pool_of(node) == target);
    if nodes.is_empty() {
        Err(ChangeError::NoTarget { name: target.to_owned(), pools: pools(&all) })
    } else {
        Ok(nodes)
    }
}

/// The nodes of a zone, by its name or what follows its last `-`.
pub(crate) fn of_zone(cluster: &Cluster, zone: &str) -> Result<Vec<String>, ChangeError> {
    let all = all(cluster);
    let is_meant = |node: &Value| {
        zone_of(node)
            .is_some_and(|name| name == zone || name.rsplit_once('-').is_some_and(|(_, number)| number == zone))
    };
    let nodes = names(&all, is_meant);
    if nodes.is_empty() {
        let zones = all.values().filter_map(zone_of).map(str::to_owned);
        return Err(ChangeError::NoZone { name: zone.to_owned(), zones: listed(zones) });
    }
    Ok(nodes)
}

fn pools(nodes: &BTreeMap<String, Value>) -> String {
    listed(nodes.values().map(pool_of))
}

fn names(nodes: &BTreeMap<String, Value>, is_meant: impl Fn(&Value) -> bool) -> Vec<String> {
    nodes.iter().filter(|(_, node)| is_meant(node)).map(|(name, _)| name.clone()).collect()
}

/// Each name once, sorted.
fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect::<BTreeSet<String>>().into_iter().collect();
    if names.is_empty() { "none".to_owned() } else { first_of(&names, 12) }
}

/// Further nodes of a pool, empty and ready: each like the pool's nodes in the zone that has the fewest of them. They come at once, or
/// one after the other.
pub(crate) fn add(
    cluster: &Cluster,
    pool: &mut Vec<(String, Value)>,
    names: Vec<String>,
    at_once: bool,
) -> Result<(), ChangeError> {
    let mut made = Vec::new();
    for name in names {
        let mut zones: BTreeMap<Option<&str>, (usize, &(String, Value))> = BTreeMap::new();
        for node in &*pool {
            zones.entry(zone_of(&node.1)).or_insert((0, node)).0 += 1;
        }
        let Some((_, (like, node))) = zones.values().min_by_key(|(count, _)| *count) else { return Ok(()) };
        let node = make(cluster, &mut made, like, node, &name, None);
        pool.push((name, node));
        if !at_once {
            cluster.add_objects(&std::mem::take(&mut made))?;
        }
    }
    Ok(cluster.add_objects(&made)?)
}

/// Nodes like others, empty and ready, each under the name beside it, all at once.
pub(crate) fn add_like<'n>(
    cluster: &Cluster,
    nodes: impl Iterator<Item = (&'n (String, Value), &'n String)>,
    size: Option<&'static VmSize>,
) -> Result<(), ChangeError> {
    let mut made = Vec::new();
    for ((like, node), name) in nodes {
        make(cluster, &mut made, like, node, name, size);
    }
    Ok(cluster.add_objects(&made)?)
}

/// Makes a node like another, empty and ready, under this name; gives it as it is asked for.
fn make(
    cluster: &Cluster,
    made: &mut Vec<Value>,
    like: &str,
    node: &Value,
    name: &str,
    size: Option<&'static VmSize>,
) -> Value {
    let node = fresh(node, name, size);
    made.push(node.clone());
    let copied = |mut object: Value, new: String| {
        object["metadata"] = json!({ "name": new });
        object
    };
    if let Some(volumes) = cluster.inner().get(CSI_NODES, "", like) {
        made.push(copied(volumes.to_value(), name.to_owned()));
    }
    for slice in cluster.inner().list(RESOURCE_SLICES, None).0 {
        let value = slice.to_value();
        if value["spec"]["nodeName"] == *like {
            let mut slice = copied(value, format!("{name}-{}", slice.name));
            slice["spec"]["nodeName"] = json!(name);
            slice["spec"]["pool"]["name"] = json!(name);
            made.push(slice);
        }
    }
    node
}

/// The node as it comes: without what happened to it, and without taints of its condition.
fn fresh(node: &Value, name: &str, size: Option<&'static VmSize>) -> Value {
    let mut labels = node["metadata"]["labels"].clone();
    labels[HOSTNAME] = json!(name);
    let is_kept = |taint: &&Value| taint["key"].as_str().is_some_and(|key| !key.starts_with("node.kubernetes.io/"));
    let taints: Vec<Value> = node["spec"]["taints"].as_array().into_iter().flatten().filter(is_kept).cloned().collect();
    let mut status = json!({
        "capacity": node["status"]["capacity"], "allocatable": node["status"]["allocatable"],
        "nodeInfo": node["status"]["nodeInfo"],
    });
    if let Some(size) = size {
        resize(&mut labels, &mut status, size);
    }
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints }, "status": status,
    })
}

fn resize(labels: &mut Value, status: &mut Value, size: &'static VmSize) {
    let pods = status["capacity"]["pods"].as_str().and_then(|pods| pods.parse().ok()).unwrap_or(110);
    let machine = Machine::of_size(size);
    for key in ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"] {
        labels[key] = json!(size.name);
    }
    labels["kubernetes.io/arch"] = json!(size.arch);
    status["nodeInfo"]["architecture"] = json!(size.arch);
    for (field, resources) in [("capacity", machine.capacity(pods)), ("allocatable", machine.allocatable(pods))] {
        let mut amounts = json!({
            "cpu": format!("{}m", resources.cpu_millis), "memory": format!("{}Ki", resources.memory / 1024),
            "ephemeral-storage": resources.ephemeral_storage.to_string(), "pods": resources.pods.to_string(),
        });
        if resources.gpus > 0 {
            amounts["nvidia.com/gpu"] = json!(resources.gpus.to_string());
        }
        status[field] = amounts;
    }
}

/// Takes a node away; its pods go with it.
pub(crate) fn remove(cluster: &Cluster, name: &str) {
    // Gone already is gone, too.
    let _gone = cluster.inner().delete(NODES, "", name, &DeleteOptions::default());
    for slice in cluster.inner().list(RESOURCE_SLICES, None).0 {
        if slice.value()["spec"]["nodeName"] == *name {
            let _gone = cluster.inner().delete(RESOURCE_SLICES, "", &slice.name, &DeleteOptions::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_has_nothing_of_what_happened_to_the_old_one() {
        let node = json!({
            "metadata": { "name": "a", "uid": "1", "labels": { HOSTNAME: "a", "agentpool": "x" }, "annotations": { "klab.dev/heartbeat": "stopped" } },
            "spec": {
                "unschedulable": true,
                "taints": [{ "key": "node.kubernetes.io/not-ready", "effect": "NoExecute" }, { "key": "gpu", "effect": "NoSchedule" }],
            },
            "status": { "capacity": { "cpu": "4", "pods": "30" }, "allocatable": { "cpu": "3860m" }, "conditions": [{ "type": "Ready" }] },
        });
        let made = fresh(&node, "b", None);
        assert_eq!(made["metadata"], json!({ "name": "b", "labels": { HOSTNAME: "b", "agentpool": "x" } }));
        assert_eq!(made["spec"], json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] }));
        let larger = fresh(&node, "b", VmSize::find("Standard_D8s_v5"));
        assert_eq!(larger["status"]["capacity"]["cpu"], "8000m");
        assert_eq!(larger["status"]["allocatable"]["pods"], "30");
        assert_eq!(larger["metadata"]["labels"]["node.kubernetes.io/instance-type"], "Standard_D8s_v5");
    }
}
