//! Claims in use by pods, volumes in use by claims, and classes of attributes in use by either stay until they are not.

// upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go processPVC, podUsesPVC (v1.36)
// upstream: pkg/controller/volume/pvprotection/pv_protection_controller.go processPV (v1.36)

// upstream: pkg/controller/volume/vacprotection/vac_protection_controller.go processVAC (v1.36)

use klab_api_machinery::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, VOLUME_ATTRIBUTES_CLASSES};
use klab_api_machinery::value::list_mut;
use klab_api_machinery::views::{PersistentVolume, PersistentVolumeClaim as Claim, metadata};
use serde_json::{Value, json};

use super::super::controller::Controller;
use super::super::plane::Plane;
use super::super::pods::writes;
use super::super::queue::{Key, ObjectName};
use super::super::reconcile::{Change, Reconciler};
use super::super::terminating::TerminatingObjects;
use super::binding::claims_of;
use crate::cluster::Part;

/// Keeps a claim that pods use.
const CLAIM: &str = "kubernetes.io/pvc-protection";
/// Keeps a volume that a claim is bound to.
const VOLUME: &str = "kubernetes.io/pv-protection";

/// Keeps a class of attributes that claims or volumes name.
const CLASS: &str = "kubernetes.io/vac-protection";

/// Lets claims go that no pod uses.
#[derive(Default)]
pub(in super::super) struct ClaimProtection {
    /// Claims that are being deleted.
    leaving: TerminatingObjects,
}

impl Reconciler for ClaimProtection {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let key = |name: ObjectName| Key::new(Controller::ClaimProtection, PERSISTENT_VOLUME_CLAIMS, name);
        if change.resource() != PODS {
            if self.leaving.note(change) {
                plane.queue.add(key(change.name()));
            }
        } else if !self.leaving.is_empty()
            && (change.gone || change.pod.after.as_ref().is_some_and(|pod| pod.finished()))
        {
            for claim in claims_of(change.object) {
                plane.queue.add(key(claim));
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let name = &key.name;
        let claim = plane.cluster.get(PERSISTENT_VOLUME_CLAIMS, &name.namespace, &name.name);
        // Pods that no kubelet has are not started with a claim that is being deleted.
        if claim.is_some_and(|claim| claim.deleting) && plane.consumers(name).iter().all(|pod| pod.node.is_empty()) {
            plane.release(PERSISTENT_VOLUME_CLAIMS, name, CLAIM);
        }
    }

    fn forget(&mut self) {
        self.leaving.forget();
    }
}

/// Lets volumes go that no claim is bound to.
#[derive(Default)]
pub(in super::super) struct VolumeProtection;

impl Reconciler for VolumeProtection {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.object.deleting && !change.gone {
            plane.queue.add(Key::new(Controller::VolumeProtection, PERSISTENT_VOLUMES, change.name()));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let volume = plane.cluster.get(PERSISTENT_VOLUMES, "", &key.name.name);
        if volume.is_some_and(|volume| volume.deleting && PersistentVolume(&volume.value()).status().phase() != "Bound")
        {
            plane.release(PERSISTENT_VOLUMES, &key.name, VOLUME);
        }
    }
}

/// Lets classes of attributes go that no claim and no volume names.
#[derive(Default)]
pub(in super::super) struct ClassProtection {
    /// Classes that are being deleted.
    leaving: TerminatingObjects,
}

impl Reconciler for ClassProtection {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let key = |name: ObjectName| Key::new(Controller::AttributesClassProtection, VOLUME_ATTRIBUTES_CLASSES, name);
        if change.resource() == VOLUME_ATTRIBUTES_CLASSES {
            self.leaving.note(change);
            if !change.gone {
                plane.queue.add(key(change.name()));
            }
        } else {
            self.leaving.names().for_each(|class| plane.queue.add(key(class)));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let name = &*key.name.name;
        let Some(class) = plane.cluster.get(VOLUME_ATTRIBUTES_CLASSES, "", name) else { return };
        if class.deleting {
            if !plane.names_class(name) {
                plane.release(VOLUME_ATTRIBUTES_CLASSES, &key.name, CLASS);
            }
        } else if !metadata(&class.value()).finalizers().any(|finalizer| finalizer == CLASS) {
            let keep = |class: &mut Value| list_mut(&mut class["metadata"]["finalizers"]).push(json!(CLASS));
            let _kept = plane.cluster.modify(VOLUME_ATTRIBUTES_CLASSES, Part::Main, "", name, &writes(), keep);
        }
    }

    fn forget(&mut self) {
        self.leaving.forget();
    }
}

impl Plane {
    /// Whether a claim or a volume has attributes of a class, or is to get them.
    fn names_class(&self, class: &str) -> bool {
        // Volumes have the first of these fields.
        let names = |claim: Claim<'_>| {
            let (spec, status) = (claim.spec(), claim.status());
            spec.volume_attributes_class_name() == Some(class)
                || status.current_volume_attributes_class_name() == Some(class)
                || status.modify_volume_status().target_volume_attributes_class_name() == class
        };
        let mut kinds = [PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS].into_iter();
        kinds.any(|kind| self.cluster.list(kind, None).0.iter().any(|object| names(Claim(&object.value()))))
    }
}
