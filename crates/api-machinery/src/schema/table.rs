//! The table of types in memory, and its reader.

use foldhash::{HashMap, HashMapExt};

/// A type by its place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeId(u16);

/// All types and kinds.
#[derive(Debug, Default)]
pub struct Schema {
    types: Vec<Type>,
    kinds: HashMap<&'static str, Vec<(&'static str, TypeId)>>,
}

/// A struct.
#[derive(Debug, Default)]
pub struct Type {
    /// Its id in the table: Go's name, with the package in front where that is neither core nor meta.
    pub id: &'static str,
    /// Whether server-side apply owns it as a whole.
    pub atomic: bool,
    /// Fields by name.
    pub fields: Vec<Field>,
    /// Indices of fields that Go writes even when nothing set them.
    pub implied: Vec<usize>,
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// JSON name.
    pub name: &'static str,
    /// Protobuf numbers of the messages around it, the outermost first, where Go embeds some.
    pub outer: Vec<u32>,
    /// Protobuf number.
    pub number: u32,
    /// Type.
    pub shape: Shape,
    /// Whether Go holds a pointer, so that "not set" and "zero" differ.
    pub pointer: bool,
    /// Whether it is written even when empty.
    pub keep: bool,
    /// Whether a struct is left out when all of it is zero.
    pub omit_zero: bool,
    /// How server-side apply owns a list or map.
    pub ownership: Ownership,
    /// Strategic merge patches merge it instead of replacing it; lists by this key, lists of scalars by value (`""`).
    pub merge_key: Option<&'static str>,
    /// Strategic merge patches may name the keys to retain.
    pub retain_keys: bool,
    /// The value a list entry that lacks this field is known by.
    pub default: Option<&'static str>,
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// A single value.
    Scalar(Scalar),
    /// A struct.
    Struct(TypeId),
    /// A list.
    List(Box<Shape>),
    /// A map with string keys.
    Map(Box<Shape>),
    /// Where a JSON schema stands, and a boolean, a list of schemas or a list of names may stand as well.
    Schema(TypeId),
}

/// Single values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "Go's and Kubernetes' own names")]
pub enum Scalar {
    String,
    Bool,
    Int32,
    Int64,
    Uint32,
    Float64,
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    Any,
}

/// How server-side apply owns a list or map.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ownership {
    /// Not said: lists as a whole, maps and structs field by field.
    #[default]
    Unsaid,
    /// As a whole.
    Atomic,
    /// Each value of the list by itself.
    Set,
    /// Each entry of the list by the values of these fields.
    Keys(Vec<&'static str>),
}

impl Schema {
    /// The type of a kind.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        let versions = self.kinds.get(kind)?;
        versions.iter().find(|(have, _)| *have == api_version).map(|(_, id)| *id)
    }

    /// A type.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[usize::from(id.0)]
    }

    /// All kinds, as apiVersion, kind and type.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, TypeId)> + '_ {
        self.kinds.iter().flat_map(|(kind, versions)| versions.iter().map(|(version, id)| (*version, *kind, *id)))
    }

    /// Reads the table. It is part of the program, so what is wrong in it shows in the first test that runs.
    pub fn parse(text: &'static str) -> Self {
        let lines = || text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' '));
        let mut ids: HashMap<&str, TypeId> = HashMap::new();
        for mut words in lines() {
            if words.next() == Some("@type") {
                let next = TypeId(ids.len() as u16);
                ids.insert(words.next().unwrap_or_default(), next);
            }
        }
        let mut schema = Self::default();
        let mut roots: Vec<TypeId> = Vec::new();
        for mut words in lines() {
            let mut word = || words.next().unwrap_or_default();
            match word() {
                "@kind" => {
                    let (api_version, kind, id) = (word(), word(), ids[word()]);
                    schema.kinds.entry(kind).or_default().push((api_version, id));
                    roots.push(id);
                }
                "@type" => {
                    let id = word();
                    schema.types.push(Type { id, atomic: word() == "atomic", ..Type::default() });
                }
                name => {
                    let numbers = word();
                    let shape = word();
                    let field = Field::parse(name, numbers, shape, words, &ids);
                    if let Some(last) = schema.types.last_mut() {
                        last.fields.push(field);
                    }
                }
            }
        }
        for id in roots {
            for name in ["apiVersion", "kind"] {
                let field = Field::parse(name, "0", "string", "".split(' '), &ids);
                schema.types[usize::from(id.0)].fields.push(field);
            }
        }
        for one in &mut schema.types {
            one.fields.sort_by_key(|field| field.name);
            one.implied = (0..one.fields.len()).filter(|at| one.fields[*at].is_implied()).collect();
        }
        schema
    }
}

impl Type {
    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by_key(&name, |field| field.name).ok().map(|at| &self.fields[at])
    }

    /// Go's name without the package.
    pub fn go_name(&self) -> &'static str {
        self.id.rsplit('.').next().unwrap_or(self.id)
    }
}

