//! Rules that classes, slices and claims of devices share.

// upstream: pkg/apis/resource/validation/validation.go validateSet, validateCELSelector, validateQualifiedName,
// validateDeviceToleration, validateRawExtension (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::super::volume_sources::driver;
use super::super::{Errors, Place, placement};
use crate::device_selector::{self, Fault};
use crate::schema::Path;
use crate::views::{
    Counter, DeviceSelector, DeviceTaint, DeviceToleration, Entries, NodeSelector, OpaqueDeviceConfiguration, View,
    Views,
};

pub(super) const MAX_CONFIG: usize = 32;
const MAX_SELECTORS: usize = 32;
const MAX_NAME: usize = 32;
const MAX_POOL: usize = 253;
const MAX_BINDING_CONDITIONS: usize = 4;
const MAX_COUNTERS: usize = 32;
const MAX_PARAMETERS: usize = 10 * 1024;
const TAINT_EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// The entries of a list must differ in their key.
pub(super) fn distinct<'a, T: View<'a>>(
    list: &Place<'_, Views<'a, T>>,
    key: impl Fn(&Place<'_, T>) -> Value,
    errors: &mut Errors,
) {
    let mut seen = HashSet::new();
    for entry in list.each() {
        let key = key(&entry);
        if !seen.insert(key.to_string()) {
            errors.duplicate(&entry, &key);
        }
    }
}

/// The name of a pool.
pub(super) fn pool(name: &Place<'_, &str>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(name, "");
    }
    name.no_longer_than(MAX_POOL, errors);
    for part in name.split('/') {
        errors.faults(name, part, names::subdomain);
    }
}

/// Selectors of devices.
pub(super) fn selectors<'a>(list: &Place<'_, Views<'a, DeviceSelector<'a>>>, errors: &mut Errors) {
    if !list.at_most(MAX_SELECTORS, errors) {
        return;
    }
    for selector in list.each() {
        let cel = selector.cel();
        let expression = cel.expression();
        if !cel.is_set() {
            errors.required(cel, "");
        } else if expression.len() > device_selector::MAX_LENGTH {
            errors.too_long(expression, device_selector::MAX_LENGTH, "bytes");
        } else {
            match device_selector::compile(*expression) {
                Ok(_) => {}
                Err(Fault::Invalid(fault)) => errors.invalid_text(&expression, fault),
                Err(Fault::TooComplex) => errors.forbidden(expression, "too complex, exceeds cost limit"),
            }
        }
    }
}

/// Configuration that only the driver understands.
pub(super) fn configuration(opaque: &Place<'_, OpaqueDeviceConfiguration<'_>>, errors: &mut Errors) {
    if !opaque.is_set() {
        return errors.required(opaque, "");
    }
    driver(&opaque.driver(), errors);
    raw(&opaque.parameters(), errors);
}

/// An object of any form.
pub(super) fn raw(place: &Place<'_, &Value>, errors: &mut Errors) {
    match place.json {
        Value::Null => errors.required(place, ""),
        Value::Object(_) if place.json.to_string().len() > MAX_PARAMETERS => {
            errors.too_long(place, MAX_PARAMETERS, "bytes");
        }
        Value::Object(_) => {}
        _ => errors.invalid_as(place, "\"<value omitted>\"", "must be a valid JSON object"),
    }
}

