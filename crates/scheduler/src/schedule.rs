//! One scheduling attempt: filter, score, choose, or preempt.

// upstream: pkg/scheduler/schedule_one.go schedulePod, findNodesThatFitPod, prioritizeNodes (v1.36)

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::class_cache::{ABSENT, ClassCache, ClassCaches, NORMALIZED, PASS, local_scores};
use super::cycle::{Cycle, Tallies};
use super::decision::{
    Attempt, ClaimAllocation, Decision, ExtendedAllocation, NodeVerdict, Outcome, PluginScore, Rejection, ScoreRow,
    ScoreTable,
};
use super::delta::Delta;
use super::devices::{ClaimCycle, PodClaims};
use super::error::ObjectError;
use super::failure::{Nomination, Refusals, fail, kept_node, refused_for_all};
use super::ids::{ClassId, LabelsId, NodeId};
use super::message;
use super::node_info::NodeInfo;
use super::node_selector::NamedNodes;
use super::plugins::{
    self, Raw, RawScores, Refusal, Refused, Score, View, nominated_before, topology_verdict, verdict_with_nominated,
    with_pods,
};
use super::pod_info::namespace_of;
use super::pod_key::PodKey;
use super::profile::Profile;
use super::reason::{PluginName, Reason};
use super::selector::Labels;
use super::state::State;
use super::tie::{TieBreak, pick};
use super::verdict::{Verdict, decision};

/// A pod that is asked about.
pub(crate) struct Subject {
    pub(crate) key: PodKey,
    pub(crate) class: ClassId,
    pub(crate) labels: LabelsId,
}

impl Subject {
    pub(crate) fn of(state: &mut State, pod: &Pod, name: &str) -> Result<Self, ObjectError> {
        let info = state.read(pod)?;
        let key = PodKey { namespace: Arc::clone(&info.namespace), name: Arc::from(name) };
        let none = Labels::new();
        let labels = state.intern_labels(&info.namespace, pod.metadata.labels.as_ref().unwrap_or(&none));
        Ok(Self { key, class: state.intern_class(info), labels })
    }
}

pub(crate) fn name_of(pod: &Pod) -> Result<&str, ObjectError> {
    pod.metadata.name.as_deref().ok_or(ObjectError::Missing { field: "metadata.name" })
}

pub(crate) fn requested_node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty())
}

/// The profile of a pod, or what becomes of it if it does not enter a scheduling cycle.
fn without_cycle<'p>(pod: &Pod, profile: Option<&'p Profile>) -> Result<Result<&'p Profile, Decision>, ObjectError> {
    let spec = pod.spec.as_ref().ok_or(ObjectError::Missing { field: "spec" })?;
    let gates: Vec<_> = spec.scheduling_gates.iter().flatten().map(|gate| gate.name.clone()).collect();
    let (outcome, message) = match (requested_node(pod), profile) {
        (Some(node), _) => (Outcome::Bound { node: Arc::from(node) }, ""),
        (None, None) => (Outcome::Ignored { scheduler: spec.scheduler_name.clone().unwrap_or_default() }, ""),
        (None, Some(profile)) if gates.is_empty() => return Ok(Ok(profile)),
        (None, Some(_)) => (Outcome::Gated { gates }, message::GATED),
    };
    let pod = PodKey::new(namespace_of(pod), name_of(pod)?);
    Ok(Err(decision(pod, outcome, message.to_owned())))
}

/// The claims of a pod, or what becomes of it while they are not there.
///
/// upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go PreEnqueue (v1.36)
pub(crate) fn claims_of(state: &State, pod: &Pod) -> Result<Result<Option<PodClaims>, Decision>, ObjectError> {
    if !PodClaims::are_possible(&state.devices, pod) {
        return Ok(Ok(None));
    }
    let key = PodKey::new(namespace_of(pod), name_of(pod)?);
    Ok(PodClaims::of(&state.devices, pod).map_err(|message| decision(key, Outcome::AwaitingClaims, message)))
}

