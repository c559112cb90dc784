//! NodeAffinity: `nodeSelector`, required terms, and the score of preferred terms.

// upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go Filter, Score, NormalizeScore (v1.36)

use super::filter::View;
use crate::cycle::Cycle;
use crate::node_info::NodeInfo;
use crate::node_selector::NamedNodes;
use crate::reason::Reason;

pub(super) fn pre_filter(cycle: &Cycle<'_>, reasons: &mut Vec<Reason>) {
    if cycle.info.node_affinity.named_nodes() == NamedNodes::Conflict {
        reasons.push(Reason::ConflictingNodeNames);
    }
}

/// kube-scheduler gives one reason for the whole affinity; so does this, for the first part that fails.
pub(super) fn filter(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    let required = &cycle.info.node_affinity;
    let spec = &view.node.spec;
    let added = cycle.profile.arguments.added.required.as_ref();
    if added.is_some_and(|terms| !terms.iter().any(|term| term.matches(&spec.labels, &spec.name))) {
        reasons.push(Reason::EnforcedNodeAffinity);
        return;
    }
    if required.is_empty() || required.matches(&spec.labels, &spec.name) {
        return;
    }
    let missing = required.node_selector.iter().find(|(key, value)| spec.labels.get(*key) != Some(*value));
    reasons.push(match missing {
        Some((key, value)) => {
            Reason::NodeSelector { key: key.clone(), wanted: value.clone(), found: spec.labels.get(key).cloned() }
        }
        None => Reason::NodeAffinity {
            unmet: required
                .terms
                .iter()
                .flatten()
                .map(|term| term.first_unmet(&spec.labels, &spec.name).cloned())
                .collect(),
        },
    });
}

pub(super) fn scores(cycle: &Cycle<'_>) -> bool {
    !cycle.info.preferred_node_affinity.is_empty() || !cycle.profile.arguments.added.preferred.is_empty()
}

/// The sum of the weights of the preferred terms that match, the pod's and its profile's.
pub(super) fn score(cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
    let preferred = cycle.info.preferred_node_affinity.iter().chain(&cycle.profile.arguments.added.preferred);
    let matching = preferred.filter(|(_, term)| term.matches(&node.spec.labels, &node.spec.name));
    matching.map(|(weight, _)| i64::from(*weight)).sum()
}
