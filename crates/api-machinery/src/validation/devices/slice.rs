//! ResourceSlices.

// upstream: pkg/apis/resource/validation/validation.go validateResourceSliceSpec (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::super::field::{entries, text};
use super::super::{Errors, Place, placement};
use super::{common, device};
use crate::schema::Path;

const MAX_DEVICES: usize = 128;
/// Where devices have taints or consume counters.
const MAX_ADVANCED_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;

/// A ResourceSlice.
pub fn slice(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    common::driver(&spec["driver"], &path.field("driver"), errors);
    let pool = path.field("pool");
    common::pool(&spec["pool"]["name"], &pool.field("name"), errors);
    let count = spec["pool"]["resourceSliceCount"].as_i64().unwrap_or(0);
    if count <= 0 {
        errors.invalid(pool.field("resourceSliceCount"), &json!(count), "must be greater than zero");
    }
    let generation = spec["pool"]["generation"].as_i64().unwrap_or(0);
    if generation < 0 {
        errors.invalid(pool.field("generation"), &json!(generation), "must be greater than or equal to zero");
    }
    reach(spec, &path, errors);
    if !spec["sharedCounters"].is_null() && !spec["devices"].is_null() {
        errors.invalid(path, &json!(""), "only one of `sharedCounters` or `devices` is allowed");
    }
    let advanced = |(_, device): (usize, &Value)| {
        entries(device, "taints").next().is_some() || entries(device, "consumesCounters").next().is_some()
    };
    let most = if entries(spec, "devices").any(advanced) { MAX_ADVANCED_DEVICES } else { MAX_DEVICES };
    let list = path.field("devices");
    if common::within(spec, "devices", most, &list, errors) {
        let each = spec["perDeviceNodeSelection"] == true;
        for (at, one) in entries(spec, "devices") {
            device::device(one, each, &list.index(at), errors);
        }
        common::distinct(spec, "devices", |device| device["name"].clone(), &list, errors);
    }
    let list = path.field("sharedCounters");
    if common::within(spec, "sharedCounters", MAX_COUNTER_SETS, &list, errors) {
        for (at, set) in entries(spec, "sharedCounters") {
            let path = list.index(at);
            if text(set, "name").is_empty() {
                errors.required(path.field("name"), "");
            } else {
                common::label(&set["name"], &path.field("name"), errors);
            }
            common::counters(set, &path.field("counters"), errors);
        }
        common::distinct(spec, "sharedCounters", |set| set["name"].clone(), &list, errors);
    }
}

/// Whose devices these are stays as it is.
pub fn slice_update(old: &Value, new: &Value, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let pool = path.field("pool");
    let (before, after) = (&old["spec"], &new["spec"]);
    for (path, before, after) in [
        (pool.field("name"), &before["pool"]["name"], &after["pool"]["name"]),
        (path.field("driver"), &before["driver"], &after["driver"]),
        (path.field("nodeName"), &before["nodeName"], &after["nodeName"]),
    ] {
        if before != after {
            errors.invalid(path, after, "field is immutable");
        }
    }
}

/// On which nodes the devices can be used: said in one way.
fn reach(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut ways = Vec::new();
    match spec["nodeName"].as_str() {
        None => {}
        Some("") => {
            errors.invalid(path.field("nodeName"), &json!(""), "must be either unset or set to a non-empty string");
        }
        Some(name) => {
            ways.push("`nodeName`");
            for fault in names::subdomain(name) {
                errors.invalid(path.field("nodeName"), &spec["nodeName"], fault);
            }
        }
    }
    if spec["nodeSelector"].is_object() {
        ways.push("`nodeSelector`");
        let selector = path.field("nodeSelector");
        placement::node_selector(&Place::new(selector, &spec["nodeSelector"]), errors);
        let terms = &spec["nodeSelector"]["nodeSelectorTerms"];
        if terms.as_array().map_or(0, Vec::len) != 1 {
            let list = selector.field("nodeSelectorTerms");
            errors.invalid(list, terms, "must have exactly one node selector term");
        }
    }
    for (field, way) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match spec[field].as_bool() {
            Some(true) => ways.push(way),
            Some(false) => errors.invalid(path.field(field), &spec[field], "must be either unset or set to true"),
            None => {}
        }
    }
    let rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match ways.as_slice() {
        [] => errors.required(path, rule),
        [_] => {}
        several => {
            let shown = json!(format!("{{{}}}", several.join(", ")));
            errors.invalid(path, &shown, format!("{rule}, but multiple fields are set"));
        }
    }
}
