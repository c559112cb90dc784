//! What the scheduler writes into resource claims: devices and reservations before a pod is bound.

// upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go bindClaim, PostFilter (v1.36)

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::resource_claim::FINALIZER;
use super::super::value::{items, list_mut, map_mut, time_text};
use crate::cluster::{DeleteOptions, Part, WriteOptions};
use crate::resource::{PODS, RESOURCE_CLAIMS};
use crate::status::Status;
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

/// Gives the claims of a pod what was decided, and reserves them for it.
///
/// # Errors
/// Why one of them could not be written.
pub(super) fn reserve(plane: &mut Plane, pod: &Pod, decision: &mut Decision) -> Result<(), String> {
    if let Some(extended) = decision.extended.take() {
        decision.allocations.push(make(plane, pod, extended)?);
    }
    for given in &decision.allocations {
        reserve_one(plane, pod, given).map_err(|status| {
            let key = format!("{}/{}", given.namespace, given.name);
            match given.allocation {
                Some(_) => format!("add allocation and reservation to claim {key}: {status}"),
                None => format!("add reservation to claim {key}: {status}"),
            }
        })?;
    }
    Ok(())
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
pub(super) fn unmake(plane: &mut Plane, namespace: &str, name: &str) -> bool {
    let claim = plane.cluster.get(RESOURCE_CLAIMS, namespace, name);
    if claim.is_none_or(|claim| claim.value()["metadata"]["annotations"][EXTENDED] != "true") {
        return false;
    }
    let _freed = plane.cluster.modify(RESOURCE_CLAIMS, Part::Main, namespace, name, &writes(), |claim| {
        list_mut(&mut claim["metadata"]["finalizers"]).retain(|finalizer| finalizer != FINALIZER);
    });
    let _deleted = plane.cluster.delete(RESOURCE_CLAIMS, namespace, name, &DeleteOptions::default());
    plane.picture.remove_resource_claim(namespace, name);
    true
}

fn reserve_one(plane: &mut Plane, pod: &Pod, given: &ClaimAllocation) -> Result<(), Status> {
    let (namespace, name) = (given.namespace.as_str(), given.name.as_str());
    let allocation = given.allocation.as_ref().and_then(|allocation| serde_json::to_value(allocation).ok());
    if allocation.is_some() {
        plane.cluster.modify(RESOURCE_CLAIMS, Part::Main, namespace, name, &writes(), |claim| {
            let finalizers = list_mut(&mut claim["metadata"]["finalizers"]);
            if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
                finalizers.push(json!(FINALIZER));
            }
        })?;
    }
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let consumer = json!({ "resource": "pods", "name": pod.metadata.name, "uid": uid });
    let now = time_text(plane.now());
    let written = plane.cluster.modify(RESOURCE_CLAIMS, Part::Status, namespace, name, &writes(), |claim| {
        let status = &mut claim["status"];
        if let Some(allocation) = allocation {
            status["allocation"] = allocation;
        }
        if status["allocation"].is_object() && status["allocation"]["allocationTimestamp"].is_null() {
            status["allocation"]["allocationTimestamp"] = json!(now);
        }
        if !items(&status["reservedFor"]).iter().any(|other| other["uid"] == *uid) {
            list_mut(&mut status["reservedFor"]).push(consumer);
        }
    })?;
    // The next pod must not be given the same device.
    if let Ok(claim) = ResourceClaim::from_json(&written.json) {
        plane.picture.set_resource_claim(&claim);
    }
    Ok(())
}

/// Takes back the devices of a claim that nobody uses and that keep its pod from all nodes.
pub(super) fn deallocate(plane: &Plane, namespace: &str, name: &str) {
    let _written = plane.cluster.modify(RESOURCE_CLAIMS, Part::Status, namespace, name, &writes(), |claim| {
        let status: &mut Value = &mut claim["status"];
        for field in ["reservedFor", "allocation", "devices"] {
            map_mut(status).remove(field);
        }
    });
}
