//! NodeResourcesBalancedAllocation: nodes on which the pod brings cpu and memory use closer together score better.

// upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go balancedResourceScorer (v1.36)

use super::score::MAX_SCORE;
use crate::cycle::Cycle;
use crate::node_info::NodeInfo;

/// Pods without requests are not scored, lest they all go to one node.
pub(super) fn scores(cycle: &Cycle<'_>) -> bool {
    let requests = &cycle.info.resources.requests;
    requests.cpu != 0 || requests.memory != 0
}

/// 50 to 100: how much better balanced the node is with the pod than without.
pub(super) fn score(cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
    let requests = &cycle.info.resources.requests;
    let with = balance(node, node.requested.cpu + requests.cpu, node.requested.memory + requests.memory);
    let without = balance(node, node.requested.cpu, node.requested.memory);
    let half = MAX_SCORE / 2;
    half + (half + with - without) / 2
}

/// 100 less the standard deviation of the used shares, in percent.
fn balance(node: &NodeInfo, cpu: i64, memory: i64) -> i64 {
    let allocatable = &node.spec.allocatable;
    let share = |used: i64, allocatable: i64| (allocatable > 0).then(|| (used as f64 / allocatable as f64).min(1.0));
    let deviation = match (share(cpu, allocatable.cpu), share(memory, allocatable.memory)) {
        (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}
