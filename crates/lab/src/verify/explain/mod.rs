//! Why a pod is where it is, and why not elsewhere; what would let a Pending pod in.

mod claim_change;
mod claims;
mod device_edits;
mod devices;
mod edit;
mod growth;
mod kubectl;
mod proposals;
mod question;
mod reasons;
mod room;
mod sandbox;
mod slip;
mod suggest;
mod wording;

#[cfg(test)]
mod device_tests;
#[cfg(test)]
pub(crate) mod properties;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

pub use claims::AwaitedClaim;
pub(crate) use edit::Edit;
pub(crate) use growth::Growth;
pub use growth::PoolGrowth;
pub(crate) use kubectl::in_namespace;
pub(crate) use question::{Destination, Question, Settles};
pub use reasons::amount;
pub(crate) use reasons::{Refusal, group};
pub(crate) use suggest::{steer, suggest};
pub(crate) use wording::workload_of;

use super::cause::{NodeGroup, NodeReason, Suggestion};
use super::context::Context;
use super::model;
use super::node::nearest;
use super::pod::PodState;
use super::snapshot::Snapshot;
use super::view::{PodView, View};
use klab_scheduler::{Cluster, DEFAULT_SCHEDULER, Outcome, Reason, ScoreTable, TieBreak};

/// Pods in the same position, and why they are in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The pods (`namespace/name`), sorted: of one owner, on one node or all without one.
    pub pods: Vec<String>,
    /// What the first is doing; the others do alike.
    pub state: PodState,
    /// How old the first is.
    pub age: Option<Duration>,
    /// What the kubelet says of what keeps the first from starting.
    pub trouble: Option<String>,
    /// Why it is there, or nowhere.
    pub why: Why,
}

/// Why a pod is where it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// It has a node.
    Placed(Placed),
    /// It has none.
    Pending(Pending),
    /// It is over, or going.
    Over,
}

/// Why a pod is on its node, as things are now: what happened since it was placed is part of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// The node.
    pub node: String,
    /// The node's pool.
    pub pool: Option<String>,
    /// Whether there is no node of that name: nobody starts the pod.
    pub no_such_node: bool,
    /// The rules by which the node would refuse the pod, if it were scheduled now.
    pub refused_here: Vec<NodeReason>,
    /// How many nodes would take it now.
    pub feasible: usize,
    /// The scores of those nodes by plugin, where there are several.
    pub scores: Option<ScoreTable>,
    /// The node it would go to now, if not this one.
    pub elsewhere: Option<String>,
    /// The other nodes, by the rule that keeps the pod from them.
    pub refusals: Vec<NodeGroup>,
}

/// Why a pod has no node.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Pending {
    /// The scheduler's own words, if it has spoken.
    pub message: Option<String>,
    /// Another scheduler that the pod waits for.
    pub scheduler: Option<String>,
    /// The node that preemption keeps for it.
    pub nominated: Option<String>,
    /// Scheduling gates that hold it back.
    pub gates: Vec<String>,
    /// Resource claims that it waits for before any node is looked at.
    pub claims: Vec<AwaitedClaim>,
    /// Nodes that would take it now, sorted: the scheduler will come back to it.
    pub fits: Vec<String>,
    /// All nodes that would not, by all the rules that keep the pod from them.
    pub refusals: Vec<NodeGroup>,
    /// What the cluster autoscaler does for the pods, pool by pool; empty where there is none, or there is room.
    pub autoscaler: Vec<PoolGrowth>,
    /// Changes that place all these pods, the smallest first.
    pub suggestions: Vec<Suggestion>,
}

impl Pending {
    /// Whether the scheduler waits for claims before it looks at nodes.
    pub fn waits_for_claims(&self) -> bool {
        self.claims.iter().any(AwaitedClaim::is_awaited)
    }
}

/// There is nothing of that name to explain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no pod or workload `{target}`{}", .namespace.as_ref().map(|it| format!(" in namespace {it}")).unwrap_or_default())]
pub struct NothingToExplain {
    /// The name asked for.
    pub target: String,
    /// The namespace asked for.
    pub namespace: Option<String>,
    /// The name of a pod or workload most like it.
    pub similar: Option<String>,
}

