//! Pods that have a node and wait until their devices are ready to be bound: until the conditions that drivers named are
//! met, one fails, or the time for it is over.

// upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go PreBind, isClaimReadyForBinding,
// isClaimTimeout, Unreserve (v1.36)

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use klab_api_machinery::resource::RESOURCE_CLAIMS;
use klab_api_machinery::views::ResourceClaim;
use klab_scheduler::queue::Event;
use klab_scheduler::{ClaimAllocation, Decision};
use serde_json::Value;

use super::super::plane::Plane;
use super::super::view::PodInfo;
use super::resource_claims::unreserve;
use crate::clock::later;

/// How long devices may take to get ready.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// A pod that waits for its devices.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) info: Arc<PodInfo>,
    pub(super) pod: Pod,
    pub(super) node: String,
    pub(super) decision: Decision,
    /// When the wait is over.
    deadline: Timestamp,
}

/// What the devices of a pod are at.
pub(super) enum Readiness {
    Ready,
    Pending,
    /// They will not get ready; in the scheduler's words.
    Failed(String),
}

impl Binding {
    /// A pod that must wait; none where its devices are ready as they are.
    pub(super) fn of(plane: &Plane, info: &Arc<PodInfo>, pod: &Pod, node: &str, decision: &Decision) -> Option<Self> {
        let has_conditions = |given: &ClaimAllocation| {
            if let Some(allocation) = &given.allocation {
                let results = allocation.devices.as_ref().and_then(|devices| devices.results.as_ref());
                let mut conditions =
                    results.into_iter().flatten().filter_map(|result| result.binding_conditions.as_ref());
                return conditions.any(|conditions| !conditions.is_empty());
            }
            // It has its devices already.
            let claim = plane.cluster.get(RESOURCE_CLAIMS, &given.namespace, &given.name);
            claim.is_some_and(|claim| {
                let value = claim.value();
                let mut results = ResourceClaim(&value).status().allocation().devices().results();
                results.any(|result| !result.binding_conditions().is_empty())
            })
        };
        decision.allocations.iter().any(has_conditions).then(|| Self {
            info: Arc::clone(info),
            pod: pod.clone(),
            node: node.to_owned(),
            decision: decision.clone(),
            deadline: later(plane.now(), TIMEOUT),
        })
    }

    /// When it must be looked at though nothing changes.
    pub(super) fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// Looks at what drivers said of the devices.
    pub(super) fn look(&self, plane: &Plane) -> Readiness {
        let is_late = plane.now() >= self.deadline;
        for claim in claims(plane, &self.decision) {
            let claim = ResourceClaim(&claim);
            let name = claim.metadata().name();
            if !claim.status().allocation().is_set() {
                return Readiness::Failed(format!("claim {name} got deallocated elsewhere in the meantime"));
            }
            match of_claim(claim) {
                Readiness::Ready => {}
                Readiness::Pending if is_late => {
                    return Readiness::Failed(format!("device binding timeout: claim={name}"));
                }
                other => return other,
            }
        }
        Readiness::Ready
    }

    /// Lets go of the claims. Those whose devices did not get ready in time are given up.
    pub(super) fn unreserve(&self, plane: &mut Plane) -> Vec<Event> {
        let events = unreserve(plane, &self.pod, &self.decision);
        if plane.now() >= self.deadline {
            for given in &self.decision.allocations {
                plane.scheduler_cache.give_up_resource_claim(&given.namespace, &given.name);
            }
        }
        events
    }
}

/// The claims that a decision is about.
fn claims(plane: &Plane, decision: &Decision) -> Vec<Arc<Value>> {
    let get = |namespace: &str, name: &str| plane.cluster.get(RESOURCE_CLAIMS, namespace, name);
    let claims = decision.allocations.iter().filter_map(|given| get(&given.namespace, &given.name));
    claims.map(|claim| claim.value()).collect()
}

fn of_claim(claim: ResourceClaim<'_>) -> Readiness {
    for result in claim.status().allocation().devices().results() {
        let mut wanted = result.binding_conditions();
        if wanted.is_empty() {
            continue;
        }
        let id = (result.driver(), result.pool(), result.device());
        let mut devices = claim.status().devices();
        let Some(device) = devices.find(|device| (device.driver(), device.pool(), device.device()) == id) else {
            return Readiness::Pending;
        };
        let met = |kind: &str| device.conditions().find(|it| it.type_() == kind && it.status() == "True");
        if let Some(failed) = result.binding_failure_conditions().find_map(met) {
            let (name, reason, message) = (claim.metadata().name(), failed.reason(), failed.message());
            return Readiness::Failed(format!(
                "device binding failed: claim={name}, reason={reason}, message={message:?}"
            ));
        }
        if wanted.any(|kind| met(kind).is_none()) {
            return Readiness::Pending;
        }
    }
    Readiness::Ready
}

/// The words about a pod that begins to wait.
pub(super) fn pending(node: &str) -> String {
    format!("waiting for binding conditions for device on node {node}")
}

/// What the scheduler says of a failure before a pod is bound.
pub(super) fn failed(message: &str) -> String {
    format!("running PreBind plugin \"DynamicResources\": {message}")
}
