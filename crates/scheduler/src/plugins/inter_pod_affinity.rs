//! InterPodAffinity: required and preferred affinity and anti-affinity between pods, in both directions.

// upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go Filter (v1.36)
// upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go PreScore, Score, NormalizeScore (v1.36)

use foldhash::{HashMap, HashMapExt};

use super::filter::{Refusal, View};
use super::score::RawScores;
use crate::culprits::Rule;
use crate::cycle::Cycle;
use crate::delta::Delta;
use crate::ids::{NodeId, PodId};
use crate::pod_key::PodKey;
use crate::reason::{Code, Reason, text};
use crate::state::PodEntry;
use crate::tally::Tally;
use crate::topology::{ColumnId, HeldId, NO_VALUE};

/// The first required affinity term that the node does not satisfy.
fn unmet_affinity(cycle: &Cycle<'_>, node: NodeId, delta: &Delta) -> Option<usize> {
    let terms = &cycle.tallies.affinity;
    if let Some(missing) = terms.iter().position(|tally| cycle.value(tally, node).is_none()) {
        return Some(missing);
    }
    let count = |tally: &Tally| {
        let change = tally.delta(cycle.state, delta, node);
        (cycle.value(tally, node).map_or(0, |value| tally.domain(value)) + change, tally.total + change)
    };
    let unmet = terms.iter().position(|tally| count(tally).0 <= 0)?;
    // The first of a group that wants to be together has no pod to join.
    let nobody = terms.iter().all(|tally| count(tally).1 <= 0);
    (!(nobody && cycle.affinity_matches_self)).then_some(unmet)
}

/// The anti-affinity terms that the node violates.
fn violated<'a>(cycle: &'a Cycle<'_>, node: NodeId, delta: &'a Delta) -> impl Iterator<Item = (usize, u32)> + 'a {
    cycle.tallies.anti_affinity.iter().enumerate().filter_map(move |(index, tally)| {
        let value = cycle.value(tally, node)?;
        (tally.domain(value) + tally.delta(cycle.state, delta, node) > 0).then_some((index, value))
    })
}

/// The existing pods' anti-affinity terms that keep the pod off the node.
fn opposed<'a>(cycle: &'a Cycle<'_>, node: NodeId, delta: &'a Delta) -> impl Iterator<Item = (HeldId, u32)> + 'a {
    let topology = &cycle.state.topology;
    cycle.against.iter().filter_map(move |&held| {
        let term = &topology.held[held];
        let value = topology.column(term.column).value(node);
        if value == NO_VALUE {
            return None;
        }
        let holders = |pods: &[u32]| {
            let entries = pods.iter().filter_map(|&pod| cycle.state.pod(pod));
            let held_by = entries.flat_map(|entry| &cycle.state.class(entry.class).held);
            held_by.filter(|&&id| id == held).count() as i64
        };
        let change = if delta.is_empty() { 0 } else { holders(&delta.added) - holders(&delta.removed) };
        (term.holders(value) + change > 0).then_some((held, value))
    })
}

pub(super) fn refuses(cycle: &Cycle<'_>, view: &View<'_>) -> Option<Refusal> {
    if !cycle.inter_pod_affinity {
        return None;
    }
    let (node, delta) = (view.id, view.delta);
    if unmet_affinity(cycle, node, delta).is_some() {
        return Some(Refusal { code: Code::UnschedulableAndUnresolvable, text: text::AFFINITY });
    }
    if violated(cycle, node, delta).next().is_some() {
        return Some(Refusal { code: Code::Unschedulable, text: text::ANTI_AFFINITY });
    }
    if opposed(cycle, node, delta).next().is_some() {
        return Some(Refusal { code: Code::Unschedulable, text: text::EXISTING_ANTI_AFFINITY });
    }
    None
}

pub(super) fn reasons(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    if !cycle.inter_pod_affinity {
        return;
    }
    let (node, delta) = (view.id, view.delta);
    let topology = &cycle.state.topology;
    let domain = |column: ColumnId, value: u32| topology.column(column).name(value).to_owned();
    if let Some(term) = unmet_affinity(cycle, node, delta) {
        let tally = &cycle.tallies.affinity[term];
        reasons.push(Reason::PodAffinity {
            term,
            topology_key: topology.column(tally.column).key.to_string(),
            domain: cycle.value(tally, node).map(|value| domain(tally.column, value)),
        });
    }
    for (term, value) in violated(cycle, node, delta) {
        let tally = &cycle.tallies.anti_affinity[term];
        reasons.push(Reason::PodAntiAffinity {
            term,
            topology_key: topology.column(tally.column).key.to_string(),
            domain: domain(tally.column, value),
            pod: culprit(cycle, Rule::AntiAffinity(term), value, delta),
        });
    }
    for (held, value) in opposed(cycle, node, delta) {
        let column = topology.held[held].column;
        reasons.push(Reason::ExistingAntiAffinity {
            topology_key: topology.column(column).key.to_string(),
            domain: domain(column, value),
            pod: culprit(cycle, Rule::Held(held), value, delta),
        });
    }
}

