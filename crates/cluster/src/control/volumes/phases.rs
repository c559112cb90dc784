//! The phases of volumes: Available, Bound, Released, Failed; and what becomes of a volume whose claim is gone.

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncVolume, reclaimVolume, unbindVolume (v1.36)

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use klab_api_machinery::value::{map_mut, time_text};
use klab_api_machinery::views::{PersistentVolume, PersistentVolumeClaim as Claim};
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::pods::writes;
use super::super::queue::ObjectName;
use super::binding::{BOUND_BY_CONTROLLER, COMPONENT, PROVISIONED_BY, claim_key};
use crate::cluster::{DeleteOptions, Part};

impl Plane {
    /// Brings the phase of a volume to what its claim says.
    pub(super) fn sync_volume(&mut self, name: &str) {
        let Some(object) = self.cluster.get(PERSISTENT_VOLUMES, "", name) else { return };
        let value = object.value();
        let value = PersistentVolume(&value);
        let reference = value.spec().claim_ref();
        let uid = reference.uid();
        if uid.is_empty() {
            self.write_phase(name, value, "Available", None);
            return;
        }
        let claim = self.cluster.get(PERSISTENT_VOLUME_CLAIMS, reference.namespace(), reference.name());
        let Some(claim) = claim.filter(|claim| &*claim.uid == uid) else {
            self.release_volume(&object, value);
            return;
        };
        let claim_value = claim.value();
        let wanted = Claim(&claim_value).spec();
        let chosen = wanted.volume_name();
        if chosen == name {
            self.write_phase(name, value, "Bound", None);
        } else if chosen.is_empty() {
            self.note_other_mode(&object, &claim, [value.spec().volume_mode(), wanted.volume_mode()]);
        } else if is_provisioned(value) && value.spec().persistent_volume_reclaim_policy() == "Delete" {
            self.release_volume(&object, value);
        } else {
            self.unbind_volume(name, value);
        }
    }

    /// The claim has no volume yet: it is to be bound to this one, unless they are used in different ways.
    fn note_other_mode(&mut self, volume: &Object, claim: &Object, modes: [Option<&str>; 2]) {
        let [of_volume, of_claim] = modes.map(|mode| mode.unwrap_or("Filesystem"));
        if of_volume == of_claim {
            self.queue.add(claim_key(ObjectName::of(claim)));
            return;
        }
        let message = format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"{}\" due to incompatible volumeMode.",
            claim.name
        );
        self.note(volume, COMPONENT, true, "VolumeMismatch", &message);
        let message = format!(
            "Cannot bind PersistentVolume \"{}\" to requested PersistentVolumeClaim due to incompatible volumeMode.",
            volume.name
        );
        self.note(claim, COMPONENT, true, "VolumeMismatch", &message);
    }

    /// The claim of a volume is gone: it is released, and deleted if its policy says so.
    fn release_volume(&mut self, object: &Object, value: PersistentVolume<'_>) {
        if !matches!(value.status().phase(), "Released" | "Failed") {
            self.write_phase(&object.name, value, "Released", None);
        }
        if value.spec().persistent_volume_reclaim_policy() != "Delete" || object.deleting {
            return;
        }
        let path = value.spec().host_path().path();
        let fault = if is_provisioned(value) || path.starts_with("/tmp/") {
            None
        } else if path.is_empty() {
            let what = "no deletable volume plugin matched";
            Some(format!("error getting deleter volume plugin for volume \"{}\": {what}", object.name))
        } else {
            Some(format!("host_path deleter only supports /tmp/.+ but received provided {path}"))
        };
        let Some(fault) = fault else {
            let options = DeleteOptions { uid: Some(object.uid.to_string()), ..DeleteOptions::default() };
            let _deleted = self.cluster.delete(PERSISTENT_VOLUMES, "", &object.name, &options);
            return;
        };
        if value.status().phase() != "Failed" {
            self.write_phase(&object.name, value, "Failed", Some(&fault));
            self.note(object, COMPONENT, true, "VolumeFailedDelete", &fault);
        }
    }

    /// The claim is bound to another volume: this one is free again, or waits for it if somebody kept it for the claim.
    fn unbind_volume(&mut self, name: &str, value: PersistentVolume<'_>) {
        let by_controller = value.metadata().annotations().get(BOUND_BY_CONTROLLER).is_some();
        let unbind = |volume: &mut Value| {
            if by_controller {
                map_mut(&mut volume["spec"]).remove("claimRef");
                map_mut(&mut volume["metadata"]["annotations"]).remove(BOUND_BY_CONTROLLER);
            } else {
                map_mut(&mut volume["spec"]["claimRef"]).remove("uid");
            }
        };
        let _unbound = self.cluster.modify(PERSISTENT_VOLUMES, Part::Main, "", name, &writes(), unbind);
        self.write_phase(name, value, "Available", None);
    }

    /// Writes the phase of a volume, if it is another one.
    pub(super) fn write_phase(&self, name: &str, value: PersistentVolume<'_>, phase: &str, message: Option<&str>) {
        if value.status().phase() == phase && message.is_none() {
            return;
        }
        let now = time_text(self.now());
        let _written = self.cluster.modify(PERSISTENT_VOLUMES, Part::Status, "", name, &writes(), |volume| {
            let status = map_mut(&mut volume["status"]);
            if status.get("phase").is_none_or(|have| have != phase) {
                status.insert("lastPhaseTransitionTime".to_owned(), json!(now));
            }
            status.insert("phase".to_owned(), json!(phase));
            match message {
                Some(message) => drop(status.insert("message".to_owned(), json!(message))),
                None => drop(status.remove("message")),
            }
        });
    }
}

fn is_provisioned(value: PersistentVolume<'_>) -> bool {
    value.metadata().annotations().get(PROVISIONED_BY).is_some()
}
