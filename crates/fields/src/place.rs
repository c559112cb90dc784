//! Places in an object: what is known of their type, and how lists and maps there are owned.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/schema/elements.go (v1.36)
// upstream: vendor/k8s.io/kube-openapi/pkg/schemaconv/openapi.go parseList, parseObject (v1.36)

use klab_api_machinery::schema::{Ownership, Scalar, Shape, schema};
use serde_json::{Map, Value, json};

/// What is known of a kind.
#[derive(Debug)]
pub struct Root<'a> {
    shape: Option<Shape>,
    schema: Option<&'a Value>,
}

impl<'a> Root<'a> {
    /// A kind of Kubernetes', or one with that schema; without either everything is owned field by field, and lists as a
    /// whole.
    pub fn new(api_version: &str, kind: &str, schema_of_custom: Option<&'a Value>) -> Self {
        Self { shape: schema().kind(api_version, kind).map(Shape::Struct), schema: schema_of_custom }
    }

    /// The place of a whole object.
    pub fn place(&self) -> Place<'_> {
        let known = match (&self.shape, self.schema) {
            (Some(shape), _) => Known::Shape(shape),
            (None, Some(schema)) => Known::Schema(schema, true, keeps(schema)),
            (None, None) => Known::Nothing,
        };
        Place { known, owned: Owned::Unsaid }
    }
}

/// The type of a place.
#[derive(Debug, Clone, Copy)]
enum Known<'a> {
    Nothing,
    Shape(&'a Shape),
    /// The schema of a custom resource; whether there is an object with metadata of its own; whether a schema around it
    /// keeps unknown fields.
    Schema(&'a Value, bool, bool),
}

#[derive(Debug, Clone, Copy)]
enum Owned<'a> {
    Unsaid,
    Atomic,
    Set,
    Keys(Keys<'a>),
}

/// The fields that identify the entries of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys<'a> {
    BuiltIn(&'a [&'static str]),
    Custom(&'a [Value]),
}

impl<'a> Keys<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a str> {
        let (built_in, custom) = match self {
            Self::BuiltIn(keys) => (keys, &[][..]),
            Self::Custom(keys) => (&[][..], keys),
        };
        built_in.iter().copied().chain(custom.iter().filter_map(Value::as_str))
    }
}

/// What is known of a place: its type, and how lists and maps there are owned.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    known: Known<'a>,
    owned: Owned<'a>,
}

/// How a place is owned once its type is looked at.
pub(crate) enum Kind<'a> {
    Whole,
    Map,
    Set,
    Keyed(Keys<'a>),
}

/// What values of a place are, as structured-merge-diff knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Anything,
    Map,
    List,
    Numeric,
    String,
    Boolean,
    /// Any of the three before, as of quantities.
    Scalar,
}

const UNKNOWN: Place<'static> = Place { known: Known::Nothing, owned: Owned::Unsaid };

impl<'a> Place<'a> {
    fn of(shape: &'a Shape, ownership: &'a Ownership) -> Self {
        let owned = match ownership {
            Ownership::Unsaid => Owned::Unsaid,
            Ownership::Atomic => Owned::Atomic,
            Ownership::Set => Owned::Set,
            Ownership::Keys(keys) => Owned::Keys(Keys::BuiltIn(keys)),
        };
        Self { known: Known::Shape(shape), owned }
    }

    fn custom(schema: &'a Value, open: bool) -> Self {
        let said = |extension: &str| schema[extension].as_str();
        let owned = match (said("x-kubernetes-list-type"), said("x-kubernetes-map-type")) {
            (Some("map"), _) => match schema["x-kubernetes-list-map-keys"].as_array() {
                Some(keys) => Owned::Keys(Keys::Custom(keys)),
                None => Owned::Atomic,
            },
            (Some("set"), _) => Owned::Set,
            (Some("atomic"), _) | (_, Some("atomic")) => Owned::Atomic,
            _ => Owned::Unsaid,
        };
        let embedded = schema["x-kubernetes-embedded-resource"] == true;
        Self { known: Known::Schema(schema, embedded, open || keeps(schema)), owned }
    }

