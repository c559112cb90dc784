//! The policies of Jobs: when one is done, which pods are replaced, how often an index is tried, who takes care of it.

// upstream: pkg/apis/batch/validation/validation.go validateJobSpec, validateSuccessPolicy, validatePodReplacementPolicy,
// validateIndexesFormat (v1.36)

use serde_json::Value;

use super::Errors;
use super::field::{domain_path, entries, not_negative, text};
use crate::schema::Path;

const MAX_RULES: usize = 20;
const MAX_INDEXES_TEXT: usize = 64 * 1024;
const MAX_MANAGER_LENGTH: usize = 63;
const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED: i64 = 100_000;
/// From how many completions on an Indexed Job with limits for each index is held to less.
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_OF_MANY: i64 = 10_000;

/// Limits that belong together.
pub(super) fn limits_of_indexes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        errors.required(path.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
}

/// Who takes care of the Job.
pub(super) fn managed_by(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(manager) = spec["managedBy"].as_str() else { return };
    let place = path.field("managedBy");
    domain_path(manager, &place, errors);
    if manager.len() > MAX_MANAGER_LENGTH {
        errors.too_long(place, MAX_MANAGER_LENGTH, "bytes");
    }
}

/// What an Indexed Job has, and no other may have.
pub(super) fn indexed(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let number = |field: &str| spec[field].as_i64();
    let (failed, parallelism) = (number("maxFailedIndexes"), number("parallelism"));
    if spec["completionMode"] != "Indexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[field].is_null() {
                errors.invalid(path.field(field), &spec[field], "requires indexed completion mode");
            }
        }
        return;
    }
    let at_most = |field: &str, limit: i64, when: &str, errors: &mut Errors| {
        if number(field).is_some_and(|number| number > limit) {
            errors.invalid(path.field(field), &spec[field], format!("must be less than or equal to {limit}{when}"));
        }
    };
    let Some(completions) = number("completions") else {
        errors.required(path.field("completions"), "when completion mode is Indexed");
        return;
    };
    at_most("parallelism", MAX_PARALLELISM, " when completion mode is Indexed", errors);
    if failed.is_some_and(|failed| failed > completions) {
        let detail = "must be less than or equal to completions";
        errors.invalid(path.field("maxFailedIndexes"), &spec["maxFailedIndexes"], detail);
    }
    at_most("maxFailedIndexes", MAX_FAILED, "", errors);
    if completions > MANY_COMPLETIONS && !spec["backoffLimitPerIndex"].is_null() {
        if failed.is_none() {
            let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            errors.required(path.field("maxFailedIndexes"), &detail);
        }
        let when = format!(" when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
        if parallelism.is_some() {
            at_most("parallelism", PARALLELISM_OF_MANY, &when, errors);
        }
        at_most("maxFailedIndexes", PARALLELISM_OF_MANY, &when, errors);
    }
}

/// Which indexes suffice.
pub(super) fn success_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = &spec["successPolicy"];
    if policy.is_null() {
        return;
    }
    let path = path.field("successPolicy");
    if spec["completionMode"] != "Indexed" {
        errors.invalid_as(path, &shown(policy), "requires indexed completion mode");
        return;
    }
    let list = path.field("rules");
    let count = entries(policy, "rules").count();
    if count == 0 {
        errors.required(list, "at least one rules must be specified when the successPolicy is specified");
    }
    if count > MAX_RULES {
        errors.too_many(list, count, MAX_RULES);
    }
    let completions = spec["completions"].as_i64().unwrap_or_default();
    for (at, rule) in entries(policy, "rules") {
        success_rule(rule, completions, &list.index(at), errors);
    }
}

