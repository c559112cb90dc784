//! CronJobs: a Job at each time of a schedule, and the tidying up of finished ones.

// upstream: pkg/controller/cronjob/cronjob_controllerv2.go syncCronJob (v1.36)
// upstream: pkg/controller/cronjob/utils.go mostRecentScheduleTime (v1.36)

use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::cron::{Latest, Schedule};
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{CRON_JOBS, JOBS};
use klab_api_machinery::value::{controller_reference, items, list_mut, map_mut, time_text};
use klab_api_machinery::views::{CronJob, CronJobStatus, Job, ObjectReference};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use crate::clock::earlier;
use crate::cluster::{DeleteOptions, Part, Propagation};

const COMPONENT: &str = "cronjob-controller";
const TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Makes Jobs at the times of CronJobs.
#[derive(Default)]
pub(super) struct CronJobs;

impl Reconciler for CronJobs {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        plane.queue.add(key(change.name()));
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        plane.sync_cron_job(&key.name);
    }
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::CronJob, CRON_JOBS, name)
}

impl Plane {
    fn sync_cron_job(&mut self, name: &ObjectName) {
        let Some(object) = self.cluster.get(CRON_JOBS, &name.namespace, &name.name) else { return };
        if object.deleting {
            return;
        }
        let value = object.value();
        let value = CronJob(&value);
        let mut status = value.status().0.clone();
        map_mut(&mut status);
        let jobs: Vec<Arc<Object>> = self
            .view
            .dependents_of(&object.uid)
            .filter(|(resource, _)| *resource == JOBS)
            .filter_map(|(_, at)| self.cluster.get(JOBS, &at.namespace, &at.name))
            .collect();
        self.follow_jobs(&object, &mut status, &jobs);
        self.trim_jobs(&object, value, &jobs);
        self.start_due_job(&object, value, &mut status);
        if status != *value.status().0 {
            let _written =
                self.cluster.modify(CRON_JOBS, Part::Status, &name.namespace, &name.name, &writes(), |value| {
                    value["status"] = status;
                });
        }
    }

    /// Keeps `status.active`, and notes jobs that have ended, are gone, or come from somebody else.
    fn follow_jobs(&mut self, object: &Object, status: &mut Value, jobs: &[Arc<Object>]) {
        let mut active = items(&status["active"]).to_vec();
        for job in jobs {
            let (value, name) = (job.value(), &job.name);
            let is_of = |have: &Value| ObjectReference(have).uid() == &*job.uid;
            let is_active = active.iter().any(is_of);
            let Some(kind) = outcome(Job(&value)) else {
                if !is_active {
                    let message = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.note(object, COMPONENT, true, "UnexpectedJob", &message);
                }
                continue;
            };
            if is_active {
                active.retain(|have| !is_of(have));
                let message = format!("Saw completed job: {name}, condition: {kind}");
                self.note(object, COMPONENT, false, "SawCompletedJob", &message);
            }
            let ended = Job(&value).status().completion_time();
            if kind == "Complete" && ended > CronJobStatus(status).last_successful_time() {
                status["lastSuccessfulTime"] = json!(ended.map(time_text));
            }
        }
        active.retain(|have| {
            let have = ObjectReference(have);
            let is_there = jobs.iter().any(|job| have.uid() == &*job.uid);
            if !is_there {
                let message = format!("Active job went missing: {}", have.name());
                self.note(object, COMPONENT, false, "MissingJob", &message);
            }
            is_there
        });
        let map = map_mut(status);
        if active.is_empty() {
            map.remove("active");
        } else {
            map.insert("active".to_owned(), Value::Array(active));
        }
    }

    /// Deletes finished jobs beyond the history limits, oldest first.
    fn trim_jobs(&mut self, object: &Object, value: CronJob<'_>, jobs: &[Arc<Object>]) {
        let (succeeded, failed) =
            (value.spec().successful_jobs_history_limit(), value.spec().failed_jobs_history_limit());
        for (limit, wanted) in [(succeeded.unwrap_or(3), "Complete"), (failed.unwrap_or(1), "Failed")] {
            let mut finished: Vec<(Option<Timestamp>, Arc<Object>)> = jobs
                .iter()
                .filter(|job| !job.deleting)
                .filter_map(|job| {
                    let value = job.value();
                    let value = Job(&value);
                    (outcome(value) == Some(wanted)).then(|| (value.status().start_time(), Arc::clone(job)))
                })
                .collect();
            finished.sort_by(|left, right| (&left.0, &left.1.name).cmp(&(&right.0, &right.1.name)));
            let excess = finished.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
            for (_, job) in finished.into_iter().take(excess) {
                let _deleted = self.delete_job(object, &job.namespace, &job.name);
            }
        }
    }

