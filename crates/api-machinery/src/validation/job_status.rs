//! What the status of a Job may become: only what the Job's controller would make of it, whichever client writes it.

// upstream: pkg/apis/batch/validation/validation.go validateJobStatus, ValidateJobStatusUpdate (v1.36)
// upstream: pkg/registry/batch/job/strategy.go getStatusValidationOptions (v1.36)

use serde_json::Value;

use super::job_policy::count_indexes;
use super::{Errors, Place};
use crate::views::{Job, JobSpec, JobStatus};

/// A Job as it was and as a client asks for it.
struct Change<'p> {
    spec: JobSpec<'p>,
    had: JobStatus<'p>,
    has: Place<'p, JobStatus<'p>>,
}

fn is_true(status: JobStatus<'_>, kind: &str) -> bool {
    status.conditions().any(|one| one.type_() == kind && one.status() == "True")
}

impl Change<'_> {
    fn held(&self, kind: &str) -> bool {
        is_true(self.had, kind)
    }

    fn holds(&self, kind: &str) -> bool {
        is_true(*self.has, kind)
    }

    fn turns(&self, kind: &str) -> bool {
        self.held(kind) != self.holds(kind)
    }

    fn is_finished(&self) -> bool {
        self.holds("Complete") || self.holds("Failed")
    }

    fn ends(&self) -> bool {
        self.is_finished() != (self.held("Complete") || self.held("Failed"))
    }

    fn is_indexed(&self) -> bool {
        self.spec.completion_mode() == Some("Indexed")
    }
}

/// What is wrong with a change of a Job's status. Only what changes is looked at.
pub(super) fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let job = Place::<Job<'_>>::root(new);
    let change = Change { spec: *job.spec(), had: Job(old).status(), has: job.status() };
    let has = change.has;
    for count in [has.active(), has.succeeded(), has.failed(), has.ready().cast(), has.terminating().cast()] {
        count.not_negative(errors);
    }
    conditions(&change, errors);
    finished(&change, errors);
    indexes(&change, errors);
    counters(&change, errors);
}

fn conditions(change: &Change<'_>, errors: &mut Errors) {
    let place = change.has.conditions();
    let completes = change.turns("Complete");
    let both = |one: &str, other: &str| change.holds(one) && change.holds(other);
    let lacks = |one: &str, other: &str| change.holds(one) && !change.holds(other);
    if (completes || change.turns("Failed")) && both("Complete", "Failed") {
        errors.invalid_without(&place, "cannot set Complete=True and Failed=true conditions");
    }
    if (completes || change.turns("FailureTarget")) && both("Complete", "FailureTarget") {
        errors.invalid_without(&place, "cannot set Complete=True and FailureTarget=true conditions");
    }
    completion_time(change, errors);
    let fails = change.turns("Failed") || change.had.failed_indexes() != *change.has.failed_indexes();
    if fails && lacks("Failed", "FailureTarget") {
        errors.invalid_without(&place, "cannot set Failed=True condition without the FailureTarget=true condition");
    }
    if (completes || change.turns("SuccessCriteriaMet")) && lacks("Complete", "SuccessCriteriaMet") {
        let fault = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.invalid_without(&place, fault);
    }
}

fn completion_time(change: &Change<'_>, errors: &mut Errors) {
    let (time, start) = (change.has.completion_time(), change.has.start_time());
    if change.turns("Complete") || change.had.completion_time() != *time {
        if time.is_set() && !change.holds("Complete") {
            errors.invalid_at(&time, "cannot set completionTime when there is no Complete=True condition");
        }
        if !time.is_set() && change.holds("Complete") {
            errors.required(time, "completionTime is required for Complete jobs");
        }
    }
    if time.zip(*start).is_some_and(|(time, start)| time < start) {
        errors.invalid_at(&time, "must be equal to or after `startTime`");
    }
}

