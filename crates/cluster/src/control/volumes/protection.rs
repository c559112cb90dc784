//! Claims in use by pods, and volumes in use by claims, stay until they are not.

// upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go processPVC, podUsesPVC (v1.36)
// upstream: pkg/controller/volume/pvprotection/pv_protection_controller.go processPV (v1.36)

use super::super::controller::Controller;
use super::super::plane::Plane;
use super::super::queue::{Key, ObjectName};
use super::super::reconcile::{Change, Reconciler};
use super::super::value::text;
use super::binding::claims_of;
use crate::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS};

/// Keeps a claim that pods use.
const CLAIM: &str = "kubernetes.io/pvc-protection";
/// Keeps a volume that a claim is bound to.
const VOLUME: &str = "kubernetes.io/pv-protection";

/// Lets claims go that no pod uses.
#[derive(Default)]
pub(in super::super) struct ClaimProtection {
    /// Claims that are being deleted.
    leaving: std::collections::BTreeSet<ObjectName>,
}

impl Reconciler for ClaimProtection {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let key = |name: ObjectName| Key::new(Controller::ClaimProtection, PERSISTENT_VOLUME_CLAIMS, name);
        if change.resource() != PODS {
            if change.object.deleting && !change.gone {
                self.leaving.insert(change.name());
                plane.queue.add(key(change.name()));
            } else {
                self.leaving.remove(&change.name());
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
        self.leaving.clear();
    }
}

/// Lets volumes go that no claim is bound to.
pub(in super::super) struct VolumeProtection;

impl Reconciler for VolumeProtection {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.object.deleting && !change.gone {
            plane.queue.add(Key::new(Controller::VolumeProtection, PERSISTENT_VOLUMES, change.name()));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let volume = plane.cluster.get(PERSISTENT_VOLUMES, "", &key.name.name);
        if volume.is_some_and(|volume| volume.deleting && text(&volume.value(), &["status", "phase"]) != "Bound") {
            plane.release(PERSISTENT_VOLUMES, &key.name, VOLUME);
        }
    }
}
