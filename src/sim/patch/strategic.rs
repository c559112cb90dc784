//! Strategic merge patches: merges that know which lists are merged, and by which key.

use serde_json::{Map, Value};

use crate::sim::schema::{Field, Shape, schema};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into `original`, whose type is `shape` (where it is known).
///
/// # Errors
/// A sentence when the patch contradicts the type's lists.
pub(super) fn merge(original: &mut Value, mut patch: Map<String, Value>, shape: Option<&Shape>) -> Result<(), String> {
    match patch.remove(DIRECTIVE).as_ref().map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            *original = Value::Object(patch);
            return Ok(());
        }
        Some("delete") => {
            *original = Value::Object(Map::new());
            return Ok(());
        }
        Some(other) => return Err(format!("Unknown patch type found: {other}")),
    }
    if !original.is_object() {
        *original = Value::Object(Map::new());
    }
    let Some(map) = original.as_object_mut() else { return Ok(()) };
    if let Some(retain) = patch.remove(RETAIN) {
        let Some(retain) = retain.as_array() else { return Err(format!("{RETAIN} must be a list")) };
        map.retain(|key, _| retain.iter().any(|kept| kept.as_str() == Some(key)));
    }
    let mut orders: Vec<(String, Value)> = Vec::new();
    let mut deletions: Vec<(String, Value)> = Vec::new();
    let mut changes: Vec<(String, Value)> = Vec::new();
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(ORDER) {
            orders.push((list.to_owned(), value));
        } else if let Some(list) = key.strip_prefix(DELETE_VALUES) {
            deletions.push((list.to_owned(), value));
        } else {
            changes.push((key, value));
        }
    }
    for (key, values) in deletions {
        if let (Some(list), Some(values)) = (map.get_mut(&key).and_then(Value::as_array_mut), values.as_array()) {
            list.retain(|value| !values.contains(value));
        }
    }
    for (key, value) in changes {
        let field = field_of(shape, &key);
        let order = take(&mut orders, &key);
        match value {
            Value::Null => drop(map.remove(&key)),
            Value::Object(inner) => {
                let slot = map.entry(key).or_insert(Value::Null);
                if slot.is_object() || slot.is_null() {
                    merge(slot, inner, child_shape(shape, field).as_ref())?;
                } else {
                    *slot = Value::Object(inner);
                }
            }
            Value::Array(list) => {
                let key_of_list = field.and_then(|field| field.merge_key);
                match key_of_list {
                    None => drop(map.insert(key, Value::Array(list))),
                    Some(merge_key) => {
                        let element = element_shape(field);
                        let slot = map.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new()));
                        if !slot.is_array() {
                            *slot = Value::Array(Vec::new());
                        }
                        let Some(have) = slot.as_array_mut() else { continue };
                        if merge_key.is_empty() {
                            merge_values(have, list, order.as_ref());
                        } else {
                            merge_entries(&key, have, list, merge_key, element.as_ref(), order.as_ref())?;
                        }
                    }
                }
            }
            scalar => drop(map.insert(key, scalar)),
        }
    }
    // An order may come alone, for a list whose entries do not change.
    for (key, order) in orders {
        let field = field_of(shape, &key);
        let Some(merge_key) = field.and_then(|field| field.merge_key) else { continue };
        if let Some(list) = map.get_mut(&key).and_then(Value::as_array_mut) {
            let server: Vec<Value> = list.clone();
            reorder(list, &server, order.as_array().map_or(&[], Vec::as_slice), merge_key);
        }
    }
    Ok(())
}

fn take(orders: &mut Vec<(String, Value)>, key: &str) -> Option<Value> {
    let at = orders.iter().position(|(list, _)| list == key)?;
    Some(orders.swap_remove(at).1)
}

fn field_of(shape: Option<&Shape>, key: &str) -> Option<&'static Field> {
    match shape {
        Some(Shape::Struct(id)) => schema().get(*id).field(key),
        _ => None,
    }
}

fn child_shape(shape: Option<&Shape>, field: Option<&Field>) -> Option<Shape> {
    match (shape, field) {
        (_, Some(field)) => Some(field.shape.clone()),
        (Some(Shape::Map(inner)), None) => Some(inner.as_ref().clone()),
        _ => None,
    }
}

fn element_shape(field: Option<&Field>) -> Option<Shape> {
    match field.map(|field| &field.shape) {
        Some(Shape::List(inner)) => Some(inner.as_ref().clone()),
        _ => None,
    }
}

fn merge_values(have: &mut Vec<Value>, patch: Vec<Value>, order: Option<&Value>) {
    let server = have.clone();
    // Without an order of its own the patch's list is the order: what is new comes first.
    let order = order.and_then(Value::as_array).cloned().unwrap_or_else(|| patch.clone());
    for value in patch {
        if !have.contains(&value) {
            have.push(value);
        }
    }
    reorder(have, &server, &order, "");
}

fn merge_entries(
    name: &str,
    have: &mut Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    element: Option<&Shape>,
    order: Option<&Value>,
) -> Result<(), String> {
    let server = have.clone();
    if patch.iter().any(|entry| entry[DIRECTIVE] == "replace" && entry.as_object().is_some_and(|map| map.len() == 1)) {
        let kept = patch.into_iter().filter(|entry| entry.get(DIRECTIVE).is_none());
        *have = kept.collect();
        return Ok(());
    }
    let order = order.and_then(Value::as_array).cloned().unwrap_or_else(|| patch.clone());
    for entry in patch {
        let Value::Object(mut entry) = entry else {
            return Err(format!("cannot apply a strategic merge patch: entry of {name} is not an object"));
        };
        let Some(id) = entry.get(key).cloned() else {
            return Err(format!("map: {} does not contain declared merge key: {key}", super::go_text(&entry.into())));
        };
        let at = have.iter().position(|one| one[key] == id);
        match entry.get(DIRECTIVE).and_then(Value::as_str) {
            Some("delete") => have.retain(|one| one[key] != id),
            Some("replace") => {
                entry.remove(DIRECTIVE);
                match at {
                    Some(at) => have[at] = Value::Object(entry),
                    None => have.push(Value::Object(entry)),
                }
            }
            _ => {
                let at = at.unwrap_or_else(|| {
                    have.push(Value::Null);
                    have.len() - 1
                });
                merge(&mut have[at], entry, element)?;
            }
        }
    }
    reorder(have, &server, &order, key);
    Ok(())
}

/// Puts the entries the patch names into its order; entries only the server has keep their place among them.
fn reorder(list: &mut Vec<Value>, server: &[Value], order: &[Value], key: &str) {
    let id = |entry: &Value| if key.is_empty() { entry.clone() } else { entry[key].clone() };
    let ordered: Vec<Value> = order.iter().map(id).collect();
    let place = |entry: &Value| server.iter().position(|one| id(one) == id(entry));
    let (mut named, only_server): (Vec<Value>, Vec<Value>) =
        list.drain(..).partition(|entry| ordered.contains(&id(entry)));
    named.sort_by_key(|entry| ordered.iter().position(|one| *one == id(entry)));
    // Each of the server's own goes before the first named entry that follows it on the server.
    let mut start = 0;
    for entry in only_server {
        let own = place(&entry);
        let at = (start..named.len())
            .find(|at| matches!((place(&named[*at]), own), (Some(other), Some(own)) if other > own))
            .unwrap_or(named.len());
        named.insert(at, entry);
        start = at + 1;
    }
    *list = named;
}
