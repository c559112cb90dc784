//! The pods of a Job: how many there are to be, which go first, and how each is made.

// upstream: pkg/controller/job/job_controller.go manageJob, activePodsForRemoval (v1.36)
// upstream: pkg/controller/job/indexed_job_utils.go firstPendingIndexes, addIndexFailureCountAnnotation (v1.36)

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::value::{list_mut, map_mut};
use klab_api_machinery::views::{Container, Pod};
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::pods::{pod_of_template, slow_start};
use super::super::view::{Phase, PodInfo};
use super::backoff::{end_after, finished_at};
use super::component::{COMPONENT, key};
use super::held::TRACKING;
use super::look::{
    INDEX, INDEX_FAILURES, INDEX_IGNORED, Job, Look, failures, failures_before, index_of, is_terminating,
};

/// At most this many pods are created or deleted at once (`MaxPodCreateDeletePerSync`).
const BURST: usize = 500;
/// How long the beginning of a generated name may be.
const MAX_PREFIX_LENGTH: usize = 58;

impl Plane {
    /// Creates or deletes pods so that as many run as may.
    pub(super) fn size_job(&mut self, look: &mut Look) {
        if look.job.is_suspended() {
            self.delete_active(look, look.active_pods.len());
            return;
        }
        let parallelism = look.job.spec().parallelism().unwrap_or(1);
        let wanted = match look.job.spec().completions() {
            None if look.succeeded > 0 => look.active,
            None => parallelism,
            Some(completions) => (completions - look.succeeded).clamp(0, parallelism.max(0)),
        };
        let surplus = usize::try_from(look.active - wanted).unwrap_or_default();
        if self.delete_active(look, surplus) {
            return;
        }
        let leaving = if look.job.replaces_failed_only() { look.terminating } else { 0 };
        let missing = usize::try_from(wanted - leaving - look.active).unwrap_or_default().min(BURST);
        if missing > 0 {
            self.create_missing(look, missing);
        }
    }

    /// Deletes pods that are active: at least `count`, and those whose index others have. Whether there were any.
    fn delete_active(&mut self, look: &mut Look, at_least: usize) -> bool {
        let mut doomed = for_removal(look, at_least);
        doomed.truncate(BURST);
        for pod in &doomed {
            self.delete_pod(&look.job.object, COMPONENT, pod);
            look.count_deleted(pod);
        }
        !doomed.is_empty()
    }

    fn create_missing(&mut self, look: &mut Look, missing: usize) {
        let now = self.now();
        let per_index = look.failed_indexes.is_some();
        let mut wait = if per_index { None } else { look.record.end().filter(|end| *end > now) };
        let mut indexes: Vec<Option<i64>> = vec![None; missing];
        if wait.is_none() && look.job.is_indexed() {
            let (ready, next) = indexes_to_try(look, missing, now);
            wait = next.filter(|_| ready.is_empty());
            indexes = ready.into_iter().map(Some).collect();
        }
        if let Some(end) = wait {
            self.queue.add_at(key(look.job.name.clone()), end);
            return;
        }
        let mut indexes = indexes.into_iter();
        for batch in slow_start(indexes.len(), BURST) {
            let mut refused = false;
            for index in indexes.by_ref().take(batch) {
                let pod = match index {
                    Some(index) => indexed_pod(look, index),
                    None => job_pod(&look.job),
                };
                if self.create_pod(&look.job.object, COMPONENT, pod).is_ok() {
                    look.active += 1;
                } else {
                    refused = true;
                }
            }
            if refused {
                self.retry_later(key(look.job.name.clone()));
                return;
            }
        }
        self.refused.remove(&key(look.job.name.clone()));
    }
}

/// The least useful of the active pods; of an Indexed Job first those whose index is none, or another pod's too.
fn for_removal(look: &Look, at_least: usize) -> Vec<Arc<PodInfo>> {
    let mut pods = look.active_pods.clone();
    pods.sort_by_key(|pod| usefulness(pod));
    if !look.job.is_indexed() {
        pods.truncate(at_least);
        return pods;
    }
    let completions = look.job.spec().completions().unwrap_or_default();
    // The most useful pod of each index stays.
    let stays = |at: usize, pod: &PodInfo| {
        index_of(pod).is_some_and(|index| {
            index < completions && pods[at + 1..].iter().all(|other| index_of(other) != Some(index))
        })
    };
    let (mut doomed, mut left) = (Vec::new(), Vec::new());
    for (at, pod) in pods.iter().enumerate() {
        if stays(at, pod) { left.push(Arc::clone(pod)) } else { doomed.push(Arc::clone(pod)) }
    }
    let more = at_least.saturating_sub(doomed.len());
    doomed.extend(left.into_iter().take(more));
    doomed
}

