//! A schema as what expressions are compiled against.
//!
//! // upstream: apiserver pkg/cel/common/schemas.go SchemaDeclType

use std::collections::BTreeMap;
use std::sync::Arc;

use klab_cel::{Declaration, Field, ListKind, MAX_REQUEST, ObjectType, Shape, Type, is_word};
use serde_json::Value;

use super::fill::with_object_metadata;

/// Longest text without a limit of its own: a request's, without quotes.
const MAX_LENGTH: u64 = MAX_REQUEST - 2;

/// The declaration of a schema; `None` where expressions may not see it.
pub(super) fn declare(schema: &Value, resource: bool, name: &str) -> Option<Declaration> {
    if schema["x-kubernetes-int-or-string"] == true {
        let max = schema["maxLength"].as_u64().map_or(MAX_LENGTH, |most| most.saturating_mul(4));
        return Some(Declaration { max_elements: Some(max), ..Declaration::simple(Type::Dyn) });
    }
    let with_metadata;
    let schema = if resource {
        with_metadata = with_object_metadata(schema);
        &with_metadata
    } else {
        schema
    };
    match schema["type"].as_str()? {
        "array" => {
            let items = &schema["items"];
            let element = declare(items, items["x-kubernetes-embedded-resource"] == true, &format!("{name}.@idx"))?;
            let max = schema["maxItems"].as_u64().unwrap_or_else(|| fitting(element.min_size.saturating_add(1)));
            let kind = match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListKind::Set,
                Some("map") => ListKind::Map(
                    schema["x-kubernetes-list-map-keys"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(|key| key.as_str().map(str::to_owned))
                        .collect(),
                ),
                _ => ListKind::Atomic,
            };
            Some(Declaration { shape: Shape::List(Arc::new(element), kind), max_elements: Some(max), min_size: 2 })
        }
        "object" => object(schema, name),
        "string" => Some(text(schema)),
        "boolean" => Some(Declaration { min_size: 4, ..Declaration::simple(Type::Bool) }),
        "number" => Some(Declaration::simple(Type::Double)),
        "integer" => Some(Declaration::simple(Type::Int)),
        _ => None,
    }
}

/// How many values of that size a request can hold.
fn fitting(size: u64) -> u64 {
    MAX_LENGTH.checked_div(size).unwrap_or(MAX_LENGTH)
}

fn object(schema: &Value, name: &str) -> Option<Declaration> {
    let values = &schema["additionalProperties"];
    if values.is_object() {
        let value = declare(values, values["x-kubernetes-embedded-resource"] == true, &format!("{name}.@elem"))?;
        let max = schema["maxProperties"].as_u64().unwrap_or_else(|| fitting(value.min_size.saturating_add(6)));
        return Some(Declaration::map(value, max));
    }
    let mut fields = BTreeMap::new();
    let mut min_size = 2_u64;
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        let embedded = inner["x-kubernetes-embedded-resource"] == true;
        let Some(declaration) = declare(inner, embedded, &format!("{name}.{key}")) else { continue };
        if required.contains(&key.as_str()) && inner["default"].is_null() {
            min_size = min_size.saturating_add(key.len() as u64).saturating_add(declaration.min_size).saturating_add(4);
        }
        if let Some(escaped) = escaped(key) {
            fields.insert(escaped, Field { key: key.clone(), declaration });
        }
    }
    let shape = Shape::Object(Arc::new(ObjectType { name: name.to_owned(), fields }));
    Some(Declaration { shape, max_elements: None, min_size })
}

fn text(schema: &Value) -> Declaration {
    let limited = |of: Type, max: u64, min_size: u64| Declaration {
        max_elements: Some(max),
        min_size,
        ..Declaration::simple(of)
    };
    let longest = schema["maxLength"].as_u64();
    match schema["format"].as_str() {
        Some("byte") => limited(Type::Bytes, longest.unwrap_or(MAX_LENGTH), 2),
        Some("duration") => limited(Type::Duration, 32, 3),
        Some("date") => limited(Type::Timestamp, 12, 12),
        Some("date-time") => limited(Type::Timestamp, 32, 21),
        _ => {
            let choices = schema["enum"].as_array().filter(|choices| !choices.is_empty());
            let of_choices = choices.map(|choices| {
                choices.iter().filter_map(Value::as_str).map(|choice| choice.len() as u64).max().unwrap_or(0)
            });
            let max = longest.map(|most| most.saturating_mul(4)).or(of_choices).unwrap_or(MAX_LENGTH);
            limited(Type::String, max, 2)
        }
    }
}

/// A key as expressions name it; `None` where they cannot.
///
/// // upstream: apiserver pkg/cel/escaping.go Escape
pub(super) fn escaped(key: &str) -> Option<String> {
    if is_word(key) {
        return Some(format!("__{key}__"));
    }
    let first = key.chars().next()?;
    let good = |character: char| character.is_ascii_alphanumeric() || "_./-".contains(character);
    if !(first.is_ascii_alphabetic() || first == '_') || !key.chars().all(good) {
        return None;
    }
    let mut out = String::with_capacity(key.len());
    let mut rest = key;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match character {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            other => out.push(other),
        }
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped() {
        for (key, name) in
            [("a", "a"), ("in", "__in__"), ("a-b.c/d", "a__dash__b__dot__c__slash__d"), ("a__b", "a__underscores__b")]
        {
            assert_eq!(escaped(key).as_deref(), Some(name));
        }
        assert_eq!(escaped("1a"), None);
    }
}
