//! Why a pod is where it is, and why not elsewhere; what would let a Pending pod in.

mod amounts;
mod claim_change;
mod claims;
mod containers;
mod daemon;
mod device_edits;
mod devices;
mod edit;
mod eviction;
mod growth;
mod kubectl;
mod new_node;
mod node_condition;
mod of_lab;
mod pending;
mod pod_security;
mod proposals;
mod question;
mod reasons;
mod refused;
mod requests;
mod restore;
mod room;
mod sandbox;
mod slip;
mod storage_change;
mod suggest;
mod target;
mod troubles;
mod uneven;
mod unmade;
mod volume_remedies;
mod volumes;
mod wording;

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod page_tests;
#[cfg(test)]
pub(crate) mod properties;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

pub use amounts::amount;
pub use claims::AwaitedClaim;
pub(crate) use daemon::missing as daemon_set_lacks;
pub(crate) use edit::Edit;
pub(crate) use growth::Growth;
pub use growth::PoolGrowth;
pub(crate) use kubectl::{in_namespace, named};
pub(crate) use of_lab::workload_of;
pub use pending::Pending;
pub(crate) use question::{Destination, Settles};
pub(crate) use reasons::{About, group};
pub(crate) use suggest::steer;
pub use target::NothingToExplain;
pub(crate) use troubles::troubles;
pub(crate) use unmade::unmade;

use self::pending::pending;
use self::target::Target;
use super::cause::{Cause, Hindrance, NodeGroup, NodeReason, Suggestion};
use super::context::Context;
use super::model;
use super::node::is_cordoned;
use super::pod::PodState;
use super::snapshot::Snapshot;
use super::view::{Owner, PodView, View};
use crate::code::Code;
use klab_scheduler::{Cluster, Outcome, Reason, ScoreTable, TieBreak};

/// Reasons by which a pod itself leaves nodes out.
pub(crate) const SELECTED: [Code; 2] = [Code::NodeSelector, Code::NodeAffinity];

/// What there is to say about a pod or a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explained {
    /// What keeps the workload from having the pods it wants.
    pub hindrances: Vec<Hindrance>,
    /// Its pods, those in the same position together.
    pub pods: Vec<Explanation>,
}

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
    /// What is the matter with pods that have a node.
    pub hindrances: Vec<Hindrance>,
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
    /// Whether there is no node of that name: no kubelet starts the pod.
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
) -> Result<Explained, NothingToExplain> {
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
    pub fn explain(&mut self, target: &str, namespace: Option<&str>) -> Result<Explained, NothingToExplain> {
        let target = Target::of(target, namespace);
        let pods = target.pods(&self.view);
        if !pods.is_empty() {
            return Ok(Explained { pods: self.explain_all(&pods), ..Explained::default() });
        }
        let owners: Vec<Owner<'a>> = self.view.owners().filter(|owner| target.means(owner)).collect();
        let mut hindrances: Vec<Hindrance> = owners.iter().filter_map(|owner| self.hindrance(*owner)).collect();
        let chosen = target.pods_of_workload(&self.view);
        if chosen.is_empty() && hindrances.is_empty() {
            let Some(owner) = owners.first() else { return Err(target.nothing(&self.view)) };
            hindrances.push(unmade::silent(*owner));
        }
        if hindrances.is_empty() {
            let Self { view, cluster, .. } = self;
            hindrances.extend(owners.iter().filter_map(|owner| uneven::uneven(view, cluster, *owner)));
        }
        Ok(Explained { hindrances, pods: self.explain_all(&chosen) })
    }

    /// What keeps an owner from having the pods that it wants.
    pub(crate) fn hindrance(&self, owner: Owner<'a>) -> Option<Hindrance> {
        if let Some(found) = unmade(&self.view, owner) {
            return Some(found);
        }
        let Owner::DaemonSet(set) = owner else { return None };
        let wants_none = set.status.as_ref().is_none_or(|status| status.desired_number_scheduled == 0);
        let own: Vec<&str> =
            self.view.pods.iter().filter(|pod| pod.owner.is(&owner)).filter_map(|pod| pod.node).collect();
        let nodes: Vec<&str> = self.view.nodes.keys().copied().filter(|node| !own.contains(node)).collect();
        let around = (self.view.snapshot, *self.view.context);
        let mut found = daemon_set_lacks(set, &nodes, around, &|_, _, _| true)?;
        if !own.is_empty() {
            // Nodes that it does not ask for are none it lacks.
            let asked = |group: &&NodeGroup| group.reasons.iter().all(|reason| !SELECTED.contains(&reason.code));
            let lacks = found.cause.nodes.iter().filter(asked).flat_map(|group| &group.nodes);
            let lacks: Vec<&str> = lacks.map(String::as_str).collect();
            return daemon_set_lacks(set, &lacks, around, &|_, _, _| true);
        }
        if !wants_none {
            return None;
        }
        found.cause.what = match nodes.len() {
            1 => "wants no node: it makes no pod for the only one".to_owned(),
            many => format!("wants no node: it makes no pod for any of {many}"),
        };
        Some(found)
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

    /// What is the matter with alike pods that have a node.
    pub(crate) fn troubles(&self, chosen: &[usize]) -> Vec<Hindrance> {
        let pods: Vec<&PodView<'_>> = chosen.iter().filter_map(|at| self.view.pods.get(*at)).collect();
        troubles(&self.view, &pods, &|pod| has_room(&self.cluster, pod))
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
            hindrances: Vec::new(),
        };
    };
    let why = match (&first.state, first.node) {
        (PodState::Terminating | PodState::Succeeded | PodState::Failed { .. }, _) => Why::Over,
        (_, Some(node)) => Why::Placed(placed(view, cluster, first.pod, node)),
        (_, None) => {
            let mut pending = pending(view, cluster, growth, pods, &|_| true, &|_, _| true);
            let fewer = wording::fewer(view, first).filter(|_| pending.waits_for.is_none() && pending.fits.is_empty());
            pending.suggestions.extend(fewer.filter(|_| !pending.suggestions.is_empty()));
            Why::Pending(pending)
        }
    };
    // A node that never existed is reported where it is named.
    let is_nowhere = matches!(&why, Why::Placed(placed) if placed.no_such_node);
    let mut hindrances = if is_nowhere { Vec::new() } else { troubles(view, pods, &|pod| has_room(cluster, pod)) };
    if hindrances.is_empty() && !is_nowhere {
        hindrances.extend(containers::stuck(view, pods).or_else(|| left_on_cordoned(view, pods)));
    }
    Explanation {
        pods: pods.iter().map(|pod| pod.id()).collect(),
        state: first.state.clone(),
        age: age(view, first.pod),
        trouble: first.trouble_message(),
        why,
        hindrances,
    }
}

