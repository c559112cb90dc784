//! JSON to values, as declared or as it comes, and back.
//!
//! // upstream: apiserver pkg/cel/common/values.go UnstructuredToVal

use std::sync::Arc;

use base64::Engine;
use serde_json::Value as Json;

use super::time;
use super::types::{Declaration, Shape, Type};
use super::value::{Key, List, Value};

impl From<&Json> for Value {
    /// As it comes: whole numbers are ints.
    fn from(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => number
                .as_i64()
                .map(Self::Int)
                .or_else(|| number.as_u64().map(Self::Uint))
                .unwrap_or_else(|| Self::Double(number.as_f64().unwrap_or_default())),
            Json::String(text) => Self::from(text.as_str()),
            Json::Array(items) => Self::from(items.iter().map(Self::from).collect::<Vec<_>>()),
            Json::Object(fields) => Self::map(fields.iter().map(|(key, value)| (key.clone(), Self::from(value)))),
        }
    }
}

impl Declaration {
    /// The value of JSON of this type: texts of times become times, fields that are not declared are left out. What is
    /// not as declared is taken as it comes.
    pub fn value(&self, json: &Json) -> Value {
        match (&self.shape, json) {
            (_, Json::Null) => Value::Null,
            (Shape::Simple(Type::Double), Json::Number(number)) => Value::Double(number.as_f64().unwrap_or_default()),
            (Shape::Simple(Type::Int), Json::Number(number)) => number
                .as_i64()
                .or_else(|| number.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64))
                .map_or_else(|| Value::from(json), Value::Int),
            (Shape::Simple(Type::Timestamp), Json::String(text)) => {
                time::timestamp(text).map_or_else(|| Value::from(json), Value::Timestamp)
            }
            (Shape::Simple(Type::Duration), Json::String(text)) => {
                time::duration(text).map_or_else(|| Value::from(json), Value::Duration)
            }
            (Shape::Simple(Type::Bytes), Json::String(text)) => base64::engine::general_purpose::STANDARD
                .decode(text)
                .map_or_else(|_| Value::from(json), |bytes| Value::Bytes(bytes.into())),
            (Shape::List(element, kind), Json::Array(items)) => {
                let items = items.iter().map(|item| element.value(item)).collect();
                Value::List(Arc::new(List { items, kind: kind.clone() }))
            }
            (Shape::Map(value, _), Json::Object(fields)) => {
                Value::map(fields.iter().map(|(key, field)| (key.clone(), value.value(field))))
            }
            (Shape::Object(object), Json::Object(given)) => Value::Map(Arc::new(
                object
                    .fields
                    .iter()
                    .filter_map(|(name, field)| {
                        let value = given.get(&field.key)?;
                        Some((Key::String(name.as_str().into()), field.declaration.value(value)))
                    })
                    .collect(),
            )),
            _ => Value::from(json),
        }
    }
}

impl Value {
    /// As JSON; what JSON cannot hold becomes its text.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Uint(value) => Json::from(*value),
            Self::Double(value) => Json::from(*value),
            Self::String(text) => Json::from(text.as_ref()),
            Self::Bytes(bytes) => Json::from(base64::engine::general_purpose::STANDARD.encode(bytes)),
            Self::Timestamp(instant) => Json::from(time::timestamp_text(*instant)),
            Self::Duration(nanos) => Json::from(time::duration_text(*nanos)),
            Self::List(list) => list.items.iter().map(Self::to_json).collect(),
            Self::Map(map) => map.iter().map(|(key, value)| (key_text(key), value.to_json())).collect(),
            Self::Optional(Some(inner)) => inner.to_json(),
            Self::Type(name) => Json::from(name.as_ref()),
            Self::Opaque(opaque) => Json::from(opaque.text()),
        }
    }
}

/// A key of a map as text.
pub(super) fn key_text(key: &Key) -> String {
    match key {
        Key::Bool(value) => value.to_string(),
        Key::Int(value) => value.to_string(),
        Key::Uint(value) => value.to_string(),
        Key::String(text) => text.to_string(),
    }
}
