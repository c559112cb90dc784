//! One device of a ResourceSlice.

// upstream: pkg/apis/resource/validation/validation.go validateDevice, validateDeviceAttribute (v1.36)

use std::sync::LazyLock;

use klab_cel::names;
use regex::Regex;
use serde_json::{Value, json};

use super::super::{Errors, Place};
use super::{capacity, common};
use crate::views::{Device, DeviceAttribute, Views};

const MAX_ENTRIES: usize = 32;
const MAX_VALUES: usize = 48;
const MAX_TEXT: usize = 64;
const MAX_TAINTS: usize = 16;
const MAX_CONSUMPTIONS: usize = 2;

/// Versions as semver.org has them.
static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = r"(0|[1-9]\d*)";
    let release = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)";
    let build = r"[0-9a-zA-Z-]+";
    Regex::new(&format!(r"^{number}\.{number}\.{number}(-{release}(\.{release})*)?(\+{build}(\.{build})*)?$")).ok()
});

/// A device; `each`: devices say themselves where they can be used.
pub(super) fn device(device: &Place<'_, Device<'_>>, each: bool, errors: &mut Errors) {
    let (attributes, capacities) = (device.attributes(), device.capacity());
    device.name().check(names::label, errors);
    let total = attributes.len().saturating_add(capacities.len());
    if total > MAX_ENTRIES {
        let message = format!("the total number of attributes and capacities must not exceed {MAX_ENTRIES}");
        errors.invalid(device, &json!(total), message);
    }
    let values = attributes.iter().map(|(_, attribute)| values(attribute)).fold(0_usize, usize::saturating_add);
    if values > MAX_VALUES {
        let message = format!("the total number of attribute values must not exceed {MAX_VALUES}");
        errors.invalid(device, &json!(values), message);
    }
    for (name, one) in attributes.each() {
        common::qualified_name(name, attributes.path, errors);
        attribute(&one, errors);
    }
    for (name, one) in capacities.each() {
        common::qualified_name(name, capacities.path, errors);
        capacity::check(&one, *device.allow_multiple_allocations() == Some(true), errors);
    }
    if device.taints().at_most(MAX_TAINTS, errors) {
        device.taints().each().for_each(|taint| common::taint(&taint, errors));
    }
    let consumptions = device.consumes_counters();
    if consumptions.at_most(MAX_CONSUMPTIONS, errors) {
        for one in consumptions.each() {
            one.counter_set().needed_as(names::label, errors);
            common::counters(&one.counters(), errors);
        }
        common::distinct(&consumptions, |one| one.counter_set().json.clone(), errors);
    }
    reach(device, each, errors);
    common::binding_conditions(&device.binding_conditions(), &device.binding_failure_conditions(), errors);
}

/// How many values an attribute has.
fn values(attribute: DeviceAttribute<'_>) -> usize {
    let numbers = attribute.bools().len().saturating_add(attribute.ints().len());
    numbers.saturating_add(attribute.strings().len()).saturating_add(attribute.versions().len()).max(1)
}

fn attribute(attribute: &Place<'_, DeviceAttribute<'_>>, errors: &mut Errors) {
    let values = [
        attribute.bool().cast::<&Value>(),
        attribute.int().cast(),
        attribute.string().cast(),
        attribute.version().cast(),
    ];
    let lists = [
        attribute.bools().cast::<Views<'_, &Value>>(),
        attribute.ints().cast(),
        attribute.strings().cast(),
        attribute.versions().cast(),
    ];
    for value in values.iter().filter(|value| value.is_set()) {
        single(value, value.field_name() == "version", errors);
    }
    for list in lists.iter().filter(|list| list.is_set()) {
        if list.is_empty() {
            errors.invalid_at(list, "must not be empty if specified");
        }
        list.each().for_each(|value| single(&value, list.field_name() == "versions", errors));
    }
    let is_set = values.iter().map(Place::is_set).chain(lists.iter().map(Place::is_set));
    match is_set.filter(|is_set| *is_set).count() {
        0 => errors.invalid(attribute, &json!(""), "exactly one value must be specified"),
        1 => {}
        _ => errors.invalid_at(attribute, "exactly one value must be specified"),
    }
}

fn single(value: &Place<'_, &Value>, is_version: bool, errors: &mut Errors) {
    if is_version && !VERSION.as_ref().is_some_and(|version| version.is_match(value.text())) {
        errors.invalid_at(value, "must be a string compatible with semver.org spec 2.0.0");
    }
    value.no_longer_than(MAX_TEXT, errors);
}

/// On which nodes a device can be used.
fn reach(device: &Place<'_, Device<'_>>, each: bool, errors: &mut Errors) {
    let (name, selector, all) = (device.node_name(), device.node_selector(), device.all_nodes());
    if !each {
        if name.is_set() || selector.is_set() || all.is_set() {
            let message = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set \
                           to true in the ResourceSlice spec";
            errors.invalid(device, &Value::Null, message);
        }
        return;
    }
    let mut ways = Vec::new();
    common::on_node(&name, "must not be empty", &mut ways, errors);
    common::on_nodes(&selector, &mut ways, errors);
    common::is_true(&all, &mut ways, errors);
    let rule = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is \
                set to true in the ResourceSlice spec";
    common::one_way(device, &ways, rule, "", errors);
}
