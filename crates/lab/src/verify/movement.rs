//! What in a cluster is under way and may change what the scheduler decides: the reasons to go on waiting.

use k8s_openapi::api::core::v1::Node;

use super::explain::{Growth, PoolGrowth};
use super::model;
use super::node::is_coming;
use super::pod::{self, PodState};
use super::view::{Owner, PodView, View};
use crate::words::{counted, plural};
use klab_scheduler::TieBreak;
use klab_scheduler::autoscaler::TO_BE_DELETED;

/// How long after the autoscaler announced nodes they may still come.
const SCALE_UP_SECONDS: i64 = 600;

/// What is under way, in one line; none where the cluster is quiet.
///
/// Pods that are being deleted or that will end give room back, new nodes bring some, and pods that no scheduler has
/// looked at yet are about to take some. Containers that start or fail to start change nothing about places.
pub(crate) fn of(view: &View<'_>) -> Option<String> {
    joined([of_pods(view), of_nodes(view)].concat())
}

/// What is under way and may change nodes: what pods do changes none, unless an autoscaler looks at them.
pub(crate) fn for_nodes(view: &View<'_>) -> Option<String> {
    if Growth::of(view).is_none() { joined(of_nodes(view)) } else { of(view) }
}

fn joined(parts: Vec<String>) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn of_pods(view: &View<'_>) -> Vec<String> {
    let pods = |what: fn(&PodState) -> bool| {
        view.pods.iter().filter(|pod| what(&pod.state) && changes_something(pod, view)).count()
    };
    let terminating = pods(|state| *state == PodState::Terminating);
    // Pods of other schedulers may wait for ever; klab cannot see whether theirs runs.
    let is_known = |pod: &&PodView<'_>| pod.state == PodState::Unscheduled && view.profiles.of(pod.pod).is_some();
    let unscheduled = view.pods.iter().filter(is_known).count();
    let nominated = pods(|state| matches!(state, PodState::Unschedulable { nominated: Some(_), .. }));
    let ending = view.pods.iter().filter(|pod| pod.state.is_ready() && matches!(pod.owner, Owner::Job(_))).count();
    let is_lost = |pod: &&PodView<'_>| pod.state.is_present() && is_on_a_node_that_is_gone(pod, view);
    let lost = view.pods.iter().filter(|pod| is_lost(pod) && changes_something(pod, view)).count();
    let mut parts = Vec::new();
    if terminating > 0 {
        parts.push(counted(terminating, "pod", "is terminating", "are terminating"));
    }
    if unscheduled > 0 {
        parts.push(counted(unscheduled, "pod", "has not been scheduled yet", "have not been scheduled yet"));
    }
    if nominated > 0 {
        parts.push(counted(nominated, "pod", "waits for preempted pods to go", "wait for preempted pods to go"));
    }
    if lost > 0 {
        parts.push(counted(lost, "pod", "is on a node that is gone", "are on nodes that are gone"));
    }
    if ending > 0 {
        parts.push(counted(ending, "pod", "of a job is running", "of jobs are running"));
    }
    parts
}

fn of_nodes(view: &View<'_>) -> Vec<String> {
    let coming = view.nodes.values().filter(|node| is_coming(node)).count();
    let mut parts = Vec::new();
    if coming > 0 {
        parts.push(counted(coming, "node", "is not ready yet", "are not ready yet"));
    }
    if scale_up_announced(view) || scale_up_due(view) {
        parts.push("the autoscaler is adding nodes".to_owned());
    }
    let leaving = view.nodes.values().filter(|node| is_leaving(node)).count();
    if leaving > 0 {
        parts.push(format!("the autoscaler is removing {}", plural(leaving, "node")));
    }
    parts
}

/// Whether anything is otherwise once a pod is gone. On a node that is gone it gives no room back, and a DaemonSet makes no other;
/// for a pod that a Deployment lets go there is another one already.
fn changes_something(pod: &PodView<'_>, view: &View<'_>) -> bool {
    !is_on_a_node_that_is_gone(pod, view)
        || match pod.owner {
            Owner::DaemonSet(_) => false,
            Owner::Deployment(_) | Owner::ReplicaSet(_) => pod.state != PodState::Terminating,
            Owner::StatefulSet(_) | Owner::Job(_) | Owner::Other(_) | Owner::None => true,
        }
}

/// What is under way with the very pods that a check is about, though it changes nothing else.
pub(crate) fn of_own(pods: &[&PodView<'_>], view: &View<'_>) -> Option<String> {
    let lost = pods.iter().filter(|pod| is_on_a_node_that_is_gone(pod, view)).count();
    (lost > 0).then(|| counted(lost, "pod", "is on a node that is gone", "are on nodes that are gone"))
}

/// The garbage collector removes such pods after a while, and their owners make others.
pub(crate) fn is_on_a_node_that_is_gone(pod: &PodView<'_>, view: &View<'_>) -> bool {
    pod.node.is_some_and(|node| !view.nodes.contains_key(node)) && !is_pinned_to_no_node(pod, view)
}

/// Whether its own `nodeName` names a node that never was: no scheduler gave it the node, and no kubelet has seen it. What makes such
/// a pod makes the next one for the same node.
pub(crate) fn is_pinned_to_no_node(pod: &PodView<'_>, view: &View<'_>) -> bool {
    !pod::is_scheduled(pod.pod) && pod.node.is_some_and(|node| !view.nodes.contains_key(node))
}

/// Whether the cluster autoscaler will add nodes for a pod that waits, once it looks: it does so every few seconds.
fn scale_up_due(view: &View<'_>) -> bool {
    let waits = |pod: &&PodView<'_>| {
        matches!(pod.state, PodState::Unschedulable { nominated: None, .. }) && view.profiles.of(pod.pod).is_some()
    };
    if !view.pods.iter().any(|pod| waits(&pod)) {
        return false;
    }
    let growth = Growth::of(view);
    if growth.is_none() {
        return false;
    }
    let cluster = model::cluster(view, TieBreak::default());
    let mut asked: Vec<&PodView<'_>> = Vec::new();
    for pod in view.pods.iter().filter(waits) {
        // Pods of one owner and template are alike.
        if asked.iter().any(|other| other.owner.meta().is_some() && other.owner.is(&pod.owner)) {
            continue;
        }
        asked.push(pod);
        if growth.for_pod(&cluster, pod.pod).iter().any(PoolGrowth::grows) {
            return true;
        }
    }
    false
}

/// Whether the cluster autoscaler has begun to remove a node.
fn is_leaving(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().any(|taint| taint.key == TO_BE_DELETED)
}

/// Whether the cluster autoscaler announced nodes for a pod that still waits.
fn scale_up_announced(view: &View<'_>) -> bool {
    let Some(now) = view.snapshot.taken_at else { return false };
    let waits = |name: Option<&String>, namespace: Option<&String>| {
        view.pods.iter().any(|pod| {
            matches!(pod.state, PodState::Unschedulable { .. })
                && name.is_some_and(|name| name == pod.name)
                && namespace.is_some_and(|namespace| namespace == pod.namespace)
        })
    };
    view.snapshot.events.iter().any(|event| {
        let last = event.last_timestamp.as_ref().map(|time| time.0).or(event.event_time.as_ref().map(|time| time.0));
        event.reason.as_deref() == Some("TriggeredScaleUp")
            && last.is_some_and(|last| now.duration_since(last).as_secs() < SCALE_UP_SECONDS)
            && waits(event.involved_object.name.as_ref(), event.involved_object.namespace.as_ref())
    })
}
