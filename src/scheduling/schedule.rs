//! One scheduling attempt: filter, score, choose, or preempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::class_cache::{ABSENT, ClassCache, ClassCaches, NORMALIZED, PASS, local_scores};
use super::cycle::{Cycle, Refused};
use super::decision::{Attempt, Decision, NodeVerdict, Outcome, PluginScore, Rejection, ScoreRow, ScoreTable};
use super::error::ObjectError;
use super::message;
use super::node_info::NodeInfo;
use super::plugins::{
    self, Delta, PLUGINS, Preempt, Raw, RawScores, Score, View, nominated_before, topology_verdict,
    verdict_with_nominated, with_pods,
};
use super::pod_info::{PodInfo, namespace_of};
use super::reason::{Code, PluginName, Reason};
use super::selector::Labels;
use super::state::{ClassId, LabelsId, NodeId, PodKey, State};
use super::tie::{TieBreak, pick};

/// The name of the default scheduler.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A pod that is asked about.
pub(crate) struct Subject {
    pub(crate) key: PodKey,
    pub(crate) class: ClassId,
    pub(crate) labels: LabelsId,
}

impl Subject {
    pub(crate) fn of(state: &mut State, pod: &Pod, name: &str) -> Result<Self, ObjectError> {
        let info = PodInfo::from_api(pod)?;
        let key = PodKey { namespace: Arc::clone(&info.namespace), name: Arc::from(name) };
        let none = Labels::new();
        let labels = state.intern_labels(&info.namespace, pod.metadata.labels.as_ref().unwrap_or(&none));
        Ok(Self { key, class: state.intern_class(info), labels })
    }
}

fn name_of(pod: &Pod) -> Result<&str, ObjectError> {
    pod.metadata.name.as_deref().ok_or(ObjectError::Missing { field: "metadata.name" })
}

fn requested_node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty())
}

/// What becomes of a pod that does not enter a scheduling cycle.
fn without_cycle(pod: &Pod) -> Result<Option<Decision>, ObjectError> {
    let spec = pod.spec.as_ref().ok_or(ObjectError::Missing { field: "spec" })?;
    let scheduler = spec.scheduler_name.as_deref().unwrap_or(DEFAULT_SCHEDULER);
    let gates: Vec<_> = spec.scheduling_gates.iter().flatten().map(|gate| gate.name.clone()).collect();
    let (outcome, message) = if let Some(node) = requested_node(pod) {
        (Outcome::Bound { node: Arc::from(node) }, "")
    } else if scheduler != DEFAULT_SCHEDULER {
        (Outcome::Ignored { scheduler: scheduler.to_owned() }, "")
    } else if gates.is_empty() {
        return Ok(None);
    } else {
        (Outcome::Gated { gates }, message::GATED)
    };
    let pod = PodKey::new(namespace_of(pod), name_of(pod)?);
    Ok(Some(Decision { pod, outcome, message: message.to_owned() }))
}

fn nominated_node(state: &State, pod: &Pod) -> Option<NodeId> {
    state.node_id(pod.status.as_ref()?.nominated_node_name.as_deref()?)
}

const UNSCHEDULABLE: Outcome = Outcome::Unschedulable { withdraw_nomination: false };

fn refused_for_all(nodes: usize, reasons: &[Reason]) -> (Outcome, String) {
    let texts: Vec<_> = reasons.iter().map(ToString::to_string).collect();
    (UNSCHEDULABLE, message::refused_for_all(nodes, &texts))
}

/// The fast path: cached verdicts and scores.
pub(crate) fn schedule(
    state: &mut State,
    caches: &mut ClassCaches,
    tie_break: TieBreak,
    pod: &Pod,
) -> Result<Decision, ObjectError> {
    if let Some(decision) = without_cycle(pod)? {
        return Ok(decision);
    }
    let subject = Subject::of(state, pod, name_of(pod)?)?;
    if state.node_count() == 0 {
        return Ok(Decision { pod: subject.key, outcome: UNSCHEDULABLE, message: message::NO_NODES.to_owned() });
    }
    let cache = caches.refreshed(state, subject.class, subject.labels, &subject.key.name);
    let state = &*state;
    let cycle = Cycle::new(state, subject.class, subject.labels, &subject.key.name, None, &cache.tallies);
    let nominated = nominated_node(state, pod);
    let (outcome, message) = decide(&cycle, cache, nominated, tie_break);
    Ok(Decision { pod: subject.key, outcome, message })
}

