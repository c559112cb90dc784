//! Rules that classes, slices and claims of devices share.

// upstream: pkg/apis/resource/validation/validation.go validateSet, validateCELSelector, validateQualifiedName,
// validateDeviceToleration, validateRawExtension (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::super::Errors;
use super::super::field::{entries, supported, text};
use crate::device_selector::{self, Fault};
use crate::schema::Path;

pub(super) const MAX_CONFIG: usize = 32;
const MAX_SELECTORS: usize = 32;
const MAX_NAME: usize = 32;
const MAX_DRIVER: usize = 63;
const MAX_POOL: usize = 253;
const MAX_BINDING_CONDITIONS: usize = 4;
const MAX_COUNTERS: usize = 32;
const MAX_PARAMETERS: usize = 10 * 1024;
const TAINT_EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Whether a list is no longer than it may be; one that is is not looked at.
pub(super) fn within(value: &Value, field: &str, most: usize, path: &Path<'_>, errors: &mut Errors) -> bool {
    let count = value[field].as_array().map_or(0, Vec::len);
    if count > most {
        errors.too_many(path, count, most);
    }
    count <= most
}

/// The entries of a list must differ in their key.
pub(super) fn distinct<'a>(
    value: &'a Value,
    field: &str,
    key: impl Fn(&'a Value) -> Value,
    list: &Path<'_>,
    errors: &mut Errors,
) {
    let mut seen = HashSet::new();
    for (at, entry) in entries(value, field) {
        let key = key(entry);
        if !seen.insert(key.to_string()) {
            errors.duplicate(list.index(at), &key);
        }
    }
}

/// A DNS label that must be there.
pub(super) fn label(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    for fault in names::label(value.as_str().unwrap_or_default()) {
        errors.invalid(path, &json!(value.as_str().unwrap_or_default()), fault);
    }
}

/// The name of a driver.
pub(super) fn driver(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = value.as_str().unwrap_or_default();
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    if name.len() > MAX_DRIVER {
        errors.too_long(path, MAX_DRIVER, "bytes");
    }
    for fault in names::subdomain(&name.to_lowercase()) {
        errors.invalid(path, value, fault);
    }
}

/// The name of a pool.
pub(super) fn pool(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = value.as_str().unwrap_or_default();
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    if name.len() > MAX_POOL {
        errors.too_long(path, MAX_POOL, "bytes");
    }
    for part in name.split('/') {
        for fault in names::subdomain(part) {
            errors.invalid(path, &json!(part), fault);
        }
    }
}

/// Selectors of devices.
pub(super) fn selectors(value: &Value, list: &Path<'_>, errors: &mut Errors) {
    if !within(value, "selectors", MAX_SELECTORS, list, errors) {
        return;
    }
    for (at, selector) in entries(value, "selectors") {
        let path = list.index(at);
        let cel = path.field("cel");
        if !selector["cel"].is_object() {
            errors.required(cel, "");
            continue;
        }
        let source = text(&selector["cel"], "expression");
        let expression = cel.field("expression");
        if source.len() > device_selector::MAX_LENGTH {
            errors.too_long(expression, device_selector::MAX_LENGTH, "bytes");
            continue;
        }
        match device_selector::compile(source) {
            Ok(_) => {}
            Err(Fault::Invalid(fault)) => errors.invalid(expression, &json!(source), fault),
            Err(Fault::TooComplex) => errors.forbidden(expression, "too complex, exceeds cost limit"),
        }
    }
}

/// Configuration that only the driver understands.
pub(super) fn configuration(config: &Value, path: &Path<'_>, errors: &mut Errors) {
    let opaque = path.field("opaque");
    if !config["opaque"].is_object() {
        errors.required(opaque, "");
        return;
    }
    driver(&config["opaque"]["driver"], &opaque.field("driver"), errors);
    raw(&config["opaque"]["parameters"], &opaque.field("parameters"), errors);
}

/// An object of any form.
pub(super) fn raw(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::Null => errors.required(path, ""),
        Value::Object(_) if value.to_string().len() > MAX_PARAMETERS => {
            errors.too_long(path, MAX_PARAMETERS, "bytes");
        }
        Value::Object(_) => {}
        _ => errors.invalid_shown(path, "\"<value omitted>\"", "must be a valid JSON object"),
    }
}

/// A name that may have a domain before a slash.
pub(super) fn qualified_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [only] => identifier(only, path, errors),
        [domain, id] => {
            if domain.is_empty() {
                errors.invalid(path, &json!(""), "the domain must not be empty");
            } else {
                driver(&json!(domain), path, errors);
            }
            if id.is_empty() {
                errors.invalid(path, &json!(""), "the name must not be empty");
            } else {
                identifier(id, path, errors);
            }
        }
        // As upstream, names with more slashes are let through.
        _ => {}
    }
}

