//! Jobs: pods until enough have succeeded, or too many failed. Finished pods are counted once, by a finalizer.

// upstream: pkg/controller/job/job_controller.go syncJob, manageJob, trackJobStatusAndRemoveFinalizers (v1.36)

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pod_failure::verdict;
use super::pods::{pod_of_template, writes};
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::value::{
    condition, condition_is_true, integer, items, list_mut, map_mut, set_condition, text, time_of, time_text,
};
use super::view::{Phase, PodInfo};
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part, Propagation};
use crate::object::Object;
use crate::resource::{JOBS, PODS};
use klab_scheduler::selector::Selector;

const COMPONENT: &str = "job-controller";
/// Keeps a finished pod until it has been counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FIRST_BACKOFF: i64 = 10;
const LONGEST_BACKOFF: i64 = 600;
/// At most this many pods are created at once (`MaxPodCreateDeletePerSync`).
const BURST: i64 = 500;

/// One Job during a sync.
struct Job {
    name: ObjectName,
    object: Arc<Object>,
    value: Arc<Value>,
    status: Value,
}

impl Job {
    fn spec(&self, field: &str) -> Option<i64> {
        integer(&self.value, &["spec", field])
    }

    fn count(&self, field: &str) -> i64 {
        integer(&self.status, &[field]).unwrap_or_default()
    }

    fn uncounted(&self, outcome: &str) -> BTreeSet<String> {
        items(&self.status["uncountedTerminatedPods"][outcome])
            .iter()
            .filter_map(|uid| uid.as_str().map(str::to_owned))
            .collect()
    }

    fn finished(&self) -> bool {
        condition_is_true(&self.status["conditions"], "Complete")
            || condition_is_true(&self.status["conditions"], "Failed")
    }

    fn indexed(&self) -> bool {
        text(&self.value, &["spec", "completionMode"]) == "Indexed"
    }

    fn suspended(&self) -> bool {
        self.value["spec"]["suspend"] == true
    }

    fn add_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) {
        let condition = json!({
            "type": kind, "status": status, "lastProbeTime": time_text(now), "lastTransitionTime": time_text(now),
            "reason": reason, "message": message,
        });
        set_condition(&mut self.status["conditions"], condition);
    }

    fn set(&mut self, field: &str, number: i64) {
        if number > 0 {
            self.status[field] = json!(number);
        } else {
            map_mut(&mut self.status).remove(field);
        }
    }
}

/// A Job's pods, sorted out.
struct Pods {
    all: Vec<Arc<PodInfo>>,
    active: Vec<Arc<PodInfo>>,
}

/// Makes pods of Jobs.
pub(super) struct Jobs;

impl Reconciler for Jobs {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        plane.workload_changed(change, Controller::Job, JOBS);
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        plane.sync_job(&key.name);
    }
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::Job, JOBS, name)
}

impl Plane {
    fn sync_job(&mut self, name: &ObjectName) {
        let Some(object) = self.cluster.get(JOBS, &name.namespace, &name.name) else {
            self.refused.remove(&key(name.clone()));
            self.release_pods_of_absent_job(name);
            return;
        };
        let value = object.value();
        let mut job = Job { name: name.clone(), status: value["status"].clone(), value, object };
        let selector = Selector::from_json(&job.value["spec"]["selector"]);
        let all = self.claim_pods(&job.object, &selector);
        let active = all.iter().filter(|pod| pod.active()).map(Arc::clone).collect();
        let mut pods = Pods { all, active };
        if job.object.deleting {
            for pod in &pods.all {
                self.release(PODS, &pod.name(), TRACKING);
            }
            return;
        }
        let now = self.now();
        if !job.finished() && job.status["startTime"].is_null() && !job.suspended() {
            job.status["startTime"] = json!(time_text(now));
        }
        let counted = self.count_finished_pods(&mut job, &pods);
        if job.finished() {
            for pod in pods.active {
                self.delete_pod(&job.object, COMPONENT, &pod);
            }
            self.write_job_status(&job);
            self.expire_job(&job);
            return;
        }
        let (succeeded, failed) = (
            job.count("succeeded") + job.uncounted("succeeded").len() as i64,
            job.count("failed") + job.uncounted("failed").len() as i64,
        );
        let mut acted = false;
        if let Some((reason, message)) = self.failure_of(&job, failed, now) {
            acted = self.end_job(&mut job, &mut pods, &reason, &message, now);
        } else if is_complete(&job, succeeded, &pods) {
            self.complete_job(&mut job, &mut pods, now);
        } else if job.suspended() {
            acted = self.suspend_job(&mut job, &mut pods, now);
        } else {
            self.resume_job(&mut job, now);
            acted = self.size_job(&job, &pods, succeeded, failed, now);
        }
        if acted && !counted {
            // The pods just made or deleted bring the Job back here; only what they cannot tell is written now.
            if job.value["status"]["startTime"] != job.status["startTime"]
                || job.value["status"]["conditions"] != job.status["conditions"]
            {
                self.write_job_status(&job);
            }
            return;
        }
        job.set("active", pods.active.len() as i64);
        job.status["ready"] = json!(pods.active.iter().filter(|pod| pod.ready).count());
        job.status["terminating"] = json!(pods.all.iter().filter(|pod| pod.object.deleting && !pod.finished()).count());
        if job.status["uncountedTerminatedPods"].is_null() {
            job.status["uncountedTerminatedPods"] = json!({});
        }
        self.write_job_status(&job);
    }

