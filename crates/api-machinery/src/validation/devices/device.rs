//! One device of a ResourceSlice.

// upstream: pkg/apis/resource/validation/validation.go validateDevice, validateDeviceAttribute (v1.36)

use std::sync::LazyLock;

use klab_cel::names;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::super::field::{entries, text};
use super::super::{Errors, Place, placement};
use super::{capacity, common};
use crate::schema::Path;

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
pub(super) fn device(device: &Value, each: bool, path: &Path<'_>, errors: &mut Errors) {
    common::label(&device["name"], &path.field("name"), errors);
    let none = Map::new();
    let of = |field: &str| device[field].as_object().unwrap_or(&none);
    let total = of("attributes").len().saturating_add(of("capacity").len());
    if total > MAX_ENTRIES {
        let message = format!("the total number of attributes and capacities must not exceed {MAX_ENTRIES}");
        errors.invalid(path, &json!(total), message);
    }
    let values = of("attributes").values().map(values).fold(0_usize, usize::saturating_add);
    if values > MAX_VALUES {
        let message = format!("the total number of attribute values must not exceed {MAX_VALUES}");
        errors.invalid(path, &json!(values), message);
    }
    let attributes = path.field("attributes");
    for (name, one) in of("attributes") {
        common::qualified_name(name, &attributes, errors);
        attribute(one, &attributes.key(name), errors);
    }
    let capacities = path.field("capacity");
    let multiple = device["allowMultipleAllocations"] == true;
    for (name, one) in of("capacity") {
        common::qualified_name(name, &capacities, errors);
        capacity::check(one, multiple, &capacities.key(name), errors);
    }
    let list = path.field("taints");
    if common::within(device, "taints", MAX_TAINTS, &list, errors) {
        for (at, taint) in entries(device, "taints") {
            common::taint(taint, &list.index(at), errors);
        }
    }
    let list = path.field("consumesCounters");
    if common::within(device, "consumesCounters", MAX_CONSUMPTIONS, &list, errors) {
        for (at, one) in entries(device, "consumesCounters") {
            let path = list.index(at);
            if text(one, "counterSet").is_empty() {
                errors.required(path.field("counterSet"), "");
            } else {
                common::label(&one["counterSet"], &path.field("counterSet"), errors);
            }
            common::counters(one, &path.field("counters"), errors);
        }
        common::distinct(device, "consumesCounters", |one| one["counterSet"].clone(), &list, errors);
    }
    reach(device, each, path, errors);
    common::binding_conditions(device, path, errors);
}

/// How many values an attribute has.
fn values(attribute: &Value) -> usize {
    let lists = ["bools", "ints", "strings", "versions"].map(|field| attribute[field].as_array().map_or(0, Vec::len));
    lists.into_iter().fold(0_usize, usize::saturating_add).max(1)
}

fn attribute(attribute: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut kinds = 0_usize;
    for field in ["bool", "int", "string", "version"] {
        if !attribute[field].is_null() {
            kinds = kinds.saturating_add(1);
            single(&attribute[field], field, &path.field(field), errors);
        }
    }
    for (field, one) in [("bools", "bool"), ("ints", "int"), ("strings", "string"), ("versions", "version")] {
        let Some(list) = attribute[field].as_array() else { continue };
        kinds = kinds.saturating_add(1);
        let path = path.field(field);
        if list.is_empty() {
            errors.invalid(path, &attribute[field], "must not be empty if specified");
        }
        for (at, value) in list.iter().enumerate() {
            single(value, one, &path.index(at), errors);
        }
    }
    match kinds {
        0 => errors.invalid(path, &json!(""), "exactly one value must be specified"),
        1 => {}
        _ => errors.invalid(path, attribute, "exactly one value must be specified"),
    }
}

fn single(value: &Value, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let text = value.as_str().unwrap_or_default();
    if kind == "version" && !VERSION.as_ref().is_some_and(|version| version.is_match(text)) {
        errors.invalid(path, value, "must be a string compatible with semver.org spec 2.0.0");
    }
    if matches!(kind, "string" | "version") && text.len() > MAX_TEXT {
        errors.too_long(path, MAX_TEXT, "bytes");
    }
}

/// On which nodes a device can be used.
fn reach(device: &Value, each: bool, path: &Path<'_>, errors: &mut Errors) {
    let fields = ["nodeName", "nodeSelector", "allNodes"];
    if !each {
        if fields.iter().any(|field| !device[*field].is_null()) {
            let message = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set \
                           to true in the ResourceSlice spec";
            errors.invalid(path, &Value::Null, message);
        }
        return;
    }
    let mut ways = Vec::new();
    match device["nodeName"].as_str() {
        None => {}
        Some("") => errors.invalid(path.field("nodeName"), &json!(""), "must not be empty"),
        Some(name) => {
            ways.push("`nodeName`");
            for fault in names::subdomain(name) {
                errors.invalid(path.field("nodeName"), &device["nodeName"], fault);
            }
        }
    }
    if device["nodeSelector"].is_object() {
        ways.push("`nodeSelector`");
        placement::node_selector(&Place::new(path.field("nodeSelector"), &device["nodeSelector"]), errors);
    }
    match device["allNodes"].as_bool() {
        Some(true) => ways.push("`allNodes`"),
        Some(false) => {
            errors.invalid(path.field("allNodes"), &device["allNodes"], "must be either unset or set to true");
        }
        None => {}
    }
    let rule = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is \
                set to true in the ResourceSlice spec";
    match ways.as_slice() {
        [] => errors.required(path, rule),
        [_] => {}
        several => errors.invalid(path, &json!(format!("{{{}}}", several.join(", "))), rule),
    }
}
