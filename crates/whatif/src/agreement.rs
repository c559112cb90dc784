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

/// Takes all pods that something makes again off the nodes, and places those that had one once more, the most important and the oldest
/// first. Another order may fill nodes otherwise: where a pod finds no place, its own node is asked while all others are where they
/// were. So are all nodes for pods that wait.
///
/// # Errors
/// [`TwinError`] where there is nothing to copy.
pub fn agreement(capture: &Capture) -> Result<Agreement, TwinError> {
    let snapshot = snapshot(capture)?;
    if snapshot.nodes.is_empty() {
        return Err(TwinError::NoNodes);
    }
    let pools: BTreeMap<&str, String> = capture.of("Node").map(|node| (&*node.name, pool_of(&node.value()))).collect();
    let new_copy = || verify::scheduler(&snapshot, &Context::default(), TieBreak::Seeded(0));
    let (mut as_it_is, mut emptied) = (new_copy(), new_copy());
    let is_remade = |pod: &&Pod| controller(&pod.metadata).is_some_and(|owner| !stays(&owner.kind));
    let mut moved: Vec<&Pod> = snapshot.pods.iter().map(AsRef::as_ref).filter(is_remade).collect();
    moved.sort_by_key(|pod| {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
        let made = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (std::cmp::Reverse(priority), made, pod.metadata.namespace.clone(), pod.metadata.name.clone())
    });
    let mut agreement = Agreement { pods: moved.len(), ..Agreement::default() };
    let mut possible: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut queue: Vec<(&Pod, &str, String)> = Vec::new();
    for pod in moved {
        let (namespace, name) = names(pod);
        emptied.remove_pod(namespace, name);
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
            queue.push((pod, node, class_of(&unplaced(pod))));
        } else if as_it_is.schedule(pod).is_ok_and(|decision| decision.outcome.node().is_some()) {
            agreement.placed.push(format!("{namespace}/{name}"));
        } else {
            agreement.same_pool += 1;
        }
    }
    for (pod, _, class) in &queue {
        if !possible.contains_key(class) {
            possible.insert(class.clone(), allowed_pools(&mut emptied, &unplaced(pod), &pools));
        }
    }
    for (pod, node, class) in queue {
        let (namespace, name) = names(pod);
        let (path, fresh, is_bound) = (format!("{namespace}/{name}"), unplaced(pod), possible[&class].len() == 1);
        agreement.bound_to_pool += usize::from(is_bound);
        let is = place(&mut emptied, &fresh).ok().and_then(|()| emptied.node_of(namespace, name));
        match (pools.get(node), is.and_then(|node| pools.get(&*node))) {
            (Some(was), Some(is)) if was != is && is_bound => {
                agreement.differing.push(format!("{path}: was in {was}, is in {is}"));
            }
            (was, Some(is)) => agreement.same_pool += usize::from(was == Some(is)),
            (_, None) => {
                as_it_is.remove_pod(namespace, name);
                let takes = as_it_is.evaluate_all(&fresh).unwrap_or_default();
                if !takes.iter().any(|(other, reasons)| &**other == node && reasons.is_empty()) {
                    agreement.waiting.push(path);
                }
                // It was taken before.
                let _back = as_it_is.set_pod(pod);
            }
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
