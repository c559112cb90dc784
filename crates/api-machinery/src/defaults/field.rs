//! Fields in which defaults are set.

use serde_json::{Map, Value};

/// Sets a field that is absent (or null).
pub(super) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(map) = object.as_object_mut() {
        set_in(map, field, value);
    }
}

fn set_in(map: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    let slot = map.entry(field).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value.into();
    }
}

/// The entries of a list field.
pub(super) fn each<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}
