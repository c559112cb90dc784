//! Claims and volumes: claims are bound to volumes that fit, or to hollow ones made for them.

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncClaim, syncUnboundClaim (v1.36)

use std::sync::Arc;

use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::value::{items, map_mut, text};
use super::view::{NodeInfo, PodInfo};
use crate::cluster::{DeleteOptions, Part};
use crate::object::Object;
use crate::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES};
use klab_scheduler::quantity::Quantity;
use klab_scheduler::selector::Selector;

const COMPONENT: &str = "persistentvolume-controller";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const DISK_ZONE: &str = "topology.disk.csi.azure.com/zone";

/// Binds PersistentVolumeClaims.
pub(super) struct Claims;

impl Reconciler for Claims {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        match change.resource() {
            PERSISTENT_VOLUME_CLAIMS => {
                // Only to know whether a namespace has any.
                let kept = (!change.gone).then_some(Selector::Nothing);
                plane.view.set_selector(PERSISTENT_VOLUME_CLAIMS, change.name(), kept);
                plane.queue.add(key(change.name()));
            }
            PERSISTENT_VOLUMES => {
                if let Some(claim) = change.object.value()["spec"]["claimRef"].as_object() {
                    let text = |field: &str| claim.get(field).and_then(Value::as_str).unwrap_or_default();
                    plane.queue.add(key(ObjectName::new(text("namespace"), text("name"))));
                }
            }
            _ => {
                let bound = |pod: &Option<Arc<PodInfo>>| pod.as_ref().is_some_and(|pod| !pod.node.is_empty());
                if change.gone || (bound(&change.pod.after) && !bound(&change.pod.before)) {
                    plane.enqueue_claims(change.object);
                }
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        plane.sync_claim(&key.name);
    }
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::PersistentVolumeBinder, PERSISTENT_VOLUME_CLAIMS, name)
}

