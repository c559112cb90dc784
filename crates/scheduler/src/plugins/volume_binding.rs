//! VolumeBinding: claims must exist; their volumes must be reachable from the node, or there be found or made.

// upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go PreFilter, Filter (v1.36)

use super::filter::View;
use crate::cycle::Cycle;
use crate::pod_key::PodKey;
use crate::reason::Reason;

pub(super) fn pre_filter(cycle: &Cycle<'_>, reasons: &mut Vec<Reason>) {
    let volumes = &cycle.state.volumes;
    for name in &cycle.info.claims {
        let is_ephemeral = cycle.info.ephemeral.contains(name);
        let Some(claim) = volumes.claim(&cycle.info.namespace, name) else {
            if is_ephemeral {
                reasons.push(Reason::ClaimAwaited { claim: name.clone() });
                return;
            }
            continue;
        };
        if let Some(volume) = &claim.lost {
            reasons.push(Reason::ClaimLost { claim: name.clone(), volume: volume.clone() });
            return;
        }
        if claim.terminating {
            reasons.push(Reason::ClaimTerminating { claim: name.clone() });
            return;
        }
        if is_ephemeral && claim.controller != cycle.info.uid {
            let pod = PodKey::new(&cycle.info.namespace, cycle.name);
            reasons.push(Reason::ClaimOfOther { claim: name.clone(), pod });
            return;
        }
    }
    for name in &cycle.info.claims {
        let Some(claim) = volumes.claim(&cycle.info.namespace, name) else { continue };
        if claim.volume.is_none() && !volumes.binds_late(claim) {
            reasons.push(Reason::UnboundImmediateClaim { claim: name.clone() });
            return;
        }
    }
}

pub(super) fn filter(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    let spec = &view.node.spec;
    let volumes = &cycle.state.volumes;
    if cycle.info.claims.is_empty() {
        return;
    }
    if let Some(claim) = volumes.without_volume(&cycle.info.namespace, &cycle.info.claims, &spec.labels, &spec.name) {
        reasons.push(Reason::NoVolumeToBind { claim: claim.clone() });
    }
    for name in &cycle.info.claims {
        let bound = volumes.claim(&cycle.info.namespace, name).and_then(|claim| claim.volume.as_ref());
        let Some(bound) = bound else { continue };
        match volumes.volume(bound) {
            None => reasons.push(Reason::VolumeNotFound { claim: name.clone(), volume: bound.clone() }),
            Some(volume) => {
                if !volume.is_reachable(&spec.labels, &spec.name) {
                    reasons.push(Reason::VolumeNodeAffinity { claim: name.clone(), volume: bound.clone() });
                }
            }
        }
    }
    // kube-scheduler gives each text once.
    reasons.dedup_by_key(|reason| reason.to_string());
}
