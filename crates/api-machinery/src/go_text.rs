//! Values of JSON as Go prints them, and what it calls them.

use serde_json::Value;

/// A value as Go's `%v` prints it: `map[a:1 b:[x y] c:<nil>]`.
pub fn go_text(value: &Value) -> String {
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

/// A value as Go's `%#v` prints it: `map[string]interface {}{"a":1}`.
pub fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(list) => {
            format!("[]interface {{}}{{{}}}", list.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| format!("{key:?}:{}", go_syntax(value)));
            format!("map[string]interface {{}}{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// What Go's JSON reader calls a value.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// What Go's `%T` calls a value that was read from JSON.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Why Go does not read a value as a map.
pub fn no_map(value: &Value) -> String {
    format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", json_kind(value))
}
