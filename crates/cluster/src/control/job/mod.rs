//! Jobs: pods until enough have succeeded, or too many failed. Here is what is decided at each look at one.

// upstream: pkg/controller/job/job_controller.go syncJob (v1.36)

mod backoff;
mod component;
mod failure_policy;
mod held;
mod indexes;
mod look;
mod pods;
mod success_policy;
mod tracking;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::SignedDuration;
use klab_api_machinery::resource::{JOBS, PODS};
use klab_api_machinery::value::{map_mut, time_text};
use klab_api_machinery::views::{Job, JobCondition, JobStatus, Pod};
use klab_scheduler::selector::Selector;
use serde_json::json;

use self::backoff::Record;
use self::component::{COMPONENT, key};
use self::held::TRACKING;
use self::indexes::Indexes;
use self::look::{End, EndKind, Look};
use super::controller::Controller;
use super::plane::Plane;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::{Phase, PodInfo};
use crate::clock::later;

/// The manager of Jobs that name none.
const MANAGER: &str = "kubernetes.io/job-controller";

/// Makes pods of Jobs.
#[derive(Default)]
pub(super) struct Jobs {
    /// How often pods of each have failed since one last succeeded. At a start the pods that are there tell it.
    failures: HashMap<ObjectName, Record>,
}

impl Reconciler for Jobs {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        plane.workload_changed(change, Controller::Job, JOBS, Selector::from_json);
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        self.sync_job(plane, &key.name);
    }
}

impl Jobs {
    fn sync_job(&mut self, plane: &mut Plane, name: &ObjectName) {
        let Some(object) = plane.cluster.get(JOBS, &name.namespace, &name.name) else {
            plane.refused.remove(&key(name.clone()));
            self.failures.remove(name);
            plane.release_pods_of_absent_job(name);
            return;
        };
        let value = object.value();
        let job = Job(&value);
        if job.spec().managed_by().is_some_and(|manager| manager != MANAGER) {
            return;
        }
        let conditions = job.status().conditions();
        if conditions.clone().is_true("Complete") || conditions.is_true("Failed") {
            self.failures.remove(name);
            return;
        }
        let selector = Selector::from_json(job.spec().selector().0);
        let pods = plane.claim_pods(&object, &selector);
        let mut look = Look::new(object, value, pods);
        look.record = self.failures_of(&look);
        plane.decide(&mut look);
        let job = &mut look.job;
        job.set("active", look.active);
        job.status["ready"] = json!(look.ready);
        job.status["terminating"] = json!(look.terminating);
        plane.track(&mut look);
        self.failures.insert(name.clone(), look.record);
    }

    /// The record of failures, with the pods that have ended since the last look.
    fn failures_of(&self, look: &Look) -> Record {
        let ends = |pods: &[&Arc<PodInfo>]| -> Vec<_> {
            pods.iter().map(|pod| backoff::finished_at(pod, Pod(&pod.object.value()))).collect()
        };
        if let Some(record) = self.failures.get(&look.job.name) {
            return record.after(&ends(&look.new_succeeded()), &ends(&look.new_failed()));
        }
        let all = |phase: Phase| look.pods.iter().filter(|pod| pod.phase == phase).collect::<Vec<_>>();
        let before = Record::default().after(&ends(&all(Phase::Succeeded)), &ends(&all(Phase::Failed)));
        let deleted: Vec<_> = look.new_failed().into_iter().filter(|pod| pod.phase != Phase::Failed).collect();
        before.after(&[], &ends(&deleted))
    }
}

impl Plane {
    /// Whether the Job is to end, and if not, what pods it gets or loses.
    fn decide(&mut self, look: &mut Look) {
        let now = self.now();
        let suspended = look.job.is_suspended();
        if look.job.status().start_time().is_none() && !suspended {
            look.job.status["startTime"] = json!(time_text(now));
        }
        look.end = end_decided_before(look.job.status()).or_else(|| self.failure(look));
        if look.job.is_indexed() {
            judge_indexes(look);
        }
        if look.end.is_some() {
            for pod in std::mem::take(&mut look.active_pods) {
                self.delete_pod(&look.job.object, COMPONENT, &pod);
                look.count_deleted(&pod);
            }
            return;
        }
        if look.job.object.deleting {
            return;
        }
        self.size_job(look);
        let complete = match look.job.spec().completions() {
            Some(completions) => look.succeeded >= completions && look.active == 0,
            None => look.succeeded > 0 && look.active == 0,
        };
        if complete {
            let message = "Reached expected number of succeeded pods";
            look.end = Some(End::new(EndKind::SuccessCriteriaMet, "CompletionsReached", message));
        } else if suspended {
            if look.job.ensure_condition("Suspended", true, "JobSuspended", "Job suspended", now) {
                self.note(&look.job.object, COMPONENT, false, "Suspended", "Job suspended");
                map_mut(&mut look.job.status).remove("startTime");
            }
        } else if look.job.ensure_condition("Suspended", false, "JobResumed", "Job resumed", now) {
            self.note(&look.job.object, COMPONENT, false, "Resumed", "Job resumed");
            look.job.status["startTime"] = json!(time_text(now));
        }
    }

