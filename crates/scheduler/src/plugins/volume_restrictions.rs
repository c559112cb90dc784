//! VolumeRestrictions: a `ReadWriteOncePod` claim is used by one pod at a time.

// upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go PreFilter, Filter (v1.36)

use super::filter::View;
use crate::cycle::Cycle;
use crate::reason::Reason;

pub(super) fn pre_filter(cycle: &Cycle<'_>, reasons: &mut Vec<Reason>) {
    let (info, volumes) = (cycle.info, &cycle.state.volumes);
    let named = info.claims.iter().filter(|name| !info.ephemeral.contains(name));
    let missing = |name: &&String| volumes.claim(&info.namespace, name).is_none();
    if let Some(claim) = named.into_iter().find(missing) {
        reasons.push(Reason::ClaimNotFound { claim: claim.clone() });
    }
}

pub(super) fn filter(cycle: &Cycle<'_>, _view: &View<'_>, reasons: &mut Vec<Reason>) {
    let state = cycle.state;
    for name in &cycle.info.claims {
        if !state.volumes.claim(&cycle.info.namespace, name).is_some_and(|claim| claim.one_pod) {
            continue;
        }
        let in_use =
            state.live_nodes().flat_map(|(_, node)| &node.pods).filter_map(|&pod| state.pod(pod)).any(|entry| {
                let info = &state.class(entry.class).info;
                info.namespace == cycle.info.namespace
                    && info.claims.contains(name)
                    && entry.key.name.as_ref() != cycle.name
            });
        if in_use {
            reasons.push(Reason::ClaimInUse { claim: name.clone() });
        }
    }
}
