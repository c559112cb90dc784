//! NodeResourcesFit: requests must fit into what is free; the least allocated node scores best, or as its profile says.

// upstream: pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest (v1.36)
// upstream: pkg/scheduler/framework/plugins/noderesources/least_allocated.go leastResourceScorer (v1.36)
// upstream: pkg/scheduler/framework/plugins/noderesources/most_allocated.go mostResourceScorer (v1.36)
// upstream: pkg/scheduler/framework/plugins/noderesources/requested_to_capacity_ratio.go requestedToCapacityRatioScorer (v1.36)

use super::filter::View;
use super::score::MAX_SCORE;
use crate::cycle::Cycle;
use crate::node_info::NodeInfo;
use crate::profile::{Scoring, Strategy};
use crate::reason::Reason;
use crate::resources::is_scalar;

/// Every resource that is short.
pub(super) fn filter(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    let node = view.node;
    let pods = node.pods.len() as i64;
    let allowed = node.spec.allowed_pods;
    if pods + 1 > allowed {
        reasons.push(Reason::TooManyPods { pods, allowed });
    }
    let requests = &cycle.info.resources.requests;
    let mut check = |resource: &str, requested: i64, used: i64, allocatable: i64| {
        if requested > 0 && requested > allocatable - used {
            reasons.push(Reason::Insufficient { resource: resource.to_owned(), requested, used, allocatable });
        }
    };
    let (used, allocatable) = (&node.requested, &node.spec.allocatable);
    check("cpu", requests.cpu, used.cpu, allocatable.cpu);
    check("memory", requests.memory, used.memory, allocatable.memory);
    check("ephemeral-storage", requests.ephemeral_storage, used.ephemeral_storage, allocatable.ephemeral_storage);
    let devices = &cycle.state.devices;
    for (name, requested) in &requests.scalars {
        if cycle.profile.arguments.fit.ignores(name) {
            continue;
        }
        // What the node does not have itself may be devices: DynamicResources says whether there are enough.
        if *requested > 0 && allocatable.scalar(name) == 0 && devices.are_resource(name) {
            continue;
        }
        check(name, *requested, used.scalar(name), allocatable.scalar(name));
    }
}

/// The mean over cpu and memory of the share that stays free, if the profile says nothing else.
pub(super) fn score(cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
    if let Some(scoring) = &cycle.profile.arguments.fit.scoring {
        return by_strategy(cycle, node, scoring);
    }
    let incoming = cycle.info.resources.incoming;
    let allocatable = &node.spec.allocatable;
    let shares = [
        (node.non_zero.cpu + incoming.cpu, allocatable.cpu),
        (node.non_zero.memory + incoming.memory, allocatable.memory),
    ];
    let (mut sum, mut resources) = (0, 0);
    for (used, allocatable) in shares.into_iter().filter(|(_, allocatable)| *allocatable > 0) {
        resources += 1;
        if used <= allocatable {
            sum += (i128::from(allocatable - used) * i128::from(MAX_SCORE) / i128::from(allocatable)) as i64;
        }
    }
    if resources == 0 { 0 } else { sum / resources }
}

/// An amount of a resource on a node.
pub(super) struct Amount {
    /// What the pod asks for.
    pub(super) incoming: i64,
    /// What the pods there ask for.
    pub(super) used: i64,
    /// What the node offers; never 0.
    pub(super) allocatable: i64,
}

/// The amounts of a resource other than cpu and memory; `None` for one that is not scored on the node.
///
/// upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go calculateNodeAllocatableRequest (v1.36)
pub(super) fn amount(cycle: &Cycle<'_>, node: &NodeInfo, resource: &str) -> Option<Amount> {
    let incoming = cycle.info.resources.requests.get(resource);
    // Resources that the pod does not ask for count nothing, but for those that every node has.
    let counts = if is_scalar(resource) { incoming != 0 } else { resource == "ephemeral-storage" };
    let allocatable = node.spec.allocatable.get(resource);
    (counts && allocatable > 0).then(|| Amount { incoming, used: node.requested.get(resource), allocatable })
}

/// The weighted mean over the resources of a profile.
fn by_strategy(cycle: &Cycle<'_>, node: &NodeInfo, scoring: &Scoring) -> i64 {
    let (pods, incoming, offered) = (&node.non_zero, cycle.info.resources.incoming, &node.spec.allocatable);
    let (mut sum, mut weights) = (0, 0);
    for (resource, weight) in &scoring.resources {
        let amount = match resource.as_ref() {
            "cpu" => Some(Amount { incoming: incoming.cpu, used: pods.cpu, allocatable: offered.cpu }),
            "memory" => Some(Amount { incoming: incoming.memory, used: pods.memory, allocatable: offered.memory }),
            other => amount(cycle, node, other),
        };
        let Some(amount) = amount.filter(|amount| amount.allocatable > 0) else { continue };
        let (used, allocatable) = (amount.used + amount.incoming, amount.allocatable);
        let percent = |part: i64| (i128::from(part) * i128::from(MAX_SCORE) / i128::from(allocatable)) as i64;
        let score = match &scoring.strategy {
            Strategy::LeastAllocated if used > allocatable => 0,
            Strategy::LeastAllocated => percent(allocatable - used),
            Strategy::MostAllocated => percent(used.min(allocatable)),
            Strategy::RequestedToCapacityRatio(shape) => on_line(shape, percent(used.min(allocatable))),
        };
        if score > 0 || !matches!(scoring.strategy, Strategy::RequestedToCapacityRatio(_)) {
            sum += score * weight;
            weights += weight;
        }
    }
    match scoring.strategy {
        _ if weights == 0 => 0,
        Strategy::RequestedToCapacityRatio(_) => (sum as f64 / weights as f64).round() as i64,
        _ => sum / weights,
    }
}

/// The value of a broken line at a utilization.
///
/// upstream: pkg/scheduler/framework/plugins/helper/shape_score.go BuildBrokenLinearFunction (v1.36)
fn on_line(shape: &[(i64, i64)], utilization: i64) -> i64 {
    let mut before = None;
    for &(end, score) in shape {
        if utilization <= end {
            let Some((start, from)) = before else { return score };
            return from + (score - from) * (utilization - start) / (end - start);
        }
        before = Some((end, score));
    }
    before.map_or(0, |(_, score)| score)
}
