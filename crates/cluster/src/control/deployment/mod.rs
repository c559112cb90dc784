//! Deployments: finds or makes the ReplicaSet of the present template, and moves pods to it.

// upstream: pkg/controller/deployment/deployment_controller.go syncDeployment (v1.36)

mod progress;
mod rollout;
mod sets;
mod spec;

use klab_api_machinery::resource::{DEPLOYMENTS, REPLICA_SETS};
use klab_api_machinery::value::{controller_reference, map_mut};
use serde_json::{Value, json};
use std::sync::Arc;

use self::sets::{ReplicaSetView, Sets};
use self::spec::{DESIRED_REPLICAS, Deployment, HASH_LABEL, MAX_REPLICAS, REVISION, REVISION_HISTORY, key};
use super::hash::template_hash;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use crate::cluster::{DeleteOptions, Part};

const COMPONENT: &str = "deployment-controller";

/// Makes ReplicaSets of Deployments.
#[derive(Default)]
pub(super) struct Deployments;

impl Reconciler for Deployments {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == DEPLOYMENTS {
            plane.queue.add(key(change.name()));
        } else if change.is_of_orphan() {
            for name in plane.names_in(DEPLOYMENTS, &change.object.namespace) {
                plane.queue.add(key(name));
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        // A deadline of before the last progress would wake a parked cluster for nothing.
        plane.queue.forget(key);
        plane.sync_deployment(&key.name);
    }
}

impl Plane {
    fn sync_deployment(&mut self, name: &ObjectName) {
        let Some(object) = self.cluster.get(DEPLOYMENTS, &name.namespace, &name.name) else {
            self.refused.remove(&key(name.clone()));
            return;
        };
        let mut deployment = Deployment { name: name.clone(), value: object.value(), object };
        let mut sets = self.sets_of(&deployment);
        if deployment.object.deleting {
            self.write_deployment_status(&mut deployment, &sets);
            return;
        }
        self.note_pause(&mut deployment);
        if deployment.paused() || sets.is_scaling(&deployment) {
            self.scale_only(&mut deployment, &mut sets);
        } else if deployment.rolling() {
            self.roll(&mut deployment, &mut sets);
        } else {
            self.recreate(&mut deployment, &mut sets);
        }
    }

    /// A paused Deployment, or one whose size alone has changed: keeps the proportions of its ReplicaSets.
    fn scale_only(&mut self, deployment: &mut Deployment, sets: &mut Sets) {
        self.find_new_set(deployment, sets, false);
        self.scale_sets(deployment, sets);
        if deployment.paused() {
            self.clean_up(deployment, sets);
        }
        self.write_deployment_status(deployment, sets);
    }

    /// Finds the ReplicaSet of the present template, or makes it.
    fn find_new_set(&mut self, deployment: &mut Deployment, sets: &mut Sets, create: bool) {
        let revision = sets.max_old_revision() + 1;
        if let Some(set) = sets.new_set_mut() {
            let mut value = (*set.value).clone();
            let annotated = annotate_set(deployment, &mut value, revision, true);
            let min_ready = deployment.read().spec().min_ready_seconds();
            if annotated || min_ready != set.read().spec().min_ready_seconds() {
                value["spec"]["minReadySeconds"] = json!(min_ready);
                self.write_set(set, value);
            }
            self.set_revision(deployment, set.read().metadata().annotations().get(REVISION).unwrap_or_default());
            let set_name = set.object.name.to_string();
            if deployment.progress_deadline().is_some()
                && deployment.read().status().conditions().of_type("Progressing").is_none()
            {
                let message = format!("Found new replica set \"{set_name}\"");
                self.write_progress(deployment, "True", "FoundNewReplicaSet", &message);
            }
            return;
        }
        if create {
            self.create_set(deployment, sets, revision);
        }
    }

