//! Objects with long lists, made from the table of types: for each struct of each kind one whose lists and maps have so
//! many entries.

use std::collections::BTreeSet;

use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::schema::{Scalar, Schema, Shape, TypeId, schema};
use serde_json::{Map, Value, json};

/// How deep structs are looked for, and filled in below a long list.
const DEPTH: usize = 9;
const BELOW: usize = 2;

/// A struct of a kind that has lists or maps.
pub(crate) struct Place {
    pub(crate) resource: ResourceId,
    /// The fields that lead to it; `[]` is the one entry of a list or a map.
    path: Vec<&'static str>,
    id: TypeId,
    root: TypeId,
}

/// The structs with lists or maps: each once, in the first kind that has it.
pub(crate) fn places() -> Vec<Place> {
    let schema = schema();
    let mut kinds: Vec<_> = schema.kinds().collect();
    kinds.sort_unstable_by_key(|(version, kind, _)| (*version, *kind));
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for (version, kind, root) in kinds {
        if let Some(resource) = ResourceId::by_kind(version, kind).filter(|resource| resource.row().is_stored()) {
            look(schema, resource, root, &Shape::Struct(root), &mut Vec::new(), &mut seen, &mut found);
        }
    }
    found
}

fn look(
    schema: &Schema,
    resource: ResourceId,
    root: TypeId,
    shape: &Shape,
    path: &mut Vec<&'static str>,
    seen: &mut BTreeSet<&'static str>,
    found: &mut Vec<Place>,
) {
    match shape {
        Shape::List(inner) | Shape::Map(inner) => {
            path.push("[]");
            look(schema, resource, root, inner, path, seen, found);
            path.pop();
        }
        Shape::Struct(id) if path.len() <= DEPTH => {
            let one = schema.get(*id);
            let has_lists = one.fields.iter().any(|field| matches!(field.shape, Shape::List(_) | Shape::Map(_)));
            if has_lists && seen.insert(one.id) {
                found.push(Place { resource, path: path.clone(), id: *id, root });
            }
            for field in &one.fields {
                path.push(field.name);
                look(schema, resource, root, &field.shape, path, seen, found);
                path.pop();
            }
        }
        Shape::Struct(_) | Shape::Scalar(_) | Shape::Schema(_) => {}
    }
}

impl Place {
    /// `Pod spec.containers.[]`
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.resource.row().kind, self.path.join("."))
    }

    /// An object whose lists and maps here have this many entries. They are all alike, or all different.
    pub(crate) fn object(&self, entries: usize, alike: bool) -> Value {
        let schema = schema();
        let mut object = filled(schema, self.root, 0, 1);
        let id = self.id;
        put(schema, &Shape::Struct(self.root), &mut object, &self.path, &|value| {
            for field in &schema.get(id).fields {
                let long = match &field.shape {
                    Shape::List(inner) => {
                        (0..entries).map(|at| one(schema, inner, if alike { 0 } else { at }, BELOW)).collect()
                    }
                    Shape::Map(inner) => {
                        let entry =
                            |at: usize| (format!("a{at}"), one(schema, inner, if alike { 0 } else { at }, BELOW));
                        Value::Object((0..entries).map(entry).collect())
                    }
                    _ => continue,
                };
                value[field.name] = long;
            }
        });
        let row = self.resource.row();
        object["apiVersion"] = json!(row.api_version());
        object["kind"] = json!(row.kind);
        for field in ["uid", "resourceVersion", "deletionTimestamp", "namespace", "generateName", "selfLink"] {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
        }
        object["metadata"]["name"] = json!("a");
        object
    }
}

/// A value of this shape: the one of this number.
fn one(schema: &Schema, shape: &Shape, number: usize, depth: usize) -> Value {
    match shape {
        Shape::Scalar(scalar) => self::scalar(*scalar, number),
        Shape::Struct(id) => filled(schema, *id, number, depth),
        Shape::Schema(_) => json!({ "type": "string" }),
        Shape::List(_) | Shape::Map(_) if depth == 0 => Value::Null,
        Shape::List(inner) => json!([one(schema, inner, number, depth - 1)]),
        Shape::Map(inner) => json!({ format!("a{number}"): one(schema, inner, number, depth - 1) }),
    }
}

/// A struct with its scalars and lists, and one of the structs that it may hold: most are alternatives.
fn filled(schema: &Schema, id: TypeId, number: usize, depth: usize) -> Value {
    let fields = &schema.get(id).fields;
    let structs = fields.iter().filter(|field| matches!(field.shape, Shape::Struct(_))).count();
    let (mut value, mut at) = (Map::new(), 0);
    for field in fields {
        let is_struct = matches!(field.shape, Shape::Struct(_));
        let chosen = !is_struct || (depth > 0 && at == number % structs);
        at += usize::from(is_struct);
        let nested = !matches!(field.shape, Shape::Scalar(_));
        if chosen && (!nested || depth > 0) {
            value.insert(field.name.to_owned(), one(schema, &field.shape, number, depth.saturating_sub(1)));
        }
    }
    Value::Object(value)
}

fn scalar(scalar: Scalar, number: usize) -> Value {
    match scalar {
        Scalar::String | Scalar::Any => json!(format!("a{number}")),
        Scalar::Bool => json!(false),
        Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::IntOrString => json!(number + 1),
        Scalar::Float64 => json!(0.5),
        Scalar::Bytes => json!("YQ=="),
        Scalar::Quantity => json!(format!("{}", number + 1)),
        Scalar::Time => json!("2026-06-01T08:00:00Z"),
        Scalar::MicroTime => json!("2026-06-01T08:00:00.000000Z"),
        Scalar::Duration => json!("1s"),
    }
}

/// Changes the value at a path; what is missing on the way is made.
fn put(schema: &Schema, shape: &Shape, value: &mut Value, path: &[&'static str], change: &dyn Fn(&mut Value)) {
    let Some((first, rest)) = path.split_first() else {
        if !value.is_object() {
            *value = one(schema, shape, 0, 1);
        }
        return change(value);
    };
    match shape {
        Shape::List(inner) => {
            if value.as_array().is_none_or(Vec::is_empty) {
                *value = json!([one(schema, inner, 0, 1)]);
            }
            put(schema, inner, &mut value[0], rest, change);
        }
        Shape::Map(inner) => {
            if !value.is_object() {
                *value = json!({});
            }
            put(schema, inner, &mut value["a0"], rest, change);
        }
        Shape::Struct(id) => {
            if !value.is_object() {
                *value = one(schema, shape, 0, 1);
            }
            let field = schema.get(*id).field(first).expect("a path of the schema");
            put(schema, &field.shape, &mut value[*first], rest, change);
        }
        Shape::Scalar(_) | Shape::Schema(_) => change(value),
    }
}
