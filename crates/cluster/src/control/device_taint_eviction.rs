//! NoExecute taints of devices: pods whose claims do not tolerate them go at once, others when their toleration ends.

// upstream: pkg/controller/devicetainteviction/device_taint_eviction.go claimEvictionTime, podEvictionTime,
// maybeDeletePod (v1.36)

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{PODS, RESOURCE_CLAIMS, RESOURCE_SLICES};
use klab_api_machinery::value::{set_condition, time_text};
use klab_api_machinery::views::{
    Device, DeviceRequestAllocationResult, DeviceTaint, DeviceToleration, Pod, ResourceClaim, ResourceSlice, metadata,
};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::resource_claim::{claims, owner};
use super::view::PodInfo;
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part};

const COMPONENT: &str = "device-taint-eviction-controller";
const REASON: &str = "DeviceTaintManagerEviction";
const NO_EXECUTE: &str = "NoExecute";

/// The driver, the pool and the name of a device.
type DeviceId = (String, String, String);

/// Evicts pods whose devices are tainted.
#[derive(Default)]
pub(super) struct DeviceTaintEviction {
    /// The NoExecute taints of devices, by slice.
    tainted: HashMap<Box<str>, HashMap<DeviceId, Vec<Value>>>,
    /// Pods that are to go, by uid.
    pending: HashMap<ObjectName, Box<str>>,
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::DeviceTaintEviction, PODS, name)
}

impl Reconciler for DeviceTaintEviction {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        match change.resource() {
            RESOURCE_SLICES => self.slice_changed(plane, change),
            RESOURCE_CLAIMS if self.concerns_anybody() => {
                for version in change.versions() {
                    queue_users(plane, &version.namespace, ResourceClaim(&version.value()));
                }
            }
            PODS if change.gone => drop(self.pending.remove(&change.name())),
            PODS if self.concerns_anybody() && is_placed(change) => {
                plane.queue.add(key(change.name()));
            }
            _ => {}
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        self.sync_pod(plane, &key.name);
    }

    fn forget(&mut self) {
        self.tainted.clear();
    }
}

/// Whether a pod with claims has a node.
fn is_placed(change: &Change<'_>) -> bool {
    change.pod.after.as_ref().is_some_and(|pod| pod.has_claims && !pod.node.is_empty())
}

impl DeviceTaintEviction {
    fn concerns_anybody(&self) -> bool {
        !self.tainted.is_empty() || !self.pending.is_empty()
    }

    fn slice_changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let slice = &change.object.name;
        let now = if change.gone { HashMap::new() } else { tainted_devices(ResourceSlice(&change.object.value())) };
        let before =
            if now.is_empty() { self.tainted.remove(&**slice) } else { self.tainted.insert((**slice).into(), now) };
        let before = before.unwrap_or_default();
        let now = self.tainted.get(&**slice);
        if now.map_or(before.is_empty(), |now| *now == before) {
            return;
        }
        let is_concerned = |device: DeviceRequestAllocationResult<'_>| {
            let id = id_of(device);
            before.contains_key(&id) || now.is_some_and(|now| now.contains_key(&id))
        };
        let (all, _) = plane.cluster.list(RESOURCE_CLAIMS, None);
        for claim in all {
            let value = claim.value();
            let value = ResourceClaim(&value);
            if value.status().allocation().devices().results().any(is_concerned) {
                queue_users(plane, &claim.namespace, value);
            }
        }
    }

    fn sync_pod(&mut self, plane: &mut Plane, name: &ObjectName) {
        let Some(pod) = plane.view.pod(name).cloned() else { return };
        if pod.object.deleting {
            self.pending.remove(name);
            return;
        }
        let Some(due) = self.eviction_time(plane, &pod) else {
            if self.pending.remove(name).is_some() {
                plane.note_about(&reference(&pod), COMPONENT, false, REASON, "Cancelling deletion");
            }
            return;
        };
        if due <= plane.now() {
            self.pending.remove(name);
            evict(plane, &pod);
        } else {
            self.pending.insert(name.clone(), pod.object.uid.clone());
            plane.queue.add_at(key(name.clone()), due);
        }
    }

    /// When a pod is to go; never if all its devices are sound, or their taints tolerated.
    fn eviction_time(&self, plane: &Plane, pod: &PodInfo) -> Option<Timestamp> {
        if pod.node.is_empty() {
            return None;
        }
        let uid = &*pod.object.uid;
        let mut earliest = None;
        for (claim, made) in claims(Pod(&pod.object.value())).into_iter().flatten() {
            let Some(claim) = plane.cluster.get(RESOURCE_CLAIMS, &pod.object.namespace, &claim) else { continue };
            let value = claim.value();
            let value = ResourceClaim(&value);
            let is_reserved = value.status().reserved_for().any(|consumer| consumer.uid() == uid);
            if !is_reserved || (made && owner(value).is_none_or(|(_, owner)| *owner != *uid)) {
                continue;
            }
            for device in value.status().allocation().devices().results() {
                let due = self.due(device, plane.now());
                earliest = [earliest, due].into_iter().flatten().min();
            }
        }
        earliest
    }

    /// When a device is to be given up.
    fn due(&self, device: DeviceRequestAllocationResult<'_>, now: Timestamp) -> Option<Timestamp> {
        let id = id_of(device);
        let taints = self.tainted.values().filter_map(|devices| devices.get(&id)).flatten();
        let of_taint = |taint: &Value| {
            let taint = DeviceTaint(taint);
            let added = taint.time_added().unwrap_or(now);
            let mut shortest: Option<i64> = None;
            for toleration in device.tolerations().filter(|toleration| tolerates(*toleration, taint)) {
                // One without a time is for ever.
                let seconds = toleration.toleration_seconds()?.max(0);
                shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)));
            }
            Some(shortest.map_or(added, |seconds| later(added, SignedDuration::from_secs(seconds))))
        };
        taints.filter_map(of_taint).min()
    }
}

