//! The smallest changes after which the scheduler places pods: proposed from its reasons, proved by asking it again.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::edit::Edit;
use super::new_node::new_node;
use super::proposals::{Proposal, proposals};
use super::question::{Destination, Proof, Question, Settles};
use super::sandbox::Sandbox;
use super::wording;
use crate::verify::cause::Suggestion;
use crate::verify::view::{PodView, View};
use klab_scheduler::Cluster;

/// Most changes shown.
const SHOWN: usize = 3;
/// Most combinations put to the scheduler.
const TRIED: usize = 32;
/// Most nodes a pool is extended by, and most pods a workload loses, in one change.
const STEPS: usize = 50;

/// A change that does what it says, with its parts.
pub(crate) struct Remedy {
    pub(crate) suggestion: Suggestion,
    /// How great the changes are together.
    pub(crate) weight: u32,
    pub(crate) edits: Vec<Edit>,
    #[cfg(test)]
    pub(crate) steps: usize,
}

/// Changes after which all pods asked about are placed, the smallest first. The model is left as it was.
pub(crate) fn suggest(question: &Question<'_, '_>, cluster: &mut Cluster) -> Vec<Remedy> {
    try_all(question, proposals(question), cluster)
}

/// Changes that bring pods from where they are to where they are wanted: those that make them go there, and what
/// else it takes to be let in.
pub(crate) fn steer(
    view: &View<'_>,
    pods: &[&PodView<'_>],
    start: &[Edit],
    wanted: &dyn Fn(Destination<'_>) -> bool,
    settles: Settles<'_>,
    cluster: &mut Cluster,
) -> Vec<Remedy> {
    let Some(first) = pods.first() else { return Vec::new() };
    let mut steered = unbound(first.pod);
    if !start.iter().all(|edit| edit.apply_to_pod(&mut steered)) {
        return Vec::new();
    }
    let nodes = nodes(view);
    let mut sandbox = Sandbox::new(cluster, &nodes, view.snapshot);
    take_away(view, pods, &mut sandbox);
    let reasons = sandbox.reasons(&steered).unwrap_or_default();
    sandbox.restore();
    let refused = reasons.iter().filter(|(name, reasons)| !reasons.is_empty() && wanted(Destination::Node(name)));
    let refusals =
        super::group(refused.map(|(name, reasons)| (&**name, reasons.as_slice())), |name| view.pool_of(name));
    let question = Question { view, pods, refusals: &refusals, wanted, settles };
    let alone = Proposal { edits: start.to_vec(), sample: None };
    let with_remedies = proposals(&question)
        .into_iter()
        .map(|proposal| Proposal { edits: [start.to_vec(), proposal.edits].concat(), sample: proposal.sample });
    let proposals = [alone].into_iter().chain(with_remedies).collect();
    try_all(&question, proposals, cluster)
}

fn nodes<'a>(view: &View<'a>) -> HashMap<&'a str, &'a Arc<Node>> {
    view.snapshot.nodes.iter().filter_map(|node| Some((node.metadata.name.as_deref()?, node))).collect()
}

/// Puts combinations of changes to the scheduler, the smallest first, and keeps those that do it.
fn try_all(question: &Question<'_, '_>, mut proposals: Vec<Proposal>, cluster: &mut Cluster) -> Vec<Remedy> {
    let nodes = nodes(question.view);
    proposals.sort_by_key(|it| (it.edits.len(), it.edits.iter().map(Edit::weight).sum::<u32>()));
    proposals.dedup_by(|one, two| one.edits == two.edits);
    let mut shown: Vec<Remedy> = Vec::new();
    let mut sandbox = Sandbox::new(cluster, &nodes, question.view.snapshot);
    let mut tried = 0;
    for Proposal { edits, sample } in proposals {
        // Three ways out are enough, and a way that takes more changes is none beside one that takes fewer.
        if tried >= TRIED
            || shown.len() >= SHOWN
            || shown.first().is_some_and(|first| first.suggestion.changes < edits.len())
        {
            break;
        }
        let is_known = |other: &Remedy| {
            other.edits.len() == edits.len()
                && other.edits.iter().zip(&edits).all(|(one, two)| one.is_of_one_thing_with(two))
        };
        if shown.iter().any(is_known) {
            continue;
        }
        let promising = is_promising(&edits, sample.as_deref(), question, &mut sandbox);
        sandbox.restore();
        if !promising {
            continue;
        }
        tried += 1;
        let proof = prove(&edits, question, &mut sandbox);
        sandbox.restore();
        let Some(proof) = proof.filter(|proof| arrives(question, &edits, proof)) else { continue };
        let suggestion = wording::suggestion(&edits, &proof, question);
        if shown.iter().all(|other| other.suggestion.text != suggestion.text) {
            shown.push(Remedy {
                suggestion,
                weight: edits.iter().map(Edit::weight).sum(),
                edits,
                #[cfg(test)]
                steps: proof.steps,
            });
        }
    }
    shown
}

/// A pod as it was before it got its node.
pub(crate) fn unbound(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    if let Some(spec) = pod.spec.as_mut() {
        spec.node_name = None;
    }
    pod
}

/// Takes pods that have a node off it: they are to be placed again.
fn take_away(view: &View<'_>, pods: &[&PodView<'_>], sandbox: &mut Sandbox<'_>) {
    for pod in pods.iter().filter(|pod| pod.node.is_some()) {
        if let Some(object) = view.snapshot.pods.get(pod.index) {
            sandbox.remove_pod(object);
        }
    }
}

