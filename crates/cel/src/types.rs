//! Types of expressions, as the checker compares them and as errors name them, and what variables are declared to be: a type, and
//! how large values of it can get.
//!
//! // upstream: apiserver pkg/cel/types.go DeclType, pkg/cel/common/values.go UnstructuredToVal

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use serde_json::Value as Json;

use crate::time;
use crate::value::{Key, List, ListKind, Value};

/// Largest request, which bounds what has no bound of its own.
pub const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// The type of a value or of an expression.
#[derive(Debug, Clone)]
pub enum Type {
    /// Known only when it is evaluated.
    Dyn,
    /// Of an expression that has an error already.
    Error,
    /// `null`
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// `google.protobuf.Duration`
    Duration,
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<Type>, Arc<Type>),
    /// An object whose fields are declared.
    Object(Arc<ObjectType>),
    /// A type that only functions know, such as `kubernetes.Quantity`.
    Opaque(Arc<str>),
    /// `optional_type(T)`
    Optional(Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    /// A parameter of a signature.
    Param(Arc<str>),
    /// A type that is still to be found out.
    Variable(usize),
}

/// An object type: its name and its fields, by the names expressions use.
#[derive(Debug)]
pub struct ObjectType {
    /// How errors name it.
    pub name: String,
    /// Its fields.
    pub fields: BTreeMap<String, Field>,
}

/// A field of an object type.
#[derive(Debug, Clone)]
pub struct Field {
    /// The key in JSON, which may hold characters that no name may.
    pub key: String,
    /// What it holds.
    pub declaration: Declaration,
}

/// A declared type with the sizes of its values.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// What it is.
    pub shape: Shape,
    /// Most characters, bytes, elements or entries; estimates take values without it for nothing, as upstream does.
    pub max_elements: Option<u64>,
    /// Fewest bytes of a value as JSON.
    pub min_size: u64,
}

/// The form of a declared type.
#[derive(Debug, Clone)]
pub enum Shape {
    /// A value without declared parts.
    Simple(Type),
    /// A list, and how its elements are compared.
    List(Arc<Declaration>, ListKind),
    /// A map with string keys, and the most characters of a key that estimates count.
    Map(Arc<Declaration>, u64),
    /// An object.
    Object(Arc<ObjectType>),
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(one), Self::List(two))
            | (Self::Optional(one), Self::Optional(two))
            | (Self::Type(one), Self::Type(two)) => one == two,
            (Self::Map(key, value), Self::Map(other_key, other_value)) => key == other_key && value == other_value,
            (Self::Object(one), Self::Object(two)) => one.name == two.name,
            (Self::Opaque(one), Self::Opaque(two)) | (Self::Param(one), Self::Param(two)) => one == two,
            (Self::Variable(one), Self::Variable(two)) => one == two,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => formatter.write_str("dyn"),
            Self::Error => formatter.write_str("!error!"),
            Self::Null => formatter.write_str("null"),
            Self::Bool => formatter.write_str("bool"),
            Self::Int => formatter.write_str("int"),
            Self::Uint => formatter.write_str("uint"),
            Self::Double => formatter.write_str("double"),
            Self::String => formatter.write_str("string"),
            Self::Bytes => formatter.write_str("bytes"),
            Self::Timestamp => formatter.write_str("timestamp"),
            Self::Duration => formatter.write_str("duration"),
            Self::List(element) => write!(formatter, "list({element})"),
            Self::Map(key, value) => write!(formatter, "map({key}, {value})"),
            Self::Object(object) => formatter.write_str(&object.name),
            Self::Opaque(name) => formatter.write_str(name),
            Self::Optional(inner) => write!(formatter, "optional_type({inner})"),
            Self::Type(inner) => write!(formatter, "type({inner})"),
            Self::Param(name) => formatter.write_str(name),
            Self::Variable(number) => write!(formatter, "_var{number}"),
        }
    }
}

