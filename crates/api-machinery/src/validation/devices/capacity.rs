//! Capacity of a device, and what may be asked of it.

// upstream: pkg/apis/resource/validation/validation.go validateRequestPolicy (v1.36)

use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use super::super::{Errors, Place};
use super::common;
use crate::views::{CapacityRequestPolicy, DeviceCapacity};

const MAX_VALUES: usize = 10;

fn amount(value: &Value) -> Quantity {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

fn shown(amount: Quantity) -> Value {
    json!(amount.to_string())
}

/// A capacity; only of devices that several may share a part can be asked for.
pub(super) fn check(capacity: &Place<'_, DeviceCapacity<'_>>, multiple: bool, errors: &mut Errors) {
    let policy = capacity.request_policy();
    if !policy.is_set() {
        return;
    }
    if !multiple {
        return errors.forbidden(policy, "allowMultipleAllocations must be true");
    }
    let (list, range, default) = (policy.valid_values(), policy.valid_range(), policy.default());
    let kind = match (list.is_empty(), range.is_set()) {
        (true, false) => return,
        (true, true) => range.field_name(),
        (false, false) => list.field_name(),
        (false, true) => {
            let message = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the \
                           same time";
            return errors.forbidden(policy, message);
        }
    };
    if !default.is_set() {
        errors.required(default, &format!("required when {kind} is defined"));
    } else if range.is_set() {
        within_range(&policy, amount(capacity.value().json), errors);
    } else {
        among_values(&policy, amount(capacity.value().json), errors);
    }
}

fn among_values(policy: &Place<'_, CapacityRequestPolicy<'_>>, most: Quantity, errors: &mut Errors) {
    let (list, default) = (policy.valid_values(), amount(policy.default().json));
    let mut before = None;
    for value in list.each() {
        let own = amount(value.json);
        if before.is_some_and(|before| before > own) {
            errors.invalid(value, &shown(own), "values must be sorted in ascending order");
        }
        before = Some(own);
    }
    if list.at_most(MAX_VALUES, errors) {
        for value in list.each().filter(|value| amount(value.json) > most) {
            let message = format!("option is larger than capacity value: {most}");
            errors.invalid(value, &shown(amount(value.json)), message);
        }
        common::distinct(&list, |value| json!(amount(value.json).units().to_string()), errors);
    }
    if !list.each().any(|value| amount(value.json) == default) {
        errors.invalid(&list, &shown(default), "default value is not valid according to the requestPolicy");
    }
}

fn within_range(policy: &Place<'_, CapacityRequestPolicy<'_>>, most: Quantity, errors: &mut Errors) {
    let (range, default) = (policy.valid_range(), amount(policy.default().json));
    let (min, max, step) = (range.min(), range.max(), range.step());
    if !min.is_set() {
        return errors.required(min, "required when validRange is defined");
    }
    let least = amount(min.json);
    if least > most {
        errors.invalid(min, &shown(least), format!("min is larger than capacity value: {most}"));
    }
    if default < least {
        errors.invalid(min, &shown(default), format!("default is less than min: {least}"));
    }
    let greatest = max.is_set().then(|| amount(max.json));
    if let Some(greatest) = greatest {
        if least > greatest {
            errors.invalid(max, &shown(least), format!("min is larger than max: {greatest}"));
        }
        if greatest > most {
            errors.invalid(max, &shown(greatest), format!("max is larger than capacity value: {most}"));
        }
        if default > greatest {
            errors.invalid(max, &shown(default), format!("default is more than max: {greatest}"));
        }
    }
    if !step.is_set() {
        return;
    }
    let length = amount(step.json);
    if least + length > most {
        let message = format!("one step {} is larger than capacity value: {most}", least + length);
        errors.invalid(step, &shown(length), message);
    }
    for value in std::iter::once(default).chain(greatest) {
        let above = value.units().saturating_sub(least.units());
        // A step of nothing leads nowhere.
        if above.checked_rem(length.units()) != Some(0) {
            let message = format!("value is not a multiple of a given step ({length}) from ({least})");
            errors.invalid(step, &shown(value), message);
        }
    }
}
