//! What the scheduler writes into resource claims: devices and reservations before a pod is bound.

// upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go bindClaim, PostFilter (v1.36)

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::resource_claim::FINALIZER;
use super::super::value::{items, list_mut, map_mut, time_text};
use crate::cluster::{Part, WriteOptions};
use crate::resource::RESOURCE_CLAIMS;
use crate::status::Status;
use klab_scheduler::typed::Typed;
use klab_scheduler::{ClaimAllocation, Decision};

/// The field manager of the scheduler.
pub(super) fn writes() -> WriteOptions<'static> {
    WriteOptions::by("kube-scheduler")
}

/// Gives the claims of a pod what was decided, and reserves them for it.
///
/// # Errors
/// Why one of them could not be written.
pub(super) fn reserve(plane: &mut Plane, pod: &Pod, decision: &Decision) -> Result<(), String> {
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
