//! Values of JSON as Go prints them, and what it calls them.

use std::fmt::Write;

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

/// Text in the double quotes of Go's `%q`.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        let _ = match character {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\u{7}' => out.write_str("\\a"),
            '\u{8}' => out.write_str("\\b"),
            '\u{b}' => out.write_str("\\v"),
            '\u{c}' => out.write_str("\\f"),
            ascii if ascii.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(ascii)),
            other if is_printed(other) => out.write_char(other),
            other if u32::from(other) < 0x1_0000 => write!(out, "\\u{:04x}", u32::from(other)),
            other => write!(out, "\\U{:08x}", u32::from(other)),
        };
    }
    out.push('"');
    out
}

/// Whether the character can be seen: not so for controls, the marks that turn the direction of text, and blanks but one.
fn is_printed(character: char) -> bool {
    character == ' '
        || !(character.is_control()
            || character.is_whitespace()
            || matches!(u32::from(character), 0xad | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xfffe..=0xffff | 0xe_0000..=0xe_0fff | 0xf_0000..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_go_does() {
        for (text, wanted) in [
            ("jürgen", "\"jürgen\""),
            ("a\"b\\\n\u{1}\u{7f}", "\"a\\\"b\\\\\\n\\x01\\x7f\""),
            ("a\u{202e}b\u{85}", "\"a\\u202eb\\u0085\""),
            ("\u{a0}\u{f0000}", "\"\\u00a0\\U000f0000\""),
        ] {
            assert_eq!(quoted(text), wanted);
        }
    }
}
