//! NodeResourcesBalancedAllocation: nodes on which the pod brings cpu and memory use closer together score better.

// upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go balancedResourceScorer (v1.36)

use std::sync::Arc;

use super::node_resources_fit::amount;
use super::score::MAX_SCORE;
use crate::cycle::Cycle;
use crate::node_info::NodeInfo;

/// Pods without requests are not scored, lest they all go to one node.
pub(super) fn scores(cycle: &Cycle<'_>) -> bool {
    let requests = &cycle.info.resources.requests;
    match &cycle.profile.arguments.balanced {
        None => requests.cpu != 0 || requests.memory != 0,
        Some(resources) => resources.iter().any(|resource| requests.get(resource) != 0),
    }
}

/// 50 to 100: how much better balanced the node is with the pod than without.
pub(super) fn score(cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
    let requests = &cycle.info.resources.requests;
    if let Some(resources) = &cycle.profile.arguments.balanced {
        return balanced(cycle, node, resources);
    }
    let with = balance(node, node.requested.cpu + requests.cpu, node.requested.memory + requests.memory);
    let without = balance(node, node.requested.cpu, node.requested.memory);
    let half = MAX_SCORE / 2;
    half + (half + with - without) / 2
}

/// How evenly cpu and memory are used.
fn balance(node: &NodeInfo, cpu: i64, memory: i64) -> i64 {
    let allocatable = &node.spec.allocatable;
    let share = |used: i64, allocatable: i64| (allocatable > 0).then(|| (used as f64 / allocatable as f64).min(1.0));
    match (share(cpu, allocatable.cpu), share(memory, allocatable.memory)) {
        (Some(cpu), Some(memory)) => evenness(&[cpu, memory]),
        _ => MAX_SCORE,
    }
}

/// The same for the resources of a profile.
fn balanced(cycle: &Cycle<'_>, node: &NodeInfo, resources: &[Arc<str>]) -> i64 {
    let (requests, offered) = (&cycle.info.resources.requests, &node.spec.allocatable);
    let amounts = || {
        resources.iter().filter_map(|resource| match resource.as_ref() {
            name @ ("cpu" | "memory") if offered.get(name) > 0 => {
                Some((requests.get(name), node.requested.get(name), offered.get(name)))
            }
            "cpu" | "memory" => None,
            name => amount(cycle, node, name).map(|it| (it.incoming, it.used, it.allocatable)),
        })
    };
    let share = |used: i64, allocatable: i64| (used as f64 / allocatable as f64).min(1.0);
    let with = evenness(&amounts().map(|(incoming, used, all)| share(used + incoming, all)).collect::<Vec<_>>());
    let without = evenness(&amounts().map(|(_, used, all)| share(used, all)).collect::<Vec<_>>());
    let half = MAX_SCORE / 2;
    half + (half + with - without) / 2
}

/// 100 less the standard deviation of shares, in percent.
fn evenness(shares: &[f64]) -> i64 {
    let deviation = match shares {
        [] | [_] => 0.0,
        [one, two] => ((one - two) / 2.0).abs(),
        all => {
            let count = all.len() as f64;
            let mean = all.iter().sum::<f64>() / count;
            (all.iter().map(|share| (share - mean) * (share - mean)).sum::<f64>() / count).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}
