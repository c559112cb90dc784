//! Decoding as Go's types do it: wrong types refused, unknown fields found, values in canonical form.
//!
//! What comes out is what an API server would write: nulls and empty optional fields gone, required fields there.

use jiff::Timestamp;
use serde_json::{Map, Number, Value, json};

use super::{Field, Path, Scalar, Schema, Shape, TypeId};
use crate::go_text::json_kind;
use crate::texts::Texts;
use klab_scheduler::quantity::Quantity;

/// How deep a tree may be; deeper ones are refused before the stack ends.
const MAX_DEPTH: usize = 100;

/// A value that does not fit its field's type, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(pub String);

/// What decoding found besides the value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tidied {
    /// Paths of fields the kind does not have. They are no longer in the value.
    pub unknown: Vec<String>,
}

impl Schema {
    /// Brings an object of the type into the form an API server would write it in.
    ///
    /// # Errors
    /// [`Mismatch`] for the first value of a wrong type.
    pub fn tidy(&self, id: TypeId, value: &mut Value) -> Result<Tidied, Mismatch> {
        let mut walk = Walk { schema: self, unknown: Texts::default() };
        walk.shape(&Shape::Struct(id), value, Path::Root, "", 0)?;
        Ok(Tidied { unknown: walk.unknown.into_list() })
    }

    /// [`Schema::tidy`] for a kind defined at run time: only its metadata has a known type.
    ///
    /// # Errors
    /// [`Mismatch`] for the first value of a wrong type.
    pub fn tidy_custom(&self, value: &mut Value) -> Result<Tidied, Mismatch> {
        let Some(object) = value.as_object_mut() else {
            return Err(Mismatch("json: cannot unmarshal a value that is no object".to_owned()));
        };
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if metadata.is_null() {
            *metadata = json!({});
        }
        match self.kind("v1", "ConfigMap") {
            Some(any) => self.tidy_field(any, "metadata", metadata),
            None => Ok(Tidied::default()),
        }
    }

    /// [`Schema::tidy`] for a single field of an object.
    ///
    /// # Errors
    /// [`Mismatch`] for the first value of a wrong type.
    pub fn tidy_field(&self, id: TypeId, name: &str, value: &mut Value) -> Result<Tidied, Mismatch> {
        let one = self.get(id);
        let mut walk = Walk { schema: self, unknown: Texts::default() };
        if let Some(field) = one.field(name) {
            walk.shape(&field.shape, value, Path::Root.field(name), one.go_name(), 0)?;
        }
        Ok(Tidied { unknown: walk.unknown.into_list() })
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    unknown: Texts,
}

impl Walk<'_> {
    fn shape(
        &mut self,
        shape: &Shape,
        value: &mut Value,
        path: Path<'_>,
        holder: &str,
        depth: usize,
    ) -> Result<(), Mismatch> {
        if depth > MAX_DEPTH {
            return Err(Mismatch("exceeded max depth".to_owned()));
        }
        match (shape, value) {
            (Shape::Struct(id) | Shape::Schema(id), Value::Object(map)) => self.fields(*id, map, path, depth),
            (Shape::List(inner), Value::Array(list)) => {
                for (at, entry) in list.iter_mut().enumerate() {
                    if entry.is_null() {
                        *entry = self.zero(inner);
                    }
                    self.shape(inner, entry, path.index(at), holder, depth + 1)?;
                }
                Ok(())
            }
            (Shape::Map(inner), Value::Object(map)) => {
                for (key, entry) in map.iter_mut() {
                    if entry.is_null() {
                        *entry = self.zero(inner);
                    }
                    self.shape(inner, entry, path.key(key), holder, depth + 1)?;
                }
                Ok(())
            }
            (Shape::Scalar(scalar), value) => canonical(*scalar, value, path, holder),
            (Shape::Schema(_), Value::Bool(_)) => Ok(()),
            (Shape::Schema(_), Value::Array(list)) => {
                for (at, entry) in list.iter_mut().enumerate().filter(|(_, entry)| !entry.is_string()) {
                    self.shape(shape, entry, path.index(at), holder, depth + 1)?;
                }
                Ok(())
            }
            (_, value) => Err(wrong_type(value, path, holder, &self.go_type(shape))),
        }
    }

    fn fields(
        &mut self,
        id: TypeId,
        map: &mut Map<String, Value>,
        path: Path<'_>,
        depth: usize,
    ) -> Result<(), Mismatch> {
        let one = self.schema.get(id);
        let mut gone: Vec<String> = Vec::new();
        for (name, value) in map.iter_mut() {
            let Some(field) = one.field(name) else {
                self.unknown.push(path.field(name));
                gone.push(name.clone());
                continue;
            };
            if value.is_null() {
                gone.push(name.clone());
                continue;
            }
            self.shape(&field.shape, value, path.field(name), one.go_name(), depth + 1)?;
            if !field.keep && is_omitted(field, value) {
                gone.push(name.clone());
            }
        }
        for name in gone {
            map.remove(&name);
        }
        for at in &one.implied {
            let field = &one.fields[*at];
            if !map.contains_key(field.name) {
                let zero = if field.pointer { Value::Null } else { self.zero(&field.shape) };
                map.insert(field.name.to_owned(), zero);
            }
        }
        Ok(())
    }

