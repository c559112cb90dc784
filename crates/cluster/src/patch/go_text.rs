//! Values as Go prints them.

use serde_json::Value;

/// A value as Go's `%v` prints it: `map[a:1 b:[x y] c:<nil>]`.
pub(super) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}
