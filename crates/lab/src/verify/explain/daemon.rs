//! Pods that a DaemonSet does not make: its controller asks the same filters as the scheduler, and leaves nodes out.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube_core::ResourceExt;

use super::question::{Destination, Question};
use super::reasons::{About, Refusal, group};
use super::suggest::suggest;
use crate::code::Code;
use crate::verify::cause::{Cause, Hindrance, NodeGroup};
use crate::verify::context::Context;
use crate::verify::model;
use crate::verify::predict::daemon_pod;
use crate::verify::snapshot::Snapshot;
use crate::verify::view::{PodView, View};
use crate::words::plural;
use klab_scheduler::TieBreak;

/// Most nodes for which changes are looked for: others are left out for the same reasons.
const NODES: usize = 16;

/// Whether it is as it should be in a snapshot with these pods on these nodes, one for each.
pub(crate) type SettlesIn<'s> = &'s dyn Fn(&Snapshot, &[&PodView<'_>], &[String]) -> bool;

/// Why nodes have no pod of a DaemonSet: the pods it would make are put to the scheduler. `settles` judges pods of the snapshot that
/// has them.
pub(crate) fn missing(
    set: &DaemonSet,
    nodes: &[&str],
    (snapshot, context): (&Snapshot, Context<'_>),
    settles: SettlesIn<'_>,
) -> Option<Hindrance> {
    let made: Vec<Arc<Pod>> = nodes.iter().filter_map(|node| daemon_pod(set, node)).map(Arc::new).collect();
    if made.is_empty() {
        return None;
    }
    let mut with_them = snapshot.clone();
    let first = with_them.pods.len();
    with_them.pods.extend(made);
    let view = View::new(&with_them, &context);
    let mut cluster = model::cluster(&view, TieBreak::default());
    let mut groups: Vec<NodeGroup> = Vec::new();
    let mut remedies = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let Some(pod) = view.pods.iter().find(|pod| pod.index == first + number) else { continue };
        let Ok(verdicts) = cluster.evaluate_all(pod.pod) else { continue };
        let refused = verdicts.iter().filter(|(_, reasons)| !reasons.is_empty());
        let refusals: Vec<Refusal<'_>> =
            group(refused.map(|(node, reasons)| (&**node, reasons.as_slice())), |name| view.pool_of(name));
        let Some(refusal) = refusals.iter().find(|group| group.nodes.iter().any(|(name, _)| name == node)) else {
            continue;
        };
        let refusal = refusal.describe(About { view: &view, pod: pod.pod });
        match groups.iter_mut().find(|group| group.reasons == refusal.reasons && group.pool == refusal.pool) {
            Some(group) => group.nodes.push((*node).to_owned()),
            None => groups.push(NodeGroup { nodes: vec![(*node).to_owned()], ..refusal }),
        }
        let here = |place: Destination<'_>| matches!(place, Destination::Node(name) if name == *node);
        let settles = |pods: &[&PodView<'_>], nodes: &[String]| settles(&with_them, pods, nodes);
        let question = Question { view: &view, pods: &[pod], refusals: &refusals, wanted: &here, settles: &settles };
        if number < NODES {
            remedies.extend(suggest(&question, &mut cluster));
        }
    }
    remedies.sort_by_key(|remedy| (remedy.suggestion.changes, remedy.weight));
    let nodes: usize = groups.iter().map(|group| group.nodes.len()).sum();
    let cause = Cause {
        code: Code::NotMade,
        subjects: vec![format!("daemonset/{}", set.name_any())],
        what: format!("makes no pod for {}", plural(nodes, "node")),
        nodes: groups,
    };
    let suggestions = remedies.into_iter().map(|remedy| remedy.suggestion).collect();
    (nodes > 0).then_some(Hindrance { cause, suggestions })
}
