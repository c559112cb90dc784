//! Strategic merge patches: merges that know which lists are merged, and by which key.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go StrategicMergePatch (v1.36)

use std::collections::{HashMap, HashSet};

use klab_api_machinery::go_text::go_text;
use klab_api_machinery::schema::{Field, Shape, schema};
use klab_api_machinery::work;
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into `original`, whose type is `shape` (where it is known).
///
/// # Errors
/// A sentence when the patch contradicts the type's lists.
pub(crate) fn merge(original: &mut Value, mut patch: Map<String, Value>, shape: Option<&Shape>) -> Result<(), String> {
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
        let retain: HashSet<&str> = retain.iter().filter_map(Value::as_str).collect();
        map.retain(|key, _| retain.contains(key.as_str()));
    }
    let mut orders: HashMap<String, Value> = HashMap::new();
    let mut deletions: Vec<(String, Value)> = Vec::new();
    let mut changes: Vec<(String, Value)> = Vec::new();
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(ORDER) {
            orders.insert(list.to_owned(), value);
        } else if let Some(list) = key.strip_prefix(DELETE_VALUES) {
            deletions.push((list.to_owned(), value));
        } else {
            changes.push((key, value));
        }
    }
    for (key, values) in deletions {
        if let (Some(list), Some(values)) = (map.get_mut(&key).and_then(Value::as_array_mut), values.as_array()) {
            let values: HashSet<&Value> = values.iter().collect();
            list.retain(|value| !values.contains(value));
        }
    }
    for (key, value) in changes.into_iter().take_while(|_| work::step()) {
        let field = field_of(shape, &key);
        let order = orders.remove(&key);
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
            Value::Array(list) => match field.and_then(|field| field.merge_key) {
                None => drop(map.insert(key, Value::Array(list))),
                Some(merge_key) => {
                    let slot = map.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new()));
                    if !slot.is_array() {
                        *slot = Value::Array(Vec::new());
                    }
                    let Some(have) = slot.as_array_mut() else { continue };
                    if merge_key.is_empty() {
                        merge_values(have, list, order.as_ref());
                    } else {
                        merge_entries(&key, have, list, merge_key, element_shape(field).as_ref(), order.as_ref())?;
                    }
                }
            },
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
    let mut known: HashSet<Value> = have.iter().cloned().collect();
    for value in patch {
        if known.insert(value.clone()) {
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
    let mut entries = Entries::of(std::mem::take(have), key);
    for entry in patch.into_iter().take_while(|_| work::step()) {
        let Value::Object(mut entry) = entry else {
            return Err(format!("cannot apply a strategic merge patch: entry of {name} is not an object"));
        };
        let Some(id) = entry.get(key).cloned() else {
            return Err(format!("map: {} does not contain declared merge key: {key}", go_text(&entry.into())));
        };
        match entry.get(DIRECTIVE).and_then(Value::as_str) {
            Some("delete") => entries.remove(&id),
            Some("replace") => {
                entry.remove(DIRECTIVE);
                *entries.slot(id) = Value::Object(entry);
            }
            _ => merge(entries.slot(id), entry, element)?,
        }
    }
    *have = entries.into_list();
    reorder(have, &server, &order, key);
    Ok(())
}

/// The entries of a list, found by their merge key.
struct Entries {
    slots: Vec<Option<Value>>,
    /// Where the entries with a key are; a list that was written without patches may have several.
    places: HashMap<Value, Vec<usize>>,
}

impl Entries {
    fn of(list: Vec<Value>, key: &str) -> Self {
        let mut places: HashMap<Value, Vec<usize>> = HashMap::with_capacity(list.len());
        for (place, entry) in list.iter().enumerate() {
            places.entry(entry[key].clone()).or_default().push(place);
        }
        Self { slots: list.into_iter().map(Some).collect(), places }
    }

    fn remove(&mut self, id: &Value) {
        for place in self.places.remove(id).unwrap_or_default() {
            self.slots[place] = None;
        }
    }

    /// The first entry with a key; a new one at the end if there is none.
    fn slot(&mut self, id: Value) -> &mut Value {
        let new = self.slots.len();
        let place = self.places.entry(id).or_insert_with(|| vec![new])[0];
        if place == new {
            self.slots.push(None);
        }
        self.slots[place].get_or_insert(Value::Null)
    }

    fn into_list(self) -> Vec<Value> {
        self.slots.into_iter().flatten().collect()
    }
}

/// Puts the entries the patch names into its order; entries only the server has keep their place among them.
fn reorder(list: &mut Vec<Value>, server: &[Value], order: &[Value], key: &str) {
    let id = |entry: &'_ Value| if key.is_empty() { entry.clone() } else { entry[key].clone() };
    let places = |entries: &[Value]| {
        let mut places: HashMap<Value, usize> = HashMap::with_capacity(entries.len());
        for (place, entry) in entries.iter().enumerate() {
            places.entry(id(entry)).or_insert(place);
        }
        places
    };
    let (ordered, on_server) = (places(order), places(server));
    let mut named: Vec<(usize, Option<usize>, Value)> = Vec::new();
    let mut only_server: Vec<(Option<usize>, Value)> = Vec::new();
    for entry in list.drain(..) {
        let id = id(&entry);
        let own = on_server.get(&id).copied();
        match ordered.get(&id) {
            Some(place) => named.push((*place, own, entry)),
            None => only_server.push((own, entry)),
        }
    }
    named.sort_by_key(|(place, ..)| *place);
    // Each of the server's own goes before the first named entry that follows it on the server.
    let mut named = named.into_iter().peekable();
    for (own, entry) in only_server {
        let follows = |other: Option<usize>| matches!((other, own), (Some(other), Some(own)) if other > own);
        while let Some((_, _, before)) = named.next_if(|(_, other, _)| !follows(*other)) {
            list.push(before);
        }
        list.push(entry);
    }
    list.extend(named.map(|(_, _, entry)| entry));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use klab_api_machinery::schema::Shape;

    fn merged(original: Value, patch: Value) -> Value {
        let mut value = original;
        let Value::Object(patch) = patch else { panic!("a patch is an object") };
        let id = schema().kind("v1", "Pod").unwrap();
        merge(&mut value, patch, Some(&Shape::Struct(id))).unwrap();
        value
    }

    fn names(pod: &Value) -> Vec<&str> {
        let list = pod["spec"]["containers"].as_array().unwrap();
        list.iter().map(|entry| entry["name"].as_str().unwrap()).collect()
    }

    fn containers(names: &[&str]) -> Value {
        let list: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        json!({ "spec": { "containers": list } })
    }

    #[test]
    fn entries_of_the_server_keep_their_place_among_those_of_the_patch() {
        for (server, patch, expected) in [
            (vec!["a", "b", "c"], vec!["c", "a"], vec!["b", "c", "a"]),
            (vec!["a", "b", "c"], vec!["x"], vec!["x", "a", "b", "c"]),
            (vec!["a", "b", "c"], vec!["a", "x"], vec!["a", "x", "b", "c"]),
            (vec!["a", "b", "c", "d"], vec!["b", "d"], vec!["a", "b", "c", "d"]),
        ] {
            assert_eq!(names(&merged(containers(&server), containers(&patch))), expected, "{server:?} {patch:?}");
        }
    }

    #[test]
    fn an_entry_is_deleted_and_made_again_in_one_patch() {
        let patch = json!({ "spec": { "containers": [
            { "name": "b", "$patch": "delete" }, { "name": "b", "image": "new" }, { "name": "c", "$patch": "replace", "image": "x" },
        ] } });
        let server = json!({ "spec": { "containers": [{ "name": "a" }, { "name": "b", "tty": true }, { "name": "c", "tty": true }] } });
        let expected = json!([{ "name": "a" }, { "name": "b", "image": "new" }, { "name": "c", "image": "x" }]);
        assert_eq!(merged(server, patch)["spec"]["containers"], expected);
    }

    /// The time grows with the length, not with its square: this many would take hours.
    #[test]
    fn a_list_of_very_many_entries_is_merged() {
        let env = |value: &str| {
            let list: Vec<Value> =
                (0..100_000).map(|number| json!({ "name": format!("N{number}"), "value": value })).collect();
            json!({ "spec": { "containers": [{ "name": "a", "env": list }] } })
        };
        let after = merged(env("old"), env("new"));
        let list = after["spec"]["containers"][0]["env"].as_array().unwrap();
        assert_eq!(list.len(), 100_000);
        assert_eq!(list[99_999], json!({ "name": "N99999", "value": "new" }));
    }
}