/// Whether a rule is about a pod.
fn concerns(rule: Rule, cycle: &Cycle<'_>, entry: &PodEntry) -> bool {
    match rule {
        Rule::AntiAffinity(term) => cycle.tallies.anti_affinity[term].matches_entry(cycle.state, entry),
        Rule::Held(held) => cycle.state.class(entry.class).held.contains(&held),
    }
}

/// The topology key whose domains a rule is about.
fn column_of(rule: Rule, cycle: &Cycle<'_>) -> ColumnId {
    match rule {
        Rule::AntiAffinity(term) => cycle.tallies.anti_affinity[term].column,
        Rule::Held(held) => cycle.state.topology.held[held].column,
    }
}

fn culprits(cycle: &Cycle<'_>, rule: Rule) -> HashMap<u32, PodId> {
    let state = cycle.state;
    let column = state.topology.column(column_of(rule, cycle));
    let mut first: HashMap<u32, PodId> = HashMap::new();
    for (id, node) in state.live_nodes() {
        for &pod in &node.pods {
            let Some(entry) = state.pod(pod).filter(|entry| concerns(rule, cycle, entry)) else { continue };
            let known = first.entry(column.value(id)).or_insert(pod);
            if state.pod(*known).is_some_and(|known| entry.key < known.key) {
                *known = pod;
            }
        }
    }
    first
}

/// A pod in a domain that a rule is about.
fn culprit(cycle: &Cycle<'_>, rule: Rule, value: u32, delta: &Delta) -> Option<PodKey> {
    let mut known = cycle.culprits.borrow_mut();
    let placed = known.entry(rule).or_insert_with(|| culprits(cycle, rule)).get(&value).copied();
    let placed = placed.filter(|pod| !delta.removed.contains(pod)).and_then(|pod| cycle.state.pod(pod));
    let added = delta.added.iter().filter_map(|&pod| cycle.state.pod(pod)).filter(|entry| concerns(rule, cycle, entry));
    placed.into_iter().chain(added).map(|entry| &entry.key).min().cloned()
}

/// Per node the weights of all terms, the pod's own and those of existing pods, that hold in its domains.
pub(super) fn score(cycle: &Cycle<'_>, feasible: &[NodeId]) -> Option<RawScores> {
    let topology = &cycle.state.topology;
    let mut domains: Vec<(ColumnId, Vec<i64>)> = Vec::new();
    let mut add = |column: ColumnId, value: u32, weight: i64| {
        let index = domains.iter().position(|(have, _)| *have == column).unwrap_or_else(|| {
            domains.push((column, vec![0; topology.column(column).len()]));
            domains.len() - 1
        });
        domains[index].1[value as usize] += weight;
    };
    for (weight, tally) in &cycle.tallies.preferred {
        for (value, count) in tally.domains().filter(|(_, count)| *count != 0) {
            add(tally.column, value, weight * count);
        }
    }
    let arguments = cycle.profile.arguments.affinity;
    if arguments.ignores_existing && cycle.tallies.preferred.is_empty() {
        return None;
    }
    for (held, weight) in cycle.state.matching_scores(cycle.labels_id) {
        let term = &topology.held[held];
        let weight = weight.map_or(arguments.hard_weight, i64::from);
        // A required term without weight is not looked at.
        if weight == 0 {
            continue;
        }
        for (value, count) in term.domains() {
            add(term.column, value, weight * count);
        }
    }
    if domains.is_empty() {
        return None;
    }
    let raw = |node: NodeId| {
        let scores = domains.iter().map(|(column, scores)| {
            let value = topology.column(*column).value(node);
            if value == NO_VALUE { 0 } else { scores[value as usize] }
        });
        scores.sum()
    };
    Some(RawScores { values: feasible.iter().map(|&node| raw(node)).collect(), ignored: Vec::new() })
}
