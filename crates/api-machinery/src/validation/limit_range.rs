//! LimitRanges: limits that agree with each other.

// upstream: pkg/apis/core/validation/validation.go ValidateLimitRange (v1.36)

use std::collections::{BTreeSet, HashSet};

use klab_cel::names;
use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use super::{Errors, Place, container};
use crate::views::{Entries, LimitRange, LimitRangeItem};

pub fn check(value: &Value, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for item in Place::<LimitRange<'_>>::root(value).spec().limits().each() {
        kind(&item.type_(), errors);
        item.type_().unique(&mut seen, errors);
        one(&item, errors);
    }
}

fn kind(kind: &Place<'_, &str>, errors: &mut Errors) {
    kind.check(names::qualified, errors);
    let is_standard = matches!(**kind, "Pod" | "Container" | "PersistentVolumeClaim");
    if names::qualified(kind).is_empty() && !kind.contains('/') && !is_standard {
        errors.invalid_at(kind, "must be a standard limit type or fully qualified");
    }
}

fn one(item: &Place<'_, LimitRangeItem<'_>>, errors: &mut Errors) {
    let kind = *item.type_();
    let mut keys = BTreeSet::new();
    amounts(kind, &item.max(), &mut keys, errors);
    amounts(kind, &item.min(), &mut keys, errors);
    for list in [item.default(), item.default_request()] {
        if kind != "Pod" {
            amounts(kind, &list, &mut keys, errors);
        } else if !list.is_empty() {
            errors.forbidden(list, "may not be specified when `type` is 'Pod'");
        }
    }
    let has_storage = |list: Entries<'_, &Value>| list.get("storage").is_some();
    if kind == "PersistentVolumeClaim" && !has_storage(*item.min()) && !has_storage(*item.max()) {
        let fault = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(item.path.field("limits"), fault);
    }
    amounts(kind, &item.max_limit_request_ratio(), &mut keys, errors);
    for name in keys {
        agreement(item, name, errors);
    }
}

fn amounts<'a>(
    kind: &str,
    list: &Place<'_, Entries<'a, &'a Value>>,
    keys: &mut BTreeSet<&'a str>,
    errors: &mut Errors,
) {
    for (name, amount) in list.each() {
        keys.insert(name);
        if matches!(kind, "Pod" | "Container") {
            container::resource_name(name, &amount.path, errors);
        } else {
            container::plain_resource(name, &amount.path, errors);
        }
    }
}

fn agreement(item: &Place<'_, LimitRangeItem<'_>>, name: &str, errors: &mut Errors) {
    let (max, min, ratio) = (item.max(), item.min(), item.max_limit_request_ratio());
    let (default, request) = (item.default(), item.default_request());
    let (max, min, ratio) = (max.entry(name), min.entry(name), ratio.entry(name));
    let (default, request) = (default.entry(name), request.entry(name));
    let amount = |place: &Place<'_, &Value>| Quantity::parse(place.text()).ok();
    let (low, high) = (amount(&min), amount(&max));
    let [limit, asked] = [&default, &request].map(|place| amount(place).filter(|_| *item.type_() != "Pod"));
    let invalid = |place: &Place<'_, &Value>, shown: Quantity, fault: String, errors: &mut Errors| {
        errors.invalid(place, &json!(shown.to_string()), fault);
    };
    for (left, left_words, right, right_words, place, shows_right) in [
        (low, "min value", high, "max value", &min, false),
        (low, "min value", asked, "default request value", &request, true),
        (asked, "default request value", high, "max value", &request, false),
        (asked, "default request value", limit, "default limit value", &request, false),
        (low, "min value", limit, "default value", &default, false),
        (limit, "default value", high, "max value", &default, true),
    ] {
        if let (Some(left), Some(right)) = (left, right)
            && left > right
        {
            let shown = if shows_right { right } else { left };
            invalid(place, shown, format!("{left_words} {left} is greater than {right_words} {right}"), errors);
        }
    }
    if let Some(times) = amount(&ratio) {
        if times.millis() < 1000 {
            invalid(&ratio, times, format!("ratio {times} is less than 1"), errors);
        }
        if let (Some(low), Some(high)) = (low, high) {
            let most = high.as_f64() / low.as_f64();
            if times.as_f64() > most {
                invalid(&ratio, times, format!("ratio {times} is greater than max/min = {most:.6}"), errors);
            }
        }
    }
    if let (Some(limit), Some(asked)) = (limit, asked)
        && !container::overcommits(name)
        && limit != asked
    {
        let fault = format!("default value {limit} must equal to defaultRequest value {asked} in {name}");
        invalid(&request, asked, fault, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_agree_with_each_other() {
        let faults = |limits: Value| Errors::found(|errors| check(&json!({ "spec": { "limits": limits } }), errors));
        let cpu = |amount: &str| json!({ "cpu": amount });
        for (limits, wanted) in [
            (
                json!([{ "type": "Container", "max": cpu("10"), "min": cpu("5"), "default": cpu("10"), "defaultRequest": cpu("6"), "maxLimitRequestRatio": cpu("2") }]),
                vec![],
            ),
            (json!([{ "type": "PersistentVolumeClaim", "max": { "storage": "10Gi" } }]), vec![]),
            (
                json!([{ "type": "Pod", "default": cpu("1") }]),
                vec!["default: Forbidden: may not be specified when `type` is 'Pod'"],
            ),
            (
                json!([{ "type": "Container", "min": cpu("2"), "max": cpu("1") }]),
                vec!["min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"],
            ),
            (
                json!([{ "type": "Container", "min": cpu("2"), "defaultRequest": cpu("1") }]),
                vec!["defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1"],
            ),
            (
                json!([{ "type": "Container", "default": cpu("3"), "max": cpu("1") }]),
                vec!["default[cpu]: Invalid value: \"1\": default value 3 is greater than max value 1"],
            ),
            (
                json!([{ "type": "Container", "maxLimitRequestRatio": cpu("800m") }]),
                vec!["maxLimitRequestRatio[cpu]: Invalid value: \"800m\": ratio 800m is less than 1"],
            ),
            (
                json!([{ "type": "Pod", "max": cpu("1"), "min": cpu("500m"), "maxLimitRequestRatio": cpu("5") }]),
                vec!["maxLimitRequestRatio[cpu]: Invalid value: \"5\": ratio 5 is greater than max/min = 2.000000"],
            ),
            (
                json!([{ "type": "Foo" }]),
                vec!["type: Invalid value: \"Foo\": must be a standard limit type or fully qualified"],
            ),
            (
                json!([{ "type": "PersistentVolumeClaim" }]),
                vec![
                    "limits: Required value: either minimum or maximum storage value is required, but neither was provided",
                ],
            ),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("spec.limits[0].{fault}")).collect();
            assert_eq!(faults(limits.clone()), wanted, "{limits}");
        }
        assert_eq!(
            faults(json!([{ "type": "Pod" }, { "type": "Pod" }])),
            ["spec.limits[1].type: Duplicate value: \"Pod\""]
        );
    }
}
