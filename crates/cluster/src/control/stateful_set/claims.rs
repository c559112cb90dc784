//! The claims of a StatefulSet's pods: made before each pod, and owned by the set or the pod as far as they go with it.

// upstream: pkg/controller/statefulset/stateful_set_utils.go isClaimOwnerUpToDate, updateClaimOwnerRefForSetAndPod,
// hasUnexpectedController, hasStaleOwnerRef (v1.36)
// upstream: pkg/controller/statefulset/stateful_pod_control.go UpdatePodClaimForRetentionPolicy, PodClaimIsStale (v1.36)

use std::collections::BTreeSet;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::PERSISTENT_VOLUME_CLAIMS;
use klab_api_machinery::value::{controller_reference, map_mut};
use klab_api_machinery::views::{
    OwnerReference, PersistentVolumeClaim as Claim, StatefulSetPersistentVolumeClaimRetentionPolicy as Retention,
};
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::pods::writes;
use super::{COMPONENT, Set};
use crate::cluster::Part;

const DELETE: &str = "Delete";

impl Set {
    fn retention(&self) -> Retention<'_> {
        self.spec().persistent_volume_claim_retention_policy()
    }

    fn is_in_range(&self, pod: &str) -> bool {
        self.ordinal_of(pod).is_some_and(|at| (self.start()..self.start() + self.replicas()).contains(&at))
    }

    fn claim_names(&self, pod: &str) -> Vec<String> {
        let templates = self.spec().volume_claim_templates();
        templates.map(|template| format!("{}-{pod}", template.metadata().name())).collect()
    }
}

/// Whom a claim may belong to: its set and its pod, which has no uid before it is made.
struct Owners<'a> {
    set: &'a Set,
    pod: &'a str,
    pod_uid: &'a str,
}

impl Owners<'_> {
    fn is_set(&self, owner: OwnerReference<'_>) -> bool {
        [owner.api_version(), owner.kind(), owner.name()] == ["apps/v1", "StatefulSet", &self.set.object.name]
    }

    fn is_pod(&self, owner: OwnerReference<'_>) -> bool {
        [owner.api_version(), owner.kind(), owner.name()] == ["v1", "Pod", self.pod]
    }

    /// Whether the claim belongs to a set or a pod of the same name that is no more.
    fn are_stale(&self, references: &[OwnerReference<'_>]) -> bool {
        let set = references.iter().find(|owner| self.is_set(**owner));
        set.is_some_and(|set| set.uid() != &*self.set.object.uid) || self.is_pod_stale(references)
    }

    fn is_pod_stale(&self, references: &[OwnerReference<'_>]) -> bool {
        let pod = references.iter().find(|owner| self.is_pod(**owner));
        pod.is_some_and(|pod| pod.uid() != self.pod_uid)
    }

    /// Neither the set nor the pod.
    fn foreign<'r>(&self, references: &[OwnerReference<'r>]) -> impl Iterator<Item = OwnerReference<'r>> {
        references.iter().copied().filter(|owner| !self.is_set(*owner) && !self.is_pod(*owner))
    }

    /// Whether somebody else controls the claim.
    fn are_strangers(&self, references: &[OwnerReference<'_>]) -> bool {
        let retention = self.set.retention();
        (retention.when_scaled() == DELETE || retention.when_deleted() == DELETE)
            && self.foreign(references).any(|owner| owner.controller() == Some(true))
    }

    /// The owners the claim is to have.
    fn wanted(&self, references: &[OwnerReference<'_>]) -> Vec<Value> {
        let mut wanted: Vec<Value> = self.foreign(references).map(|owner| owner.0.clone()).collect();
        if self.are_strangers(references) {
            return wanted;
        }
        if self.set.retention().when_scaled() == DELETE && !self.set.is_in_range(self.pod) {
            wanted.push(json!({
                "apiVersion": "v1", "kind": "Pod", "name": self.pod, "uid": self.pod_uid, "controller": true,
                "blockOwnerDeletion": true,
            }));
        } else if self.set.retention().when_deleted() == DELETE {
            wanted.push(controller_reference(&self.set.object));
        }
        wanted
    }
}

/// What of references matters: who, and whether as controller.
fn essence<'a>(references: impl Iterator<Item = OwnerReference<'a>>) -> BTreeSet<(&'a str, bool)> {
    references.map(|owner| (owner.uid(), owner.controller() == Some(true))).collect()
}

impl Plane {
    /// Whether a claim goes with a former pod of that name: a new one has to wait until it is gone.
    pub(super) fn has_stale_claim(&self, set: &Set, pod: &str) -> bool {
        let owners = Owners { set, pod, pod_uid: "" };
        set.retention().when_scaled() == DELETE
            && set.claim_names(pod).iter().any(|name| {
                let claim = self.cluster.get(PERSISTENT_VOLUME_CLAIMS, &set.object.namespace, name);
                let value = claim.map(|claim| claim.value()).unwrap_or_default();
                owners.is_pod_stale(&Claim(&value).metadata().owner_references().collect::<Vec<_>>())
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
            let references: Vec<_> = Claim(&value).metadata().owner_references().collect();
            if owners.are_stale(&references) {
                continue;
            }
            if owners.are_strangers(&references) {
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
                );
                self.note(&set.object, COMPONENT, true, "ConflictingController", &message);
            }
            let wanted = owners.wanted(&references);
            if essence(wanted.iter().map(OwnerReference)) != essence(references.into_iter()) {
                self.write_owners(&claim, wanted);
            }
        }
    }

    fn write_owners(&self, claim: &Object, owners: Vec<Value>) {
        let (namespace, name) = (&claim.namespace, &claim.name);
        let _tied = self.cluster.modify(PERSISTENT_VOLUME_CLAIMS, Part::Main, namespace, name, &writes(), |claim| {
            claim["metadata"]["ownerReferences"] = Value::Array(owners);
        });
    }

    /// Makes a claim of a pod where it is missing; whether the pod may be made.
    pub(super) fn ensure_claim(&mut self, set: &Set, template: Claim<'_>, pod: &str) -> bool {
        let name = format!("{}-{pod}", template.metadata().name());
        if let Some(claim) = self.cluster.get(PERSISTENT_VOLUME_CLAIMS, &set.object.namespace, &name) {
            // When it is gone, the set is looked at again.
            return !claim.deleting;
        }
        let given = template.metadata().0;
        let mut labels = given["labels"].clone();
        for (key, value) in set.spec().selector().match_labels().iter() {
            map_mut(&mut labels).insert(key.to_owned(), json!(value));
        }
        let mut claim = json!({
            "metadata": { "name": name, "labels": labels, "annotations": given["annotations"] },
            "spec": template.spec().0,
        });
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
