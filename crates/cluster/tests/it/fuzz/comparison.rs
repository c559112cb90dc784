//! How an object that was read differs from what was sent, field by field.

use klab_api_machinery::schema::{Field, Ownership, Shape, schema};
use serde_json::{Map, Value};

/// What happened to a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Lost,
    Added,
    Changed,
    /// The kind has no such field.
    Unknown,
}

/// A field that differs.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) fate: Fate,
    /// The type that has the field, and its name there.
    pub(super) of: &'static str,
    pub(super) field: String,
    pub(super) path: String,
    values: String,
}

impl Difference {
    pub(super) fn what(&self) -> String {
        format!("{:?} {}.{} {}", self.fate, self.of, self.field, self.values)
    }
}

/// What was sent, in the form that decoding gives it.
pub(super) fn common(sent: &Value, decoded: &Value) -> Value {
    match (sent, decoded) {
        (Value::Object(sent), Value::Object(decoded)) => {
            let both = sent.iter().filter_map(|(name, inner)| Some((name.clone(), common(inner, decoded.get(name)?))));
            both.collect::<Map<_, _>>().into()
        }
        (Value::Array(sent), Value::Array(decoded)) => {
            sent.iter().zip(decoded).map(|(sent, decoded)| common(sent, decoded)).collect()
        }
        _ => decoded.clone(),
    }
}

/// Compares values of a shape; `of` says which field of which type has it, and by what entries of its list are known.
pub(super) fn compare(
    shape: &Shape,
    of: (&'static str, &str, &[&str]),
    sent: &Value,
    found: &Value,
    path: &str,
    differences: &mut Vec<Difference>,
) {
    let note = |fate, of: &'static str, field: &str, path: String| {
        let (field, values) = (field.to_owned(), format!("{sent} {found}").chars().take(120).collect());
        Difference { fate, of, field, path, values }
    };
    match (shape, sent, found) {
        (Shape::Struct(id) | Shape::Schema(id), Value::Object(sent), Value::Object(found)) => {
            let own = schema().get(*id);
            let lost = sent.keys().filter(|name| !found.contains_key(*name));
            differences.extend(lost.map(|name| note(Fate::Lost, own.id, name, format!("{path}.{name}"))));
            for (name, inner) in found {
                let at = format!("{path}.{name}");
                match (own.field(name), sent.get(name)) {
                    (None, _) if path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind") => {}
                    (None, _) => differences.push(note(Fate::Unknown, own.id, name, at)),
                    // Go writes these though nothing has set them.
                    (Some(field), None) if field.keep || own.implied.iter().any(|at| own.fields[*at].name == name) => {}
                    (Some(_), None) => differences.push(note(Fate::Added, own.id, name, at)),
                    (Some(field), Some(sent)) => {
                        compare(&field.shape, (own.id, name, &keys(field)), sent, inner, &at, differences);
                    }
                }
            }
        }
        (Shape::Map(inner), Value::Object(sent), Value::Object(found)) => {
            let field = format!("{}{{}}", of.1);
            let lost = sent.keys().filter(|name| !found.contains_key(*name));
            differences.extend(lost.map(|name| note(Fate::Lost, of.0, &field, format!("{path}.{name}"))));
            for (name, value) in found {
                let at = format!("{path}.{name}");
                match sent.get(name) {
                    None => differences.push(note(Fate::Added, of.0, &field, at)),
                    Some(sent) => compare(inner, (of.0, &field, &[]), sent, value, &at, differences),
                }
            }
        }
        (Shape::List(_), Value::Array(sent), Value::Array(found)) if of.2 == [""] => {
            // A set has the others' values as well, in any order.
            let lost = sent.iter().filter(|sent| !found.contains(sent));
            differences.extend(lost.map(|_| note(Fate::Lost, of.0, &format!("{}[]", of.1), path.to_owned())));
        }
        (Shape::List(inner), Value::Array(sent), Value::Array(found)) => {
            let field = format!("{}[]", of.1);
            if sent.len() != found.len() {
                let fate = if sent.len() > found.len() { Fate::Lost } else { Fate::Added };
                differences.push(note(fate, of.0, &field, path.to_owned()));
            }
            for (number, sent) in sent.iter().enumerate() {
                let is_same = |found: &&Value| of.2.iter().all(|key| found.get(key) == sent.get(key));
                // Merging keeps the order of what was there.
                let other = found.iter().find(|found| !of.2.is_empty() && is_same(found)).or(found.get(number));
                if let Some(found) = other {
                    compare(inner, (of.0, &field, &[]), sent, found, &format!("{path}[{number}]"), differences);
                }
            }
        }
        (_, sent, found) if sent == found => {}
        _ => differences.push(note(Fate::Changed, of.0, of.1, path.to_owned())),
    }
}

/// The fields by which entries of a list are known; an empty one where entries are known by what they are.
pub(super) fn keys(field: &Field) -> Vec<&'static str> {
    match &field.ownership {
        Ownership::Keys(keys) => keys.clone(),
        Ownership::Set => vec![""],
        _ => field.merge_key.into_iter().collect(),
    }
}
