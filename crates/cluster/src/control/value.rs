//! Reading and writing the JSON of objects: paths, conditions, selectors, quantities in percent, times.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::object::Object;

/// A time as Kubernetes writes it in `metav1.Time` fields: whole seconds, UTC.
pub(crate) fn time_text(instant: Timestamp) -> String {
    instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as Kubernetes writes it in `metav1.MicroTime` fields.
pub(crate) fn micro_time_text(instant: Timestamp) -> String {
    instant.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// The instant in a time field, if there is one.
pub(crate) fn time_of(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The value below `path`, `Null` when a step is missing.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |below, step| &below[*step])
}

/// The text below `path`, empty when missing.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// The integer below `path`.
pub(crate) fn integer(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).as_i64()
}

/// The elements of a list field, none when it is missing.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The mutable list in `value`, made if missing.
pub(crate) fn list_mut(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(list) => list,
        _ => unreachable!("made an array above"),
    }
}

/// The mutable map in `value`, made if missing.
pub(crate) fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// The condition of that type in a `status.conditions` list.
pub(crate) fn condition<'a>(conditions: &'a Value, kind: &str) -> Option<&'a Value> {
    items(conditions).iter().find(|condition| condition["type"] == kind)
}

/// Whether the condition of that type has status `True`.
pub(crate) fn condition_is_true(conditions: &Value, kind: &str) -> bool {
    condition(conditions, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition in place (by type), or appends it; `lastTransitionTime` stays while the status stays.
pub(crate) fn set_condition(conditions: &mut Value, mut wanted: Value) {
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
pub(crate) fn int_or_percent(value: &Value, total: i64, round_up: bool) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let scaled = percent * total;
    Some(if round_up { (scaled + 99).div_euclid(100) } else { scaled.div_euclid(100) })
}

/// An owner reference that makes `owner` the managing controller.
pub(crate) fn controller_reference(owner: &Object) -> Value {
    let row = owner.resource.row();
    json!({
        "apiVersion": row.api_version(), "kind": row.kind, "name": owner.name, "uid": owner.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A label selector (`matchLabels`, `matchExpressions`), ready to match.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Selector {
    /// `None` matches nothing, as the API defines for a missing selector.
    terms: Option<Vec<Term>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Term {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Of a `LabelSelector`: `null` matches nothing, `{}` everything.
    pub(crate) fn of_label_selector(value: &Value) -> Self {
        if value.is_null() {
            return Self { terms: None };
        }
        let mut terms = Self::of_map(&value["matchLabels"]).terms.unwrap_or_default();
        for expression in items(&value["matchExpressions"]) {
            let values =
                || items(&expression["values"]).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
            let operator = match expression["operator"].as_str() {
                Some("In") => Operator::In(values()),
                Some("NotIn") => Operator::NotIn(values()),
                Some("Exists") => Operator::Exists,
                Some("DoesNotExist") => Operator::DoesNotExist,
                _ => return Self { terms: None },
            };
            terms.push(Term { key: text(expression, &["key"]).to_owned(), operator });
        }
        Self { terms: Some(terms) }
    }

    /// Of a plain map as Services have it: missing or empty matches nothing.
    pub(crate) fn of_service(value: &Value) -> Self {
        let selector = Self::of_map(value);
        if selector.terms.as_ref().is_none_or(Vec::is_empty) { Self { terms: None } } else { selector }
    }

    fn of_map(value: &Value) -> Self {
        let terms = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| Term {
                key: key.clone(),
                operator: Operator::In(vec![value.as_str().unwrap_or_default().to_owned()]),
            })
            .collect();
        Self { terms: Some(terms) }
    }

    /// Whether the object's labels match.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.terms.as_ref().is_some_and(|terms| {
            terms.iter().all(|term| {
                let have = object.label(&term.key);
                match &term.operator {
                    Operator::In(values) => have.is_some_and(|have| values.iter().any(|value| value == have)),
                    Operator::NotIn(values) => !have.is_some_and(|have| values.iter().any(|value| value == have)),
                    Operator::Exists => have.is_some(),
                    Operator::DoesNotExist => have.is_none(),
                }
            })
        })
    }
}

/// Whether a toleration (of a pod) tolerates a taint (of a node), by
/// <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>.
pub(crate) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let effect = text(toleration, &["effect"]);
    if !effect.is_empty() && effect != text(taint, &["effect"]) {
        return false;
    }
    let key = text(toleration, &["key"]);
    if !key.is_empty() && key != text(taint, &["key"]) {
        return false;
    }
    match text(toleration, &["operator"]) {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && text(toleration, &["value"]) == text(taint, &["value"]),
        _ => false,
    }
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
        let matches = |selector: Value| Selector::of_label_selector(&selector).matches(&pod);
        assert!(matches(json!({})));
        assert!(!matches(Value::Null));
        assert!(matches(json!({"matchLabels": {"app": "web"}})));
        assert!(!matches(json!({"matchLabels": {"app": "db"}})));
        assert!(matches(json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["1"]}]})));
        assert!(matches(json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})));
        assert!(!matches(json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})));
        assert!(!Selector::of_service(&json!({})).matches(&pod));
        assert!(Selector::of_service(&json!({"tier": "a"})).matches(&pod));
    }

    #[test]
    fn tolerations_match_taints() {
        let taint = json!({"key": "a", "value": "b", "effect": "NoExecute"});
        assert!(tolerates(&json!({"operator": "Exists"}), &taint));
        assert!(tolerates(&json!({"key": "a", "operator": "Exists"}), &taint));
        assert!(tolerates(&json!({"key": "a", "value": "b"}), &taint));
        assert!(!tolerates(&json!({"key": "a", "value": "c"}), &taint));
        assert!(!tolerates(&json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"}), &taint));
    }
}
