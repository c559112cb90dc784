//! Objects as server-side apply sees them: which fields they set, how two differ, how one is merged into another.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/merge.go mergingWalker (v1.36)

use std::collections::{HashMap, HashSet, VecDeque};

use klab_api_machinery::work;
use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::place::{Kind, Place};

/// The fields an applied configuration sets.
pub fn fields_of(value: &Value, place: Place<'_>) -> Fields {
    let mut set = Fields::default();
    collect(value, place, &mut set);
    set
}

fn collect(value: &Value, place: Place<'_>, set: &mut Fields) {
    if !work::step() {
        return;
    }
    match (place.kind(value), value) {
        (Kind::Map, Value::Object(map)) => {
            for (name, inner) in map {
                let child = set.child(format!("f:{name}"));
                collect(inner, place.field(name), child);
                child.member |= inner.as_object().is_some_and(Map::is_empty) || !place.declares(name);
            }
        }
        (Kind::Keyed(keys), Value::Array(list)) => {
            for entry in list {
                let child = set.child(place.element(entry, keys));
                child.member = true;
                collect(entry, place.entry(), child);
            }
        }
        (Kind::Set, Value::Array(list)) => {
            for entry in list {
                set.child(format!("v:{entry}")).member = true;
            }
        }
        _ => set.member = true,
    }
}

/// How `new` differs from `old`.
#[derive(Debug, Clone, Default)]
pub struct Difference {
    /// Fields that `new` lacks.
    pub(crate) removed: Fields,
    /// Modified and added fields: ownership treats them alike.
    pub(crate) changed: Fields,
}

impl Difference {
    /// Whether the versions have the same fields and values.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.changed.is_empty()
    }
}

/// Compares two versions of an object.
pub(crate) fn compare(old: &Value, new: &Value, place: Place<'_>) -> Difference {
    let mut difference = Difference::default();
    walk(Some(old), Some(new), place, &mut difference.removed, &mut difference.changed);
    difference
}

/// `None` is an absent field, which is not the same as a null.
fn walk(old: Option<&Value>, new: Option<&Value>, place: Place<'_>, removed: &mut Fields, changed: &mut Fields) {
    if !work::step() || old == new {
        return;
    }
    let shape = match (old, new) {
        (_, Some(new)) if !new.is_null() => place.kind(new),
        (Some(old), _) => place.kind(old),
        _ => Kind::Whole,
    };
    let empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(_) => false,
    };
    if matches!(shape, Kind::Whole) || (empty(old) && empty(new)) {
        match (old, new) {
            (Some(_), None) => removed.member = true,
            _ => changed.member = true,
        }
        return;
    }
    match shape {
        Kind::Map => {
            let nothing = Map::new();
            let before = old.and_then(Value::as_object).unwrap_or(&nothing);
            let after = new.and_then(Value::as_object).unwrap_or(&nothing);
            for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
                let (left, right) = (before.get(name), after.get(name));
                if left != right {
                    descend(left, right, place.field(name), &format!("f:{name}"), removed, changed);
                }
            }
        }
        Kind::Keyed(_) | Kind::Set => {
            let element = |entry: &Value| match &shape {
                Kind::Keyed(keys) => place.element(entry, *keys),
                _ => format!("v:{entry}"),
            };
            let (before, after) = (entries(old, element), entries(new, element));
            let (known, there) = (named(&before), named(&after));
            for (element, left) in &before {
                let right = there.get(element.as_str()).map(|at| after[*at].1);
                descend(Some(left), right, place.entry(), element, removed, changed);
            }
            for (element, right) in after.iter().filter(|(element, _)| !known.contains_key(element.as_str())) {
                descend(None, Some(right), place.entry(), element, removed, changed);
            }
        }
        Kind::Whole => {}
    }
    match (old, new) {
        (None, Some(_)) => changed.member = true,
        (Some(_), None) => removed.member = true,
        _ => {}
    }
}

/// The entries of a list, and what they are called.
fn entries(list: Option<&Value>, element: impl Fn(&Value) -> String) -> Vec<(String, &Value)> {
    list.and_then(Value::as_array).into_iter().flatten().map(|entry| (element(entry), entry)).collect()
}

/// Where entries stand. Of several alike the first one counts.
fn named<'a>(list: &'a [(String, &Value)]) -> HashMap<&'a str, usize> {
    list.iter().enumerate().rev().map(|(at, (element, _))| (element.as_str(), at)).collect()
}

fn descend(
    old: Option<&Value>,
    new: Option<&Value>,
    place: Place<'_>,
    element: &str,
    removed: &mut Fields,
    changed: &mut Fields,
) {
    let (mut gone, mut set) = (Fields::default(), Fields::default());
    walk(old, new, place, &mut gone, &mut set);
    if !gone.is_empty() {
        removed.take_in(element, gone);
    }
    if !set.is_empty() {
        changed.take_in(element, set);
    }
}

