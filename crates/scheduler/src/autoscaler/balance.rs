//! New nodes shared among pools that are alike.

// upstream: cluster-autoscaler/processors/nodegroupset/compare_nodegroups.go IsCloudProviderNodeInfoSimilar (v1.36)
// upstream: cluster-autoscaler/processors/nodegroupset/azure_nodegroups.go CreateAzureNodeInfoComparator (v1.36)
// upstream: cluster-autoscaler/processors/nodegroupset/balancing_processor.go BalanceScaleUpBetweenGroups (v1.36)

use super::group::{NodeGroup, Template};
use crate::cycle::{HOSTNAME, ZONE};

/// Labels in which pools that are alike may differ.
const IGNORED: [&str; 16] = [
    HOSTNAME,
    ZONE,
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/fluentd-ds-ready",
    "kops.k8s.io/instancegroup",
    "agentpool",
    "kubernetes.azure.com/agentpool",
    "poolName",
    "creationSource",
    "storageprofile",
    "storagetier",
    "kubernetes.azure.com/nodepool",
    "topology.disk.csi.azure.com/zone",
    "kubernetes.azure.com/consolidated-additional-properties",
];
/// By how much of the greater one allocatable CPU and the like may differ.
const ALLOCATABLE: f64 = 0.05;
/// By how much of the greater one the memory of two machines may differ.
const MEMORY: f64 = 0.015;

/// Whether new nodes of two pools would be alike.
pub(super) fn alike(one: &Template, other: &Template) -> bool {
    let close = |one: i64, other: i64, by: f64| {
        let (one, other) = (one as f64, other as f64);
        (one - other).abs() <= one.max(other) * by
    };
    let labels = |template: &Template| {
        let mut labels = template.spec.labels.clone();
        labels.retain(|key, _| !IGNORED.contains(&key.as_str()));
        labels
    };
    let (mine, theirs) = (&one.spec.allocatable, &other.spec.allocatable);
    one.capacity.cpu == other.capacity.cpu
        && one.capacity.scalars == other.capacity.scalars
        && close(one.capacity.memory, other.capacity.memory, MEMORY)
        && close(mine.cpu, theirs.cpu, ALLOCATABLE)
        && close(mine.memory, theirs.memory, ALLOCATABLE)
        && labels(one) == labels(other)
}

/// How many nodes each of these pools is to have, by place, where `new` ones are added to the smallest in turn.
pub(super) fn share(groups: &[(usize, &NodeGroup)], new: u32) -> Vec<(usize, u32)> {
    let mut sizes: Vec<(u32, u32, usize)> = groups
        .iter()
        .filter(|(_, group)| group.target < group.max)
        .map(|(at, group)| (group.target, group.max, *at))
        .collect();
    sizes.sort_by_key(|(size, _, _)| *size);
    for _ in 0..new {
        let Some(smallest) = sizes.iter_mut().filter(|(size, max, _)| size < max).min_by_key(|(size, _, _)| *size)
        else {
            break;
        };
        smallest.0 += 1;
    }
    let mut sizes: Vec<(usize, u32)> = sizes.into_iter().map(|(size, _, at)| (at, size)).collect();
    sizes.sort_unstable();
    sizes
}
