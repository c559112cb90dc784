//! ReplicaSets and ReplicationControllers: as many pods as asked for, the least useful ones deleted first.

// upstream: pkg/controller/replicaset/replica_set.go syncReplicaSet, manageReplicas (v1.36)
// upstream: pkg/controller/replication/conversion.go, whose controller is that of ReplicaSets in other words (v1.36)
// upstream: pkg/controller/controller_utils.go ActivePodsWithRanks (v1.36)

use std::collections::HashMap;
use std::sync::Arc;

use klab_api_machinery::resource::{REPLICA_SETS, REPLICATION_CONTROLLERS, ResourceId};
use klab_api_machinery::value::{list_mut, service_selector, time_text};
use klab_api_machinery::views::{Pod, ReplicaSet};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::{pod_of_template, slow_start, writes};
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::{Phase, PodInfo};
use crate::cluster::Part;
use klab_scheduler::features::Gate;
use klab_scheduler::selector::Selector;

/// At most this many pods are created or deleted at once (`burstReplicas`).
const BURST: usize = 500;

/// One of the two kinds that keep a number of pods.
pub(super) struct ReplicaSets {
    controller: Controller,
    kind: ResourceId,
    /// As whom its events are written.
    component: &'static str,
    /// Reads `spec.selector`.
    selector: fn(&Value) -> Selector,
    /// Whether the status tells how many pods are about to end.
    counts_terminating: bool,
}

impl ReplicaSets {
    /// Makes pods of ReplicationControllers.
    pub(super) const CONTROLLERS: Self = Self {
        controller: Controller::ReplicationController,
        kind: REPLICATION_CONTROLLERS,
        component: "replication-controller",
        selector: service_selector,
        counts_terminating: false,
    };

    fn key(&self, name: ObjectName) -> Key {
        Key::new(self.controller, self.kind, name)
    }
}

impl Default for ReplicaSets {
    /// Makes pods of ReplicaSets.
    fn default() -> Self {
        Self {
            controller: Controller::ReplicaSet,
            kind: REPLICA_SETS,
            component: "replicaset-controller",
            selector: Selector::from_json,
            counts_terminating: true,
        }
    }
}

impl Reconciler for ReplicaSets {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        plane.workload_changed(change, self.controller, self.kind, self.selector);
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        plane.sync_replica_set(self, &key.name);
    }
}

impl Plane {
    fn sync_replica_set(&mut self, sets: &ReplicaSets, name: &ObjectName) {
        let Some(object) = self.cluster.get(sets.kind, &name.namespace, &name.name) else {
            self.refused.remove(&sets.key(name.clone()));
            return;
        };
        let value = object.value();
        // ReplicationControllers have the same fields, but for the form of the selector.
        let value = ReplicaSet(&value);
        let selector = (sets.selector)(value.spec().selector().0);
        let owned = self.claim_pods(&object, &selector);
        let active: Vec<_> = owned.iter().filter(|pod| pod.active()).map(Arc::clone).collect();
        let wanted = usize::try_from(value.spec().replicas().unwrap_or(1)).unwrap_or_default();
        let mut failure = None;
        let mut acted = false;
        if !object.deleting {
            let failed = owned.iter().filter(|pod| pod.phase == Phase::Failed).map(|pod| pod.created).max();
            let waits = failed
                .is_some_and(|made| active.len() < wanted && !self.may_replace(&sets.key(name.clone()), "", made));
            if waits {
                // What is there is counted, and its replacement comes later.
            } else if active.len() < wanted {
                for batch_step in slow_start(wanted - active.len(), BURST) {
                    let mut refused = false;
                    for _ in 0..batch_step {
                        let pod = pod_of_template(&object, value.spec().template());
                        match self.create_pod(&object, sets.component, pod) {
                            Ok(_) => acted = true,
                            Err(status) => {
                                refused = true;
                                failure = Some(("FailedCreate", status.message));
                            }
                        }
                    }
                    if refused {
                        self.retry_later(sets.key(name.clone()));
                        break;
                    }
                }
            } else if active.len() > wanted {
                let crowding = self.crowding(&object);
                let mut victims = active.clone();
                let has_costs = self.settings.features.has(Gate::PodDeletionCost);
                victims.sort_by(|left, right| {
                    deletion_rank(left, &crowding, has_costs)
                        .cmp(&deletion_rank(right, &crowding, has_costs))
                        .then_with(|| right.object.name.cmp(&left.object.name))
                });
                for pod in victims.iter().take((active.len() - wanted).min(BURST)) {
                    self.delete_pod(&object, sets.component, pod);
                    acted = true;
                }
            }
        }
        if failure.is_none() {
            self.refused.remove(&sets.key(name.clone()));
        }
        // The changes just made bring this key back; counting before they settle would only write twice.
        if acted && failure.is_none() {
            return;
        }
        self.write_replica_set_status(sets, name, value, &owned, &active, failure);
    }

