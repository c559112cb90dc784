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
    /// A bound pod ended or was deleted.
    PodRemoved(PodFacts),
    /// A node is no longer kept for this pending pod. Only pods of its priority and below had to heed that.
    NominationWithdrawn(PodFacts),
    /// The waiting pod itself changed.
    ItselfChanged {
        /// Before.
        old: PodFacts,
        /// Now.
        new: PodFacts,
    },
    /// A PersistentVolumeClaim came or changed.
    VolumeClaim {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Whether it is new.
        added: bool,
    },
    /// A PersistentVolume came or changed.
    Volume {
        /// Whether it is new, or of another zone or region than before.
        moved: bool,
    },
    /// A StorageClass came or changed.
    StorageClass {
        /// Whether it is new.
        added: bool,
        /// Whether claims of the class are bound where their pods are placed.
        late: bool,
        /// Whether it is new, or volumes are made elsewhere than before.
        moved: bool,
    },
    /// The drivers of a node came (CSINode), or what a driver has room for grew (CSIStorageCapacity).
    StorageDriver,
    /// A resource claim came or changed.
    ResourceClaimChanged {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Whether it had devices and has none any more.
        deallocated: bool,
    },
    /// A class of devices came or changed.
    DeviceClass {
        /// The extended resources that are its devices from now on, and were not.
        resources: Vec<String>,
    },
    /// A slice of a pool of devices came or changed.
    ResourceSlice,
}

/// A kind of event that plugins register for.
// upstream: staging/src/k8s.io/kube-scheduler/framework/types.go ActionType, EventResource (v1.36)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    NodeAdd,
    NodeDelete,
    NodeAllocatable,
    NodeLabel,
    NodeTaint,
    PodAdd,
    PodDelete,
    PodLabel,
    PodScaleDown,
    PodToleration,
    PodResourceClaim,
    VolumeClaimAdd,
    VolumeClaimUpdate,
    Volume,
    StorageClassAdd,
    StorageClassUpdate,
    StorageDriver,
    ResourceClaim,
    DeviceClass,
    ResourceSlice,
}

impl Event {
    /// The kinds that an event is of: a change of a node or a pod may be several at once, or none that helps anybody.
    // upstream: pkg/scheduler/framework/events.go NodeSchedulingPropertiesChange, PodSchedulingPropertiesChange (v1.36)
    pub(super) fn kinds(&self) -> Vec<Kind> {
        match self {
            Self::NodeAdded(_) => vec![Kind::NodeAdd],
            Self::NodeRemoved(_) => vec![Kind::NodeDelete],
            Self::NodeChanged { old, new } => {
                let resized = (&old.allocatable, old.allowed_pods) != (&new.allocatable, new.allowed_pods);
                let opened = old.unschedulable && !new.unschedulable;
                present([
                    (Kind::NodeAllocatable, resized),
                    (Kind::NodeLabel, old.labels != new.labels),
                    (Kind::NodeTaint, opened || old.taints != new.taints),
                ])
            }
            Self::PodAssigned(_) => vec![Kind::PodAdd],
            Self::PodRemoved(_) | Self::NominationWithdrawn(_) => vec![Kind::PodDelete],
            Self::PodChanged { old, new } | Self::ItselfChanged { old, new } => present([
                (Kind::PodLabel, old.labels != new.labels),
                (Kind::PodScaleDown, asks_for_less(&old.info, &new.info)),
                (Kind::PodToleration, old.info.tolerations.len() != new.info.tolerations.len()),
                (Kind::PodResourceClaim, old.resource_claims != new.resource_claims),
            ]),
            Self::VolumeClaim { added: true, .. } => vec![Kind::VolumeClaimAdd],
            Self::VolumeClaim { added: false, .. } => vec![Kind::VolumeClaimUpdate],
            Self::Volume { .. } => vec![Kind::Volume],
            Self::StorageClass { added: true, .. } => vec![Kind::StorageClassAdd],
            Self::StorageClass { added: false, .. } => vec![Kind::StorageClassUpdate],
            Self::StorageDriver => vec![Kind::StorageDriver],
            Self::ResourceClaimChanged { .. } => vec![Kind::ResourceClaim],
            Self::DeviceClass { .. } => vec![Kind::DeviceClass],
            Self::ResourceSlice => vec![Kind::ResourceSlice],
        }
    }
}

fn present<const N: usize>(kinds: [(Kind, bool); N]) -> Vec<Kind> {
    kinds.into_iter().filter(|(_, is)| *is).map(|(kind, _)| kind).collect()
}

/// Whether a pod requests less of any resource than before.
fn asks_for_less(old: &PodInfo, new: &PodInfo) -> bool {
    let (old, new) = (&old.resources.requests, &new.resources.requests);
    new.cpu < old.cpu
        || new.memory < old.memory
        || new.ephemeral_storage < old.ephemeral_storage
        || old.scalars.iter().any(|(name, amount)| new.scalar(name) < *amount)
}