fn success_rule(rule: &Value, completions: i64, path: &Path<'_>, errors: &mut Errors) {
    if rule["succeededCount"].is_null() && rule["succeededIndexes"].is_null() {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(indexes) = rule["succeededIndexes"].as_str() {
        let place = path.field("succeededIndexes");
        if indexes.len() > MAX_INDEXES_TEXT {
            errors.too_long(place, MAX_INDEXES_TEXT, "bytes");
        }
        match count_indexes(indexes, completions) {
            Ok(count) => total = count,
            Err(fault) => {
                let detail = format!("error parsing succeededIndexes: {fault}");
                errors.invalid(place, &rule["succeededIndexes"], detail);
            }
        }
    }
    let Some(count) = rule["succeededCount"].as_i64() else { return };
    let place = path.field("succeededCount");
    not_negative(&rule["succeededCount"], &place, errors);
    if count > completions {
        let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(place, &rule["succeededCount"], detail);
    }
    if !rule["succeededIndexes"].is_null() && count > total {
        let what = "the number of indexes in the specified succeededIndexes field";
        let detail = format!("must be less than or equal to {total} ({what})");
        errors.invalid(place, &rule["succeededCount"], detail);
    }
}

/// A success policy as Go prints the struct.
fn shown(policy: &Value) -> String {
    let rule = |rule: &Value| {
        format!("{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}", rule["succeededIndexes"], rule["succeededCount"])
    };
    let rules: Vec<String> = entries(policy, "rules").map(|(_, value)| rule(value)).collect();
    let list = if policy["rules"].is_null() { "null".to_owned() } else { format!("[{}]", rules.join(",")) };
    format!("{{\"Rules\":{list}}}")
}

/// How many indexes a text like `1,3-5` names; what is wrong with it.
pub(super) fn count_indexes(indexes: &str, completions: i64) -> Result<i64, String> {
    if indexes.is_empty() {
        return Ok(0);
    }
    let (mut total, mut last) = (0, None::<i64>);
    for part in indexes.split(',') {
        let ends: Vec<&str> = part.split('-').collect();
        let number = |text: &str| {
            text.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))
        };
        let (first, end) = match ends.as_slice() {
            [only] => (number(only)?, None),
            [first, end] => (number(first)?, Some(number(end)?)),
            _ => {
                return Err(format!(
                    "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
                ));
            }
        };
        if first >= completions {
            return Err(format!("too large index: {:?}", ends[0]));
        }
        if let Some(end) = end {
            if end >= completions {
                return Err(format!("too large index: {:?}", ends[1]));
            }
            if first >= end {
                return Err(format!("non-increasing order, previous: {first}, current: {end}"));
            }
        }
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        let end = end.unwrap_or(first);
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// When pods are replaced.
pub(super) fn pod_replacement_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = &spec["podReplacementPolicy"];
    if policy.is_null() {
        return;
    }
    let allowed: &[&str] =
        if spec["podFailurePolicy"].is_object() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if !allowed.contains(&text(spec, "podReplacementPolicy")) {
        errors.unsupported(path.field("podReplacementPolicy"), policy, allowed);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn indexes_are_in_order_and_below_the_completions() {
        for (text, wanted) in [
            ("", Ok(0)),
            ("0,2-4", Ok(4)),
            ("0,9", Err("too large index: \"9\"")),
            ("3,2", Err("non-increasing order, previous: 3, current: 2")),
            ("2-1", Err("non-increasing order, previous: 2, current: 1")),
            ("a", Err("cannot convert string to integer for index: \"a\"")),
        ] {
            assert_eq!(count_indexes(text, 5), wanted.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn policies_are_checked_together_with_the_mode() {
        let faults = |spec: Value| {
            let mut errors = Errors::default();
            let path = Path::Root.field("spec");
            limits_of_indexes(&spec, &path, &mut errors);
            managed_by(&spec, &path, &mut errors);
            indexed(&spec, &path, &mut errors);
            success_policy(&spec, &path, &mut errors);
            pod_replacement_policy(&spec, &path, &mut errors);
            errors.texts()
        };
        let rules = |rules: Value| json!({ "completionMode": "Indexed", "completions": 3, "successPolicy": { "rules": rules } });
        let field = "spec.successPolicy.rules[0]";
        for (spec, wanted) in [
            (rules(json!([{ "succeededIndexes": "0", "succeededCount": 1 }])), vec![]),
            (rules(json!([])), vec!["spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified".to_owned()]),
            (rules(json!([{}])), vec![format!("{field}: Required value: at least one of succeededCount or succeededIndexes must be specified")]),
            (rules(json!([{ "succeededCount": 4 }])), vec![format!("{field}.succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified completions)")]),
            (
                json!({ "successPolicy": { "rules": [{ "succeededIndexes": "0" }] } }),
                vec!["spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":\"0\",\"SucceededCount\":null}]}: requires indexed completion mode".to_owned()],
            ),
            (json!({ "managedBy": "acme.io/foo" }), vec![]),
            (
                json!({ "managedBy": "nodomain" }),
                vec!["spec.managedBy: Invalid value: \"nodomain\": must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()],
            ),
            (json!({ "backoffLimitPerIndex": 1 }), vec!["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode".to_owned()]),
            (
                json!({ "podFailurePolicy": {}, "podReplacementPolicy": "TerminatingOrFailed" }),
                vec!["spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"".to_owned()],
            ),
        ] {
            assert_eq!(faults(spec.clone()), wanted, "{spec}");
        }
    }
}
