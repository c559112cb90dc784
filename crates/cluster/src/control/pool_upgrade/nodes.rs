//! What an upgrade does to nodes: surge nodes and reimaged ones register, old ones are cordoned, marked and deleted.

use jiff::Timestamp;
use klab_api_machinery::resource::{NODES, PODS};
use klab_api_machinery::value::map_mut;
use klab_api_machinery::views::metadata;
use serde_json::{Value, json};

use crate::cluster::{DeleteOptions, Part, WriteOptions};
use crate::control::events::reference;
use crate::control::plane::Plane;
use klab_api_machinery::node_pools::{NodePool, Present};
use klab_api_machinery::pool_upgrades::{Member, Phase, PoolUpgrade, QUARANTINED, UPGRADE_STATUS_LABEL};

/// The name of AKS's upgrader in events.
pub(super) const COMPONENT: &str = "upgrader";

/// Writes an event about a node, which may be gone.
pub(super) fn tell(plane: &mut Plane, node: &str, warning: bool, reason: &str, message: &str) {
    let known = plane.cluster.get(NODES, "", node).map(|node| reference(&node));
    let about = known.unwrap_or_else(|| json!({ "kind": "Node", "name": node, "apiVersion": "v1" }));
    plane.note_about(&about, COMPONENT, warning, reason, message);
}

/// Whether there is a node of this name.
pub(super) fn exists(plane: &Plane, node: &str) -> bool {
    plane.cluster.get(NODES, "", node).is_some()
}

fn change(plane: &Plane, node: &str, change: impl FnOnce(&mut Value)) {
    let _changed = plane.cluster.modify(NODES, Part::Main, "", node, &WriteOptions::by(COMPONENT), change);
}

/// Keeps new pods off a node.
pub(super) fn cordon(plane: &Plane, node: &str) {
    change(plane, node, |node| node["spec"]["unschedulable"] = json!(true));
}

/// Lets pods onto a node again.
pub(super) fn uncordon(plane: &Plane, node: &str) {
    change(plane, node, |node| drop(map_mut(&mut node["spec"]).remove("unschedulable")));
}

/// Marks a node that stays cordoned.
pub(super) fn quarantine(plane: &Plane, node: &str) {
    change(plane, node, |node| node["metadata"]["labels"][UPGRADE_STATUS_LABEL] = json!(QUARANTINED));
}

/// Surge nodes whose machines are starting: they take up the next numbers that are free.
pub(super) fn surge_members(
    plane: &Plane,
    pool: &str,
    upgrade: &PoolUpgrade,
    count: usize,
    until: Timestamp,
) -> Vec<Member> {
    let (nodes, _) = plane.cluster.list(NODES, None);
    let mut present: Vec<Present> = nodes.iter().map(|node| Present::of(&node.value())).collect();
    // Numbers of nodes that have gone are not taken up again.
    let asked = upgrade
        .surge_nodes
        .iter()
        .chain(&upgrade.nodes)
        .filter_map(|node| upgrade.pool.node(node.number, &node.name, None));
    present.extend(asked.map(|node| Present::of(&node)));
    let new: Vec<Value> = upgrade.pool.new_nodes(pool, &present).take(count).collect();
    new.iter()
        .filter_map(|node| {
            let name = metadata(node).name();
            let member = PoolUpgrade::member(&upgrade.pool, name, Present::of(node).address())?;
            Some(Member { phase: Phase::Starting(until), ..member })
        })
        .collect()
}

/// A surge node registers.
pub(super) fn register_surge(plane: &mut Plane, pool: &str, machines: &NodePool, node: &Member) {
    register(plane, machines, node);
    let name = &node.name;
    tell(plane, name, false, "Surge", &format!("Created a surge node {name} for agentpool {pool}"));
}

/// A node registers. One of its name that is there already stays.
pub(super) fn register(plane: &mut Plane, machines: &NodePool, node: &Member) {
    let Some(value) = machines.node(node.number, &node.name, node.template) else { return };
    let _registered = plane.cluster.create(NODES, "", value, &WriteOptions::by("kubelet"));
}

/// Deletes a node from the API server. The pods that are left there end with its machine: those of DaemonSets and of the node
/// itself.
pub(super) fn withdraw(plane: &mut Plane, node: &str) {
    let _deleted = plane.cluster.delete(NODES, "", node, &DeleteOptions::default());
    for pod in plane.view.pods_on(node) {
        let options = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
        let _ended = plane.cluster.delete(PODS, &pod.object.namespace, &pod.object.name, &options);
    }
}
