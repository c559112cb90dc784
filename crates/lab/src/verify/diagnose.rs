//! Why checks do not hold: the pods behind them grouped by their plight, and what would mend it.

mod autoscaled;
mod daemon;
mod size;
pub(super) mod target_nodes;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::ResourceExt;

use self::autoscaled::autoscaled;
use self::target_nodes::{Homes, HomesOwned, settles};
use super::cause::{Cause, Hindrance, Suggestion};
use super::conditions::rule;
use super::context::Context;
use super::explain::{Edit, Explainer, Pending, Settles, age, alike, unmade};
use super::movement::is_pinned_to_no_node;
use super::pod::PodState;
use super::rollout::Group;
use super::snapshot::Snapshot;
use super::verdict::{CheckResult, Report};
use super::view::{Owner, PodView, View};
use crate::code::Code;
use crate::membership::POOL_LABELS;
use crate::spec::{Check, Condition, NodeSet, Subject};
use crate::words::{counted, duration, listed, plural};
use klab_scheduler::selector::Operator;

/// Most changes kept for a check.
const SUGGESTIONS: usize = 3;

/// Fills in causes and suggestions of the checks that do not hold. Asks the scheduler, so it is for the last look, not
/// for every one of a wait. The checks must be those of the report.
pub fn diagnose(report: &mut Report, checks: &[Check], snapshot: &Snapshot, context: &Context<'_>) {
    if report.ok() {
        return;
    }
    let mut explainer = Explainer::new(snapshot, context);
    let positions: HashMap<String, usize> =
        explainer.view().pods.iter().enumerate().map(|(at, pod)| (pod.id(), at)).collect();
    for (check, result) in checks.iter().zip(&mut report.checks) {
        if result.verdict.is_held() {
            continue;
        }
        let (causes, suggestions) = match &check.subject.value {
            Subject::Nodes(set) => (Vec::new(), node_commands(explainer.view(), check, result, set)),
            Subject::Object(_) => (Vec::new(), Vec::new()),
            Subject::Workload(_) | Subject::Pods { .. } => {
                of_pods(check, result, (snapshot, context), &mut explainer, &positions)
            }
        };
        result.causes = causes;
        result.suggestions = suggestions;
        result.suggestions.sort_by_key(|suggestion| suggestion.changes);
        result.suggestions.truncate(SUGGESTIONS);
    }
}

