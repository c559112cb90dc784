//! Objects made of the table of types: of each list as many entries as its entries have fields, so that what excludes each
//! other stands side by side.

use klab_cluster::schema::{Field, Ownership, Scalar, Shape, TypeId, schema};
use serde_json::{Map, Value, json};

/// A value for a field that most checks let pass; `number` makes it another one than its neighbour's.
fn scalar(scalar: Scalar, name: &str, list: &str, number: usize) -> Value {
    match scalar {
        Scalar::String => match name {
            "image" => json!("nginx:1.27"),
            "namespace" | "serviceAccountName" | "serviceAccount" => json!("default"),
            "schedule" => json!("*/5 * * * *"),
            "apiVersion" => json!("v1"),
            "clusterIP" | "clusterIPs" => json!("None"),
            "priorityClassName" | "runtimeClassName" => json!("first"),
            "name" => json!(format!("{}{number}", list.to_lowercase())),
            _ if name.ends_with("Path") || name == "path" => json!(format!("/a{number}")),
            _ => json!(format!("a{number}")),
        },
        Scalar::Bool => json!(true),
        Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::IntOrString => json!(1 + number),
        Scalar::Float64 => json!(1.5),
        Scalar::Bytes => json!("YQ=="),
        Scalar::Quantity => json!("1"),
        Scalar::Time => json!("2026-06-01T08:00:00Z"),
        Scalar::MicroTime => json!("2026-06-01T08:00:00.000000Z"),
        Scalar::Duration => json!("1s"),
        Scalar::Any => json!({ "a": [{ "b": 1 }] }),
    }
}

/// The fields by which entries of a list are told apart.
fn keys(field: &Field) -> Vec<&'static str> {
    let mut keys: Vec<&str> = match &field.ownership {
        Ownership::Keys(keys) => keys.clone(),
        _ => Vec::new(),
    };
    keys.extend(field.merge_key.filter(|key| !key.is_empty()));
    keys
}

fn entries(id: TypeId, field: &Field, within: &mut Vec<TypeId>) -> Vec<Value> {
    let fields = &schema().get(id).fields;
    let mut own = keys(field);
    own.push("name");
    let entry = |number: usize, one: &Field, within: &mut Vec<TypeId>| {
        let is_key = |field: &&Field| own.contains(&field.name) || field.name == one.name;
        let part = |part: &Field, within: &mut Vec<TypeId>| match &part.shape {
            Shape::Scalar(one) => scalar(*one, part.name, field.name, number),
            _ => of_field(part, number, within),
        };
        let parts = fields.iter().filter(is_key);
        parts.map(|one| (one.name.to_owned(), part(one, within))).collect::<Map<_, _>>().into()
    };
    fields.iter().enumerate().map(|(number, one)| entry(number, one, within)).collect()
}

fn of_field(field: &Field, number: usize, within: &mut Vec<TypeId>) -> Value {
    of_shape(&field.shape, field, number, within)
}

fn of_shape(shape: &Shape, field: &Field, number: usize, within: &mut Vec<TypeId>) -> Value {
    match shape {
        Shape::Scalar(one) => scalar(*one, field.name, "a", number),
        Shape::Map(inner) => {
            let key = if **inner == Shape::Scalar(Scalar::Quantity) { "cpu" } else { "a" };
            json!({ key: of_shape(inner, field, number, within) })
        }
        Shape::Struct(id) | Shape::Schema(id) if within.contains(id) => json!({}),
        Shape::List(inner) => match inner.as_ref() {
            Shape::Struct(id) if within.contains(id) => json!([]),
            Shape::Struct(id) => {
                within.push(*id);
                let list = entries(*id, field, within);
                within.pop();
                json!(list)
            }
            inner => json!([of_shape(inner, field, number, within)]),
        },
        Shape::Struct(id) | Shape::Schema(id) => {
            within.push(*id);
            // What a pod costs beside its containers, and its priority, are those that its classes say.
            let of_pod = schema().get(*id).id == "PodSpec";
            let is_given = |name: &str| of_pod && matches!(name, "overhead" | "priority" | "preemptionPolicy");
            let fields = schema().get(*id).fields.iter().filter(|one| !is_given(one.name));
            let map: Map<_, _> = fields.map(|one| (one.name.to_owned(), of_field(one, 0, within))).collect();
            within.pop();
            Value::Object(map)
        }
    }
}

/// The fields of a kind beside its metadata, all of them; those of its status alone, or those without it.
pub(super) fn sample(id: TypeId, status: bool) -> Value {
    let mut within = vec![id];
    let fields = schema().get(id).fields.iter();
    let wanted = fields.filter(|field| {
        !matches!(field.name, "metadata" | "apiVersion" | "kind") && (field.name == "status") == status
    });
    wanted.map(|field| (field.name.to_owned(), of_field(field, 0, &mut within))).collect::<Map<_, _>>().into()
}

/// The value that a path of an error asks for, by the type of the kind.
pub(super) fn value_at(id: TypeId, path: &[Step]) -> Option<Value> {
    let mut shape = Shape::Struct(id);
    let mut last: Option<&Field> = None;
    for step in path {
        shape = match (&shape, step) {
            (Shape::Struct(id) | Shape::Schema(id), Step::Name(name)) => {
                let field = schema().get(*id).field(name)?;
                last = Some(field);
                field.shape.clone()
            }
            (Shape::List(inner), Step::Index(_)) | (Shape::Map(inner), Step::Name(_)) => (**inner).clone(),
            _ => return None,
        };
    }
    Some(of_shape(&shape, last?, 0, &mut Vec::new()))
}

/// A step of a path, as errors write it: `spec.containers[0].resources.limits[cpu]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Name(String),
    Index(usize),
}

pub(super) fn path(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some((inner, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            steps.push(inner.parse().map_or_else(|_| Step::Name(inner.to_owned()), Step::Index));
            rest = after;
        } else {
            rest = rest.trim_start_matches('.');
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Name(rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
    steps
}

/// What is at a path.
pub(super) fn at<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Name(name) => {
            let map = value.as_object_mut()?;
            let own = map.keys().find(|own| own.eq_ignore_ascii_case(name))?.clone();
            map.get_mut(&own)
        }
        Step::Index(index) => value.get_mut(index),
    })
}