    fn create_set(&mut self, deployment: &mut Deployment, sets: &mut Sets, revision: i64) {
        let (spec, collisions) = (deployment.read().spec(), deployment.read().status().collision_count());
        let template = spec.template().0;
        let hash = template_hash(template, collisions);
        let set_name = format!("{}-{hash}", deployment.name.name);
        let mut template = template.clone();
        map_mut(&mut template["metadata"]["labels"]).insert(HASH_LABEL.to_owned(), json!(hash));
        let mut selector = spec.selector().0.clone();
        map_mut(&mut selector["matchLabels"]).insert(HASH_LABEL.to_owned(), json!(hash));
        let replicas = sets.new_replicas(deployment, 0);
        let mut value = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": set_name, "labels": template["metadata"]["labels"],
                "ownerReferences": [controller_reference(&deployment.object)],
            },
            "spec": {
                "replicas": replicas, "minReadySeconds": spec.min_ready_seconds(), "selector": selector,
                "template": template,
            },
        });
        annotate_set(deployment, &mut value, revision, false);
        let made = self.cluster.create(REPLICA_SETS, &deployment.name.namespace, value, &writes());
        match made {
            Ok(object) => {
                if replicas > 0 {
                    let message = format!("Scaled up replica set {set_name} from 0 to {replicas}");
                    self.note(&deployment.object.clone(), COMPONENT, false, "ScalingReplicaSet", &message);
                }
                sets.add_new(ReplicaSetView::new(object));
                self.set_revision(deployment, &revision.to_string());
                if deployment.progress_deadline().is_some() {
                    let message = format!("Created new replica set \"{set_name}\"");
                    self.write_progress(deployment, "True", "NewReplicaSetCreated", &message);
                }
            }
            // Another template, or another owner, has this hash: count the collision and hash again.
            Err(status) if status.reason == "AlreadyExists" => {
                let collisions = json!(collisions.unwrap_or_default() + 1);
                Arc::make_mut(&mut deployment.value)["status"]["collisionCount"] = collisions;
                self.put_deployment_status(deployment);
            }
            Err(status) => {
                if deployment.progress_deadline().is_some()
                    && !status.message.contains("because it is being terminated")
                {
                    let message = format!("Failed to create new replica set \"{set_name}\": {status}");
                    self.write_progress(deployment, "False", "ReplicaSetCreateError", &message);
                }
                self.retry_later(key(deployment.name.clone()));
            }
        }
    }

    fn set_revision(&mut self, deployment: &mut Deployment, revision: &str) {
        if deployment.read().metadata().annotations().get(REVISION).unwrap_or_default() == revision {
            return;
        }
        // Written with the status, the annotation is no new generation.
        // upstream: pkg/controller/deployment/sync.go getNewReplicaSet (v1.36)
        let written = self.cluster.modify(
            DEPLOYMENTS,
            Part::Status,
            &deployment.name.namespace,
            &deployment.name.name,
            &writes(),
            |value| {
                map_mut(&mut value["metadata"]["annotations"]).insert(REVISION.to_owned(), json!(revision));
            },
        );
        if let Ok(object) = written {
            let status = deployment.read().status().0.clone();
            deployment.value = object.value();
            Arc::make_mut(&mut deployment.value)["status"] = status;
            deployment.object = object;
        }
    }

    /// Writes a ReplicaSet that a sync has changed.
    fn write_set(&mut self, set: &mut ReplicaSetView, value: Value) {
        let written =
            self.cluster.update(REPLICA_SETS, Part::Main, &set.object.namespace, &set.object.name, value, &writes());
        if let Ok(object) = written {
            *set = ReplicaSetView::new(object);
        }
    }

    /// Scales a ReplicaSet, with the event that says so.
    fn scale_set(&mut self, deployment: &Deployment, set: &mut ReplicaSetView, replicas: i64) -> bool {
        let before = set.replicas();
        let mut value = (*set.value).clone();
        let annotated =
            annotate_size(&mut value, deployment.replicas(), deployment.replicas() + deployment.max_surge());
        if before == replicas && !annotated {
            return false;
        }
        value["spec"]["replicas"] = json!(replicas);
        self.write_set(set, value);
        if before == replicas {
            return false;
        }
        let direction = if replicas > before { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {} from {before} to {replicas}", set.object.name);
        self.note(&deployment.object, COMPONENT, false, "ScalingReplicaSet", &message);
        true
    }

    /// Deletes old ReplicaSets beyond `revisionHistoryLimit`.
    fn clean_up(&mut self, deployment: &Deployment, sets: &Sets) {
        let Some(limit) = deployment.read().spec().revision_history_limit() else { return };
        let mut old: Vec<&ReplicaSetView> = sets.old().filter(|set| !set.object.deleting).collect();
        old.sort_by_key(|set| set.revision());
        let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        for set in old.into_iter().take(excess) {
            let (status, generation) = (set.read().status(), set.read().metadata().generation());
            if status.replicas() == 0 && set.replicas() == 0 && generation <= status.observed_generation() {
                let _deleted = self.cluster.delete(
                    REPLICA_SETS,
                    &set.object.namespace,
                    &set.object.name,
                    &DeleteOptions::default(),
                );
            }
        }
    }

    fn put_deployment_status(&mut self, deployment: &mut Deployment) {
        let status = deployment.read().status().0.clone();
        let written = self.cluster.modify(
            DEPLOYMENTS,
            Part::Status,
            &deployment.name.namespace,
            &deployment.name.name,
            &writes(),
            |value| value["status"] = status,
        );
        if let Ok(object) = written {
            deployment.value = object.value();
            deployment.object = object;
        }
    }
}

