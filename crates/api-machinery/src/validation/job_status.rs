//! What the status of a Job may become: only what the Job's controller would make of it, whichever client writes it.

// upstream: pkg/apis/batch/validation/validation.go validateJobStatus, ValidateJobStatusUpdate (v1.36)
// upstream: pkg/registry/batch/job/strategy.go getStatusValidationOptions (v1.36)

use serde_json::Value;

use super::Errors;
use super::field::{entries, not_negative, text};
use super::job_policy::count_indexes;
use crate::schema::Path;

/// A Job and what is asked of its status.
#[derive(Clone, Copy)]
struct Job<'a>(&'a Value);

impl Job<'_> {
    fn holds(self, kind: &str) -> bool {
        entries(&self.0["status"], "conditions").any(|(_, have)| have["type"] == kind && have["status"] == "True")
    }

    fn is_finished(self) -> bool {
        self.holds("Complete") || self.holds("Failed")
    }

    fn count(self, field: &str) -> i64 {
        self.0["status"][field].as_i64().unwrap_or_default()
    }

    fn status(self, field: &str) -> &'static str {
        // Only whether it is there is asked for.
        if self.0["status"][field].is_null() { "" } else { "given" }
    }

    fn is_indexed(self) -> bool {
        self.0["spec"]["completionMode"] == "Indexed"
    }
}

/// What is wrong with a change of a Job's status. Only what changes is looked at.
pub(super) fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (Job(old), Job(new));
    let path = Path::Root.field("status");
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        not_negative(&new.0["status"][field], &path.field(field), errors);
    }
    conditions(old, new, &path, errors);
    finished(old, new, &path, errors);
    indexes(old, new, &path, errors);
    counters(old, new, &path, errors);
}

fn changes(old: Job<'_>, new: Job<'_>, field: &str) -> bool {
    old.0["status"][field] != new.0["status"][field]
}

fn turns(old: Job<'_>, new: Job<'_>, kind: &str) -> bool {
    old.holds(kind) != new.holds(kind)
}

fn conditions(old: Job<'_>, new: Job<'_>, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("conditions");
    let completes = turns(old, new, "Complete");
    let both = |one: &str, other: &str| new.holds(one) && new.holds(other);
    if (completes || turns(old, new, "Failed")) && both("Complete", "Failed") {
        errors.invalid_without(place, "cannot set Complete=True and Failed=true conditions");
    }
    if (completes || turns(old, new, "FailureTarget")) && both("Complete", "FailureTarget") {
        errors.invalid_without(place, "cannot set Complete=True and FailureTarget=true conditions");
    }
    completion_time(old, new, path, errors);
    if (turns(old, new, "Failed") || changes(old, new, "failedIndexes"))
        && new.holds("Failed")
        && !new.holds("FailureTarget")
    {
        errors.invalid_without(place, "cannot set Failed=True condition without the FailureTarget=true condition");
    }
    if (completes || turns(old, new, "SuccessCriteriaMet")) && new.holds("Complete") && !new.holds("SuccessCriteriaMet")
    {
        errors
            .invalid_without(place, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
}

fn completion_time(old: Job<'_>, new: Job<'_>, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("completionTime");
    let time = &new.0["status"]["completionTime"];
    if turns(old, new, "Complete") || changes(old, new, "completionTime") {
        if !time.is_null() && !new.holds("Complete") {
            errors.invalid(place, time, "cannot set completionTime when there is no Complete=True condition");
        }
        if time.is_null() && new.holds("Complete") {
            errors.required(place, "completionTime is required for Complete jobs");
        }
    }
    let start = &new.0["status"]["startTime"];
    // Times in this form are in the order of their texts.
    if !time.is_null() && !start.is_null() && time.as_str() < start.as_str() {
        errors.invalid(place, time, "must be equal to or after `startTime`");
    }
}

fn finished(old: Job<'_>, new: Job<'_>, path: &Path<'_>, errors: &mut Errors) {
    let ends = old.is_finished() != new.is_finished();
    let is_finished = new.is_finished();
    if (ends || changes(old, new, "active")) && is_finished && new.count("active") > 0 {
        errors.invalid(path.field("active"), &new.0["status"]["active"], "active>0 is invalid for finished job");
    }
    let idle = new.0["spec"]["suspend"] == true && new.0["spec"]["completions"] == 0;
    if (ends || changes(old, new, "startTime")) && !idle && is_finished && new.status("startTime").is_empty() {
        errors.required(path.field("startTime"), "startTime is required for finished job");
    }
    let uncounted = &new.0["status"]["uncountedTerminatedPods"];
    let any = entries(uncounted, "succeeded").next().is_some() || entries(uncounted, "failed").next().is_some();
    if (ends || changes(old, new, "uncountedTerminatedPods")) && is_finished && any {
        errors.invalid(path.field("uncountedTerminatedPods"), uncounted, "must be empty for finished job");
    }
}

fn indexes(old: Job<'_>, new: Job<'_>, path: &Path<'_>, errors: &mut Errors) {
    let status = &new.0["status"];
    let completions = new.0["spec"]["completions"].as_i64();
    for field in ["completedIndexes", "failedIndexes"] {
        let fault = completions
            .filter(|_| changes(old, new, field))
            .and_then(|completions| count_indexes(text(status, field), completions).err());
        if let Some(fault) = fault {
            errors.invalid(path.field(field), &status[field], format!("error parsing {field}: {fault}"));
        }
    }
    if changes(old, new, "completedIndexes") && !text(status, "completedIndexes").is_empty() && !new.is_indexed() {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(path.field("completedIndexes"), &status["completedIndexes"], detail);
    }
    let limited = !new.0["spec"]["backoffLimitPerIndex"].is_null();
    if changes(old, new, "failedIndexes") && !status["failedIndexes"].is_null() && !limited {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(path.field("failedIndexes"), &status["failedIndexes"], detail);
    }
}

fn counters(old: Job<'_>, new: Job<'_>, path: &Path<'_>, errors: &mut Errors) {
    let ends = old.is_finished() != new.is_finished();
    if (ends || changes(old, new, "terminating")) && new.is_finished() && new.count("terminating") > 0 {
        let detail = "terminating>0 is invalid for finished job";
        errors.invalid(path.field("terminating"), &new.0["status"]["terminating"], detail);
    }
    let moved = changes(old, new, "ready") || changes(old, new, "active");
    if moved && new.count("ready") > new.count("active") {
        errors.invalid(path.field("ready"), &new.0["status"]["ready"], "cannot set more ready pods than active");
    }
    let place = path.field("conditions");
    for other in ["Failed", "FailureTarget"] {
        if new.holds("SuccessCriteriaMet") && new.holds(other) {
            let other = if other == "Failed" { "Failed=true" } else { "FailureTarget=true" };
            errors.invalid_without(place, format!("cannot set SuccessCriteriaMet=True and {other} conditions"));
        }
    }
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if old.holds(kind) && !new.holds(kind) {
            errors.invalid_without(place, format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    let elastic = new.is_indexed() && new.0["spec"]["completions"] == new.0["spec"]["parallelism"];
    for (field, fixed) in [("failed", true), ("succeeded", !elastic)] {
        if fixed && new.count(field) < old.count(field) {
            let detail = format!("cannot decrease the {field} counter");
            errors.invalid(path.field(field), &new.0["status"][field], detail);
        }
    }
    if old.holds("SuccessCriteriaMet") && !new.holds("SuccessCriteriaMet") {
        errors.invalid_without(place, "cannot disable the SuccessCriteriaMet=True condition");
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