/// The fast path: cached verdicts and scores.
pub(crate) fn schedule(
    state: &mut State,
    caches: &mut ClassCaches,
    profile: Option<&Profile>,
    tie_break: TieBreak,
    pod: &Pod,
) -> Result<Decision, ObjectError> {
    let profile = match without_cycle(pod, profile)? {
        Ok(profile) => profile,
        Err(decision) => return Ok(decision),
    };
    let claims = match claims_of(state, pod)? {
        Ok(claims) => claims,
        Err(decision) => return Ok(decision),
    };
    let subject = Subject::of(state, pod, name_of(pod)?)?;
    if state.node_count() == 0 {
        return Ok(Verdict::no_nodes().of(subject.key));
    }
    if claims.is_none()
        && let Some(node) = only_named(state, profile, &subject, Nomination::of(state, pod))
    {
        return Ok(Verdict::scheduled(node).of(subject.key));
    }
    let cells = claims.as_ref().map(|claims| caches.take_devices(state, claims));
    let cache = caches.refreshed(state, profile, subject.class, subject.labels, &subject.key.name);
    let state = &*state;
    let mut cycle = Cycle::new(state, profile, subject.class, subject.labels, &subject.key.name, None, &cache.tallies);
    let with_cells = claims.as_ref().zip(cells);
    cycle.claims = with_cells.map(|(claims, cells)| ClaimCycle::new(&state.devices, claims, cells));
    let verdict = decide(&mut cycle, cache, Nomination::of(state, pod), tie_break);
    let decision = with_allocations(&cycle, verdict.of(subject.key.clone()));
    if let Some((claims, cells)) = claims.as_ref().zip(cycle.claims.map(ClaimCycle::into_cells)) {
        caches.devices.put_back(claims, cells);
    }
    Ok(decision)
}

/// A decision with what the claims of the pod are given on its node.
fn with_allocations(cycle: &Cycle<'_>, mut decision: Decision) -> Decision {
    let Some(claims) = &cycle.claims else { return decision };
    if let Outcome::Scheduled { node } = &decision.outcome
        && let Some(node) = cycle.state.node_id(node).and_then(|id| cycle.node(id))
    {
        let (results, extended) = claims.results(node);
        let mut results = results.into_iter();
        decision.extended = extended.map(|(claim, allocation)| ExtendedAllocation {
            spec: claim.spec.clone(),
            mappings: claim.mappings.clone(),
            allocation,
        });
        let allocation = |claim: &Arc<super::devices::Claim>| ClaimAllocation {
            namespace: claim.namespace.to_string(),
            name: claim.name.to_string(),
            allocation: if claim.allocation.is_none() { results.next() } else { None },
        };
        decision.allocations = claims.claims.all.iter().map(allocation).collect();
    }
    decision
}

/// The node of a pod that names it, as the pods of a DaemonSet do: the others need not be looked at. `None` where there
/// is more to decide, or it does not take the pod.
///
/// upstream: pkg/scheduler/framework/plugins/nodeaffinity `PreFilter`, whose result is the set of nodes that are named
/// (v1.36)
fn only_named(state: &mut State, profile: &Profile, subject: &Subject, nominated: Nomination) -> Option<Arc<str>> {
    let info = Arc::clone(&state.class(subject.class).info);
    let NamedNodes::Only(names) = info.node_affinity.named_nodes() else { return None };
    let [name] = names.as_slice() else { return None };
    let own_rules = !(info.spread.is_empty() && info.affinity.is_empty() && info.anti_affinity.is_empty());
    let other_rules = !profile.narrows_by_name() || profile.arguments.spread.hard().next().is_some();
    if own_rules || other_rules || nominated.made {
        return None;
    }
    state.refresh_matching(subject.labels);
    let (state, none) = (&*state, Tallies::default());
    let cycle = Cycle::new(state, profile, subject.class, subject.labels, &subject.key.name, None, &none);
    let id = state.node_id(name)?;
    let node = cycle.node(id)?;
    let alone = !nominated.made
        && info.spread.is_empty()
        && state.nominated_nodes().next().is_none()
        && !cycle.topology_matters();
    let fits = || {
        plugins::pre_filter(&cycle).is_none()
            && plugins::local_verdict(&cycle, &View { id, node, delta: Delta::NONE }).is_none()
    };
    (alone && fits()).then(|| cycle.node_name(id))
}

