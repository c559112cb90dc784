//! PodTopologySpread: `DoNotSchedule` constraints filter, `ScheduleAnyway` and system default constraints score.

// upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go Filter (v1.36)
// upstream: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go PreScore, Score, NormalizeScore (v1.36)

use super::filter::{Refusal, View};
use super::score::RawScores;
use crate::cycle::{Cycle, HOSTNAME};
use crate::delta::Delta;
use crate::ids::NodeId;
use crate::reason::{Code, Reason, text};
use crate::topology::NO_VALUE;

/// What one hard constraint comes to on a node.
enum Skew {
    MissingLabel,
    Of { value: u32, matching: i64, minimum: i64, excess: bool },
}

fn skew(cycle: &Cycle<'_>, index: usize, node: NodeId, delta: &Delta) -> Skew {
    let (constraint, tally) = &cycle.tallies.hard[index];
    let Some(value) = cycle.value(tally, node) else { return Skew::MissingLabel };
    let (lowest, counts_itself) = &cycle.hard[index];
    let change = tally.delta(cycle.state, delta, node);
    let matching = tally.domain(value) + change;
    let minimum = if tally.domain_count < constraint.min_domains {
        0
    } else if change != 0 {
        let others = if lowest[0].0 == value { lowest[1].1 } else { lowest[0].1 };
        others.min(matching)
    } else {
        lowest[0].1
    };
    let excess = matching + i64::from(*counts_itself) - minimum > constraint.max_skew;
    Skew::Of { value, matching, minimum, excess }
}

pub(super) fn refuses(cycle: &Cycle<'_>, view: &View<'_>) -> Option<Refusal> {
    (0..cycle.hard.len()).find_map(|index| match skew(cycle, index, view.id, view.delta) {
        Skew::MissingLabel => Some(Refusal { code: Code::UnschedulableAndUnresolvable, text: text::SPREAD_LABEL }),
        Skew::Of { excess: true, .. } => Some(Refusal { code: Code::Unschedulable, text: text::SPREAD }),
        Skew::Of { .. } => None,
    })
}

pub(super) fn reasons(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    for (index, (constraint, tally)) in cycle.tallies.hard.iter().enumerate() {
        let topology_key = constraint.topology_key.to_string();
        let name = |value| cycle.state.topology.column(tally.column).name(value).to_owned();
        let enough = tally.domain_count >= constraint.min_domains;
        match skew(cycle, index, view.id, view.delta) {
            Skew::MissingLabel => {
                reasons.push(Reason::SpreadMissingLabel { constraint: constraint.index, topology_key });
            }
            Skew::Of { value, matching, minimum, excess: true } => reasons.push(Reason::Spread {
                constraint: constraint.index,
                topology_key,
                domain: name(value),
                matching,
                minimum,
                emptiest: enough.then(|| name(cycle.hard[index].0[0].0)),
                domains: tally.domain_count,
                min_domains: constraint.min_domains,
                max_skew: constraint.max_skew,
            }),
            Skew::Of { .. } => {}
        }
    }
}

/// Σ count·ln(domains + 2) + (maxSkew − 1), rounded; fewer is better.
pub(super) fn score(cycle: &Cycle<'_>, feasible: &[NodeId]) -> Option<RawScores> {
    let soft = &cycle.tallies.soft;
    if soft.is_empty() {
        return None;
    }
    let topology = &cycle.state.topology;
    let columns: Vec<_> = soft.iter().map(|(_, tally)| topology.column(tally.column)).collect();
    let by_node: Vec<_> = columns.iter().map(|column| column.key.as_ref() == HOSTNAME).collect();
    // With constraints of its own the pod asks for all the labels; the system defaults do without.
    let ignored: Vec<bool> = if cycle.tallies.soft_by_default {
        Vec::new()
    } else {
        feasible.iter().map(|&node| columns.iter().any(|column| column.value(node) == NO_VALUE)).collect()
    };
    let counted = |index: usize| !ignored.get(index).copied().unwrap_or(false);
    let scored = (0..feasible.len()).filter(|&index| counted(index)).count();
    let weights: Vec<f64> = columns
        .iter()
        .zip(&by_node)
        .map(|(column, by_node)| {
            let domains = if *by_node {
                scored
            } else {
                let mut seen = vec![false; column.len() + 1];
                for (_, &node) in feasible.iter().enumerate().filter(|(index, _)| counted(*index)) {
                    let value = column.value(node);
                    // A missing label is a domain of its own.
                    seen[if value == NO_VALUE { column.len() } else { value as usize }] = true;
                }
                seen.into_iter().filter(|seen| *seen).count()
            };
            (domains as f64 + 2.0).ln()
        })
        .collect();
    let raw = |node: NodeId| {
        let mut score = 0.0;
        for ((((constraint, tally), column), weight), by_node) in soft.iter().zip(&columns).zip(&weights).zip(&by_node)
        {
            let value = column.value(node);
            if value == NO_VALUE {
                continue;
            }
            let count = if *by_node { tally.on_node(node) } else { tally.domain(value) };
            score += count as f64 * weight + (constraint.max_skew - 1) as f64;
        }
        score.round() as i64
    };
    let values = feasible.iter().enumerate().map(|(index, &node)| if counted(index) { raw(node) } else { 0 }).collect();
    Some(RawScores { values, ignored })
}
