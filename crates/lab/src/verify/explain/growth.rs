//! What the cluster autoscaler makes of a pod that waits: which pools grow for it, and why the others do not.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::reasons;
use crate::nodes;
use crate::plan::is_system_taint;
use crate::spec::{Lab, Pool};
use crate::verify::cause::NodeReason;
use crate::verify::view::View;
use klab_scheduler::Cluster;
use klab_scheduler::autoscaler::{EXPENDABLE_BELOW, NodeGroup, Template, refusal};

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
}

impl PoolGrowth {
    /// Whether it has as many nodes as it may have.
    pub fn is_at_maximum(&self) -> bool {
        self.nodes >= self.max as usize
    }

    /// Whether a node would come for the pod.
    pub fn grows(&self) -> bool {
        self.refusals.is_empty() && !self.is_at_maximum()
    }
}

/// Whether a cluster autoscaler acts on any pool.
pub(crate) fn has_autoscaled_pools(view: &View<'_>) -> bool {
    let acts = view.context.lab.is_some_and(|lab| lab.provider.profile().has_autoscaler);
    acts && autoscaled(view).next().is_some()
}

fn autoscaled<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Pool> {
    view.context.pools().iter().filter(|pool| !pool.deferred && pool.autoscale.is_some())
}

/// What each autoscaled pool does for a pod, in the order of the lab file. Nothing where no autoscaler looks at the pod.
pub(crate) fn growth(view: &View<'_>, cluster: &Cluster, pod: &Pod) -> Vec<PoolGrowth> {
    let Some(lab) = view.context.lab.filter(|lab| lab.provider.profile().has_autoscaler) else { return Vec::new() };
    let owners = pod.metadata.owner_references.iter().flatten();
    let of_daemon = owners.into_iter().any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet");
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
    if of_daemon || priority < EXPENDABLE_BELOW {
        return Vec::new();
    }
    let sets: Vec<DaemonSet> = view.snapshot.daemon_sets.iter().map(|set| (**set).clone()).collect();
    autoscaled(view).filter_map(|pool| of_pool(view, cluster, pod, lab, pool, &sets)).collect()
}

fn of_pool(
    view: &View<'_>,
    cluster: &Cluster,
    pod: &Pod,
    lab: &Lab,
    pool: &Pool,
    sets: &[DaemonSet],
) -> Option<PoolGrowth> {
    let bounds = pool.autoscale.as_ref()?;
    let name = pool.name.as_str();
    let members: Vec<&Arc<Node>> =
        view.snapshot.nodes.iter().filter(|node| view.pool_of_node(node) == Some(name)).collect();
    let template = match members.first() {
        // What Azure or a learner's hands made of the pool shows in its nodes.
        Some(node) => fresh(node),
        None => serde_json::from_value(nodes::node(lab, pool, 0)).ok()?,
    };
    let group = NodeGroup {
        name: Arc::from(name),
        min: bounds.min,
        max: bounds.max,
        target: u32::try_from(members.len()).unwrap_or(u32::MAX),
        upcoming: 0,
        template: Template::new(&template, sets).ok()?,
    };
    let refused = refusal(cluster, pod, &group).ok()?.unwrap_or_default();
    Some(PoolGrowth {
        pool: name.to_owned(),
        nodes: members.len(),
        min: bounds.min,
        max: bounds.max,
        refusals: refused.iter().map(|reason| reasons::describe(&[reason])).collect(),
    })
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
