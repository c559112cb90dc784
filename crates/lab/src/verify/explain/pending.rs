//! Why pods have no node, and what would give them one.

use k8s_openapi::api::core::v1::Pod;

use super::claims::{self, AwaitedClaim};
use super::edit::Edit;
use super::growth::{Growth, PoolGrowth};
use super::node_condition;
use super::question::{Destination, Question, Settles};
use super::reasons::{About, Refusal, group};
use super::suggest::suggest;
use crate::verify::cause::{NodeGroup, Suggestion};
use crate::verify::pod::PodState;
use crate::verify::view::{PodView, View};
use crate::words::listed;
use klab_scheduler::{Cluster, Reason};

/// Why a pod has no node.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Pending {
    /// The scheduler's own words, if it has spoken.
    pub message: Option<String>,
    /// Another scheduler that the pod waits for.
    pub scheduler: Option<String>,
    /// The node that preemption keeps for it.
    pub nominated: Option<String>,
    /// The pods of the previous template for whose end the rollout waits, while it keeps them until these run.
    pub waits_for: Option<String>,
    /// Its priority class, where that never preempts and less important pods have the room.
    pub never_preempts: Option<String>,
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

/// Why these pods, which are alike, have no node; `wanted` says of a node whether a check asks for it.
pub(super) fn pending(
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
    let scheduler = spec.and_then(|spec| spec.scheduler_name.clone());
    let scheduler = scheduler.filter(|_| cluster.profiles().of(first.pod).is_none());
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
    let about = About { view, pod: first.pod };
    result.refusals = refusals.iter().map(|refusal| refusal.describe(about)).collect();
    if result.scheduler.is_none() && result.gates.is_empty() && result.fits.is_empty() && !waits {
        result.autoscaler = growth.for_pod(cluster, first.pod);
    }
    if result.scheduler.is_none() && !waits {
        let question = Question { view, pods, refusals: &refusals, wanted, settles };
        let remedies = suggest(&question, cluster);
        let by_rollout =
            remedies.iter().any(|remedy| remedy.edits.iter().any(|edit| matches!(edit, Edit::OldFirst { .. })));
        result.waits_for = by_rollout.then(|| old_pods(view, first));
        result.suggestions = remedies.into_iter().map(|remedy| remedy.suggestion).collect();
        result.never_preempts = never_preempts(view, first, &refusals);
        let leading = left_to_wait(view, &result).or_else(|| node_condition::mended(view, &refusals));
        result.suggestions.splice(0..0, leading);
        if result.suggestions.is_empty() {
            result.suggestions.extend(lacking(&refusals));
        }
    }
    result
}

/// The priority class of a pod that never preempts, where less important pods have the room it needs.
fn never_preempts(view: &View<'_>, pod: &PodView<'_>, refusals: &[Refusal<'_>]) -> Option<String> {
    let spec = pod.pod.spec.as_ref().filter(|spec| spec.preemption_policy.as_deref() == Some("Never"))?;
    let is_room = |reason: &Reason| matches!(reason, Reason::Insufficient { .. } | Reason::TooManyPods { .. });
    let full = refusals.iter().filter(|refusal| refusal.first().iter().all(is_room));
    let mut nodes = full.flat_map(|refusal| refusal.nodes.iter().map(|(name, _)| *name));
    let priority = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
    let is_less =
        |node: &str| view.pods.iter().any(|other| other.node == Some(node) && priority(other.pod) < priority(pod.pod));
    nodes.any(is_less).then(|| spec.priority_class_name.clone()).flatten()
}

/// What is left to do while the pods that were preempted go.
fn left_to_wait(view: &View<'_>, pending: &Pending) -> Option<Suggestion> {
    let node = pending.nominated.as_deref()?;
    let goes = |pod: &&PodView<'_>| pod.node == Some(node) && pod.state == PodState::Terminating;
    let names: Vec<&str> = view.pods.iter().filter(goes).map(|pod| pod.name).collect();
    let text = format!("wait until {} {} gone", listed(&names), if names.len() == 1 { "is" } else { "are" });
    (!names.is_empty()).then(|| Suggestion::of("wait", text, None))
}

/// A node that would take pods where none like those that are there does: it has the resource that none has, or is in another domain.
fn lacking(refusals: &[Refusal<'_>]) -> Option<Suggestion> {
    let lack = |reason: &Reason| match reason {
        Reason::Insufficient { allocatable: 0, resource, .. } => Some(format!("that has {resource}")),
        Reason::PodAntiAffinity { topology_key, .. } => Some(format!("in another domain of {topology_key}")),
        _ => None,
    };
    let lacks = |refusal: &Refusal<'_>| refusal.first().iter().find_map(lack);
    let first = lacks(refusals.first()?)?;
    let same = refusals.iter().all(|refusal| lacks(refusal).as_ref() == Some(&first));
    same.then(|| Suggestion::of("add-node", format!("add a node {first}"), None))
}

/// The pods of the previous template that a rollout keeps until one of the present template runs.
fn old_pods(view: &View<'_>, pod: &PodView<'_>) -> String {
    let old = view.pods.iter().filter(|other| other.owner.is(&pod.owner) && other.is_old() && other.node.is_some());
    let names: Vec<&str> = old.map(|pod| pod.name).collect();
    let noun = if names.len() == 1 { "the old pod" } else { "one of the old pods" };
    format!(
        "waits for {noun} {} of its own {}, which the rollout keeps until this one runs",
        listed(&names),
        pod.owner.kind()
    )
}
