//! Explanations of pods as text and JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::human::{Styles, behind, code, detailed_group_lines, hindrance_lines, named, suggestion_lines};
use super::json::{groups, hindrances, reason, suggestion};
use crate::code::Code;
use crate::verify::{AwaitedClaim, Explained, Explanation, Pending, Placed, PodState, PoolGrowth, Why};
use crate::words::{duration, plural, table};
use klab_scheduler::{PluginName, ScoreRow, ScoreTable};

/// Name and version of the JSON document's form.
pub const EXPLANATION_SCHEMA: &str = "klab.explain/1";
/// Most nodes in a score table.
const ROWS: usize = 8;

/// Explanations for people.
pub fn explanation_text(explained: &Explained, styles: Styles) -> String {
    let hindrances = explained.hindrances.iter().map(|hindrance| hindrance_lines(hindrance, "", styles));
    let pods = explained.pods.iter().map(|explanation| one(explanation, styles));
    hindrances.chain(pods).collect::<Vec<_>>().join("\n")
}

/// Explanations as one JSON document.
pub fn explanation_json(target: &str, explained: &Explained) -> Value {
    json!({
        "schema": EXPLANATION_SCHEMA,
        "target": target,
        "workload": hindrances(&explained.hindrances),
        "explanations": explained.pods.iter().map(document).collect::<Vec<_>>(),
    })
}

/// The code to look up: what keeps the pods from a node, or from running on theirs.
fn code_of(explanation: &Explanation) -> Option<Code> {
    match &explanation.why {
        Why::Over => None,
        Why::Placed(placed) if placed.no_such_node => Some(Code::NoSuchNode),
        Why::Placed(_) => {
            let trouble = matches!(
                explanation.state,
                PodState::Starting { trouble: Some(_) } | PodState::Running { trouble: Some(_), .. }
            );
            // Else the line of what is the matter has it.
            (trouble && explanation.hindrances.is_empty()).then_some(Code::NotStarting)
        }
        Why::Pending(pending) => match (&explanation.state, pending.claims.iter().find(|claim| claim.is_awaited())) {
            (PodState::Gated { .. }, _) => Some(Code::Gated),
            (_, Some(claim)) => Some(claim.code),
            (PodState::Unscheduled, None) => Some(Code::Unscheduled),
            _ if pending.fits.is_empty() => Some(code(Code::Unschedulable, &pending.refusals)),
            _ => None,
        },
    }
}

fn one(explanation: &Explanation, styles: Styles) -> String {
    let names = named(&explanation.pods);
    let mut text = match &explanation.why {
        Why::Over => format!("{names}  {}\n", explanation.state.word()),
        Why::Placed(placed) => placed_text(&names, explanation, placed, styles),
        Why::Pending(pending) => pending_text(&names, explanation, pending, styles),
    };
    for hindrance in &explanation.hindrances {
        let cause = &hindrance.cause;
        let _ = writeln!(text, "  {}{}", cause.what, behind(Some(code(cause.code, &cause.nodes))));
        text.push_str(&suggestion_lines(&hindrance.suggestions, "  ", styles));
    }
    text
}

fn placed_text(names: &str, explanation: &Explanation, placed: &Placed, styles: Styles) -> String {
    let pool = placed.pool.as_ref().map(|pool| format!(" (pool {pool})")).unwrap_or_default();
    let state = match &explanation.state {
        PodState::Starting { trouble: Some(trouble) } | PodState::Running { trouble: Some(trouble), .. } => trouble,
        state => state.word(),
    };
    if placed.no_such_node {
        let (names, node) = (styles.strong(names), &placed.node);
        return format!(
            "{names}  waits on {node}, and there is no such node{}\n  `nodeName` gave it to that node past the scheduler, or \
             the node has gone; no kubelet starts the pod, and after a while it is deleted\n  `kubectl get nodes` shows the \
             nodes there are; a pod's node cannot be changed, so delete the pod and make it again with another name or none\n",
            behind(code_of(explanation))
        );
    }
    let trouble = explanation.trouble.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default();
    let code = behind(code_of(explanation));
    let mut text = format!("{}  {state} on {}{pool}{trouble}{code}\n", styles.strong(names), placed.node);
    if !placed.refused_here.is_empty() {
        let reasons: Vec<&str> = placed.refused_here.iter().map(|reason| &*reason.text).collect();
        let _ = writeln!(text, "  {} would not take it if it were scheduled now: {}", placed.node, reasons.join("; "));
    } else if let Some(elsewhere) = &placed.elsewhere {
        let _ = writeln!(text, "  if it were scheduled now, it would go to {elsewhere}");
    } else if placed.feasible == 1 {
        let _ = writeln!(text, "  {} is the only node that takes it", placed.node);
    } else {
        let _ = writeln!(text, "  {} nodes take it, none scores higher than {}", placed.feasible, placed.node);
    }
    if let Some(scores) = &placed.scores {
        text.push_str(&score_table(scores, &placed.node));
    }
    if !placed.refusals.is_empty() {
        let _ = writeln!(text, "  not elsewhere:");
        text.push_str(&detailed_group_lines(&placed.refusals, "    "));
    }
    text
}