fn of_pods(
    check: &Check,
    result: &CheckResult,
    (snapshot, context): (&Snapshot, &Context<'_>),
    explainer: &mut Explainer<'_>,
    positions: &HashMap<String, usize>,
) -> (Vec<Cause>, Vec<Suggestion>) {
    let failing = result.findings.iter().filter(|finding| !finding.holds);
    let offenders: BTreeSet<usize> =
        failing.flat_map(|finding| &finding.offenders).filter_map(|id| positions.get(id).copied()).collect();
    let offenders: Vec<usize> = offenders.into_iter().collect();
    let groups: Vec<Vec<usize>> = alike(explainer.view(), &offenders)
        .into_iter()
        .map(|pods| pods.iter().filter_map(|pod| positions.get(&pod.id()).copied()).collect())
        .collect();
    let stays_pending = check.wants_pending();
    let mut causes = Vec::new();
    let mut suggestions: Vec<Suggestion> = Vec::new();
    let mut misplaced: Vec<usize> = Vec::new();
    for group in groups {
        let Some(first) = group.first().and_then(|at| explainer.view().pods.get(*at)) else { continue };
        let (node, state) = (first.node.map(str::to_owned), first.state.clone());
        if node.is_none() && !matches!(state, PodState::Failed { .. } | PodState::Succeeded) {
            let homes = Homes::of(check, explainer.view());
            let pending = explainer.pending(&group, &|place| homes.accept(place), &|pods, nodes| {
                settles(check, *context, snapshot, pods, nodes)
            });
            causes.push(unplaced(explainer.view(), &group, &state, &pending));
            if !stays_pending {
                suggestions.extend(pending.suggestions);
            }
        } else {
            let wrong = placed(check, explainer.view(), &group, &state);
            let mut troubles = if wrong.code == Code::NoSuchNode { Vec::new() } else { explainer.troubles(&group) };
            let is_lost = troubles.iter().any(|trouble| trouble.cause.code == Code::LostNode);
            let is_misplaced = matches!(wrong.code, Code::WrongNode | Code::OldTemplate | Code::HasANode) && !is_lost;
            if wrong.code == Code::WrongNode && !is_lost {
                misplaced.extend(&group);
            }
            // What is the matter with the pods says more than that they are not as wanted.
            if troubles.is_empty() || is_misplaced {
                causes.push(wrong);
            }
            for trouble in &mut troubles {
                suggestions.append(&mut trouble.suggestions);
            }
            causes.extend(troubles.into_iter().map(|trouble| trouble.cause));
        }
    }
    if !misplaced.is_empty() && !stays_pending {
        let settles = |pods: &[&PodView<'_>], nodes: &[String]| settles(check, *context, snapshot, pods, nodes);
        suggestions.extend(bring_home(check, result, explainer, &misplaced, &settles));
    }
    let autoscaled: Vec<Hindrance> = owners(check, explainer.view())
        .into_iter()
        .filter_map(|owner| autoscaled(check, explainer.view(), owner))
        .collect();
    if autoscaled.is_empty() {
        suggestions.extend(size::change(check, explainer));
    }
    suggestions.extend(size::missing(check, explainer.view()));
    let lacks = if stays_pending { Vec::new() } else { lacks(check, explainer.view()) };
    let missing =
        if offenders.is_empty() && lacks.is_empty() { daemon::missing(check, snapshot, *context) } else { None };
    for hindrance in autoscaled.into_iter().chain(lacks).chain(missing) {
        causes.push(hindrance.cause);
        suggestions.extend(hindrance.suggestions);
    }
    let mut seen = BTreeSet::new();
    suggestions.retain(|suggestion| seen.insert(suggestion.text.clone()));
    (merged(causes), suggestions)
}

/// What keeps the owners of a check's pods from having as many as they want.
fn lacks(check: &Check, view: &View<'_>) -> Vec<Hindrance> {
    let is_lack = |found: &Hindrance| found.cause.code != Code::Over;
    owners(check, view).into_iter().filter_map(|owner| unmade(view, owner)).filter(is_lack).collect()
}

/// What makes the pods of a check.
fn owners<'a>(check: &Check, view: &View<'a>) -> Vec<Owner<'a>> {
    let mut owners: Vec<Owner<'_>> = match &check.subject.value {
        Subject::Workload(name) => view.owner_of_workload(name).into_iter().collect(),
        _ => Vec::new(),
    };
    let group = Group::of(view, &check.subject.value);
    for pod in group.iter().flat_map(|group| &group.counted) {
        if pod.owner.meta().is_some() && !owners.iter().any(|owner| owner.is(&pod.owner)) {
            owners.push(pod.owner);
        }
    }
    owners
}

/// Causes that say the same of different pods, as one.
fn merged(causes: Vec<Cause>) -> Vec<Cause> {
    let mut merged: Vec<Cause> = Vec::new();
    for cause in causes {
        match merged.iter_mut().find(|other| other.what == cause.what && other.nodes == cause.nodes) {
            Some(other) => {
                other.subjects.extend(cause.subjects);
                other.subjects.sort();
            }
            None => merged.push(cause),
        }
    }
    merged
}

fn ids(view: &View<'_>, group: &[usize]) -> Vec<String> {
    group.iter().filter_map(|at| view.pods.get(*at)).map(PodView::id).collect()
}

fn unplaced(view: &View<'_>, group: &[usize], state: &PodState, pending: &Pending) -> Cause {
    let age = group.first().and_then(|at| age(view, view.pods.get(*at)?.pod));
    let age = age.map(|age| format!(" for {}", duration(age))).unwrap_or_default();
    let total: usize = pending.refusals.iter().map(|group| group.nodes.len()).sum();
    let (code, word) = match state {
        PodState::Gated { .. } => (Code::Gated, format!("held by scheduling gates{age}")),
        PodState::Unscheduled => (Code::Unscheduled, format!("not scheduled{age}")),
        _ => (Code::Unschedulable, format!("Pending{age}")),
    };
    let mut what = word;
    if let Some(scheduler) = &pending.scheduler {
        what = format!("{what}, waits for the scheduler `{scheduler}`");
    }
    if pending.waits_for_claims() {
        let claims: Vec<String> =
            pending.claims.iter().map(|awaited| format!("claim {}: {}", awaited.claim, awaited.text)).collect();
        what = format!("{what}, waits for {}", claims.join("; "));
        return Cause { code, subjects: ids(view, group), what, nodes: pending.refusals.clone() };
    }
    if let Some(waits_for) = &pending.waits_for {
        what = format!("{what}, {waits_for}");
    }
    what = match (pending.fits.as_slice(), total) {
        ([], 0) => format!("{what}, there are no nodes"),
        ([], total) => format!("{what}, fits on none of {}", plural(total, "node")),
        (fits, _) => {
            let names: Vec<&str> = fits.iter().map(String::as_str).collect();
            format!("{what}, would fit on {} now", listed(&names))
        }
    };
    Cause { code, subjects: ids(view, group), what, nodes: pending.refusals.clone() }
}

