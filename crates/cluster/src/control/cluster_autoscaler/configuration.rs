//! What ConfigMaps tell the autoscaler: its settings, the pools, the priorities of the expander.

// upstream: cluster-autoscaler/expander/priority/priority.go parsePrioritiesYAMLString, groupIDMatchesList (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::CONFIG_MAPS;
use klab_api_machinery::views::ConfigMap;
use regex::Regex;

use crate::cluster::Cluster;
use klab_api_machinery::node_pools::{NAMESPACE, NODE_POOLS, NodePool, PRIORITIES, PROFILE};
use klab_api_machinery::pool_upgrades::{POOL_UPGRADES, PoolUpgrade};
use klab_scheduler::autoscaler::{Expander, NodeGroup, Profile};

/// The names of the ConfigMaps that the autoscaler reads.
pub(super) const READ: [&str; 3] = [NODE_POOLS, PROFILE, PRIORITIES];

/// A ConfigMap of the autoscaler's.
pub(super) fn config_map(cluster: &Cluster, name: &str) -> Option<Arc<Object>> {
    cluster.get(CONFIG_MAPS, NAMESPACE, name)
}

/// The pools, by name, but for those that are being upgraded: AKS does one thing to a pool at a time.
pub(super) fn pools(cluster: &Cluster) -> BTreeMap<String, NodePool> {
    let mut pools = config_map(cluster, NODE_POOLS).map(|map| NodePool::read(&map.value())).unwrap_or_default();
    if let Some(map) = config_map(cluster, POOL_UPGRADES) {
        let upgrades = PoolUpgrade::read(&map.value());
        pools.retain(|name, _| upgrades.get(name).is_none_or(|upgrade| upgrade.end.is_some()));
    }
    pools
}

/// The settings, and what of them is wrong: that is left at its default.
pub(super) fn profile(cluster: &Cluster) -> (Profile, Vec<String>) {
    let mut profile = Profile::default();
    let mut problems = Vec::new();
    let Some(map) = config_map(cluster, PROFILE) else { return (profile, problems) };
    for (name, value) in ConfigMap(&map.value()).data().iter() {
        if let Err(error) = profile.set(name, value) {
            problems.push(error.to_string());
        }
    }
    (profile, problems)
}

/// The greatest priority of each group whose name matches one of the expressions; or what is wrong with the ConfigMap. None
/// where there is no ConfigMap.
pub(super) fn priorities(
    cluster: &Cluster,
    profile: &Profile,
    groups: &[NodeGroup],
) -> Option<Result<BTreeMap<Arc<str>, i64>, String>> {
    if !profile.expanders.contains(&Expander::Priority) {
        return None;
    }
    let map = config_map(cluster, PRIORITIES)?.value();
    Some(read_priorities(ConfigMap(&map)).map(|priorities| {
        let of = |group: &NodeGroup| {
            let matching = priorities.iter().filter(|(_, expression)| expression.is_match(&group.name));
            Some((Arc::clone(&group.name), matching.map(|(priority, _)| *priority).max()?))
        };
        groups.iter().filter_map(of).collect()
    }))
}

fn read_priorities(map: ConfigMap<'_>) -> Result<Vec<(i64, Regex)>, String> {
    let wrong = |why: String| format!("Wrong configuration for priority expander: {why}. Ignoring update.");
    let text = map.data().get("priorities").ok_or_else(|| {
        "Wrong configmap for priority expander, doesn't contain priorities key. Ignoring update.".to_owned()
    })?;
    let lists: BTreeMap<i64, Vec<String>> = serde_saphyr::from_str(text)
        .map_err(|error| wrong(format!("Can't parse YAML with priorities in the configmap: {error}")))?;
    let expressions = lists.into_iter().flat_map(|(priority, list)| list.into_iter().map(move |text| (priority, text)));
    expressions
        .map(|(priority, text)| match Regex::new(&text) {
            Ok(expression) => Ok((priority, expression)),
            Err(_) => Err(wrong(format!("Can't compile regexp rule for priority {priority} and rule {text}"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn priorities_are_read_as_the_expander_reads_them() {
        let read = |text: &str| read_priorities(ConfigMap(&json!({ "data": { "priorities": text } })));
        let read_well = read("10:\n  - .*spot.*\n  - cheap\n50:\n  - .*main.*\n").unwrap();
        let told: Vec<String> = read_well.iter().map(|(priority, it)| format!("{priority} {it}")).collect();
        assert_eq!(told, ["10 .*spot.*", "10 cheap", "50 .*main.*"]);
        for (text, problem) in
            [("10: x", "Can't parse YAML"), ("10:\n  - \"[\"", "Can't compile regexp rule for priority 10")]
        {
            let error = read(text).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        assert!(read_priorities(ConfigMap(&json!({}))).unwrap_err().contains("doesn't contain priorities key"));
    }
}
