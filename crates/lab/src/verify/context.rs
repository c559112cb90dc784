//! What the lab says about its cluster, as far as verdicts and hints need it.

use crate::spec::{Action, Lab, Pool, Provider, Workload};

/// The lab around a snapshot. Empty for a cluster that no lab describes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// Name of the lab.
    pub lab: &'a str,
    /// Its pools.
    pub pools: &'a [Pool],
    /// Its workloads.
    pub workloads: &'a [Workload],
    /// Who makes the cluster, where that is known.
    pub provider: Option<Provider>,
    /// The lab itself, where one describes the cluster: what a new node of a pool would be.
    pub whole: Option<&'a Lab>,
}

impl<'a> Context<'a> {
    /// The context of a lab.
    pub fn of(lab: &'a Lab) -> Self {
        Self {
            lab: &lab.name,
            pools: &lab.pools,
            workloads: &lab.workloads,
            provider: Some(lab.provider),
            whole: Some(lab),
        }
    }

    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<&'a Pool> {
        self.pools.iter().find(|pool| *pool.name == name)
    }

    /// Whether a step of the lesson gives nodes this label: then the lab file needs no change for it.
    pub(crate) fn labels_by_step(&self, key: &str, value: &str) -> bool {
        let mut actions = self.whole.into_iter().flat_map(|lab| &lab.steps).flat_map(|step| &step.actions);
        actions.any(|action| match &action.value {
            Action::Label { labels, .. } => labels.get(key).is_some_and(|label| label == value),
            _ => false,
        })
    }

    /// The workload of this name.
    pub fn workload(&self, name: &str) -> Option<&'a Workload> {
        self.workloads.iter().find(|workload| *workload.name == name)
    }
}