    pub(crate) fn kind(&self, value: &Value) -> Kind<'a> {
        match (self.owned, value) {
            (Owned::Atomic, _) => Kind::Whole,
            (Owned::Set, Value::Array(_)) => Kind::Set,
            (Owned::Keys(keys), Value::Array(_)) => Kind::Keyed(keys),
            (_, Value::Object(_)) => match self.known {
                Known::Shape(Shape::Struct(id)) if schema().get(*id).atomic => Kind::Whole,
                Known::Shape(Shape::Scalar(_)) => Kind::Whole,
                _ => Kind::Map,
            },
            _ => Kind::Whole,
        }
    }

    pub(crate) fn field(&self, name: &str) -> Place<'a> {
        match self.known {
            Known::Shape(Shape::Struct(id) | Shape::Schema(id)) => {
                schema().get(*id).field(name).map_or(UNKNOWN, |field| Place::of(&field.shape, &field.ownership))
            }
            Known::Shape(Shape::Map(inner)) => Place { known: Known::Shape(inner), owned: Owned::Unsaid },
            Known::Schema(_, true, _) if name == "metadata" => metadata(),
            Known::Schema(known, _, open) => {
                let field = known["properties"].get(name).or_else(|| known.get("additionalProperties"));
                let field = field.filter(|field| field.is_object());
                field.map_or(UNKNOWN, |field| Place::custom(field, open))
            }
            _ => UNKNOWN,
        }
    }

    /// What its values are.
    pub(crate) fn expected(&self) -> Expected {
        match self.known {
            Known::Nothing | Known::Shape(Shape::Schema(_)) => Expected::Anything,
            Known::Shape(Shape::Struct(_) | Shape::Map(_)) => Expected::Map,
            Known::Shape(Shape::List(_)) => Expected::List,
            Known::Shape(Shape::Scalar(scalar)) => match scalar {
                Scalar::Any => Expected::Anything,
                Scalar::Quantity | Scalar::IntOrString => Expected::Scalar,
                Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::Duration => {
                    Expected::String
                }
                Scalar::Bool => Expected::Boolean,
                Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Float64 => Expected::Numeric,
            },
            Known::Schema(known, ..) if known["x-kubernetes-int-or-string"] == true => Expected::Scalar,
            Known::Schema(known, ..) => match known["type"].as_str() {
                Some("object") => Expected::Map,
                Some("array") => Expected::List,
                Some("integer" | "number") => Expected::Numeric,
                Some("string") => Expected::String,
                Some("boolean") => Expected::Boolean,
                _ => Expected::Anything,
            },
        }
    }

    /// Whether it has no fields but those that its type names.
    pub(crate) fn is_closed(&self) -> bool {
        match self.known {
            Known::Shape(shape) => matches!(shape, Shape::Struct(_) | Shape::Schema(_)),
            Known::Schema(known, embedded, open) => {
                let names_fields = embedded || known["properties"].as_object().is_some_and(|map| !map.is_empty());
                names_fields && !open && known["additionalProperties"].is_null()
            }
            Known::Nothing => false,
        }
    }

    /// Whether a field is one that the type names, and not an entry of a map.
    pub(crate) fn declares(&self, name: &str) -> bool {
        match self.known {
            Known::Shape(Shape::Struct(id) | Shape::Schema(id)) => schema().get(*id).field(name).is_some(),
            Known::Schema(_, true, _) if matches!(name, "apiVersion" | "kind" | "metadata") => true,
            Known::Schema(known, ..) => known["properties"].get(name).is_some(),
            Known::Shape(_) | Known::Nothing => false,
        }
    }

    pub(crate) fn entry(&self) -> Place<'a> {
        match self.known {
            Known::Shape(Shape::List(inner)) => Place { known: Known::Shape(inner), owned: Owned::Unsaid },
            Known::Schema(known, _, open) if known["items"].is_object() => Place::custom(&known["items"], open),
            _ => UNKNOWN,
        }
    }

    /// Whether it is a map from any names to values of one type.
    pub(crate) fn is_map(&self) -> bool {
        match self.known {
            Known::Shape(shape) => matches!(shape, Shape::Map(_)),
            Known::Schema(known, ..) => known["additionalProperties"].is_object(),
            Known::Nothing => false,
        }
    }

    /// The element of a list entry: `k:{"name":"main"}`. Keys that are absent have their default.
    pub(crate) fn element(&self, entry: &Value, keys: Keys<'_>) -> String {
        let mut map = Map::new();
        for key in keys.iter() {
            let value = entry.get(key).cloned().or_else(|| self.default_of(key));
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        }
        format!("k:{}", Value::Object(map))
    }

    fn default_of(&self, key: &str) -> Option<Value> {
        match self.entry().known {
            Known::Shape(Shape::Struct(id)) => schema().get(*id).field(key)?.default.map(|text| json!(text)),
            Known::Schema(known, ..) => known["properties"][key].get("default").cloned(),
            _ => None,
        }
    }
}

/// Whether fields stay that the schema does not know.
fn keeps(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// The metadata that objects of every kind have.
fn metadata() -> Place<'static> {
    let any = schema().kind("v1", "ConfigMap").and_then(|id| schema().get(id).field("metadata"));
    any.map_or(UNKNOWN, |field| Place::of(&field.shape, &field.ownership))
}
