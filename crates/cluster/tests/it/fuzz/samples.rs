//! Objects made of the table of types, one field at a time.
//!
//! Lists are objects while objects are made: an entry stands under `[` and a tag, so that what is made for two fields can
//! be laid over each other. An entry is tagged by the field that it is there for; what excludes each other, as sources of
//! volumes do, then stands in entries side by side.

use klab_api_machinery::schema::{Field, Ownership, Shape, TypeId, schema};
use serde_json::{Map, Value, json};

use super::values;

/// A single field of a kind.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    /// Its path: `spec.containers[].image`.
    pub(super) path: String,
    /// An object that has this field alone.
    pub(super) own: Value,
    /// What the field cannot do without.
    pub(super) around: Value,
}

/// A step from an object towards a field.
#[derive(Clone)]
enum Way {
    /// A field of a type.
    Field(TypeId, &'static str),
    /// An entry of a list or map.
    Entry(String),
}

impl Way {
    fn step(&self) -> &str {
        match self {
            Self::Field(_, name) => name,
            Self::Entry(tag) => tag,
        }
    }
}

/// The fields of a kind: those below the given ones of its own.
pub(super) fn leaves(id: TypeId, wanted: impl Fn(&str) -> bool) -> Vec<Leaf> {
    let mut found = Vec::new();
    for field in schema().get(id).fields.iter().filter(|field| wanted(field.name)) {
        let mut ways = vec![Way::Field(id, field.name)];
        if field.name == "metadata" {
            let Shape::Struct(metadata) = field.shape else { continue };
            let own = ["labels", "annotations", "finalizers", "ownerReferences"];
            for inner in schema().get(metadata).fields.iter().filter(|inner| own.contains(&inner.name)) {
                ways.push(Way::Field(metadata, inner.name));
                below(&inner.shape, inner, &mut ways, &mut vec![id], &mut found);
                ways.pop();
            }
        } else {
            below(&field.shape, field, &mut ways, &mut vec![id], &mut found);
        }
    }
    found
}

fn below(shape: &Shape, field: &Field, ways: &mut Vec<Way>, within: &mut Vec<TypeId>, found: &mut Vec<Leaf>) {
    match shape {
        Shape::Scalar(_) => found.push(leaf(ways)),
        Shape::Map(inner) => {
            ways.push(Way::Entry(values::key(inner, field.name).to_owned()));
            below(inner, field, ways, within, found);
            ways.pop();
        }
        Shape::List(inner) => match inner.as_ref() {
            Shape::Struct(id) if !within.contains(id) => {
                within.push(*id);
                for part in &schema().get(*id).fields {
                    ways.push(Way::Entry(format!("[{}", part.name)));
                    ways.push(Way::Field(*id, part.name));
                    below(&part.shape, part, ways, within, found);
                    ways.truncate(ways.len() - 2);
                }
                within.pop();
            }
            Shape::Struct(_) => {}
            inner => {
                ways.push(Way::Entry("[0".to_owned()));
                below(inner, field, ways, within, found);
                ways.pop();
            }
        },
        Shape::Struct(id) | Shape::Schema(id) if within.contains(id) => {}
        Shape::Struct(id) | Shape::Schema(id) => {
            within.push(*id);
            for part in &schema().get(*id).fields {
                ways.push(Way::Field(*id, part.name));
                below(&part.shape, part, ways, within, found);
                ways.pop();
            }
            if schema().get(*id).fields.is_empty() {
                found.push(leaf(ways));
            }
            within.pop();
        }
    }
}

fn leaf(ways: &[Way]) -> Leaf {
    let path = text(ways);
    let mut around = object(ways);
    if let Some((of, above)) = values::above(&path) {
        let mut inner = above;
        // The steps to the object that `above` is for.
        let count = of.split('.').map(|step| 1 + step.matches("[]").count()).sum();
        for way in ways[..count].iter().rev() {
            inner = json!({ way.step(): inner });
        }
        lay(&mut around, &inner);
    }
    let value = ways.iter().fold(&around, |value, way| &value[way.step()]).clone();
    let own = ways.iter().rev().fold(value, |own, way| json!({ way.step(): own }));
    Leaf { path, own, around }
}

fn text(ways: &[Way]) -> String {
    let mut text = String::new();
    for way in ways {
        match way {
            Way::Field(_, name) if text.is_empty() => text.push_str(name),
            Way::Field(_, name) => text.extend([".", name]),
            Way::Entry(tag) if tag.starts_with('[') => text.push_str("[]"),
            Way::Entry(_) => text.push_str("{}"),
        }
    }
    text
}

/// An object with a value at the end of the ways, and around it what is needed there.
fn object(ways: &[Way]) -> Value {
    let Some((Way::Field(id, name), rest)) = ways.split_first() else { return Value::Null };
    let field = schema().get(*id).field(name).unwrap();
    let inner = inside(&field.shape, *id, field, "0", rest);
    let mut object = entry(*id, name, "0");
    lay(&mut object, &json!({ *name: inner }));
    object
}

fn inside(shape: &Shape, of: TypeId, field: &Field, tag: &str, ways: &[Way]) -> Value {
    match (shape, ways.first()) {
        (Shape::List(inner) | Shape::Map(inner), Some(Way::Entry(own))) => {
            let tag = own.strip_prefix('[').unwrap_or(tag);
            let value = inside(inner, of, field, tag, &ways[1..]);
            let mut value = value;
            if let (Shape::List(_), Shape::Struct(id), Some(Way::Field(_, name))) = (shape, inner.as_ref(), ways.get(1))
            {
                let mut whole = keyed(*id, field, name, tag);
                lay(&mut whole, &value);
                value = whole;
            }
            json!({ own: value })
        }
        (Shape::Struct(id) | Shape::Schema(id), Some(Way::Field(_, name))) => {
            let own = schema().get(*id).field(name).unwrap();
            let mut whole = entry(*id, name, tag);
            lay(&mut whole, &json!({ *name: inside(&own.shape, *id, own, tag, &ways[1..]) }));
            whole
        }
        (Shape::Scalar(scalar), _) => values::scalar(*scalar, schema().get(of).id, field.name, tag),
        _ => json!({}),
    }
}

/// What an object of a type has beside the named field: what is always written, and what the field asks for.
fn entry(id: TypeId, name: &str, tag: &str) -> Value {
    let of = schema().get(id);
    let mut object = json!({});
    for field in of.fields.iter().filter(|field| field.keep && field.name != name) {
        object[field.name] = least(&field.shape, id, field, tag);
    }
    lay(&mut object, &values::beside(of.id, name, tag));
    object
}

/// The fields by which an entry of a list is known.
fn keyed(id: TypeId, list: &Field, name: &str, tag: &str) -> Value {
    let mut keys: Vec<&str> = match &list.ownership {
        Ownership::Keys(keys) => keys.clone(),
        _ => Vec::new(),
    };
    keys.extend(list.merge_key.filter(|key| !key.is_empty()));
    let of = schema().get(id);
    let mut object = json!({});
    for field in keys.iter().filter(|key| **key != name).filter_map(|key| of.field(key)) {
        object[field.name] = least(&field.shape, id, field, tag);
    }
    object
}

/// The least value of a shape.
fn least(shape: &Shape, of: TypeId, field: &Field, tag: &str) -> Value {
    match shape {
        Shape::Scalar(scalar) => values::scalar(*scalar, schema().get(of).id, field.name, tag),
        Shape::List(inner) => json!({ "[0": least(inner, of, field, tag) }),
        Shape::Map(inner) => json!({ values::key(inner, field.name): least(inner, of, field, tag) }),
        Shape::Struct(id) | Shape::Schema(id) => entry(*id, "", tag),
    }
}

/// Lays an object over another.
pub(super) fn lay(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, inner) in above {
                lay(below.entry(name.clone()).or_insert(Value::Null), inner);
            }
        }
        (below, above) => below.clone_from(above),
    }
}

