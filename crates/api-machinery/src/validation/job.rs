//! Jobs and CronJobs.

// upstream: pkg/apis/batch/validation/validation.go ValidateJob, ValidateCronJob (v1.36)

use std::collections::HashSet;

use serde_json::{Value, json};

use super::field::{not_negative, supported, text};
use super::{Errors, job_policy, pod};
use crate::cron::Schedule;
use crate::schema::Path;

pub fn job(value: &Value, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let spec = &value["spec"];
    if spec["selector"].is_null() {
        errors.required(path.field("selector"), "");
    }
    job_spec(spec, &path, errors);
}

fn job_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(&spec[field], &path.field(field), errors);
    }
    job_policy::limits_of_indexes(spec, path, errors);
    job_policy::managed_by(spec, path, errors);
    supported(&spec["completionMode"], &path.field("completionMode"), &["Indexed", "NonIndexed"], errors);
    job_policy::indexed(spec, path, errors);
    pod_failure_policy(spec, path, errors);
    job_policy::success_policy(spec, path, errors);
    job_policy::pod_replacement_policy(spec, path, errors);
    let template = path.field("template");
    pod::template(&spec["template"], &template, errors);
    let policy = &spec["template"]["spec"]["restartPolicy"];
    match policy.as_str() {
        None | Some("" | "Always") => {
            errors.required(template.field("spec").field("restartPolicy"), "valid values: \"OnFailure\", \"Never\"");
        }
        Some("OnFailure") if spec["podFailurePolicy"].is_object() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(template.field("spec").field("restartPolicy"), policy, detail);
        }
        Some("OnFailure" | "Never") => {}
        Some(_) => errors.unsupported(template.field("spec").field("restartPolicy"), policy, &["OnFailure", "Never"]),
    }
}

const MAX_RULES: usize = 20;

fn pod_failure_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(rules) = spec["podFailurePolicy"]["rules"].as_array() else { return };
    let policy = path.field("podFailurePolicy");
    let list = policy.field("rules");
    if rules.len() > MAX_RULES {
        errors.invalid(list, &json!(rules.len()), format!("must have at most {MAX_RULES} rules"));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = list.index(index);
        let action = path.field("action");
        if text(rule, "action").is_empty() {
            errors.required(action, "valid values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"");
        } else if rule["action"] == "FailIndex" && spec["backoffLimitPerIndex"].is_null() {
            errors.invalid(action, &rule["action"], "requires the backoffLimitPerIndex to be set");
        } else {
            supported(&rule["action"], &action, &["Count", "FailIndex", "FailJob", "Ignore"], errors);
        }
        let conditions = rule["onPodConditions"].as_array().is_some_and(|list| !list.is_empty());
        match (rule["onExitCodes"].is_object(), conditions) {
            (false, false) => {
                errors.invalid(path, rule, "specifying one of OnExitCodes and OnPodConditions is required");
            }
            (true, true) => {
                errors.invalid(path, rule, "specifying both OnExitCodes and OnPodConditions is not supported");
            }
            (true, false) => {
                exit_codes(&rule["onExitCodes"], &spec["template"]["spec"], &path.field("onExitCodes"), errors);
            }
            (false, true) => {}
        }
    }
}

fn exit_codes(codes: &Value, pod: &Value, path: &Path<'_>, errors: &mut Errors) {
    supported(&codes["operator"], &path.field("operator"), &["In", "NotIn"], errors);
    if let Some(name) = codes["containerName"].as_str() {
        let containers = ["containers", "initContainers"].into_iter().filter_map(|list| pod[list].as_array()).flatten();
        if !containers.into_iter().any(|container| container["name"] == name) {
            errors.invalid(
                path.field("containerName"),
                &codes["containerName"],
                "must be one of the container or initContainer names in the pod template",
            );
        }
    }
    let values = codes["values"].as_array().map_or(&[][..], Vec::as_slice);
    let field = path.field("values");
    if values.is_empty() {
        errors.invalid(field, &json!([]), "at least one value is required");
    }
    let mut seen = HashSet::new();
    for (index, value) in values.iter().enumerate() {
        if codes["operator"] == "In" && value == 0 {
            errors.invalid(field.index(index), value, "must not be 0 for the In operator");
        }
        if !seen.insert(value) {
            errors.duplicate(field.index(index), value);
        }
    }
}

/// What a Job is to do cannot change once it does it.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let elastic =
        new["spec"]["completionMode"] == "Indexed" && new["spec"]["completions"] == new["spec"]["parallelism"];
    for field in [
        "completions",
        "selector",
        "template",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        if old["spec"][field] == new["spec"][field] || (field == "completions" && elastic) {
            continue;
        }
        // A client may still change where the pods of a suspended Job go, if it never ran.
        if field == "template" && old["spec"]["suspend"] == true && old["status"]["startTime"].is_null() {
            continue;
        }
        errors.invalid(format!("spec.{field}"), &new["spec"][field], "field is immutable");
    }
}

pub fn cron_job(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        errors.required(path.field("schedule"), "");
    } else {
        if let Err(fault) = Schedule::parse(schedule) {
            errors.invalid(path.field("schedule"), &spec["schedule"], fault);
        }
        if schedule.contains("TZ") {
            let instead = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.invalid(path.field("schedule"), &spec["schedule"], instead);
        }
    }
    if let Some(fault) = spec["timeZone"].as_str().and_then(time_zone_fault) {
        errors.invalid(path.field("timeZone"), &spec["timeZone"], fault);
    }
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        not_negative(&spec[field], &path.field(field), errors);
    }
    supported(&spec["concurrencyPolicy"], &path.field("concurrencyPolicy"), &["Allow", "Forbid", "Replace"], errors);
    job_spec(&spec["jobTemplate"]["spec"], &path.field("jobTemplate").field("spec"), errors);
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
