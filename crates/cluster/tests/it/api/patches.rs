//! What clients are told of a patch: what is in it twice, and what its kind does not have.

use http_body_util::BodyExt;
use klab_cluster::api::Api;
use serde_json::{Value, json};

use super::{api, ask, config_map, send};

const MAP: &str = "/api/v1/namespaces/default/configmaps/kept";
const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn kept() -> Api {
    let api = api();
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(ask(&api, "POST", path, &config_map("kept", "x")).await.0, 201);
    api
}

/// The code, the warnings, and the message of a refusal.
async fn patch(api: &Api, query: &str, kind: &str, body: &str) -> (u16, Vec<String>, String) {
    let answer = send(api, "PATCH", &format!("{MAP}?{query}"), &[("content-type", kind)], body).await;
    let code = answer.status().as_u16();
    let warnings = answer.headers().get_all("warning").iter();
    let warnings = warnings.map(|one| one.to_str().unwrap().trim_start_matches("299 - ").to_owned()).collect();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    (code, warnings, value["message"].as_str().unwrap_or_default().to_owned())
}

/// upstream: test/integration/apiserver/field_validation_test.go testFieldValidationPatchTyped, testFieldValidationApplyUpdate.
#[tokio::test]
async fn what_a_patch_has_twice_or_too_much_is_told_or_refused() {
    let api = kept().await;
    let merge = r#"{"data":{"a":"1","a":"2"},"other":1}"#;
    let operations = r#"[{"op":"add","path":"/data/a","value":"3","from":"/b","from":"/c","foo":1},{"op":"add","path":"/other","value":1}]"#;
    let config = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kept"},"data":{"a":"4","a":"5"}}"#;
    let (duplicate, unknown) = (r#"duplicate field "data.a""#, r#"unknown field "other""#);
    let line = r#"line 1: key "a" already set in map"#;
    let of_operations = [r#"json patch duplicate field "[0].from""#, r#"json patch unknown field "[0].foo""#, unknown];
    let query = "fieldManager=me&fieldValidation";
    let all = [
        (MERGE, merge, vec![duplicate, unknown], 422),
        (STRATEGIC, merge, vec![duplicate, unknown], 422),
        (JSON, operations, of_operations.to_vec(), 422),
        (APPLY, config, vec![line], 400),
    ];
    for (kind, body, told, code) in all {
        let (found, warnings, message) = patch(&api, &format!("{query}=Strict"), kind, body).await;
        let words = match kind {
            APPLY => {
                format!("error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {line}")
            }
            _ => format!(": strict decoding error: {}", told.join(", ")),
        };
        assert!(found == code && message.ends_with(&words) && warnings.is_empty(), "{kind}: {found} {message}");
        let force = if kind == APPLY { "&force=true" } else { "" };
        let (found, warnings, message) = patch(&api, &format!("{query}=Warn{force}"), kind, body).await;
        let wanted: Vec<String> = told.iter().map(|text| json!(text).to_string()).collect();
        assert_eq!((found, warnings), (200, wanted), "{kind}: {message}");
        let (found, warnings, message) = patch(&api, &format!("{query}=Ignore{force}"), kind, body).await;
        assert_eq!((found, warnings), (200, Vec::new()), "{kind}: {message}");
    }
}

#[tokio::test]
async fn a_body_that_is_no_patch_is_refused_in_gos_words() {
    let api = kept().await;
    for (kind, body, code, words) in [
        (MERGE, "{bad", 400, "error decoding patch: invalid character 'b' looking for beginning of object key string"),
        (STRATEGIC, "{bad", 400, "invalid character 'b' looking for beginning of object key string"),
        (
            MERGE,
            "[]",
            400,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (STRATEGIC, "1", 400, "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        (
            JSON,
            "{}",
            400,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            JSON,
            r#"[{"op":"merge","path":"/data"}]"#,
            422,
            "the server rejected our request due to an error in our request",
        ),
    ] {
        let (found, _, message) = patch(&api, "", kind, body).await;
        assert_eq!((found, message.as_str()), (code, words), "{kind} {body}");
    }
}
