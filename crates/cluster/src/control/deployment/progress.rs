//! A Deployment's status: counts, Available, Progressing with its deadline, ReplicaFailure.

// upstream: pkg/controller/deployment/progress.go syncRolloutStatus (v1.36)
// upstream: pkg/controller/deployment/util/deployment_util.go DeploymentTimedOut (v1.36)

use jiff::SignedDuration;
use klab_api_machinery::value::{condition, integer, list_mut, map_mut, text, time_of, time_text};
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
        if status != deployment.value["status"] {
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
                let count = |field: &str| integer(&status, &[field]).unwrap_or_default();
                let settled = count("replicas") == count("updatedReplicas")
                    && current.as_ref().is_some_and(|current| current["reason"] == AVAILABLE_REASON);
                let mut set = |value: &str, reason: &str, message: String| {
                    set_deployment_condition(&mut status, PROGRESSING, value, reason, &message, now);
                };
                if settled {
                } else if is_complete(deployment, sets) {
                    set("True", AVAILABLE_REASON, format!("{name} has successfully progressed."));
                } else if has_progressed(&deployment.value["status"], &status_counts(deployment, sets)) {
                    let transition = current
                        .as_ref()
                        .filter(|current| current["status"] == "True")
                        .map(|current| current["lastTransitionTime"].clone());
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
                } else if let Some(current) = &current
                    && has_timed_out(current, deadline, now)
                {
                    set("False", "ProgressDeadlineExceeded", format!("{name} has timed out progressing."));
                }
                self.wait_for_deadline(deployment, &status, deadline);
            }
        }
        set_replica_failure(&mut status, sets, now);
        if status != deployment.value["status"] {
            Arc::make_mut(&mut deployment.value)["status"] = status;
            self.put_deployment_status(deployment);
        }
    }

    fn status_of(&self, deployment: &Deployment, sets: &Sets) -> Value {
        let mut status = status_counts(deployment, sets);
        if !self.settings.features.has(Gate::DeploymentReplicaSetTerminatingReplicas) {
            map_mut(&mut status).remove("terminatingReplicas");
        }
        let conditions = &deployment.value["status"]["conditions"];
        if !conditions.is_null() {
            status["conditions"] = conditions.clone();
        }
        let available = integer(&status, &["availableReplicas"]).unwrap_or_default();
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
        let Some(current) = condition(&status["conditions"], PROGRESSING) else { return };
        if says_complete(deployment, status) || current["reason"] == "ProgressDeadlineExceeded" {
            return;
        }
        if let Some(updated) = time_of(&current["lastUpdateTime"]) {
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
        let current = condition(&deployment.value["status"]["conditions"], PROGRESSING);
        let reason = current.map(|current| text(current, &["reason"]).to_owned());
        if reason.as_deref() == Some("ProgressDeadlineExceeded") {
            return;
        }
        let noted = reason.as_deref() == Some("DeploymentPaused");
        if deployment.paused() && !noted {
            self.write_progress(deployment, "Unknown", "DeploymentPaused", "Deployment is paused");
        } else if !deployment.paused() && noted {
            self.write_progress(deployment, "Unknown", "DeploymentResumed", "Deployment is resumed");
        }
    }
}

fn status_counts(deployment: &Deployment, sets: &Sets) -> Value {
    let available = sets.sum("availableReplicas");
    let mut status = json!({
        "observedGeneration": deployment.value["metadata"]["generation"],
        "terminatingReplicas": sets.sum("terminatingReplicas"),
    });
    let mut set = |field: &str, number: i64| {
        if number > 0 {
            status[field] = json!(number);
        }
    };
    set("replicas", sets.sum("replicas"));
    set("updatedReplicas", sets.new_set().map_or(0, super::sets::ReplicaSetView::actual));
    set("readyReplicas", sets.sum("readyReplicas"));
    set("availableReplicas", available);
    set("unavailableReplicas", sets.total() - available);
    let collisions = &deployment.value["status"]["collisionCount"];
    if !collisions.is_null() {
        status["collisionCount"] = collisions.clone();
    }
    status
}

/// Whether all pods are of the new set and available.
pub(super) fn is_complete(deployment: &Deployment, sets: &Sets) -> bool {
    says_complete(deployment, &status_counts(deployment, sets))
}

fn says_complete(deployment: &Deployment, status: &Value) -> bool {
    let wanted = deployment.replicas();
    ["updatedReplicas", "replicas", "availableReplicas"]
        .iter()
        .all(|field| integer(status, &[field]).unwrap_or_default() == wanted)
}

fn has_progressed(old: &Value, new: &Value) -> bool {
    let count = |status: &Value, field: &str| integer(status, &[field]).unwrap_or_default();
    let old_pods = |status: &Value| count(status, "replicas") - count(status, "updatedReplicas");
    count(new, "updatedReplicas") > count(old, "updatedReplicas")
        || old_pods(new) < old_pods(old)
        || count(new, "readyReplicas") > count(old, "readyReplicas")
        || count(new, "availableReplicas") > count(old, "availableReplicas")
}

fn has_timed_out(current: &Value, deadline: i64, now: jiff::Timestamp) -> bool {
    match text(current, &["reason"]) {
        AVAILABLE_REASON => false,
        "ProgressDeadlineExceeded" => true,
        _ => time_of(&current["lastUpdateTime"])
            .is_some_and(|updated| later(updated, SignedDuration::from_secs(deadline)) < now),
    }
}

fn set_replica_failure(status: &mut Value, sets: &Sets, now: jiff::Timestamp) {
    let failure = sets
        .new_set()
        .into_iter()
        .chain(sets.old())
        .find_map(|set| condition(&set.value["status"]["conditions"], "ReplicaFailure").cloned());
    match failure {
        Some(failure) => set_deployment_condition(
            status,
            "ReplicaFailure",
            text(&failure, &["status"]),
            text(&failure, &["reason"]),
            text(&failure, &["message"]),
            now,
        ),
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
    if let Some(have) = conditions.iter().find(|have| have["type"] == kind) {
        if have["status"] == value && have["reason"] == reason {
            return;
        }
        if have["status"] == value {
            text(have, &["lastTransitionTime"]).clone_into(&mut transition);
        }
    }
    conditions.retain(|have| have["type"] != kind);
    conditions.push(json!({
        "type": kind, "status": value, "lastUpdateTime": time_text(now), "lastTransitionTime": transition,
        "reason": reason, "message": message,
    }));
}