/// A snapshot and the scheduler's model of it, to be asked again and again.
pub struct Explainer<'a> {
    view: View<'a>,
    cluster: Cluster,
    growth: Growth,
}

/// Explains a pod by name, or the pods of a workload by the workload's name (`web`, `deployment/web`).
///
/// # Errors
/// [`NothingToExplain`] where the snapshot has neither.
pub fn explain(
    snapshot: &Snapshot,
    context: &Context<'_>,
    target: &str,
    namespace: Option<&str>,
) -> Result<Vec<Explanation>, NothingToExplain> {
    Explainer::new(snapshot, context).explain(target, namespace)
}

impl<'a> Explainer<'a> {
    /// Reads a snapshot.
    pub fn new(snapshot: &'a Snapshot, context: &'a Context<'a>) -> Self {
        let view = View::new(snapshot, context);
        let cluster = model::cluster(&view, TieBreak::default());
        let growth = Growth::of(&view);
        Self { view, cluster, growth }
    }

    pub(crate) fn view(&self) -> &View<'a> {
        &self.view
    }

    /// See [`explain`].
    ///
    /// # Errors
    /// [`NothingToExplain`] where the snapshot has neither pod nor workload of the name.
    pub fn explain(&mut self, target: &str, namespace: Option<&str>) -> Result<Vec<Explanation>, NothingToExplain> {
        let chosen = self.find(target, namespace);
        if chosen.is_empty() {
            let here = |pod: &&PodView<'_>| namespace.is_none_or(|namespace| namespace == pod.namespace);
            let names = self.view.pods.iter().filter(here).flat_map(|pod| [pod.name, pod.owner.name()]);
            let similar = nearest(target, names.filter(|name| !name.is_empty())).map(str::to_owned);
            return Err(NothingToExplain {
                target: target.to_owned(),
                namespace: namespace.map(str::to_owned),
                similar,
            });
        }
        Ok(self.explain_all(&chosen))
    }

    /// Positions in the view of the pods that a name means.
    fn find(&self, target: &str, namespace: Option<&str>) -> Vec<usize> {
        let here = |pod: &PodView<'_>| namespace.is_none_or(|namespace| namespace == pod.namespace);
        let (kind, name) = target.split_once('/').map_or((None, target), |(kind, name)| (Some(kind), name));
        let of_pod =
            |pod: &PodView<'_>| kind.is_none_or(|kind| matches!(kind, "pod" | "pods" | "po")) && pod.name == name;
        // `namespace/name`, as reports print pods.
        let by_id = |pod: &PodView<'_>| kind == Some(pod.namespace) && pod.name == name;
        let pods = self.view.pods.iter().enumerate();
        let exact: Vec<usize> =
            pods.filter(|(_, pod)| here(pod) && (of_pod(pod) || by_id(pod))).map(|(at, _)| at).collect();
        if !exact.is_empty() {
            return exact;
        }
        let of_workload = |pod: &PodView<'_>| {
            let kind_fits = kind.is_none_or(|kind| {
                let kind = kind.split('.').next().unwrap_or(kind).to_ascii_lowercase();
                let short = match pod.owner.kind() {
                    "Deployment" => "deploy",
                    "DaemonSet" => "ds",
                    "StatefulSet" => "sts",
                    "ReplicaSet" => "rs",
                    other => other,
                };
                kind.trim_end_matches('s') == pod.owner.kind().to_lowercase() || kind == short
            });
            kind_fits && pod.owner.name() == name
        };
        let labelled: std::collections::BTreeSet<usize> =
            self.view.pods_of_workload(name).filter(|_| kind.is_none()).map(|pod| pod.index).collect();
        self.view
            .pods
            .iter()
            .enumerate()
            .filter(|(_, pod)| here(pod) && (of_workload(pod) || labelled.contains(&pod.index)))
            .map(|(at, _)| at)
            .collect()
    }

    /// Explains pods by their positions in the view, those in the same position together.
    pub(crate) fn explain_all(&mut self, chosen: &[usize]) -> Vec<Explanation> {
        let Self { view, cluster, growth } = self;
        alike(view, chosen).into_iter().map(|pods| explain_alike(view, cluster, growth, &pods)).collect()
    }

    /// What keeps alike pods from nodes, and what would bring them all where they are wanted.
    pub(crate) fn pending(
        &mut self,
        chosen: &[usize],
        wanted: &dyn Fn(Destination<'_>) -> bool,
        settles: Settles<'_>,
    ) -> Pending {
        let Self { view, cluster, growth } = self;
        let pods: Vec<&PodView<'_>> = chosen.iter().filter_map(|at| view.pods.get(*at)).collect();
        pending(view, cluster, growth, &pods, wanted, settles)
    }

    /// What would bring pods of one owner from where they are to where they are wanted.
    pub(crate) fn steer(
        &mut self,
        chosen: &[usize],
        start: &[Edit],
        wanted: &dyn Fn(Destination<'_>) -> bool,
        settles: Settles<'_>,
    ) -> Vec<Suggestion> {
        let Self { view, cluster, .. } = self;
        let pods: Vec<&PodView<'_>> = chosen.iter().filter_map(|at| view.pods.get(*at)).collect();
        let same_owner = |pod: &&&PodView<'_>| {
            pods.first().is_some_and(|first| first.index == pod.index || first.owner.is(&pod.owner))
        };
        let pods: Vec<&PodView<'_>> = pods.iter().filter(same_owner).copied().collect();
        steer(view, &pods, start, wanted, settles, cluster).into_iter().map(|remedy| remedy.suggestion).collect()
    }

    /// Where further pods like one would go, if all of them find a place.
    pub(crate) fn place_copies(&mut self, pod: &Pod, copies: u32) -> Option<Vec<String>> {
        let mut cluster = self.cluster.clone();
        let mut nodes = Vec::new();
        for number in 0..copies {
            let mut copy = suggest::unbound(pod);
            copy.metadata.name = Some(format!("{}-copy-{number}", pod.metadata.name.as_deref().unwrap_or_default()));
            let decision = cluster.schedule(&copy).ok()?;
            let Outcome::Scheduled { node } = decision.outcome else { return None };
            cluster.bind(&copy, &node).ok()?;
            nodes.push(node.as_ref().to_owned());
        }
        Some(nodes)
    }
}

