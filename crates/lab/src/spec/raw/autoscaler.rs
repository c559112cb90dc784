//! `[autoscaler]` as written: the settings of AKS's cluster autoscaler profile.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{At, SettingText};

/// Settings of the cluster autoscaler, by the names of AKS's cluster autoscaler profile.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in crate::spec) struct Autoscaler {
    /// Whether pools that are alike grow together. Default: false.
    pub balance_similar_node_groups: Option<At<SettingText>>,
    /// Whether pods of DaemonSets are evicted before an empty node goes. Default: false.
    pub daemonset_eviction_for_empty_nodes: Option<At<SettingText>>,
    /// Whether pods of DaemonSets are evicted before a node with other pods goes. Default: true.
    pub daemonset_eviction_for_occupied_nodes: Option<At<SettingText>>,
    /// Which of several pools grows: random, least-waste, most-pods or priority. Default: random.
    pub expander: Option<At<SettingText>>,
    /// Whether pods of DaemonSets do not count for how full a node is. Default: false.
    pub ignore_daemonsets_utilization: Option<At<SettingText>>,
    /// How many nodes may be removed at the same time. Default: 10.
    pub max_empty_bulk_delete: Option<At<SettingText>>,
    /// How many seconds pods may take to end when their node is removed. Default: 600.
    pub max_graceful_termination_sec: Option<At<SettingText>>,
    /// How long a new node may take to register, in minutes. Default: 15m.
    pub max_node_provision_time: Option<At<SettingText>>,
    /// Share of nodes that are not ready, in percent, above which the autoscaler does nothing. Default: 45.
    pub max_total_unready_percentage: Option<At<SettingText>>,
    /// How old a pod must be before a pool grows for it, such as "30s". Default: 0s.
    pub new_pod_scale_up_delay: Option<At<SettingText>>,
    /// The number of nodes that may always be not ready. Default: 3.
    pub ok_total_unready_count: Option<At<SettingText>>,
    /// How long after a pool grew no node is removed, in minutes. Default: 10m.
    pub scale_down_delay_after_add: Option<At<SettingText>>,
    /// How long after a node was removed no other is, in minutes. Default: the scan interval.
    pub scale_down_delay_after_delete: Option<At<SettingText>>,
    /// How long after a node could not be removed no other is, in minutes. Default: 3m.
    pub scale_down_delay_after_failure: Option<At<SettingText>>,
    /// How long a node must have been unneeded before it is removed, in minutes. Default: 10m.
    pub scale_down_unneeded_time: Option<At<SettingText>>,
    /// The same for a node that is not ready. Default: 20m.
    pub scale_down_unready_time: Option<At<SettingText>>,
    /// Share of a node's CPU or memory that its pods request, above which the node is needed. Default: 0.5.
    pub scale_down_utilization_threshold: Option<At<SettingText>>,
    /// How often the autoscaler looks at the cluster, in seconds. Default: 10s.
    pub scan_interval: Option<At<SettingText>>,
    /// Whether a pod with local storage keeps its node. Default: false.
    pub skip_nodes_with_local_storage: Option<At<SettingText>>,
    /// Whether a pod of kube-system keeps its node. Default: true.
    pub skip_nodes_with_system_pods: Option<At<SettingText>>,
}

impl Autoscaler {
    /// The settings that are given, by name.
    pub(in crate::spec) fn settings(&self) -> impl Iterator<Item = (&'static str, &At<SettingText>)> {
        let all = [
            ("balance-similar-node-groups", &self.balance_similar_node_groups),
            ("daemonset-eviction-for-empty-nodes", &self.daemonset_eviction_for_empty_nodes),
            ("daemonset-eviction-for-occupied-nodes", &self.daemonset_eviction_for_occupied_nodes),
            ("expander", &self.expander),
            ("ignore-daemonsets-utilization", &self.ignore_daemonsets_utilization),
            ("max-empty-bulk-delete", &self.max_empty_bulk_delete),
            ("max-graceful-termination-sec", &self.max_graceful_termination_sec),
            ("max-node-provision-time", &self.max_node_provision_time),
            ("max-total-unready-percentage", &self.max_total_unready_percentage),
            ("new-pod-scale-up-delay", &self.new_pod_scale_up_delay),
            ("ok-total-unready-count", &self.ok_total_unready_count),
            ("scale-down-delay-after-add", &self.scale_down_delay_after_add),
            ("scale-down-delay-after-delete", &self.scale_down_delay_after_delete),
            ("scale-down-delay-after-failure", &self.scale_down_delay_after_failure),
            ("scale-down-unneeded-time", &self.scale_down_unneeded_time),
            ("scale-down-unready-time", &self.scale_down_unready_time),
            ("scale-down-utilization-threshold", &self.scale_down_utilization_threshold),
            ("scan-interval", &self.scan_interval),
            ("skip-nodes-with-local-storage", &self.skip_nodes_with_local_storage),
            ("skip-nodes-with-system-pods", &self.skip_nodes_with_system_pods),
        ];
        all.into_iter().filter_map(|(name, setting)| Some((name, setting.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use klab_scheduler::autoscaler::Setting;

    use super::*;

    #[test]
    fn every_setting_of_the_profile_has_its_key() {
        let text: String = Setting::ALL.iter().map(|setting| format!("{} = \"x\"\n", setting.name)).collect();
        let table = toml::de::DeTable::parse(&text).unwrap();
        let tree = toml::Spanned::new(table.span(), toml::de::DeValue::Table(table.into_inner()));
        let read = Autoscaler::deserialize(crate::spec::tree::Tree::new(&tree)).unwrap();
        let names: Vec<_> = read.settings().map(|(name, _)| name).collect();
        assert_eq!(names, Setting::ALL.iter().map(|setting| setting.name).collect::<Vec<_>>());
    }
}
