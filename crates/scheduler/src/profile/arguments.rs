//! The arguments of plugins, and what they are where a profile gives none.

// upstream: pkg/scheduler/apis/config/v1/defaults.go (v1.36)

use std::sync::Arc;

use crate::node_selector::NodeSelectorTerm;

/// The arguments of all plugins of a profile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) fit: Fit,
    /// NodeResourcesBalancedAllocation: the resources whose balance counts; `None` for cpu and memory.
    pub(crate) balanced: Option<Vec<Arc<str>>>,
    pub(crate) spread: SpreadDefaults,
    pub(crate) affinity: InterPodAffinity,
    pub(crate) added: AddedAffinity,
    /// `None`: on every node, which no chance decides.
    pub(crate) preemption: Option<Preemption>,
}

/// What NodeResourcesFit leaves out, and how it scores.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fit {
    /// Extended resources that no node needs to have.
    pub(crate) ignored: Vec<String>,
    /// The part before the slash of such resources.
    pub(crate) ignored_groups: Vec<String>,
    /// `None` for the least allocated cpu and memory, which weigh the same.
    pub(crate) scoring: Option<Scoring>,
}

impl Fit {
    /// Whether the filter leaves a resource out. Only extended resources can be.
    pub(crate) fn ignores(&self, resource: &str) -> bool {
        let native = !resource.contains('/') || resource.contains("kubernetes.io/");
        let group = || resource.split('/').next().unwrap_or_default();
        !native
            && (self.ignored.iter().any(|name| name == resource)
                || self.ignored_groups.iter().any(|name| name == group()))
    }
}

/// How NodeResourcesFit scores a node by the resources that are taken there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scoring {
    pub(crate) strategy: Strategy,
    /// Resources with their weights.
    pub(crate) resources: Vec<(Arc<str>, i64)>,
}

/// Which nodes are better.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Strategy {
    /// Those of which less is taken.
    LeastAllocated,
    /// Those of which more is taken.
    MostAllocated,
    /// Utilization in percent and the score there, 0 to 100; in between, on the line.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// How pods are spread that have no constraints of their own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SpreadDefaults {
    /// Over nodes and zones, as far as nodes have the labels.
    System,
    /// By these constraints; none is allowed.
    List(Vec<DefaultConstraint>),
}

impl SpreadDefaults {
    /// The constraints that keep pods from nodes.
    pub(crate) fn hard(&self) -> impl Iterator<Item = &DefaultConstraint> {
        let list = if let Self::List(list) = self { list.as_slice() } else { &[] };
        list.iter().filter(|constraint| constraint.hard)
    }
}

/// A topology spread constraint without a selector, which each pod has from its Services and its controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DefaultConstraint {
    pub(crate) topology_key: Arc<str>,
    pub(crate) max_skew: i64,
    pub(crate) min_domains: i64,
    pub(crate) hard: bool,
    pub(crate) honor_affinity: bool,
    pub(crate) honor_taints: bool,
}

/// What the required and preferred terms of existing pods count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterPodAffinity {
    /// Weight of an existing pod's required affinity term.
    pub(crate) hard_weight: i64,
    /// Whether pods without preferred terms are not scored.
    pub(crate) ignores_existing: bool,
}

/// Node affinity that every pod of the profile has.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct AddedAffinity {
    /// One of the terms must match; `None` if nothing is required.
    pub(crate) required: Option<Vec<NodeSelectorTerm>>,
    /// Preferred terms with their weights.
    pub(crate) preferred: Vec<(i32, NodeSelectorTerm)>,
}

/// On how many nodes preemption looks for victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preemption {
    /// This share of the nodes that may help, in percent.
    pub(crate) percentage: i64,
    /// At least this many.
    pub(crate) absolute: i64,
}

impl Preemption {
    /// After how many candidates the search ends, of this many nodes that may help.
    ///
    /// upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go calculateNumCandidates (v1.36)
    pub(crate) fn candidates(self, nodes: usize) -> usize {
        let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
        let share = nodes.saturating_mul(self.percentage) / 100;
        share.max(self.absolute).min(nodes).try_into().unwrap_or(usize::MAX)
    }
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            fit: Fit::default(),
            balanced: None,
            spread: SpreadDefaults::System,
            affinity: InterPodAffinity { hard_weight: 1, ignores_existing: false },
            added: AddedAffinity::default(),
            preemption: None,
        }
    }
}
