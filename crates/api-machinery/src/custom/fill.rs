//! What of a custom resource is kept, and what is filled in.
//!
//! // upstream: apiextensions-apiserver pkg/apiserver/schema/pruning/algorithm.go, defaulting/algorithm.go

use serde_json::{Map, Value, json};

use crate::schema::{self as types, Path};
use crate::texts::Texts;

/// How deep is looked.
const MAX_DEPTH: usize = 100;

/// Takes out the fields that the schema does not know; gives their paths.
pub fn prune(schema: &Value, value: &mut Value) -> Vec<String> {
    let mut unknown = Texts::default();
    walk(schema, keeps(schema), value, Path::Root, true, 0, &mut unknown);
    unknown.into_list()
}

/// Whether whatever is there stays.
fn keeps(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// With `kept`, fields stay that the schema does not know: also in the entries of a list, but not in its known fields.
fn walk(
    schema: &Value,
    kept: bool,
    value: &mut Value,
    path: Path<'_>,
    resource: bool,
    depth: usize,
    unknown: &mut Texts,
) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Array(items) => {
            let inner = &schema["items"];
            let resource = inner["x-kubernetes-embedded-resource"] == true;
            for (at, item) in items.iter_mut().enumerate() {
                walk(inner, kept || keeps(inner), item, path.index(at), resource, depth + 1, unknown);
            }
        }
        Value::Object(map) => object(schema, kept, map, path, resource, depth, unknown),
        _ => {}
    }
}

fn object(
    schema: &Value,
    kept: bool,
    map: &mut Map<String, Value>,
    path: Path<'_>,
    resource: bool,
    depth: usize,
    unknown: &mut Texts,
) {
    let embedded = resource && depth > 0;
    let mut gone = Vec::new();
    for (name, inner) in map.iter_mut() {
        if resource && matches!(name.as_str(), "apiVersion" | "kind") {
            continue;
        }
        if resource && name == "metadata" {
            if embedded {
                metadata(inner, path.field(name), unknown);
            }
            continue;
        }
        let known = &schema["properties"][name.as_str()];
        let known = if known.is_object() { known } else { &schema["additionalProperties"] };
        if !known.is_null() {
            let holds = known["x-kubernetes-embedded-resource"] == true;
            walk(known, keeps(known), inner, path.field(name), holds, depth + 1, unknown);
        } else if !kept {
            unknown.push(path.field(name));
            gone.push(name.clone());
        }
    }
    for name in gone {
        map.remove(&name);
    }
}

/// The metadata of an embedded object.
fn metadata(value: &mut Value, path: Path<'_>, unknown: &mut Texts) {
    let Some(id) = types::schema().kind("v1", "ConfigMap") else { return };
    if let Ok(found) = types::schema().tidy_field(id, "metadata", value) {
        let inner = found.unknown.iter().filter_map(|field| field.strip_prefix("metadata."));
        inner.for_each(|field| unknown.push(path.field(field)));
    }
}

/// Whether a schema fills in anything.
pub(super) fn has_defaults(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            map.contains_key("default")
                || map.iter().any(|(key, inner)| match key.as_str() {
                    "properties" => inner.as_object().is_some_and(|map| map.values().any(has_defaults)),
                    "items" | "additionalProperties" => has_defaults(inner),
                    _ => false,
                })
        }
        _ => false,
    }
}

/// Fills in what the schema has defaults for; nulls that it does not allow are no values.
pub fn default(schema: &Value, value: &mut Value) {
    fill(schema, value, 0);
}

fn fill(schema: &Value, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(map) => {
            if let Some(properties) = schema["properties"].as_object() {
                for (name, inner) in properties {
                    if depth == 0 && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
                        continue;
                    }
                    let nullable = inner["nullable"] == true;
                    let missing = map.get(name).is_none_or(|found| found.is_null() && !nullable);
                    if !missing {
                        continue;
                    }
                    match inner.get("default") {
                        Some(default) if !default.is_null() || nullable => {
                            map.insert(name.clone(), default.clone());
                        }
                        _ => drop(map.remove(name)),
                    }
                }
            }
            for (name, inner) in map.iter_mut() {
                if depth == 0 && name == "metadata" {
                    continue;
                }
                let known = &schema["properties"][name.as_str()];
                let known = if known.is_object() { known } else { &schema["additionalProperties"] };
                if known.is_object() {
                    if inner.is_null() && known["nullable"] != true && known.get("default").is_some() {
                        *inner = known["default"].clone();
                    }
                    fill(known, inner, depth + 1);
                }
            }
        }
        Value::Array(items) => {
            let inner = &schema["items"];
            for item in items {
                if item.is_null() && inner["nullable"] != true && inner.get("default").is_some() {
                    *item = inner["default"].clone();
                }
                fill(inner, item, depth + 1);
            }
        }
        _ => {}
    }
}