impl Type {
    /// `list(T)`
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    /// `map(K, V)`
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// Whether anything may stand in its place.
    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The types it is made of.
    pub(crate) fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(inner) | Self::Optional(inner) | Self::Type(inner) => vec![inner],
            Self::Map(key, value) => vec![key, value],
            _ => Vec::new(),
        }
    }

    /// Whether its values have one size: not text, not collections.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Int | Self::Uint | Self::Double | Self::Duration | Self::Timestamp => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }

    /// Reads a type of a signature: names, `list(A)`, `map(A, B)`, `optional(A)`, `type(A)`; one capital letter is a
    /// parameter, a name with a dot an opaque type.
    pub(crate) fn parse(text: &str) -> Self {
        let inside = |prefix: &str| text.strip_prefix(prefix)?.strip_suffix(')');
        match text {
            "dyn" => return Self::Dyn,
            "null" => return Self::Null,
            "bool" => return Self::Bool,
            "int" => return Self::Int,
            "uint" => return Self::Uint,
            "double" => return Self::Double,
            "string" => return Self::String,
            "bytes" => return Self::Bytes,
            "timestamp" => return Self::Timestamp,
            "duration" => return Self::Duration,
            _ => {}
        }
        if let Some(inner) = inside("list(") {
            return Self::list(Self::parse(inner));
        }
        if let Some(inner) = inside("optional(") {
            return Self::Optional(Arc::new(Self::parse(inner)));
        }
        if let Some(inner) = inside("type(") {
            return Self::Type(Arc::new(Self::parse(inner)));
        }
        if let Some((key, value)) = inside("map(").and_then(|inner| inner.split_once(", ")) {
            return Self::map(Self::parse(key), Self::parse(value));
        }
        if text.len() == 1 { Self::Param(text.into()) } else { Self::Opaque(text.into()) }
    }
}

impl Declaration {
    /// A type about whose values nothing more is known.
    pub fn simple(shape: Type) -> Self {
        Self { shape: Shape::Simple(shape), max_elements: None, min_size: 1 }
    }

    /// A text of at most this number of characters.
    pub fn string(max: u64) -> Self {
        Self { shape: Shape::Simple(Type::String), max_elements: Some(max), min_size: 2 }
    }

    /// A list of at most this number of elements.
    pub fn list(element: Self, max: u64) -> Self {
        Self { shape: Shape::List(Arc::new(element), ListKind::Atomic), max_elements: Some(max), min_size: 2 }
    }

    /// A map with string keys and a limit of entries. Estimates ignore the size of the keys.
    pub fn map(value: Self, max: u64) -> Self {
        Self { shape: Shape::Map(Arc::new(value), 0), max_elements: Some(max), min_size: 2 }
    }

    /// An object of that name with fields, whose names are also their keys.
    pub fn object(name: &str, fields: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let fields = fields
            .into_iter()
            .map(|(key, declaration)| (key.to_owned(), Field { key: key.to_owned(), declaration }))
            .collect();
        Self {
            shape: Shape::Object(Arc::new(ObjectType { name: name.to_owned(), fields })),
            max_elements: None,
            min_size: 2,
        }
    }

    /// The type alone.
    pub fn to_type(&self) -> Type {
        match &self.shape {
            Shape::Simple(simple) => simple.clone(),
            Shape::List(element, _) => Type::list(element.to_type()),
            Shape::Map(value, _) => Type::map(Type::String, value.to_type()),
            Shape::Object(object) => Type::Object(Arc::clone(object)),
        }
    }

    /// The declaration of a part: a field, or `@items`, `@values` and `@keys` of collections. `named` entries of a map are
    /// known where the map holds values of any type.
    pub(crate) fn part(&self, name: &str, named: bool) -> Option<Self> {
        match (&self.shape, name) {
            (Shape::List(element, _), "@items") => Some(element.as_ref().clone()),
            (Shape::Map(value, _), "@values") => Some(value.as_ref().clone()),
            (Shape::Map(_, key), "@keys") => Some(Self::string(*key)),
            (Shape::Map(value, _), _) => {
                let is_any = matches!(value.shape, Shape::Simple(Type::Dyn));
                (named && is_any).then(|| value.as_ref().clone())
            }
            (Shape::Object(object), _) => object.fields.get(name).map(|field| field.declaration.clone()),
            _ => None,
        }
    }

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
