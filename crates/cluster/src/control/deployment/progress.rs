//! A Deployment's status: counts, Available, Progressing with its deadline, ReplicaFailure.

// upstream: pkg/controller/deployment/progress.go syncRolloutStatus (v1.36)
// upstream: pkg/controller/deployment/util/deployment_util.go DeploymentTimedOut (v1.36)

use jiff::SignedDuration;
use klab_api_machinery::value::{condition, list_mut, map_mut, time_text};
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
        if status != *deployment.view().status().0 {
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
        let current = condition(&status["conditions"], PROGRESSING).cloned();
        match deployment.progress_deadline() {
            None => list_mut(&mut status["conditions"]).retain(|have| have["type"] != PROGRESSING),
            Some(deadline) => {
                let current = current.as_ref().map(DeploymentCondition);
                let counts = DeploymentStatus(&status);
                let settled = counts.replicas() == counts.updated_replicas()
                    && current.is_some_and(|current| current.reason() == AVAILABLE_REASON);
                let mut set = |value: &str, reason: &str, message: String| {
                    set_deployment_condition(&mut status, PROGRESSING, value, reason, &message, now);
                };
                if settled {
                } else if is_complete(deployment, sets) {
                    set("True", AVAILABLE_REASON, format!("{name} has successfully progressed."));
                } else if has_progressed(deployment.view().status(), DeploymentStatus(&status_counts(deployment, sets)))
                {
                    let transition = current
                        .filter(|current| current.status() == "True")
                        .map(|current| current.0["lastTransitionTime"].clone());
                    list_mut(&mut status["conditions"]).retain(|have| have["type"] != PROGRESSING);
                    set_deployment_condition(
                        &mut status,
                        PROGRESSING,
                        "True",
                        "ReplicaSetUpdated",
                        &format!("{name} is progressing."),
                        now,
                    );
                    if let Some(transition) = transition
                        && let Some(last) = list_mut(&mut status["conditions"]).last_mut()
                    {
                        last["lastTransitionTime"] = transition;
                    }
                } else if let Some(current) = current
                    && has_timed_out(current, deadline, now)
                {
                    set("False", "ProgressDeadlineExceeded", format!("{name} has timed out progressing."));
                }
                self.wait_for_deadline(deployment, DeploymentStatus(&status), deadline);
            }
        }
        set_replica_failure(&mut status, sets, now);
        if status != *deployment.view().status().0 {
            Arc::make_mut(&mut deployment.value)["status"] = status;
            self.put_deployment_status(deployment);
        }
    }

    fn status_of(&self, deployment: &Deployment, sets: &Sets) -> Value {
        let mut status = status_counts(deployment, sets);
        if !self.settings.features.has(Gate::DeploymentReplicaSetTerminatingReplicas) {
            map_mut(&mut status).remove("terminatingReplicas");
        }
        let conditions = &deployment.view().status().0["conditions"];
        if !conditions.is_null() {
            status["conditions"] = conditions.clone();
        }
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
    fn wait_for_deadline(&mut self, deployment: &Deployment, status: DeploymentStatus<'_>, deadline: i64) {
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
        let current = deployment.view().status().conditions().of_type(PROGRESSING);
        let reason = current.map_or("", DeploymentCondition::reason);
        let (paused, noted) = (deployment.spec().paused(), reason == "DeploymentPaused");
        if reason == "ProgressDeadlineExceeded" {
            return;
        }
        if paused && !noted {
            self.write_progress(deployment, "Unknown", "DeploymentPaused", "Deployment is paused");
        } else if !paused && noted {
            self.write_progress(deployment, "Unknown", "DeploymentResumed", "Deployment is resumed");
        }
    }
}

fn status_counts(deployment: &Deployment, sets: &Sets) -> Value {
    let available: i64 = sets.statuses().map(ReplicaSetStatus::available_replicas).sum();
    let mut status = json!({
        "observedGeneration": deployment.view().metadata().generation(),
        "terminatingReplicas": sets.statuses().filter_map(ReplicaSetStatus::terminating_replicas).sum::<i64>(),
    });
    let mut set = |field: &str, number: i64| {
        if number > 0 {
            status[field] = json!(number);
        }
    };
    set("replicas", sets.statuses().map(ReplicaSetStatus::replicas).sum());
    set("updatedReplicas", sets.new_set().map_or(0, |set| set.status().replicas()));
    set("readyReplicas", sets.statuses().map(ReplicaSetStatus::ready_replicas).sum());
    set("availableReplicas", available);
    set("unavailableReplicas", sets.total() - available);
    if let Some(collisions) = deployment.view().status().collision_count() {
        status["collisionCount"] = json!(collisions);
    }
    status
}

/// Whether all pods are of the new set and available.
pub(super) fn is_complete(deployment: &Deployment, sets: &Sets) -> bool {
    says_complete(deployment, DeploymentStatus(&status_counts(deployment, sets)))
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
    match current.reason() {
        AVAILABLE_REASON => false,
        "ProgressDeadlineExceeded" => true,
        _ => (current.last_update_time())
            .is_some_and(|updated| later(updated, SignedDuration::from_secs(deadline)) < now),
    }
}

fn set_replica_failure(status: &mut Value, sets: &Sets, now: jiff::Timestamp) {
    let mut all = sets.new_set().into_iter().chain(sets.old());
    match all.find_map(|set| set.status().conditions().of_type("ReplicaFailure")) {
        Some(failure) => {
            let (reason, message) = (failure.reason(), failure.message());
            set_deployment_condition(status, "ReplicaFailure", failure.status(), reason, message, now);
        }
        None => list_mut(&mut status["conditions"]).retain(|have| have["type"] != "ReplicaFailure"),
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
    let conditions = list_mut(&mut status["conditions"]);
    let mut transition = time_text(now);
    if let Some(have) = conditions.iter().map(DeploymentCondition).find(|have| have.type_() == kind)
        && have.status() == value
    {
        if have.reason() == reason {
            return;
        }
        transition = have.last_transition_time().map_or(transition, time_text);
    }
    conditions.retain(|have| have["type"] != kind);
    conditions.push(json!({
        "type": kind, "status": value, "lastUpdateTime": time_text(now), "lastTransitionTime": transition,
        "reason": reason, "message": message,
    }));
}
