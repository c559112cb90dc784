//! The claims of a StatefulSet's pods: made before each pod, and owned by the set or the pod as far as they go with it.

// upstream: pkg/controller/statefulset/stateful_set_utils.go isClaimOwnerUpToDate, updateClaimOwnerRefForSetAndPod,
// hasUnexpectedController, hasStaleOwnerRef (v1.36)
// upstream: pkg/controller/statefulset/stateful_pod_control.go UpdatePodClaimForRetentionPolicy, PodClaimIsStale (v1.36)

use std::collections::BTreeSet;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::PERSISTENT_VOLUME_CLAIMS;
use klab_api_machinery::value::{controller_reference, items, map_mut, text};
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::pods::writes;
use super::{COMPONENT, Set};
use crate::cluster::Part;

impl Set {
    fn deletes(&self, when: &str) -> bool {
        text(&self.value, &["spec", "persistentVolumeClaimRetentionPolicy", when]) == "Delete"
    }

    fn is_in_range(&self, pod: &str) -> bool {
        self.ordinal_of(pod).is_some_and(|at| (self.start()..self.start() + self.replicas()).contains(&at))
    }

    fn claim_names(&self, pod: &str) -> Vec<String> {
        let templates = items(&self.value["spec"]["volumeClaimTemplates"]).iter();
        templates.map(|template| format!("{}-{pod}", text(template, &["metadata", "name"]))).collect()
    }
}

/// Whom a claim may belong to: its set and its pod, which has no uid before it is made.
struct Owners<'a> {
    set: &'a Set,
    pod: &'a str,
    pod_uid: &'a str,
}

impl Owners<'_> {
    fn is_set(&self, reference: &Value) -> bool {
        reference["apiVersion"] == "apps/v1"
            && reference["kind"] == "StatefulSet"
            && reference["name"] == *self.set.object.name
    }

    fn is_pod(&self, reference: &Value) -> bool {
        reference["apiVersion"] == "v1" && reference["kind"] == "Pod" && reference["name"] == *self.pod
    }

    /// Whether the claim belongs to a set or a pod of the same name that is no more.
    fn are_stale(&self, references: &[Value]) -> bool {
        let set = references.iter().find(|reference| self.is_set(reference));
        set.is_some_and(|set| set["uid"] != *self.set.object.uid) || self.is_pod_stale(references)
    }

    fn is_pod_stale(&self, references: &[Value]) -> bool {
        let pod = references.iter().find(|reference| self.is_pod(reference));
        pod.is_some_and(|pod| pod["uid"] != *self.pod_uid)
    }

    /// Whether somebody else controls the claim.
    fn are_strangers(&self, references: &[Value]) -> bool {
        let foreign = |reference: &&Value| !self.is_set(reference) && !self.is_pod(reference);
        (self.set.deletes("whenScaled") || self.set.deletes("whenDeleted"))
            && references.iter().filter(foreign).any(|reference| reference["controller"] == true)
    }

    /// The owners the claim is to have.
    fn wanted(&self, references: &[Value]) -> Vec<Value> {
        let foreign = |reference: &&Value| !self.is_set(reference) && !self.is_pod(reference);
        let mut wanted: Vec<Value> = references.iter().filter(foreign).cloned().collect();
        if self.are_strangers(references) {
            return wanted;
        }
        if self.set.deletes("whenScaled") && !self.set.is_in_range(self.pod) {
            wanted.push(json!({
                "apiVersion": "v1", "kind": "Pod", "name": self.pod, "uid": self.pod_uid, "controller": true,
                "blockOwnerDeletion": true,
            }));
        } else if self.set.deletes("whenDeleted") {
            wanted.push(controller_reference(&self.set.object));
        }
        wanted
    }
}

/// What of references matters: who, and whether as controller.
fn essence(references: &[Value]) -> BTreeSet<(&str, bool)> {
    references.iter().map(|reference| (text(reference, &["uid"]), reference["controller"] == true)).collect()
}

impl Plane {
    /// Whether a claim goes with a former pod of that name: a new one has to wait until it is gone.
    pub(super) fn has_stale_claim(&self, set: &Set, pod: &str) -> bool {
        let owners = Owners { set, pod, pod_uid: "" };
        set.deletes("whenScaled")
            && set.claim_names(pod).iter().any(|name| {
                let claim = self.cluster.get(PERSISTENT_VOLUME_CLAIMS, &set.object.namespace, name);
                claim.is_some_and(|claim| owners.is_pod_stale(items(&claim.value()["metadata"]["ownerReferences"])))
            })
    }

    /// Has the claims of a pod go with the set, with the pod or not at all, as the set says.
    pub(super) fn tie_claims(&mut self, set: &Set, pod: &str, uid: Option<&str>) {
        let owners = Owners { set, pod, pod_uid: uid.unwrap_or_default() };
        for name in set.claim_names(pod) {
            let Some(claim) = self.cluster.get(PERSISTENT_VOLUME_CLAIMS, &set.object.namespace, &name) else {
                continue;
            };
            let value = claim.value();
            let references = items(&value["metadata"]["ownerReferences"]);
            if owners.are_stale(references) {
                continue;
            }
            if owners.are_strangers(references) {
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
                );
                self.note(&set.object, COMPONENT, true, "ConflictingController", &message);
            }
            let wanted = owners.wanted(references);
            if essence(&wanted) != essence(references) {
                self.write_owners(&claim, wanted);
            }
        }
    }

    fn write_owners(&self, claim: &Object, owners: Vec<Value>) {
        let (namespace, name) = (&claim.namespace, &claim.name);
        let _tied = self.cluster.modify(PERSISTENT_VOLUME_CLAIMS, Part::Main, namespace, name, &writes(), |claim| {
            let metadata = map_mut(&mut claim["metadata"]);
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            } else {
                metadata.insert("ownerReferences".to_owned(), Value::Array(owners));
            }
        });
    }

    /// Makes a claim of a pod where it is missing; whether the pod may be made.
    pub(super) fn ensure_claim(&mut self, set: &Set, template: &Value, pod: &str) -> bool {
        let name = format!("{}-{pod}", text(template, &["metadata", "name"]));
        if let Some(claim) = self.cluster.get(PERSISTENT_VOLUME_CLAIMS, &set.object.namespace, &name) {
            // When it is gone, the set is looked at again.
            return !claim.deleting;
        }
        let mut labels = template["metadata"]["labels"].clone();
        for (key, value) in set.value["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten() {
            map_mut(&mut labels).insert(key.clone(), value.clone());
        }
        let mut claim = json!({ "metadata": { "name": name, "labels": labels }, "spec": template["spec"] });
        if !template["metadata"]["annotations"].is_null() {
            claim["metadata"]["annotations"] = template["metadata"]["annotations"].clone();
        }
        let owners = Owners { set, pod, pod_uid: "" }.wanted(&[]);
        if !owners.is_empty() && set.is_in_range(pod) {
            claim["metadata"]["ownerReferences"] = json!(owners);
        }
        match self.cluster.create(PERSISTENT_VOLUME_CLAIMS, &set.object.namespace, claim, &writes()) {
            Ok(_) => {
                let message = format!("Create Claim {name} Pod {pod} in StatefulSet {} success", set.object.name);
                self.note(&set.object, COMPONENT, false, "SuccessfulCreate", &message);
                true
            }
            Err(status) => {
                let message = format!(
                    "create Claim {name} for Pod {pod} in StatefulSet {} failed error: {status}",
                    set.object.name
                );
                self.note(&set.object, COMPONENT, true, "FailedCreate", &message);
                false
            }
        }
    }
}
