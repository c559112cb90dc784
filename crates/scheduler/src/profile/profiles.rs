//! A profile, and the profiles of a scheduler by name.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::arguments::Arguments;
use crate::reason::PluginName;

/// The name of the default scheduler.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

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

    /// The weight of a plugin's score; `None` if it does not score.
    pub fn weight(&self, plugin: PluginName) -> Option<i64> {
        self.scores.iter().find(|(name, _)| *name == plugin).map(|(_, weight)| *weight)
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

    /// All profiles, in the order of the configuration.
    pub fn all(&self) -> &[Profile] {
        &self.0
    }
}
