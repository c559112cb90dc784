//! Nodes on which a check wants a DaemonSet's pod, and that have none.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube_core::ResourceExt;

use super::target_nodes::{Homes, settles};
use crate::spec::{Check, Condition, Subject};
use crate::verify::cause::Hindrance;
use crate::verify::context::Context;
use crate::verify::explain::daemon_set_lacks;
use crate::verify::snapshot::Snapshot;
use crate::verify::view::{Owner, View};

/// Why nodes on which a check wants a DaemonSet's pod have none.
pub(super) fn missing(check: &Check, snapshot: &Snapshot, context: Context<'_>) -> Option<Hindrance> {
    let view = View::new(snapshot, &context);
    let set = daemon_set(check, &view, snapshot)?;
    let homes = Homes::of(check, &view);
    let owner = Owner::DaemonSet(set);
    let has: BTreeSet<&str> = view.pods.iter().filter(|pod| pod.owner.is(&owner)).filter_map(|pod| pod.node).collect();
    let bare: Vec<&str> = homes.nodes.iter().map(String::as_str).filter(|node| !has.contains(node)).collect();
    daemon_set_lacks(set, &bare, (snapshot, context), &|with_them, pods, nodes| {
        settles(check, context, with_them, pods, nodes)
    })
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
