//! DynamicResources: the claims of a pod have devices that can be used on the node, or can be given some there.

// upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go PreFilter, Filter, Score (v1.36)

use super::filter::View;
use super::score::RawScores;
use crate::cycle::Cycle;
use crate::devices::Verdict;
use crate::ids::NodeId;
use crate::reason::Reason;

/// Every request must be of a class that exists.
pub(super) fn pre_filter(cycle: &Cycle<'_>, reasons: &mut Vec<Reason>) {
    let Some(claims) = &cycle.claims else { return };
    let requests = claims.claims.pending.iter().flat_map(|claim| &claim.spec.requests);
    let choices = requests.flat_map(|request| request.choices.iter().enumerate().map(move |choice| (request, choice)));
    for (request, (number, choice)) in choices {
        if claims.devices.class(&choice.class).is_none() {
            let (request, class) = (request.reference(number), choice.class.clone());
            reasons.push(Reason::NoDeviceClass { request, class });
            return;
        }
    }
}

/// Why the claims keep the pod off a node.
pub(super) fn refuses(cycle: &Cycle<'_>, view: &View<'_>) -> Option<Reason> {
    let claims = cycle.claims.as_ref()?;
    match claims.verdict(view.id, view.node) {
        Verdict::Fits(_) => None,
        Verdict::NoDevices => Some(Reason::NoDevices { shortage: None }),
        Verdict::InvalidPools => Some(Reason::InvalidDevicePools),
        Verdict::NotThere(at) => {
            let claim = claims.claims.all.get(at).map(|claim| claim.name.to_string()).unwrap_or_default();
            Some(Reason::DevicesElsewhere { claim })
        }
        Verdict::Broken(message) => Some(Reason::BrokenDeviceRequest { message, shortage: None }),
    }
}

/// Nodes that meet earlier alternatives are better.
pub(super) fn score(cycle: &Cycle<'_>, feasible: &[NodeId]) -> Option<RawScores> {
    let claims = cycle.claims.as_ref()?;
    let before = i64::from(claims.merit_before());
    let merit = |&id: &NodeId| match cycle.node(id).map(|node| claims.verdict(id, node)) {
        Some(Verdict::Fits(merit)) => i64::from(merit) + before,
        _ => before,
    };
    let values: Vec<i64> = feasible.iter().map(merit).collect();
    values.iter().any(|value| *value > 0).then_some(RawScores { values, ignored: Vec::new() })
}
