//! What the scheduler writes into resource claims: devices and reservations before a pod is bound.

// upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go bindClaim, PostFilter (v1.36)

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use klab_api_machinery::resource::{PODS, RESOURCE_CLAIMS};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::{list_mut, map_mut, time_text};
use klab_api_machinery::views::{self, ResourceClaimConsumerReference as Consumer, ResourceClaimStatus};
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::resource_claim::FINALIZER;
use crate::cluster::{DeleteOptions, Part, WriteOptions};
use klab_scheduler::queue::Event;
use klab_scheduler::typed::Typed;
use klab_scheduler::{ClaimAllocation, Decision, ExtendedAllocation};

/// Marks claims that are made for extended resources.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";
/// What such a claim is called before it is made.
const UNNAMED: &str = "<extended-resources>";

/// The field manager of the scheduler.
pub(super) fn writes() -> WriteOptions<'static> {
    WriteOptions::by("kube-scheduler")
}

/// Gives the claims of a pod what was decided, and reserves them for it; adds what that may help to the events. One claim under two names is reserved twice, which
/// fails unless it was reserved before, as in kube-scheduler.
///
/// # Errors
/// Why one of them could not be written.
pub(super) fn reserve(
    plane: &mut Plane,
    pod: &Pod,
    decision: &mut Decision,
    events: &mut Vec<Event>,
) -> Result<(), String> {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let is_reserved = |given: &ClaimAllocation| {
        let claim = plane.cluster.get(RESOURCE_CLAIMS, &given.namespace, &given.name);
        claim.is_some_and(|claim| {
            views::ResourceClaim(&claim.value()).status().reserved_for().any(|consumer| consumer.uid() == uid)
        })
    };
    let mut wanted: Vec<ClaimAllocation> = Vec::with_capacity(decision.allocations.len());
    wanted.extend(decision.allocations.iter().filter(|given| !is_reserved(given)).cloned());
    if let Some(extended) = decision.extended.take() {
        let made = make(plane, pod, extended)?;
        wanted.push(made.clone());
        decision.allocations.push(made);
    }
    wanted.iter().try_for_each(|given| reserve_one(plane, pod, given).map(|event| events.extend(event)))
}

/// Lets go of the claims of a pod that is not bound after all. Returns what that may help.
pub(super) fn unreserve(plane: &mut Plane, pod: &Pod, decision: &Decision) -> Vec<Event> {
    let mut events = Vec::new();
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    for given in &decision.allocations {
        let (namespace, name) = (given.namespace.as_str(), given.name.as_str());
        if unmake(plane, namespace, name) {
            continue;
        }
        let written = plane.cluster.modify(RESOURCE_CLAIMS, Part::Status, namespace, name, &writes(), |claim| {
            list_mut(&mut claim["status"]["reservedFor"]).retain(|consumer| Consumer(consumer).uid() != uid);
        });
        if let Some(claim) = written.ok().and_then(|claim| Typed::from_json(&claim.json).ok()) {
            events.extend(plane.scheduler_cache.set_resource_claim(&claim));
        }
    }
    events
}

/// Makes the claim for the extended resources of a pod that are devices, and tells the pod of it.
///
/// upstream: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go
/// createExtendedResourceClaimInAPI, patchPodExtendedResourceClaimStatus (v1.36)
fn make(plane: &mut Plane, pod: &Pod, extended: ExtendedAllocation) -> Result<ClaimAllocation, String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let claim = json!({
        "metadata": {
            "generateName": format!("{name}-extended-resources-"), "annotations": { EXTENDED: "true" },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.metadata.uid, "controller": true,
            }],
        },
        "spec": extended.spec,
    });
    let made = plane
        .cluster
        .create(RESOURCE_CLAIMS, namespace, claim, &writes())
        .map_err(|status| format!("create claim for extended resources {namespace}/{UNNAMED}: {status}"))?;
    let mappings: Vec<Value> = extended
        .mappings
        .iter()
        .map(|it| {
            json!({ "containerName": it.container_name, "resourceName": it.resource_name, "requestName": it.request_name })
        })
        .collect();
    let status = json!({ "requestMappings": mappings, "resourceClaimName": made.name });
    plane
        .cluster
        .modify(PODS, Part::Status, namespace, name, &writes(), |pod| {
            pod["status"]["extendedResourceClaimStatus"] = status;
        })
        .map_err(|status| format!("update pod {namespace}/{name} ExtendedResourceClaimStatus: {status}"))?;
    Ok(ClaimAllocation {
        namespace: namespace.to_owned(),
        name: made.name.to_string(),
        allocation: Some(extended.allocation),
    })
}