    /// A failure of the Job as a whole.
    fn failure(&mut self, look: &Look) -> Option<End> {
        let fatal = look
            .pods
            .iter()
            .filter(|pod| look.job.counts_as_failed(pod))
            .find_map(|pod| look.job.verdict(&pod.object.value()).filter(|verdict| verdict.action == "FailJob"));
        if let Some(fatal) = fatal {
            return Some(End::new(EndKind::FailureTarget, "PodFailurePolicy", &fatal.message));
        }
        let limit = look.job.spec().backoff_limit().unwrap_or(6);
        if look.failed > limit || look.has_restarted_too_often(limit) {
            let message = "Job has reached the specified backoff limit";
            return Some(End::new(EndKind::FailureTarget, "BackoffLimitExceeded", message));
        }
        let deadline = look.job.spec().active_deadline_seconds()?;
        let start = look.job.status().start_time().filter(|_| !look.job.is_suspended())?;
        let end = later(start, SignedDuration::from_secs(deadline));
        if end <= self.now() {
            let message = "Job was active longer than specified deadline";
            return Some(End::new(EndKind::FailureTarget, "DeadlineExceeded", message));
        }
        self.queue.add_at(key(look.job.name.clone()), end);
        None
    }

    fn release_pods_of_absent_job(&mut self, name: &ObjectName) {
        let left: Vec<ObjectName> = self
            .view
            .pods_in(&name.namespace)
            .filter(|pod| pod.object.label("batch.kubernetes.io/job-name") == Some(&name.name))
            .map(|pod| pod.name())
            .collect();
        for pod in left {
            self.release(PODS, &pod, TRACKING);
        }
    }
}

/// Which indexes have succeeded and failed, and what that means for the Job.
fn judge_indexes(look: &mut Look) {
    let completions = look.job.spec().completions().unwrap_or_default();
    look.succeeded_before = Indexes::parse(look.job.status().completed_indexes(), completions);
    let newly: Vec<i64> = look.new_succeeded_indexes(completions);
    look.succeeded_indexes = look.succeeded_before.with(newly);
    look.succeeded = look.succeeded_indexes.len();
    if let Some(limit) = look.job.spec().backoff_limit_per_index() {
        let failed = Indexes::parse(look.job.status().failed_indexes().unwrap_or_default(), completions);
        let failed = failed.with(look.new_failed_indexes(completions, limit));
        if look.end.is_none() {
            let most = look.job.spec().max_failed_indexes();
            look.end = if most.is_some_and(|most| failed.len() > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                Some(End::new(EndKind::FailureTarget, "MaxFailedIndexesExceeded", message))
            } else if failed.len() > 0 && failed.len() + look.succeeded >= completions {
                Some(End::new(EndKind::FailureTarget, "FailedIndexes", "Job has failed indexes"))
            } else {
                None
            };
        }
        look.failed_indexes = Some(failed);
        look.find_replaceable(completions);
    }
    if look.end.is_none()
        && let Some(message) =
            success_policy::met(look.job.spec().success_policy(), completions, &look.succeeded_indexes)
    {
        look.end = Some(End::new(EndKind::SuccessCriteriaMet, "SuccessPolicy", &message));
    }
}

/// What an earlier look decided, which stays.
fn end_decided_before(status: JobStatus<'_>) -> Option<End> {
    let held = |kind: &str| status.conditions().of_type(kind).filter(|have| have.status() == "True");
    let end = |kind: EndKind, have: JobCondition<'_>| End::new(kind, have.reason(), have.message());
    held("SuccessCriteriaMet")
        .map(|have| end(EndKind::SuccessCriteriaMet, have))
        .or_else(|| held("FailureTarget").map(|have| end(EndKind::Failed, have)))
}