/// Whether a node of the group would take the first pod after the changes: one node asked, before all are.
fn is_promising(edits: &[Edit], sample: Option<&str>, question: &Question<'_, '_>, sandbox: &mut Sandbox<'_>) -> bool {
    let Some(first) = question.pods.first() else { return false };
    let mut changed = unbound(first.pod);
    for edit in edits.iter().filter(|edit| !edit.is_stepwise()) {
        if !edit.apply_to_pod(&mut changed) {
            return false;
        }
    }
    match (edits.iter().find(|edit| edit.is_stepwise()), sample) {
        (Some(Edit::AddNodes { template, pool, zones }), _) => {
            let node = new_node(template, pool, 0, zones);
            sandbox.add_node(&node, template);
            sandbox.takes(node.metadata.name.as_deref().unwrap_or_default(), &changed)
        }
        (None, Some(sample)) => {
            take_away(question.view, question.pods, sandbox);
            for edit in edits {
                edit.apply_to_node_named(sample, sandbox);
            }
            sandbox.takes(sample, &changed)
        }
        _ => true,
    }
}

/// Whether all pods come to where they are wanted, and it is as it should be then.
fn arrives(question: &Question<'_, '_>, edits: &[Edit], proof: &Proof) -> bool {
    let grown = edits.iter().find_map(|edit| match edit {
        Edit::AddNodes { pool, .. } => Some(pool.as_str()),
        _ => None,
    });
    let all_known = proof.nodes.iter().all(|node| question.view.nodes.contains_key(node.as_str()));
    let arrive = proof.nodes.iter().all(|node| {
        let known = question.view.nodes.contains_key(node.as_str());
        let new = grown.filter(|_| !known).map(Destination::NewNodeOf);
        (question.wanted)(new.unwrap_or(Destination::Node(node)))
    });
    // New nodes are not in the snapshot that would be judged.
    arrive && (!all_known || (question.settles)(question.pods, &proof.nodes))
}

/// Makes the changes in the sandbox and lets the scheduler place all pods.
fn prove(edits: &[Edit], question: &Question<'_, '_>, sandbox: &mut Sandbox<'_>) -> Option<Proof> {
    take_away(question.view, question.pods, sandbox);
    for edit in edits {
        edit.apply_to_cluster(sandbox);
    }
    let stepwise = edits.iter().find(|edit| edit.is_stepwise());
    let mut proof = Proof { nodes: Vec::new(), steps: 0 };
    for pod in question.pods {
        let mut changed = unbound(pod.pod);
        for edit in edits.iter().filter(|edit| !edit.is_stepwise()) {
            if !edit.apply_to_pod(&mut changed) {
                return None;
            }
        }
        let comes_first = edits.iter().any(|edit| matches!(edit, Edit::Prioritize { .. }));
        let mut place = if comes_first { sandbox.place_before_others(&changed) } else { sandbox.place(&changed) };
        while place.is_none() {
            let edit = stepwise?;
            // A new node that does not help will not help a second time; a pod less may.
            let hopeless = matches!(edit, Edit::AddNodes { .. }) && proof.steps > proof.nodes.len();
            if hopeless || proof.steps >= STEPS || !edit.step(sandbox, proof.steps) {
                return None;
            }
            proof.steps += 1;
            place = sandbox.place(&changed);
        }
        proof.nodes.extend(place);
    }
    // A stepwise change that took no step is none.
    (stepwise.is_none() || proof.steps > 0).then_some(proof)
}