/// A name that has a domain.
pub(super) fn fully_qualified_name(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = value.as_str().unwrap_or_default();
    qualified_name(name, path, errors);
    if !name.contains('/') {
        let message = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(path, value, message);
    }
}

fn identifier(id: &str, path: &Path<'_>, errors: &mut Errors) {
    if id.len() > MAX_NAME {
        errors.too_long(path, MAX_NAME, "bytes");
    }
    let mut characters = id.chars();
    let first = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    if !first || !characters.all(|other| other.is_ascii_alphanumeric() || other == '_') {
        let message = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                       alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for \
                       validation is '[A-Za-z_][A-Za-z0-9_]*')";
        errors.invalid(path, &json!(id), message);
    }
}

/// A taint of a device.
pub(super) fn taint(taint: &Value, path: &Path<'_>, errors: &mut Errors) {
    for fault in names::qualified(text(taint, "key")) {
        errors.invalid(path.field("key"), &json!(text(taint, "key")), fault);
    }
    label_value(&taint["value"], &path.field("value"), errors);
    if text(taint, "effect").is_empty() {
        errors.required(path.field("effect"), "");
    } else {
        supported(&taint["effect"], &path.field("effect"), &TAINT_EFFECTS, errors);
    }
}

/// The tolerations of a request.
pub(super) fn tolerations(request: &Value, list: &Path<'_>, errors: &mut Errors) {
    for (at, toleration) in entries(request, "tolerations") {
        let path = list.index(at);
        if !text(toleration, "key").is_empty() {
            for fault in names::qualified(text(toleration, "key")) {
                errors.invalid(path.field("key"), &toleration["key"], fault);
            }
        }
        match text(toleration, "operator") {
            "Exists" if !text(toleration, "value").is_empty() => {
                errors.invalid(path.field("value"), &toleration["value"], "must be empty for operator `Exists`");
            }
            "Exists" => {}
            "Equal" => label_value(&toleration["value"], &path.field("value"), errors),
            "" => errors.required(path.field("operator"), ""),
            _ => errors.unsupported(path.field("operator"), &toleration["operator"], &["Equal", "Exists"]),
        }
        if !text(toleration, "effect").is_empty() {
            supported(&toleration["effect"], &path.field("effect"), &TAINT_EFFECTS, errors);
        }
    }
}

fn label_value(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    for fault in names::label_value(value.as_str().unwrap_or_default()) {
        errors.invalid(path, value, fault);
    }
}

/// The conditions that a device waits for before its pod is bound.
pub(super) fn binding_conditions(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (wanted, failures) = (path.field("bindingConditions"), path.field("bindingFailureConditions"));
    for (field, list) in [("bindingConditions", &wanted), ("bindingFailureConditions", &failures)] {
        if within(value, field, MAX_BINDING_CONDITIONS, list, errors) {
            for (at, condition) in entries(value, field) {
                for fault in names::qualified(condition.as_str().unwrap_or_default()) {
                    errors.invalid(list.index(at), condition, fault);
                }
            }
        }
        distinct(value, field, Value::clone, list, errors);
    }
    let count = |field: &str| entries(value, field).count();
    let conditions: HashSet<&Value> = entries(value, "bindingConditions").map(|(_, one)| one).collect();
    for (at, condition) in entries(value, "bindingFailureConditions") {
        if conditions.contains(condition) {
            let message = "bindingFailureConditions must not overlap with bindingConditions";
            errors.invalid(failures.index(at), condition, message);
        }
    }
    match (count("bindingConditions"), count("bindingFailureConditions")) {
        (0, 1..) => {
            let message = "bindingConditions are required to use bindingFailureConditions";
            errors.invalid(wanted, &value["bindingConditions"], message);
        }
        (1.., 0) => {
            let message = "bindingFailureConditions are required to use bindingConditions";
            errors.invalid(failures, &value["bindingFailureConditions"], message);
        }
        _ => {}
    }
}

/// Named counters.
pub(super) fn counters(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(counters) = value["counters"].as_object().filter(|counters| !counters.is_empty()) else {
        errors.required(path, "");
        return;
    };
    if counters.len() > MAX_COUNTERS {
        errors.too_many(path, counters.len(), MAX_COUNTERS);
        return;
    }
    for name in counters.keys() {
        label(&json!(name), path, errors);
    }
}
