//! A Deployment's status: counts, Available, Progressing with its deadline, ReplicaFailure.

// upstream: pkg/controller/deployment/progress.go syncRolloutStatus (v1.36)
// upstream: pkg/controller/deployment/util/deployment_util.go DeploymentTimedOut (v1.36)

use jiff::SignedDuration;
use klab_api_machinery::value::{list_mut, map_mut, time_text};
use klab_api_machinery::views::{DeploymentCondition, DeploymentStatus, ReplicaSetStatus};
use klab_scheduler::features::Gate;
use serde_json::{Value, json};
use std::sync::Arc;

use super::super::plane::Plane;
use super::sets::Sets;
use super::spec::{Deployment, key};
use crate::clock::later;

const PROGRESSING: &str = "Progressing";
const AVAILABLE_REASON: &str = "NewReplicaSetAvailable";

impl Plane {
    /// The status without judging progress: for scaling, pausing, deletion.
    pub(super) fn write_deployment_status(&mut self, deployment: &mut Deployment, sets: &Sets) {
        let status = self.status_of(deployment, sets);
        if status != *deployment.read().status().0 {
            Arc::make_mut(&mut deployment.value)["status"] = status;
            self.put_deployment_status(deployment);
        }
    }

    /// The status during a rollout, with Progressing and ReplicaFailure.
    pub(super) fn write_rollout_status(&mut self, deployment: &mut Deployment, sets: &Sets) {
        let mut status = self.status_of(deployment, sets);
        let now = self.now();
        let name = sets.new_set().map_or_else(
            || format!("Deployment \"{}\"", deployment.name.name),
            |set| format!("ReplicaSet \"{}\"", set.object.name),
        );
        let current = DeploymentStatus(&status).conditions().of_type(PROGRESSING).map(|current| current.0.clone());
        let current = current.as_ref().map(DeploymentCondition);
        match deployment.progress_deadline() {
            None => drop_condition(&mut status, PROGRESSING),
            Some(deadline) => {
                let counts = DeploymentStatus(&status);
                let settled = counts.replicas() == counts.updated_replicas()
                    && current.is_some_and(|current| current.reason() == AVAILABLE_REASON);
                let mut set = |value: &str, reason: &str, message: String| {
                    set_deployment_condition(&mut status, PROGRESSING, value, reason, &message, now);
                };
                if settled {
                } else if is_complete(deployment, sets) {
                    set("True", AVAILABLE_REASON, format!("{name} has successfully progressed."));
                } else if has_progressed(deployment.read().status(), DeploymentStatus(&counts_of(deployment, sets))) {
                    let held = current.filter(|current| current.status() == "True");
                    drop_condition(&mut status, PROGRESSING);
                    set_deployment_condition(
                        &mut status,
                        PROGRESSING,
                        "True",
                        "ReplicaSetUpdated",
                        &format!("{name} is progressing."),
                        now,
                    );
                    if let Some(transition) = held.and_then(DeploymentCondition::last_transition_time)
                        && let Some(last) = list_mut(&mut status["conditions"]).last_mut()
                    {
                        last["lastTransitionTime"] = json!(time_text(transition));
                    }
                } else if current.is_some_and(|current| has_timed_out(current, deadline, now)) {
                    set("False", "ProgressDeadlineExceeded", format!("{name} has timed out progressing."));
                }
                self.wait_for_deadline(deployment, &status, deadline);
            }
        }
        set_replica_failure(&mut status, sets, now);
        if status != *deployment.read().status().0 {
            Arc::make_mut(&mut deployment.value)["status"] = status;
            self.put_deployment_status(deployment);
        }
    }

