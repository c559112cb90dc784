//! Drains of nodes that are upgraded: evictions, again and again while a budget refuses them, until the node is empty or its
//! time is over.

// See https://learn.microsoft.com/troubleshoot/azure/azure-kubernetes/error-code-poddrainfailure (what AKS says in the end)
// See https://github.com/Azure/AKS/issues/4306 (the event of an eviction that is refused: 33 in 160 seconds)

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::POD_DISRUPTION_BUDGETS;
use klab_api_machinery::status::Status;
use klab_api_machinery::value::selects;
use klab_api_machinery::views::PodDisruptionBudget;
use klab_scheduler::selector::Selector;

use super::nodes::tell;
use crate::clock::later;
use crate::cluster::DeleteOptions;
use crate::control::plane::Plane;
use crate::control::view::PodInfo;

/// How often an eviction that was refused is tried again.
const RETRY: SignedDuration = SignedDuration::from_secs(5);

/// What the drain of a node is at.
pub(super) enum Drained {
    /// No pod is left that has to go.
    Empty,
    /// Pods are left.
    Goes {
        /// When evictions were tried last.
        tried: Timestamp,
        /// When to look again.
        next: Timestamp,
    },
    /// Its time is over, and pods are left.
    Blocked(String),
}

/// Evicts the pods of a node, unless that was tried just now.
pub(super) fn drain(plane: &mut Plane, node: &str, tried: Timestamp, until: Timestamp) -> Drained {
    let now = plane.now();
    let pods = plane.view.pods_to_drain(node);
    if pods.is_empty() {
        return Drained::Empty;
    }
    let is_over = until <= now;
    if !is_over && later(tried, RETRY) > now {
        return Drained::Goes { tried, next: later(tried, RETRY).min(until) };
    }
    let mut refused: Option<(Arc<Object>, Status)> = None;
    // Where a budget refuses a pod, it refuses those that are like it: 3,000 of them are not asked for one by one.
    let mut kept: Vec<&PodInfo> = Vec::new();
    for pod in pods.iter().filter(|pod| !pod.object.deleting) {
        let object = &pod.object;
        let is_like = |other: &&PodInfo| {
            let other_object = &other.object;
            other.ready == pod.ready
                && other_object.namespace == object.namespace
                && other_object.labels == object.labels
        };
        if !kept.iter().any(is_like) {
            let options = DeleteOptions { uid: Some(object.uid.to_string()), ..DeleteOptions::default() };
            match plane.cluster.evict(&object.namespace, &object.name, &options) {
                Err(status) if status.code != 404 => {
                    if status.code == 429 {
                        kept.push(pod);
                    }
                    refused.get_or_insert((Arc::clone(object), status));
                }
                _ => {}
            }
        }
        if kept.iter().any(is_like) {
            let words = format!("Eviction blocked by Too many Requests (usually a pdb): {}", object.name);
            tell(plane, node, true, "Drain", &words);
        }
    }
    if !is_over {
        return Drained::Goes { tried: now, next: later(now, RETRY).min(until) };
    }
    Drained::Blocked(match refused {
        Some((pod, status)) if status.code == 429 => format!(
            "Drain node {node} failed when evicting pod {} failed with Too Many Requests error. This is often caused by a \
             restrictive Pod Disruption Budget (PDB) policy. See https://aka.ms/aks/debugdrainfailures. Original error: {}. \
             PDB debug info: {}",
            pod.name,
            status.message,
            debug_info(plane, &pod)
        ),
        Some((pod, status)) => {
            format!("Drain node {node} failed when evicting pod {}. Original error: {}", pod.name, status.message)
        }
        None => {
            let left: Vec<String> =
                pods.iter().map(|pod| format!("{}/{}", pod.object.namespace, pod.object.name)).collect();
            format!("Drain of {node} did not complete: these pods have not ended: {}", left.join(", "))
        }
    })
}

/// The budget that protects a pod, and its pods that are not ready.
fn debug_info(plane: &Plane, pod: &Object) -> String {
    let (budgets, _) = plane.cluster.list(POD_DISRUPTION_BUDGETS, Some(&pod.namespace));
    let found = budgets.iter().find_map(|budget| {
        let selector = Selector::from_json(PodDisruptionBudget(&budget.value()).spec().selector().0);
        selects(&selector, pod).then_some((budget, selector))
    });
    let Some((budget, selector)) = found else { return String::new() };
    let of_budget = plane.view.pods_in(&pod.namespace).filter(|other| selects(&selector, &other.object));
    let unready: Vec<String> = of_budget
        .filter(|other| !other.ready)
        .map(|other| format!("{}/{}", other.object.namespace, other.object.name))
        .collect();
    let list = if unready.is_empty() { String::new() } else { format!(": [{}]", unready.join(" ")) };
    let count = unready.len();
    format!("{}/{} blocked by pdb {} with {count} unready pods{list}.", pod.namespace, pod.name, budget.name)
}
