//! How well a copy is like its cluster: emptied, and scheduled again.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use klab_lab::verify::{self, Context};
use klab_lab::words::{first_of, plural};
use klab_scheduler::owner::controller;
use klab_scheduler::{Cluster, TieBreak};
use serde_json::{Value, json};

use crate::capture::Capture;
use crate::model::{names, place, snapshot, unplaced};
use crate::pool::pool_of;
use crate::sanitise::stays;
use crate::twin::TwinError;

/// How many pods a text lists.
const MAX_LISTED: usize = 10;

/// What scheduling an emptied copy came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agreement {
    /// How many pods were scheduled again. Pods of DaemonSets, of nodes and without an owner stayed.
    pub pods: usize,
    /// How many of those are in the pool in which they were.
    pub same_pool: usize,
    /// How many may be in one pool alone.
    pub bound_to_pool: usize,
    /// Pods that may be in one pool alone, and are in another: `namespace/name: was in a, is in b`.
    pub differing: Vec<String>,
    /// Pods that wait in the cluster and have a node in the copy.
    pub placed: Vec<String>,
    /// Pods that have a node in the cluster and wait in the copy.
    pub waiting: Vec<String>,
}

/// Takes all pods that something makes again off the nodes, and places them, the most important and the oldest first.
///
/// # Errors
/// [`TwinError`] where there is nothing to copy.
pub fn agreement(capture: &Capture) -> Result<Agreement, TwinError> {
    let snapshot = snapshot(capture)?;
    if snapshot.nodes.is_empty() {
        return Err(TwinError::NoNodes);
    }
    let pools: BTreeMap<&str, String> =
        capture.of("Node").filter_map(|node| Some((node["metadata"]["name"].as_str()?, pool_of(node)))).collect();
    let mut scheduler = verify::scheduler(&snapshot, &Context::default(), TieBreak::Seeded(0));
    let is_remade = |pod: &&Pod| controller(&pod.metadata).is_some_and(|owner| !stays(&owner.kind));
    let mut moved: Vec<&Pod> = snapshot.pods.iter().map(AsRef::as_ref).filter(is_remade).collect();
    moved.sort_by_key(|pod| {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
        let made = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (std::cmp::Reverse(priority), made, pod.metadata.namespace.clone(), pod.metadata.name.clone())
    });
    for pod in &moved {
        let (namespace, name) = names(pod);
        scheduler.remove_pod(namespace, name);
    }
    let mut agreement = Agreement { pods: moved.len(), ..Agreement::default() };
    let mut possible: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for pod in moved {
        let (namespace, name) = names(pod);
        let path = format!("{namespace}/{name}");
        let fresh = unplaced(pod);
        let class = class_of(&fresh);
        let allowed = possible.entry(class).or_insert_with(|| allowed_pools(&mut scheduler, &fresh, &pools));
        let was = pod.spec.as_ref().and_then(|spec| pools.get(spec.node_name.as_deref()?));
        let is = place(&mut scheduler, &fresh).ok().and_then(|()| scheduler.node_of(namespace, name));
        let is = is.and_then(|node| pools.get(&*node));
        agreement.bound_to_pool += usize::from(allowed.len() == 1);
        match (was, is) {
            (Some(was), Some(is)) if was == is => agreement.same_pool += 1,
            (Some(was), Some(is)) if allowed.len() == 1 => {
                agreement.differing.push(format!("{path}: was in {was}, is in {is}"));
            }
            (Some(_), Some(_)) => {}
            (None, Some(_)) => agreement.placed.push(path),
            (Some(_), None) => agreement.waiting.push(path),
            (None, None) => agreement.same_pool += 1,
        }
    }
    Ok(agreement)
}

/// What pods have in common that may be on the same nodes.
fn class_of(pod: &Pod) -> String {
    let owner = controller(&pod.metadata).map(|owner| (&owner.kind, &owner.name));
    json!([pod.metadata.namespace, owner, pod.spec]).to_string()
}

/// The pools of the nodes that would take a pod now.
fn allowed_pools(scheduler: &mut Cluster, pod: &Pod, pools: &BTreeMap<&str, String>) -> BTreeSet<String> {
    let reasons = scheduler.evaluate_all(pod).unwrap_or_default();
    let free = reasons.into_iter().filter(|(_, reasons)| reasons.is_empty());
    free.filter_map(|(node, _)| pools.get(&*node).cloned()).collect()
}

impl Agreement {
    /// Whether the copy is like its cluster wherever constraints leave no choice.
    pub fn holds(&self) -> bool {
        self.differing.is_empty() && self.placed.is_empty() && self.waiting.is_empty()
    }

    /// For people.
    pub fn human(&self) -> String {
        let mut text = format!(
            "{} scheduled again on an empty copy: {} in the pool in which they were, {} of those that only one pool may take.\n",
            plural(self.pods, "pod"),
            self.same_pool,
            self.bound_to_pool - self.differing.len(),
        );
        for (pods, words) in [
            (&self.differing, "in another pool than the only possible one"),
            (&self.placed, "without a node in the cluster, with one in the copy"),
            (&self.waiting, "with a node in the cluster, without one in the copy"),
        ] {
            if !pods.is_empty() {
                text.push_str(&format!("{} {words}: {}\n", plural(pods.len(), "pod"), first_of(pods, MAX_LISTED)));
            }
        }
        if self.holds() {
            text.push_str("The same pods wait.\n");
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "schema": "klab.agreement/1", "holds": self.holds(), "pods": self.pods, "samePool": self.same_pool,
            "boundToPool": self.bound_to_pool, "differing": self.differing, "placed": self.placed, "waiting": self.waiting,
        })
    }
}
