//! NodeResourcesFit: requests must fit into what is free; the least allocated node scores best.

// upstream: pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest (v1.36)
// upstream: pkg/scheduler/framework/plugins/noderesources/least_allocated.go leastResourceScorer (v1.36)

use super::filter::View;
use super::score::MAX_SCORE;
use crate::cycle::Cycle;
use crate::node_info::NodeInfo;
use crate::reason::Reason;

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
        // What the node does not have itself may be devices: DynamicResources says whether there are enough.
        if *requested > 0 && allocatable.scalar(name) == 0 && devices.are_resource(name) {
            continue;
        }
        check(name, *requested, used.scalar(name), allocatable.scalar(name));
    }
}

/// The mean over cpu and memory of the share that stays free.
pub(super) fn score(cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
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
