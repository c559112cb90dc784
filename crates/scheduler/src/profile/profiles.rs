//! A profile, and the profiles of a scheduler by name.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::arguments::{Arguments, Strategy};
use crate::reason::PluginName;

/// The name of the default scheduler.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Annotation of the namespace `kube-system` with the configurations of all schedulers, as a list in JSON for
/// [`Profiles::of_all`]. An embedded cluster writes it where it has others than it was made with, for what explains placement.
pub const SCHEDULERS_ANNOTATION: &str = "klab.dev/schedulers";

/// What a scheduler does for the pods that name it in `spec.schedulerName`.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub(crate) name: Arc<str>,
    /// Its place among the scheduler's profiles.
    pub(crate) place: usize,
    /// Those that may refuse a pod for every node, in this order.
    pub(crate) pre_filters: Vec<PluginName>,
    /// Those that judge nodes, in this order.
    pub(crate) filters: Vec<PluginName>,
    /// Those that score nodes, with their weights.
    pub(crate) scores: Vec<(PluginName, i64)>,
    /// Whether pods of lower priority are evicted.
    pub(crate) preempts: bool,
    /// Whether the filters that look at one node come first, then those that look at others, then that of devices.
    pub(crate) local_first: bool,
    pub(crate) arguments: Arguments,
}

impl Profile {
    /// The scheduler's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether NodeResourcesFit favours nodes of which less is taken.
    pub(crate) fn favours_free(&self) -> bool {
        self.arguments.fit.scoring.as_ref().is_none_or(|scoring| scoring.strategy == Strategy::LeastAllocated)
    }

    /// Whether pods that name nodes in their node affinity are tried on these alone.
    pub(crate) fn narrows_by_name(&self) -> bool {
        self.pre_filters.contains(&PluginName::NodeAffinity)
    }
}

/// The profiles of a scheduler: at least one, each of another name.
#[derive(Debug, Clone, PartialEq)]
pub struct Profiles(pub(super) Vec<Profile>);

impl Profiles {
    /// The profile that a pod asks for by its `spec.schedulerName`; `None` if it asks for another scheduler.
    pub fn of(&self, pod: &Pod) -> Option<&Profile> {
        let name = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(DEFAULT_SCHEDULER);
        self.0.iter().find(|profile| &*profile.name == name)
    }

    /// These profiles, and those of another scheduler whose names they do not have.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let is_new = |other: &&Profile| self.0.iter().all(|own| own.name != other.name);
        let all = self.0.iter().chain(others.0.iter().filter(is_new)).enumerate();
        Self(all.map(|(place, profile)| Profile { place, ..profile.clone() }).collect())
    }

    /// The profiles of several schedulers, by their configurations; `Null` stands for those that the cluster was made with. What
    /// cannot be read is left out.
    pub fn of_all(configurations: &[Value], made_with: &Self) -> Self {
        let read = configurations.iter().filter_map(|one| match one {
            Value::Null => Some(made_with.clone()),
            one => Self::from_configuration(one).ok(),
        });
        read.reduce(|all, more| all.with(&more)).unwrap_or_default()
    }

    /// All profiles, in the order of the configuration.
    pub fn all(&self) -> &[Profile] {
        &self.0
    }
}
