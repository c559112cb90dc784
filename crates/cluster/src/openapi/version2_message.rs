//! `/openapi/v2` as a message: what `DiscoveryClient.OpenAPISchema` of client-go asks for.

// upstream: vendor/github.com/google/gnostic-models/openapiv2/OpenAPIv2.proto (v1.36)

use serde_json::{Map, Value};

use crate::protobuf::{bytes, double, varint};

/// How deep schemas may nest.
const DEEPEST: usize = 100;

/// Fields that are texts, by their numbers.
const TEXTS: &[(u32, &str)] =
    &[(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern"), (26, "discriminator")];
const NUMBERS: &[(u32, &str)] = &[(6, "multipleOf"), (7, "maximum"), (9, "minimum")];
const COUNTS: &[(u32, &str)] = &[
    (11, "maxLength"),
    (12, "minLength"),
    (14, "maxItems"),
    (15, "minItems"),
    (17, "maxProperties"),
    (18, "minProperties"),
];
const FLAGS: &[(u32, &str)] =
    &[(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems"), (27, "readOnly")];

/// Writes a document of [`super::version2`].
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, &document["swagger"]);
    let mut info = Vec::new();
    text(&mut info, 1, &document["info"]["title"]);
    text(&mut info, 2, &document["info"]["version"]);
    bytes(&mut out, 2, &info);
    bytes(&mut out, 8, &[]);
    if let Some(definitions) = document["definitions"].as_object() {
        bytes(&mut out, 9, &named(definitions, 0));
    }
    out
}

/// Schemas by name.
fn named(schemas: &Map<String, Value>, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in schemas {
        let mut entry = Vec::new();
        bytes(&mut entry, 1, name.as_bytes());
        bytes(&mut entry, 2, &schema(value, depth + 1));
        bytes(&mut out, 1, &entry);
    }
    out
}

fn schema(value: &Value, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(map) = value.as_object().filter(|_| depth < DEEPEST) else { return out };
    for (number, name) in TEXTS {
        text(&mut out, *number, &value[*name]);
    }
    for (number, name) in NUMBERS {
        if let Some(float) = value[*name].as_f64() {
            double(&mut out, *number, float);
        }
    }
    for (number, name) in COUNTS {
        if let Some(count) = value[*name].as_u64() {
            varint(&mut out, *number, count);
        }
    }
    for (number, name) in FLAGS {
        if value[*name] == true {
            varint(&mut out, *number, 1);
        }
    }
    for required in value["required"].as_array().into_iter().flatten() {
        text(&mut out, 19, required);
    }
    if let Some(default) = map.get("default") {
        bytes(&mut out, 5, &any(default));
    }
    for one in value["enum"].as_array().into_iter().flatten() {
        bytes(&mut out, 20, &any(one));
    }
    match map.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut item = Vec::new();
            varint(&mut item, 2, u64::from(*allowed));
            bytes(&mut out, 21, &item);
        }
        Some(inner) => bytes(&mut out, 21, &wrapped(inner, depth)),
        None => {}
    }
    if let Some(kind) = map.get("type") {
        let mut item = Vec::new();
        text(&mut item, 1, kind);
        kind.as_array().into_iter().flatten().for_each(|kind| text(&mut item, 1, kind));
        bytes(&mut out, 22, &item);
    }
    if let Some(items) = map.get("items") {
        bytes(&mut out, 23, &wrapped(items, depth));
    }
    for inner in value["allOf"].as_array().into_iter().flatten() {
        bytes(&mut out, 24, &schema(inner, depth + 1));
    }
    if let Some(properties) = value["properties"].as_object() {
        bytes(&mut out, 25, &named(properties, depth + 1));
    }
    for (name, extension) in map.iter().filter(|(name, _)| name.starts_with("x-")) {
        let mut entry = Vec::new();
        bytes(&mut entry, 1, name.as_bytes());
        bytes(&mut entry, 2, &any(extension));
        bytes(&mut out, 31, &entry);
    }
    out
}

/// A schema as the first field of a message.
fn wrapped(inner: &Value, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, 1, &schema(inner, depth + 1));
    out
}

/// Any value, as YAML, which JSON is.
fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, 2, format!("{value}\n").as_bytes());
    out
}

fn text(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(text) = value.as_str() {
        bytes(out, number, text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_have_the_numbers_of_the_specification() {
        let value = json!({
            "description": "d", "type": "object", "default": {}, "maximum": 1.5, "minLength": 3, "required": ["a"],
            "properties": { "a": { "$ref": "#/definitions/b" } }, "items": { "type": "string" },
            "additionalProperties": { "type": "integer" }, "enum": ["x"], "x-kubernetes-list-type": "set",
        });
        // As gnostic's OpenAPIv2.proto numbers them.
        let mut expected = b"\x22\x01d\x39\0\0\0\0\0\0\xf8\x3f\x60\x03\x9a\x01\x01a".to_vec();
        expected.extend(b"\x2a\x05\x12\x03{}\n");
        expected.extend(b"\xa2\x01\x06\x12\x04\"x\"\n");
        expected.extend(b"\xaa\x01\x0e\x0a\x0c\xb2\x01\x09\x0a\x07integer");
        expected.extend(b"\xb2\x01\x08\x0a\x06object");
        expected.extend(b"\xba\x01\x0d\x0a\x0b\xb2\x01\x08\x0a\x06string");
        expected.extend(b"\xca\x01\x18\x0a\x16\x0a\x01a\x12\x11\x0a\x0f#/definitions/b");
        expected.extend(b"\xfa\x01\x22\x0a\x16x-kubernetes-list-type\x12\x08\x12\x06\"set\"\n");
        let written = schema(&value, 0);
        assert_eq!(written.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn a_schema_without_end_is_cut() {
        let mut value = json!({ "type": "string" });
        for _ in 0..1_000 {
            value = json!({ "items": value });
        }
        assert!(encode(&json!({ "definitions": { "deep": value } })).len() < 4_000);
    }
}
