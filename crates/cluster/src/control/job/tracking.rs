//! Pods that have ended are counted once: noted in the status, let go by their finalizer, then added to the counters.

// upstream: pkg/controller/job/job_controller.go trackJobStatusAndRemoveFinalizers, flushUncountedAndRemoveFinalizers,
// enactJobFinished (v1.36)

use std::collections::BTreeSet;
use std::sync::Arc;

use klab_api_machinery::resource::{JOBS, PODS};
use klab_api_machinery::value::{items, list_mut, map_mut, time_text};
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::pods::writes;
use super::super::view::{Phase, PodInfo};
use super::component::{COMPONENT, key};
use super::held::{TRACKING, is_tracked};
use super::look::{End, EndKind, Job, Look, index_of};
use crate::cluster::Part;

/// At most this many pods are noted at once (`MaxUncountedPods`).
const MAX_UNCOUNTED: usize = 500;

impl Plane {
    /// Counts pods that have ended, lets them go, and writes how far the Job is.
    pub(super) fn track(&mut self, look: &mut Look) {
        let now = self.now();
        add_counted(&mut look.job, &|uid| look.pods.iter().any(|pod| &*pod.object.uid == uid && is_tracked(pod)));
        let (released, all) = note_ended(look);
        if look.job.is_indexed() {
            look.job.set("succeeded", look.succeeded_indexes.len());
            let text = look.succeeded_indexes.to_string();
            if text.is_empty() {
                map_mut(&mut look.job.status).remove("completedIndexes");
            } else {
                look.job.status["completedIndexes"] = json!(text);
            }
            match &look.failed_indexes {
                Some(failed) => look.job.status["failedIndexes"] = json!(failed.to_string()),
                None => drop(map_mut(&mut look.job.status).remove("failedIndexes")),
            }
        }
        let mut end = look.end.take();
        if let Some(decided) = &mut end {
            let interim = matches!(decided.kind, EndKind::FailureTarget | EndKind::SuccessCriteriaMet);
            if interim && look.job.status().conditions().of_type(decided.kind.condition()).is_none() {
                look.job.add_condition(decided, now);
            }
            decided.kind = if decided.succeeds() { EndKind::Complete } else { EndKind::Failed };
        }
        self.write_job_status(&mut look.job);
        for pod in &released {
            self.release(PODS, &pod.name(), TRACKING);
        }
        let held = |uid: &str| {
            let has_gone = released.iter().any(|pod| &*pod.object.uid == uid);
            !has_gone && look.pods.iter().any(|pod| &*pod.object.uid == uid && is_tracked(pod))
        };
        add_counted(&mut look.job, &held);
        let Some(end) = end.filter(|_| all && look.terminating == 0 && has_counted_all(&look.job)) else {
            self.write_job_status(&mut look.job);
            if !all {
                self.queue.add(key(look.job.name.clone()));
            }
            return;
        };
        look.job.add_condition(&end, now);
        if end.kind == EndKind::Complete {
            look.job.status["completionTime"] = json!(time_text(now));
        }
        self.write_job_status(&mut look.job);
        self.note_finished(&look.job, &end);
    }

    fn note_finished(&mut self, job: &Job, end: &End) {
        if end.kind == EndKind::Failed {
            self.note(&job.object, COMPONENT, true, &end.reason, &end.message);
            return;
        }
        if job.spec().completions().is_some_and(|completions| job.count("succeeded") > completions) {
            let message = "Too many succeeded pods running after completion count reached";
            self.note(&job.object, COMPONENT, true, "TooManySucceededPods", message);
        }
        self.note(&job.object, COMPONENT, false, "Completed", "Job completed");
    }

    fn write_job_status(&mut self, job: &mut Job) {
        if job.status == job.written {
            return;
        }
        let status = job.status.clone();
        let _written =
            self.cluster.modify(JOBS, Part::Status, &job.name.namespace, &job.name.name, &writes(), |value| {
                value["status"] = status;
            });
        job.written = job.status.clone();
    }
}

/// Notes the pods that have ended in the status. Which of them may go, and whether these are all.
fn note_ended(look: &mut Look) -> (Vec<Arc<PodInfo>>, bool) {
    let completions = look.job.spec().completions().unwrap_or_default();
    let indexed = look.job.is_indexed();
    let fails = look.end.as_ref().is_some_and(|end| !end.succeeds());
    let everything = look.job.object.deleting || look.end.is_some();
    let known = [look.job.uncounted("succeeded"), look.job.uncounted("failed")];
    let mut added: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    let mut indexes = BTreeSet::new();
    let mut released = Vec::new();
    let mut all = true;
    for pod in &look.pods {
        let failed = look.job.counts_as_failed(pod);
        if !(everything || failed || pod.phase == Phase::Succeeded) || !is_tracked(pod) {
            continue;
        }
        let index = index_of(pod).filter(|_| indexed);
        let waits = index.and_then(|index| look.replaceable.get(&index));
        if !everything && failed && waits.is_some_and(|kept| kept.object.uid == pod.object.uid) {
            continue;
        }
        released.push(Arc::clone(pod));
        let uid = pod.object.uid.to_string();
        let counts = !indexed || index.is_some_and(|index| index < completions);
        if pod.phase == Phase::Succeeded && !known[1].contains(&uid) {
            if !indexed {
                added[0].push(uid);
            } else if counts {
                indexes.extend(index);
            }
        } else if (failed || fails) && counts && look.job.counts_failure_of(pod) {
            added[1].push(uid);
        }
        if indexes.len() + known.iter().map(BTreeSet::len).sum::<usize>() + added[0].len() + added[1].len()
            >= MAX_UNCOUNTED
        {
            all = false;
            break;
        }
    }
    look.succeeded_indexes = look.succeeded_indexes.with(indexes);
    for (outcome, (added, known)) in ["succeeded", "failed"].into_iter().zip(added.into_iter().zip(known)) {
        let new = added.into_iter().filter(|uid| !known.contains(uid)).map(Value::String);
        let list = list_mut(&mut look.job.status["uncountedTerminatedPods"][outcome]);
        list.extend(new);
        if list.is_empty() {
            map_mut(&mut look.job.status["uncountedTerminatedPods"]).remove(outcome);
        }
    }
    (released, all)
}

/// Adds to the counters what was noted of pods that are no longer held.
fn add_counted(job: &mut Job, is_held: &dyn Fn(&str) -> bool) {
    for outcome in ["succeeded", "failed"] {
        let noted = items(&job.status["uncountedTerminatedPods"][outcome]).to_vec();
        let (held, gone): (Vec<Value>, Vec<Value>) =
            noted.into_iter().partition(|uid| uid.as_str().is_some_and(is_held));
        if gone.is_empty() {
            continue;
        }
        job.set(outcome, job.count(outcome) + gone.len() as i64);
        if held.is_empty() {
            map_mut(&mut job.status["uncountedTerminatedPods"]).remove(outcome);
        } else {
            job.status["uncountedTerminatedPods"][outcome] = Value::Array(held);
        }
    }
}

fn has_counted_all(job: &Job) -> bool {
    let left = job.status().uncounted_terminated_pods();
    left.succeeded().is_empty() && left.failed().is_empty()
}
