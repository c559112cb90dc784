//! Claims and volumes: claims are bound to volumes that fit, or to hollow ones made for them; volumes have phases.

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncUnboundClaim, syncBoundClaim (v1.36)

mod binding;
mod ephemeral;
mod known;
mod local_path;
mod phases;
mod protection;
mod provisioning;

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES};
use klab_api_machinery::value::{items, map_mut, text};
use serde_json::{Value, json};

use self::binding::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, COMPONENT, claim_key, claim_reference, claims_of, storage, volume_key,
};
use self::ephemeral::has_ephemeral;
use self::known::Known;
use self::provisioning::reaches;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::PodInfo;
use crate::cluster::Part;

pub(super) use self::ephemeral::EphemeralVolumes;
pub(super) use self::protection::{ClaimProtection, ClassProtection, VolumeProtection};

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Binds PersistentVolumeClaims.
#[derive(Default)]
pub(super) struct Claims {
    known: Known,
}

impl Reconciler for Claims {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        match change.resource() {
            PERSISTENT_VOLUME_CLAIMS => {
                for volume in self.known.claim_changed(change) {
                    plane.queue.add(volume_key(&volume));
                }
                if !change.gone {
                    plane.queue.add(claim_key(change.name()));
                }
            }
            PERSISTENT_VOLUMES => {
                let became = self.known.volume_changed(change);
                plane.queue.add(volume_key(&change.object.name));
                for claim in became.claims {
                    plane.queue.add(claim_key(claim));
                }
            }
            STORAGE_CLASSES => {
                for claim in self.known.waiting() {
                    plane.queue.add(claim_key(claim.clone()));
                }
            }
            _ => {
                let bound = |pod: &Option<Arc<PodInfo>>| pod.as_ref().is_some_and(|pod| !pod.node.is_empty());
                let is_new = change.pod.before.is_none();
                let has_claims = self.known.has_waiting_in(&change.object.namespace);
                if has_claims && (is_new || (bound(&change.pod.after) && !bound(&change.pod.before))) {
                    for claim in claims_of(change.object) {
                        plane.queue.add(claim_key(claim));
                    }
                }
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        match key.object() {
            Some((PERSISTENT_VOLUMES, name)) => plane.sync_volume(&name.name),
            _ => self.sync_claim(plane, &key.name),
        }
    }

    fn forget(&mut self) {
        self.known = Known::default();
    }
}

impl Claims {
    fn sync_claim(&mut self, plane: &mut Plane, name: &ObjectName) {
        let Some(object) = plane.cluster.get(PERSISTENT_VOLUME_CLAIMS, &name.namespace, &name.name) else { return };
        let claim = object.value();
        if text(&claim, &["metadata", "annotations", BIND_COMPLETED]).is_empty() {
            if !object.deleting {
                self.sync_unbound_claim(plane, &object, &claim);
            }
        } else {
            plane.sync_bound_claim(&object, &claim);
        }
    }