/// Smaller is deleted first: unbound, pending, not ready, most recently ready, youngest.
// upstream: pkg/controller/controller_utils.go ActivePods (v1.36)
fn usefulness(pod: &PodInfo) -> (bool, u8, bool, Reverse<i64>, Reverse<Timestamp>) {
    let phase = match pod.phase {
        Phase::Pending => 0,
        Phase::Unknown => 1,
        _ => 2,
    };
    let ready_since = pod.ready_changed.filter(|_| pod.ready).map_or(i64::MIN, Timestamp::as_second);
    (!pod.node.is_empty(), phase, pod.ready, Reverse(ready_since), Reverse(pod.created))
}

/// The first indexes that no pod works on and that may be tried now; and when the next one may.
fn indexes_to_try(look: &Look, count: usize, now: Timestamp) -> (Vec<i64>, Option<Timestamp>) {
    let completions = look.job.spec().completions().unwrap_or_default();
    let mut taken = look.succeeded_indexes.with(look.active_pods.iter().filter_map(|pod| index_of(pod)));
    if look.job.replaces_failed_only() {
        taken = taken.with(look.pods.iter().filter(|pod| is_terminating(pod)).filter_map(|pod| index_of(pod)));
    }
    if let Some(failed) = &look.failed_indexes {
        taken = taken.union(failed);
    }
    let (mut ready, mut next) = (Vec::new(), None::<Timestamp>);
    for index in taken.absent(completions, count) {
        let wait = look.replaceable.get(&index).and_then(|pod| {
            let value = pod.object.value();
            end_after(failures_before(Pod(&value)) + 1, finished_at(pod, Pod(&value))).filter(|end| *end > now)
        });
        match wait {
            None => ready.push(index),
            Some(end) => next = Some(next.map_or(end, |next| next.min(end))),
        }
    }
    (ready, next)
}

fn job_pod(job: &Job) -> Value {
    let mut pod = pod_of_template(&job.object, job.spec().template());
    let finalizers = list_mut(&mut pod["metadata"]["finalizers"]);
    if !finalizers.iter().any(|have| have == TRACKING) {
        finalizers.push(json!(TRACKING));
    }
    pod
}

/// A pod of an Indexed Job knows its index by annotation, label, host name and environment.
fn indexed_pod(look: &Look, index: i64) -> Value {
    let job = &look.job;
    let mut pod = job_pod(job);
    let name = &job.object.name;
    let ending = format!("-{index}-");
    let beginning: String = name.chars().take(MAX_PREFIX_LENGTH - ending.len()).collect();
    pod["metadata"]["generateName"] = json!(format!("{beginning}{ending}"));
    for field in ["annotations", "labels"] {
        map_mut(&mut pod["metadata"][field]).insert(INDEX.to_owned(), json!(index.to_string()));
    }
    if look.failed_indexes.is_some() {
        let (counted, ignored) = look.replaceable.get(&index).map_or((0, 0), |pod| failures_after(job, pod));
        let annotations = map_mut(&mut pod["metadata"]["annotations"]);
        annotations.insert(INDEX_FAILURES.to_owned(), json!(counted.to_string()));
        if ignored > 0 {
            annotations.insert(INDEX_IGNORED.to_owned(), json!(ignored.to_string()));
        }
    }
    pod["spec"]["hostname"] = json!(format!("{name}-{index}"));
    let variable = json!({
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": format!("metadata.labels['{INDEX}']") } },
    });
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let have = Container(container).env().named("JOB_COMPLETION_INDEX").is_some();
            if !have {
                list_mut(&mut container["env"]).push(variable.clone());
            }
        }
    }
    pod
}

/// How often pods of an index have failed, with the one that is replaced: so that it counted, and so that it did not.
fn failures_after(job: &Job, pod: &PodInfo) -> (i64, i64) {
    let value = pod.object.value();
    let (counted, ignored) = (failures(Pod(&value), INDEX_FAILURES), failures(Pod(&value), INDEX_IGNORED));
    let ignores = job.verdict(&value).is_some_and(|verdict| verdict.action == "Ignore");
    if ignores { (counted, ignored + 1) } else { (counted + 1, ignored) }
}
