//! Every reason against a pod on a node, over all filters.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::class_cache::ClassCaches;
use super::cycle::Cycle;
use super::delta::Delta;
use super::devices::ClaimCycle;
use super::error::ObjectError;
use super::failure::{Nomination, kept_node};
use super::ids::NodeId;
use super::node_info::NodeInfo;
use super::plugins::{self, View, nominated_before, with_pods};
use super::profile::Profile;
use super::reason::Reason;
use super::schedule::{Subject, claims_of, name_of, requested_node};
use super::state::State;

/// All reasons against one node.
pub(crate) fn evaluate(
    state: &mut State,
    caches: &mut ClassCaches,
    profile: &Profile,
    pod: &Pod,
    node: &str,
) -> Result<Option<Vec<Reason>>, ObjectError> {
    with_cycle(state, caches, profile, pod, |cycle| {
        let id = cycle.state.node_id(node)?;
        Some(reasons_against(cycle, id, cycle.node(id)?))
    })
}

/// All reasons against all nodes.
pub(crate) fn evaluate_all(
    state: &mut State,
    caches: &mut ClassCaches,
    profile: &Profile,
    pod: &Pod,
) -> Result<BTreeMap<Arc<str>, Vec<Reason>>, ObjectError> {
    with_cycle(state, caches, profile, pod, |cycle| {
        let nodes = cycle.state.live_nodes();
        nodes.map(|(id, node)| (Arc::clone(&node.spec.name), reasons_against(cycle, id, node))).collect()
    })
}

fn with_cycle<T>(
    state: &mut State,
    caches: &mut ClassCaches,
    profile: &Profile,
    pod: &Pod,
    ask: impl FnOnce(&Cycle<'_>) -> T,
) -> Result<T, ObjectError> {
    let subject = Subject::of(state, pod, name_of(pod)?)?;
    // The decision mentions claims that do not exist yet.
    let claims = claims_of(state, pod)?.ok().flatten();
    let cells = claims.as_ref().map(|claims| caches.take_devices(state, claims));
    let cache = caches.refreshed(state, profile, subject.class, subject.labels, &subject.key.name);
    let requested = requested_node(pod);
    let mut cycle =
        Cycle::new(state, profile, subject.class, subject.labels, &subject.key.name, requested, &cache.tallies);
    let with_cells = claims.as_ref().zip(cells);
    cycle.claims = with_cells.map(|(claims, cells)| ClaimCycle::new(&state.devices, claims, cells));
    kept_node(&mut cycle, Nomination::of(state, pod));
    Ok(ask(&cycle))
}

fn reasons_against(cycle: &Cycle<'_>, id: NodeId, node: &NodeInfo) -> Vec<Reason> {
    let mut reasons = Vec::new();
    plugins::pre_filter_all(cycle, &mut reasons);
    let nominated = nominated_before(cycle, node);
    let full = with_pods(cycle.state, node, &nominated);
    let delta = Delta { added: nominated, removed: Vec::new() };
    reasons.extend(plugins::all_reasons(cycle, &View { id, node: &full, delta: &delta }));
    if reasons.is_empty() && !delta.is_empty() {
        reasons = plugins::all_reasons(cycle, &View { id, node, delta: Delta::NONE });
    }
    if reasons.iter().any(|reason| matches!(reason, Reason::NoDeviceClass { .. })) {
        // What is wrong then has been said.
        reasons.retain(|reason| !matches!(reason, Reason::BrokenDeviceRequest { .. }));
    }
    for reason in &mut reasons {
        if let (Reason::NoDevices { shortage } | Reason::BrokenDeviceRequest { shortage, .. }, Some(claims)) =
            (reason, &cycle.claims)
        {
            *shortage = Some(Arc::new(claims.shortage(node)));
        }
    }
    reasons
}
