//! Capacity of a device, and what may be asked of it.

// upstream: pkg/apis/resource/validation/validation.go validateRequestPolicy (v1.36)

use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use super::super::Errors;
use super::super::field::entries;
use super::common;
use crate::schema::Path;

const MAX_VALUES: usize = 10;

fn amount(value: &Value) -> Quantity {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// A capacity; only of devices that several may share a part can be asked for.
pub(super) fn check(capacity: &Value, multiple: bool, path: &Path<'_>, errors: &mut Errors) {
    let policy = &capacity["requestPolicy"];
    let path = path.field("requestPolicy");
    if policy.is_null() {
        return;
    }
    if !multiple {
        errors.forbidden(path, "allowMultipleAllocations must be true");
        return;
    }
    let (listed, ranged) = (entries(policy, "validValues").next().is_some(), policy["validRange"].is_object());
    if listed && ranged {
        let message = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the \
                       same time";
        errors.forbidden(path, message);
        return;
    }
    if !listed && !ranged {
        return;
    }
    let kind = if listed { "validValues" } else { "validRange" };
    if policy["default"].is_null() {
        errors.required(path.field("default"), &format!("required when {kind} is defined"));
    } else if listed {
        values(policy, amount(&capacity["value"]), &path.field(kind), errors);
    } else {
        range(policy, amount(&capacity["value"]), &path.field(kind), errors);
    }
}

fn values(policy: &Value, most: Quantity, list: &Path<'_>, errors: &mut Errors) {
    let all: Vec<Quantity> = entries(policy, "validValues").map(|(_, value)| amount(value)).collect();
    for (at, pair) in all.windows(2).enumerate() {
        if let [one, next] = pair
            && one > next
        {
            let place = list.index(at.saturating_add(1));
            errors.invalid(place, &json!(next.to_string()), "values must be sorted in ascending order");
        }
    }
    if common::within(policy, "validValues", MAX_VALUES, list, errors) {
        for (at, value) in all.iter().enumerate() {
            if *value > most {
                let message = format!("option is larger than capacity value: {most}");
                errors.invalid(list.index(at), &json!(value.to_string()), message);
            }
        }
        let key = |value: &Value| json!(amount(value).units().to_string());
        common::distinct(policy, "validValues", key, list, errors);
    }
    let default = amount(&policy["default"]);
    if !all.contains(&default) {
        let message = "default value is not valid according to the requestPolicy";
        errors.invalid(list, &json!(default.to_string()), message);
    }
}

fn range(policy: &Value, most: Quantity, path: &Path<'_>, errors: &mut Errors) {
    let range = &policy["validRange"];
    let default = amount(&policy["default"]);
    if range["min"].is_null() {
        errors.required(path.field("min"), "required when validRange is defined");
        return;
    }
    let least = amount(&range["min"]);
    let shown = |amount: Quantity| json!(amount.to_string());
    if least > most {
        let message = format!("min is larger than capacity value: {most}");
        errors.invalid(path.field("min"), &shown(least), message);
    }
    if default < least {
        errors.invalid(path.field("min"), &shown(default), format!("default is less than min: {least}"));
    }
    let greatest = (!range["max"].is_null()).then(|| amount(&range["max"]));
    if let Some(greatest) = greatest {
        let path = path.field("max");
        if least > greatest {
            errors.invalid(path, &shown(least), format!("min is larger than max: {greatest}"));
        }
        if greatest > most {
            errors.invalid(path, &shown(greatest), format!("max is larger than capacity value: {most}"));
        }
        if default > greatest {
            errors.invalid(path, &shown(default), format!("default is more than max: {greatest}"));
        }
    }
    if range["step"].is_null() {
        return;
    }
    let step = amount(&range["step"]);
    let path = path.field("step");
    if least + step > most {
        let message = format!("one step {} is larger than capacity value: {most}", least + step);
        errors.invalid(path, &shown(step), message);
    }
    for value in std::iter::once(default).chain(greatest) {
        let above = value.units().saturating_sub(least.units());
        // A step of nothing leads nowhere.
        if above.checked_rem(step.units()) != Some(0) {
            let message = format!("value is not a multiple of a given step ({step}) from ({least})");
            errors.invalid(path, &shown(value), message);
        }
    }
}
