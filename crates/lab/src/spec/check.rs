//! Checks: what must be true of the pods, nodes and objects of a lab.

use std::collections::BTreeMap;
use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::source::{Located, Location};
use super::version::KubernetesVersion;
use klab_scheduler::selector::Selector;

/// `[[check]]`, `[[step.check]]`, `[[step.before]]`: a subject and what must hold of it, all conditions at once.
#[derive(Clone, Debug)]
pub struct Check {
    /// What the report calls it; made from subject and conditions where the author gave none.
    pub name: Option<String>,
    /// What the check is about.
    pub subject: Located<Subject>,
    /// What must hold; never empty.
    pub conditions: Vec<Located<Condition>>,
    /// How long to wait for it, where the author says so.
    pub within: Option<SignedDuration>,
    /// How long it must go on holding, where the author says so.
    pub hold: Option<SignedDuration>,
    /// What the author tells a learner when it does not hold.
    pub hint: Option<String>,
    /// Where the check's table begins.
    pub at: Location,
}

/// What a check is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// The pods of a workload of this lab, by its name.
    Workload(String),
    /// Pods by label.
    Pods {
        /// Labels of the pods.
        selector: Selector,
        /// Their namespace; `default` unless the author says otherwise.
        namespace: String,
    },
    /// Nodes by pool, name or label.
    Nodes(NodeSet),
    /// One object.
    Object(ObjectRef),
}

/// One thing that must hold of a check's subject.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Every pod runs on one of these nodes.
    On(NodeSet),
    /// No pod is on one of these nodes.
    NotOn(NodeSet),
    /// Pods by pool: as many as said run in each named pool.
    Placement(BTreeMap<String, Count>),
    /// This many pods are Running and Ready.
    Running(Count),
    /// This many pods are Pending, marked unschedulable by the scheduler.
    Pending {
        /// How many.
        count: Count,
        /// What the scheduler's message must contain.
        reason: Option<String>,
    },
    /// This many pods have succeeded.
    Succeeded(Count),
    /// Pods are spread evenly over the values of a node label.
    Spread {
        /// Node label whose values are the domains.
        over: String,
        /// Greatest difference in pods between two domains.
        max_skew: u32,
    },
    /// Exactly one pod on each of these nodes and none elsewhere.
    OnePerNode(NodeSet),
    /// Every pod shares its node with a pod of these labels.
    With(Selector),
    /// No pod shares its node with another pod of these labels.
    ApartFrom(Selector),
    /// The pods are those of before the step, on the nodes where they were; or none is one of them.
    SamePods {
        /// Whether they are to be the same.
        wanted: bool,
        /// The pods as they were when the step began; none in a lab file, and where no klab noted them.
        before: Option<Vec<PodBefore>>,
    },
    /// Events of this reason are about the pods, the nodes or the object.
    Event {
        /// Why, in one word: `Preempted`.
        reason: String,
        /// The workload whose pods the events name as the cause.
        by: Option<Located<String>>,
        /// How many; a series counts as often as it happened.
        times: Count,
    },
    /// Every pod without a node is nominated to one of these nodes.
    Nominated(NodeSet),
    /// This many pods were evicted or preempted.
    Evicted(Count),
    /// This many nodes or pods exist.
    Exist(Count),
    /// Every node is Ready (or none is).
    Ready(bool),
    /// Every node may (or may not) receive pods: not cordoned.
    Schedulable(bool),
    /// Every node carries this taint.
    Tainted(k8s_openapi::api::core::v1::Taint),
    /// Every node's kubelet has this version.
    Version(KubernetesVersion),
    /// A CEL expression on `object` is true.
    Cel(String),
}

impl Check {
    /// Whether pods are to stay Pending.
    pub fn wants_pending(&self) -> bool {
        self.conditions.iter().any(|condition| matches!(condition.value, Condition::Pending { .. }))
    }
}

/// Reasons of events about evicted pods: of the scheduler, the taint and device taint eviction controllers, and kubelets.
pub(crate) const EVICTIONS: [&str; 4] = ["Preempted", "TaintManagerEviction", "DeviceTaintManagerEviction", "Evicted"];

