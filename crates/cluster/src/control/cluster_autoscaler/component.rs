//! The autoscaler as a component of the cluster: the name it writes and speaks under.

use klab_api_machinery::resource::{CONFIG_MAPS, NODES};
use klab_api_machinery::value::list_mut;
use klab_api_machinery::views::Taint;
use serde_json::{Value, json};

use super::configuration::config_map;
use crate::cluster::{Part, WriteOptions};
use crate::control::events::reference;
use crate::control::plane::Plane;
use klab_api_machinery::node_pools::{NAMESPACE, STATUS};

/// Its name in events.
pub(super) const COMPONENT: &str = "cluster-autoscaler";

/// How its writes are recorded.
pub(super) fn writes() -> WriteOptions<'static> {
    WriteOptions::by(COMPONENT)
}

/// Writes an event about what the autoscaler does, on its status.
pub(super) fn tell(plane: &mut Plane, warning: bool, reason: &str, message: &str) {
    let about = config_map(&plane.cluster, STATUS).or_else(|| {
        let empty = json!({ "metadata": { "name": STATUS, "namespace": NAMESPACE }, "data": { "status": "" } });
        plane.cluster.create(CONFIG_MAPS, NAMESPACE, empty, &writes()).ok()
    });
    if let Some(about) = about {
        plane.note_about(&reference(&about), COMPONENT, warning, reason, message);
    }
}

/// Writes an event about a node, which may be gone.
pub(super) fn tell_of_node(plane: &mut Plane, node: &str, warning: bool, reason: &str, message: &str) {
    let known = plane.view.node(node).map(|node| reference(&node.object));
    let about = known.unwrap_or_else(|| json!({ "kind": "Node", "name": node, "apiVersion": "v1" }));
    plane.note_about(&about, COMPONENT, warning, reason, message);
}

/// Puts a taint on a node, in place of others of its key, or takes them off.
pub(super) fn set_taint(plane: &Plane, node: &str, key: &str, taint: Option<Value>) {
    let _written = plane.cluster.modify(NODES, Part::Main, "", node, &writes(), |node| {
        let taints = list_mut(&mut node["spec"]["taints"]);
        taints.retain(|have| Taint(have).key() != key);
        taints.extend(taint);
    });
}