    /// Counts pods that have ended, each once: noted as uncounted, then released from the finalizer, then counted.
    /// Whether the status changed.
    fn count_finished_pods(&mut self, job: &mut Job, pods: &Pods) -> bool {
        let before = job.status.clone();
        let mut uncounted = [job.uncounted("succeeded"), job.uncounted("failed")];
        let mut released = Vec::new();
        for pod in &pods.all {
            let value = pod.object.value();
            if !items(&value["metadata"]["finalizers"]).iter().any(|have| have == TRACKING) {
                continue;
            }
            let mut counts = true;
            let outcome = match pod.phase {
                Phase::Succeeded => 0,
                Phase::Failed => 1,
                // A pod that is being deleted is counted as failed once its kubelet is done with it.
                _ if pod.object.deleting && integer(&value, &["metadata", "deletionGracePeriodSeconds"]) == Some(0) => {
                    1
                }
                _ if job.finished() && pod.object.deleting => 1,
                _ => continue,
            };
            if outcome == 1 {
                counts = verdict(&job.value, &value).is_none_or(|verdict| verdict.action != "Ignore");
            }
            if counts {
                uncounted[outcome].insert(pod.object.uid.to_string());
            }
            if outcome == 0 && job.indexed() {
                let index = text(&value, &["metadata", "annotations", INDEX]).parse().unwrap_or_default();
                let mut done = parse_indexes(text(&job.status, &["completedIndexes"]));
                done.insert(index);
                job.status["completedIndexes"] = json!(format_indexes(&done));
            }
            released.push(pod.name());
        }
        if !released.is_empty() {
            self.note_fatal_failure(job, pods);
            let [succeeded, failed] = &uncounted;
            let mut list = json!({});
            if !succeeded.is_empty() {
                list["succeeded"] = json!(succeeded);
            }
            if !failed.is_empty() {
                list["failed"] = json!(failed);
            }
            job.status["uncountedTerminatedPods"] = list;
            self.write_job_status(job);
            for name in released {
                self.release(PODS, &name, TRACKING);
            }
        }
        let [succeeded, failed] = uncounted;
        if succeeded.is_empty() && failed.is_empty() {
            return job.status != before;
        }
        let total = |job: &Job, field: &str, more: usize| job.count(field) + more as i64;
        let (succeeded, failed) = (total(job, "succeeded", succeeded.len()), total(job, "failed", failed.len()));
        job.set("succeeded", succeeded);
        job.set("failed", failed);
        job.status["uncountedTerminatedPods"] = json!({});
        true
    }

    /// A pod that has failed in a way after which no other is to try is told of before it is let go.
    fn note_fatal_failure(&mut self, job: &mut Job, pods: &Pods) {
        if condition_is_true(&job.status["conditions"], "FailureTarget") {
            return;
        }
        let failed = pods.all.iter().filter(|pod| pod.phase == Phase::Failed);
        let fatal = failed
            .filter_map(|pod| verdict(&job.value, &pod.object.value()))
            .find(|verdict| verdict.action == "FailJob");
        if let Some(fatal) = fatal {
            let now = self.now();
            job.add_condition("FailureTarget", "True", "PodFailurePolicy", &fatal.message, now);
        }
    }

