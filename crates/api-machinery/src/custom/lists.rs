//! Entries of lists that must differ: sets, and lists that are maps.
//!
//! // upstream: apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::schema::Path;
use crate::validation::Errors;
use crate::work;

/// Reports entries that are there twice.
pub(super) fn check(schema: &Value, value: &Value, errors: &mut Errors) {
    walk(schema, value, Path::Root, errors);
}

fn walk(schema: &Value, value: &Value, path: Path<'_>, errors: &mut Errors) {
    match value {
        Value::Array(items) => {
            for (at, entry, shown) in duplicates(schema, items) {
                let _ = entry;
                errors.duplicate(path.index(at), &shown);
            }
            for (at, item) in items.iter().enumerate().take_while(|_| work::step()) {
                walk(&schema["items"], item, path.index(at), errors);
            }
        }
        Value::Object(map) => {
            for (name, inner) in map {
                let known = &schema["properties"][name.as_str()];
                let (known, path) = if known.is_object() {
                    (known, path.field(name))
                } else {
                    (&schema["additionalProperties"], path.key(name))
                };
                if known.is_object() {
                    walk(known, inner, path, errors);
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
    let mut seen: HashSet<Value> = HashSet::new();
    let mut found = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let Some(own) = identity(item) else { break };
        if seen.contains(&own) {
            found.push((at, item, own));
        } else {
            seen.insert(own);
        }
    }
    found
}

/// The entries of an old list, as those of a new one go back to them.
pub(super) struct Correlated<'a> {
    keys: Vec<&'a str>,
    old: HashMap<Vec<Option<&'a Value>>, &'a Value>,
}

impl<'a> Correlated<'a> {
    pub(super) fn of(schema: &'a Value, old: Option<&'a Value>) -> Self {
        let is_map = schema["x-kubernetes-list-type"] == "map";
        let keys = schema["x-kubernetes-list-map-keys"].as_array().filter(|_| is_map);
        let mut known =
            Self { keys: keys.into_iter().flatten().filter_map(Value::as_str).collect(), old: HashMap::new() };
        if keys.is_some() {
            for entry in old.and_then(Value::as_array).into_iter().flatten() {
                known.old.entry(known.identity(entry)).or_insert(entry);
            }
        }
        known
    }

    fn identity<'b>(&self, entry: &'b Value) -> Vec<Option<&'b Value>> {
        self.keys.iter().map(|key| entry.get(key)).collect()
    }

    /// The old entry that a new one goes back to.
    pub(super) fn with(&self, new: &Value) -> Option<&'a Value> {
        self.old.get(&self.identity(new)).copied()
    }
}