    /// Deletes a job; whether it did.
    fn delete_job(&mut self, object: &Object, namespace: &str, name: &str) -> bool {
        let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        let deleted = self.cluster.delete(JOBS, namespace, name, &options);
        match &deleted {
            Ok(_) => self.note(object, COMPONENT, false, "SuccessfulDelete", &format!("Deleted job {name}")),
            Err(status) => self.note(object, COMPONENT, true, "FailedDelete", &format!("Deleted job: {status}")),
        }
        deleted.is_ok()
    }

    /// Starts the job of the latest time that has passed, and waits for the next.
    fn start_due_job(&mut self, object: &Object, value: CronJob<'_>, status: &mut Value) {
        let (now, spec) = (self.now(), value.spec());
        let key = key(ObjectName::new(&object.namespace, &object.name));
        let zone = match spec.time_zone().unwrap_or_default() {
            "" => TimeZone::UTC,
            name => {
                let Ok(zone) = TimeZone::get(name) else {
                    let message = format!("invalid timeZone: \"{name}\": unknown time zone {name}");
                    self.note(object, COMPONENT, true, "UnknownTimeZone", &message);
                    return;
                };
                zone
            }
        };
        if spec.suspend() == Some(true) {
            return;
        }
        let wanted = spec.schedule();
        let schedule = match Schedule::parse(wanted) {
            Ok(schedule) => schedule,
            Err(because) => {
                let message = format!("unparseable schedule: {wanted:?} : {because}");
                self.note(object, COMPONENT, true, "UnparseableSchedule", &message);
                return;
            }
        };
        let last = CronJobStatus(status).last_schedule_time().or(value.metadata().creation_timestamp());
        let mut from = last.unwrap_or(now);
        if let Some(deadline) = spec.starting_deadline_seconds() {
            from = from.max(earlier(now, SignedDuration::from_secs(deadline)));
        }
        let latest = schedule.latest(from, now, &zone);
        if let Err(because) = latest {
            self.note(object, COMPONENT, true, "InvalidSchedule", &format!("invalid schedule: {wanted} : {because}"));
            return;
        }
        if let Some(next) = schedule.next(now, &zone) {
            self.queue.add_at(key, next);
        }
        let Ok(Some(Latest { time: due, too_many })) = latest else { return };
        if too_many {
            let message =
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.note(object, COMPONENT, true, "TooManyMissedTimes", message);
        }
        let mut active = CronJobStatus(status).active();
        if !active.is_empty() {
            match spec.concurrency_policy() {
                "Forbid" => {
                    let message =
                        "Not starting job because prior execution is running and concurrency policy is Forbid";
                    self.note(object, COMPONENT, false, "JobAlreadyActive", message);
                    return;
                }
                "Replace" => {
                    if !active.all(|job| self.delete_job(object, &object.namespace, job.name())) {
                        return;
                    }
                    map_mut(status).remove("active");
                }
                _ => {}
            }
        }
        self.start_job(object, value, status, (due, zone));
    }

    fn start_job(
        &mut self,
        object: &Object,
        value: CronJob<'_>,
        status: &mut Value,
        (due, zone): (Timestamp, TimeZone),
    ) {
        let name = format!("{}-{}", object.name, due.as_second() / 60);
        let template = value.spec().job_template();
        let given = template.metadata().0;
        let mut metadata = json!({
            "name": name, "ownerReferences": [controller_reference(object)], "labels": given["labels"],
            "annotations": given["annotations"],
        });
        let local = due.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        let local = local.strip_suffix("+00:00").map_or_else(|| local.clone(), |time| format!("{time}Z"));
        map_mut(&mut metadata["annotations"]).insert(TIMESTAMP.to_owned(), json!(local));
        let job = json!({ "metadata": metadata, "spec": template.spec().0 });
        match self.cluster.create(JOBS, &object.namespace, job, &writes()) {
            Ok(job) => {
                self.note(object, COMPONENT, false, "SuccessfulCreate", &format!("Created job {name}"));
                list_mut(&mut status["active"]).push(json!({
                    "kind": "Job", "namespace": job.namespace, "name": name, "uid": job.uid, "apiVersion": "batch/v1",
                    "resourceVersion": job.resource_version.to_string(),
                }));
                status["lastScheduleTime"] = json!(time_text(due));
            }
            Err(refused) if refused.reason == "AlreadyExists" => status["lastScheduleTime"] = json!(time_text(due)),
            Err(refused) => {
                let message = format!("Error creating job: {refused}");
                self.note(object, COMPONENT, true, "FailedCreate", &message);
            }
        }
    }
}

/// `Complete` or `Failed`, once a job has ended.
fn outcome(job: Job<'_>) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|kind| job.status().conditions().is_true(kind))
}
