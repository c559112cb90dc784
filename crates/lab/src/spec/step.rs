//! Steps of a lesson: what is done, and what must hold before and after.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Affinity, Taint, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::check::{Check, NodeSet, ObjectRef};
use super::machine::VmSize;
use super::pool::Autoscale;
use super::source::{Located, Location};
use super::upgrade::{UpgradeKind, UpgradeSettings};
use super::version::KubernetesVersion;
use super::workload::{ManifestContent, Workload};
use klab_scheduler::selector::Selector;

/// `[[step]]` of the lab file.
#[derive(Clone, Debug)]
pub struct Step {
    /// Name for `--to` and `--step`.
    pub name: Located<String>,
    /// One line for the learner.
    pub title: Option<String>,
    /// Markdown for the learner.
    pub text: Option<String>,
    /// What to tell a learner who is stuck.
    pub hint: Option<String>,
    /// Checks that hold before the actions: the failure that the learner is to see first.
    pub before: Vec<Check>,
    /// What is done, in order.
    pub actions: Vec<Located<Action>>,
    /// Checks that hold after the actions.
    pub checks: Vec<Check>,
    /// Where the step's table begins.
    pub at: Location,
}

/// A step that the lab leaves out on the provider it is read for.
#[derive(Clone, Debug)]
pub struct SkippedStep {
    /// The step.
    pub step: Step,
    /// Why, in the author's words.
    pub reason: Located<String>,
    /// How many steps that are not left out come before it.
    pub position: usize,
}

/// One action of a step's `do`.
#[derive(Clone, Debug)]
pub enum Action {
    /// Put a taint on nodes.
    Taint {
        /// The taint.
        taint: Taint,
        /// Which nodes.
        nodes: NodeSet,
    },
    /// Take taints off nodes.
    Untaint {
        /// Key of the taint.
        key: String,
        /// Value, if only that one is meant.
        value: Option<String>,
        /// Effect, if only that one is meant.
        effect: Option<String>,
        /// Which nodes.
        nodes: NodeSet,
    },
    /// Set labels of nodes.
    Label {
        /// The labels.
        labels: BTreeMap<String, String>,
        /// Which nodes.
        nodes: NodeSet,
    },
    /// Remove labels of nodes.
    Unlabel {
        /// Keys of the labels.
        keys: Vec<String>,
        /// Which nodes.
        nodes: NodeSet,
    },
    /// Keep new pods off nodes.
    Cordon {
        /// Which nodes.
        nodes: NodeSet,
    },
    /// Let pods onto nodes again.
    Uncordon {
        /// Which nodes.
        nodes: NodeSet,
    },
    /// Cordon nodes and evict their pods, except those of DaemonSets.
    Drain {
        /// Which nodes.
        nodes: NodeSet,
        /// How long it may take.
        within: Option<SignedDuration>,
        /// Delete pods without an owner, too.
        force: bool,
    },
    /// Change the number of pods of a workload.
    Scale {
        /// Name of the workload.
        workload: String,
        /// Pods wanted.
        replicas: u32,
    },
    /// Change fields of a workload.
    Set {
        /// Name of the workload.
        workload: String,
        /// The fields and their new values.
        fields: Box<WorkloadChange>,
    },
    /// Apply objects.
    Apply {
        /// Where they come from.
        content: ManifestContent,
    },
    /// What the cluster is to refuse.
    Refused {
        /// What is tried.
        action: Box<Action>,
        /// What the refusal says.
        text: String,
    },
    /// Make a workload that was `deferred`.
    Deploy {
        /// Name of the workload.
        workload: String,
    },
    /// Delete one object.
    Delete {
        /// The object.
        object: ObjectRef,
    },
    /// Delete pods by label.
    DeletePods {
        /// Labels of the pods.
        selector: Selector,
        /// Their namespace.
        namespace: String,
    },
    /// Make a pool that was `deferred`, or that a step removed.
    AddPool {
        /// Name of the pool.
        pool: String,
    },
    /// Remove a pool with its nodes.
    RemovePool {
        /// Name of the pool.
        pool: String,
    },
    /// Change the number of nodes of a pool, or the autoscaler's bounds.
    ScalePool {
        /// Name of the pool.
        pool: String,
        /// Nodes wanted.
        nodes: Option<u32>,
        /// New bounds of the autoscaler.
        autoscale: Option<Autoscale>,
    },
    /// Bring a pool to another Kubernetes version, to the newest node image, or to machines of another size.
    UpgradePool {
        /// Name of the pool.
        pool: String,
        /// To what.
        to: UpgradeTarget,
        /// How, where it is not as the pool says.
        settings: UpgradeSettings,
        /// Whether to go on while it is under way.
        no_wait: bool,
    },
    /// Have Azure take nodes of a spot pool back.
    ReclaimPool {
        /// Name of the pool.
        pool: String,
        /// How many of its nodes, the first by name; none: all.
        count: Option<u32>,
    },
    /// Bring the control plane to another Kubernetes version, and leave the nodes as they are.
    UpgradeControlPlane {
        /// The version.
        kubernetes: KubernetesVersion,
    },
    /// Stop nodes as if they had lost power.
    FailNode {
        /// Which nodes.
        nodes: NodeSet,
        /// How many of them, the first by name; none: all.
        count: Option<u32>,
    },
    /// Start nodes that a step stopped.
    RestoreNode {
        /// Which nodes.
        nodes: NodeSet,
    },
    /// Have the API server answer no request for a while.
    FailApi {
        /// How long.
        duration: SignedDuration,
    },
    /// Let time pass.
    Wait {
        /// How long.
        duration: SignedDuration,
    },
    /// Run a command; only with `--allow-run`.
    Run {
        /// Program and arguments; no shell.
        argv: Vec<String>,
    },
}

