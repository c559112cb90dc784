//! Whose work it is, and what it is about.

use klab_api_machinery::resource::{NODES, PODS};

use super::super::controller::Controller;
use super::super::queue::{Key, ObjectName};

/// Who writes statuses and events.
pub(super) const COMPONENT: &str = "kubelet";

/// A look at a pod.
pub(super) fn key(name: ObjectName) -> Key {
    Key::new(Controller::Kubelet, PODS, name)
}

/// A look at a node.
pub(super) fn node_key(name: &str) -> Key {
    Key::new(Controller::Kubelet, NODES, ObjectName::new("", name))
}
