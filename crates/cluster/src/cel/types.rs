//! Types of expressions, as the checker compares them and as errors name them, and what variables are declared to be.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

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
    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The types it is made of.
    pub(super) fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(inner) | Self::Optional(inner) | Self::Type(inner) => vec![inner],
            Self::Map(key, value) => vec![key, value],
            _ => Vec::new(),
        }
    }

    /// Whether its values have one size: not text, not collections.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Int | Self::Uint | Self::Double | Self::Duration | Self::Timestamp => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }

    /// Reads a type of a signature: names, `list(A)`, `map(A, B)`, `optional(A)`, `type(A)`; one capital letter is a
    /// parameter, a name with a dot an opaque type.
    pub(super) fn parse(text: &str) -> Self {
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
