//! Why a node cannot take a pod: structured reasons whose text is kube-scheduler's to the letter.

// upstream: pkg/scheduler/framework/plugins/noderesources/fit.go InsufficientResource (v1.36)
// upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go Filter (v1.36)

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::devices::DeviceShortage;
use super::pod_info::HostPort;
use super::pod_key::PodKey;
use super::quantity::Quantity;
use super::selector::Requirement;
use super::taint::Taint;

/// A plugin, in the order in which the default profile lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub enum PluginName {
    /// Keeps gated pods out of the queue.
    SchedulingGates,
    /// Nodes marked unschedulable (cordoned).
    NodeUnschedulable,
    /// `spec.nodeName`.
    NodeName,
    /// Taints and tolerations.
    TaintToleration,
    /// Node selector and node affinity.
    NodeAffinity,
    /// Host ports.
    NodePorts,
    /// Requests against what is free.
    NodeResourcesFit,
    /// Claims that only one pod may use.
    VolumeRestrictions,
    /// Bound claims and where their volumes can be reached.
    VolumeBinding,
    /// Zones of volumes.
    VolumeZone,
    /// Topology spread constraints.
    PodTopologySpread,
    /// Pod affinity and anti-affinity.
    InterPodAffinity,
    /// Devices that claims ask for.
    DynamicResources,
    /// Evicts pods of lower priority.
    DefaultPreemption,
    /// Balance between cpu and memory.
    NodeResourcesBalancedAllocation,
    /// Images that are already there.
    ImageLocality,
}

impl PluginName {
    /// The plugin's name in Kubernetes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SchedulingGates => "SchedulingGates",
            Self::NodeUnschedulable => "NodeUnschedulable",
            Self::NodeName => "NodeName",
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::NodePorts => "NodePorts",
            Self::NodeResourcesFit => "NodeResourcesFit",
            Self::VolumeRestrictions => "VolumeRestrictions",
            Self::VolumeBinding => "VolumeBinding",
            Self::VolumeZone => "VolumeZone",
            Self::PodTopologySpread => "PodTopologySpread",
            Self::InterPodAffinity => "InterPodAffinity",
            Self::DynamicResources => "DynamicResources",
            Self::DefaultPreemption => "DefaultPreemption",
            Self::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            Self::ImageLocality => "ImageLocality",
        }
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether evicting pods could change a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub enum Code {
    /// Evicting pods might help.
    Unschedulable,
    /// Evicting pods cannot help.
    UnschedulableAndUnresolvable,
}

impl Code {
    /// The code's name in Kubernetes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        }
    }
}

