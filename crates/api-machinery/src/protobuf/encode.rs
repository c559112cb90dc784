//! Answers in protobuf: JSON written as the message that its kind's table describes.
//!
//! // upstream: apimachinery pkg/runtime/serializer/protobuf/protobuf.go

use base64::Engine as _;
use serde_json::{Map, Value};

use super::MAGIC;
use super::wire::{bytes, double, varint};
use crate::schema::{Field, Scalar, Shape, TypeId, schema};

/// Whether objects of a kind can be written.
pub fn is_known(api_version: &str, kind: &str) -> bool {
    schema().kind(api_version, kind).is_some()
}

/// An object. `None` for kinds without a table.
pub fn encode(value: &Value) -> Option<Vec<u8>> {
    let (api_version, kind) = (value["apiVersion"].as_str()?, value["kind"].as_str()?);
    if kind == "Status" {
        return Some(envelope("v1", "Status", &status(value)));
    }
    let id = schema().kind(api_version, kind)?;
    Some(envelope(api_version, kind, &message(id, value.as_object()?)))
}

/// A list of objects of a kind with a table.
pub fn encode_list(api_version: &str, kind: &str, metadata: &Value, items: &[Value]) -> Option<Vec<u8>> {
    let id = schema().kind(api_version, kind)?;
    let mut out = Vec::new();
    bytes(&mut out, 1, &list_metadata(metadata));
    for item in items {
        bytes(&mut out, 2, &message(id, item.as_object()?));
    }
    Some(envelope(api_version, &format!("{kind}List"), &out))
}

/// Metadata alone.
pub fn encode_partial(metadata: &Value) -> Vec<u8> {
    envelope("meta.k8s.io/v1", "PartialObjectMetadata", &partial(metadata))
}

/// Metadata of many objects.
pub fn encode_partial_list<'a>(metadata: &Value, items: impl Iterator<Item = &'a Value>) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, 1, &list_metadata(metadata));
    for item in items {
        bytes(&mut out, 2, &partial(item));
    }
    envelope("meta.k8s.io/v1", "PartialObjectMetadataList", &out)
}

/// An event of a watch, with its length in front.
pub fn encode_event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::new();
    bytes(&mut raw, 1, object);
    let mut event = Vec::new();
    bytes(&mut event, 1, kind.as_bytes());
    bytes(&mut event, 2, &raw);
    let mut frame = (event.len() as u32).to_be_bytes().to_vec();
    frame.extend(event);
    frame
}

/// The message around every object, which names its kind.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut meta = Vec::new();
    bytes(&mut meta, 1, api_version.as_bytes());
    bytes(&mut meta, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    bytes(&mut out, 1, &meta);
    bytes(&mut out, 2, raw);
    bytes(&mut out, 3, b"");
    bytes(&mut out, 4, b"");
    out
}

fn partial(metadata: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let holder = schema().kind("v1", "ConfigMap").and_then(|id| schema().get(id).field("metadata"));
    if let (Some(field), Some(metadata)) = (holder, metadata.as_object())
        && let Shape::Struct(id) = &field.shape
    {
        bytes(&mut out, 1, &message(*id, metadata));
    }
    out
}

fn list_metadata(metadata: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, name) in [(2, "resourceVersion"), (3, "continue")] {
        bytes(&mut out, number, metadata[name].as_str().unwrap_or_default().as_bytes());
    }
    if let Some(remaining) = metadata["remainingItemCount"].as_u64() {
        varint(&mut out, 4, remaining);
    }
    out
}

/// A Status, which is no stored kind and has no table.
fn status(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, 1, &list_metadata(&value["metadata"]));
    for (number, name) in [(2, "status"), (3, "message"), (4, "reason")] {
        bytes(&mut out, number, value[name].as_str().unwrap_or_default().as_bytes());
    }
    if let Some(details) = value["details"].as_object() {
        let mut inner = Vec::new();
        for (number, name) in [(1, "name"), (2, "group"), (3, "kind"), (6, "uid")] {
            bytes(&mut inner, number, details.get(name).and_then(Value::as_str).unwrap_or_default().as_bytes());
        }
        for cause in details.get("causes").and_then(Value::as_array).into_iter().flatten() {
            let mut one = Vec::new();
            for (number, name) in [(1, "reason"), (2, "message"), (3, "field")] {
                bytes(&mut one, number, cause[name].as_str().unwrap_or_default().as_bytes());
            }
            bytes(&mut inner, 4, &one);
        }
        if let Some(seconds) = details.get("retryAfterSeconds").and_then(Value::as_u64) {
            varint(&mut inner, 5, seconds);
        }
        bytes(&mut out, 5, &inner);
    }
    varint(&mut out, 6, value["code"].as_u64().unwrap_or_default());
    out
}

/// A message of a type; embedded messages are written where they live.
fn message(id: TypeId, map: &Map<String, Value>) -> Vec<u8> {
    part(id, map, &[])
}

/// The message embedded in it that lives there.
fn part(id: TypeId, map: &Map<String, Value>, outer: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut embedded: Vec<u32> = Vec::new();
    for field in schema().get(id).fields.iter().filter(|field| field.number != 0) {
        let Some(value) = map.get(field.name).filter(|value| !value.is_null()) else { continue };
        match field.outer.strip_prefix(outer).map(<[u32]>::first) {
            Some(None) => field_of(&mut out, field, value),
            Some(Some(next)) if !embedded.contains(next) => embedded.push(*next),
            _ => {}
        }
    }
    for number in embedded {
        bytes(&mut out, number, &part(id, map, &[outer, &[number]].concat()));
    }
    out
}