fn evict(plane: &mut Plane, pod: &PodInfo) {
    let (namespace, name) = (&pod.object.namespace, &pod.object.name);
    plane.note_about(&reference(pod), COMPONENT, false, REASON, "Marking for deletion");
    let now = time_text(plane.now());
    let _marked = plane.cluster.modify(PODS, Part::Status, namespace, name, &writes(), |value| {
        let condition = json!({
            "type": "DisruptionTarget", "observedGeneration": metadata(value).generation(), "status": "True",
            "lastProbeTime": null, "lastTransitionTime": now, "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
        });
        set_condition(&mut value["status"]["conditions"], condition);
    });
    let options = DeleteOptions { uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() };
    let _deleted = plane.cluster.delete(PODS, namespace, name, &options);
}

/// Looks at the pods for which a claim is kept.
fn queue_users(plane: &mut Plane, namespace: &str, claim: ResourceClaim<'_>) {
    for consumer in claim.status().reserved_for() {
        if consumer.resource() == "pods" && consumer.api_group().is_empty() {
            plane.queue.add(key(ObjectName::new(namespace, consumer.name())));
        }
    }
}

fn id_of(device: DeviceRequestAllocationResult<'_>) -> DeviceId {
    (device.driver().to_owned(), device.pool().to_owned(), device.device().to_owned())
}

/// The devices of a slice that have NoExecute taints, and these.
fn tainted_devices(slice: ResourceSlice<'_>) -> HashMap<DeviceId, Vec<Value>> {
    let spec = slice.spec();
    let tainted = |device: Device<'_>| {
        let taints = device.taints().filter(|taint| taint.effect() == NO_EXECUTE);
        let taints: Vec<Value> = taints.map(|taint| taint.0.clone()).collect();
        let id = (spec.driver().to_owned(), spec.pool().name().to_owned(), device.name().to_owned());
        (!taints.is_empty()).then_some((id, taints))
    };
    spec.devices().filter_map(tainted).collect()
}

/// Whether a toleration is one of this taint; it must name the effect.
fn tolerates(toleration: DeviceToleration<'_>, taint: DeviceTaint<'_>) -> bool {
    toleration.effect() == NO_EXECUTE
        && (toleration.key().is_empty() || taint.key() == toleration.key())
        && match toleration.operator() {
            "Exists" => true,
            "" | "Equal" => toleration.value() == taint.value(),
            _ => false,
        }
}

fn reference(pod: &PodInfo) -> Value {
    let object = &pod.object;
    json!({
        "kind": "Pod", "namespace": object.namespace, "name": object.name, "uid": object.uid, "apiVersion": "v1",
    })
}