/// What a schema's root knows besides what is written in it.
pub(super) fn with_object_metadata(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["type"] = json!("object");
    let text = json!({ "type": "string" });
    schema["properties"]["kind"] = text.clone();
    schema["properties"]["apiVersion"] = text.clone();
    let mut metadata = json!({ "type": "object" });
    metadata["properties"] = json!({ "name": text, "generateName": text });
    let own = &schema["properties"]["metadata"]["properties"];
    for name in ["name", "generateName"] {
        if own[name].is_object() {
            metadata["properties"][name] = own[name].clone();
        }
    }
    schema["properties"]["metadata"] = metadata;
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_go_and_are_named() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {}},
            }},
        }});
        let mut value = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"}, "top": 1, "spec": {
            "size": 1, "colour": "x", "free": {"any": [1]}, "parts": [{"name": "a", "x": 1}],
            "inner": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "odd": 1}},
        }});
        let unknown = prune(&schema, &mut value);
        assert_eq!(unknown, ["spec.colour", "spec.inner.metadata.odd", "spec.parts[0].x", "top"]);
        assert_eq!(
            value["spec"],
            json!({"size": 1, "free": {"any": [1]}, "parts": [{"name": "a"}],
            "inner": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}})
        );
    }

    /// upstream: pruning/algorithm_test.go TestPrune
    #[test]
    fn what_keeps_unknown_fields_keeps_those_of_its_entries() {
        let keeps = |mut schema: Value| {
            schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
            schema
        };
        let known = json!({ "a": { "type": "object", "properties": { "b": { "type": "string" } } } });
        let rows = json!([{ "a": { "b": "1", "c": 2 }, "d": [{ "e": 3 }] }]);
        let of_known = json!([{ "a": { "b": "1" }, "d": [{ "e": 3 }] }]);
        for (schema, given, kept) in [
            (keeps(json!({})), &rows, &rows),
            (keeps(json!({ "type": "array", "items": { "type": "object" } })), &rows, &rows),
            (keeps(json!({ "type": "array", "items": { "type": "object", "properties": known } })), &rows, &of_known),
            (
                json!({ "type": "array", "items": keeps(json!({ "type": "object", "properties": known })) }),
                &rows,
                &of_known,
            ),
            (json!({ "type": "array", "items": { "type": "object" } }), &rows, &json!([{}])),
            (
                keeps(json!({ "type": "object" })),
                &json!({ "x": rows, "y": [[{ "z": 1 }]] }),
                &json!({ "x": rows, "y": [[{ "z": 1 }]] }),
            ),
            (
                keeps(
                    json!({ "type": "object", "properties": { "x": { "type": "array", "items": { "type": "object" } } } }),
                ),
                &json!({ "x": rows, "y": rows }),
                &json!({ "x": [{}], "y": rows }),
            ),
            (
                json!({ "type": "object", "additionalProperties": keeps(json!({})) }),
                &json!({ "x": rows }),
                &json!({ "x": rows }),
            ),
            (
                json!({ "type": "object", "additionalProperties": true }),
                &json!({ "x": 1, "y": { "z": 1 } }),
                &json!({ "x": 1, "y": {} }),
            ),
        ] {
            let schema = json!({ "type": "object", "properties": { "f": schema } });
            let mut value = json!({ "f": given });
            let unknown = prune(&schema, &mut value);
            assert_eq!(value, json!({ "f": kept }), "{schema}");
            assert_eq!(unknown.is_empty(), given == kept, "{schema}: {unknown:?}");
        }
    }

    #[test]
    fn defaults_are_filled_in_and_nulls_are_none() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "default": {}, "properties": {
            "a": {"type": "string", "default": "x"}, "b": {"type": "string"}, "c": {"type": "string", "nullable": true},
            "l": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}},
        }}}});
        let mut value = json!({"spec": {"a": null, "b": null, "c": null, "l": [{}]}});
        default(&schema, &mut value);
        assert_eq!(value, json!({"spec": {"a": "x", "c": null, "l": [{"n": 1}]}}));
        let mut value = json!({});
        default(&schema, &mut value);
        assert_eq!(value, json!({"spec": {"a": "x"}}));
    }
}