fn decide(cycle: &mut Cycle<'_>, cache: &ClassCache, nominated: Nomination, tie_break: TieBreak) -> Verdict {
    if let Some((plugin, reasons)) = plugins::pre_filter(cycle) {
        return refused_for_all(cycle, nominated, plugin, &reasons, tie_break);
    }
    if let Some(node) = kept_node(cycle, nominated) {
        return Verdict::scheduled(node);
    }
    let cycle = &*cycle;
    let scheduled = |id: NodeId| Verdict::scheduled(cycle.node_name(id));
    let kept = kept_nodes(cycle);
    if kept.is_empty() && cycle.claims.is_none() && !cycle.topology_matters() && !cycle.topology_scores() {
        let top = best_by_node(cycle.profile, cache);
        if !top.is_empty() {
            return scheduled(pick(cycle, &top, tie_break));
        }
    }
    let mut feasible = feasible(cycle, cache, &kept);
    if let Err(message) = keep_with_devices(cycle, &mut feasible) {
        return Verdict::failed(&message);
    }
    match feasible.as_slice() {
        [] => fail(cycle, nominated, refusals(cycle, cache, &kept), tie_break),
        [only] => scheduled(*only),
        _ => scheduled(pick(cycle, &best(cycle, cache, &feasible), tie_break)),
    }
}

