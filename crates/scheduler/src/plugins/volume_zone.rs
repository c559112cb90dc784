//! VolumeZone: a bound volume with zone or region labels is used in that zone or region.

// upstream: pkg/scheduler/framework/plugins/volumezone/volume_zone.go Filter (v1.36)

use super::filter::View;
use crate::cycle::Cycle;
use crate::reason::Reason;
use crate::volumes::ZONE_LABELS;

pub(super) fn filter(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    let labels = &view.node.spec.labels;
    // A node without any of the labels is not in a zone, so nothing is out of reach.
    if cycle.info.claims.is_empty() || !ZONE_LABELS.iter().any(|key| labels.contains_key(*key)) {
        return;
    }
    for name in &cycle.info.claims {
        let claim = cycle.state.volumes.claim(&cycle.info.namespace, name);
        let Some(bound) = claim.and_then(|claim| claim.volume.as_ref()) else { continue };
        let Some(volume) = cycle.state.volumes.volume(bound) else { continue };
        for key in ZONE_LABELS {
            let Some(zones) = volume.labels.get(key) else { continue };
            // Several zones are joined by two underscores.
            let here = node_value(labels, key);
            if !here.is_some_and(|here| zones.split("__").any(|zone| zone == here)) {
                reasons.push(Reason::VolumeZone { volume: bound.clone(), key: key.to_owned() });
                return;
            }
        }
    }
}

/// A node's zone or region, by the label asked for or its older or newer name.
fn node_value<'a>(labels: &'a crate::selector::Labels, key: &str) -> Option<&'a str> {
    let other = match key {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone" => "failure-domain.beta.kubernetes.io/zone",
        _ => "failure-domain.beta.kubernetes.io/region",
    };
    labels.get(key).or_else(|| labels.get(other)).map(String::as_str)
}