/// Pods on a node that was closed after they came: a cordon moves none of them.
fn left_on_cordoned(view: &View<'_>, pods: &[&PodView<'_>]) -> Option<Hindrance> {
    let first = pods.first().filter(|pod| pod.state.is_present() && !matches!(pod.owner, Owner::DaemonSet(_)))?;
    let node = first.node.filter(|name| view.nodes.get(name).is_some_and(|node| is_cordoned(node)))?;
    let what = format!("stays on {node}, which is cordoned: that keeps new pods away and moves none");
    // What nothing makes again, a drain deletes only by force.
    let force = if matches!(first.owner, Owner::None) { " --force" } else { "" };
    let drain = format!("kubectl drain {node} --ignore-daemonsets --delete-emptydir-data{force}");
    let drain = Suggestion::of("drain", format!("to empty {node}, drain it"), Some(drain));
    let subjects = pods.iter().map(|pod| pod.id()).collect();
    Some(Hindrance {
        cause: Cause { code: Code::Cordoned, subjects, what, nodes: Vec::new() },
        suggestions: vec![drain],
    })
}

/// Whether one more pod like one would find a node.
fn has_room(cluster: &Cluster, pod: &PodView<'_>) -> bool {
    let mut copy = suggest::unbound(pod.pod);
    copy.metadata.name = Some(format!("{}-copy", pod.name));
    cluster.clone().schedule(&copy).is_ok_and(|decision| matches!(decision.outcome, Outcome::Scheduled { .. }))
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
    let about = About { view, pod };
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
        result.refused_here =
            rejection.reasons.iter().map(|reason| reasons::describe(&[reason], Some(about))).collect();
    }
    let others: Vec<(&str, &[Reason])> =
        refused().filter(|(name, _)| *name != node).map(|(name, rejection)| (name, &*rejection.reasons)).collect();
    result.refusals = group(others, |name| view.pool_of(name)).iter().map(|refusal| refusal.describe(about)).collect();
    result.scores = attempt.scores;
    result
}
