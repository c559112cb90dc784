//! What the cluster autoscaler makes of a pod that waits: which pools grow for it, and why the others do not.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::reasons;
use crate::nodes;
use crate::plan::is_system_taint;
use crate::spec::{Lab, Pool};
use crate::verify::cause::NodeReason;
use crate::verify::snapshot::BackOff;
use crate::verify::view::View;
use klab_scheduler::Cluster;
use klab_scheduler::autoscaler::{EXPENDABLE_BELOW, NodeGroup, Template, refusal};
use klab_scheduler::owner::is_of_daemon_set;
use klab_scheduler::typed::Typed;

/// What an autoscaled pool does for a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolGrowth {
    /// The pool.
    pub pool: String,
    /// How many nodes it has.
    pub nodes: usize,
    /// Fewest it may have.
    pub min: u32,
    /// Most it may have.
    pub max: u32,
    /// Why a new node would not take the pod; empty where it would.
    pub refusals: Vec<NodeReason>,
    /// Why it is left alone for a while, where it failed to grow.
    pub backed_off: Option<String>,
    /// When the autoscaler tries again, in words; empty where it does not leave the pool alone.
    pub tries_again: String,
}

impl PoolGrowth {
    /// Whether it has as many nodes as it may have.
    pub fn is_at_maximum(&self) -> bool {
        self.nodes >= self.max as usize
    }

    /// Whether a node would come for the pod.
    pub fn grows(&self) -> bool {
        self.refusals.is_empty() && !self.is_at_maximum() && self.backed_off.is_none()
    }
}

/// The pools that a cluster autoscaler acts on, in the order of the lab file; none where there is no autoscaler.
#[derive(Default)]
pub(crate) struct Growth(Vec<Group>);

struct Group {
    pool: NodeGroup,
    backed_off: Option<BackOff>,
    now: Option<Timestamp>,
}

impl Growth {
    /// Those of a lab as its cluster is.
    pub(crate) fn of(view: &View<'_>) -> Self {
        let Some(lab) = view.context.lab.filter(|lab| lab.provider.profile().has_autoscaler) else {
            return Self::default();
        };
        let pools: Vec<&Pool> = lab.pools.iter().filter(|pool| !pool.deferred && pool.autoscale.is_some()).collect();
        if pools.is_empty() {
            return Self::default();
        }
        let sets: Vec<DaemonSet> = view.snapshot.daemon_sets.iter().map(|set| (**set).clone()).collect();
        Self(pools.into_iter().filter_map(|pool| group(view, lab, pool, &sets)).collect())
    }

    /// Whether no autoscaler acts on any pool.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// What each pool does for a pod. Nothing where no autoscaler looks at the pod.
    pub(crate) fn for_pod(&self, cluster: &Cluster, pod: &Pod) -> Vec<PoolGrowth> {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
        if is_of_daemon_set(pod) || priority < EXPENDABLE_BELOW {
            return Vec::new();
        }
        self.0.iter().filter_map(|group| of_group(group, cluster, pod)).collect()
    }
}

fn of_group(Group { pool, backed_off, now }: &Group, cluster: &Cluster, pod: &Pod) -> Option<PoolGrowth> {
    let refused = refusal(cluster, pod, pool).ok()?.unwrap_or_default();
    Some(PoolGrowth {
        pool: pool.name.to_string(),
        nodes: pool.target as usize,
        min: pool.min,
        max: pool.max,
        refusals: refused.iter().map(|reason| reasons::describe(&[reason], None)).collect(),
        backed_off: backed_off.as_ref().map(|it| it.why.clone()),
        tries_again: backed_off.as_ref().map(|it| it.end(*now)).unwrap_or_default(),
    })
}

/// Whether and why the autoscaler leaves a pool alone.
pub(crate) fn backed_off<'v>(view: &View<'v>, pool: &str) -> Option<&'v BackOff> {
    view.snapshot.backed_off.iter().find(|(group, _)| is_of_pool(group, pool)).map(|(_, why)| why)
}

/// Whether the autoscaler's name for a group is that of a pool: its own, or on AKS that of its scale set.
fn is_of_pool(group: &str, pool: &str) -> bool {
    let of_scale_set = group.strip_prefix("aks-").and_then(|rest| rest.strip_prefix(pool));
    group == pool || of_scale_set.is_some_and(|rest| rest.starts_with('-'))
}

fn group(view: &View<'_>, lab: &Lab, pool: &Pool, sets: &[DaemonSet]) -> Option<Group> {
    let bounds = pool.autoscale.as_ref()?;
    let name = pool.name.as_str();
    let members: Vec<&Arc<Node>> =
        view.snapshot.nodes.iter().filter(|node| view.pool_of_node(node) == Some(name)).collect();
    let template = match members.first() {
        // What Azure or a learner's hands made of the pool shows in its nodes.
        Some(node) => fresh(node),
        None => Node::from_value(&nodes::node(lab, pool, 0)).ok()?,
    };
    let backed_off = backed_off(view, name).cloned();
    let pool = NodeGroup {
        name: Arc::from(name),
        min: bounds.min,
        max: bounds.max,
        target: u32::try_from(members.len()).unwrap_or(u32::MAX),
        upcoming: 0,
        is_backed_off: backed_off.is_some(),
        template: Template::new(&template, sets).ok()?,
    };
    Some(Group { pool, backed_off, now: view.snapshot.taken_at })
}

/// A node as it was when it came: without taints that say how it is, and not cordoned.
fn fresh(node: &Node) -> Node {
    let mut node = node.clone();
    if let Some(spec) = node.spec.as_mut() {
        spec.unschedulable = None;
        if let Some(taints) = spec.taints.as_mut() {
            taints.retain(|taint| !is_system_taint(taint) || taint.key.starts_with("kubernetes.azure.com/"));
        }
    }
    node
}
