//! Pods that a DaemonSet does not make: its controller asks the same filters as the scheduler, and leaves nodes out.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube_core::ResourceExt;

use super::homes::{Homes, settles};
use crate::spec::{Check, Condition, Subject};
use crate::verify::cause::{Cause, NodeGroup, Suggestion};
use crate::verify::context::Context;
use crate::verify::explain::{Destination, Explainer};
use crate::verify::predict::daemon_pod;
use crate::verify::snapshot::Snapshot;
use crate::verify::view::View;
use crate::words::plural;

/// Why nodes on which a check wants a DaemonSet's pod have none: the pods it would make are put to the scheduler.
pub(super) fn missing(check: &Check, snapshot: &Snapshot, context: Context<'_>) -> Option<(Cause, Vec<Suggestion>)> {
    let view = View::new(snapshot, &context);
    let set = daemon_set(check, &view, snapshot)?;
    let homes = Homes::of(check, &view);
    let is_of_set = |pod: &Pod| {
        let mut owners = pod.owner_references().iter();
        pod.namespace() == set.namespace()
            && owners.any(|owner| owner.kind == "DaemonSet" && owner.name == set.name_any())
    };
    let has: BTreeSet<&str> = snapshot
        .pods
        .iter()
        .filter(|pod| is_of_set(pod))
        .filter_map(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()))
        .collect();
    let bare: Vec<&String> = homes.nodes.iter().filter(|node| !has.contains(node.as_str())).collect();
    let made: Vec<Arc<Pod>> = bare.iter().filter_map(|node| daemon_pod(set, node)).map(Arc::new).collect();
    if made.is_empty() {
        return None;
    }
    let mut with_them = snapshot.clone();
    let first = with_them.pods.len();
    with_them.pods.extend(made);
    let mut explainer = Explainer::new(&with_them, &context);
    let mut groups: Vec<NodeGroup> = Vec::new();
    let mut suggestions = Vec::new();
    for (number, node) in bare.iter().enumerate() {
        let Some(at) = explainer.view().pods.iter().position(|pod| pod.index == first + number) else { continue };
        let here = |place: Destination<'_>| matches!(place, Destination::Node(name) if name == node.as_str());
        let pending = explainer.pending(&[at], &here, &|pods, nodes| settles(check, context, &with_them, pods, nodes));
        let Some(refusal) = pending.refusals.into_iter().find(|group| group.nodes.iter().any(|name| name == *node))
        else {
            continue;
        };
        match groups.iter_mut().find(|group| group.reasons == refusal.reasons && group.pool == refusal.pool) {
            Some(group) => group.nodes.push((*node).clone()),
            None => groups.push(NodeGroup { nodes: vec![(*node).clone()], ..refusal }),
        }
        suggestions.extend(pending.suggestions);
    }
    let nodes: usize = groups.iter().map(|group| group.nodes.len()).sum();
    let cause = Cause {
        code: "not-made",
        subjects: vec![format!("daemonset/{}", set.name_any())],
        what: format!("makes no pod for {}", plural(nodes, "node")),
        nodes: groups,
    };
    (nodes > 0).then_some((cause, suggestions))
}

/// The DaemonSet a check is about, where it wants a pod on nodes.
fn daemon_set<'s>(check: &Check, view: &View<'_>, snapshot: &'s Snapshot) -> Option<&'s DaemonSet> {
    let wants_nodes = |condition: &Condition| {
        matches!(condition, Condition::OnePerNode(_) | Condition::Running(_) | Condition::Placement(_))
    };
    if !check.conditions.iter().any(|condition| wants_nodes(&condition.value)) {
        return None;
    }
    let Subject::Workload(name) = &check.subject.value else { return None };
    let namespace = view.context.workload(name).map(|workload| workload.namespace.clone());
    let is_it = |set: &&Arc<DaemonSet>| {
        set.name_any() == *name
            && namespace.as_ref().is_none_or(|namespace| set.namespace().as_ref() == Some(namespace))
    };
    snapshot.daemon_sets.iter().find(is_it).map(AsRef::as_ref)
}