    fn sync_unbound_claim(&mut self, plane: &mut Plane, object: &Object, claim: &Value) {
        let chosen = text(claim, &["spec", "volumeName"]);
        if !chosen.is_empty() {
            plane.bind_to_chosen(object, claim, chosen);
            return;
        }
        let class_name = text(claim, &["spec", "storageClassName"]);
        let class = plane.cluster.get(STORAGE_CLASSES, "", class_name).map(|class| class.value());
        let late = class.as_ref().is_some_and(|class| text(class, &["volumeBindingMode"]) == "WaitForFirstConsumer");
        let name = ObjectName::of(object);
        let consumers = if late { plane.consumers(&name) } else { Vec::new() };
        let node = consumers.iter().find_map(|pod| plane.view.node(&pod.node)).map(Arc::clone);
        let found = match &node {
            Some(node) => self.known.match_on(object, claim, |volume| reaches(volume, node)),
            None => self.known.best(object, claim, late),
        };
        if let Some(volume) = found.and_then(|volume| plane.cluster.get(PERSISTENT_VOLUMES, "", &volume)) {
            plane.bind_claim(object, claim, &volume);
        } else if plane.take_default_class(object, claim) {
            // The change of the claim brings it back here.
        } else if late && node.is_none() {
            let waiting: Vec<&str> = consumers.iter().map(|pod| &*pod.object.name).collect();
            let (reason, message) = match waiting.as_slice() {
                [] => {
                    let message = "waiting for first consumer to be created before binding";
                    ("WaitForFirstConsumer", message.to_owned())
                }
                [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
                pods => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
            };
            plane.note(object, COMPONENT, false, reason, &message);
        } else if class_name.is_empty() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            plane.note(object, COMPONENT, false, "FailedBinding", message);
        } else if let Some(class) = class {
            plane.provision(object, claim, &class, node.as_deref());
        } else {
            let message = format!("storageclass.storage.k8s.io \"{class_name}\" not found");
            plane.note(object, COMPONENT, true, "ProvisioningFailed", &message);
        }
    }
}

impl Plane {
    /// A claim that has been bound stays so, or is lost with its volume.
    fn sync_bound_claim(&mut self, object: &Object, claim: &Value) {
        let chosen = text(claim, &["spec", "volumeName"]);
        let (reason, message) = if chosen.is_empty() {
            ("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
        } else if let Some(volume) = self.cluster.get(PERSISTENT_VOLUMES, "", chosen) {
            let reference = &volume.value()["spec"]["claimRef"];
            if reference.is_null() || text(reference, &["uid"]) == &*object.uid {
                self.bind_claim(object, claim, &volume);
                return;
            }
            ("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        } else {
            ("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        };
        if text(claim, &["status", "phase"]) == "Lost" {
            return;
        }
        self.write_claim_status(object, json!({ "phase": "Lost" }));
        self.note(object, COMPONENT, true, reason, message);
    }

    /// The claim names the volume it wants.
    fn bind_to_chosen(&mut self, object: &Object, claim: &Value, chosen: &str) {
        let Some(volume) = self.cluster.get(PERSISTENT_VOLUMES, "", chosen) else { return };
        let value = volume.value();
        let reference = &value["spec"]["claimRef"];
        if is_for(reference, object) {
            self.bind_claim(object, claim, &volume);
        } else if !reference.is_null() {
            let message = format!("volume \"{chosen}\" already bound to a different claim.");
            self.note(object, COMPONENT, true, "FailedBinding", &message);
        } else if let Some(fault) = mismatch(&volume, &value, claim) {
            let message = format!("Cannot bind to requested volume \"{chosen}\": {fault}");
            self.note(object, COMPONENT, true, "VolumeMismatch", &message);
        } else {
            self.bind_claim(object, claim, &volume);
        }
    }

    /// A claim that was made before there was a default class gets it now; whether it did.
    fn take_default_class(&self, object: &Object, claim: &Value) -> bool {
        if !claim["spec"]["storageClassName"].is_null() {
            return false;
        }
        let (classes, _) = self.cluster.list(STORAGE_CLASSES, None);
        let is_default = |class: &&Arc<Object>| class.value()["metadata"]["annotations"][DEFAULT_CLASS] == "true";
        let Some(class) = classes.iter().rev().find(is_default) else { return false };
        let (namespace, name) = (&object.namespace, &object.name);
        let taken = self.cluster.modify(PERSISTENT_VOLUME_CLAIMS, Part::Main, namespace, name, &writes(), |claim| {
            claim["spec"]["storageClassName"] = json!(class.name);
        });
        taken.is_ok()
    }

    /// The pods that use a claim and have not ended.
    fn consumers(&self, name: &ObjectName) -> Vec<Arc<PodInfo>> {
        self.view
            .pods_in(&name.namespace)
            .filter(|pod| !pod.finished())
            // Reading the text first spares decoding the many pods that do not use the claim.
            .filter(|pod| {
                has_ephemeral(&pod.object)
                    || std::str::from_utf8(&pod.object.json).is_ok_and(|json| json.contains(name.name.as_ref()))
            })
            .filter(|pod| claims_of(&pod.object).contains(name))
            .map(Arc::clone)
            .collect()
    }

    /// Binds the two to each other, as far as they are not.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go bind (v1.36)
    fn bind_claim(&mut self, object: &Object, claim: &Value, volume: &Object) {
        let value = volume.value();
        let reference = &value["spec"]["claimRef"];
        let reserved = is_for(reference, object);
        if !reserved || text(reference, &["uid"]).is_empty() {
            let reference = claim_reference(object);
            let _reserved =
                self.cluster.modify(PERSISTENT_VOLUMES, Part::Main, "", &volume.name, &writes(), |volume| {
                    volume["spec"]["claimRef"] = reference;
                    if !reserved {
                        let annotations = map_mut(&mut volume["metadata"]["annotations"]);
                        annotations.insert(BOUND_BY_CONTROLLER.to_owned(), json!("yes"));
                    }
                });
        }
        self.write_phase(&volume.name, &value, "Bound", None);
        let chosen = text(claim, &["spec", "volumeName"]) == &*volume.name;
        if !chosen || text(claim, &["metadata", "annotations", BIND_COMPLETED]).is_empty() {
            let (namespace, name) = (&object.namespace, &object.name);
            let choose = |claim: &mut Value| {
                claim["spec"]["volumeName"] = json!(volume.name);
                let annotations = map_mut(&mut claim["metadata"]["annotations"]);
                annotations.insert(BIND_COMPLETED.to_owned(), json!("yes"));
                if !chosen {
                    annotations.insert(BOUND_BY_CONTROLLER.to_owned(), json!("yes"));
                }
            };
            let _chosen = self.cluster.modify(PERSISTENT_VOLUME_CLAIMS, Part::Main, namespace, name, &writes(), choose);
        }
        if text(claim, &["status", "phase"]) != "Bound" {
            let (modes, capacity) = (&value["spec"]["accessModes"], &value["spec"]["capacity"]);
            let mut status = json!({ "phase": "Bound", "accessModes": modes, "capacity": capacity });
            if let Some(class) = value["spec"]["volumeAttributesClassName"].as_str() {
                status["currentVolumeAttributesClassName"] = json!(class);
            }
            self.write_claim_status(object, status);
        }
    }

    fn write_claim_status(&self, object: &Object, status: Value) {
        let (namespace, name) = (&object.namespace, &object.name);
        let _written =
            self.cluster.modify(PERSISTENT_VOLUME_CLAIMS, Part::Status, namespace, name, &writes(), |claim| {
                claim["status"] = status;
            });
    }
}

/// Whether a volume is kept for a claim, or for one of that name.
fn is_for(reference: &Value, claim: &Object) -> bool {
    let uid = text(reference, &["uid"]);
    text(reference, &["name"]) == &*claim.name
        && text(reference, &["namespace"]) == &*claim.namespace
        && (uid.is_empty() || uid == &*claim.uid)
}

/// Why a volume cannot be the one of a claim that asks for it.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go checkVolumeSatisfyClaim (v1.36)
fn mismatch(volume: &Object, value: &Value, claim: &Value) -> Option<String> {
    let (has, wants) = (&value["spec"], &claim["spec"]);
    let same = |field: &str, otherwise: &str| {
        has[field].as_str().unwrap_or(otherwise) == wants[field].as_str().unwrap_or(otherwise)
    };
    let modes = items(&has["accessModes"]);
    let fault = if volume.deleting {
        return Some(format!("the volume is marked for deletion \"{}\"", volume.name));
    } else if storage(&has["capacity"]) < storage(&wants["resources"]["requests"]) {
        "requested PV is too small"
    } else if !same("storageClassName", "") {
        "storageClassName does not match"
    } else if !same("volumeAttributesClassName", "") {
        "volumeAttributesClassName does not match"
    } else if !same("volumeMode", "Filesystem") {
        "incompatible volumeMode"
    } else if !items(&wants["accessModes"]).iter().all(|mode| modes.contains(mode)) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(fault.to_owned())
}