/// One reason why a node (or every node) cannot take a pod, with the facts behind it.
///
/// `Display` is the text kube-scheduler gives; [`Reason::code`] whether eviction might help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The node is cordoned.
    Unschedulable,
    /// The pod asks for another node by name.
    NodeName {
        /// The name in `spec.nodeName`.
        requested: String,
    },
    /// Taints without toleration; all of them.
    UntoleratedTaints {
        /// The taints with effect `NoSchedule` or `NoExecute` that the pod does not tolerate.
        taints: Vec<Taint>,
    },
    /// `nodeSelector` asks for a label the node does not have.
    NodeSelector {
        /// The label's key.
        key: String,
        /// The value asked for.
        wanted: String,
        /// The node's value, if it has the label.
        found: Option<String>,
    },
    /// No term of the required node affinity matches.
    NodeAffinity {
        /// Per term the first condition the node does not meet; `None` for a term without conditions.
        unmet: Vec<Option<Requirement>>,
    },
    /// The pod is bound to other nodes by `metadata.name` conditions.
    NotAmongNamedNodes {
        /// The names it is bound to.
        names: Vec<String>,
        /// The plugin that first refused the node kept for the pod: kube-scheduler names it here, too.
        tried: Option<PluginName>,
    },
    /// No term of the node affinity that the scheduler's profile adds matches.
    EnforcedNodeAffinity,
    /// Node affinity asks for contradictory names; no node is looked at.
    ConflictingNodeNames,
    /// A host port is taken.
    HostPort {
        /// The port asked for.
        wanted: HostPort,
        /// The pod that holds a conflicting port; the first by name.
        holder: PodKey,
    },
    /// The node holds as many pods as it may.
    TooManyPods {
        /// Pods on the node.
        pods: i64,
        /// Pods it may hold.
        allowed: i64,
    },
    /// A resource is short. Amounts are in base units (millicores, bytes, counts).
    Insufficient {
        /// The resource's name.
        resource: String,
        /// What the pod requests.
        requested: i64,
        /// What the node's pods request.
        used: i64,
        /// What the node offers in all.
        allocatable: i64,
    },
    /// A claim of the pod does not exist; no node is looked at.
    ClaimNotFound {
        /// The claim's name.
        claim: String,
    },
    /// The claim of an ephemeral volume of the pod is still to be made; no node is looked at.
    ClaimAwaited {
        /// The claim's name.
        claim: String,
    },
    /// A claim is called like that of an ephemeral volume of the pod, and was not made for it; no node is looked at.
    ClaimOfOther {
        /// The claim's name.
        claim: String,
        /// The pod's namespace and name.
        pod: PodKey,
    },
    /// A claim of the pod has lost its volume; no node is looked at.
    ClaimLost {
        /// The claim's name.
        claim: String,
        /// The lost volume's name.
        volume: String,
    },
    /// A claim of the pod is being deleted; no node is looked at.
    ClaimTerminating {
        /// The claim's name.
        claim: String,
    },
    /// A claim that must be bound before scheduling is not; no node is looked at.
    UnboundImmediateClaim {
        /// The claim's name.
        claim: String,
    },
    /// A claim that is bound where its pod is placed finds no volume there, and none can be made.
    NoVolumeToBind {
        /// The claim's name.
        claim: String,
    },
    /// A claim is bound to a volume that does not exist.
    VolumeNotFound {
        /// The claim's name.
        claim: String,
        /// The missing volume's name.
        volume: String,
    },
    /// A volume cannot be reached from the node.
    VolumeNodeAffinity {
        /// The claim's name.
        claim: String,
        /// The volume's name.
        volume: String,
    },
    /// A volume belongs to another zone or region.
    VolumeZone {
        /// The volume's name.
        volume: String,
        /// The label it carries.
        key: String,
    },
    /// Another pod holds a `ReadWriteOncePod` claim.
    ClaimInUse {
        /// The claim's name.
        claim: String,
    },
    /// A topology spread constraint needs a label the node lacks.
    SpreadMissingLabel {
        /// Position in the pod's list of constraints.
        constraint: usize,
        /// The label's key.
        topology_key: String,
    },
    /// A topology spread constraint would be violated.
    Spread {
        /// Position in the pod's list of constraints.
        constraint: usize,
        /// The label whose values are the domains.
        topology_key: String,
        /// The node's domain.
        domain: String,
        /// Matching pods in that domain.
        matching: i64,
        /// Matching pods in the emptiest domain (0 while there are fewer domains than `minDomains`).
        minimum: i64,
        /// The emptiest domain; `None` while there are fewer domains than `minDomains`.
        emptiest: Option<String>,
        /// The domains that count.
        domains: i64,
        /// How many domains there must be before the emptiest one sets the minimum.
        min_domains: i64,
        /// The greatest difference allowed.
        max_skew: i64,
    },
    /// A required pod affinity term is not satisfied.
    PodAffinity {
        /// Position in the pod's list of terms.
        term: usize,
        /// The label whose values are the domains.
        topology_key: String,
        /// The node's domain; `None` if it lacks the label.
        domain: Option<String>,
    },
    /// A required pod anti-affinity term is violated.
    PodAntiAffinity {
        /// Position in the pod's list of terms.
        term: usize,
        /// The label whose values are the domains.
        topology_key: String,
        /// The node's domain.
        domain: String,
        /// A pod in that domain that the term keeps away from.
        pod: Option<PodKey>,
    },
    /// A pod that is already there keeps this one away.
    ExistingAntiAffinity {
        /// The label whose values are the domains.
        topology_key: String,
        /// The node's domain.
        domain: String,
        /// A pod in that domain whose anti-affinity matches.
        pod: Option<PodKey>,
    },
    /// A request for devices is of a class that does not exist; no node is looked at.
    NoDeviceClass {
        /// The request, with the alternative after a slash.
        request: String,
        /// The missing class.
        class: String,
    },
    /// The node does not have the devices that the pod's claims ask for, or they are taken.
    NoDevices {
        /// Why, device by device, where all reasons were asked for.
        shortage: Option<Arc<DeviceShortage>>,
    },
    /// The node has not enough devices in sound pools, and others in pools that contradict themselves.
    InvalidDevicePools,
    /// A claim has devices that cannot be used on the node.
    DevicesElsewhere {
        /// The claim's name.
        claim: String,
    },
    /// A claim or a class is such that it cannot be said which devices are meant.
    BrokenDeviceRequest {
        /// What is wrong.
        message: String,
        /// Why, device by device, where all reasons were asked for.
        shortage: Option<Arc<DeviceShortage>>,
    },
}

