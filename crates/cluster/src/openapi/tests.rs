//! Documents against those that API servers publish.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING};
use http::{HeaderMap, HeaderValue, Response};
use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::clock::SteppedClock;
use crate::cluster::WriteOptions;

/// What `tools/kubernetes-operations.py` writes.
fn published() -> Value {
    let packed = include_bytes!("../../tests/golden/openapi-operations.json.gz");
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn bytes(response: Response<Body>) -> Bytes {
    response.into_body().into_text().unwrap()
}

fn older(cluster: &Cluster) -> Value {
    serde_json::from_slice(&bytes(version2(cluster, &HeaderMap::new()))).unwrap()
}

fn newer(cluster: &Cluster, path: &str) -> Value {
    let response = document(cluster, path, Some(RICH), &HeaderMap::new()).unwrap();
    serde_json::from_slice(&bytes(response)).unwrap()
}

fn cluster() -> Cluster {
    Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7)
}

/// Compares path by path, so that what differs can be read.
fn compare(found: &Value, expected: &Value) {
    let names = |value: &Value| -> BTreeSet<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(names(found), names(expected));
    for (path, item) in expected.as_object().unwrap() {
        for (key, value) in item.as_object().unwrap() {
            assert_eq!(&found[path][key], value, "{path} {key}");
        }
        assert_eq!(names(&found[path]), names(item), "{path}");
    }
}

#[test]
fn all_that_is_built_in_can_be_asked_as_upstream_says() {
    let published = published();
    let cluster = cluster();
    let document = older(&cluster);
    compare(&document["paths"], &published["v2"]["paths"]);
    assert_eq!(document["parameters"], published["v2"]["parameters"]);
    for path in ["api/v1", "apis/apps/v1"] {
        compare(&newer(&cluster, path)["paths"], &published["v3"][path]);
    }
}

fn define(cluster: &Cluster, schema: &Value) {
    let definition = json!({
        "metadata": {"name": "widgets.shop.example.com"},
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "listKind": "WidgetRow"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let options = WriteOptions::client("test");
    cluster.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition, &options).unwrap();
}

#[test]
fn what_a_definition_brings_in_can_be_asked_too() {
    let cluster = cluster();
    define(&cluster, &json!({"type": "object", "description": "One kind."}));
    let document = older(&cluster);
    let root = "/apis/shop.example.com/v1/namespaces/{namespace}/widgets";
    let operation = |path: &str, method: &str| {
        let asked = &document["paths"][path][method];
        (asked["operationId"].clone(), asked["responses"]["200"]["schema"]["$ref"].clone())
    };
    let widget = json!("#/definitions/com.example.shop.v1.Widget");
    let rows = json!("#/definitions/com.example.shop.v1.WidgetRow");
    let status = json!("#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Status");
    let scale = json!("#/definitions/io.k8s.api.autoscaling.v1.Scale");
    for (path, method, id, answer) in [
        ("/apis/shop.example.com/v1/widgets", "get", "listShopExampleComV1WidgetForAllNamespaces", &rows),
        (root, "get", "listShopExampleComV1NamespacedWidget", &rows),
        (root, "post", "createShopExampleComV1NamespacedWidget", &widget),
        (root, "delete", "deleteShopExampleComV1CollectionNamespacedWidget", &status),
        (&format!("{root}/{{name}}"), "get", "readShopExampleComV1NamespacedWidget", &widget),
        (&format!("{root}/{{name}}"), "delete", "deleteShopExampleComV1NamespacedWidget", &status),
        (&format!("{root}/{{name}}/status"), "put", "replaceShopExampleComV1NamespacedWidgetStatus", &widget),
        (&format!("{root}/{{name}}/scale"), "patch", "patchShopExampleComV1NamespacedWidgetScale", &scale),
    ] {
        assert_eq!(operation(path, method), (json!(id), answer.clone()), "{path} {method}");
    }
    let patch = &document["paths"][format!("{root}/{{name}}")]["patch"];
    assert!(!patch["consumes"].as_array().unwrap().contains(&json!("application/strategic-merge-patch+json")));
    assert_eq!(patch["tags"], json!(["shopExampleCom_v1"]));
    let items = &document["definitions"]["com.example.shop.v1.WidgetRow"]["properties"]["items"];
    assert_eq!(items["items"]["$ref"], widget);
    // All that is referred to is there.
    let text = document.to_string();
    for name in text.split("\"#/definitions/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document["definitions"][name].is_object(), "{name}");
    }
    for name in text.split("\"#/parameters/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document["parameters"][name].is_object(), "{name}");
    }
    let newer = newer(&cluster, "apis/shop.example.com/v1");
    let patched = &newer["paths"][format!("{root}/{{name}}")]["patch"]["requestBody"]["content"];
    assert_eq!(patched.as_object().unwrap().len(), 3);
    assert!(newer["components"]["schemas"]["com.example.shop.v1.WidgetRow"].is_object());
}

#[test]
fn clusters_that_define_a_kind_differently_have_documents_of_their_own() {
    let texts = ["One kind.", "Another kind."];
    let clusters = texts.map(|text| {
        let cluster = cluster();
        define(&cluster, &json!({"type": "object", "description": text}));
        cluster
    });
    for (cluster, text) in clusters.iter().zip(texts) {
        assert_eq!(older(cluster)["definitions"]["com.example.shop.v1.Widget"]["description"], text);
        let schemas = &newer(cluster, "apis/shop.example.com/v1")["components"]["schemas"];
        assert_eq!(schemas["com.example.shop.v1.Widget"]["description"], text);
    }
}

#[test]
fn documents_are_compressed_for_whoever_takes_them_so() {
    let cluster = cluster();
    let mut headers = HeaderMap::new();
    let plain = bytes(version2(&cluster, &headers));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("br, gzip"));
    let packed = version2(&cluster, &headers);
    assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip");
    let packed = bytes(packed);
    assert!(packed.len() < plain.len() / 8, "{} of {}", packed.len(), plain.len());
    assert_eq!(cache::unpacked(&packed), plain);
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip;q=0"));
    assert!(!version2(&cluster, &headers).headers().contains_key(CONTENT_ENCODING));
}

#[test]
fn all_that_the_index_names_is_there_and_other_commands_see_groups_only() {
    let cluster = cluster();
    let read = |headers: &HeaderMap| -> Value { serde_json::from_slice(&bytes(index(&cluster, headers, ""))).unwrap() };
    let all = read(&HeaderMap::new());
    let paths = all["paths"].as_object().unwrap();
    for path in ["api", "apis", "apis/apps", "apis/apps/v1", "version", ".well-known/openid-configuration"] {
        assert!(paths.contains_key(path), "{path}");
    }
    for path in paths.keys() {
        let document = newer(&cluster, path);
        assert!(document["paths"].as_object().is_some_and(|paths| !paths.is_empty()), "{path}");
    }
    assert!(document(&cluster, "apis/none.example", None, &HeaderMap::new()).is_none());
    let mut headers = HeaderMap::new();
    headers.insert(COMMAND, HeaderValue::from_static("kubectl apply"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let small = read(&headers);
    assert_eq!((small["paths"]["apis/apps"].clone(), small["paths"]["apis/apps/v1"].is_object()), (json!(null), true));
}
