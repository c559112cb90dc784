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
use klab_api_machinery::value::map_mut;
use klab_api_machinery::views::{
    ObjectReference, PersistentVolume, PersistentVolumeClaim as Claim, StorageClass as Class,
};
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
        let claim = Claim(&claim);
        if claim.metadata().annotations().get(BIND_COMPLETED).is_none() {
            if !object.deleting {
                self.sync_unbound_claim(plane, &object, claim);
            }
        } else {
            plane.sync_bound_claim(&object, claim);
        }
    }

    fn sync_unbound_claim(&mut self, plane: &mut Plane, object: &Object, claim: Claim<'_>) {
        let chosen = claim.spec().volume_name();
        if !chosen.is_empty() {
            plane.bind_to_chosen(object, claim, chosen);
            return;
        }
        let class_name = claim.spec().storage_class_name().unwrap_or_default();
        let class = plane.cluster.get(STORAGE_CLASSES, "", class_name).map(|class| class.value());
        let class = class.as_deref().map(Class);
        let late = class.is_some_and(|class| class.volume_binding_mode() == Some("WaitForFirstConsumer"));
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
            plane.provision(object, claim, class, node.as_deref());
        } else {
            let message = format!("storageclass.storage.k8s.io \"{class_name}\" not found");
            plane.note(object, COMPONENT, true, "ProvisioningFailed", &message);
        }
    }
}

impl Plane {
    /// A claim that has been bound stays so, or is lost with its volume.
    fn sync_bound_claim(&mut self, object: &Object, claim: Claim<'_>) {
        let chosen = claim.spec().volume_name();
        let (reason, message) = if chosen.is_empty() {
            ("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
        } else if let Some(volume) = self.cluster.get(PERSISTENT_VOLUMES, "", chosen) {
            let value = volume.value();
            let reference = PersistentVolume(&value).spec().claim_ref();
            if !reference.is_set() || reference.uid() == &*object.uid {
                self.bind_claim(object, claim, &volume);
                return;
            }
            ("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        } else {
            ("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        };
        if claim.status().phase() == "Lost" {
            return;
        }
        self.write_claim_status(object, json!({ "phase": "Lost" }));
        self.note(object, COMPONENT, true, reason, message);
    }

    /// The claim names the volume it wants.
    fn bind_to_chosen(&mut self, object: &Object, claim: Claim<'_>, chosen: &str) {
        let Some(volume) = self.cluster.get(PERSISTENT_VOLUMES, "", chosen) else { return };
        let value = volume.value();
        let reference = PersistentVolume(&value).spec().claim_ref();
        if is_for(reference, object) {
            self.bind_claim(object, claim, &volume);
        } else if reference.is_set() {
            let message = format!("volume \"{chosen}\" already bound to a different claim.");
            self.note(object, COMPONENT, true, "FailedBinding", &message);
        } else if let Some(fault) = mismatch(&volume, PersistentVolume(&value), claim) {
            let message = format!("Cannot bind to requested volume \"{chosen}\": {fault}");
            self.note(object, COMPONENT, true, "VolumeMismatch", &message);
        } else {
            self.bind_claim(object, claim, &volume);
        }
    }

    /// A claim that was made before there was a default class gets it now; whether it did.
    fn take_default_class(&self, object: &Object, claim: Claim<'_>) -> bool {
        if claim.spec().storage_class_name().is_some() {
            return false;
        }
        let (classes, _) = self.cluster.list(STORAGE_CLASSES, None);
        let is_default =
            |class: &&Arc<Object>| Class(&class.value()).metadata().annotations().get(DEFAULT_CLASS) == Some("true");
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
    fn bind_claim(&mut self, object: &Object, claim: Claim<'_>, volume: &Object) {
        let value = volume.value();
        let value = PersistentVolume(&value);
        let reference = value.spec().claim_ref();
        let reserved = is_for(reference, object);
        if !reserved || reference.uid().is_empty() {
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
        self.write_phase(&volume.name, value, "Bound", None);
        let chosen = claim.spec().volume_name() == &*volume.name;
        if !chosen || claim.metadata().annotations().get(BIND_COMPLETED).is_none() {
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
        if claim.status().phase() != "Bound" {
            let (modes, capacity) = (&value.spec().0["accessModes"], &value.spec().0["capacity"]);
            let mut status = json!({ "phase": "Bound", "accessModes": modes, "capacity": capacity });
            if let Some(class) = value.spec().volume_attributes_class_name() {
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
fn is_for(reference: ObjectReference<'_>, claim: &Object) -> bool {
    reference.name() == &*claim.name
        && reference.namespace() == &*claim.namespace
        && ["", &claim.uid].contains(&reference.uid())
}

/// Why a volume cannot be the one of a claim that asks for it.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go checkVolumeSatisfyClaim (v1.36)
fn mismatch(volume: &Object, value: PersistentVolume<'_>, claim: Claim<'_>) -> Option<String> {
    let (has, wants) = (value.spec(), claim.spec());
    let is_file_system = |mode: Option<&str>| mode.is_none_or(|mode| mode == "Filesystem");
    let attributes =
        [has.volume_attributes_class_name(), wants.volume_attributes_class_name()].map(Option::unwrap_or_default);
    let fault = if volume.deleting {
        return Some(format!("the volume is marked for deletion \"{}\"", volume.name));
    } else if storage(has.capacity()) < storage(wants.resources().requests()) {
        "requested PV is too small"
    } else if has.storage_class_name() != wants.storage_class_name().unwrap_or_default() {
        "storageClassName does not match"
    } else if attributes[0] != attributes[1] {
        "volumeAttributesClassName does not match"
    } else if is_file_system(has.volume_mode()) != is_file_system(wants.volume_mode()) {
        "incompatible volumeMode"
    } else if !wants.access_modes().all(|mode| has.access_modes().any(|have| have == mode)) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(fault.to_owned())
}