/// Leaves out the nodes on which the pod's claims cannot be given what they ask for.
///
/// # Errors
/// What is wrong with a claim or a class: it is wrong on every node.
fn keep_with_devices(cycle: &Cycle<'_>, feasible: &mut Vec<NodeId>) -> Result<(), String> {
    if cycle.claims.is_none() {
        return Ok(());
    }
    let mut broken = None;
    feasible.retain(|&id| {
        let Some(node) = cycle.node(id).filter(|_| broken.is_none()) else { return false };
        match plugins::claims_verdict(cycle, &View { id, node, delta: Delta::NONE }) {
            None => true,
            Some(Reason::BrokenDeviceRequest { message, .. }) => {
                broken = Some(message);
                false
            }
            Some(_) => false,
        }
    });
    broken.map_or(Ok(()), Err)
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

/// The nodes with the greatest total score, for pods that no other pod matters to.
fn best_by_node(profile: &Profile, cache: &ClassCache) -> Vec<NodeId> {
    let feasible = || cache.cells.iter().enumerate().filter(|(_, cell)| cell.verdict == PASS);
    let mut least = [i32::MAX; NORMALIZED];
    let mut greatest = [i32::MIN; NORMALIZED];
    for (_, cell) in feasible() {
        for (slot, raw) in cell.normalized.iter().enumerate() {
            least[slot] = least[slot].min(*raw);
            greatest[slot] = greatest[slot].max(*raw);
        }
    }
    let varying: Vec<_> = local_scores(profile)
        .filter_map(|(score, weight, slot)| Some((score, weight, slot.filter(|&slot| slot < NORMALIZED)?)))
        .filter(|(_, _, slot)| least[*slot] < greatest[*slot])
        .collect();
    let mut best = i64::MIN;
    let mut top = Vec::new();
    for (id, cell) in feasible() {
        let mut total = i64::from(cell.fixed);
        for (score, weight, slot) in &varying {
            let [raw, least, greatest] = [cell.normalized[*slot], least[*slot], greatest[*slot]].map(i64::from);
            total += weight * score.normalize.one(raw, least, greatest);
        }
        if total > best {
            best = total;
            top.clear();
        }
        if total == best {
            top.push(id as NodeId);
        }
    }
    top
}

/// The nodes with the greatest total score.
fn best(cycle: &Cycle<'_>, cache: &ClassCache, feasible: &[NodeId]) -> Vec<NodeId> {
    let mut totals: Vec<i64> = feasible.iter().map(|&id| i64::from(cache.cells[id as usize].fixed)).collect();
    for (score, weight, slot) in local_scores(cycle.profile) {
        let Some(slot) = slot.filter(|&slot| slot < NORMALIZED) else { continue };
        let raw = || feasible.iter().map(|&id| i64::from(cache.cells[id as usize].normalized[slot]));
        let (least, greatest) =
            raw().fold((i64::MAX, i64::MIN), |(least, greatest), raw| (least.min(raw), greatest.max(raw)));
        // Equal scores change nothing.
        if least < greatest {
            for (total, raw) in totals.iter_mut().zip(raw()) {
                *total += weight * score.normalize.one(raw, least, greatest);
            }
        }
    }
    for (_, score, weight) in plugins::scores(cycle.profile) {
        let Raw::Topology(raw) = score.raw else { continue };
        if let Some(mut scores) = raw(cycle, feasible) {
            score.normalize.apply(&mut scores);
            for (total, normalized) in totals.iter_mut().zip(scores.values) {
                *total += weight * normalized;
            }
        }
    }
    let greatest = totals.iter().copied().max();
    let top = feasible.iter().zip(&totals).filter(|(_, total)| Some(**total) == greatest);
    top.map(|(id, _)| *id).collect()
}

/// The verdicts on all nodes.
fn refusals(cycle: &Cycle<'_>, cache: &ClassCache, kept: &[(NodeId, Option<Refused>)]) -> Refusals {
    let mut all = Refusals { codes: Vec::with_capacity(cycle.state.node_count()), ..Refusals::default() };
    let mut by_verdict = vec![0_usize; cache.verdict_count() + 1];
    let mut by_refusal: Vec<((PluginName, Refusal), usize)> = Vec::new();
    for (id, cell) in cache.cells.iter().enumerate().filter(|(_, cell)| cell.verdict != ABSENT) {
        let id = id as NodeId;
        if !cycle.profile.local_first
            && let Some(node) = cycle.node(id)
            && let Some(refused) = verdict_with_nominated(cycle, id, node, &[])
        {
            all.codes.push((id, refused.code));
            all.count(refused.plugin, refused.texts.iter().map(ToString::to_string), 1);
            continue;
        }
        if let Some(refused) = kept.iter().find(|(kept, _)| *kept == id).and_then(|(_, refused)| refused.as_ref()) {
            all.codes.push((id, refused.code));
            all.count(refused.plugin, refused.texts.iter().map(ToString::to_string), 1);
        } else if cell.verdict != PASS {
            all.codes.push((id, cache.verdict(cell.verdict).code));
            by_verdict[cell.verdict as usize] += 1;
        } else if let Some(node) = cycle.node(id)
            && let Some(refusal) = topology_verdict(cycle, &View { id, node, delta: Delta::NONE })
        {
            all.codes.push((id, refusal.1.code));
            match by_refusal.iter_mut().find(|(have, _)| *have == refusal) {
                Some((_, count)) => *count += 1,
                None => by_refusal.push((refusal, 1)),
            }
        } else if let Some(node) = cycle.node(id)
            && let Some(reason) = plugins::claims_verdict(cycle, &View { id, node, delta: Delta::NONE })
        {
            all.codes.push((id, reason.code()));
            all.count(Some(reason.plugin()), [reason.to_string()], 1);
        }
    }
    for (verdict, count) in by_verdict.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let refused = cache.verdict(verdict as u16);
        // The cache does not know of the node that is kept for the pod.
        let left_out =
            refused.plugin.is_none().then(|| Reason::NotAmongNamedNodes { names: Vec::new(), tried: cycle.tried });
        let texts =
            left_out.map_or_else(|| refused.texts.iter().map(ToString::to_string).collect(), |it| vec![it.to_string()]);
        all.count(refused.plugin, texts, count);
    }
    for ((plugin, refusal), count) in by_refusal {
        all.count(Some(plugin), [refusal.text.to_owned()], count);
    }
    all
}

