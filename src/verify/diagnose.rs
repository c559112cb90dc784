//! Why checks do not hold: the pods behind them grouped by their plight, and what would mend it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::cause::{Cause, Suggestion};
use super::condition::{counted, listed};
use super::context::Context;
use super::explain::{Destination, Explainer, Pending, age, alike, in_namespace};
use super::node::taint_text;
use super::pod::PodState;
use super::rollout::Group;
use super::snapshot::Snapshot;
use super::verdict::{CheckResult, Report};
use super::view::{PodView, View, pool_of};
use crate::scheduling::selector::Operator;
use crate::spec::{Check, Condition, NodeSet, Subject};
use crate::ui::{duration, plural};

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
            Subject::Nodes(set) => (Vec::new(), node_commands(check, result, set)),
            Subject::Object(_) => (Vec::new(), Vec::new()),
            Subject::Workload(_) | Subject::Pods { .. } => of_pods(check, result, &mut explainer, &positions),
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
    let stays_pending = check.conditions.iter().any(|condition| matches!(condition.value, Condition::Pending { .. }));
    let mut causes = Vec::new();
    let mut suggestions: Vec<Suggestion> = Vec::new();
    let mut misplaced: Vec<usize> = Vec::new();
    for group in groups {
        let Some(first) = group.first().and_then(|at| explainer.view().pods.get(*at)) else { continue };
        let (node, state) = (first.node.map(str::to_owned), first.state.clone());
        if node.is_none() && !matches!(state, PodState::Failed { .. } | PodState::Succeeded) {
            let homes = Homes::of(check, explainer.view());
            let pending = explainer.pending(&group, &|place| homes.accept(place));
            causes.push(unplaced(explainer.view(), &group, &state, &pending));
            if !stays_pending {
                suggestions.extend(pending.suggestions);
            }
        } else {
            let wrong = placed(check, explainer.view(), &group, &state);
            if wrong.code == "wrong-node" {
                misplaced.extend(&group);
            }
            causes.push(wrong);
        }
    }
    if !misplaced.is_empty() && !stays_pending {
        suggestions.extend(bring_home(check, explainer, &misplaced));
    }
    suggestions.extend(more_pods(check, explainer));
    let mut seen = BTreeSet::new();
    suggestions.retain(|suggestion| seen.insert(suggestion.text.clone()));
    (merged(causes), suggestions)
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
        PodState::Gated { .. } => ("gated", format!("held by scheduling gates{age}")),
        PodState::Unscheduled => ("unscheduled", format!("not scheduled{age}")),
        _ => ("unschedulable", format!("Pending{age}")),
    };
    let mut what = word;
    if let Some(scheduler) = &pending.scheduler {
        what = format!("{what}, waits for the scheduler `{scheduler}`");
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
    let wants_pending = check.conditions.iter().any(|condition| matches!(condition.value, Condition::Pending { .. }));
    let (code, what) = match state {
        PodState::Starting { trouble: Some(trouble) } | PodState::Running { trouble: Some(trouble), .. } => {
            let message = first.and_then(|pod| trouble_message(pod.pod)).map(|it| format!(": {it}"));
            ("not-starting", format!("{trouble} on {node}{pool}{}", message.unwrap_or_default()))
        }
        PodState::Starting { .. } => ("starting", format!("has not started yet on {node}{pool}")),
        PodState::Running { ready: false, .. } => ("not-ready", format!("runs on {node}{pool}, but is not ready")),
        PodState::Failed { reason } => ("failed", format!("failed: {reason}")),
        PodState::Succeeded => ("succeeded", format!("ended on {node}{pool}")),
        _ if first.is_some_and(|pod| !pod.current) => {
            ("old-template", format!("of the previous template, still on {node}{pool}"))
        }
        _ if wants_pending => ("has-a-node", format!("runs on {node}{pool}, but is to stay Pending")),
        _ => ("wrong-node", format!("runs on {node}{pool}")),
    };
    Cause { code, subjects: ids(view, group), what, nodes: Vec::new() }
}

fn trouble_message(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut waiting = containers.filter_map(|container| container.state.as_ref()?.waiting.as_ref());
    waiting.find_map(|waiting| waiting.message.clone())
}

/// The nodes where a check wants its pods.
struct Homes<'c, 'v, 'a> {
    check: &'c Check,
    view: &'v View<'a>,
}

impl<'c, 'v, 'a> Homes<'c, 'v, 'a> {
    fn of(check: &'c Check, view: &'v View<'a>) -> HomesOwned {
        let homes = Self { check, view };
        let nodes = view.nodes.keys().filter(|name| homes.accept_node(name)).map(|name| (*name).to_owned()).collect();
        let pools: BTreeSet<&str> = view.nodes.values().filter_map(|node| pool_of(node)).collect();
        let pools = pools.into_iter().filter(|pool| homes.accept_pool(pool)).map(str::to_owned).collect();
        HomesOwned { nodes, pools }
    }

    fn accept_node(&self, name: &str) -> bool {
        self.check.conditions.iter().all(|condition| match &condition.value {
            Condition::On(set) | Condition::OnePerNode(set) => self.view.contains(set, name),
            Condition::NotOn(set) => !self.view.contains(set, name),
            Condition::Placement(pools) => {
                let pool = self.view.pool_of(name);
                pool.and_then(|pool| pools.get(pool)).is_none_or(|count| count.max != Some(0))
            }
            _ => true,
        })
    }

