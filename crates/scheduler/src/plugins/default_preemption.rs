//! DefaultPreemption: which pods of lower priority would have to go, on which node.

// upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go SelectVictimsOnNode (v1.36)
// upstream: pkg/scheduler/framework/preemption/preemption.go pickOneNodeForPreemption (v1.36)

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use super::filter::{Refused, View};
use super::verdict;
use crate::cycle::Cycle;
use crate::decision::{Candidate, Preemption};
use crate::delta::Delta;
use crate::hash::{fnv64_mixed, mix};
use crate::ids::{NodeId, PodId};
use crate::message;
use crate::node_info::NodeInfo;
use crate::reason::Code;
use crate::state::{PodEntry, State};
use crate::tie::{TieBreak, pick};

/// What preemption comes to.
pub(crate) enum Preempt {
    /// Victims were found.
    Found(Preemption),
    /// Preemption does not help; the text after `preemption: `. A nomination the pod has is withdrawn.
    Useless(String),
    /// The pod may not preempt; the text after `preemption: `. A nomination the pod has stays.
    NotEligible(&'static str),
}

/// The victims on one node.
struct Victims {
    node: NodeId,
    pods: Vec<PodId>,
    violations: usize,
}

/// Looks for victims. `codes` are the verdicts of all nodes, `nominated` the node already kept for the pod.
pub(crate) fn preempt(
    cycle: &Cycle<'_>,
    nominated: Option<NodeId>,
    codes: &[(NodeId, Code)],
    tie_break: TieBreak,
) -> Preempt {
    if cycle.info.never_preempts {
        return Preempt::NotEligible("not eligible due to preemptionPolicy=Never.");
    }
    if waits_for_victims(cycle, nominated, codes) {
        return Preempt::NotEligible("not eligible due to a terminating pod on the nominated node.");
    }
    let mut found: Vec<Victims> = Vec::new();
    let mut refused = 0;
    let mut refusals: BTreeMap<Cow<'static, str>, usize> = BTreeMap::new();
    let mut potential: Vec<NodeId> =
        codes.iter().filter(|(_, code)| *code == Code::Unschedulable).map(|(id, _)| *id).collect();
    let limit = cycle.profile.arguments.preemption;
    let enough = limit.map_or(potential.len(), |limit| limit.candidates(potential.len()));
    let start = start(cycle, &mut potential, enough, tie_break);
    let (last, first) = potential.split_at(start);
    for &id in first.iter().chain(last) {
        let kept = |violates: bool| found.iter().filter(|victims| (victims.violations > 0) == violates).count();
        if found.len() >= enough && kept(false) > 0 {
            break;
        }
        let Some(node) = cycle.node(id) else { continue };
        match victims_on(cycle, id, node, tie_break) {
            // No more of each kind are kept: none at all of few nodes, if the limit is a share alone.
            Ok(victims) if kept(victims.violations > 0) >= enough => {}
            Ok(victims) => found.push(victims),
            Err(texts) => {
                refused += 1;
                for text in texts {
                    *refusals.entry(text).or_default() += 1;
                }
            }
        }
    }
    if found.is_empty() {
        let absent = codes.len() - refused;
        if absent > 0 {
            *refusals.entry(Cow::Borrowed("Preemption is not helpful for scheduling")).or_default() += absent;
        }
        return Preempt::Useless(message::nodes_available(codes.len(), &refusals));
    }
    Preempt::Found(choose(cycle, found, tie_break))
}

/// Where the search for victims begins among nodes if it leaves some out: by chance, as in kube-scheduler.
fn start(cycle: &Cycle<'_>, nodes: &mut [NodeId], enough: usize, tie_break: TieBreak) -> usize {
    if enough >= nodes.len() {
        return 0;
    }
    nodes.sort_by_cached_key(|&id| cycle.node_name(id));
    let first = pick(cycle, nodes, tie_break);
    nodes.iter().position(|node| *node == first).unwrap_or(0)
}

/// Whether the pod already preempted, and a victim on its nominated node is still on its way out.
fn waits_for_victims(cycle: &Cycle<'_>, nominated: Option<NodeId>, codes: &[(NodeId, Code)]) -> bool {
    let Some(nominated) = nominated else { return false };
    let unresolvable = |&(id, code): &(NodeId, Code)| id == nominated && code == Code::UnschedulableAndUnresolvable;
    if codes.iter().any(unresolvable) {
        return false;
    }
    let pods = cycle.node(nominated).map_or(&[][..], |node| &node.pods);
    pods.iter()
        .filter_map(|&pod| cycle.state.pod(pod))
        .any(|entry| entry.terminating && entry.preempted && priority(cycle.state, entry) < cycle.info.priority)
}

fn priority(state: &State, entry: &PodEntry) -> i32 {
    state.class(entry.class).info.priority
}

/// More important pods come first: higher priority, then longer running, then by lot or name.
fn importance(state: &State, tie_break: TieBreak, a: &PodEntry, b: &PodEntry) -> Ordering {
    let start = |entry: &PodEntry| entry.started.unwrap_or(i64::MAX);
    let lot = |entry: &PodEntry| match tie_break {
        TieBreak::Shuffled(seed) => mix(seed ^ fnv64_mixed(&[&entry.key.namespace, &entry.key.name])),
        TieBreak::Seeded(_) | TieBreak::FirstName => 0,
    };
    let equal = || lot(a).cmp(&lot(b)).then_with(|| a.key.cmp(&b.key));
    (priority(state, b).cmp(&priority(state, a))).then(start(a).cmp(&start(b))).then_with(equal)
}

/// A node with pods taken off in thought.
struct DryRun<'a> {
    cycle: &'a Cycle<'a>,
    id: NodeId,
    node: NodeInfo,
    removed: Vec<PodId>,
}