impl Reason {
    /// Whether evicting pods might make the reason go away.
    pub fn code(&self) -> Code {
        match self {
            Self::HostPort { .. }
            | Self::TooManyPods { .. }
            | Self::ClaimInUse { .. }
            | Self::Spread { .. }
            | Self::PodAntiAffinity { .. }
            | Self::ExistingAntiAffinity { .. } => Code::Unschedulable,
            Self::Insufficient { requested, allocatable, .. } if requested <= allocatable => Code::Unschedulable,
            _ => Code::UnschedulableAndUnresolvable,
        }
    }

    /// The plugin that gives the reason.
    pub const fn plugin(&self) -> PluginName {
        match self {
            Self::Unschedulable => PluginName::NodeUnschedulable,
            Self::NodeName { .. } => PluginName::NodeName,
            Self::UntoleratedTaints { .. } => PluginName::TaintToleration,
            Self::NodeSelector { .. }
            | Self::NodeAffinity { .. }
            | Self::NotAmongNamedNodes { .. }
            | Self::EnforcedNodeAffinity
            | Self::ConflictingNodeNames => PluginName::NodeAffinity,
            Self::HostPort { .. } => PluginName::NodePorts,
            Self::TooManyPods { .. } | Self::Insufficient { .. } => PluginName::NodeResourcesFit,
            Self::ClaimInUse { .. } | Self::ClaimNotFound { .. } => PluginName::VolumeRestrictions,
            Self::ClaimAwaited { .. }
            | Self::ClaimOfOther { .. }
            | Self::ClaimLost { .. }
            | Self::ClaimTerminating { .. }
            | Self::UnboundImmediateClaim { .. }
            | Self::NoVolumeToBind { .. }
            | Self::VolumeNotFound { .. }
            | Self::VolumeNodeAffinity { .. } => PluginName::VolumeBinding,
            Self::VolumeZone { .. } => PluginName::VolumeZone,
            Self::SpreadMissingLabel { .. } | Self::Spread { .. } => PluginName::PodTopologySpread,
            Self::PodAffinity { .. } | Self::PodAntiAffinity { .. } | Self::ExistingAntiAffinity { .. } => {
                PluginName::InterPodAffinity
            }
            Self::NoDeviceClass { .. }
            | Self::NoDevices { .. }
            | Self::InvalidDevicePools
            | Self::DevicesElsewhere { .. }
            | Self::BrokenDeviceRequest { .. } => PluginName::DynamicResources,
        }
    }

