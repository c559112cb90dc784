//! `successPolicy` of Indexed Jobs: which indexes suffice.

// upstream: pkg/controller/job/success_policy.go matchSuccessPolicy (v1.36)

use klab_api_machinery::views::SuccessPolicy;

use super::indexes::Indexes;

/// What is said when the first rule is met that is.
pub(super) fn met(policy: SuccessPolicy<'_>, completions: i64, succeeded: &Indexes) -> Option<String> {
    if succeeded.len() == 0 {
        return None;
    }
    policy.rules().enumerate().find_map(|(at, rule)| {
        let enough = |have: i64| rule.succeeded_count().is_some_and(|count| have >= count);
        let is_met = match rule.succeeded_indexes() {
            Some(indexes) => {
                let wanted = Indexes::parse(indexes, completions);
                let have = wanted.in_common(succeeded);
                wanted.len() > 0 && (have == wanted.len() || enough(have))
            }
            None => enough(succeeded.len()),
        };
        is_met.then(|| format!("Matched rules at index {at}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_rule_that_is_met_is_named() {
        let policy = json!({ "rules": [
            { "succeededIndexes": "0,2-3" },
            { "succeededIndexes": "4-9", "succeededCount": 2 },
            { "succeededCount": 5 },
        ]});
        for (succeeded, rule) in
            [("", None), ("0,2", None), ("0,2,3", Some(0)), ("4,8", Some(1)), ("0-2,4,10", Some(2))]
        {
            let wanted = rule.map(|rule| format!("Matched rules at index {rule}"));
            assert_eq!(met(SuccessPolicy(&policy), 12, &Indexes::parse(succeeded, 12)), wanted, "{succeeded}");
        }
        assert_eq!(met(SuccessPolicy(&json!(null)), 12, &Indexes::parse("0-11", 12)), None);
    }
}