/// What is the matter with pods that have, or had, a node.
fn placed(check: &Check, view: &View<'_>, group: &[usize], state: &PodState) -> Cause {
    let first = group.first().and_then(|at| view.pods.get(*at));
    let node = first.and_then(|pod| pod.node).unwrap_or_default();
    let pool = view.pool_of(node).map(|pool| format!(" (pool {pool})")).unwrap_or_default();
    let wants_pending = check.wants_pending();
    let message = first.and_then(PodView::trouble_message).map(|message| format!(": {message}")).unwrap_or_default();
    let runs = if group.len() == 1 { "runs" } else { "run" };
    let (code, what) = match state {
        _ if first.is_some_and(|pod| is_pinned_to_no_node(pod, view)) => {
            (Code::NoSuchNode, format!("is pinned to {node} by `nodeName`, and there is no such node"))
        }
        PodState::Starting { trouble: Some(trouble) } | PodState::Running { trouble: Some(trouble), .. } => {
            (Code::NotStarting, format!("{trouble} on {node}{pool}{message}"))
        }
        PodState::Starting { .. } => (Code::Starting, format!("has not started yet on {node}{pool}{message}")),
        PodState::Running { ready: false, .. } => (Code::NotReady, format!("runs on {node}{pool}, but is not ready")),
        PodState::Failed { reason } => (Code::Failed, format!("failed: {reason}")),
        PodState::Succeeded => (Code::Ended, format!("ended on {node}{pool}")),
        _ if first.is_some_and(|pod| !pod.current) => {
            (Code::OldTemplate, format!("of the previous template, still on {node}{pool}"))
        }
        _ if wants_pending => (Code::HasANode, format!("{runs} on {node}{pool}, but should stay Pending")),
        _ => (Code::WrongNode, format!("{runs} on {node}{pool}")),
    };
    Cause { code, subjects: ids(view, group), what, nodes: Vec::new() }
}

/// Changes that bring pods from where they are to where the check wants them, and what else it takes to be let in there.
fn bring_home(
    check: &Check,
    result: &CheckResult,
    explainer: &mut Explainer<'_>,
    misplaced: &[usize],
    settles: Settles<'_>,
) -> Vec<Suggestion> {
    let view = explainer.view();
    let homes = Homes::of(check, view);
    let strangers: Vec<usize> = misplaced
        .iter()
        .copied()
        .filter(|at| view.pods.get(*at).and_then(|pod| pod.node).is_some_and(|node| !homes.nodes.contains(node)))
        .collect();
    if let Some(moved) = moved_label(explainer, &homes, &strangers, settles) {
        return moved;
    }
    let view = explainer.view();
    let mut attempts: Vec<(Vec<Edit>, Vec<usize>)> = Vec::new();
    if !strangers.is_empty() && restarts(view, &strangers) {
        attempts.push((vec![Edit::Restart], strangers.clone()));
    }
    // What the cluster's own pods ask for is not the learner's to change.
    let is_own = strangers.iter().any(|at| view.pods.get(*at).is_some_and(|pod| pod.namespace.starts_with("kube-")));
    let require =
        distinguishing_label(check, view, &homes).filter(|_| !is_own).map(|(key, value)| Edit::Require { key, value });
    if !strangers.is_empty() {
        attempts.extend(require.iter().map(|edit| (vec![edit.clone()], strangers.clone())));
    }
    // What pods are to each other concerns all of the workload's pods, not only those that stand out.
    let first = misplaced.first().and_then(|at| view.pods.get(*at));
    let siblings: Vec<usize> = first.map_or_else(Vec::new, |first| {
        let same = |pod: &PodView<'_>| pod.counts() && (pod.index == first.index || pod.owner.is(&first.owner));
        view.pods.iter().enumerate().filter(|(_, pod)| same(pod)).map(|(at, _)| at).collect()
    });
    let own = first.map(own_labels).unwrap_or_default();
    for (condition, _) in check.conditions.iter().zip(&result.findings).filter(|(_, finding)| !finding.holds) {
        let Some(edit) = rule(&condition.value).steers(&own) else { continue };
        attempts.push((vec![edit.clone()], siblings.clone()));
        attempts.extend(require.iter().map(|require| (vec![require.clone(), edit.clone()], siblings.clone())));
    }
    let mut suggestions: Vec<Suggestion> = Vec::new();
    for (edits, pods) in attempts {
        // Two changes are none beside one that does it.
        if edits.len() == 1 || suggestions.is_empty() {
            suggestions.extend(explainer.steer(&pods, &edits, &|place| homes.accept(place), settles));
        }
    }
    suggestions
}

