//! Corners that strangers look at: answers for people to read, headers, parameters that are gone, who issues tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::BodyExt;
use klab_cluster::api::Api;
use klab_cluster::system::{Flavour, bootstrap};
use serde_json::{Value, json};

use super::{Events, MAPS, api, ask, cluster, config_map, create, get, send};

/// Type, cache control and text of an answer.
async fn read(api: &Api, path: &str, headers: &[(&str, &str)]) -> (String, String, String) {
    let answer = send(api, "GET", path, headers, "").await;
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    let (kind, caching) = (header("content-type"), header("cache-control"));
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (kind, caching, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn people_get_a_line_for_each_value() {
    let api = api();
    create(api.cluster(), "a", "0");
    create(api.cluster(), "b", "0");
    let one = format!("{MAPS}/a");
    let missing = format!("{MAPS}/none");
    let curl = ("user-agent", "curl/8.5.0");
    for path in [one.as_str(), MAPS, missing.as_str(), "/apis/apps/v1", "/api"] {
        let compact = read(&api, path, &[("user-agent", "kubectl/v1.36.2")]).await.2;
        assert!(!compact.trim_end().contains('\n'), "{path}: {compact}");
        let value: Value = serde_json::from_str(&compact).unwrap();
        let with = if path.contains('?') { "&" } else { "?" };
        for (path, headers) in [
            (path.to_owned(), vec![curl]),
            (path.to_owned(), vec![("user-agent", "Mozilla/5.0 (X11)")]),
            (format!("{path}{with}pretty=true"), Vec::new()),
            (path.to_owned(), vec![("accept", "application/json;pretty=1")]),
        ] {
            let printed = read(&api, &path, &headers).await.2;
            assert!(printed.starts_with("{\n  \"kind\": "), "{path}: {printed}");
            assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), value);
        }
        let compact_again = read(&api, &format!("{path}?pretty=false"), &[curl]).await.2;
        assert_eq!(compact_again, compact);
    }
    let mut events = Events::open(&api, "resourceVersion=0&pretty=true").await;
    assert_eq!(events.next().await.unwrap()["object"]["metadata"]["name"], "a", "a line for each event");
}

#[tokio::test]
async fn a_refusal_says_first_what_it_is() {
    let text = read(&api(), &format!("{MAPS}/none"), &[]).await.2;
    let wanted = concat!(
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"none\" not found","#,
        r#""reason":"NotFound","details":{"name":"none","kind":"configmaps"},"code":404}"#,
        "\n"
    );
    assert_eq!(text, wanted);
    let odd = read(&api(), &format!("{MAPS}?sendInitialEvents=true"), &[]).await.2;
    assert!(odd.contains(r#","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"#), "{odd}");
}

#[tokio::test]
async fn answers_are_for_nobody_else_but_what_all_may_know() {
    let api = api();
    let discovery = ("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    for (path, headers, wanted) in [
        (MAPS, vec![], "no-cache, private"),
        ("/api/v1/namespaces/none", vec![], "no-cache, private"),
        ("/healthz", vec![], "no-cache, private"),
        ("/openapi/v2", vec![], "no-cache, private"),
        ("/apis", vec![discovery], "public"),
        ("/openid/v1/jwks", vec![], "public, max-age=3600"),
    ] {
        assert_eq!(read(&api, path, &headers).await.1, wanted, "{path}");
    }
}

#[tokio::test]
async fn what_is_no_longer_there_is_refused() {
    let api = api();
    create(api.cluster(), "a", "0");
    for (query, code) in
        [("export=true", 400), ("export=", 400), ("export=false", 200), ("export=0", 200), ("exact=true", 200)]
    {
        let (found, answer) = get(&api, &format!("{MAPS}/a?{query}")).await;
        assert_eq!(found, code, "{query}: {answer}");
        if code == 400 {
            assert_eq!(answer["message"], "the export parameter, deprecated since v1.14, is no longer supported");
        }
    }
}

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

#[tokio::test]
async fn others_can_check_the_tokens_of_service_accounts() {
    let cluster = cluster();
    bootstrap(&cluster, Flavour::Bare);
    let api = Api::new(cluster);
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } });
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(ask(&api, "POST", accounts, &account).await.0, 201);
    let (_, made) = ask(&api, "POST", &format!("{accounts}/robot/token"), &json!({})).await;
    let token = made["status"]["token"].as_str().unwrap();
    let part = |at: usize| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(at).unwrap()).unwrap()).unwrap()
    };
    let (kind, _, keys) = read(&api, "/openid/v1/jwks", &[]).await;
    assert_eq!(kind, "application/jwk-set+json");
    let keys: Value = serde_json::from_str(&keys).unwrap();
    let key = &keys["keys"][0];
    assert_eq!(part(0), json!({ "alg": "EdDSA", "kid": key["kid"] }));
    assert_eq!((&key["kty"], &key["crv"], &key["use"]), (&json!("OKP"), &json!("Ed25519"), &json!("sig")));
    assert_eq!(URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap().len(), 32);
    let (_, configuration) = get(&api, "/.well-known/openid-configuration").await;
    assert_eq!(
        configuration,
        json!({
            "issuer": part(1)["iss"], "jwks_uri": "https://kubernetes.default.svc/openid/v1/jwks",
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["EdDSA"],
        })
    );
    // upstream: bootstrappolicy: every ServiceAccount may read them, and nobody else.
    for (group, code) in [("system:serviceaccounts", 200), ("system:authenticated", 403)] {
        let headers = [("impersonate-user", "somebody"), ("impersonate-group", group)];
        for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
            assert_eq!(send(&api, "GET", path, &headers, "").await.status().as_u16(), code, "{group} {path}");
        }
    }
}