fn decide(cycle: &Cycle<'_>, cache: &ClassCache, nominated: Option<NodeId>, tie_break: TieBreak) -> (Outcome, String) {
    if let Some((_, reasons)) = plugins::pre_filter(cycle) {
        return refused_for_all(cycle.state.node_count(), &reasons);
    }
    let scheduled = |id: NodeId| {
        let node = cycle.node(id).map_or_else(|| Arc::from(""), |node| Arc::clone(&node.spec.name));
        (Outcome::Scheduled { node }, String::new())
    };
    if let Some((id, node)) = nominated.and_then(|id| Some((id, cycle.node(id)?)))
        && verdict_with_nominated(cycle, id, node, &[]).is_none()
    {
        return scheduled(id);
    }
    let kept = kept_nodes(cycle);
    let feasible = feasible(cycle, cache, &kept);
    match feasible.as_slice() {
        [] => {
            let (codes, texts) = refusals(cycle, cache, &kept);
            fail(cycle, nominated, &codes, &texts, tie_break)
        }
        [only] => scheduled(*only),
        _ => scheduled(pick(cycle, &best(cycle, cache, &feasible), tie_break)),
    }
}

/// Verdicts on the nodes that are kept for other pods; cached verdicts do not take these into account.
fn kept_nodes(cycle: &Cycle<'_>) -> Vec<(NodeId, Option<Refused>)> {
    let kept = cycle.state.nominated_nodes().filter_map(|(name, _)| {
        let id = cycle.state.node_id(name)?;
        let node = cycle.node(id)?;
        let relevant = !nominated_before(cycle, node).is_empty();
        relevant.then(|| (id, verdict_with_nominated(cycle, id, node, &[])))
    });
    kept.collect()
}

fn feasible(cycle: &Cycle<'_>, cache: &ClassCache, kept: &[(NodeId, Option<Refused>)]) -> Vec<NodeId> {
    let topology = cycle.topology_matters();
    let mut feasible = Vec::with_capacity(cache.cells.len());
    for (id, cell) in cache.cells.iter().enumerate() {
        if cell.verdict != PASS {
            continue;
        }
        let id = id as NodeId;
        if topology {
            let Some(node) = cycle.node(id) else { continue };
            if topology_verdict(cycle, &View { id, node, delta: Delta::NONE }).is_some() {
                continue;
            }
        }
        feasible.push(id);
    }
    if !kept.is_empty() {
        feasible.retain(|id| !kept.iter().any(|(kept, refused)| kept == id && refused.is_some()));
    }
    feasible
}

/// The nodes with the greatest total score.
fn best(cycle: &Cycle<'_>, cache: &ClassCache, feasible: &[NodeId]) -> Vec<NodeId> {
    let mut totals: Vec<i64> = feasible.iter().map(|&id| i64::from(cache.cells[id as usize].fixed)).collect();
    for (score, slot) in local_scores() {
        let Some(slot) = slot.filter(|&slot| slot < NORMALIZED) else { continue };
        let raw = || feasible.iter().map(|&id| i64::from(cache.cells[id as usize].normalized[slot]));
        let (least, greatest) =
            raw().fold((i64::MAX, i64::MIN), |(least, greatest), raw| (least.min(raw), greatest.max(raw)));
        // Equal scores change nothing.
        if least < greatest {
            for (total, raw) in totals.iter_mut().zip(raw()) {
                *total += score.weight * score.normalize.one(raw, least, greatest);
            }
        }
    }
    for score in PLUGINS.iter().filter_map(|plugin| plugin.score.as_ref()) {
        let Raw::Topology(raw) = score.raw else { continue };
        if let Some(mut scores) = raw(cycle, feasible) {
            score.normalize.apply(&mut scores);
            for (total, normalized) in totals.iter_mut().zip(scores.values) {
                *total += score.weight * normalized;
            }
        }
    }
    let greatest = totals.iter().copied().max();
    let top = feasible.iter().zip(&totals).filter(|(_, total)| Some(**total) == greatest);
    top.map(|(id, _)| *id).collect()
}

/// The verdict codes of all nodes and how often each reason's text occurs.
fn refusals(
    cycle: &Cycle<'_>,
    cache: &ClassCache,
    kept: &[(NodeId, Option<Refused>)],
) -> (Vec<(NodeId, Code)>, BTreeMap<String, usize>) {
    let mut codes = Vec::with_capacity(cycle.state.node_count());
    let mut by_verdict = vec![0_usize; cache.verdict_count() + 1];
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    let mut by_text: Vec<(&'static str, usize)> = Vec::new();
    for (id, cell) in cache.cells.iter().enumerate().filter(|(_, cell)| cell.verdict != ABSENT) {
        let id = id as NodeId;
        if let Some(refused) = kept.iter().find(|(kept, _)| *kept == id).and_then(|(_, refused)| refused.as_ref()) {
            codes.push((id, refused.code));
            refused.texts.iter().for_each(|text| *texts.entry(text.to_string()).or_default() += 1);
        } else if cell.verdict != PASS {
            codes.push((id, cache.verdict(cell.verdict).code));
            by_verdict[cell.verdict as usize] += 1;
        } else if let Some(node) = cycle.node(id)
            && let Some((_, refusal)) = topology_verdict(cycle, &View { id, node, delta: Delta::NONE })
        {
            codes.push((id, refusal.code));
            match by_text.iter_mut().find(|(text, _)| *text == refusal.text) {
                Some((_, count)) => *count += 1,
                None => by_text.push((refusal.text, 1)),
            }
        }
    }
    for (verdict, count) in by_verdict.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        for text in &cache.verdict(verdict as u16).texts {
            *texts.entry(text.to_string()).or_default() += count;
        }
    }
    for (text, count) in by_text {
        *texts.entry(text.to_owned()).or_default() += count;
    }
    (codes, texts)
}