impl Plane {
    fn sync_claim(&mut self, name: &ObjectName) {
        let Some(object) = self.cluster.get(PERSISTENT_VOLUME_CLAIMS, &name.namespace, &name.name) else {
            self.release_volumes(name);
            return;
        };
        let claim = object.value();
        if object.deleting {
            if self.consumers(name).is_empty() {
                self.release(PERSISTENT_VOLUME_CLAIMS, name, CLAIM_PROTECTION);
            }
            return;
        }
        let chosen = text(&claim, &["spec", "volumeName"]).to_owned();
        if !chosen.is_empty() {
            if text(&claim, &["status", "phase"]) == "Pending"
                && let Some(volume) = self.cluster.get(PERSISTENT_VOLUMES, "", &chosen)
            {
                self.bind_claim(&object, &claim, &volume);
            }
            return;
        }
        if let Some(volume) = self.matching_volume(&object, &claim) {
            self.bind_claim(&object, &claim, &volume);
            return;
        }
        let class_name = text(&claim, &["spec", "storageClassName"]).to_owned();
        if class_name.is_empty() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            self.note(&object, COMPONENT, false, "FailedBinding", message);
            return;
        }
        let Some(class) = self.cluster.get(STORAGE_CLASSES, "", &class_name).map(|class| class.value()) else {
            let message = format!("storageclass.storage.k8s.io \"{class_name}\" not found");
            self.note(&object, COMPONENT, true, "ProvisioningFailed", &message);
            return;
        };
        let mut node = None;
        if text(&class, &["volumeBindingMode"]) == "WaitForFirstConsumer" {
            let Some(bound) = self.consumers(name).into_iter().find(|node| !node.is_empty()) else {
                let message = "waiting for first consumer to be created before binding";
                self.note(&object, COMPONENT, false, "WaitForFirstConsumer", message);
                return;
            };
            node = self.view.node(&bound).map(Arc::clone);
        }
        self.provision(&object, &claim, &class, node.as_deref());
    }

    /// Claims of a pod that has just been bound, or has gone.
    fn enqueue_claims(&mut self, pod: &Object) {
        let any = self.view.selectors_in(PERSISTENT_VOLUME_CLAIMS, &pod.namespace).next().is_some();
        if !any {
            return;
        }
        for volume in items(&pod.value()["spec"]["volumes"]) {
            let claim = text(volume, &["persistentVolumeClaim", "claimName"]);
            if !claim.is_empty() {
                self.queue.add(key(ObjectName::new(&pod.namespace, claim)));
            }
        }
    }

    /// The nodes of the pods that use a claim; empty for pods that are not bound yet.
    fn consumers(&self, name: &ObjectName) -> Vec<Box<str>> {
        self.view
            .pods_in(&name.namespace)
            .filter(|pod| !pod.finished())
            // Reading the text first spares decoding the many pods that do not use the claim.
            .filter(|pod| std::str::from_utf8(&pod.object.json).is_ok_and(|json| json.contains(name.name.as_ref())))
            .filter(|pod| {
                items(&pod.object.value()["spec"]["volumes"])
                    .iter()
                    .any(|volume| text(volume, &["persistentVolumeClaim", "claimName"]) == name.name.as_ref())
            })
            .map(|pod| pod.node.clone())
            .collect()
    }

    /// The smallest volume that is free and fits, one reserved for the claim first.
    fn matching_volume(&self, object: &Object, claim: &Value) -> Option<Arc<Object>> {
        let wanted = storage(&claim["spec"]["resources"]["requests"])?;
        let modes = items(&claim["spec"]["accessModes"]);
        self.cluster
            .list(PERSISTENT_VOLUMES, None)
            .0
            .into_iter()
            .filter_map(|volume| {
                let value = volume.value();
                let reserved = &value["spec"]["claimRef"];
                let mine = reserved["name"] == *object.name && reserved["namespace"] == *object.namespace;
                let free = reserved.is_null() || mine;
                let size = storage(&value["spec"]["capacity"])?;
                let fits = free
                    && !volume.deleting
                    && text(&value, &["spec", "storageClassName"]) == text(claim, &["spec", "storageClassName"])
                    && size >= wanted
                    && modes.iter().all(|mode| items(&value["spec"]["accessModes"]).contains(mode));
                fits.then_some((!mine, size, volume))
            })
            .min_by(|left, right| (left.0, left.1).cmp(&(right.0, right.1)))
            .map(|(_, _, volume)| volume)
    }

    fn provision(&mut self, object: &Object, claim: &Value, class: &Value, node: Option<&NodeInfo>) {
        let provisioner = text(class, &["provisioner"]).to_owned();
        let name = format!("pvc-{}", object.uid);
        let mut volume = json!({
            "metadata": {
                "name": name, "annotations": { "pv.kubernetes.io/provisioned-by": provisioner },
                "finalizers": [VOLUME_PROTECTION],
            },
            "spec": {
                "capacity": { "storage": claim["spec"]["resources"]["requests"]["storage"] },
                "accessModes": claim["spec"]["accessModes"],
                "persistentVolumeReclaimPolicy": class["reclaimPolicy"].as_str().unwrap_or("Delete"),
                "storageClassName": class["metadata"]["name"],
                "volumeMode": claim["spec"]["volumeMode"].as_str().unwrap_or("Filesystem"),
                "csi": { "driver": provisioner, "volumeHandle": name },
                "claimRef": claim_reference(object),
            },
        });
        let zone = node.and_then(|node| node.object.label(DISK_ZONE));
        if let Some(zone) = zone {
            volume["spec"]["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": DISK_ZONE, "operator": "In", "values": [zone] }] },
            ]}});
        }
        if let Some(node) = node {
            let node = node.object.name.to_string();
            self.annotate_claim(object, &[(SELECTED_NODE, &node), (PROVISIONER, &provisioner)]);
        } else {
            self.annotate_claim(object, &[(PROVISIONER, &provisioner)]);
        }
        let volume = match self.cluster.create(PERSISTENT_VOLUMES, "", volume, &writes()) {
            Ok(volume) => {
                let message = format!("Successfully provisioned volume {name}");
                self.note(object, &provisioner, false, "ProvisioningSucceeded", &message);
                volume
            }
            Err(status) if status.reason == "AlreadyExists" => {
                let Some(volume) = self.cluster.get(PERSISTENT_VOLUMES, "", &name) else { return };
                volume
            }
            Err(status) => {
                self.note(object, &provisioner, true, "ProvisioningFailed", &status.message);
                return;
            }
        };
        self.bind_claim(object, claim, &volume);
    }

    fn annotate_claim(&mut self, object: &Object, annotations: &[(&str, &str)]) {
        let _annotated = self.cluster.modify(
            PERSISTENT_VOLUME_CLAIMS,
            Part::Main,
            &object.namespace,
            &object.name,
            &writes(),
            |claim| {
                let map = map_mut(&mut claim["metadata"]["annotations"]);
                for (key, value) in annotations {
                    map.insert((*key).to_owned(), json!(value));
                }
            },
        );
    }

    /// Binds the two to each other.
    fn bind_claim(&mut self, object: &Object, claim: &Value, volume: &Object) {
        let reference = claim_reference(object);
        let _reserved = self.cluster.modify(PERSISTENT_VOLUMES, Part::Main, "", &volume.name, &writes(), |volume| {
            volume["spec"]["claimRef"] = reference;
        });
        let _bound = self.cluster.modify(PERSISTENT_VOLUMES, Part::Status, "", &volume.name, &writes(), |volume| {
            volume["status"]["phase"] = json!("Bound");
        });
        let _chosen = self.cluster.modify(
            PERSISTENT_VOLUME_CLAIMS,
            Part::Main,
            &object.namespace,
            &object.name,
            &writes(),
            |claim| {
                claim["spec"]["volumeName"] = json!(volume.name);
                let annotations = map_mut(&mut claim["metadata"]["annotations"]);
                annotations.insert(BIND_COMPLETED.to_owned(), json!("yes"));
                annotations.insert(BOUND_BY_CONTROLLER.to_owned(), json!("yes"));
            },
        );
        let capacity = volume.value()["spec"]["capacity"].clone();
        let modes = claim["spec"]["accessModes"].clone();
        let _bound = self.cluster.modify(
            PERSISTENT_VOLUME_CLAIMS,
            Part::Status,
            &object.namespace,
            &object.name,
            &writes(),
            |claim| claim["status"] = json!({ "phase": "Bound", "accessModes": modes, "capacity": capacity }),
        );
    }

    /// Volumes of a claim that is gone: deleted or released, as their reclaim policy says.
    fn release_volumes(&mut self, name: &ObjectName) {
        for volume in self.cluster.list(PERSISTENT_VOLUMES, None).0 {
            let value = volume.value();
            let reference = &value["spec"]["claimRef"];
            if reference["name"] != *name.name || reference["namespace"] != *name.namespace {
                continue;
            }
            if text(&value, &["spec", "persistentVolumeReclaimPolicy"]) == "Delete" {
                let _deleted = self.cluster.delete(PERSISTENT_VOLUMES, "", &volume.name, &DeleteOptions::default());
                self.release(PERSISTENT_VOLUMES, &ObjectName::new("", &volume.name), VOLUME_PROTECTION);
            } else if text(&value, &["status", "phase"]) == "Bound" {
                let _released =
                    self.cluster.modify(PERSISTENT_VOLUMES, Part::Status, "", &volume.name, &writes(), |volume| {
                        volume["status"]["phase"] = json!("Released");
                    });
            }
        }
    }
}

fn storage(amounts: &Value) -> Option<Quantity> {
    Quantity::parse(amounts["storage"].as_str()?).ok()
}

fn claim_reference(object: &Object) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": object.namespace, "name": object.name,
        "uid": object.uid, "resourceVersion": object.resource_version.to_string(),
    })
}
