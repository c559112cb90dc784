//! Entries of lists that must differ: sets, and lists that are maps.
//!
//! // upstream: apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go

use serde_json::{Map, Value};

use crate::validation::Errors;

/// Reports entries that are there twice.
pub(super) fn check(schema: &Value, value: &Value, errors: &mut Errors) {
    walk(schema, value, "", errors);
}

fn walk(schema: &Value, value: &Value, path: &str, errors: &mut Errors) {
    match value {
        Value::Array(items) => {
            for (at, entry, shown) in duplicates(schema, items) {
                let _ = entry;
                errors.duplicate(format!("{path}[{at}]"), &shown);
            }
            for (at, item) in items.iter().enumerate() {
                walk(&schema["items"], item, &format!("{path}[{at}]"), errors);
            }
        }
        Value::Object(map) => {
            for (name, inner) in map {
                let known = &schema["properties"][name.as_str()];
                let (known, path) = if known.is_object() {
                    (known, if path.is_empty() { name.clone() } else { format!("{path}.{name}") })
                } else {
                    (&schema["additionalProperties"], format!("{path}[{name}]"))
                };
                if known.is_object() {
                    walk(known, inner, &path, errors);
                }
            }
        }
        _ => {}
    }
}

/// Entries that are the same as an earlier one: their place and what is shown of them.
fn duplicates<'a>(schema: &Value, items: &'a [Value]) -> Vec<(usize, &'a Value, Value)> {
    let identity = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Some(item.clone()),
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array()?;
            let map: Map<String, Value> = keys
                .iter()
                .filter_map(Value::as_str)
                .filter_map(|key| Some((key.to_owned(), item.get(key)?.clone())))
                .collect();
            Some(Value::Object(map))
        }
        _ => None,
    };
    let mut seen: Vec<Value> = Vec::new();
    let mut found = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let Some(own) = identity(item) else { break };
        if seen.contains(&own) {
            found.push((at, item, own));
        } else {
            seen.push(own);
        }
    }
    found
}

/// The entry of an old list that a new one goes back to.
pub(super) fn correlated<'a>(schema: &Value, old: &'a [Value], new: &Value) -> Option<&'a Value> {
    if schema["x-kubernetes-list-type"] != "map" {
        return None;
    }
    let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"].as_array()?.iter().filter_map(Value::as_str).collect();
    old.iter().find(|old| keys.iter().all(|key| old.get(key) == new.get(key)))
}