    /// What Go writes for a value that is not set.
    fn zero(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Struct(id) => {
                let one = self.schema.get(*id);
                let mut map = Map::new();
                for at in &one.implied {
                    let field = &one.fields[*at];
                    let zero = if field.pointer { Value::Null } else { self.zero(&field.shape) };
                    map.insert(field.name.to_owned(), zero);
                }
                Value::Object(map)
            }
            Shape::List(_) | Shape::Map(_) | Shape::Schema(_) => Value::Null,
            Shape::Scalar(scalar) => match scalar {
                Scalar::String => json!(""),
                Scalar::Bool => json!(false),
                Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Float64 | Scalar::IntOrString => json!(0),
                Scalar::Quantity => json!("0"),
                Scalar::Duration => json!("0s"),
                Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::Any => Value::Null,
            },
        }
    }

    fn go_type(&self, shape: &Shape) -> String {
        match shape {
            Shape::Struct(id) | Shape::Schema(id) => format!("v1.{}", self.schema.get(*id).go_name()),
            Shape::List(inner) => format!("[]{}", self.go_type(inner)),
            Shape::Map(inner) => format!("map[string]{}", self.go_type(inner)),
            Shape::Scalar(scalar) => go_scalar(*scalar).to_owned(),
        }
    }
}

/// Whether Go's `omitempty` or `omitzero` leaves the value out.
fn is_omitted(field: &Field, value: &Value) -> bool {
    if field.pointer {
        return false;
    }
    match (&field.shape, value) {
        (Shape::Struct(_), Value::Object(map)) => field.omit_zero && map.is_empty(),
        (_, Value::Object(map)) => map.is_empty(),
        (_, Value::Array(list)) => list.is_empty(),
        (Shape::Scalar(Scalar::Quantity | Scalar::IntOrString | Scalar::Any), _) => false,
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Bool(set)) => !set,
        (_, Value::Number(number)) => number.as_f64() == Some(0.0),
        (_, Value::Null) => true,
    }
}

/// Checks a single value and writes it the way Kubernetes does.
fn canonical(scalar: Scalar, value: &mut Value, path: Path<'_>, holder: &str) -> Result<(), Mismatch> {
    let wrong = |value: &Value| Err(wrong_type(value, path, holder, go_scalar(scalar)));
    match (scalar, &*value) {
        (Scalar::String | Scalar::IntOrString | Scalar::Duration, Value::String(_))
        | (Scalar::Bool, Value::Bool(_))
        | (Scalar::Float64, Value::Number(_))
        | (Scalar::Any, _) => Ok(()),
        (Scalar::Int32 | Scalar::IntOrString, Value::Number(number)) => match whole(number) {
            Some(whole) if i32::try_from(whole).is_ok() => keep_whole(value, whole),
            _ => wrong(value),
        },
        (Scalar::Uint32, Value::Number(number)) => match whole(number) {
            Some(whole) if u32::try_from(whole).is_ok() => keep_whole(value, whole),
            _ => wrong(value),
        },
        (Scalar::Int64, Value::Number(number)) => match whole(number) {
            Some(whole) => keep_whole(value, whole),
            None => wrong(value),
        },
        (Scalar::Bytes, Value::String(text)) => check_base64(text),
        (Scalar::Quantity, Value::String(_) | Value::Number(_)) => {
            let text = match &*value {
                Value::String(text) => text.trim().to_owned(),
                other => other.to_string(),
            };
            let quantity = Quantity::parse(&text).map_err(|error| Mismatch(error.to_string()))?;
            let shown = quantity.to_string();
            if value.as_str() != Some(&shown) {
                *value = Value::String(shown);
            }
            Ok(())
        }
        (Scalar::Time, Value::String(text)) => {
            if !is_plain_time(text) {
                let instant = parse_time(text)?;
                *value = json!(instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
            }
            Ok(())
        }
        (Scalar::MicroTime, Value::String(text)) => {
            let instant = parse_time(text)?;
            *value = json!(instant.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string());
            Ok(())
        }
        _ => wrong(value),
    }
}

fn whole(number: &Number) -> Option<i64> {
    // Go's decoder takes 3.0 for an integer nowhere, but kubectl's YAML reader writes whole floats without a point.
    number.as_i64()
}

#[expect(clippy::unnecessary_wraps, reason = "an arm of a match that may fail")]
fn keep_whole(value: &mut Value, whole: i64) -> Result<(), Mismatch> {
    *value = json!(whole);
    Ok(())
}

/// `2027-01-15T08:00:00Z`, which needs no rewriting.
fn is_plain_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 20
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            10 => *byte == b'T',
            13 | 16 => *byte == b':',
            19 => *byte == b'Z',
            _ => byte.is_ascii_digit(),
        })
        && text.parse::<Timestamp>().is_ok()
}