/// Pods of one owner and template, on one node or all without one.
pub(crate) fn alike<'v, 'a>(view: &'v View<'a>, chosen: &[usize]) -> Vec<Vec<&'v PodView<'a>>> {
    type Key<'k> = (Option<&'k str>, &'k str, &'k str, &'k str, bool, &'static str);
    let mut groups: BTreeMap<Key<'_>, Vec<&PodView<'_>>> = BTreeMap::new();
    for pod in chosen.iter().filter_map(|at| view.pods.get(*at)) {
        let owner = if pod.owner.meta().is_some() { (pod.owner.kind(), pod.owner.name()) } else { ("", pod.name) };
        let key = (pod.node, pod.namespace, owner.0, owner.1, pod.current, pod.state.word());
        groups.entry(key).or_default().push(pod);
    }
    groups.into_values().collect()
}

fn explain_alike(view: &View<'_>, cluster: &mut Cluster, growth: &Growth, pods: &[&PodView<'_>]) -> Explanation {
    let Some(first) = pods.first() else {
        return Explanation {
            pods: Vec::new(),
            state: PodState::Unscheduled,
            age: None,
            trouble: None,
            why: Why::Over,
        };
    };
    let why = match (&first.state, first.node) {
        (PodState::Terminating | PodState::Succeeded | PodState::Failed { .. }, _) => Why::Over,
        (_, Some(node)) => Why::Placed(placed(view, cluster, first.pod, node)),
        (_, None) => Why::Pending(pending(view, cluster, growth, pods, &|_| true, &|_, _| true)),
    };
    Explanation {
        pods: pods.iter().map(|pod| pod.id()).collect(),
        state: first.state.clone(),
        age: age(view, first.pod),
        trouble: first.trouble_message(),
        why,
    }
}

