//! What a scheduling attempt comes to, in brief ([`Decision`]) and in full ([`Attempt`]).

use std::sync::Arc;

use k8s_openapi::api::core::v1::ContainerExtendedResourceRequest;
use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaimSpec};

use super::pod_key::PodKey;
use super::reason::{Code, PluginName, Reason};

/// The result of one scheduling attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The pod.
    pub pod: PodKey,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Text of the `PodScheduled=False` condition; empty if the pod is scheduled. See [`super::message::event_text`].
    pub message: String,
    /// The plugins that refused the pod, on any node; none if it is scheduled. The queue judges events by these.
    pub refused_by: Vec<PluginName>,
    /// What the pod's claims are given if it is scheduled: to be written into their status with the reservation for the
    /// pod before it is bound.
    pub allocations: Vec<ClaimAllocation>,
    /// A claim that is to be made for the pod if it is scheduled, for the extended resources it requests that are devices.
    pub extended: Option<ExtendedAllocation>,
    /// Namespace and name of a claim whose devices are to be taken back, for they keep the pod from all nodes.
    pub deallocate: Option<(String, String)>,
}

/// A claim for extended resources, to be made, given its devices and reserved before the pod is bound.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtendedAllocation {
    /// What it asks for.
    pub spec: ResourceClaimSpec,
    /// Which request meets which resource of which container: for `status.extendedResourceClaimStatus` of the pod.
    pub mappings: Vec<ContainerExtendedResourceRequest>,
    /// What it is given.
    pub allocation: AllocationResult,
}

/// What a claim is given.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimAllocation {
    /// The claim's namespace.
    pub namespace: String,
    /// The claim's name.
    pub name: String,
    /// What it is given; `None` for one that has devices already, and is only reserved for the pod.
    pub allocation: Option<AllocationResult>,
}

/// What becomes of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It goes to this node.
    Scheduled {
        /// The node's name.
        node: Arc<str>,
    },
    /// No node takes it.
    Unschedulable {
        /// Whether `status.nominatedNodeName` is to be cleared.
        withdraw_nomination: bool,
    },
    /// No node takes it as things are; pods are evicted for it, and a node is kept.
    Preempting(Preemption),
    /// It has scheduling gates.
    Gated {
        /// Their names.
        gates: Vec<String>,
    },
    /// It waits for its resource claims, which the message names. The user gets no event.
    AwaitingClaims,
    /// A claim or a class of devices is such that no decision can be made; the message says why.
    Failed,
    /// It names its node itself (`spec.nodeName`), the scheduler is not asked.
    Bound {
        /// The node's name.
        node: Arc<str>,
    },
    /// It is not for this scheduler.
    Ignored {
        /// `spec.schedulerName`.
        scheduler: String,
    },
}

impl Outcome {
    /// The node the pod goes to now.
    pub fn node(&self) -> Option<&Arc<str>> {
        match self {
            Self::Scheduled { node } | Self::Bound { node } => Some(node),
            _ => None,
        }
    }
}

/// What preemption found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preemption {
    /// Nodes on which eviction helps, by name.
    pub candidates: Vec<Candidate>,
    /// Candidates that are equally good after all criteria, by name.
    pub best: Vec<Arc<str>>,
    /// The one that is kept for the pod.
    pub nominated: Arc<str>,
    /// The pods to evict there, most important first; some may be terminating already.
    pub victims: Vec<PodKey>,
    /// Pods of lower priority for which the node was kept until now.
    pub withdrawn_nominations: Vec<PodKey>,
}

/// A node on which eviction helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The node's name.
    pub node: Arc<str>,
    /// The pods to evict, most important first.
    pub victims: Vec<PodKey>,
    /// How many of these evictions break a disruption budget.
    pub pdb_violations: usize,
}

/// One scheduling attempt with all its reasons and scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// What it comes to.
    pub decision: Decision,
    /// The plugin that refused the pod for every node at once, with its reasons; then `nodes` is empty.
    pub pre_filter: Option<(PluginName, Vec<Reason>)>,
    /// The verdict on every node, by name, as kube-scheduler gives it: the first filter that refuses decides.
    pub nodes: Vec<NodeVerdict>,
    /// Scores of the feasible nodes; `None` unless there are several, and a plugin that scores.
    pub scores: Option<ScoreTable>,
    /// The feasible nodes with the greatest score, by name.
    pub top: Vec<Arc<str>>,
}

impl Attempt {
    /// Names of the nodes that take the pod.
    pub fn feasible(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.iter().filter(|node| node.rejection.is_none()).map(|node| &node.node)
    }
}

/// The verdict on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVerdict {
    /// The node's name.
    pub node: Arc<str>,
    /// Why it is refused; `None` if it is feasible.
    pub rejection: Option<Rejection>,
}

/// Why a filter refuses a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The filter; `None` if the node was left out because the pod names others.
    pub plugin: Option<PluginName>,
    /// Whether eviction might help.
    pub code: Code,
    /// All reasons of this filter.
    pub reasons: Vec<Reason>,
}

/// Scores of all feasible nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScoreTable {
    /// The plugins that scored, in order of execution, with their weights.
    pub plugins: Vec<(PluginName, i64)>,
    /// Whether NodeResourcesFit favours nodes of which less is taken, as the default profile does.
    pub favours_free: bool,
    /// One row per node, by name.
    pub rows: Vec<ScoreRow>,
}

/// Scores of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreRow {
    /// The node's name.
    pub node: Arc<str>,
    /// Sum of the weighted scores.
    pub total: i64,
    /// Scores in the order of [`ScoreTable::plugins`].
    pub scores: Vec<PluginScore>,
}

/// One plugin's score of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginScore {
    /// As computed.
    pub raw: i64,
    /// 0–100.
    pub normalized: i64,
    /// `normalized` times the plugin's weight.
    pub weighted: i64,
}
