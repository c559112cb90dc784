//! `/openapi/v3/…`: paths in the newer form of the specification.
//!
//! // upstream: kube-openapi pkg/builder3/openapi.go (v1.36)

use serde_json::{Map, Value, json};

use super::catalogue::Catalogue;
use super::operation::{Operation, Path, shared};

const SCHEMAS: &str = "#/components/schemas/";

/// What is asked at a path.
pub(super) fn item(path: &Path, catalogue: &Catalogue<'_>) -> Value {
    let common = shared(&path.operations);
    let mut item = Map::new();
    if !common.is_empty() {
        item.insert("parameters".to_owned(), common.iter().map(|one| one.newer(catalogue)).collect());
    }
    for asked in &path.operations {
        let mut own: Vec<_> = asked.parameters.iter().filter(|one| !common.contains(one)).collect();
        own.sort_by_key(|one| one.place());
        let parameters = own.into_iter().map(|one| one.newer(catalogue)).collect();
        item.insert(asked.method.to_owned(), operation(asked, parameters));
    }
    Value::Object(item)
}

fn operation(asked: &Operation, parameters: Vec<Value>) -> Value {
    let reference = |name: &String| json!({"$ref": format!("{SCHEMAS}{name}")});
    let content = |types: &[&str], schema: &Value| -> Value {
        Value::Object(types.iter().map(|one| ((*one).to_owned(), json!({"schema": schema}))).collect())
    };
    let answer = asked.answer.as_ref().map_or_else(|| json!({"type": "string"}), reference);
    let mut responses = Map::new();
    for (code, words) in asked.codes {
        let answers = json!({"description": words, "content": content(asked.produces, &answer)});
        responses.insert((*code).to_owned(), answers);
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    let mut written = json!({
        "description": asked.description,
        "operationId": asked.id,
        "responses": responses,
        "tags": [asked.tag],
    });
    if !parameters.is_empty() {
        written["parameters"] = Value::Array(parameters);
    }
    if let Some((schema, required)) = &asked.body {
        let mut body = json!({"content": content(asked.consumes, &reference(schema))});
        if *required {
            body["required"] = json!(true);
        }
        written["requestBody"] = body;
    }
    if let Some((group, version, kind)) = &asked.kind {
        written["x-kubernetes-action"] = json!(asked.action);
        written["x-kubernetes-group-version-kind"] = json!({"group": group, "version": version, "kind": kind});
    }
    written
}