/// How old a pod is.
pub(crate) fn age(view: &View<'_>, pod: &Pod) -> Option<Duration> {
    let created = pod.metadata.creation_timestamp.as_ref()?.0;
    Duration::try_from(view.snapshot.taken_at?.duration_since(created)).ok()
}

fn placed(view: &View<'_>, cluster: &Cluster, pod: &Pod, node: &str) -> Placed {
    let mut result = Placed {
        node: node.to_owned(),
        pool: view.pool_of(node).map(str::to_owned),
        no_such_node: !view.nodes.contains_key(node),
        refused_here: Vec::new(),
        feasible: 0,
        scores: None,
        elsewhere: None,
        refusals: Vec::new(),
    };
    if result.no_such_node {
        return result;
    }
    let Ok(attempt) = cluster.reconsider(pod) else { return result };
    result.feasible = attempt.feasible().count();
    result.elsewhere = match &attempt.decision.outcome {
        // Among equally good nodes the choice is chance: this one is as good as the one that would be taken.
        Outcome::Scheduled { node: chosen } if attempt.top.iter().all(|top| **top != *node) => {
            Some(chosen.as_ref().to_owned())
        }
        _ => None,
    };
    let refused = || attempt.nodes.iter().filter_map(|verdict| Some((&*verdict.node, verdict.rejection.as_ref()?)));
    if let Some((_, rejection)) = refused().find(|(name, _)| *name == node) {
        result.refused_here = rejection.reasons.iter().map(|reason| reasons::describe(&[reason])).collect();
    }
    let others: Vec<(&str, &[Reason])> =
        refused().filter(|(name, _)| *name != node).map(|(name, rejection)| (name, &*rejection.reasons)).collect();
    result.refusals = group(others, |name| view.pool_of(name)).iter().map(Refusal::describe).collect();
    result.scores = attempt.scores;
    result
}

fn pending(
    view: &View<'_>,
    cluster: &mut Cluster,
    growth: &Growth,
    pods: &[&PodView<'_>],
    wanted: &dyn Fn(Destination<'_>) -> bool,
    settles: Settles<'_>,
) -> Pending {
    let Some(first) = pods.first() else { return Pending::default() };
    let spec = first.pod.spec.as_ref();
    let gates = spec.into_iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
    let scheduler = spec.and_then(|spec| spec.scheduler_name.clone()).filter(|name| name != DEFAULT_SCHEDULER);
    let mut result = Pending {
        message: match &first.state {
            PodState::Unschedulable { message, .. } | PodState::Gated { message } => Some(message.clone()),
            _ => None,
        },
        nominated: match &first.state {
            PodState::Unschedulable { nominated, .. } => nominated.clone(),
            _ => None,
        },
        gates: gates.map(|gate| gate.name.clone()).collect(),
        claims: claims::awaited(view, first),
        scheduler,
        ..Pending::default()
    };
    let waits = result.waits_for_claims();
    let Ok(verdicts) = cluster.evaluate_all(first.pod) else { return result };
    result.fits = verdicts
        .iter()
        .filter(|_| !waits)
        .filter(|(_, reasons)| reasons.is_empty())
        .map(|(node, _)| node.as_ref().to_owned())
        .collect();
    let refused = verdicts.iter().filter(|(_, reasons)| !reasons.is_empty());
    let refusals = group(refused.map(|(node, reasons)| (&**node, reasons.as_slice())), |name| view.pool_of(name));
    result.refusals = refusals.iter().map(Refusal::describe).collect();
    if result.scheduler.is_none() && result.gates.is_empty() && result.fits.is_empty() && !waits {
        result.autoscaler = growth.for_pod(cluster, first.pod);
    }
    if result.scheduler.is_none() && !waits {
        let question = Question { view, pods, refusals: &refusals, wanted, settles };
        result.suggestions = suggest(&question, cluster).into_iter().map(|remedy| remedy.suggestion).collect();
    }
    result
}
