//! Jobs and CronJobs.

use serde_json::Value;

use super::{Errors, not_negative, pod, supported, text};
use crate::sim::schema::Path;

pub(super) fn job(value: &Value, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let spec = &value["spec"];
    if spec["selector"].is_null() {
        errors.required(path.field("selector"), "");
    }
    job_spec(spec, &path, errors);
}

fn job_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        not_negative(&spec[field], &path.field(field), errors);
    }
    supported(&spec["completionMode"], &path.field("completionMode"), &["Indexed", "NonIndexed"], errors);
    if spec["completionMode"] == "Indexed" && spec["completions"].is_null() {
        errors.required(path.field("completions"), "when completion mode is Indexed");
    }
    let template = path.field("template");
    pod::template(&spec["template"], &template, errors);
    let policy = &spec["template"]["spec"]["restartPolicy"];
    match policy.as_str() {
        None | Some("" | "Always") => {
            errors.required(template.field("spec").field("restartPolicy"), "valid values: \"OnFailure\", \"Never\"");
        }
        Some("OnFailure" | "Never") => {}
        Some(_) => errors.unsupported(template.field("spec").field("restartPolicy"), policy, &["OnFailure", "Never"]),
    }
}

/// What a Job is to do cannot change once it does it.
pub(super) fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let elastic =
        new["spec"]["completionMode"] == "Indexed" && new["spec"]["completions"] == new["spec"]["parallelism"];
    for field in ["completions", "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"] {
        if old["spec"][field] == new["spec"][field] || (field == "completions" && elastic) {
            continue;
        }
        // A suspended Job that never ran may still be told where its pods go.
        if field == "template" && old["spec"]["suspend"] == true && old["status"]["startTime"].is_null() {
            continue;
        }
        errors.invalid(format!("spec.{field}"), &new["spec"][field], "field is immutable");
    }
}

pub(super) fn cron_job(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        errors.required(path.field("schedule"), "");
    } else if let Some(fault) = schedule_fault(schedule) {
        errors.invalid(path.field("schedule"), &spec["schedule"], fault);
    }
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        not_negative(&spec[field], &path.field(field), errors);
    }
    supported(&spec["concurrencyPolicy"], &path.field("concurrencyPolicy"), &["Allow", "Forbid", "Replace"], errors);
    job_spec(&spec["jobTemplate"]["spec"], &path.field("jobTemplate").field("spec"), errors);
}

/// What is wrong with a schedule, as the parser upstream says it.
fn schedule_fault(schedule: &str) -> Option<String> {
    const NAMED: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    const RANGES: [(u32, u32, &[&str]); 5] = [
        (0, 59, &[]),
        (0, 23, &[]),
        (1, 31, &[]),
        (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
        (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
    ];
    if schedule.starts_with('@') {
        let known = NAMED.contains(&schedule) || schedule.starts_with("@every ");
        return (!known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != RANGES.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, (low, high, words)) in fields.iter().zip(RANGES) {
        for part in field.split(',') {
            let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
            if let Some(step) = step
                && !step.parse::<u32>().is_ok_and(|step| step > 0)
            {
                return Some(format!(
                    "failed to parse int from {step}: strconv.Atoi: parsing {step:?}: invalid syntax"
                ));
            }
            if matches!(range, "*" | "?") {
                continue;
            }
            for end in range.split('-') {
                let named = words.iter().position(|word| word.eq_ignore_ascii_case(end)).map(|at| at as u32 + low);
                match named.or_else(|| end.parse().ok()) {
                    None => {
                        return Some(format!(
                            "failed to parse int from {end}: strconv.Atoi: parsing {end:?}: invalid syntax"
                        ));
                    }
                    Some(number) if number < low => {
                        return Some(format!("beginning of range ({number}) below minimum ({low}): {part}"));
                    }
                    Some(number) if number > high => {
                        return Some(format!("end of range ({number}) above maximum ({high}): {part}"));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::schedule_fault;

    #[test]
    fn schedules() {
        for good in ["*/5 * * * *", "0 3 * * mon-fri", "@daily", "1,2 0-6/2 ? jan *"] {
            assert_eq!(schedule_fault(good), None, "{good}");
        }
        assert_eq!(schedule_fault("soon").as_deref(), Some("expected exactly 5 fields, found 1: [soon]"));
        assert!(schedule_fault("61 * * * *").is_some());
        assert!(schedule_fault("@never").is_some());
    }
}