/// Merges an applied configuration into the live object.
pub fn merge(live: &mut Value, config: &Value, place: Place<'_>) {
    match (place.kind(config), config) {
        (Kind::Map, Value::Object(config)) => {
            if !live.is_object() {
                *live = json!({});
            }
            let Some(live) = live.as_object_mut() else { return };
            for (name, value) in config {
                match live.get_mut(name) {
                    Some(have) => merge(have, value, place.field(name)),
                    None => {
                        live.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (Kind::Keyed(keys), Value::Array(config)) => {
            let element = |entry: &Value| place.element(entry, keys);
            merge_list(live, config, element, |have, value| merge(have, value, place.entry()));
        }
        (Kind::Set, Value::Array(config)) => merge_list(live, config, ToString::to_string, |_, _| {}),
        _ => *live = config.clone(),
    }
}

/// Merges lists entry by entry. The applied order wins; entries that only the live list has stay where they are.
fn merge_list(
    live: &mut Value,
    config: &[Value],
    element: impl Fn(&Value) -> String,
    mut both: impl FnMut(&mut Value, &Value),
) {
    let mut have: Vec<(String, Option<Value>)> = match live.take() {
        Value::Array(list) => list.into_iter().map(|entry| (element(&entry), Some(entry))).collect(),
        _ => Vec::new(),
    };
    let mut places: HashMap<String, VecDeque<usize>> = HashMap::with_capacity(have.len());
    for (place, (own, _)) in have.iter().enumerate() {
        places.entry(own.clone()).or_default().push_back(place);
    }
    let order: Vec<String> = config.iter().map(&element).collect();
    let wanted: HashSet<&String> = order.iter().collect();
    let mut merged: Vec<Value> = Vec::with_capacity(have.len() + config.len());
    let mut at = 0;
    for (name, value) in order.iter().zip(config) {
        while let Some((own, entry)) = have.get_mut(at) {
            if entry.is_none() {
                at += 1;
            } else if wanted.contains(own) {
                break;
            } else {
                merged.extend(entry.take());
                at += 1;
            }
        }
        let place = places.get_mut(name).and_then(VecDeque::pop_front);
        let mut entry = place.and_then(|place| have[place].1.take()).unwrap_or(Value::Null);
        if entry.is_null() {
            entry = value.clone();
        } else {
            both(&mut entry, value);
        }
        merged.push(entry);
    }
    merged.extend(have.into_iter().filter_map(|(_, entry)| entry));
    *live = Value::Array(merged);
}

/// Takes out of `value` what the manager set last time (`last`) and no manager sets any more (`kept` has what all set now). A
/// field of a type stays for what is below it; an entry of a list or a map only if a manager has the entry itself.
// upstream: structured-merge-diff fieldpath/set.go EnsureNamedFieldsAreMembers, as merge/update.go prune asks it (v1.36)
pub fn prune(value: &mut Value, last: &Fields, kept: &Fields, place: Place<'_>) {
    let kind = place.kind(value);
    // Entries are found by their keys and taken out together, so that long lists are walked only once.
    let mut places: HashMap<String, usize> = match (&kind, &*value) {
        (Kind::Keyed(keys), Value::Array(list)) => {
            list.iter().enumerate().rev().map(|(at, entry)| (place.element(entry, *keys), at)).collect()
        }
        _ => HashMap::new(),
    };
    let nothing = Fields::default();
    let mut gone: HashSet<usize> = HashSet::new();
    let mut gone_values: HashSet<Value> = HashSet::new();
    for (element, was) in &last.below {
        let Some((tag, name)) = element.split_once(':') else { continue };
        let now = kept.below.get(element).filter(|now| !now.is_empty());
        let is_entry = tag == "k" || (tag == "f" && !place.declares(name));
        let now = match now {
            Some(now) if is_entry && was.member && !now.member => None,
            None if is_entry && !was.member => Some(&nothing),
            now => now,
        };
        match (tag, &kind, &mut *value) {
            ("f", Kind::Map, Value::Object(map)) => {
                let Some(inner) = map.get_mut(name) else { continue };
                let below = place.field(name);
                // Entries of a plain map may be there without anyone's claim; fields of a struct go with it.
                let plain_map = below.is_map() && inner.is_object() && !was.below.is_empty();
                match now {
                    None if !plain_map => drop(map.remove(name)),
                    None => {
                        prune(inner, was, &Fields::default(), below);
                        if inner.as_object().is_some_and(Map::is_empty) {
                            map.remove(name);
                        }
                    }
                    Some(now) => prune(inner, was, now, below),
                }
            }
            ("k", Kind::Keyed(keys), Value::Array(list)) => {
                let Some(at) = places.remove(element) else { continue };
                match now {
                    None => drop(gone.insert(at)),
                    Some(now) => {
                        let held: Vec<(String, Value)> =
                            keys.iter().filter_map(|key| Some((key.to_owned(), list[at].get(key)?.clone()))).collect();
                        prune(&mut list[at], was, now, place.entry());
                        if let Some(entry) = list[at].as_object_mut() {
                            entry.extend(held);
                        }
                    }
                }
            }
            ("v", Kind::Set, Value::Array(_)) if now.is_none() => gone_values.extend(serde_json::from_str(name).ok()),
            _ => {}
        }
    }
    if let Value::Array(list) = value
        && !(gone.is_empty() && gone_values.is_empty())
    {
        let mut at = 0;
        list.retain(|entry| {
            at += 1;
            !gone.contains(&(at - 1)) && !gone_values.contains(entry)
        });
    }
}
