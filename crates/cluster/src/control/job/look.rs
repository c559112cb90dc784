//! A Job and its pods, as they are at one look.

// upstream: pkg/controller/job/job_controller.go syncJobCtx, isPodFailed, getNewFinishedPods (v1.36)
// upstream: pkg/controller/job/indexed_job_utils.go isIndexFailed, getPodsWithDelayedDeletionPerIndex (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::value::{integer, items, list_mut, map_mut, set_condition, time_text};
use klab_api_machinery::views::{self, ContainerStatus, JobSpec, JobStatus, Pod};
use serde_json::{Value, json};

use super::super::queue::ObjectName;
use super::super::view::{Phase, PodInfo};
use super::backoff::{Record, finished_at};
use super::failure_policy::{Verdict, verdict};
use super::held::{has_stopped, is_tracked};
use super::indexes::Indexes;

/// Which index a pod works on: as a label, and as an annotation.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often pods of the index have failed before this one.
pub(super) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// How often they have failed so that it did not count.
pub(super) const INDEX_IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// One Job during a sync.
pub(super) struct Job {
    pub(super) name: ObjectName,
    pub(super) object: Arc<Object>,
    pub(super) value: Arc<Value>,
    /// The status as the controller wants it.
    pub(super) status: Value,
    /// The status as it was last written.
    pub(super) written: Value,
}

impl Job {
    pub(super) fn spec(&self) -> JobSpec<'_> {
        views::Job(&self.value).spec()
    }

    pub(super) fn status(&self) -> JobStatus<'_> {
        JobStatus(&self.status)
    }

    pub(super) fn count(&self, field: &str) -> i64 {
        integer(&self.status, &[field]).unwrap_or_default()
    }

    pub(super) fn set(&mut self, field: &str, number: i64) {
        if number > 0 {
            self.status[field] = json!(number);
        } else {
            map_mut(&mut self.status).remove(field);
        }
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.spec().completion_mode() == Some("Indexed")
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec().suspend() == Some(true)
    }

    /// Whether a pod is replaced only when it has failed, not already when it is being deleted.
    pub(super) fn replaces_failed_only(&self) -> bool {
        self.spec().pod_replacement_policy() == Some("Failed") || self.spec().pod_failure_policy().is_set()
    }

    /// Whether a pod counts as failed: deleted ones do, for they may never come to say so.
    pub(super) fn counts_as_failed(&self, pod: &PodInfo) -> bool {
        match pod.phase {
            Phase::Failed => true,
            Phase::Succeeded => false,
            _ if self.replaces_failed_only() => has_stopped(pod),
            _ => pod.object.deleting,
        }
    }

    /// Whether the failure of a pod that counts as failed counts for the limits.
    pub(super) fn counts_failure_of(&self, pod: &PodInfo) -> bool {
        !self.spec().pod_failure_policy().is_set()
            || self.verdict(&pod.object.value()).is_none_or(|verdict| verdict.action != "Ignore")
    }

    /// What its policy says of a failed pod.
    pub(super) fn verdict(&self, pod: &Value) -> Option<Verdict> {
        verdict(self.spec().pod_failure_policy(), Pod(pod))
    }

    pub(super) fn uncounted(&self, outcome: &str) -> BTreeSet<String> {
        let uids = items(&self.status["uncountedTerminatedPods"][outcome]).iter();
        uids.filter_map(|uid| uid.as_str().map(str::to_owned)).collect()
    }

    /// Appends a condition that is not there.
    pub(super) fn add_condition(&mut self, end: &End, now: Timestamp) {
        let condition = json!({
            "type": end.kind.condition(), "status": "True", "lastProbeTime": time_text(now),
            "lastTransitionTime": time_text(now), "reason": end.reason, "message": end.message,
        });
        list_mut(&mut self.status["conditions"]).push(condition);
    }

    /// Sets a condition to what it is to be, unless it is, or is not there and need not be; whether it did.
    pub(super) fn ensure_condition(
        &mut self,
        kind: &str,
        holds: bool,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) -> bool {
        let status = if holds { "True" } else { "False" };
        let have = self.status().conditions().of_type(kind);
        if have.map_or(!holds, |have| have.status() == status) {
            return false;
        }
        let condition = json!({
            "type": kind, "status": status, "lastProbeTime": time_text(now), "lastTransitionTime": time_text(now),
            "reason": reason, "message": message,
        });
        set_condition(&mut self.status["conditions"], condition);
        true
    }
}

