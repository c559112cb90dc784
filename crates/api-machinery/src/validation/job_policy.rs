//! The policies of Jobs: when one is done, which pods are replaced, how often an index is tried, who takes care of it.

// upstream: pkg/apis/batch/validation/validation.go validateJobSpec, validateSuccessPolicy, validatePodReplacementPolicy,
// validateIndexesFormat (v1.36)

use super::{Errors, Place};
use crate::views::{JobSpec, SuccessPolicy, SuccessPolicyRule};

const MAX_RULES: usize = 20;
const MAX_INDEXES_TEXT: usize = 64 * 1024;
const MAX_MANAGER_LENGTH: usize = 63;
const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED: i64 = 100_000;
/// From how many completions on an Indexed Job with limits for each index is held to less.
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_OF_MANY: i64 = 10_000;

/// Limits that belong together.
pub(super) fn limits_of_indexes(spec: &Place<'_, JobSpec<'_>>, errors: &mut Errors) {
    if spec.max_failed_indexes().is_set() && !spec.backoff_limit_per_index().is_set() {
        errors.required(spec.backoff_limit_per_index(), "when maxFailedIndexes is specified");
    }
}

/// Who takes care of the Job.
pub(super) fn managed_by(spec: &Place<'_, JobSpec<'_>>, errors: &mut Errors) {
    let manager = spec.managed_by();
    if manager.is_set() {
        manager.domain_path(errors);
        manager.no_longer_than(MAX_MANAGER_LENGTH, errors);
    }
}

/// What an Indexed Job has, and no other may have.
pub(super) fn indexed(spec: &Place<'_, JobSpec<'_>>, errors: &mut Errors) {
    let (failed, parallelism) = (spec.max_failed_indexes(), spec.parallelism());
    if *spec.completion_mode() != Some("Indexed") {
        for field in [spec.backoff_limit_per_index(), failed].iter().filter(|field| field.is_set()) {
            errors.invalid_at(field, "requires indexed completion mode");
        }
        return;
    }
    let at_most = |field: &Place<'_, Option<i64>>, limit: i64, when: &str, errors: &mut Errors| {
        if field.is_some_and(|number| number > limit) {
            errors.invalid_at(field, format!("must be less than or equal to {limit}{when}"));
        }
    };
    let Some(completions) = *spec.completions() else {
        return errors.required(spec.completions(), "when completion mode is Indexed");
    };
    at_most(&parallelism, MAX_PARALLELISM, " when completion mode is Indexed", errors);
    if failed.is_some_and(|failed| failed > completions) {
        errors.invalid_at(&failed, "must be less than or equal to completions");
    }
    at_most(&failed, MAX_FAILED, "", errors);
    if completions > MANY_COMPLETIONS && spec.backoff_limit_per_index().is_set() {
        if failed.is_none() {
            let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            errors.required(failed, &detail);
        }
        let when = format!(" when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
        at_most(&parallelism, PARALLELISM_OF_MANY, &when, errors);
        at_most(&failed, PARALLELISM_OF_MANY, &when, errors);
    }
}

/// Which indexes suffice.
pub(super) fn success_policy(spec: &Place<'_, JobSpec<'_>>, errors: &mut Errors) {
    let policy = spec.success_policy();
    if !policy.is_set() {
        return;
    }
    if *spec.completion_mode() != Some("Indexed") {
        return errors.invalid_as(policy, &shown(&policy), "requires indexed completion mode");
    }
    let rules = policy.rules();
    rules.needed_for("at least one rules must be specified when the successPolicy is specified", errors);
    rules.at_most(MAX_RULES, errors);
    rules.each().for_each(|rule| success_rule(&rule, spec.completions().unwrap_or_default(), errors));
}

fn success_rule(rule: &Place<'_, SuccessPolicyRule<'_>>, completions: i64, errors: &mut Errors) {
    let (number, listed) = (rule.succeeded_count(), rule.succeeded_indexes());
    if !number.is_set() && !listed.is_set() {
        errors.required(rule, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(indexes) = *listed {
        if indexes.len() > MAX_INDEXES_TEXT {
            errors.too_long(listed, MAX_INDEXES_TEXT, "bytes");
        }
        match count_indexes(indexes, completions) {
            Ok(count) => total = count,
            Err(fault) => errors.invalid_at(&listed, format!("error parsing succeededIndexes: {fault}")),
        }
    }
    let Some(count) = *number else { return };
    number.not_negative(errors);
    if count > completions {
        let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid_at(&number, detail);
    }
    if listed.is_set() && count > total {
        let what = "the number of indexes in the specified succeededIndexes field";
        errors.invalid_at(&number, format!("must be less than or equal to {total} ({what})"));
    }
}

/// A success policy as Go prints the struct.
fn shown(policy: &Place<'_, SuccessPolicy<'_>>) -> String {
    let rule = |rule: Place<'_, SuccessPolicyRule<'_>>| {
        let (listed, count) = (rule.succeeded_indexes().json, rule.succeeded_count().json);
        format!("{{\"SucceededIndexes\":{listed},\"SucceededCount\":{count}}}")
    };
    let rules: Vec<String> = policy.rules().each().map(rule).collect();
    let list = if policy.rules().is_set() { format!("[{}]", rules.join(",")) } else { "null".to_owned() };
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
pub(super) fn pod_replacement_policy(spec: &Place<'_, JobSpec<'_>>, errors: &mut Errors) {
    let allowed: &[&str] =
        if spec.pod_failure_policy().is_set() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    spec.pod_replacement_policy().supported(allowed, errors);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::schema::Path;

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
            let spec = Place::new(Path::Root.field("spec"), &spec);
            Errors::found(|errors| {
                limits_of_indexes(&spec, errors);
                managed_by(&spec, errors);
                indexed(&spec, errors);
                success_policy(&spec, errors);
                pod_replacement_policy(&spec, errors);
            })
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
