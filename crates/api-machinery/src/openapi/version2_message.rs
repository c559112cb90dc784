//! `/openapi/v2` as a message: what `DiscoveryClient.OpenAPISchema` of client-go asks for.

// upstream: vendor/github.com/google/gnostic-models/openapiv2/OpenAPIv2.proto (v1.36)

use crate::protobuf::{bytes, double, varint};
use serde_json::{Map, Value};

/// How deep schemas may nest.
const MAX_DEPTH: usize = 100;

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

/// Operations of a path, by their numbers.
const METHODS: &[(u32, &str)] =
    &[(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (6, "options"), (7, "head"), (8, "patch")];

/// Writes a document of [`super::version2`]: its frame, its paths and its definitions.
pub(super) fn encode<'a>(
    frame: &Value,
    items: impl Iterator<Item = (&'a str, Value)>,
    definitions: &Map<String, Value>,
) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, &frame["swagger"]);
    let mut info = Vec::new();
    text(&mut info, 1, &frame["info"]["title"]);
    text(&mut info, 2, &frame["info"]["version"]);
    bytes(&mut out, 2, &info);
    let mut paths = Vec::new();
    for (name, item) in items {
        bytes(&mut paths, 2, &pair(name, &path(&item)));
    }
    bytes(&mut out, 8, &paths);
    bytes(&mut out, 9, &named(definitions, 0));
    let mut parameters = Vec::new();
    for (name, value) in frame["parameters"].as_object().into_iter().flatten() {
        bytes(&mut parameters, 1, &pair(name, &parameter(value)));
    }
    bytes(&mut out, 10, &parameters);
    for required in frame["security"].as_array().into_iter().flatten() {
        let mut requirement = Vec::new();
        required.as_object().into_iter().flatten().for_each(|(name, _)| bytes(&mut requirement, 1, &pair(name, &[])));
        bytes(&mut out, 12, &requirement);
    }
    let mut schemes = Vec::new();
    for (name, value) in frame["securityDefinitions"].as_object().into_iter().flatten() {
        let mut key = Vec::new();
        for (number, field) in [(1, "type"), (2, "name"), (3, "in"), (4, "description")] {
            text(&mut key, number, &value[field]);
        }
        bytes(&mut schemes, 1, &pair(name, &wrapped(2, &key)));
    }
    bytes(&mut out, 13, &schemes);
    out
}

fn path(item: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, method) in METHODS {
        if let Some(asked) = item.get(method) {
            bytes(&mut out, *number, &operation(asked));
        }
    }
    for one in item["parameters"].as_array().into_iter().flatten() {
        bytes(&mut out, 9, &parameter_or_reference(one));
    }
    out
}

fn operation(asked: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let texts = |out: &mut Vec<u8>, number, key: &str| {
        asked[key].as_array().into_iter().flatten().for_each(|one| text(out, number, one));
    };
    texts(&mut out, 1, "tags");
    text(&mut out, 3, &asked["description"]);
    text(&mut out, 5, &asked["operationId"]);
    texts(&mut out, 6, "produces");
    texts(&mut out, 7, "consumes");
    for one in asked["parameters"].as_array().into_iter().flatten() {
        bytes(&mut out, 8, &parameter_or_reference(one));
    }
    let mut responses = Vec::new();
    for (code, answer) in asked["responses"].as_object().into_iter().flatten() {
        let mut response = Vec::new();
        text(&mut response, 1, &answer["description"]);
        if let Some(answered) = answer.get("schema") {
            bytes(&mut response, 2, &wrapped(1, &schema(answered, 0)));
        }
        bytes(&mut responses, 1, &pair(code, &wrapped(1, &response)));
    }
    bytes(&mut out, 9, &responses);
    texts(&mut out, 10, "schemes");
    extensions(&mut out, 13, asked);
    out
}

fn parameter_or_reference(value: &Value) -> Vec<u8> {
    if value["$ref"].is_string() {
        let mut reference = Vec::new();
        text(&mut reference, 1, &value["$ref"]);
        return wrapped(2, &reference);
    }
    wrapped(1, &parameter(value))
}