fn field_of(out: &mut Vec<u8>, field: &Field, value: &Value) {
    match (&field.shape, value) {
        (Shape::List(inner), Value::Array(list)) => list.iter().for_each(|entry| one(out, field.number, inner, entry)),
        (Shape::Map(inner), Value::Object(map)) => {
            for (key, entry) in map {
                let mut pair = Vec::new();
                bytes(&mut pair, 1, key.as_bytes());
                match (inner.as_ref(), entry) {
                    (Shape::List(element), Value::Array(list)) => {
                        let mut holder = Vec::new();
                        for entry in list {
                            one(&mut holder, 1, element, entry);
                        }
                        bytes(&mut pair, 2, &holder);
                    }
                    _ => one(&mut pair, 2, inner, entry),
                }
                bytes(out, field.number, &pair);
            }
        }
        (shape, value) => one(out, field.number, shape, value),
    }
}

fn one(out: &mut Vec<u8>, number: u32, shape: &Shape, value: &Value) {
    match (shape, value) {
        (Shape::Struct(id), Value::Object(map)) => bytes(out, number, &message(*id, map)),
        (Shape::Schema(id), value) => bytes(out, number, &schema_or(*id, value)),
        (Shape::Scalar(scalar), value) => scalar_of(out, number, *scalar, value),
        _ => {}
    }
}

fn schema_or(id: TypeId, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Bool(allowed) => varint(&mut out, 1, u64::from(*allowed)),
        Value::Object(map) => bytes(&mut out, 1, &message(id, map)),
        Value::Array(list) => {
            for entry in list {
                match entry {
                    Value::Object(map) => bytes(&mut out, 2, &message(id, map)),
                    other => bytes(&mut out, 2, other.as_str().unwrap_or_default().as_bytes()),
                }
            }
        }
        _ => {}
    }
    out
}

fn scalar_of(out: &mut Vec<u8>, number: u32, scalar: Scalar, value: &Value) {
    match (scalar, value) {
        (Scalar::String, Value::String(text)) => bytes(out, number, text.as_bytes()),
        (Scalar::Bool, Value::Bool(value)) => varint(out, number, u64::from(*value)),
        (Scalar::Int32 | Scalar::Int64 | Scalar::Uint32, Value::Number(value)) => {
            varint(out, number, value.as_i64().unwrap_or_default() as u64);
        }
        (Scalar::Float64, Value::Number(value)) => {
            double(out, number, value.as_f64().unwrap_or_default());
        }
        (Scalar::Bytes, Value::String(text)) => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
            bytes(out, number, &decoded);
        }
        (Scalar::Quantity, value) => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let mut inner = Vec::new();
            bytes(&mut inner, 1, text.as_bytes());
            bytes(out, number, &inner);
        }
        (Scalar::IntOrString, value) => {
            let mut inner = Vec::new();
            let text = value.as_str();
            varint(&mut inner, 1, u64::from(text.is_some()));
            varint(&mut inner, 2, value.as_i64().unwrap_or_default() as u64);
            bytes(&mut inner, 3, text.unwrap_or_default().as_bytes());
            bytes(out, number, &inner);
        }
        (Scalar::Time | Scalar::MicroTime, Value::String(text)) => {
            if let Ok(instant) = text.parse::<jiff::Timestamp>() {
                let mut inner = Vec::new();
                varint(&mut inner, 1, instant.as_second() as u64);
                varint(&mut inner, 2, instant.subsec_nanosecond() as u64);
                bytes(out, number, &inner);
            }
        }
        (Scalar::Duration, Value::String(text)) => {
            let mut inner = Vec::new();
            varint(&mut inner, 1, klab_cel::duration_nanos(text).unwrap_or_default() as u64);
            bytes(out, number, &inner);
        }
        (Scalar::Any, value) => {
            let mut inner = Vec::new();
            bytes(&mut inner, 1, value.to_string().as_bytes());
            bytes(out, number, &inner);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protobuf::decode;

    #[test]
    fn messages_in_embedded_messages_are_where_go_has_them() {
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
            "spec": {"matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": ["apps"]}]},
                "validations": [{"expression": "true"}]},
        });
        let written = encode(&policy).expect("known");
        let rule = b"\x12\x10\x0a\x06CREATE\x12\x06\x0a\x04apps";
        assert!(written.windows(rule.len()).any(|part| part == rule), "{}", written.escape_ascii());
        assert_eq!(decode(&written).expect("read"), policy);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let objects = [
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "w.example.com"},
                "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "W", "plural": "w"}, "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                        "properties": {
                            "a": {"type": "array", "items": {"type": "string", "enum": ["x", "y"], "default": "x"}, "maxItems": 4},
                            "b": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 1.5}},
                            "c": {"type": "object", "additionalProperties": true},
                        }}}}]},
            }),
            json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.example.com"},
                "spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15, "caBundle": "YWI="},
            }),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web", "creationTimestamp": "2026-06-01T08:00:00Z", "labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 10},
                    "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}]},
            }),
        ];
        for object in objects {
            assert_eq!(decode(&encode(&object).expect("known")).expect("read"), object);
        }
    }
}
