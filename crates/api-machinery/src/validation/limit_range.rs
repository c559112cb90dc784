//! LimitRanges: limits that agree with each other.

// upstream: pkg/apis/core/validation/validation.go ValidateLimitRange (v1.36)

use std::collections::{BTreeSet, HashSet};

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, text};
use super::{Errors, container};
use crate::schema::Path;
use klab_scheduler::quantity::Quantity;

const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
/// What must not be above what: the two lists with their words, the list of which that is said, and whether the value
/// that is shown is the larger one.
const ORDER: [(&str, &str, &str, &str, &str, bool); 6] = [
    ("min", "min value", "max", "max value", "min", false),
    ("min", "min value", "defaultRequest", "default request value", "defaultRequest", true),
    ("defaultRequest", "default request value", "max", "max value", "defaultRequest", false),
    ("defaultRequest", "default request value", "default", "default limit value", "defaultRequest", false),
    ("min", "min value", "default", "default value", "default", false),
    ("default", "default value", "max", "max value", "default", true),
];

pub fn check(value: &Value, errors: &mut Errors) {
    let spec = Path::Root.field("spec");
    let list = spec.field("limits");
    let mut seen = HashSet::new();
    for (at, item) in entries(&value["spec"], "limits") {
        let path = list.index(at);
        kind(item, &path, errors);
        if !seen.insert(&item["type"]) {
            errors.duplicate(path.field("type"), &item["type"]);
        }
        one(item, &path, errors);
    }
}

fn kind(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = text(item, "type");
    let place = path.field("type");
    let faults = names::qualified(kind);
    if faults.is_empty() && !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
        errors.invalid(place, &item["type"], "must be a standard limit type or fully qualified");
    }
    for fault in faults {
        errors.invalid(place, &json!(kind), fault);
    }
}

fn one(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = text(item, "type");
    let is_pod = kind == "Pod";
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for list in LISTS {
        let of_requests = matches!(list, "default" | "defaultRequest");
        if is_pod && of_requests {
            if item[list].as_object().is_some_and(|map| !map.is_empty()) {
                errors.forbidden(path.field(list), "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        if list == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let given = |list: &str| !item[list]["storage"].is_null();
            if !given("min") && !given("max") {
                let fault = "either minimum or maximum storage value is required, but neither was provided";
                errors.required(path.field("limits"), fault);
            }
        }
        let place = path.field(list);
        for name in item[list].as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
            keys.insert(name);
            if is_pod || kind == "Container" {
                container::resource_name(name, &place.key(name), errors);
            } else {
                container::plain_resource(name, &place.key(name), errors);
            }
        }
    }
    for name in keys {
        amounts(item, name, path, errors);
    }
}

fn amounts(item: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    let amount = |list: &str| {
        let hidden = text(item, "type") == "Pod" && matches!(list, "default" | "defaultRequest");
        item[list][name].as_str().filter(|_| !hidden).and_then(|text| Quantity::parse(text).ok())
    };
    let invalid = |list: &str, shown: Quantity, fault: String, errors: &mut Errors| {
        errors.invalid(path.field(list).key(name), &json!(shown.to_string()), fault);
    };
    for (low, low_words, high, high_words, said_of, shows_high) in ORDER {
        if let (Some(left), Some(right)) = (amount(low), amount(high))
            && left > right
        {
            let shown = if shows_high { right } else { left };
            invalid(said_of, shown, format!("{low_words} {left} is greater than {high_words} {right}"), errors);
        }
    }
    if let Some(ratio) = amount("maxLimitRequestRatio") {
        if ratio.millis() < 1000 {
            invalid("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"), errors);
        }
        if let (Some(low), Some(high)) = (amount("min"), amount("max")) {
            let most = high.as_f64() / low.as_f64();
            if ratio.as_f64() > most {
                let fault = format!("ratio {ratio} is greater than max/min = {most:.6}");
                invalid("maxLimitRequestRatio", ratio, fault, errors);
            }
        }
    }
    if let (Some(limit), Some(request)) = (amount("default"), amount("defaultRequest"))
        && !container::overcommits(name)
        && limit != request
    {
        let fault = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
        invalid("defaultRequest", request, fault, errors);
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