/// Whether the pods have an owner that recreates them on request.
fn restarts(view: &View<'_>, pods: &[usize]) -> bool {
    let owner = pods.first().and_then(|at| view.pods.get(*at)).map(|pod| pod.owner);
    matches!(owner, Some(Owner::Deployment(_) | Owner::StatefulSet(_) | Owner::DaemonSet(_)))
}

/// Where pods went to nodes by a label that somebody put there, and not where the check wants them: the label belongs on
/// these nodes, and not on those.
fn moved_label(
    explainer: &mut Explainer<'_>,
    homes: &HomesOwned,
    strangers: &[usize],
    settles: Settles<'_>,
) -> Option<Vec<Suggestion>> {
    let view = explainer.view();
    let pods: Vec<&PodView<'_>> = strangers.iter().filter_map(|at| view.pods.get(*at)).collect();
    let nodes: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.node).collect();
    let wanted = required_labels(pods.first()?.pod);
    let carries = |name: &str, key: &str, value: &str| {
        view.nodes.get(name).is_some_and(|node| node.labels().get(key).is_some_and(|found| found == value))
    };
    let is_declared = |name: &str, key: &str| {
        view.pool_of(name).and_then(|pool| view.context.pool(pool)).is_some_and(|pool| pool.labels.contains_key(key))
    };
    let carried = |key: &str, value: &str| homes.nodes.iter().filter(|name| carries(name, key, value)).count();
    let (key, value) = wanted.into_iter().find(|(key, value)| {
        !homes.nodes.is_empty()
            && [0, homes.nodes.len()].contains(&carried(key, value))
            && nodes
                .iter()
                .all(|name| carries(name, key, value) && !is_declared(name, key) && !POOL_LABELS.contains(key))
    })?;
    let elsewhere: Vec<String> = view
        .nodes
        .keys()
        .filter(|name| !homes.nodes.contains(**name) && carries(name, key, value))
        .map(|name| (*name).to_owned())
        .collect();
    let pool =
        homes.pools.first().filter(|pool| homes.pools.len() == 1 && homes.nodes.len() == view.members(pool).count());
    let mut edits = vec![Edit::Unlabel { nodes: elsewhere.into(), key: key.to_owned() }];
    if carried(key, value) == 0 {
        let (key, value) = (key.to_owned(), value.to_owned());
        edits.insert(0, Edit::Label { pool: pool.cloned(), nodes: homes.nodes.iter().cloned().collect(), key, value });
    }
    if restarts(view, strangers) {
        edits.push(Edit::Restart);
    }
    let found = explainer.steer(strangers, &edits, &|place| homes.accept(place), settles);
    (!found.is_empty()).then_some(found)
}

/// Labels that a pod requires of its node: of its node selector, and of the first term of its node affinity.
fn required_labels(pod: &Pod) -> Vec<(&str, &str)> {
    let Some(spec) = pod.spec.as_ref() else { return Vec::new() };
    let selector = spec.node_selector.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let term = required.and_then(|required| required.node_selector_terms.first());
    let expressions = term.into_iter().flat_map(|term| term.match_expressions.iter().flatten());
    let of_affinity = expressions.filter(|expression| expression.operator == "In").filter_map(|expression| {
        let value = expression.values.iter().flatten().next()?;
        Some((expression.key.as_str(), value.as_str()))
    });
    selector.chain(of_affinity).collect()
}