fn finished(change: &Change<'_>, errors: &mut Errors) {
    let Change { spec, had, has } = change;
    let (active, start, uncounted) = (has.active(), has.start_time(), has.uncounted_terminated_pods());
    if !change.is_finished() {
        return;
    }
    if (change.ends() || had.active() != *active) && *active > 0 {
        errors.invalid_at(&active, "active>0 is invalid for finished job");
    }
    let is_idle = spec.suspend() == Some(true) && spec.completions() == Some(0);
    if (change.ends() || had.start_time() != *start) && !is_idle && !start.is_set() {
        errors.required(start, "startTime is required for finished job");
    }
    let is_empty = uncounted.succeeded().is_empty() && uncounted.failed().is_empty();
    if (change.ends() || had.uncounted_terminated_pods() != *uncounted) && !is_empty {
        errors.invalid_at(&uncounted, "must be empty for finished job");
    }
}

fn indexes(change: &Change<'_>, errors: &mut Errors) {
    let Change { spec, had, has } = change;
    let (completed, failed) = (has.completed_indexes(), has.failed_indexes());
    let completes = had.completed_indexes() != *completed;
    let fails = had.failed_indexes() != *failed;
    for (indexes, changes) in [(completed, completes), (failed.cast(), fails)] {
        let completions = spec.completions().filter(|_| changes);
        if let Some(Err(fault)) = completions.map(|completions| count_indexes(*indexes, completions)) {
            errors.invalid_at(&indexes, format!("error parsing {}: {fault}", indexes.field_name()));
        }
    }
    if completes && !completed.is_empty() && !change.is_indexed() {
        errors.invalid_at(&completed, "cannot set non-empty completedIndexes when non-indexed completion mode");
    }
    if fails && failed.is_set() && spec.backoff_limit_per_index().is_none() {
        errors.invalid_at(&failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
    }
}

fn counters(change: &Change<'_>, errors: &mut Errors) {
    let Change { spec, had, has } = change;
    let (terminating, ready, active) = (has.terminating(), has.ready(), has.active());
    let ends = change.ends() || had.terminating() != *terminating;
    if ends && change.is_finished() && terminating.is_some_and(|count| count > 0) {
        errors.invalid_at(&terminating, "terminating>0 is invalid for finished job");
    }
    let moves = had.ready() != *ready || had.active() != *active;
    if moves && ready.unwrap_or_default() > *active {
        errors.invalid_at(&ready, "cannot set more ready pods than active");
    }
    let place = has.conditions();
    for other in ["Failed", "FailureTarget"] {
        if change.holds("SuccessCriteriaMet") && change.holds(other) {
            errors.invalid_without(&place, format!("cannot set SuccessCriteriaMet=True and {other}=true conditions"));
        }
    }
    let ceases = |kind: &str| change.held(kind) && !change.holds(kind);
    for kind in ["Failed", "Complete", "FailureTarget"].into_iter().filter(|kind| ceases(kind)) {
        errors.invalid_without(&place, format!("cannot disable the terminal {kind}=True condition"));
    }
    let is_elastic = change.is_indexed() && spec.completions() == spec.parallelism();
    if *has.failed() < had.failed() {
        errors.invalid_at(&has.failed(), "cannot decrease the failed counter");
    }
    if !is_elastic && *has.succeeded() < had.succeeded() {
        errors.invalid_at(&has.succeeded(), "cannot decrease the succeeded counter");
    }
    if ceases("SuccessCriteriaMet") {
        errors.invalid_without(&place, "cannot disable the SuccessCriteriaMet=True condition");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(old: Value, new: Value) -> Vec<String> {
        let job = |status: Value| json!({ "spec": { "completions": 1 }, "status": status });
        Errors::found(|errors| update(&job(old), &job(new), errors))
    }

    #[test]
    fn a_finished_job_has_come_there_in_order() {
        let complete = json!([{ "type": "Complete", "status": "True" }]);
        assert_eq!(
            faults(json!({ "active": 2 }), json!({ "active": 2, "conditions": complete })),
            [
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "status.active: Invalid value: 2: active>0 is invalid for finished job",
                "status.startTime: Required value: startTime is required for finished job",
            ]
        );
        let time = "2026-01-01T00:00:00Z";
        let met = json!([{ "type": "SuccessCriteriaMet", "status": "True" }, { "type": "Complete", "status": "True" }]);
        let done = json!({ "startTime": time, "completionTime": time, "succeeded": 1, "conditions": met });
        assert_eq!(faults(json!({ "startTime": time }), done.clone()), [""; 0]);
        assert_eq!(
            faults(done, json!({ "startTime": time, "succeeded": 0 })),
            [
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ]
        );
    }
}
