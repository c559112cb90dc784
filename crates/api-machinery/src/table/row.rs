//! One object on its way to be cells: its fields by path, and the texts that cells of many kinds have.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use crate::value::selector_terms;

/// One object on its way to be cells.
pub struct Row<'a> {
    pub object: &'a Value,
    pub now: Timestamp,
}

impl<'a> Row<'a> {
    /// The value at a path like `spec.nodeName`.
    pub fn at(&self, path: &str) -> &'a Value {
        path.split('.').fold(self.object, |value, field| &value[field])
    }

    pub fn text(&self, path: &str) -> &'a str {
        self.at(path).as_str().unwrap_or_default()
    }

    /// The text at a path, or `otherwise` when there is none.
    pub(super) fn text_or(&self, path: &str, otherwise: &str) -> Value {
        let text = self.text(path);
        json!(if text.is_empty() { otherwise } else { text })
    }

    pub fn number(&self, path: &str) -> i64 {
        self.at(path).as_i64().unwrap_or_default()
    }

    pub fn list(&self, path: &str) -> &'a [Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    pub fn name(&self) -> Value {
        json!(self.text("metadata.name"))
    }

    pub fn age(&self) -> Value {
        json!(age::since(self.at("metadata.creationTimestamp"), self.now))
    }

    pub fn created(&self) -> Value {
        self.at("metadata.creationTimestamp").clone()
    }
}

/// `a,b`, in order.
pub(super) fn names<'a>(list: &'a [Value], field: &str) -> String {
    list.iter().map(|item| item[field].as_str().unwrap_or_default()).collect::<Vec<&'a str>>().join(",")
}

/// `k=v,…` sorted, `<none>` when empty.
pub(super) fn labels(map: &Value) -> String {
    let mut pairs: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort();
    none_if_empty(pairs.join(","))
}

/// A LabelSelector as text.
pub(super) fn label_selector(selector: &Value) -> String {
    let terms = selector_terms(&selector["matchLabels"], &selector["matchExpressions"]);
    let mut parts: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    parts.sort();
    none_if_empty(parts.join(","))
}

pub(super) fn none_if_empty(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// The text of a number or string (IntOrString), `otherwise` when there is none.
pub(super) fn scalar(value: &Value, otherwise: &str) -> Value {
    match value {
        Value::Null => json!(otherwise),
        Value::String(text) => json!(text),
        other => json!(other.to_string()),
    }
}
