//! Reading and writing the JSON of objects: paths, conditions, selectors, quantities in percent, times.

use jiff::{SignedDuration, Timestamp};
use klab_scheduler::selector::Selector;
use serde_json::{Map, Value, json};

use crate::object::Object;

/// A time as Kubernetes writes it in `metav1.Time` fields: whole seconds, UTC.
pub fn time_text(instant: Timestamp) -> String {
    instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as Kubernetes writes it in `metav1.MicroTime` fields.
pub fn micro_time_text(instant: Timestamp) -> String {
    instant.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// The instant in a time field, if there is one.
pub fn time_of(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The value below `path`, `Null` when a step is missing.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |below, step| &below[*step])
}

/// The text below `path`, empty when missing.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// The integer below `path`.
pub fn integer(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).as_i64()
}

/// The elements of a list field, none when it is missing.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The mutable list in `value`, made if missing.
pub fn list_mut(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(list) => list,
        _ => unreachable!("made an array above"),
    }
}

/// The mutable map in `value`, made if missing.
pub fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// Sets a condition in place (by type), or appends it; `lastTransitionTime` stays while the status stays.
pub fn set_condition(conditions: &mut Value, mut wanted: Value) {
    let list = list_mut(conditions);
    match list.iter_mut().find(|have| have["type"] == wanted["type"]) {
        Some(have) => {
            if have["status"] == wanted["status"] && !have["lastTransitionTime"].is_null() {
                wanted["lastTransitionTime"] = have["lastTransitionTime"].clone();
            }
            *have = wanted;
        }
        None => list.push(wanted),
    }
}

/// `5`, `"25%"` of `total`; percentages round up or down.
pub fn int_or_percent(value: &Value, total: i64, round_up: bool) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let scaled = percent * total;
    Some(if round_up { (scaled + 99).div_euclid(100) } else { scaled.div_euclid(100) })
}

/// An owner reference that makes `owner` the managing controller.
pub fn controller_reference(owner: &Object) -> Value {
    let row = owner.resource.row();
    json!({
        "apiVersion": row.api_version(), "kind": row.kind, "name": owner.name, "uid": owner.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A selector as Services have it, a plain map: missing or empty selects nothing.
pub fn service_selector(value: &Value) -> Selector {
    let labels = value.as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()));
    match Selector::from_map(&labels.collect()) {
        everything if everything.is_empty() => Selector::Nothing,
        selector => selector,
    }
}

/// Whether a selector selects an object.
pub fn selects(selector: &Selector, object: &Object) -> bool {
    selector.matches_by(|key| object.label(key))
}

/// The terms of a label selector, each with its key: `tier` and `tier in (a,b)`.
pub fn selector_terms(labels: &Value, expressions: &Value) -> Vec<(String, String)> {
    let equal = labels.as_object().into_iter().flatten();
    let equal = equal.map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    let expressed = items(expressions).iter().map(|expression| {
        let key = text(expression, &["key"]);
        let mut values: Vec<&str> = items(&expression["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match text(expression, &["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        (key.to_owned(), term)
    });
    equal.chain(expressed).collect()
}

/// `by` after an instant. Objects hold periods of any length: where the sum is beyond what an instant can be, it is the
/// last one.
pub fn later(instant: Timestamp, by: SignedDuration) -> Timestamp {
    instant.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// `by` before an instant, and not before the first one.
pub fn earlier(instant: Timestamp, by: SignedDuration) -> Timestamp {
    instant.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::PODS;

    fn labelled(labels: Value) -> Object {
        Object::new(PODS, 1, &json!({"metadata": {"name": "p", "uid": "u", "labels": labels}}))
    }

    #[test]
    fn percentages_round_as_asked() {
        assert_eq!(int_or_percent(&json!("25%"), 3, true), Some(1));
        assert_eq!(int_or_percent(&json!("25%"), 3, false), Some(0));
        assert_eq!(int_or_percent(&json!("25%"), 4, true), Some(1));
        assert_eq!(int_or_percent(&json!(7), 4, true), Some(7));
        assert_eq!(int_or_percent(&json!("x"), 4, true), None);
    }

    #[test]
    fn selectors_follow_the_api() {
        let pod = labelled(json!({"app": "web", "tier": "a"}));
        let matches = |selector: Value| selects(&Selector::from_json(&selector), &pod);
        assert!(matches(json!({})));
        assert!(!matches(Value::Null));
        assert!(matches(json!({"matchLabels": {"app": "web"}})));
        assert!(!matches(json!({"matchLabels": {"app": "db"}})));
        assert!(matches(json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["1"]}]})));
        assert!(matches(json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})));
        assert!(!matches(json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})));
        assert!(!selects(&service_selector(&json!({})), &pod));
        assert!(selects(&service_selector(&json!({"tier": "a"})), &pod));
    }
}