/// No node is feasible: preempt, or say why not.
fn fail(
    cycle: &Cycle<'_>,
    nominated: Option<NodeId>,
    codes: &[(NodeId, Code)],
    texts: &BTreeMap<String, usize>,
    tie_break: TieBreak,
) -> (Outcome, String) {
    let message = message::nodes_available(codes.len(), texts);
    match plugins::preempt(cycle, nominated, codes, tie_break) {
        Preempt::Found(preemption) => (Outcome::Preempting(preemption), message),
        Preempt::Useless(why) => {
            let outcome = Outcome::Unschedulable { withdraw_nomination: nominated.is_some() };
            (outcome, message::with_preemption(&message, &why))
        }
        Preempt::NotEligible(why) => (UNSCHEDULABLE, message::with_preemption(&message, why)),
    }
}

/// The full path: every verdict and score computed anew, with its facts.
pub(crate) fn attempt(
    state: &mut State,
    caches: &mut ClassCaches,
    tie_break: TieBreak,
    pod: &Pod,
) -> Result<Attempt, ObjectError> {
    let brief = |decision| Attempt { decision, pre_filter: None, nodes: Vec::new(), scores: None, top: Vec::new() };
    if let Some(decision) = without_cycle(pod)? {
        return Ok(brief(decision));
    }
    let subject = Subject::of(state, pod, name_of(pod)?)?;
    if state.node_count() == 0 {
        let message = message::NO_NODES.to_owned();
        return Ok(brief(Decision { pod: subject.key, outcome: UNSCHEDULABLE, message }));
    }
    let cache = caches.refreshed(state, subject.class, subject.labels, &subject.key.name);
    let state = &*state;
    let cycle = Cycle::new(state, subject.class, subject.labels, &subject.key.name, None, &cache.tallies);
    let decision = |(outcome, message)| Decision { pod: subject.key.clone(), outcome, message };
    if let Some((plugin, reasons)) = plugins::pre_filter(&cycle) {
        let pre_filter = Some((plugin, reasons));
        let reasons = pre_filter.as_ref().map_or(&[][..], |(_, reasons)| reasons);
        let decision = decision(refused_for_all(state.node_count(), reasons));
        return Ok(Attempt { pre_filter, ..brief(decision) });
    }
    let nominated = nominated_node(state, pod);
    if let Some((id, node)) = nominated.and_then(|id| Some((id, cycle.node(id)?)))
        && rejection(&cycle, id, node).is_none()
    {
        let node = Arc::clone(&node.spec.name);
        let scheduled = decision((Outcome::Scheduled { node: Arc::clone(&node) }, String::new()));
        let nodes = vec![NodeVerdict { node: Arc::clone(&node), rejection: None }];
        return Ok(Attempt { nodes, top: vec![node], ..brief(scheduled) });
    }
    let mut ids: Vec<_> = state.live_nodes().map(|(id, node)| (Arc::clone(&node.spec.name), id)).collect();
    ids.sort_unstable();
    let mut feasible = Vec::new();
    let mut codes = Vec::new();
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    let mut nodes = Vec::with_capacity(ids.len());
    for (name, id) in ids {
        let rejection = cycle.node(id).and_then(|node| rejection(&cycle, id, node));
        match &rejection {
            None => feasible.push(id),
            Some(rejection) => {
                codes.push((id, rejection.code));
                rejection.reasons.iter().for_each(|reason| *texts.entry(reason.to_string()).or_default() += 1);
            }
        }
        nodes.push(NodeVerdict { node: name, rejection });
    }
    let name = |id: NodeId| cycle.node(id).map_or_else(|| Arc::from(""), |node| Arc::clone(&node.spec.name));
    if feasible.is_empty() {
        let decision = decision(fail(&cycle, nominated, &codes, &texts, tie_break));
        return Ok(Attempt { nodes, ..brief(decision) });
    }
    let mut scores = None;
    let mut top = feasible.clone();
    if feasible.len() > 1 {
        let table = score_table(&cycle, &feasible);
        let greatest = table.rows.iter().map(|row| row.total).max();
        let rows = feasible.iter().zip(&table.rows);
        top = rows.filter(|(_, row)| Some(row.total) == greatest).map(|(id, _)| *id).collect();
        scores = Some(table);
    }
    let node = name(pick(&cycle, &top, tie_break));
    let decision = decision((Outcome::Scheduled { node }, String::new()));
    Ok(Attempt { decision, pre_filter: None, nodes, scores, top: top.into_iter().map(name).collect() })
}