    fn write_replica_set_status(
        &mut self,
        sets: &ReplicaSets,
        name: &ObjectName,
        value: ReplicaSet<'_>,
        owned: &[Arc<PodInfo>],
        active: &[Arc<PodInfo>],
        failure: Option<(&'static str, String)>,
    ) {
        let now = self.now();
        let min_ready = value.spec().min_ready_seconds();
        let labels = value.spec().template().metadata().labels();
        let count = |wanted: &dyn Fn(&PodInfo) -> bool| active.iter().filter(|pod| wanted(pod)).count();
        let available = count(&|pod| pod.available(min_ready, now));
        let ready = count(&|pod| pod.ready);
        if available < ready {
            self.wait_for_availability(sets.key(name.clone()), active, min_ready);
        }
        let mut status = json!({ "replicas": active.len() });
        let mut set = |field: &str, number: usize| {
            if number > 0 {
                status[field] = json!(number);
            }
        };
        let is_labelled = |pod: &PodInfo| labels.iter().all(|(key, value)| pod.object.label(key) == Some(value));
        set("fullyLabeledReplicas", count(&is_labelled));
        set("readyReplicas", ready);
        set("availableReplicas", available);
        if sets.counts_terminating && self.settings.features.has(Gate::DeploymentReplicaSetTerminatingReplicas) {
            status["terminatingReplicas"] =
                json!(owned.iter().filter(|pod| pod.object.deleting && !pod.finished()).count());
        }
        status["observedGeneration"] = json!(value.metadata().generation());
        let have = value.status().conditions();
        let others = have.clone().filter(|condition| condition.type_() != "ReplicaFailure");
        let mut conditions: Vec<Value> = others.map(|condition| condition.0.clone()).collect();
        if let Some((reason, message)) = failure {
            // The first message stays: each names another pod that could not be made.
            let first = have.of_type("ReplicaFailure").map(|condition| condition.0.clone());
            conditions.push(first.unwrap_or_else(|| {
                json!({
                    "type": "ReplicaFailure", "status": "True", "lastTransitionTime": time_text(now),
                    "reason": reason, "message": message,
                })
            }));
        }
        if !conditions.is_empty() {
            *list_mut(&mut status["conditions"]) = conditions;
        }
        if status != *value.status().0 {
            let _written =
                self.cluster.modify(sets.kind, Part::Status, &name.namespace, &name.name, &writes(), |object| {
                    object["status"] = status;
                });
        }
    }

    /// How many active pods of the same Deployment (or of this ReplicaSet alone) each node holds.
    fn crowding(&self, object: &klab_api_machinery::object::Object) -> HashMap<Box<str>, usize> {
        let mut sets = vec![object.uid.clone()];
        if let Some(owner) = object.controller() {
            for (resource, name) in self.view.dependents_of(&owner.uid) {
                if *resource == REPLICA_SETS
                    && let Some(sibling) = self.cluster.get(REPLICA_SETS, &name.namespace, &name.name)
                    && sibling.uid != object.uid
                {
                    sets.push(sibling.uid.clone());
                }
            }
        }
        let mut crowding: HashMap<Box<str>, usize> = HashMap::new();
        for uid in sets {
            for pod in self.view.pods_of(&uid).iter().filter(|pod| pod.active() && !pod.node.is_empty()) {
                *crowding.entry(pod.node.clone()).or_default() += 1;
            }
        }
        crowding
    }
}

/// Smaller is deleted first: unbound, pending, not ready, cheap by annotation, on crowded nodes, most recently ready,
/// youngest (<https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#scaling-a-replicaset>).
fn deletion_rank(
    pod: &PodInfo,
    crowding: &HashMap<Box<str>, usize>,
    has_costs: bool,
) -> (bool, u8, bool, i64, std::cmp::Reverse<usize>, std::cmp::Reverse<i64>, std::cmp::Reverse<jiff::Timestamp>) {
    use std::cmp::Reverse;
    let phase = match pod.phase {
        Phase::Pending => 0,
        Phase::Unknown => 1,
        _ => 2,
    };
    let value = pod.object.value();
    let cost = Pod(&value).metadata().annotations().get("controller.kubernetes.io/pod-deletion-cost");
    let cost = cost.and_then(|cost| cost.parse().ok()).filter(|_| has_costs).unwrap_or_default();
    let ready_since = pod.ready_changed.filter(|_| pod.ready).map_or(i64::MIN, jiff::Timestamp::as_second);
    (
        !pod.node.is_empty(),
        phase,
        pod.ready,
        cost,
        Reverse(crowding.get(&pod.node).copied().unwrap_or_default()),
        Reverse(ready_since),
        Reverse(pod.created),
    )
}