/// Whether an object has all fields of another.
pub(super) fn has(object: &Value, other: &Value) -> bool {
    match other {
        Value::Object(map) => map.iter().all(|(name, inner)| object.get(name).is_some_and(|object| has(object, inner))),
        _ => !object.is_null(),
    }
}

/// An object with its lists as objects of entries, as this file makes them.
pub(super) fn tagged(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().map(|(name, inner)| (name.clone(), tagged(inner))).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => {
            let entries = list.iter().enumerate().map(|(number, inner)| (format!("[{number}"), tagged(inner)));
            entries.collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// An object with its lists as lists.
pub(super) fn listed(value: &Value) -> Value {
    match value {
        Value::Object(map) if map.keys().next().is_some_and(|tag| tag.starts_with('[')) => {
            map.values().map(listed).collect()
        }
        Value::Object(map) => {
            map.iter().map(|(name, inner)| (name.clone(), listed(inner))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// A step of a path, as errors write it: `spec.containers[0].resources.limits[cpu]`.
pub(super) fn steps(text: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some((inner, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            steps.push(format!("[{inner}"));
            rest = after;
        } else {
            rest = rest.trim_start_matches('.');
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
    }
    steps
}

/// The path of an error as this file writes paths of fields, as far as the object has it.
pub(super) fn place(mut value: &Value, text: &str) -> Vec<String> {
    let mut place = Vec::new();
    for step in steps(text) {
        let Some(map) = value.as_object() else { break };
        let own = match step.strip_prefix('[') {
            Some(inner) => inner
                .parse()
                .ok()
                .and_then(|number| map.keys().nth(number))
                .filter(|tag| tag.starts_with('['))
                .or_else(|| map.keys().find(|key| *key == inner)),
            None => map.keys().find(|key| key.eq_ignore_ascii_case(&step)),
        };
        let Some(own) = own else { break };
        place.push(own.clone());
        value = &map[own];
    }
    place
}

/// Puts the least value where an error says that one is required. Whether that can be.
pub(super) fn provide(id: TypeId, object: &mut Value, text: &str, given: Option<&str>) -> bool {
    let mut shape = Shape::Struct(id);
    let mut owner = (id, None);
    let mut value = object;
    let mut tag = "0".to_owned();
    for step in steps(text) {
        if value.is_null() {
            *value = json!({});
        }
        let Some(map) = value.as_object_mut() else { return false };
        let own = match (&shape, step.strip_prefix('[')) {
            (Shape::Struct(of) | Shape::Schema(of), None) => {
                let Some(field) = schema().get(*of).field(&step) else { return false };
                owner = (*of, Some(field));
                shape = field.shape.clone();
                step
            }
            (Shape::List(inner), Some(number)) => {
                shape = (**inner).clone();
                let Some(own) = number.parse().ok().and_then(|number: usize| map.keys().nth(number)) else {
                    return false;
                };
                own.trim_start_matches('[').clone_into(&mut tag);
                own.clone()
            }
            (Shape::Map(inner), key) => {
                shape = (**inner).clone();
                key.unwrap_or(&step).to_owned()
            }
            _ => return false,
        };
        value = map.entry(own).or_insert(Value::Null);
    }
    let Some(field) = owner.1 else { return false };
    let new = match (given, &shape) {
        (Some(given), Shape::Scalar(_)) => json!(given),
        (Some(given), Shape::List(_)) => json!({ "[0": given }),
        (None, _) if value.is_null() || *value == json!({}) => least(&shape, owner.0, field, &tag),
        _ => return false,
    };
    let is_new = *value != new;
    *value = new;
    is_new
}