    fn status_of(&self, deployment: &Deployment, sets: &Sets) -> Value {
        let mut status = counts_of(deployment, sets);
        if !self.settings.features.has(Gate::DeploymentReplicaSetTerminatingReplicas) {
            map_mut(&mut status).remove("terminatingReplicas");
        }
        status["conditions"] = deployment.read().status().conditions().map(|have| have.0.clone()).collect();
        let available = DeploymentStatus(&status).available_replicas();
        let (value, reason, message) = if available >= deployment.replicas() - deployment.max_unavailable() {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        set_deployment_condition(&mut status, "Available", value, reason, message, self.now());
        status
    }

    /// A rollout that makes no progress is looked at again when its deadline has passed.
    fn wait_for_deadline(&mut self, deployment: &Deployment, status: &Value, deadline: i64) {
        let status = DeploymentStatus(status);
        let Some(current) = status.conditions().of_type(PROGRESSING) else { return };
        if says_complete(deployment, status) || current.reason() == "ProgressDeadlineExceeded" {
            return;
        }
        if let Some(updated) = current.last_update_time() {
            let instant = later(updated, SignedDuration::from_secs(deadline.saturating_add(1)));
            if instant > self.now() {
                self.queue.add_at(key(deployment.name.clone()), instant);
            }
        }
    }

    /// Sets Progressing outside a rollout's judgement (new set made or found, or could not be made).
    pub(super) fn write_progress(&mut self, deployment: &mut Deployment, value: &str, reason: &str, message: &str) {
        let now = self.now();
        set_deployment_condition(
            &mut Arc::make_mut(&mut deployment.value)["status"],
            PROGRESSING,
            value,
            reason,
            message,
            now,
        );
        self.put_deployment_status(deployment);
    }

    /// Pausing and resuming are noted in Progressing, so that the deadline does not run meanwhile.
    pub(super) fn note_pause(&mut self, deployment: &mut Deployment) {
        if deployment.progress_deadline().is_none() {
            return;
        }
        let current = deployment.read().status().conditions().of_type(PROGRESSING);
        let reason = current.map_or("", DeploymentCondition::reason);
        if reason == "ProgressDeadlineExceeded" {
            return;
        }
        let noted = reason == "DeploymentPaused";
        if deployment.paused() && !noted {
            self.write_progress(deployment, "Unknown", "DeploymentPaused", "Deployment is paused");
        } else if !deployment.paused() && noted {
            self.write_progress(deployment, "Unknown", "DeploymentResumed", "Deployment is resumed");
        }
    }
}

fn counts_of(deployment: &Deployment, sets: &Sets) -> Value {
    let available = sets.sum(ReplicaSetStatus::available_replicas);
    let mut status = json!({
        "observedGeneration": deployment.read().metadata().generation(),
        "terminatingReplicas": sets.sum(|status| status.terminating_replicas().unwrap_or_default()),
    });
    let mut set = |field: &str, number: i64| {
        if number > 0 {
            status[field] = json!(number);
        }
    };
    set("replicas", sets.sum(ReplicaSetStatus::replicas));
    set("updatedReplicas", sets.new_set().map_or(0, |set| set.read().status().replicas()));
    set("readyReplicas", sets.sum(ReplicaSetStatus::ready_replicas));
    set("availableReplicas", available);
    set("unavailableReplicas", sets.total() - available);
    if let Some(collisions) = deployment.read().status().collision_count() {
        status["collisionCount"] = json!(collisions);
    }
    status
}

/// Whether all pods are of the new set and available.
pub(super) fn is_complete(deployment: &Deployment, sets: &Sets) -> bool {
    says_complete(deployment, DeploymentStatus(&counts_of(deployment, sets)))
}

fn says_complete(deployment: &Deployment, status: DeploymentStatus<'_>) -> bool {
    let counts = [status.updated_replicas(), status.replicas(), status.available_replicas()];
    counts == [deployment.replicas(); 3]
}

fn has_progressed(old: DeploymentStatus<'_>, new: DeploymentStatus<'_>) -> bool {
    let old_pods = |status: DeploymentStatus<'_>| status.replicas() - status.updated_replicas();
    new.updated_replicas() > old.updated_replicas()
        || old_pods(new) < old_pods(old)
        || new.ready_replicas() > old.ready_replicas()
        || new.available_replicas() > old.available_replicas()
}

fn has_timed_out(current: DeploymentCondition<'_>, deadline: i64, now: jiff::Timestamp) -> bool {
    let end = |updated| later(updated, SignedDuration::from_secs(deadline));
    match current.reason() {
        AVAILABLE_REASON => false,
        "ProgressDeadlineExceeded" => true,
        _ => current.last_update_time().is_some_and(|updated| end(updated) < now),
    }
}

fn drop_condition(status: &mut Value, kind: &str) {
    list_mut(&mut status["conditions"]).retain(|have| DeploymentCondition(have).type_() != kind);
}

fn set_replica_failure(status: &mut Value, sets: &Sets, now: jiff::Timestamp) {
    const KIND: &str = "ReplicaFailure";
    let mut all = sets.new_set().into_iter().chain(sets.old());
    match all.find_map(|set| set.read().status().conditions().of_type(KIND)) {
        Some(why) => set_deployment_condition(status, KIND, why.status(), why.reason(), why.message(), now),
        None => drop_condition(status, KIND),
    }
}

/// Sets a Deployment's condition as its controller does: moved to the end when status or reason change.
fn set_deployment_condition(
    status: &mut Value,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: jiff::Timestamp,
) {
    let have = DeploymentStatus(status).conditions().of_type(kind).filter(|have| have.status() == value);
    if have.is_some_and(|have| have.reason() == reason) {
        return;
    }
    let transition = have.and_then(DeploymentCondition::last_transition_time).unwrap_or(now);
    drop_condition(status, kind);
    list_mut(&mut status["conditions"]).push(json!({
        "type": kind, "status": value, "lastUpdateTime": time_text(now), "lastTransitionTime": time_text(transition),
        "reason": reason, "message": message,
    }));
}
