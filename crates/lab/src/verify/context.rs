//! What the lab says about its cluster, as far as verdicts and hints need it.

use std::sync::Arc;

use klab_scheduler::Profiles;
use klab_scheduler::features::Features;

use crate::spec::{Action, Lab, Pool, Provider, Workload};

/// The lab around a snapshot. Empty for a cluster that no lab describes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The lab, where one describes the cluster.
    pub lab: Option<&'a Lab>,
}

impl<'a> Context<'a> {
    /// The context of a lab.
    pub fn of(lab: &'a Lab) -> Self {
        Self { lab: Some(lab) }
    }

    /// Name of the lab; empty without one.
    pub fn name(&self) -> &'a str {
        self.lab.map_or("", |lab| lab.name.as_str())
    }

    /// Its pools.
    pub fn pools(&self) -> &'a [Pool] {
        self.lab.map_or(&[], |lab| &lab.pools)
    }

    /// Who makes the cluster, where that is known.
    pub fn provider(&self) -> Option<Provider> {
        self.lab.map(|lab| lab.provider)
    }

    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<&'a Pool> {
        self.lab?.pool(name)
    }

    /// The profiles of the scheduler, as far as a lab says what they are.
    pub(crate) fn profiles(self) -> Arc<Profiles> {
        self.lab.map(Lab::profiles).unwrap_or_default()
    }

    /// The features of the cluster, as far as a lab says what they are.
    pub(crate) fn features(self) -> Features {
        self.lab.map_or(Features::observed(), Lab::features)
    }

    /// The workload of this name.
    pub fn workload(&self, name: &str) -> Option<&'a Workload> {
        self.lab?.workload(name)
    }

    /// Whether a step of the lesson gives nodes this label: then the lab file needs no change for it.
    pub(crate) fn labels_by_step(self, key: &str, value: &str) -> bool {
        let mut actions = self.lab.into_iter().flat_map(|lab| &lab.steps).flat_map(|step| &step.actions);
        actions.any(|action| match &action.value {
            Action::Label { labels, .. } => labels.get(key).is_some_and(|label| label == value),
            _ => false,
        })
    }
}