impl Field {
    fn parse(
        name: &'static str,
        numbers: &'static str,
        shape: &'static str,
        flags: std::str::Split<'static, char>,
        ids: &HashMap<&str, TypeId>,
    ) -> Self {
        let mut outer: Vec<u32> = numbers.split('/').map(|number| number.parse().unwrap_or_default()).collect();
        let number = outer.pop().unwrap_or_default();
        let mut field = Self {
            name,
            outer,
            number,
            pointer: shape.starts_with('*'),
            shape: Shape::parse(shape, ids),
            keep: false,
            omit_zero: false,
            ownership: Ownership::Unsaid,
            merge_key: None,
            retain_keys: false,
            default: None,
        };
        for flag in flags {
            match flag.split_once('=').unwrap_or((flag, "")) {
                ("keep", _) => field.keep = true,
                ("omitzero", _) => field.omit_zero = true,
                ("atomic", _) => field.ownership = Ownership::Atomic,
                ("set", _) => field.ownership = Ownership::Set,
                ("keys", keys) => field.ownership = Ownership::Keys(keys.split(',').collect()),
                ("merge", key) => field.merge_key = Some(key),
                ("retain", _) => field.retain_keys = true,
                ("default", value) => field.default = Some(value),
                _ => {}
            }
        }
        field
    }

    /// Whether Go writes the field even when nothing set it.
    fn is_implied(&self) -> bool {
        if self.keep {
            return true;
        }
        let holds_struct = match &self.shape {
            Shape::Struct(_) => true,
            Shape::Scalar(scalar) => {
                matches!(scalar, Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString)
            }
            Shape::List(_) | Shape::Map(_) | Shape::Schema(_) => false,
        };
        holds_struct && !self.pointer && !self.omit_zero
    }
}

impl Shape {
    fn parse(text: &'static str, ids: &HashMap<&str, TypeId>) -> Self {
        if let Some(inner) = text.strip_prefix('*') {
            return Self::parse(inner, ids);
        }
        if let Some(inner) = text.strip_prefix("[]") {
            return Self::List(Box::new(Self::parse(inner, ids)));
        }
        if let Some(inner) = text.strip_prefix("map:") {
            return Self::Map(Box::new(Self::parse(inner, ids)));
        }
        if let Some(id) = ids.get(text) {
            return Self::Struct(*id);
        }
        if let Some(id) = ids.get("apiextensions.JSONSchemaProps").filter(|_| text == "schema") {
            return Self::Schema(*id);
        }
        Self::Scalar(match text {
            "string" => Scalar::String,
            "bool" => Scalar::Bool,
            "int32" => Scalar::Int32,
            "int64" => Scalar::Int64,
            "uint32" => Scalar::Uint32,
            "float64" => Scalar::Float64,
            "bytes" => Scalar::Bytes,
            "quantity" => Scalar::Quantity,
            "intorstring" => Scalar::IntOrString,
            "time" => Scalar::Time,
            "microtime" => Scalar::MicroTime,
            "duration" => Scalar::Duration,
            _ => Scalar::Any,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;
    use crate::resource::RESOURCES;

    #[test]
    fn every_served_kind_with_a_go_type_is_in_the_table() {
        for row in RESOURCES {
            if row.kind != "ComponentStatus" && row.is_served() {
                assert!(schema().kind(&row.api_version(), row.kind).is_some(), "{} {}", row.api_version(), row.kind);
            }
        }
    }

    #[test]
    fn types_of_the_table_are_known_words() {
        let table = schema();
        let mut any = 0;
        for one in &table.types {
            for field in &one.fields {
                let mut shape = &field.shape;
                while let Shape::List(inner) | Shape::Map(inner) = shape {
                    shape = inner;
                }
                any += usize::from(*shape == Shape::Scalar(Scalar::Any));
                if let Ownership::Keys(keys) = &field.ownership {
                    let Shape::Struct(id) = shape else { panic!("{}.{}", one.id, field.name) };
                    assert!(keys.iter().all(|key| table.get(*id).field(key).is_some()), "{}.{}", one.id, field.name);
                }
            }
        }
        let raw = include_str!("types.txt")
            .lines()
            .filter(|line| {
                line.split(' ')
                    .nth(2)
                    .is_some_and(|word| word.trim_start_matches(['*', '[', ']']).trim_start_matches("map:") == "any")
                    && !line.starts_with('#')
            })
            .count();
        assert_eq!(any, raw);
    }

    #[test]
    fn list_keys_and_numbers_come_from_the_table() {
        let container =
            match &schema().get(schema().kind("v1", "Pod").expect("kind")).field("spec").expect("spec").shape {
                Shape::Struct(spec) => match &schema().get(*spec).field("containers").expect("containers").shape {
                    Shape::List(inner) => match inner.as_ref() {
                        Shape::Struct(container) => schema().get(*container),
                        other => panic!("{other:?}"),
                    },
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
        let ports = container.field("ports").expect("ports");
        assert_eq!(ports.ownership, Ownership::Keys(vec!["containerPort", "protocol"]));
        assert_eq!((ports.merge_key, ports.number), (Some("containerPort"), 6));
    }
}