fn parse_time(text: &str) -> Result<Timestamp, Mismatch> {
    text.parse().map_err(|_| {
        Mismatch(format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
        ))
    })
}

fn check_base64(text: &str) -> Result<(), Mismatch> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).map(drop).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => text.len() / 4 * 4,
        };
        Mismatch(format!("illegal base64 data at input byte {at}"))
    })
}

fn go_scalar(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String => "string",
        Scalar::Bool => "bool",
        Scalar::Int32 | Scalar::IntOrString => "int32",
        Scalar::Int64 => "int64",
        Scalar::Uint32 => "uint32",
        Scalar::Float64 => "float64",
        Scalar::Bytes => "[]uint8",
        Scalar::Quantity => "resource.Quantity",
        Scalar::Time => "v1.Time",
        Scalar::MicroTime => "v1.MicroTime",
        Scalar::Duration => "v1.Duration",
        Scalar::Any => "runtime.RawExtension",
    }
}

fn wrong_type(value: &Value, path: Path<'_>, holder: &str, wanted: &str) -> Mismatch {
    let got = match value {
        Value::Number(number) if number.is_f64() || wanted.contains("int") => format!("number {number}"),
        other => json_kind(other).to_owned(),
    };
    let names = path.names();
    if names.is_empty() {
        return Mismatch(format!("json: cannot unmarshal {got} into Go value of type {wanted}"));
    }
    Mismatch(format!("json: cannot unmarshal {got} into Go struct field {holder}.{names} of type {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    fn tidy(api_version: &str, kind: &str, mut value: Value) -> Result<(Value, Vec<String>), String> {
        let id = schema().kind(api_version, kind).expect("kind");
        let found = schema().tidy(id, &mut value).map_err(|error| error.0)?;
        Ok((value, found.unknown))
    }

    #[test]
    fn unknown_fields_are_named_and_dropped() {
        let (value, unknown) = tidy(
            "apps/v1",
            "Deployment",
            json!({ "spec": { "replica": 3, "template": { "spec": { "containers": [{ "name": "a", "imag": "b" }] } } } }),
        )
        .expect("decodes");
        assert_eq!(unknown, ["spec.replica", "spec.template.spec.containers[0].imag"]);
        assert!(value["spec"].get("replica").is_none());
    }

    #[test]
    fn wrong_types_are_refused_in_go_s_words() {
        let error = tidy("apps/v1", "Deployment", json!({ "spec": { "replicas": "three" } })).expect_err("wrong type");
        assert_eq!(
            error,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
        let error = tidy("v1", "Pod", json!({ "spec": { "containers": "x" } })).expect_err("wrong type");
        assert_eq!(
            error,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container"
        );
        let error = tidy(
            "v1",
            "Pod",
            json!({ "spec": { "containers": [{ "resources": { "requests": { "cpu": "lots" } } }] } }),
        )
        .expect_err("no quantity");
        assert!(error.starts_with("quantities must match the regular expression"), "{error}");
        assert!(tidy("v1", "Pod", json!([])).is_err());
    }

    #[test]
    fn values_take_the_form_go_writes() {
        let (value, _) = tidy(
            "v1",
            "Pod",
            json!({
                "metadata": { "creationTimestamp": null, "labels": {}, "deletionTimestamp": "2020-01-01T01:00:00+01:00" },
                "spec": {
                    "nodeName": "", "hostNetwork": false, "securityContext": {},
                    "containers": [{ "name": "a", "args": [], "resources": { "requests": { "cpu": 0.5, "memory": "1024Mi" } } }],
                },
                "status": { "conditions": [{ "type": "Ready" }] },
            }),
        )
        .expect("decodes");
        assert_eq!(
            value,
            json!({
                "metadata": { "deletionTimestamp": "2020-01-01T00:00:00Z" },
                "spec": {
                    "securityContext": {},
                    "containers": [{ "name": "a", "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } } }],
                },
                "status": { "conditions": [{ "type": "Ready", "status": "", "lastProbeTime": null, "lastTransitionTime": null }] },
            })
        );
    }

    #[test]
    fn required_fields_and_embedded_structs_are_always_there() {
        let (value, _) = tidy("apps/v1", "DaemonSet", json!({})).expect("decodes");
        assert_eq!(value["status"]["desiredNumberScheduled"], 0);
        assert_eq!(value["spec"]["template"]["spec"]["containers"], Value::Null);
        assert_eq!(value["spec"]["selector"], Value::Null);
    }

    #[test]
    fn a_bottomless_tree_is_refused() {
        let mut value = Value::Null;
        for _ in 0..5000 {
            value = Value::Array(vec![value]);
        }
        let mut object = json!({ "metadata": { "labels": {} } });
        object["metadata"]["labels"]["deep"] = value;
        let id = schema().kind("v1", "Pod").expect("kind");
        assert!(schema().tidy(id, &mut object).is_err());
        // Dropping the tree must not overflow the stack either.
        let mut rest = object["metadata"]["labels"]["deep"].take();
        while let Some(inner) = rest.as_array_mut().and_then(Vec::pop) {
            rest = inner;
        }
    }
}