impl DryRun<'_> {
    fn remove(&mut self, pod: PodId) {
        let state = self.cycle.state;
        if let Some(entry) = state.pod(pod) {
            self.node.remove_pod(pod, &state.class(entry.class).info);
            self.removed.push(pod);
        }
    }

    fn put_back(&mut self, pod: PodId) {
        let state = self.cycle.state;
        if let Some(entry) = state.pod(pod) {
            self.node.add_pod(pod, &state.class(entry.class).info);
            self.removed.retain(|&removed| removed != pod);
        }
    }

    fn verdict(&self) -> Option<Refused> {
        verdict_with_nominated(self.cycle, self.id, &self.node, &self.removed)
    }
}

/// The verdict on a node, first with the pods added for which it is kept (of the same or higher priority), then
/// without: the pod must not need them, nor be in their way.
pub(crate) fn verdict_with_nominated(
    cycle: &Cycle<'_>,
    id: NodeId,
    node: &NodeInfo,
    removed: &[PodId],
) -> Option<Refused> {
    let nominated = nominated_before(cycle, node);
    if !nominated.is_empty() {
        let node = with_pods(cycle.state, node, &nominated);
        let delta = Delta { added: nominated, removed: removed.to_vec() };
        let refused = verdict(cycle, &View { id, node: &node, delta: &delta });
        if refused.is_some() {
            return refused;
        }
    }
    if removed.is_empty() {
        return verdict(cycle, &View { id, node, delta: Delta::NONE });
    }
    verdict(cycle, &View { id, node, delta: &Delta { added: Vec::new(), removed: removed.to_vec() } })
}

/// The pods for which a node is kept and that come before the cycle's pod.
pub(crate) fn nominated_before(cycle: &Cycle<'_>, node: &NodeInfo) -> Vec<PodId> {
    let state = cycle.state;
    let before = |&pod: &PodId| {
        state.pod(pod).is_some_and(|entry| {
            let itself = entry.key.name.as_ref() == cycle.name && entry.key.namespace == cycle.info.namespace;
            !itself && priority(state, entry) >= cycle.info.priority
        })
    };
    state.nominated_to(&node.spec.name).iter().copied().filter(before).collect()
}

/// A copy of a node with more pods on it.
pub(crate) fn with_pods(state: &State, node: &NodeInfo, pods: &[PodId]) -> NodeInfo {
    let mut node = node.clone();
    for &pod in pods {
        if let Some(entry) = state.pod(pod) {
            node.add_pod(pod, &state.class(entry.class).info);
        }
    }
    node
}

/// The fewest and least important pods whose eviction makes room, or the texts why that is impossible.
fn victims_on(
    cycle: &Cycle<'_>,
    id: NodeId,
    node: &NodeInfo,
    tie_break: TieBreak,
) -> Result<Victims, Vec<Cow<'static, str>>> {
    let state = cycle.state;
    let less_important = |pod: &PodId| state.pod(*pod).filter(|entry| priority(state, entry) < cycle.info.priority);
    let mut potential: Vec<&PodEntry> = node.pods.iter().filter_map(less_important).collect();
    if potential.is_empty() {
        return Err(vec![Cow::Borrowed("No preemption victims found for incoming pod")]);
    }
    let mut run = DryRun { cycle, id, node: node.clone(), removed: Vec::new() };
    for pod in node.pods.iter().filter(|pod| less_important(pod).is_some()) {
        run.remove(*pod);
    }
    if let Some(refused) = run.verdict() {
        return Err(refused.texts);
    }
    potential.sort_by(|a, b| importance(state, tie_break, a, b));
    let violating = violates_budgets(state, &potential);
    let ordered = |wanted: bool| potential.iter().zip(&violating).filter(move |(_, violates)| **violates == wanted);
    let mut victims = Vec::new();
    let mut violations = 0;
    for (entry, violates) in ordered(true).chain(ordered(false)) {
        let Some(pod) = state.pod_id(&entry.key.namespace, &entry.key.name) else { continue };
        run.put_back(pod);
        if run.verdict().is_some() {
            run.remove(pod);
            victims.push((*entry, pod));
            violations += usize::from(*violates);
        }
    }
    victims.sort_by(|(a, _), (b, _)| importance(state, tie_break, a, b));
    Ok(Victims { node: id, pods: victims.into_iter().map(|(_, pod)| pod).collect(), violations })
}