    /// Whether a new node of a pool would be one: as the nodes it has, unless they are told apart by name.
    fn accept_pool(&self, pool: &str) -> bool {
        let by_name = self.check.conditions.iter().any(|condition| {
            matches!(&condition.value, Condition::On(NodeSet::Node(_)) | Condition::OnePerNode(NodeSet::Node(_)))
        });
        let mut members = self.view.nodes.iter().filter(|(_, node)| pool_of(node) == Some(pool));
        !by_name && members.any(|(name, _)| self.accept_node(name))
    }
}

/// The nodes where a check wants its pods, by name.
struct HomesOwned {
    nodes: BTreeSet<String>,
    pools: BTreeSet<String>,
}

impl HomesOwned {
    fn accept(&self, place: Destination<'_>) -> bool {
        match place {
            Destination::Node(node) => self.nodes.contains(node),
            Destination::NewNodeOf(pool) => self.pools.contains(pool),
        }
    }
}

/// Changes that bring pods from where they are to where the check wants them: a node selector for a label that tells
/// those nodes from the others, and what else it takes to be let in there.
fn bring_home(check: &Check, explainer: &mut Explainer<'_>, misplaced: &[usize]) -> Vec<Suggestion> {
    let homes = Homes::of(check, explainer.view());
    let everywhere = homes.nodes.len() == explainer.view().nodes.len();
    if homes.nodes.is_empty() || everywhere {
        return Vec::new();
    }
    let Some((key, value)) = distinguishing_label(check, explainer.view(), &homes) else { return Vec::new() };
    explainer.steer(misplaced, &key, &value, &|place| homes.accept(place))
}

/// A label that exactly these nodes carry: one that the lab gives the pool, the one the check names, or the pool's name.
fn distinguishing_label(check: &Check, view: &View<'_>, homes: &HomesOwned) -> Option<(String, String)> {
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
    let of_pool = homes.pools.iter().map(|pool| ("agentpool".to_owned(), pool.clone()));
    let exact = |(key, value): &(String, String)| {
        view.nodes.iter().all(|(name, node)| (node.labels().get(key) == Some(value)) == homes.nodes.contains(*name))
    };
    declared.chain(named).chain(of_pool).find(exact)
}

/// More pods where a check asks for more than the workload has, if they would find room.
fn more_pods(check: &Check, explainer: &mut Explainer<'_>) -> Option<Suggestion> {
    let Subject::Workload(name) = &check.subject.value else { return None };
    let wanted = check.conditions.iter().find_map(|condition| match &condition.value {
        Condition::Running(count) => Some(count.min),
        _ => None,
    })?;
    let group = Group::of(explainer.view(), &check.subject.value)?;
    let now = u32::try_from(group.counted.len()).ok()?;
    let declared = explainer.view().context.workload(name)?.replicas.as_ref()?;
    // Only where the owner has what it wants, and all of it runs.
    let at_rest = group.missing == 0 && group.stale.is_none() && group.counted.iter().all(|pod| pod.state.is_ready());
    if wanted <= now || !at_rest || now == 0 {
        return None;
    }
    // Where the file says so already, somebody scaled the workload since.
    let by_file = declared.value < wanted;
    let (at, kind) = (declared.at.clone(), explainer.view().context.workload(name)?.kind.as_str());
    let model = group.counted.first()?.pod.clone();
    let namespace = in_namespace(&explainer.view().context.workload(name)?.namespace);
    let homes = Homes::of(check, explainer.view());
    let nodes = explainer.place_copies(&model, wanted - now)?;
    if !nodes.iter().all(|node| homes.accept(Destination::Node(node))) {
        return None;
    }
    Some(Suggestion {
        code: "scale-up",
        text: if by_file {
            format!("set `workload.{name}.replicas = {wanted}` (from {now})")
        } else {
            format!("scale {kind}/{name} from {now} to {wanted}")
        },
        at: by_file.then_some(at),
        command: Some(format!("kubectl{namespace} scale {kind}/{name} --replicas={wanted}")),
        changes: 1,
        nodes: nodes.into_iter().collect::<BTreeSet<_>>().into_iter().collect(),
    })
}

/// Commands that make nodes as a check wants them.
fn node_commands(check: &Check, result: &CheckResult, set: &NodeSet) -> Vec<Suggestion> {
    let mut suggestions: BTreeMap<&'static str, Suggestion> = BTreeMap::new();
    for (condition, finding) in check.conditions.iter().zip(&result.findings) {
        if finding.holds || finding.offenders.is_empty() {
            continue;
        }
        let target = match set {
            NodeSet::Pool(pool) => format!("-l agentpool={pool}"),
            NodeSet::Selector(selector) => format!("-l '{selector}'"),
            NodeSet::Node(name) => name.clone(),
        };
        let names = finding.offenders.join(" ");
        let many = counted(finding.offenders.len(), "node", "", "");
        let many = many.trim_end();
        let (code, text, command) = match &condition.value {
            Condition::Tainted(taint) => {
                let taint = taint_text(taint);
                ("add-taint", format!("taint {many}"), format!("kubectl taint nodes {target} {taint} --overwrite"))
            }
            Condition::Schedulable(true) => {
                ("uncordon", format!("uncordon {many}"), format!("kubectl uncordon {names}"))
            }
            Condition::Schedulable(false) => ("cordon", format!("cordon {many}"), format!("kubectl cordon {names}")),
            _ => continue,
        };
        let suggestion =
            Suggestion { code, text, at: None, command: Some(command), changes: 1, nodes: finding.offenders.clone() };
        suggestions.insert(code, suggestion);
    }
    suggestions.into_values().collect()
}

#[cfg(test)]
mod tests;