    /// How much of a resource is missing on the node, for [`Reason::Insufficient`].
    pub fn shortage(&self) -> Option<Quantity> {
        match self {
            Self::Insufficient { resource, requested, used, allocatable } => {
                Some(Quantity::of_resource(resource, requested - (allocatable - used)))
            }
            _ => None,
        }
    }
}

/// Texts of the reasons that topology plugins give on the fast path.
pub(super) mod text {
    pub(crate) const SPREAD: &str = "node(s) didn't match pod topology spread constraints";
    pub(crate) const SPREAD_LABEL: &str =
        "node(s) didn't match pod topology spread constraints (missing required label)";
    pub(crate) const AFFINITY: &str = "node(s) didn't match pod affinity rules";
    pub(crate) const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
    pub(crate) const EXISTING_ANTI_AFFINITY: &str = "node(s) didn't satisfy existing pods anti-affinity rules";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::NodeName { .. } => "node(s) didn't match the requested node name",
            Self::UntoleratedTaints { .. } => "node(s) had untolerated taint(s)",
            Self::NodeSelector { .. } | Self::NodeAffinity { .. } => {
                "node(s) didn't match Pod's node affinity/selector"
            }
            Self::NotAmongNamedNodes { tried, .. } => {
                let plugins = BTreeSet::from([PluginName::NodeAffinity, tried.unwrap_or(PluginName::NodeAffinity)]);
                let mut plugins: Vec<_> = plugins.into_iter().map(PluginName::as_str).collect();
                plugins.sort_unstable();
                return write!(f, "node(s) didn't satisfy plugin(s) [{}]", plugins.join(" "));
            }
            Self::EnforcedNodeAffinity => "node(s) didn't match scheduler-enforced node affinity",
            Self::ConflictingNodeNames => "pod affinity terms conflict",
            Self::HostPort { .. } => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods { .. } => "Too many pods",
            Self::Insufficient { resource, .. } => return write!(f, "Insufficient {resource}"),
            Self::ClaimNotFound { claim } => return write!(f, "persistentvolumeclaim \"{claim}\" not found"),
            Self::ClaimAwaited { claim } => {
                let waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim";
                return write!(f, "{waiting} \"{claim}\"");
            }
            Self::ClaimOfOther { claim, pod } => {
                let namespace = &pod.namespace;
                return write!(f, "PVC {namespace}/{claim} was not created for pod {pod} (pod is not owner)");
            }
            Self::ClaimLost { claim, volume } => {
                return write!(
                    f,
                    "persistentvolumeclaim \"{claim}\" bound to non-existent persistentvolume \"{volume}\""
                );
            }
            Self::ClaimTerminating { claim } => {
                return write!(f, "persistentvolumeclaim \"{claim}\" is being deleted");
            }
            Self::UnboundImmediateClaim { .. } => "pod has unbound immediate PersistentVolumeClaims",
            Self::NoVolumeToBind { .. } => "node(s) didn't find available persistent volumes to bind",
            Self::VolumeNotFound { .. } => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Self::VolumeNodeAffinity { .. } => "node(s) didn't match PersistentVolume's node affinity",
            Self::VolumeZone { .. } => "node(s) had no available volume zone",
            Self::ClaimInUse { .. } => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                 another pod"
            }
            Self::SpreadMissingLabel { .. } => text::SPREAD_LABEL,
            Self::Spread { .. } => text::SPREAD,
            Self::PodAffinity { .. } => text::AFFINITY,
            Self::PodAntiAffinity { .. } => text::ANTI_AFFINITY,
            Self::ExistingAntiAffinity { .. } => text::EXISTING_ANTI_AFFINITY,
            Self::NoDeviceClass { request, class } => {
                return write!(f, "request {request}: device class {class} does not exist");
            }
            Self::NoDevices { .. } => "cannot allocate all claims",
            Self::InvalidDevicePools => "invalid resource pools were encountered",
            Self::DevicesElsewhere { .. } => "resourceclaim not available on the node",
            Self::BrokenDeviceRequest { message, .. } => message,
        })
    }
}