/// Takes back the claim that was made for extended resources of a pod that is not bound after all.
fn unmake(plane: &mut Plane, namespace: &str, name: &str) -> bool {
    let claim = plane.cluster.get(RESOURCE_CLAIMS, namespace, name);
    let annotated = |claim: views::ResourceClaim<'_>| claim.metadata().annotations().get(EXTENDED) == Some("true");
    if !claim.is_some_and(|claim| annotated(views::ResourceClaim(&claim.value()))) {
        return false;
    }
    let _freed = plane.cluster.modify(RESOURCE_CLAIMS, Part::Main, namespace, name, &writes(), |claim| {
        list_mut(&mut claim["metadata"]["finalizers"]).retain(|finalizer| finalizer != FINALIZER);
    });
    let _deleted = plane.cluster.delete(RESOURCE_CLAIMS, namespace, name, &DeleteOptions::default());
    plane.scheduler_cache.remove_resource_claim(namespace, name);
    true
}

fn reserve_one(plane: &mut Plane, pod: &Pod, given: &ClaimAllocation) -> Result<Option<Event>, String> {
    let (namespace, name) = (given.namespace.as_str(), given.name.as_str());
    let allocation = given.allocation.as_ref().and_then(|allocation| serde_json::to_value(allocation).ok());
    let refused = |what: &str, status: Status| format!("{what} claim {namespace}/{name}: {status}");
    if allocation.is_some() {
        let claim = plane.cluster.get(RESOURCE_CLAIMS, namespace, name);
        if claim.is_some_and(|claim| views::ResourceClaim(&claim.value()).status().allocation().is_set()) {
            return Err(format!("claim {namespace}/{name} got allocated elsewhere in the meantime"));
        }
        plane
            .cluster
            .modify(RESOURCE_CLAIMS, Part::Main, namespace, name, &writes(), |claim| {
                let finalizers = list_mut(&mut claim["metadata"]["finalizers"]);
                if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
                    finalizers.push(json!(FINALIZER));
                }
            })
            .map_err(|status| refused("add finalizer to", status))?;
    }
    let what = if allocation.is_some() { "add allocation and reservation to" } else { "add reservation to" };
    let consumer = json!({ "resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid });
    let now = time_text(plane.now());
    let written = plane
        .cluster
        .modify(RESOURCE_CLAIMS, Part::Status, namespace, name, &writes(), |claim| {
            let status = &mut claim["status"];
            if let Some(allocation) = allocation {
                status["allocation"] = allocation;
            }
            let has = ResourceClaimStatus(status).allocation();
            if has.is_set() && has.allocation_timestamp().is_none() {
                status["allocation"]["allocationTimestamp"] = json!(now);
            }
            list_mut(&mut status["reservedFor"]).push(consumer);
        })
        .map_err(|status| refused(what, status))?;
    // The next pod must not be given the same device.
    let claim = ResourceClaim::from_json(&written.json).ok();
    Ok(claim.and_then(|claim| plane.scheduler_cache.set_resource_claim(&claim)))
}

/// Takes back the devices of a claim that no pod uses and that keep its pod from all nodes.
pub(super) fn deallocate(plane: &Plane, namespace: &str, name: &str) {
    let _written = plane.cluster.modify(RESOURCE_CLAIMS, Part::Status, namespace, name, &writes(), |claim| {
        let status: &mut Value = &mut claim["status"];
        for field in ["reservedFor", "allocation", "devices"] {
            map_mut(status).remove(field);
        }
    });
}