/// Scores by plugin, this node first, then the others from the best; with how far each is from this one.
fn score_table(scores: &ScoreTable, here: &str) -> String {
    let own = scores.rows.iter().find(|row| &*row.node == here);
    let mut rows: Vec<&ScoreRow> = scores.rows.iter().filter(|row| &*row.node != here).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.total), row.node.clone()));
    let hidden = rows.len().saturating_sub(ROWS);
    let mut lines = vec![
        ["NODE".to_owned()]
            .into_iter()
            .chain(scores.plugins.iter().map(|(plugin, weight)| heading(*plugin, *weight, scores.favours_free)))
            .chain(["TOTAL".to_owned(), String::new()])
            .collect::<Vec<_>>(),
    ];
    for row in own.into_iter().chain(rows.into_iter().take(ROWS)) {
        let against = match own {
            Some(own) if own.node == row.node => "here".to_owned(),
            Some(own) if own.total > row.total => format!("loses by {}", own.total - row.total),
            Some(own) if own.total == row.total => "equal".to_owned(),
            Some(own) => format!("ahead by {}", row.total - own.total),
            None => String::new(),
        };
        let cells = row.scores.iter().map(|score| score.weighted.to_string());
        let end = [row.total.to_string(), against];
        lines.push([row.node.as_ref().to_owned()].into_iter().chain(cells).chain(end).collect());
    }
    let mut text = String::new();
    for line in table(&lines).lines() {
        let _ = writeln!(text, "    {line}");
    }
    if hidden > 0 {
        let _ = writeln!(text, "    and {} that score no higher", plural(hidden, "node"));
    }
    text
}

/// A short heading for a plugin's column; its weight where it counts more than once.
fn heading(plugin: PluginName, weight: i64, favours_free: bool) -> String {
    let name = match plugin {
        PluginName::TaintToleration => "TAINTS",
        PluginName::NodeAffinity => "AFFINITY",
        PluginName::NodeResourcesFit if favours_free => "FREE",
        PluginName::NodeResourcesFit => "FIT",
        PluginName::PodTopologySpread => "SPREAD",
        PluginName::InterPodAffinity => "PODS",
        PluginName::NodeResourcesBalancedAllocation => "BALANCE",
        PluginName::ImageLocality => "IMAGE",
        other => other.as_str(),
    };
    if weight == 1 { name.to_owned() } else { format!("{name}×{weight}") }
}

fn pending_text(names: &str, explanation: &Explanation, pending: &Pending, styles: Styles) -> String {
    let word = match explanation.state {
        PodState::Gated { .. } => "held by its scheduling gates",
        PodState::Unscheduled => "not scheduled yet",
        _ => "Pending",
    };
    let age = explanation.age.map(|age| format!(" for {}", duration(age))).unwrap_or_default();
    let mut text = format!("{}  {word}{age}{}\n", styles.strong(names), behind(code_of(explanation)));
    if let Some(scheduler) = &pending.scheduler {
        let _ = writeln!(text, "  it waits for the scheduler `{scheduler}`, which klab does not find here");
    }
    if !pending.gates.is_empty() {
        let _ = writeln!(text, "  gates: {}", pending.gates.join(", "));
    }
    if let Some(waits_for) = &pending.waits_for {
        let _ = writeln!(text, "  {waits_for}");
    }
    if let Some(class) = &pending.never_preempts {
        let _ = writeln!(text, "  its priority class {class} never preempts, so less important pods keep their place");
    }
    if let Some(node) = &pending.nominated {
        let _ = writeln!(text, "  {node} is kept for it while the pods it preempted go");
    }
    if !pending.claims.is_empty() {
        let lead = if pending.waits_for_claims() { "waits for its resource claims" } else { "resource claims" };
        let _ = writeln!(text, "  {lead}:");
        for awaited in &pending.claims {
            let _ = writeln!(text, "    {}: {}", awaited.claim, awaited.text);
        }
    }
    let total: usize = pending.refusals.iter().map(|group| group.nodes.len()).sum();
    if !pending.fits.is_empty() {
        let _ = writeln!(text, "  {} would take it now: {}", plural(pending.fits.len(), "node"), named(&pending.fits));
    } else if pending.waits_for_claims() {
        if total > 0 {
            let _ = writeln!(text, "  would not fit on {} then:", plural(total, "node"));
        }
    } else if total == 0 {
        let _ = writeln!(text, "  there are no nodes");
    } else {
        let _ = writeln!(text, "  fits on none of {}:", plural(total, "node"));
    }
    text.push_str(&detailed_group_lines(&pending.refusals, "    "));
    text.push_str(&autoscaler_text(&pending.autoscaler));
    text.push_str(&suggestion_lines(&pending.suggestions, "  ", styles));
    let may_be_mended = pending.scheduler.is_none() && !pending.waits_for_claims();
    if pending.suggestions.is_empty() && pending.fits.is_empty() && may_be_mended {
        let _ = writeln!(text, "  no single change that klab knows of would let it in");
    }
    text
}