/// A name that may have a domain before a slash.
pub(super) fn qualified_name(name: &str, path: Path<'_>, errors: &mut Errors) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [only] => identifier(only, path, errors),
        [domain, id] => {
            if domain.is_empty() {
                errors.invalid(path, &json!(""), "the domain must not be empty");
            } else {
                driver(&Place::new(path, &json!(domain)), errors);
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
pub(super) fn fully_qualified_name(name: &Place<'_, Option<&str>>, errors: &mut Errors) {
    qualified_name(name.text(), name.path, errors);
    if !name.text().contains('/') {
        errors.invalid_at(name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn identifier(id: &str, path: Path<'_>, errors: &mut Errors) {
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
pub(super) fn taint(taint: &Place<'_, DeviceTaint<'_>>, errors: &mut Errors) {
    taint.key().check(names::qualified, errors);
    taint.value().check(names::label_value, errors);
    taint.effect().needed_of(&TAINT_EFFECTS, errors);
}

/// The tolerations of a request.
pub(super) fn tolerations<'a>(list: &Place<'_, Views<'a, DeviceToleration<'a>>>, errors: &mut Errors) {
    for toleration in list.each() {
        let (operator, value, effect) = (toleration.operator(), toleration.value(), toleration.effect());
        toleration.key().check_if_set(names::qualified, errors);
        match *operator {
            "Exists" if !value.is_empty() => errors.invalid_at(&value, "must be empty for operator `Exists`"),
            "Exists" => {}
            "Equal" => value.check(names::label_value, errors),
            _ => operator.needed_of(&["Equal", "Exists"], errors),
        }
        if !effect.is_empty() {
            effect.supported(&TAINT_EFFECTS, errors);
        }
    }
}

/// The conditions that a device waits for before its pod is bound, and those that keep it from being bound.
pub(super) fn binding_conditions<'a>(
    wanted: &Place<'_, Views<'a, &'a str>>,
    failures: &Place<'_, Views<'a, &'a str>>,
    errors: &mut Errors,
) {
    for list in [wanted, failures] {
        if list.at_most(MAX_BINDING_CONDITIONS, errors) {
            list.each().for_each(|condition| condition.check(names::qualified, errors));
        }
        distinct(list, |condition| condition.json.clone(), errors);
    }
    let conditions: HashSet<&str> = Views::clone(wanted).collect();
    for condition in failures.each().filter(|condition| conditions.contains(**condition)) {
        errors.invalid_at(&condition, "bindingFailureConditions must not overlap with bindingConditions");
    }
    match (wanted.is_empty(), failures.is_empty()) {
        (true, false) => {
            errors.invalid_at(wanted, "bindingConditions are required to use bindingFailureConditions");
        }
        (false, true) => {
            errors.invalid_at(failures, "bindingFailureConditions are required to use bindingConditions");
        }
        _ => {}
    }
}

/// Named counters.
pub(super) fn counters<'a>(counters: &Place<'_, Entries<'a, Counter<'a>>>, errors: &mut Errors) {
    if counters.is_empty() {
        return errors.required(counters, "");
    }
    if counters.len() > MAX_COUNTERS {
        return errors.too_many(counters, counters.len(), MAX_COUNTERS);
    }
    for (name, _) in counters.iter() {
        errors.faults(counters, name, names::label);
    }
}

/// The node of devices, as a way to say where they can be used.
pub(super) fn on_node<'p>(name: &Place<'p, Option<&str>>, empty: &str, ways: &mut Vec<&'p str>, errors: &mut Errors) {
    if **name == Some("") {
        errors.invalid_at(name, empty);
    } else if name.is_set() {
        ways.push(name.field_name());
        name.check(names::subdomain, errors);
    }
}

/// The nodes of devices, as a way to say where they can be used.
pub(super) fn on_nodes<'p>(selector: &Place<'p, NodeSelector<'_>>, ways: &mut Vec<&'p str>, errors: &mut Errors) {
    if selector.is_set() {
        ways.push(selector.field_name());
        placement::node_selector(selector, errors);
    }
}

/// That devices can be used on all nodes, or say so themselves.
pub(super) fn is_true<'p>(flag: &Place<'p, Option<bool>>, ways: &mut Vec<&'p str>, errors: &mut Errors) {
    match **flag {
        Some(true) => ways.push(flag.field_name()),
        Some(false) => errors.invalid_at(flag, "must be either unset or set to true"),
        None => {}
    }
}

/// One way must say where devices can be used.
pub(super) fn one_way<T>(owner: &Place<'_, T>, ways: &[&str], rule: &str, several: &str, errors: &mut Errors) {
    match ways {
        [] => errors.required(owner, rule),
        [_] => {}
        _ => {
            let shown = ways.iter().map(|way| format!("`{way}`")).collect::<Vec<_>>().join(", ");
            errors.invalid(owner, &json!(format!("{{{shown}}}")), format!("{rule}{several}"));
        }
    }
}