/// Annotations that belong to a Deployment alone and are not copied to its ReplicaSets.
fn stays_on_deployment(key: &str) -> bool {
    matches!(
        key,
        "kubectl.kubernetes.io/last-applied-configuration"
            | "deprecated.deployment.rollback.to"
            | REVISION
            | REVISION_HISTORY
            | DESIRED_REPLICAS
            | MAX_REPLICAS
    )
}

/// Brings a ReplicaSet's annotations up to date with its Deployment's and its revision; whether any changed.
fn annotate_set(deployment: &Deployment, set: &mut Value, revision: i64, exists: bool) -> bool {
    let before = set["metadata"]["annotations"].clone();
    let annotations = map_mut(&mut set["metadata"]["annotations"]);
    for (key, value) in deployment.read().metadata().annotations().iter() {
        if !stays_on_deployment(key) {
            annotations.insert(key.to_owned(), json!(value));
        }
    }
    let old = annotations.get(REVISION).and_then(Value::as_str).map(str::to_owned);
    if old.as_deref().and_then(|old| old.parse::<i64>().ok()).unwrap_or_default() < revision {
        annotations.insert(REVISION.to_owned(), json!(revision.to_string()));
        if let Some(old) = old.filter(|_| exists) {
            let history = match annotations.get(REVISION_HISTORY).and_then(Value::as_str) {
                Some(history) if !history.is_empty() => format!("{history},{old}"),
                _ => old,
            };
            annotations.insert(REVISION_HISTORY.to_owned(), json!(history));
        }
    }
    if !exists {
        annotate_size(set, deployment.replicas(), deployment.replicas() + deployment.max_surge());
    }
    set["metadata"]["annotations"] != before
}

/// Notes on a ReplicaSet how large its Deployment is; whether that changed anything.
fn annotate_size(set: &mut Value, desired: i64, max: i64) -> bool {
    let annotations = map_mut(&mut set["metadata"]["annotations"]);
    let mut changed = false;
    for (key, number) in [(DESIRED_REPLICAS, desired), (MAX_REPLICAS, max)] {
        let wanted = json!(number.to_string());
        if annotations.get(key) != Some(&wanted) {
            annotations.insert(key.to_owned(), wanted);
            changed = true;
        }
    }
    changed
}
