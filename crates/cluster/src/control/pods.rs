//! Pods of workload controllers: made from templates, adopted, deleted.

// upstream: pkg/controller/controller_utils.go GetPodFromTemplate (v1.36)
// upstream: pkg/controller/controller_ref_manager.go ClaimPods (v1.36)

use std::sync::Arc;

use jiff::SignedDuration;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{PODS, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::{controller_reference, list_mut, selects};
use klab_api_machinery::views::{PodTemplateSpec, metadata};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::queue::{Key, ObjectName};
use super::reconcile::Change;
use super::view::PodInfo;
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part, WriteOptions};
use klab_scheduler::selector::Selector;

/// The field manager all controllers write with.
pub(super) const MANAGER: &str = "kube-controller-manager";

/// How a controller's writes are recorded.
pub(super) fn writes() -> WriteOptions<'static> {
    WriteOptions::by(MANAGER)
}

/// A pod of a template, owned by `owner`. Without a name of its own it is named `<owner>-<5 letters>`.
pub(super) fn pod_of_template(owner: &Object, template: PodTemplateSpec<'_>) -> Value {
    let given = template.metadata().0;
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "ownerReferences": [controller_reference(owner)], "generateName": format!("{}-", owner.name),
            "labels": given["labels"], "annotations": given["annotations"], "finalizers": given["finalizers"],
        },
        "spec": template.spec().0,
    })
}

impl Plane {
    /// What every workload controller does about a change: the object of its kind is looked at, and so are those that
    /// may adopt a pod without an owner.
    pub(super) fn workload_changed(
        &mut self,
        change: &Change<'_>,
        controller: Controller,
        kind: ResourceId,
        selector: fn(&Value) -> Selector,
    ) {
        if change.resource() == kind {
            self.keep_selector(change, selector);
            self.queue.add(Key::new(controller, kind, change.name()));
        } else if change.is_of_orphan() {
            for owner in self.view.selecting(kind, change.object) {
                self.queue.add(Key::new(controller, kind, owner));
            }
        }
    }

    /// Keeps in mind which pods an object selects.
    pub(super) fn keep_selector(&mut self, change: &Change<'_>, read: fn(&Value) -> Selector) {
        let selector = (!change.gone).then(|| read(&change.object.value()["spec"]["selector"]));
        self.view.set_selector(change.resource(), change.name(), selector);
    }

    /// Creates a pod and writes the event its controller writes, success or not.
    pub(super) fn create_pod(&mut self, owner: &Object, component: &str, pod: Value) -> Result<Arc<Object>, Status> {
        let made = self.cluster.create(PODS, &owner.namespace, pod, &writes());
        match &made {
            Ok(pod) => {
                let message = format!("Created pod: {}", pod.name);
                self.note(owner, component, false, "SuccessfulCreate", &message);
            }
            // A namespace that is going away refuses everything: controllers keep silent about that.
            Err(status) if status.message.contains("because it is being terminated") => {}
            Err(status) => {
                let message = format!("Error creating: {status}");
                self.note(owner, component, true, "FailedCreate", &message);
            }
        }
        made
    }

    /// Comes back to `key` when the next of the ready pods has been ready for `min_ready` seconds.
    pub(super) fn wait_for_availability(&mut self, key: Key, pods: &[Arc<PodInfo>], min_ready: i64) {
        let now = self.now();
        let next = pods
            .iter()
            .filter(|pod| pod.ready)
            .filter_map(|pod| pod.ready_changed)
            .map(|since| later(since, SignedDuration::from_secs(min_ready)))
            .filter(|instant| *instant > now)
            .min();
        if let Some(next) = next {
            self.queue.add_at(key, next);
        }
    }

    /// Deletes a pod of a controller with the event its controller writes.
    pub(super) fn delete_pod(&mut self, owner: &Object, component: &str, pod: &PodInfo) {
        if self.remove_pod(pod) {
            let message = format!("Deleted pod: {}", pod.object.name);
            self.note(owner, component, false, "SuccessfulDelete", &message);
        }
    }

    /// Deletes a pod gracefully, silently; whether it was there to delete.
    pub(super) fn remove_pod(&mut self, pod: &PodInfo) -> bool {
        let options = DeleteOptions { uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() };
        self.cluster.delete(PODS, &pod.object.namespace, &pod.object.name, &options).is_ok()
    }

    /// The pods a controller owns, after taking in orphans its selector matches and releasing pods it no longer
    /// matches.
    pub(super) fn claim_pods(&mut self, owner: &Object, selector: &Selector) -> Vec<Arc<PodInfo>> {
        let mut owned = Vec::new();
        for pod in self.view.pods_of(&owner.uid) {
            if selects(selector, &pod.object) || owner.deleting {
                owned.push(pod);
            } else if !pod.object.deleting {
                let uid = owner.uid.clone();
                let released = self.cluster.modify(
                    PODS,
                    Part::Main,
                    &pod.object.namespace,
                    &pod.object.name,
                    &writes(),
                    |value| drop_owner(value, &uid),
                );
                debug_assert!(released.is_ok(), "{released:?}");
            }
        }
        if owner.deleting {
            return owned;
        }
        let orphans: Vec<ObjectName> = self
            .view
            .orphans_in(&owner.namespace)
            .filter(|pod| pod.active() && selects(selector, &pod.object))
            .map(|pod| pod.name())
            .collect();
        for name in orphans {
            let reference = controller_reference(owner);
            let adopted = self.cluster.modify(PODS, Part::Main, &name.namespace, &name.name, &writes(), |value| {
                list_mut(&mut value["metadata"]["ownerReferences"]).push(reference);
            });
            if adopted.is_ok()
                && let Some(pod) = self.view.pod(&name)
            {
                owned.push(Arc::clone(pod));
            }
        }
        owned
    }
}

/// 1, 2, 4, … until `total` are reached, or `most`: a refusal then costs few attempts.
// upstream: pkg/controller/replicaset/replica_set.go slowStartBatch (v1.36)
pub(super) fn slow_start(total: usize, most: usize) -> impl Iterator<Item = usize> {
    let total = total.min(most);
    let mut done = 0;
    let mut size = 1;
    std::iter::from_fn(move || {
        let batch = size.min(total - done);
        done += batch;
        size *= 2;
        (batch > 0).then_some(batch)
    })
}

/// Takes the references to `uid` out of `metadata.ownerReferences`.
pub(super) fn drop_owner(value: &mut Value, uid: &str) {
    let owners = metadata(value).owner_references().filter(|owner| owner.uid() != uid);
    value["metadata"]["ownerReferences"] = owners.map(|owner| owner.0.clone()).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_double_until_all_are_made() {
        assert_eq!(slow_start(6, 500).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(slow_start(0, 500).count(), 0);
        assert_eq!(slow_start(900, 500).sum::<usize>(), 500);
    }
}
