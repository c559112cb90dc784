//! Typed Kubernetes objects, read from their JSON text.
//!
//! A type of `k8s_openapi` is built once for every source that it is read from: text, a tree, TOML, the buffer of an enum. Of a pod
//! that is half a megabyte each time. Here is the one source, so that each type is built once, for all crates.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Affinity, ConfigMap, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec,
    ReplicationController, Service, Taint, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// A Kubernetes type that is read from JSON.
pub trait Typed: Sized {
    /// Reads it from text.
    ///
    /// # Errors
    /// When the text is not JSON, or does not fit the type.
    fn from_json(text: &[u8]) -> serde_json::Result<Self>;

    /// Reads it from a tree.
    ///
    /// # Errors
    /// When the tree does not fit the type.
    fn from_value(value: &Value) -> serde_json::Result<Self> {
        Self::from_json(&serde_json::to_vec(value)?)
    }
}

macro_rules! typed {
    ($($name:ty),* $(,)?) => {
        $(impl Typed for $name {
            // In every crate that asks, it would be built again.
            #[inline(never)]
            fn from_json(text: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_slice(text)
            }
        })*
    };
}

typed! {
    Affinity, CSINode, ConfigMap, DaemonSet, Deployment, DeviceClass, Event, HorizontalPodAutoscaler, Job, Namespace, Node, ObjectMeta, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, PodSpec, PriorityClass, ReplicaSet, ReplicationController, ResourceClaim,
    ResourceClaimTemplate, ResourceSlice, Service, StatefulSet, StorageClass, Taint, Toleration, TopologySpreadConstraint,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_and_trees_are_read_alike() {
        let value = json!({ "metadata": { "name": "a" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        let pod = Pod::from_value(&value).unwrap();
        assert_eq!(pod, Pod::from_json(value.to_string().as_bytes()).unwrap());
        assert_eq!(pod, serde_json::from_value::<Pod>(value).unwrap());
        assert!(Pod::from_value(&json!({ "spec": { "containers": 3 } })).is_err());
        assert!(Pod::from_value(&json!({ "apiVersion": "v1", "kind": "Node" })).is_err());
        assert!(Pod::from_json(b"{").is_err());
    }
}
