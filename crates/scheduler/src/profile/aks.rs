//! What AKS takes of a configuration: users configure some plugins, and add profiles to those that AKS has.

// See https://learn.microsoft.com/azure/aks/concepts-scheduler-configuration (the plugins)
// See https://learn.microsoft.com/azure/aks/configure-aks-scheduler (the limits)

use serde_json::Value;

use super::document::{ConfigurationError, Problems};
use super::profiles::Profiles;

/// The scheduler of AKS's own add-ons, which has no profile of users.
const SYSTEM: &str = "aks-system";

/// Plugins that AKS lets users configure.
const PLUGINS: [&str; 18] = [
    "DefaultBinder",
    "DefaultPreemption",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "PrioritySort",
    "SchedulingGates",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
];

impl Profiles {
    /// As [`Profiles::from_configuration`], of a cluster of AKS: the default profile is there beside those of the
    /// configuration, which may replace it.
    ///
    /// # Errors
    /// Also where the configuration names a plugin or a scheduler that AKS keeps for itself.
    pub fn for_aks(configuration: &Value) -> Result<Self, ConfigurationError> {
        let profiles = Self::from_configuration(configuration)?;
        let problems = Problems::default();
        for (index, profile) in list(&configuration["profiles"]).iter().enumerate() {
            if profile["schedulerName"] == SYSTEM {
                problems.add(format!("profiles[{index}].schedulerName: AKS keeps {SYSTEM} for its add-ons"));
            }
            let sets = profile["plugins"].as_object().into_iter().flatten().map(|(_, set)| set);
            let lists = sets.flat_map(|set| [&set["enabled"], &set["disabled"]]).chain([&profile["pluginConfig"]]);
            let names = lists.flat_map(list).filter_map(|plugin| plugin["name"].as_str());
            for name in names.filter(|name| *name != "*" && !PLUGINS.contains(name)) {
                problems.add(format!("profiles[{index}]: users do not configure the plugin {name} on AKS"));
            }
        }
        problems.none_or(profiles.with(&Self::default()))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