/// The full path: every verdict and score computed again, with its facts.
pub(crate) fn attempt(
    state: &mut State,
    caches: &mut ClassCaches,
    profile: Option<&Profile>,
    tie_break: TieBreak,
    pod: &Pod,
) -> Result<Attempt, ObjectError> {
    let brief = |decision| Attempt { decision, pre_filter: None, nodes: Vec::new(), scores: None, top: Vec::new() };
    let profile = match without_cycle(pod, profile)? {
        Ok(profile) => profile,
        Err(decision) => return Ok(brief(decision)),
    };
    let claims = match claims_of(state, pod)? {
        Ok(claims) => claims,
        Err(decision) => return Ok(brief(decision)),
    };
    let subject = Subject::of(state, pod, name_of(pod)?)?;
    if state.node_count() == 0 {
        return Ok(brief(Verdict::no_nodes().of(subject.key)));
    }
    let cells = claims.as_ref().map(|claims| caches.take_devices(state, claims));
    let cache = caches.refreshed(state, profile, subject.class, subject.labels, &subject.key.name);
    let state = &*state;
    let mut cycle = Cycle::new(state, profile, subject.class, subject.labels, &subject.key.name, None, &cache.tallies);
    let with_cells = claims.as_ref().zip(cells);
    cycle.claims = with_cells.map(|(claims, cells)| ClaimCycle::new(&state.devices, claims, cells));
    let nominated = Nomination::of(state, pod);
    if let Some((plugin, reasons)) = plugins::pre_filter(&cycle) {
        let verdict = refused_for_all(&cycle, nominated, plugin, &reasons, tie_break);
        return Ok(Attempt { pre_filter: Some((plugin, reasons)), ..brief(verdict.of(subject.key)) });
    }
    let kept = kept_node(&mut cycle, nominated);
    let decision = |verdict: Verdict| with_allocations(&cycle, verdict.of(subject.key.clone()));
    if let Some(node) = kept {
        let scheduled = decision(Verdict::scheduled(Arc::clone(&node)));
        let nodes = vec![NodeVerdict { node: Arc::clone(&node), rejection: None }];
        return Ok(Attempt { nodes, top: vec![node], ..brief(scheduled) });
    }
    let mut ids: Vec<_> = state.live_nodes().map(|(id, node)| (Arc::clone(&node.spec.name), id)).collect();
    ids.sort_unstable();
    let mut feasible = Vec::new();
    let mut refusals = Refusals::default();
    let mut nodes = Vec::with_capacity(ids.len());
    for (name, id) in ids {
        let rejection = cycle.node(id).and_then(|node| rejection(&cycle, id, node));
        match &rejection {
            None => feasible.push(id),
            Some(Rejection { reasons, .. })
                if let Some(Reason::BrokenDeviceRequest { message, .. }) = reasons.first() =>
            {
                return Ok(brief(decision(Verdict::failed(message))));
            }
            Some(rejection) => {
                refusals.codes.push((id, rejection.code));
                refusals.count(rejection.plugin, rejection.reasons.iter().map(ToString::to_string), 1);
            }
        }
        nodes.push(NodeVerdict { node: name, rejection });
    }
    if feasible.is_empty() {
        let decision = decision(fail(&cycle, nominated, refusals, tie_break));
        return Ok(Attempt { nodes, ..brief(decision) });
    }
    let mut scores = None;
    let mut top = feasible.clone();
    // Without a plugin that scores, the first node found is taken, by chance.
    if feasible.len() > 1 && !profile.scores.is_empty() {
        let table = score_table(&cycle, &feasible);
        let greatest = table.rows.iter().map(|row| row.total).max();
        let rows = feasible.iter().zip(&table.rows);
        top = rows.filter(|(_, row)| Some(row.total) == greatest).map(|(id, _)| *id).collect();
        scores = Some(table);
    }
    let decision = decision(Verdict::scheduled(cycle.node_name(pick(&cycle, &top, tie_break))));
    let top = top.into_iter().map(|id| cycle.node_name(id)).collect();
    Ok(Attempt { decision, pre_filter: None, nodes, scores, top })
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
    let mut table = ScoreTable {
        plugins: Vec::new(),
        favours_free: cycle.profile.favours_free(),
        rows: feasible.iter().map(|&id| ScoreRow { node: cycle.node_name(id), total: 0, scores: Vec::new() }).collect(),
    };
    for (plugin, score, weight) in plugins::scores(cycle.profile) {
        let Some(raw) = raw_scores(cycle, score, feasible) else { continue };
        let mut normalized = raw.clone();
        score.normalize.apply(&mut normalized);
        table.plugins.push((plugin, weight));
        for ((row, raw), normalized) in table.rows.iter_mut().zip(raw.values).zip(normalized.values) {
            let weighted = normalized * weight;
            row.total += weighted;
            row.scores.push(PluginScore { raw, normalized, weighted });
        }
    }
    table
}
