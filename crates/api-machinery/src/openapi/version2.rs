//! `/openapi/v2`: all paths and schemas, in the older form of the specification.
//!
//! // upstream: apiextensions-apiserver pkg/controller/openapi/v2/conversion.go, kube-openapi pkg/builder/openapi.go (v1.36)

use serde_json::{Map, Value, json};

use super::catalogue::Catalogue;
use super::operation::{Operation, Path, shared};
use super::parameter::{BODY_OF_DELETE, BODY_OF_PATCH, Parameter};

const NEW: &str = "#/components/schemas/";
const OLD: &str = "#/definitions/";

/// The document without its paths and its definitions.
pub(super) fn frame(paths: &[Path], catalogue: &Catalogue<'_>) -> Map<String, Value> {
    let operations = paths.iter().flat_map(|path| &path.operations);
    let mut parameters = Map::new();
    for asked in operations {
        let names = asked.parameters.iter().filter_map(|one| match one {
            Parameter::Shared(name) => Some(*name),
            Parameter::NameOf(_) => None,
        });
        for name in names.chain(shared_body(asked)).filter(|name| is_shared(name)) {
            if !parameters.contains_key(name) {
                parameters.insert(name.to_owned(), catalogue.parameter(name));
            }
        }
    }
    let frame = json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.2"},
        "parameters": parameters,
        "security": [{"BearerToken": []}],
        "securityDefinitions": {"BearerToken": {
            "description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey",
        }},
    });
    frame.as_object().cloned().unwrap_or_default()
}

/// Writes schemas in the older form.
pub(super) fn definitions(mut schemas: Map<String, Value>) -> Map<String, Value> {
    schemas.values_mut().for_each(|schema| older(schema, true));
    schemas
}

/// Those with a hash in their names are shared, the others written out.
fn is_shared(name: &str) -> bool {
    name.contains('-')
}

/// The parameter that stands for what is sent, where others share it.
fn shared_body(asked: &Operation) -> Option<&'static str> {
    let (schema, _) = asked.body.as_ref()?;
    match schema.rsplit('.').next() {
        Some("DeleteOptions") => Some(BODY_OF_DELETE),
        Some("Patch") if asked.method == "patch" => Some(BODY_OF_PATCH),
        _ => None,
    }
}

/// What is asked at a path.
pub(super) fn item(path: &Path, catalogue: &Catalogue<'_>) -> Value {
    let common = shared(&path.operations);
    let written = |one: &Parameter| match one {
        Parameter::Shared(name) if is_shared(name) => json!({"$ref": format!("#/parameters/{name}")}),
        _ => one.written_out(catalogue),
    };
    let mut item = Map::new();
    if !common.is_empty() {
        item.insert("parameters".to_owned(), common.iter().map(|one| written(one)).collect());
    }
    for asked in &path.operations {
        let own = asked.parameters.iter().filter(|one| !common.contains(one));
        let mut parameters: Vec<(&str, Value)> = own.map(|one| (one.place().0, written(one))).collect();
        if let Some((schema, _)) = &asked.body {
            let body = shared_body(asked).map_or_else(
                || {
                    json!({"in": "body", "name": "body", "required": true,
                        "schema": {"$ref": format!("{OLD}{schema}")}})
                },
                |name| json!({"$ref": format!("#/parameters/{name}")}),
            );
            parameters.push(("body", body));
        }
        parameters.sort_by(|one, other| one.0.cmp(other.0));
        item.insert(asked.method.to_owned(), operation(asked, parameters));
    }
    Value::Object(item)
}

fn operation(asked: &Operation, parameters: Vec<(&str, Value)>) -> Value {
    let mut responses = Map::new();
    for (code, words) in asked.codes {
        let schema = asked
            .answer
            .as_ref()
            .map_or_else(|| json!({"type": "string"}), |name| json!({"$ref": format!("{OLD}{name}")}));
        responses.insert((*code).to_owned(), json!({"description": words, "schema": schema}));
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    let mut written = json!({
        "description": asked.description,
        "operationId": asked.id,
        "responses": responses,
        "schemes": ["https"],
        "tags": [asked.tag],
    });
    for (key, types) in [("consumes", asked.consumes), ("produces", asked.produces)] {
        if !types.is_empty() {
            written[key] = json!(types);
        }
    }
    if !parameters.is_empty() {
        written["parameters"] = parameters.into_iter().map(|(_, parameter)| parameter).collect();
    }
    if let Some((group, version, kind)) = &asked.kind {
        written["x-kubernetes-action"] = json!(asked.action);
        written["x-kubernetes-group-version-kind"] = json!({"group": group, "version": version, "kind": kind});
    }
    written
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