/// What a step upgrades a pool to.
#[derive(Clone, Debug, PartialEq)]
pub enum UpgradeTarget {
    /// This version.
    Kubernetes(KubernetesVersion),
    /// The newest node image.
    NodeImage,
    /// Machines of this size.
    Size(&'static VmSize),
}

impl UpgradeTarget {
    /// What the plan calls it.
    pub fn kind(&self) -> UpgradeKind {
        match self {
            Self::Kubernetes(_) => UpgradeKind::Kubernetes,
            Self::NodeImage => UpgradeKind::NodeImage,
            Self::Size(_) => UpgradeKind::Machines,
        }
    }
}

impl Action {
    /// The nodes an action is about, where it is about nodes.
    pub fn nodes(&self) -> Option<&NodeSet> {
        match self {
            Self::Taint { nodes, .. }
            | Self::Untaint { nodes, .. }
            | Self::Label { nodes, .. }
            | Self::Unlabel { nodes, .. }
            | Self::Cordon { nodes }
            | Self::Uncordon { nodes }
            | Self::Drain { nodes, .. }
            | Self::FailNode { nodes, .. }
            | Self::RestoreNode { nodes } => Some(nodes),
            Self::Refused { action, .. } => action.nodes(),
            _ => None,
        }
    }

    /// What is tried, where it is to be refused; else itself.
    pub fn tried(&self) -> &Self {
        match self {
            Self::Refused { action, .. } => action,
            action => action,
        }
    }

    /// The pool an action is about, where it makes, changes or removes one.
    pub fn pool(&self) -> Option<&str> {
        match self {
            Self::AddPool { pool }
            | Self::RemovePool { pool }
            | Self::ScalePool { pool, .. }
            | Self::UpgradePool { pool, .. }
            | Self::ReclaimPool { pool, .. } => Some(pool),
            _ => None,
        }
    }
}

/// New values for fields of a workload; `None` leaves a field as it is, an empty value clears it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadChange {
    /// Image of the container.
    pub image: Option<String>,
    /// Node selector as a whole.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Tolerations as a whole.
    pub tolerations: Option<Vec<Toleration>>,
    /// Affinity as a whole.
    pub affinity: Option<Affinity>,
    /// Topology spread constraints as a whole.
    pub topology_spread: Option<Vec<TopologySpreadConstraint>>,
    /// Resource requests as a whole.
    pub requests: Option<BTreeMap<String, Quantity>>,
    /// Resource limits as a whole.
    pub limits: Option<BTreeMap<String, Quantity>>,
    /// Priority class; an empty name clears it.
    pub priority_class: Option<String>,
    /// CPU that all pods together want to use, such as `320%` of what one of them requests; an empty text clears it.
    pub load: Option<String>,
}

impl WorkloadChange {
    /// The workload with these changes; `at` is where the changes were written.
    pub fn applied_to(&self, workload: &Workload, at: &Location) -> Workload {
        fn map<T: Clone>(values: &BTreeMap<String, T>, at: &Location) -> BTreeMap<String, Located<T>> {
            values.iter().map(|(key, value)| (key.clone(), Located::new(value.clone(), at.clone()))).collect()
        }
        fn list<T: Clone>(values: &[T], at: &Location) -> Vec<Located<T>> {
            values.iter().map(|value| Located::new(value.clone(), at.clone())).collect()
        }
        let mut changed = workload.clone();
        if let Some(image) = &self.image {
            changed.image = Located::new(image.clone(), at.clone());
        }
        if let Some(labels) = &self.node_selector {
            changed.node_selector = map(labels, at);
        }
        if let Some(tolerations) = &self.tolerations {
            changed.tolerations = list(tolerations, at);
        }
        if let Some(affinity) = &self.affinity {
            changed.affinity = (*affinity != Affinity::default()).then(|| Located::new(affinity.clone(), at.clone()));
        }
        if let Some(constraints) = &self.topology_spread {
            changed.topology_spread = list(constraints, at);
        }
        if let Some(requests) = &self.requests {
            changed.requests = map(requests, at);
        }
        if let Some(limits) = &self.limits {
            changed.limits = map(limits, at);
        }
        if let Some(name) = &self.priority_class {
            changed.priority_class = (!name.is_empty()).then(|| Located::new(name.clone(), at.clone()));
        }
        if let Some(load) = &self.load {
            let percent = load.strip_suffix('%').and_then(|percent| percent.parse().ok());
            changed.load = percent.map(|percent| Located::new(percent, at.clone()));
        }
        changed
    }
}
