//! Corners that strangers look at: answers for people to read, headers, parameters that are gone, who issues tokens.

use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{MAPS, api, ask, config_map, create, send};

#[tokio::test]
async fn an_object_stays_the_one_of_its_kind() {
    let api = api();
    create(api.cluster(), "a", "0");
    let path = format!("{MAPS}/a");
    let merge = "application/merge-patch+json";
    let none = r#"no kind "Foo" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30""#;
    let json_patch = r#"[{"op":"replace","path":"/apiVersion","value":"v9"}]"#;
    for (kind, body, code, words) in [
        (merge, r#"{"kind":"Foo"}"#, 422, none),
        (merge, r#"{"kind":"Secret"}"#, 422, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        (
            "application/json-patch+json",
            json_patch,
            422,
            r#"no kind "ConfigMap" is registered for version "v9" in scheme "pkg/api/legacyscheme/scheme.go:30""#,
        ),
        ("application/strategic-merge-patch+json", r#"{"kind":"Foo"}"#, 200, ""),
        (
            merge,
            r#"{"metadata":{"uid":"1-2"}}"#,
            422,
            r#"ConfigMap "a" is invalid: metadata.uid: Invalid value: "1-2": field is immutable"#,
        ),
    ] {
        let answer = send(&api, "PATCH", &path, &[("content-type", kind)], body).await;
        let found = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(found == code && message.ends_with(words), "{body}: {answer}");
    }
    let mut other = config_map("a", "0");
    other["metadata"]["uid"] = json!("1-2");
    let (code, answer) = ask(&api, "PUT", &path, &other).await;
    let words = "Precondition failed: UID in precondition: 1-2, UID in object meta: ";
    assert!(code == 409 && answer["message"].as_str().unwrap().contains(words), "{answer}");
}
