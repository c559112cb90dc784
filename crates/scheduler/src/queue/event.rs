//! What happened in the cluster that may help a pending pod.

use std::sync::Arc;

use crate::node_info::NodeSpec;
use crate::pod_info::PodInfo;
use crate::selector::Labels;

/// A pod as events describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// What it asks for.
    pub info: Arc<PodInfo>,
    /// Its labels.
    pub labels: Labels,
    /// Names of its resource claims, as far as they are known; only of pods that wait.
    pub resource_claims: Vec<String>,
}

/// Something that happened in the cluster and may help a pending pod. [`crate::Cluster`] returns these from its setters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A node came.
    NodeAdded(Arc<NodeSpec>),
    /// A node's labels, taints, cordon or allocatable changed.
    NodeChanged {
        /// Before.
        old: Arc<NodeSpec>,
        /// Now.
        new: Arc<NodeSpec>,
    },
    /// A node went.
    NodeRemoved(Arc<NodeSpec>),
    /// A pod was bound to a node.
    PodAssigned(PodFacts),
    /// A bound pod's labels or requests changed.
    PodChanged {
        /// Before.
        old: PodFacts,
        /// Now.
        new: PodFacts,
    },
    /// A bound pod ended or was deleted, or a node is no longer kept for a pending one.
    PodRemoved(PodFacts),
    /// A claim, volume or storage class changed.
    VolumesChanged,
    /// A resource claim came, or its allocation or reservations changed.
    ResourceClaimChanged {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Whether it had devices and has none any more.
        deallocated: bool,
    },
    /// A class of devices or a slice came or changed.
    DevicesChanged,
}
