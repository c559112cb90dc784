//! What rules look at: the lab with the nodes it will have.

use k8s_openapi::api::core::v1::Taint;

use crate::spec::check::{Check, Condition, NodeSet, Subject};
use crate::spec::lab::Lab;
use crate::spec::machine::NodeResources;
use crate::spec::pool::Pool;
use crate::spec::provider::SimLike;
use crate::spec::step::{Action, Step};
use crate::spec::workload::Workload;
use klab_scheduler::selector::{Labels, Operator, Requirement};

/// Nodes alike: those of one pool and size in one zone.
pub(super) struct NodeGroup<'a> {
    pub pool: &'a Pool,
    /// Without the host name, which is different on every node.
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub allocatable: NodeResources,
}

pub(super) struct Context<'a> {
    pub lab: &'a Lab,
    /// Nodes of all pools, deferred ones included.
    pub nodes: Vec<NodeGroup<'a>>,
    /// Labels of the control-plane node, which is in no pool; none where the provider does not show it.
    control_plane: Option<Labels>,
}

/// Labels of the control-plane node as kubeadm makes it, where the lab has one to be seen.
fn control_plane(lab: &Lab) -> Option<Labels> {
    let shown = lab.like() == SimLike::Kind;
    let label = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    shown.then(|| {
        [
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/os", "linux"),
            ("node-role.kubernetes.io/control-plane", ""),
            ("node.kubernetes.io/exclude-from-external-load-balancers", ""),
        ]
        .map(label)
        .into()
    })
}

/// The label that is different on every node.
const HOSTNAME: &str = "kubernetes.io/hostname";

impl<'a> Context<'a> {
    pub(super) fn new(lab: &'a Lab) -> Self {
        let parts = lab.pools.iter().flat_map(|pool| pool.parts().into_iter().map(move |part| (pool, part)));
        let nodes = parts.flat_map(|(pool, part)| {
            let zones: Vec<_> =
                if pool.zones.is_empty() { vec![None] } else { pool.zones.iter().copied().map(Some).collect() };
            zones.into_iter().map(move |zone| NodeGroup {
                pool,
                labels: part.node_labels(&lab.aks.location, zone),
                taints: part.node_taints(),
                allocatable: part.machine.allocatable(part.max_pods),
            })
        });
        Self { lab, nodes: nodes.collect(), control_plane: control_plane(lab) }
    }

    /// Checks of the set-up and of all steps.
    pub(super) fn checks(&self) -> impl Iterator<Item = &'a Check> {
        let steps = self.lab.steps.iter().flat_map(|step| step.before.iter().chain(&step.checks));
        self.lab.checks.iter().chain(steps)
    }

    /// Actions of all steps.
    pub(super) fn actions(&self) -> impl Iterator<Item = &'a Action> {
        self.lab.steps.iter().flat_map(|step| &step.actions).map(|action| &action.value)
    }

    /// Whether a check says that pods of this workload stay Pending: then it is meant that they find no node.
    pub(super) fn is_meant_to_be_pending(&self, workload: &Workload) -> bool {
        self.checks().any(|check| {
            let about = match &check.subject.value {
                Subject::Workload(name) => *workload.name == *name,
                Subject::Pods { selector, namespace } => {
                    *namespace == workload.namespace && selector.matches(&self.lab.pod_labels(workload))
                }
                _ => false,
            };
            about
                && check.conditions.iter().any(
                    |condition| matches!(&condition.value, Condition::Pending { count, .. } if count.max != Some(0)),
                )
        })
    }

    /// Whether a step sets a label of this key on nodes.
    pub(super) fn is_set_by_a_step(&self, key: &str) -> bool {
        self.actions().any(|action| matches!(action, Action::Label { labels, .. } if labels.contains_key(key)))
    }

    /// Whether nodes of the lab can satisfy all requirements at once; labels that steps set count as there.
    pub(super) fn satisfies(&self, requirements: &[Requirement]) -> bool {
        self.nodes.iter().any(|group| self.group_satisfies(group, requirements))
            || self.control_plane.as_ref().is_some_and(|labels| self.labels_satisfy(labels, requirements))
    }

    pub(super) fn group_satisfies(&self, group: &NodeGroup<'_>, requirements: &[Requirement]) -> bool {
        self.labels_satisfy(&group.labels, requirements)
    }

    fn labels_satisfy(&self, labels: &Labels, requirements: &[Requirement]) -> bool {
        requirements.iter().all(|requirement| {
            requirement.key == HOSTNAME
                || self.is_set_by_a_step(&requirement.key)
                || requirement.accepts(labels.get(&requirement.key).map(String::as_str))
        })
    }

    /// Whether a workload is made by no step of this provider, but by one that is left out on it.
    pub(super) fn is_left_out(&self, workload: &Workload) -> bool {
        let deploys = |step: &Step| {
            step.actions
                .iter()
                .any(|action| matches!(&action.value, Action::Deploy { workload: name } if *name == *workload.name))
        };
        workload.deferred
            && !self.lab.steps.iter().any(deploys)
            && self.lab.skipped_steps.iter().any(|skipped| deploys(&skipped.step))
    }

    /// All label keys of nodes.
    pub(super) fn label_keys(&self) -> Vec<&str> {
        let mut keys: Vec<_> = self.nodes.iter().flat_map(|group| group.labels.keys()).map(String::as_str).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// All values of a node label.
    pub(super) fn label_values(&self, key: &str) -> Vec<&str> {
        let mut values: Vec<_> =
            self.nodes.iter().filter_map(|group| group.labels.get(key)).map(String::as_str).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    /// Pools that a node set can mean.
    pub(super) fn pools_of(&self, nodes: &NodeSet) -> Vec<&'a str> {
        let mut pools: Vec<_> = match nodes {
            NodeSet::Pool(name) => self.lab.pool(name).map(|pool| pool.name.value.as_str()).into_iter().collect(),
            NodeSet::Node(_) => self.lab.pools.iter().map(|pool| pool.name.value.as_str()).collect(),
            NodeSet::Selector(selector) => self
                .nodes
                .iter()
                .filter(|group| self.group_satisfies(group, selector.requirements()))
                .map(|group| group.pool.name.value.as_str())
                .collect(),
        };
        pools.dedup();
        pools
    }
}

/// The requirement `key=value`.
pub(super) fn equals(key: &str, value: &str) -> Requirement {
    Requirement::new(key, Operator::In, vec![value.to_owned()])
}