/// The verdict on a node with its facts, nominated pods taken into account.
fn rejection(cycle: &Cycle<'_>, id: NodeId, node: &NodeInfo) -> Option<Rejection> {
    let reasons = |node: &NodeInfo, delta: &Delta| plugins::first_reasons(cycle, &View { id, node, delta });
    let nominated = nominated_before(cycle, node);
    let mut found = None;
    if !nominated.is_empty() {
        let full = with_pods(cycle.state, node, &nominated);
        found = reasons(&full, &Delta { added: nominated, removed: Vec::new() });
    }
    let (plugin, reasons) = found.or_else(|| reasons(node, Delta::NONE))?;
    Some(Rejection { plugin, code: plugins::code_of(&reasons), reasons })
}

fn raw_scores(cycle: &Cycle<'_>, score: &Score, feasible: &[NodeId]) -> Option<RawScores> {
    match score.raw {
        Raw::Topology(raw) => raw(cycle, feasible),
        Raw::Local { active, score } => active(cycle).then(|| {
            let values = feasible.iter().map(|&id| cycle.node(id).map_or(0, |node| score(cycle, node))).collect();
            RawScores { values, ignored: Vec::new() }
        }),
    }
}

/// All scores of feasible nodes.
fn score_table(cycle: &Cycle<'_>, feasible: &[NodeId]) -> ScoreTable {
    let name = |&id: &NodeId| cycle.node(id).map_or_else(|| Arc::from(""), |node| Arc::clone(&node.spec.name));
    let mut table = ScoreTable {
        plugins: Vec::new(),
        rows: feasible.iter().map(|id| ScoreRow { node: name(id), total: 0, scores: Vec::new() }).collect(),
    };
    for (plugin, score) in PLUGINS.iter().filter_map(|plugin| Some((plugin.name, plugin.score.as_ref()?))) {
        let Some(raw) = raw_scores(cycle, score, feasible) else { continue };
        let mut normalized = raw.clone();
        score.normalize.apply(&mut normalized);
        table.plugins.push((plugin, score.weight));
        for ((row, raw), normalized) in table.rows.iter_mut().zip(raw.values).zip(normalized.values) {
            let weighted = normalized * score.weight;
            row.total += weighted;
            row.scores.push(PluginScore { raw, normalized, weighted });
        }
    }
    table
}

/// All reasons against one node.
pub(crate) fn evaluate(
    state: &mut State,
    caches: &mut ClassCaches,
    pod: &Pod,
    node: &str,
) -> Result<Option<Vec<Reason>>, ObjectError> {
    with_cycle(state, caches, pod, |cycle| {
        let id = cycle.state.node_id(node)?;
        Some(reasons_against(cycle, id, cycle.node(id)?))
    })
}

/// All reasons against all nodes.
pub(crate) fn evaluate_all(
    state: &mut State,
    caches: &mut ClassCaches,
    pod: &Pod,
) -> Result<BTreeMap<Arc<str>, Vec<Reason>>, ObjectError> {
    with_cycle(state, caches, pod, |cycle| {
        let nodes = cycle.state.live_nodes();
        nodes.map(|(id, node)| (Arc::clone(&node.spec.name), reasons_against(cycle, id, node))).collect()
    })
}

fn with_cycle<T>(
    state: &mut State,
    caches: &mut ClassCaches,
    pod: &Pod,
    ask: impl FnOnce(&Cycle<'_>) -> T,
) -> Result<T, ObjectError> {
    let subject = Subject::of(state, pod, name_of(pod)?)?;
    let cache = caches.refreshed(state, subject.class, subject.labels, &subject.key.name);
    let requested = requested_node(pod);
    Ok(ask(&Cycle::new(state, subject.class, subject.labels, &subject.key.name, requested, &cache.tallies)))
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
    reasons
}

/// The weight of a plugin's score in the default profile; `None` if it does not score.
pub fn weight(plugin: PluginName) -> Option<i64> {
    PLUGINS.iter().find(|row| row.name == plugin).and_then(|row| row.score.as_ref()).map(|score| score.weight)
}