/// How a Job ends: what is to come of it first, and what it is then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndKind {
    /// It is to fail, when its pods are gone.
    FailureTarget,
    Failed,
    /// It is to be complete, when its pods are gone.
    SuccessCriteriaMet,
    Complete,
}

impl EndKind {
    pub(super) fn condition(self) -> &'static str {
        match self {
            Self::FailureTarget => "FailureTarget",
            Self::Failed => "Failed",
            Self::SuccessCriteriaMet => "SuccessCriteriaMet",
            Self::Complete => "Complete",
        }
    }
}

/// How and why a Job ends.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) kind: EndKind,
    pub(super) reason: String,
    pub(super) message: String,
}

impl End {
    pub(super) fn new(kind: EndKind, reason: &str, message: &str) -> Self {
        Self { kind, reason: reason.to_owned(), message: message.to_owned() }
    }

    pub(super) fn succeeds(&self) -> bool {
        matches!(self.kind, EndKind::SuccessCriteriaMet | EndKind::Complete)
    }
}

/// A Job, its pods, and what is found out about them.
pub(super) struct Look {
    pub(super) job: Job,
    pub(super) pods: Vec<Arc<PodInfo>>,
    pub(super) active_pods: Vec<Arc<PodInfo>>,
    pub(super) active: i64,
    pub(super) ready: i64,
    pub(super) terminating: i64,
    pub(super) succeeded: i64,
    pub(super) failed: i64,
    pub(super) succeeded_before: Indexes,
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Option<Indexes>,
    /// Failed pods that are kept until another one of their index exists, which notes how often its index has failed.
    pub(super) replaceable: BTreeMap<i64, Arc<PodInfo>>,
    pub(super) record: Record,
    pub(super) end: Option<End>,
}

impl Look {
    pub(super) fn new(object: Arc<Object>, value: Arc<Value>, pods: Vec<Arc<PodInfo>>) -> Self {
        let written = views::Job(&value).status().0.clone();
        let mut status = written.clone();
        map_mut(&mut status["uncountedTerminatedPods"]);
        let job = Job { name: ObjectName::of(&object), written, status, value, object };
        let active_pods: Vec<_> = pods.iter().filter(|pod| pod.active()).map(Arc::clone).collect();
        let mut look = Self {
            active: active_pods.len() as i64,
            ready: active_pods.iter().filter(|pod| pod.ready).count() as i64,
            terminating: pods.iter().filter(|pod| is_terminating(pod)).count() as i64,
            succeeded: 0,
            failed: 0,
            succeeded_before: Indexes::default(),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            replaceable: BTreeMap::new(),
            record: Record::default(),
            end: None,
            active_pods,
            pods,
            job,
        };
        if look.job.is_indexed() {
            look.pods.sort_by_key(|pod| index_of(pod));
        }
        let total = |field: &str| look.job.count(field) + look.job.uncounted(field).len() as i64;
        let (succeeded, failed) = (total("succeeded"), total("failed"));
        let counted = look.new_failed().into_iter().filter(|pod| look.job.counts_failure_of(pod)).count() as i64;
        look.succeeded = succeeded + look.new_succeeded().len() as i64;
        look.failed = failed + counted;
        look
    }

    /// Pods that have succeeded and are not counted yet.
    pub(super) fn new_succeeded(&self) -> Vec<&Arc<PodInfo>> {
        let known = self.job.uncounted("succeeded");
        let is_new = |pod: &&Arc<PodInfo>| {
            pod.phase == Phase::Succeeded && !known.contains(pod.object.uid.as_ref()) && is_tracked(pod)
        };
        self.pods.iter().filter(is_new).collect()
    }

    /// Pods that have failed and are not counted yet.
    pub(super) fn new_failed(&self) -> Vec<&Arc<PodInfo>> {
        let known = self.job.uncounted("failed");
        let is_new = |pod: &&Arc<PodInfo>| {
            self.job.counts_as_failed(pod) && !known.contains(pod.object.uid.as_ref()) && is_tracked(pod)
        };
        self.pods.iter().filter(is_new).collect()
    }

