//! Whose objects are: the controller among the owners.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The controller among an object's owners.
pub fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether a pod is of a DaemonSet.
pub fn is_of_daemon_set(pod: &Pod) -> bool {
    controller(&pod.metadata).is_some_and(|owner| owner.kind == "DaemonSet")
}
