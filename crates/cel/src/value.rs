//! Values of expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use serde_json::Value as Json;

use crate::time;

/// A value.
#[derive(Debug, Clone)]
pub enum Value {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A number with a fraction.
    Double(f64),
    /// Text.
    String(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// An instant.
    Timestamp(jiff::Timestamp),
    /// A span of time, in nanoseconds.
    Duration(i64),
    /// A list.
    List(Arc<List>),
    /// A map, or an object with its fields.
    Map(Arc<BTreeMap<Key, Value>>),
    /// A value that may be missing.
    Optional(Option<Arc<Value>>),
    /// A type, by its name.
    Type(Arc<str>),
    /// What only functions know.
    Opaque(Arc<dyn Opaque>),
}

/// A list and how it is compared.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// Its elements.
    pub items: Vec<Value>,
    /// Whether order counts.
    pub kind: ListKind,
}

/// How a list is equal to another one and what adding does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListKind {
    /// Element by element.
    #[default]
    Atomic,
    /// Without order.
    Set,
    /// By these keys of the elements, without order.
    Map(Vec<String>),
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `true`, `false`
    Bool(bool),
    /// A number; unsigned ones that fit are the same keys.
    Int(i64),
    /// A larger number.
    Uint(u64),
    /// Text.
    String(Arc<str>),
}

/// A value with functions of its own: a quantity, an address, an authorizer.
pub trait Opaque: fmt::Debug + Send + Sync {
    /// The name of its type.
    fn type_name(&self) -> &'static str;
    /// Calls one of its methods; `None` where it has no such.
    fn call(&self, function: &str, arguments: &[Value]) -> Option<Result<Value, String>>;
    /// Its text, by which it is compared and shown.
    fn text(&self) -> String;
    /// Whether it is the same as another one of its type.
    fn equals(&self, other: &dyn Opaque) -> bool {
        self.type_name() == other.type_name() && self.text() == other.text()
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(Arc::from(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(Arc::from(text))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(Arc::new(List { items, kind: ListKind::Atomic }))
    }
}

impl From<&Key> for Value {
    fn from(key: &Key) -> Self {
        match key {
            Key::Bool(value) => Self::Bool(*value),
            Key::Int(value) => Self::Int(*value),
            Key::Uint(value) => Self::Uint(*value),
            Key::String(text) => Self::String(Arc::clone(text)),
        }
    }
}

impl Value {
    /// A map with string keys.
    pub fn map(entries: impl IntoIterator<Item = (String, Self)>) -> Self {
        Self::Map(Arc::new(entries.into_iter().map(|(key, value)| (Key::String(key.into()), value)).collect()))
    }

    /// The key it is in a map; not all values can be keys.
    pub(crate) fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Bool(value) => Key::Bool(*value),
            Self::Int(value) => Key::Int(*value),
            Self::Uint(value) => i64::try_from(*value).map_or(Key::Uint(*value), Key::Int),
            Self::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 => Key::Int(*value as i64),
            Self::String(text) => Key::String(Arc::clone(text)),
            _ => return None,
        })
    }

    /// The text, of strings.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The name of its type.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Opaque(opaque) => opaque.type_name(),
        }
    }

    /// Its size as costs count it: of text and collections their length, of all others one.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.items.len(),
            Self::Map(map) => map.len(),
            Self::Optional(Some(inner)) => return inner.size(),
            Self::Opaque(opaque) => {
                return opaque.call("@size", &[]).and_then(Result::ok).map_or(1, |size| match size {
                    Self::Int(size) => size.unsigned_abs(),
                    _ => 1,
                });
            }
            _ => 1,
        };
        size as u64
    }

    /// What may stand for nothing: zero, empty text, an empty collection.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Optional(None) => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Duration(value) => *value == 0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.items.is_empty(),
            Self::Map(map) => map.is_empty(),
            _ => false,
        }
    }

    /// Compares numbers of all kinds, text, bytes, instants and spans; `None` where there is no order.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => Some(one.cmp(two)),
            (Self::String(one), Self::String(two)) => Some(one.cmp(two)),
            (Self::Bytes(one), Self::Bytes(two)) => Some(one.cmp(two)),
            (Self::Timestamp(one), Self::Timestamp(two)) => Some(one.cmp(two)),
            (Self::Duration(one), Self::Duration(two)) => Some(one.cmp(two)),
            _ => numbers(self, other),
        }
    }
}

fn numbers(one: &Value, two: &Value) -> Option<Ordering> {
    let whole = |value: &Value| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    let float = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Uint(number) => Some(*number as f64),
        Value::Double(number) => Some(*number),
        _ => None,
    };
    match (whole(one), whole(two)) {
        (Some(one), Some(two)) => Some(one.cmp(&two)),
        _ => float(one)?.partial_cmp(&float(two)?),
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::List(one), Self::List(two)) => lists_equal(one, two),
            (Self::Map(one), Self::Map(two)) => {
                one.len() == two.len() && one.iter().all(|(key, value)| two.get(key) == Some(value))
            }
            (Self::Optional(one), Self::Optional(two)) => one == two,
            (Self::Type(one), Self::Type(two)) => one == two,
            (Self::Opaque(one), Self::Opaque(two)) => one.equals(two.as_ref()),
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }
}

fn lists_equal(one: &List, two: &List) -> bool {
    if one.items.len() != two.items.len() {
        return false;
    }
    // upstream: apiserver pkg/cel/common/maplist.go: sets and maps are equal in any order.
    if one.kind == ListKind::Atomic {
        return one.items == two.items;
    }
    one.items.iter().all(|item| two.items.contains(item))
}

/// The values at these keys of an element, which tell it from the others of its list.
pub(crate) fn identity(item: &Value, keys: &[String]) -> Vec<Option<Value>> {
    let Value::Map(map) = item else { return Vec::new() };
    keys.iter().map(|key| map.get(&Key::String(key.as_str().into())).cloned()).collect()
}

/// A field of an object or an entry of a map.
pub(crate) fn select(operand: &Value, field: &str) -> Result<Value, String> {
    match operand {
        Value::Map(map) => map.get(&Key::String(field.into())).cloned().ok_or_else(|| format!("no such key: {field}")),
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => Ok(match select(inner, field) {
            Ok(found) => Value::Optional(Some(Arc::new(found))),
            Err(_) => Value::Optional(None),
        }),
        Value::Opaque(map) => {
            map.call("_[_]", &[Value::from(field)]).unwrap_or_else(|| Err(format!("no such key: {field}")))
        }
        _ => Err(format!("no such key: {field}")),
    }
}

/// A list of these, for functions.
pub(crate) fn list(items: Vec<Value>) -> Value {
    Value::List(Arc::new(List { items, ..List::default() }))
}

impl From<&Json> for Value {
    /// JSON as it comes: whole numbers are ints.
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
pub(crate) fn key_text(key: &Key) -> String {
    match key {
        Key::Bool(value) => value.to_string(),
        Key::Int(value) => value.to_string(),
        Key::Uint(value) => value.to_string(),
        Key::String(text) => text.to_string(),
    }
}