fn parameter(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let flag = |out: &mut Vec<u8>, number, key: &str| {
        if value[key] == true {
            varint(out, number, 1);
        }
    };
    if value["in"] == "body" {
        text(&mut out, 2, &value["name"]);
        text(&mut out, 3, &value["in"]);
        flag(&mut out, 4, "required");
        bytes(&mut out, 5, &schema(&value["schema"], 0));
        return wrapped(1, &out);
    }
    flag(&mut out, 1, "required");
    for (number, key) in [(2, "in"), (3, "description"), (4, "name")] {
        text(&mut out, number, &value[key]);
    }
    // What is in a path cannot be empty, so that all that follows has the number before.
    let in_path = value["in"] == "path";
    text(&mut out, if in_path { 5 } else { 6 }, &value["type"]);
    flag(&mut out, if in_path { 19 } else { 20 }, "uniqueItems");
    wrapped(2, &wrapped(if in_path { 4 } else { 3 }, &out))
}

/// A name and what it names.
fn pair(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, 1, name.as_bytes());
    bytes(&mut out, 2, value);
    out
}

/// A message as a field of another one.
fn wrapped(number: u32, inner: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, number, inner);
    out
}

fn extensions(out: &mut Vec<u8>, number: u32, value: &Value) {
    for (name, extension) in value.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
        bytes(out, number, &pair(name, &any(extension)));
    }
}

/// Schemas by name.
fn named(schemas: &Map<String, Value>, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in schemas {
        bytes(&mut out, 1, &pair(name, &schema(value, depth + 1)));
    }
    out
}

fn schema(value: &Value, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(map) = value.as_object().filter(|_| depth < MAX_DEPTH) else { return out };
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
        Some(inner) => bytes(&mut out, 21, &wrapped(1, &schema(inner, depth + 1))),
        None => {}
    }
    if let Some(kind) = map.get("type") {
        let mut item = Vec::new();
        text(&mut item, 1, kind);
        kind.as_array().into_iter().flatten().for_each(|kind| text(&mut item, 1, kind));
        bytes(&mut out, 22, &item);
    }
    if let Some(items) = map.get("items") {
        bytes(&mut out, 23, &wrapped(1, &schema(items, depth + 1)));
    }
    for inner in value["allOf"].as_array().into_iter().flatten() {
        bytes(&mut out, 24, &schema(inner, depth + 1));
    }
    if let Some(properties) = value["properties"].as_object() {
        bytes(&mut out, 25, &named(properties, depth + 1));
    }
    extensions(&mut out, 31, value);
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
    fn operations_have_the_numbers_of_the_specification() {
        let item = json!({
            "parameters": [{"in": "path", "name": "n", "required": true, "type": "string", "uniqueItems": true}],
            "get": {
                "operationId": "i", "tags": ["t"], "x-kubernetes-action": "get",
                "parameters": [{"$ref": "#/parameters/p"}, {"in": "query", "name": "q", "type": "string"}],
                "responses": {"200": {"description": "OK", "schema": {"type": "string"}}},
            },
        });
        // As gnostic's OpenAPIv2.proto numbers them.
        let mut get = b"\x0a\x01t\x2a\x01i".to_vec();
        get.extend(b"\x42\x12\x12\x10\x0a\x0e#/parameters/p");
        get.extend(b"\x42\x18\x0a\x16\x12\x14\x1a\x12\x12\x05query\x22\x01q\x32\x06string");
        get.extend(b"\x4a\x1e\x0a\x1c\x0a\x03200\x12\x15\x0a\x13\x0a\x02OK");
        get.extend(b"\x12\x0d\x0a\x0b\xb2\x01\x08\x0a\x06string");
        get.extend(b"\x6a\x1f\x0a\x13x-kubernetes-action\x12\x08\x12\x06\"get\"\n");
        let mut expected = vec![0x12, get.len() as u8];
        expected.extend(get);
        expected.extend(b"\x4a\x1c\x0a\x1a\x12\x18\x22\x16\x08\x01\x12\x04path\x22\x01n\x2a\x06string\x98\x01\x01");
        let written = path(&item);
        assert_eq!(written.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn a_schema_without_end_is_cut() {
        let mut value = json!({ "type": "string" });
        for _ in 0..1_000 {
            value = json!({ "items": value });
        }
        assert!(schema(&value, 0).len() < 4_000);
    }
}