    fn failure_of(&mut self, job: &Job, failed: i64, now: Timestamp) -> Option<(String, String)> {
        let because = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
        if let Some(decided) = condition(&job.status["conditions"], "FailureTarget") {
            return because(text(decided, &["reason"]), text(decided, &["message"]));
        }
        if failed > job.spec("backoffLimit").unwrap_or(6) {
            return because("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        let deadline = job.spec("activeDeadlineSeconds")?;
        let start = time_of(&job.status["startTime"]).filter(|_| !job.suspended())?;
        let end = later(start, SignedDuration::from_secs(deadline));
        if end <= now {
            return because("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        self.queue.add_at(key(job.name.clone()), end);
        None
    }

    /// Too many failures, or too late: the remaining pods go, then the Job is Failed. Whether pods were deleted.
    fn end_job(&mut self, job: &mut Job, pods: &mut Pods, reason: &str, message: &str, now: Timestamp) -> bool {
        job.add_condition("FailureTarget", "True", reason, message, now);
        let active = std::mem::take(&mut pods.active);
        for pod in &active {
            self.delete_pod(&job.object, COMPONENT, pod);
        }
        let terminating = pods.all.iter().any(|pod| pod.object.deleting && !pod.finished());
        if active.is_empty() && !terminating {
            job.add_condition("Failed", "True", reason, message, now);
            self.note(&job.object.clone(), COMPONENT, true, reason, message);
        }
        !active.is_empty()
    }

    fn complete_job(&mut self, job: &mut Job, pods: &mut Pods, now: Timestamp) {
        for pod in std::mem::take(&mut pods.active) {
            self.delete_pod(&job.object, COMPONENT, &pod);
        }
        let message = "Reached expected number of succeeded pods";
        job.add_condition("SuccessCriteriaMet", "True", "CompletionsReached", message, now);
        job.add_condition("Complete", "True", "CompletionsReached", message, now);
        job.status["completionTime"] = json!(time_text(now));
        self.note(&job.object.clone(), COMPONENT, false, "Completed", "Job completed");
    }

    fn suspend_job(&mut self, job: &mut Job, pods: &mut Pods, now: Timestamp) -> bool {
        if !condition_is_true(&job.status["conditions"], "Suspended") {
            job.add_condition("Suspended", "True", "JobSuspended", "Job suspended", now);
            self.note(&job.object.clone(), COMPONENT, false, "Suspended", "Job suspended");
        }
        map_mut(&mut job.status).remove("startTime");
        let active = std::mem::take(&mut pods.active);
        for pod in &active {
            self.delete_pod(&job.object, COMPONENT, pod);
        }
        !active.is_empty()
    }

    fn resume_job(&mut self, job: &mut Job, now: Timestamp) {
        if condition_is_true(&job.status["conditions"], "Suspended") {
            job.add_condition("Suspended", "False", "JobResumed", "Job resumed", now);
            self.note(&job.object.clone(), COMPONENT, false, "Resumed", "Job resumed");
        }
    }

    /// Creates or deletes pods so that as many run as may; whether it did.
    fn size_job(&mut self, job: &Job, pods: &Pods, succeeded: i64, failed: i64, now: Timestamp) -> bool {
        let parallelism = job.spec("parallelism").unwrap_or(1);
        let active = pods.active.len() as i64;
        let wanted = match job.spec("completions") {
            None if succeeded > 0 => active,
            None => parallelism,
            Some(completions) => (completions - succeeded).clamp(0, parallelism),
        };
        if active > wanted {
            let mut excess: Vec<_> = pods.active.clone();
            excess.sort_by_key(|pod| (pod.ready, !pod.node.is_empty(), std::cmp::Reverse(pod.created)));
            for pod in excess.iter().take(usize::try_from(active - wanted).unwrap_or_default()) {
                self.delete_pod(&job.object, COMPONENT, pod);
            }
            return true;
        }
        let missing = (wanted - active).min(BURST);
        if missing == 0 {
            return false;
        }
        if let Some(due) = back_off_end(pods, failed, job.spec("backoffLimit").unwrap_or(6)).filter(|due| *due > now) {
            self.queue.add_at(key(job.name.clone()), due);
            return false;
        }
        let mut made = false;
        let indexes = if job.indexed() { free_indexes(job, pods) } else { Vec::new() };
        for number in 0..usize::try_from(missing).unwrap_or_default() {
            let pod = if job.indexed() {
                let Some(index) = indexes.get(number) else { break };
                indexed_pod(job, *index)
            } else {
                job_pod(job)
            };
            if self.create_pod(&job.object, COMPONENT, pod).is_ok() {
                made = true;
                self.refused.remove(&key(job.name.clone()));
            } else {
                self.retry_later(key(job.name.clone()));
                break;
            }
        }
        made
    }

    /// Deletes a finished Job when its time to live is over.
    fn expire_job(&mut self, job: &Job) {
        let Some(seconds) = job.spec("ttlSecondsAfterFinished") else { return };
        let finished = items(&job.status["conditions"])
            .iter()
            .filter(|condition| matches!(condition["type"].as_str(), Some("Complete" | "Failed")))
            .find_map(|condition| time_of(&condition["lastTransitionTime"]));
        let Some(end) = finished.map(|finished| later(finished, SignedDuration::from_secs(seconds))) else { return };
        if end > self.now() {
            self.queue.add_at(key(job.name.clone()), end);
            return;
        }
        let options = DeleteOptions {
            propagation: Some(Propagation::Foreground),
            uid: Some(job.object.uid.to_string()),
            ..DeleteOptions::default()
        };
        let _deleted = self.cluster.delete(JOBS, &job.name.namespace, &job.name.name, &options);
    }

    fn write_job_status(&mut self, job: &Job) {
        let status = job.status.clone();
        let _written =
            self.cluster.modify(JOBS, Part::Status, &job.name.namespace, &job.name.name, &writes(), |value| {
                value["status"] = status;
            });
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

fn is_complete(job: &Job, succeeded: i64, pods: &Pods) -> bool {
    match job.spec("completions") {
        Some(completions) => succeeded >= completions,
        None => succeeded > 0 && pods.active.is_empty(),
    }
}

/// Until when to wait after failures: 10 s, doubled for each, at most ten minutes, from the last failure on.
fn back_off_end(pods: &Pods, failed: i64, limit: i64) -> Option<Timestamp> {
    if failed == 0 || failed > limit {
        return None;
    }
    let last = pods
        .all
        .iter()
        .filter(|pod| pod.phase == Phase::Failed)
        .filter_map(|pod| {
            items(&pod.object.value()["status"]["containerStatuses"])
                .iter()
                .filter_map(|status| time_of(&status["state"]["terminated"]["finishedAt"]))
                .max()
        })
        .max()?;
    let doubled = FIRST_BACKOFF.saturating_mul(1 << (failed - 1).clamp(0, 10));
    Some(later(last, SignedDuration::from_secs(doubled.min(LONGEST_BACKOFF))))
}

fn job_pod(job: &Job) -> Value {
    let mut pod = pod_of_template(&job.object, &job.value["spec"]["template"]);
    list_mut(&mut pod["metadata"]["finalizers"]).push(json!(TRACKING));
    pod
}

/// A pod of an Indexed Job knows its index by annotation, label, host name and environment.
fn indexed_pod(job: &Job, index: i64) -> Value {
    let mut pod = job_pod(job);
    let name = &job.object.name;
    pod["metadata"]["generateName"] = json!(format!("{name}-{index}-"));
    for field in ["annotations", "labels"] {
        map_mut(&mut pod["metadata"][field]).insert(INDEX.to_owned(), json!(index.to_string()));
    }
    if text(&pod, &["spec", "hostname"]).is_empty() {
        pod["spec"]["hostname"] = json!(format!("{name}-{index}"));
    }
    let variable = json!({
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": format!("metadata.labels['{INDEX}']") } },
    });
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let have = items(&container["env"]).iter().any(|env| env["name"] == "JOB_COMPLETION_INDEX");
            if !have {
                list_mut(&mut container["env"]).push(variable.clone());
            }
        }
    }
    pod
}

/// Indexes neither completed nor taken by an active pod, smallest first.
fn free_indexes(job: &Job, pods: &Pods) -> Vec<i64> {
    let mut taken = parse_indexes(text(&job.status, &["completedIndexes"]));
    taken.extend(
        pods.active
            .iter()
            .filter_map(|pod| text(&pod.object.value(), &["metadata", "annotations", INDEX]).parse::<i64>().ok()),
    );
    (0..job.spec("completions").unwrap_or_default()).filter(|index| !taken.contains(index)).collect()
}

/// `1,3-5` → 1, 3, 4, 5.
fn parse_indexes(indexes: &str) -> BTreeSet<i64> {
    let mut set = BTreeSet::new();
    for part in indexes.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
            set.extend(first..=last);
        }
    }
    set
}

/// 1, 3, 4, 5 → `1,3-5`.
fn format_indexes(indexes: &BTreeSet<i64>) -> String {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => runs.push((*index, *index)),
        }
    }
    runs.iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_runs() {
        let set = parse_indexes("1,3-5,7,8");
        assert_eq!(set, BTreeSet::from([1, 3, 4, 5, 7, 8]));
        assert_eq!(format_indexes(&set), "1,3-5,7,8");
        assert_eq!(format_indexes(&BTreeSet::new()), "");
    }
}