/// For each pod, in this order, whether evicting it and those before it breaks a disruption budget.
fn violates_budgets(state: &State, pods: &[&PodEntry]) -> Vec<bool> {
    let mut budgets: Vec<_> =
        state.budgets.iter().map(|(namespace, budget)| (namespace, budget, budget.allowed)).collect();
    let violates = |entry: &&PodEntry| {
        let labels = &state.label_set(entry.labels).labels;
        let mut violated = false;
        for (namespace, budget, allowed) in &mut budgets {
            let counted = *namespace == entry.key.namespace.as_ref()
                && budget.protects(labels)
                && !budget.disrupted.iter().any(|name| **name == *entry.key.name);
            if counted {
                *allowed -= 1;
                violated |= *allowed < 0;
            }
        }
        violated
    };
    pods.iter().map(violates).collect()
}

/// The best candidate: fewest violations, least important victims, fewest victims, latest start.
fn choose(cycle: &Cycle<'_>, found: Vec<Victims>, tie_break: TieBreak) -> Preemption {
    let state = cycle.state;
    let merit = |victims: &Victims| {
        let entries: Vec<_> = victims.pods.iter().filter_map(|&pod| state.pod(pod)).collect();
        let highest = entries.first().map_or(i32::MIN, |entry| priority(state, entry));
        let sum: i64 = entries.iter().map(|entry| i64::from(priority(state, entry)) + (1 << 31)).sum();
        let important = entries.iter().filter(|entry| priority(state, entry) == highest);
        let earliest = important.map(|entry| entry.started.unwrap_or(i64::MAX)).min();
        (victims.violations, highest, sum, entries.len(), Reverse(earliest))
    };
    let least = found.iter().map(merit).min();
    let mut best: Vec<NodeId> =
        found.iter().filter(|victims| Some(merit(victims)) == least).map(|victims| victims.node).collect();
    let name = |id: NodeId| cycle.node_name(id);
    best.sort_by_cached_key(|&id| name(id));
    let nominated = pick(cycle, &best, tie_break);
    let keys = |pods: &[PodId]| pods.iter().filter_map(|&pod| state.pod(pod)).map(|entry| entry.key.clone()).collect();
    let victims = found.iter().find(|victims| victims.node == nominated).map_or_else(Vec::new, |v| keys(&v.pods));
    let less_important =
        |&&pod: &&PodId| state.pod(pod).is_some_and(|entry| priority(state, entry) < cycle.info.priority);
    let nominated_name = name(nominated);
    let others: Vec<_> = state.nominated_to(&nominated_name).iter().filter(less_important).copied().collect();
    let mut withdrawn_nominations: Vec<_> = keys(&others);
    withdrawn_nominations.sort_unstable();
    let mut candidates: Vec<_> = found
        .iter()
        .map(|victims| Candidate {
            node: name(victims.node),
            victims: keys(&victims.pods),
            pdb_violations: victims.violations,
        })
        .collect();
    candidates.sort_by(|a, b| a.node.cmp(&b.node));
    Preemption {
        candidates,
        best: best.into_iter().map(name).collect(),
        nominated: nominated_name,
        victims,
        withdrawn_nominations,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::{Value, json};

    use crate::{Cluster, Outcome, TieBreak};

    fn pod(name: &str, priority: i32, node: Option<&str>) -> Pod {
        let containers = json!([{ "name": "c", "image": "x", "resources": { "requests": { "cpu": "1" } } }]);
        let pod: Value = json!({
            "metadata": { "name": name },
            "spec": { "priority": priority, "nodeName": node, "containers": containers },
            "status": { "startTime": "2026-01-01T00:00:00Z" },
        });
        serde_json::from_value(pod).unwrap()
    }

    fn victim(tie_break: TieBreak) -> String {
        let mut cluster = Cluster::new(tie_break);
        let node = json!({ "metadata": { "name": "n" }, "status": { "allocatable": { "cpu": "3", "memory": "4Gi", "pods": "10" } } });
        let node: Node = serde_json::from_value(node).unwrap();
        cluster.set_node(&node).unwrap();
        for name in ["a", "b", "c"] {
            cluster.set_pod(&pod(name, 0, Some("n"))).unwrap();
        }
        match cluster.schedule(&pod("x", 10, None)).unwrap().outcome {
            Outcome::Preempting(preemption) => {
                preemption.victims.iter().map(|victim| victim.name.to_string()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn of_equally_important_pods_the_last_by_name_goes_or_one_by_lot() {
        assert!((0..20).all(|seed| victim(TieBreak::Seeded(seed)) == "c"));
        for name in ["a", "b", "c"] {
            assert!((0..20).any(|seed| victim(TieBreak::Shuffled(seed)) == name), "{name}");
        }
    }
}
