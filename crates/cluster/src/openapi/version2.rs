//! `/openapi/v2`: the same schemas in the older form of the specification.
//!
//! // upstream: apiextensions-apiserver pkg/controller/openapi/v2/conversion.go

use serde_json::{Map, Value, json};

use super::explain;
use crate::api::{group_versions, resources_of};
use crate::cluster::Cluster;

const NEW: &str = "#/components/schemas/";
const OLD: &str = "#/definitions/";

/// The whole document.
pub(super) fn document(cluster: &Cluster) -> Value {
    let rows: Vec<_> = group_versions(cluster)
        .into_iter()
        .flat_map(|(group, version)| resources_of(cluster, group, version))
        .collect();
    let mut definitions = explain::schemas(cluster, &rows);
    if let Some(map) = definitions.as_object_mut() {
        map.values_mut().for_each(|schema| older(schema, true));
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "v1.36.2" },
        "paths": {},
        "definitions": definitions,
    })
}

/// Writes a schema in the older form: references by another path, and without what that form cannot say.
fn older(schema: &mut Value, root: bool) {
    let Some(map) = schema.as_object_mut() else { return };
    if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
        let reference = reference.replacen(NEW, OLD, 1);
        map.insert("$ref".to_owned(), json!(reference));
    }
    // A reference with something beside it is wrapped in the newer form only.
    if let Some(inner) = map.get("allOf").and_then(|list| list.as_array()).filter(|list| list.len() == 1)
        && let Some(reference) = inner[0]["$ref"].as_str()
    {
        let reference = reference.replacen(NEW, OLD, 1);
        map.remove("allOf");
        map.remove("default");
        map.insert("$ref".to_owned(), json!(reference));
    }
    for key in ["oneOf", "anyOf", "not", "allOf"] {
        map.remove(key);
    }
    if map.remove("nullable") == Some(json!(true)) {
        for key in ["type", "properties", "items", "additionalProperties"] {
            map.remove(key);
        }
    }
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true)) {
        if root {
            // With any property, kubectl takes all others for mistakes.
            map.retain(|key, _| key == "type" || key == "x-kubernetes-group-version-kind");
            return;
        }
        for key in ["items", "properties", "type"] {
            map.remove(key);
        }
    }
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        inner(properties);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = map.get_mut(key) {
            older(schema, false);
        }
    }
}

fn inner(properties: &mut Map<String, Value>) {
    properties.values_mut().for_each(|schema| older(schema, false));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_what_cannot_be_said() {
        let mut schema = json!({"type": "object", "properties": {
            "metadata": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Meta"}], "description": "d", "default": {}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}},
            "maybe": {"type": "string", "nullable": true},
        }});
        older(&mut schema, true);
        assert_eq!(
            schema["properties"],
            json!({
                "metadata": {"$ref": "#/definitions/io.k8s.Meta", "description": "d"},
                "any": {"x-kubernetes-preserve-unknown-fields": true},
                "maybe": {},
            })
        );
        let mut open = json!({
            "type": "object", "description": "d", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}},
            "x-kubernetes-group-version-kind": [],
        });
        older(&mut open, true);
        assert_eq!(open, json!({"type": "object", "x-kubernetes-group-version-kind": []}));
    }
}