    /// A pod that was active is being deleted.
    pub(super) fn count_deleted(&mut self, pod: &PodInfo) {
        self.active -= 1;
        self.terminating += 1;
        self.ready -= i64::from(pod.ready);
    }

    /// The containers of pods that are restarted in place have failed often enough for the whole Job.
    pub(super) fn has_restarted_too_often(&self, limit: i64) -> bool {
        if self.job.spec().template().spec().restart_policy() != "OnFailure" {
            return false;
        }
        let restarts: i64 = self
            .pods
            .iter()
            .filter(|pod| matches!(pod.phase, Phase::Running | Phase::Pending))
            .map(|pod| {
                let value = pod.object.value();
                let status = Pod(&value).status();
                let all = status.init_container_statuses().chain(status.container_statuses());
                all.map(ContainerStatus::restart_count).sum::<i64>()
            })
            .sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    /// Indexes that have succeeded since the last look.
    pub(super) fn new_succeeded_indexes(&self, completions: i64) -> Vec<i64> {
        let succeeded = self.pods.iter().filter(|pod| pod.phase == Phase::Succeeded && is_tracked(pod));
        succeeded.filter_map(|pod| index_of(pod).filter(|index| *index < completions)).collect()
    }

    /// Indexes that have failed since the last look, for good.
    pub(super) fn new_failed_indexes(&self, completions: i64, limit: i64) -> Vec<i64> {
        let failed = self.pods.iter().filter(|pod| self.job.counts_as_failed(pod) && is_tracked(pod));
        failed
            .filter(|pod| {
                let value = pod.object.value();
                let judged = self.job.verdict(&value).map(|verdict| verdict.action);
                match judged.as_deref() {
                    Some("FailIndex") => true,
                    Some("Ignore") => false,
                    _ => failures(Pod(&value), INDEX_FAILURES) >= limit,
                }
            })
            .filter_map(|pod| index_of(pod).filter(|index| *index < completions))
            .collect()
    }

    /// Finds the failed pod of each index that is to be tried again.
    pub(super) fn find_replaceable(&mut self, completions: i64) {
        let taken: BTreeSet<i64> = self.active_pods.iter().filter_map(|pod| index_of(pod)).collect();
        let settled = |index: i64| {
            self.succeeded_indexes.contains(index)
                || self.failed_indexes.as_ref().is_some_and(|failed| failed.contains(index))
                || taken.contains(&index)
        };
        let mut last: BTreeMap<i64, (i64, Timestamp, Arc<PodInfo>)> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| self.job.counts_as_failed(pod) && is_tracked(pod)) {
            let Some(index) = index_of(pod).filter(|index| *index < completions && !settled(*index)) else { continue };
            let value = pod.object.value();
            let (count, end) = (failures_before(Pod(&value)), finished_at(pod, Pod(&value)));
            if last.get(&index).is_none_or(|(most, latest, _)| count >= *most && end >= *latest) {
                last.insert(index, (count, end, Arc::clone(pod)));
            }
        }
        self.replaceable = last.into_iter().map(|(index, (_, _, pod))| (index, pod)).collect();
    }
}

/// Whether a pod is being deleted and has not ended.
pub(super) fn is_terminating(pod: &PodInfo) -> bool {
    pod.object.deleting && !pod.finished()
}

/// The index a pod works on.
pub(super) fn index_of(pod: &PodInfo) -> Option<i64> {
    let parse = |text: &str| text.parse().ok().filter(|index| *index >= 0);
    match pod.object.label(INDEX) {
        Some(label) => parse(label),
        None => parse(Pod(&pod.object.value()).metadata().annotations().get(INDEX)?),
    }
}

/// A number of failures that an annotation tells.
pub(super) fn failures(pod: Pod<'_>, annotation: &str) -> i64 {
    let count = pod.metadata().annotations().get(annotation).and_then(|count| count.parse().ok());
    count.filter(|count| *count >= 0).unwrap_or_default()
}

/// How many pods of the index failed before this one, whether that counted or not.
pub(super) fn failures_before(pod: Pod<'_>) -> i64 {
    failures(pod, INDEX_FAILURES) + failures(pod, INDEX_IGNORED)
}