/// The labels by which a pod's owner knows its pods, or those that klab puts on them.
fn own_labels(pod: &PodView<'_>) -> LabelSelector {
    let of_owner = match pod.owner {
        Owner::Deployment(owner) => owner.spec.as_ref().map(|spec| spec.selector.clone()),
        Owner::StatefulSet(owner) => owner.spec.as_ref().map(|spec| spec.selector.clone()),
        Owner::DaemonSet(owner) => owner.spec.as_ref().map(|spec| spec.selector.clone()),
        Owner::ReplicaSet(owner) => owner.spec.as_ref().map(|spec| spec.selector.clone()),
        Owner::Job(_) | Owner::Other(_) | Owner::None => None,
    };
    of_owner
        .unwrap_or_else(|| LabelSelector { match_labels: Some(pod.pod.labels().clone()), ..LabelSelector::default() })
}

/// A label that exactly these nodes carry: one that the lab gives the pool, the one the check names, or the pool's name.
fn distinguishing_label(check: &Check, view: &View<'_>, homes: &HomesOwned) -> Option<(String, String)> {
    if homes.nodes.is_empty() || homes.nodes.len() == view.nodes.len() {
        return None;
    }
    let declared = homes.pools.iter().filter_map(|pool| view.context.pool(pool)).flat_map(|pool| &pool.labels);
    let declared = declared.map(|(key, value)| (key.clone(), value.value.clone()));
    let named = check.conditions.iter().filter_map(|condition| match &condition.value {
        Condition::On(NodeSet::Selector(selector)) => match selector.requirements() {
            [one] if one.operator == Operator::In => Some((one.key.clone(), one.values.first()?.clone())),
            _ => None,
        },
        Condition::On(NodeSet::Node(name)) => Some(("kubernetes.io/hostname".to_owned(), name.clone())),
        _ => None,
    });
    let of_pool = homes.pools.iter().flat_map(|pool| POOL_LABELS.map(|key| (key.to_owned(), pool.clone())));
    let exact = |(key, value): &(String, String)| {
        view.nodes.iter().all(|(name, node)| (node.labels().get(key) == Some(value)) == homes.nodes.contains(*name))
    };
    declared.chain(named).chain(of_pool).find(exact)
}

/// Commands that make nodes as a check wants them.
fn node_commands(view: &View<'_>, check: &Check, result: &CheckResult, set: &NodeSet) -> Vec<Suggestion> {
    let mut suggestions: BTreeMap<&'static str, Suggestion> = BTreeMap::new();
    if let NodeSet::Pool(pool) = set
        && view.context.pool(pool).is_some()
        && view.context.provider().is_some_and(|provider| provider.profile().makes_nodes)
        && result.findings.iter().any(|finding| finding.code == Code::NoNodes)
    {
        let (text, command) =
            (format!("make the pool {pool}"), format!("klab pool add {pool} --lab {}", view.context.name()));
        let suggestion =
            Suggestion { code: "add-pool", text, at: None, command: Some(command), changes: 1, nodes: Vec::new() };
        return vec![suggestion];
    }
    for (condition, finding) in check.conditions.iter().zip(&result.findings) {
        if finding.holds || finding.offenders.is_empty() {
            continue;
        }
        let target = match set {
            NodeSet::Pool(pool) => format!("-l {}", view.pool_selector(pool)),
            NodeSet::Selector(selector) => format!("-l '{selector}'"),
            NodeSet::Node(name) => name.clone(),
        };
        let names = finding.offenders.join(" ");
        let many = counted(finding.offenders.len(), "node", "", "");
        let many = many.trim_end();
        let Some(remedy) = rule(&condition.value).remedy(&target, &names) else { continue };
        let suggestion = Suggestion {
            code: remedy.code,
            text: format!("{} {many}", remedy.verb),
            at: None,
            command: Some(remedy.command),
            changes: 1,
            nodes: finding.offenders.clone(),
        };
        suggestions.insert(remedy.code, suggestion);
    }
    suggestions.into_values().collect()
}

#[cfg(test)]
mod tests;
