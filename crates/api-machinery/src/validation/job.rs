//! Jobs and CronJobs.

// upstream: pkg/apis/batch/validation/validation.go ValidateJob, ValidateCronJob (v1.36)

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Errors, Place, job_policy, pod};
use crate::cron::Schedule;
use crate::views::{CronJobSpec, Job, JobSpec, PodFailurePolicyOnExitCodesRequirement, PodSpec};

pub fn job(value: &Value, errors: &mut Errors) {
    let spec = Place::<JobSpec<'_>>::of_spec(value);
    if !spec.selector().is_set() {
        errors.required(spec.selector(), "");
    }
    job_spec(&spec, errors);
}

fn job_spec(spec: &Place<'_, JobSpec<'_>>, errors: &mut Errors) {
    spec.parallelism().not_negative(errors);
    spec.completions().not_negative(errors);
    spec.active_deadline_seconds().not_negative(errors);
    spec.backoff_limit().not_negative(errors);
    spec.ttl_seconds_after_finished().not_negative(errors);
    spec.backoff_limit_per_index().not_negative(errors);
    spec.max_failed_indexes().not_negative(errors);
    job_policy::limits_of_indexes(spec, errors);
    job_policy::managed_by(spec, errors);
    spec.completion_mode().supported(&["Indexed", "NonIndexed"], errors);
    job_policy::indexed(spec, errors);
    pod_failure_policy(spec, errors);
    job_policy::success_policy(spec, errors);
    job_policy::pod_replacement_policy(spec, errors);
    let template = spec.template();
    pod::template(&template, errors);
    let pod = template.spec();
    let policy = pod.restart_policy();
    match *policy {
        "" | "Always" => errors.required(policy, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.pod_failure_policy().is_set() => {
            errors.invalid_at(&policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        _ => policy.supported(&["OnFailure", "Never"], errors),
    }
}

const MAX_RULES: usize = 20;

fn pod_failure_policy(spec: &Place<'_, JobSpec<'_>>, errors: &mut Errors) {
    let policy = spec.pod_failure_policy();
    let rules = policy.rules();
    if rules.len() > MAX_RULES {
        errors.invalid(&rules, &json!(rules.len()), format!("must have at most {MAX_RULES} rules"));
    }
    for rule in rules.each() {
        let (action, codes) = (rule.action(), rule.on_exit_codes());
        if action.is_empty() {
            errors.required(action, "valid values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"");
        } else if *action == "FailIndex" && !spec.backoff_limit_per_index().is_set() {
            errors.invalid_at(&action, "requires the backoffLimitPerIndex to be set");
        } else {
            action.supported(&["Count", "FailIndex", "FailJob", "Ignore"], errors);
        }
        match (codes.is_set(), !rule.on_pod_conditions().is_empty()) {
            (false, false) => {
                errors.invalid_at(&rule, "specifying one of OnExitCodes and OnPodConditions is required");
            }
            (true, true) => {
                errors.invalid_at(&rule, "specifying both OnExitCodes and OnPodConditions is not supported");
            }
            (true, false) => exit_codes(&codes, *spec.template().spec(), errors),
            (false, true) => {}
        }
    }
}

fn exit_codes(codes: &Place<'_, PodFailurePolicyOnExitCodesRequirement<'_>>, pod: PodSpec<'_>, errors: &mut Errors) {
    codes.operator().supported(&["In", "NotIn"], errors);
    let name = codes.container_name();
    if name.is_some_and(|name| !pod.containers().chain(pod.init_containers()).any(|one| one.name() == name)) {
        errors.invalid_at(&name, "must be one of the container or initContainer names in the pod template");
    }
    let values = codes.values();
    if values.is_empty() {
        errors.invalid(&values, &json!([]), "at least one value is required");
    }
    let mut seen = HashSet::new();
    for value in values.each() {
        if *codes.operator() == "In" && *value == 0 {
            errors.invalid_at(&value, "must not be 0 for the In operator");
        }
        value.unique(&mut seen, errors);
    }
}

/// What a Job is to do cannot change once it does it.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (Place::<Job<'_>>::root(old), Place::<Job<'_>>::root(new));
    let (before, spec) = (old.spec(), new.spec());
    let elastic = *spec.completion_mode() == Some("Indexed") && *spec.completions() == *spec.parallelism();
    // A client may still change where the pods of a suspended Job go, if it never ran.
    let is_free = *before.suspend() == Some(true) && !old.status().start_time().is_set();
    for (field, may_change) in [
        ("completions", elastic),
        ("selector", false),
        ("template", is_free),
        ("completionMode", false),
        ("podFailurePolicy", false),
        ("backoffLimitPerIndex", false),
        ("managedBy", false),
        ("successPolicy", false),
    ] {
        if !may_change {
            spec.field(field).stays(&before.field(field), errors);
        }
    }
}

pub fn cron_job(value: &Value, errors: &mut Errors) {
    let spec = Place::<CronJobSpec<'_>>::of_spec(value);
    let schedule = spec.schedule();
    if schedule.is_empty() {
        errors.required(schedule, "");
    } else {
        if let Err(fault) = Schedule::parse(*schedule) {
            errors.invalid_at(&schedule, fault);
        }
        if schedule.contains("TZ") {
            errors.invalid_at(&schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        }
    }
    if let Some(fault) = spec.time_zone().and_then(time_zone_fault) {
        errors.invalid_at(&spec.time_zone(), fault);
    }
    spec.starting_deadline_seconds().not_negative(errors);
    spec.successful_jobs_history_limit().not_negative(errors);
    spec.failed_jobs_history_limit().not_negative(errors);
    spec.concurrency_policy().supported(&["Allow", "Forbid", "Replace"], errors);
    job_spec(&spec.job_template().spec(), errors);
}

/// What is wrong with the name of a time zone: it is not one, or none that is known.
// upstream: pkg/apis/batch/validation/validation.go validateTimeZone (v1.36)
fn time_zone_fault(name: &str) -> Option<String> {
    const MAX_PART_LENGTH: usize = 14;
    if name.is_empty() {
        return Some("timeZone must be nil or non-empty string".to_owned());
    }
    let is_part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
        (1..=MAX_PART_LENGTH).contains(&part.len()) && part.bytes().all(plain) && !part.starts_with('-')
    };
    let unknown = || Some(format!("unknown time zone {name}"));
    if !name.split('/').all(|part| is_part(part) && part != "." && part != "..") {
        return unknown();
    }
    if name.eq_ignore_ascii_case("Local") {
        let words = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return Some(words.to_owned());
    }
    if jiff::tz::TimeZone::get(name).is_err() { unknown() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zones() {
        for (name, wanted) in [
            ("Etc/UTC", None),
            ("Europe/Berlin", None),
            ("", Some("timeZone must be nil or non-empty string")),
            ("bad-time-zone", Some("unknown time zone bad-time-zone")),
            ("../etc/passwd", Some("unknown time zone ../etc/passwd")),
            ("Europe//Berlin", Some("unknown time zone Europe//Berlin")),
            ("local", Some("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")),
        ] {
            assert_eq!(time_zone_fault(name).as_deref(), wanted, "{name}");
        }
    }

    // upstream: pkg/apis/batch/validation/validation_test.go TestValidateCronJob (v1.36)
    #[test]
    fn schedules() {
        let timezone = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        for (schedule, wanted) in [
            ("*/5 * * * *", &[][..]),
            ("@every 10m", &[]),
            ("error", &["expected exactly 5 fields, found 1: [error]"]),
            ("TZ=UTC 0 * * * *", &[timezone]),
            ("CRON_TZ=UTC 0 * * * *", &[timezone]),
            (
                "TZ=UnknownLocation 0 * * * *",
                &["provided bad location UnknownLocation: unknown time zone UnknownLocation", timezone],
            ),
            ("TZ=0", &["invalid schedule format: runtime error: slice bounds out of range [:-1]", timezone]),
        ] {
            let mut errors = Errors::default();
            let value = json!({ "spec": { "schedule": schedule, "concurrencyPolicy": "Allow" } });
            cron_job(&value, &mut errors);
            let texts = errors.texts();
            let wanted = wanted.iter().map(|fault| format!("spec.schedule: Invalid value: {schedule:?}: {fault}"));
            let told = texts.into_iter().filter(|told| told.starts_with("spec.schedule"));
            assert_eq!(told.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
        }
    }
}