impl Condition {
    /// The nodes it names.
    pub fn nodes(&self) -> Option<&NodeSet> {
        match self {
            Self::On(nodes) | Self::NotOn(nodes) | Self::OnePerNode(nodes) | Self::Nominated(nodes) => Some(nodes),
            _ => None,
        }
    }

    /// The numbers it states, where it is about nothing else.
    pub fn counts(&self) -> Option<Vec<Count>> {
        match self {
            Self::Running(count)
            | Self::Succeeded(count)
            | Self::Evicted(count)
            | Self::Exist(count)
            | Self::Pending { count, .. }
            | Self::Event { times: count, .. } => Some(vec![*count]),
            Self::Placement(pools) => Some(pools.values().copied().collect()),
            // Each by name: one that states numbers is not to be forgotten here.
            Self::On(_)
            | Self::NotOn(_)
            | Self::OnePerNode(_)
            | Self::Nominated(_)
            | Self::Spread { .. }
            | Self::With(_)
            | Self::ApartFrom(_)
            | Self::SamePods { .. }
            | Self::Ready(_)
            | Self::Schedulable(_)
            | Self::Tainted(_)
            | Self::Version(_)
            | Self::Cel(_) => None,
        }
    }

    /// The reasons of the events that it asks for.
    pub fn event_reasons(&self) -> Vec<&str> {
        match self {
            Self::Event { reason, .. } => vec![reason],
            Self::Evicted(_) => EVICTIONS.to_vec(),
            _ => Vec::new(),
        }
    }

    /// Whether it says something of a subject that has no pod or node.
    pub fn may_be_about_none(&self) -> bool {
        matches!(self, Self::Exist(_) | Self::Event { .. } | Self::Evicted(_))
    }
}

/// A pod as it was before a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodBefore {
    /// `namespace/name`.
    pub pod: String,
    /// Its uid: another pod of its name is another pod.
    pub uid: String,
    /// The node it was on, if any.
    pub node: Option<String>,
}

/// How many: an exact number or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// At least.
    pub min: u32,
    /// At most; none: no bound.
    pub max: Option<u32>,
}

impl Count {
    /// One or more.
    pub fn some() -> Self {
        Self { min: 1, max: None }
    }

    /// Exactly `n`.
    pub fn exactly(n: u32) -> Self {
        Self { min: n, max: Some(n) }
    }

    /// Whether `n` is as many as wanted.
    pub fn contains(self, n: u32) -> bool {
        n >= self.min && self.max.is_none_or(|max| n <= max)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.max {
            Some(max) if max == self.min => write!(f, "{max}"),
            Some(max) if self.min == 0 => write!(f, "at most {max}"),
            Some(max) => write!(f, "{} to {max}", self.min),
            None => write!(f, "at least {}", self.min),
        }
    }
}

/// Nodes: `pool:NAME`, `node:NAME`, or a label selector.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeSet {
    /// All nodes of a pool.
    Pool(String),
    /// One node.
    Node(String),
    /// Nodes by label.
    Selector(Selector),
}

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(name) => write!(f, "pool:{name}"),
            Self::Node(name) => write!(f, "node:{name}"),
            Self::Selector(selector) => selector.fmt(f),
        }
    }
}

/// An object by kind and name, as kubectl takes them: `deployment/x`, `deployment.apps/x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// Kind, plural or short name as written.
    pub kind: String,
    /// API group, if written.
    pub group: Option<String>,
    /// Name of the object.
    pub name: String,
    /// Namespace, for kinds that have one; `default` unless the author says otherwise.
    pub namespace: String,
}

impl ObjectRef {
    /// What the API server says of its version, which is no object and can be asked for all the same.
    pub const VERSION: &str = "version";

    /// Whether it is what the API server says of its version.
    pub fn is_version(&self) -> bool {
        self.kind == Self::VERSION && self.name.is_empty()
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_version() {
            return f.write_str(Self::VERSION);
        }
        match &self.group {
            Some(group) => write!(f, "{}.{group}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}