/// What the autoscaler does for a pod, a line for each pool.
fn autoscaler_text(pools: &[PoolGrowth]) -> String {
    if pools.is_empty() {
        return String::new();
    }
    let line = |growth: &PoolGrowth| {
        let reasons: Vec<&str> = growth.refusals.iter().map(|reason| &*reason.text).collect();
        let nodes = format!("{} of {}", growth.nodes, plural(growth.max as usize, "node"));
        let answer = match (reasons.is_empty(), &growth.backed_off) {
            (false, _) => format!("a new node would not take it: {}", reasons.join("; ")),
            (true, Some(why)) => {
                let again = &growth.tries_again;
                format!("a new node would take it, but the pool is in backoff after failed scale-up: {why}; {again}")
            }
            (true, None) if growth.is_at_maximum() => {
                "a new node would take it, but the pool is at its maximum".to_owned()
            }
            (true, None) => "a new node would take it, and comes".to_owned(),
        };
        vec![format!("pool {}", growth.pool), nodes, answer]
    };
    let lines: Vec<Vec<String>> = pools.iter().map(line).collect();
    let mut text = "  the cluster autoscaler:\n".to_owned();
    for line in table(&lines).lines() {
        let _ = writeln!(text, "    {line}");
    }
    text
}

fn document(explanation: &Explanation) -> Value {
    let mut value = json!({
        "pods": explanation.pods,
        "state": explanation.state.code(),
        "code": code_of(explanation),
        "trouble": explanation.trouble,
        "age_ms": explanation.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        "hindrances": hindrances(&explanation.hindrances),
    });
    match &explanation.why {
        Why::Over => {}
        Why::Placed(placed) => value["placed"] = placed_json(placed),
        Why::Pending(pending) => {
            value["pending"] = json!({
                "message": pending.message,
                "scheduler": pending.scheduler,
                "nominated_node": pending.nominated, "never_preempts": pending.never_preempts,
                "waits_for": pending.waits_for,
                "gates": pending.gates,
                "claims": pending.claims.iter().map(awaited_json).collect::<Vec<_>>(),
                "fits": pending.fits,
                "refusals": groups(&pending.refusals),
                "autoscaler": pending.autoscaler.iter().map(growth_json).collect::<Vec<_>>(),
                "suggestions": pending.suggestions.iter().map(suggestion).collect::<Vec<_>>(),
            });
        }
    }
    value
}

fn awaited_json(awaited: &AwaitedClaim) -> Value {
    json!({ "claim": awaited.claim, "code": awaited.code, "reason": awaited.code.name(), "text": awaited.text })
}

fn growth_json(growth: &PoolGrowth) -> Value {
    let refusals: Vec<_> = growth.refusals.iter().map(reason).collect();
    json!({
        "pool": growth.pool, "nodes": growth.nodes, "min": growth.min, "max": growth.max, "grows": growth.grows(),
        "backed_off": growth.backed_off, "tries_again": growth.backed_off.as_ref().map(|_| &growth.tries_again),
        "refusals": refusals,
    })
}

fn placed_json(placed: &Placed) -> Value {
    let scores = placed.scores.as_ref().map(|table| {
        let row = |row: &ScoreRow| {
            let scores: Vec<Value> = table
                .plugins
                .iter()
                .zip(&row.scores)
                .map(|((plugin, weight), score)| {
                    json!({
                        "plugin": plugin.as_str(), "weight": weight,
                        "raw": score.raw, "normalized": score.normalized, "weighted": score.weighted,
                    })
                })
                .collect();
            json!({ "node": &*row.node, "total": row.total, "scores": scores })
        };
        table.rows.iter().map(row).collect::<Vec<_>>()
    });
    let refused_here: Vec<_> = placed.refused_here.iter().map(reason).collect();
    json!({
        "node": placed.node,
        "node_exists": !placed.no_such_node,
        "pool": placed.pool,
        "feasible_nodes": placed.feasible,
        "would_go_to": placed.elsewhere,
        "refused_here": refused_here,
        "scores": scores,
        "refusals": groups(&placed.refusals),
    })
}
