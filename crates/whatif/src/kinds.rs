//! The kinds of objects that placement depends on, and what is open where you may not read one.

/// The ConfigMap in kube-system with what the cluster autoscaler says of itself.
pub const AUTOSCALER_STATUS: &str = "cluster-autoscaler-status";

/// A kind of objects that a capture reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The group and version that are read, as in `apiVersion`.
    pub api_version: &'static str,
    /// As in `kind`.
    pub kind: &'static str,
    /// As in paths.
    pub plural: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// What stays open without it: the end of "without them …".
    pub leaves_open: &'static str,
}

const fn kind(
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    leaves_open: &'static str,
) -> Kind {
    Kind { api_version, kind, plural, namespaced, leaves_open }
}

const DEVICES: &str = "pods that claim devices may go elsewhere, or wait";
const OWNERS: &str = "pods that go away are not made again";
const VOLUMES: &str = "pods with volumes may go to other zones and nodes";
const HOLD_BACK: &str = "klab may run pods that the cluster refuses";

/// All of them, in the order that a capture has them in.
pub const KINDS: &[Kind] = &[
    kind("v1", "Pod", "pods", true, "klab does not know all that runs"),
    kind("v1", "Node", "nodes", false, "klab does not know where anything can run"),
    kind("v1", "Namespace", "namespaces", false, "affinity that selects namespaces by labels finds none"),
    kind(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        "priorityclasses",
        false,
        "new pods have no priority and preempt none",
    ),
    kind(
        "node.k8s.io/v1",
        "RuntimeClass",
        "runtimeclasses",
        false,
        "new pods have no overhead and no nodes of their class",
    ),
    kind("apps/v1", "Deployment", "deployments", true, OWNERS),
    kind("apps/v1", "ReplicaSet", "replicasets", true, OWNERS),
    kind("apps/v1", "StatefulSet", "statefulsets", true, OWNERS),
    kind("apps/v1", "DaemonSet", "daemonsets", true, "new nodes do not get their pods"),
    kind(
        "apps/v1",
        "ControllerRevision",
        "controllerrevisions",
        true,
        "pods of StatefulSets and DaemonSets seem outdated",
    ),
    kind("batch/v1", "Job", "jobs", true, OWNERS),
    kind("v1", "ReplicationController", "replicationcontrollers", true, OWNERS),
    kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", true, "drains that the cluster blocks go through"),
    kind("v1", "Service", "services", true, "pods spread by default over other nodes"),
    kind("v1", "LimitRange", "limitranges", true, "new pods have other requests"),
    kind("v1", "ResourceQuota", "resourcequotas", true, HOLD_BACK),
    kind(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        true,
        "klab does not know which counts change by themselves",
    ),
    kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, VOLUMES),
    kind("v1", "PersistentVolume", "persistentvolumes", false, VOLUMES),
    kind("storage.k8s.io/v1", "StorageClass", "storageclasses", false, VOLUMES),
    kind("storage.k8s.io/v1", "CSINode", "csinodes", false, "nodes take any number of volumes"),
    kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", false, DEVICES),
    kind("resource.k8s.io/v1", "ResourceSlice", "resourceslices", false, DEVICES),
    kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", true, DEVICES),
    kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", true, DEVICES),
];

impl Kind {
    /// The kind of an object.
    pub fn of(object: &serde_json::Value) -> Option<&'static Self> {
        KINDS.iter().find(|kind| object["kind"] == kind.kind && object["apiVersion"] == kind.api_version)
    }

    /// The path of its objects on an API server, of one namespace or of all.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.api_version == "v1" { "/api" } else { "/apis" };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/{}/namespaces/{namespace}/{}", self.api_version, self.plural),
            None => format!("{root}/{}/{}", self.api_version, self.plural),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_an_api_server() {
        let kind = |plural: &str| *KINDS.iter().find(|kind| kind.plural == plural).unwrap();
        assert_eq!(kind("pods").path(Some("team")), "/api/v1/namespaces/team/pods");
        assert_eq!(kind("nodes").path(Some("team")), "/api/v1/nodes");
        assert_eq!(kind("jobs").path(None), "/apis/batch/v1/jobs");
    }
}
