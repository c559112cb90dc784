//! Kinds with two versions: whoever writes in the one finds it in the other.

use klab_cluster::api::Api;
use serde_json::{Value, json};

use super::{api, ask, get, send};

const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/web";

fn autoscaler(percent: Option<u32>) -> Value {
    let mut value = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }, "minReplicas": 1, "maxReplicas": 4,
        },
    });
    if let Some(percent) = percent {
        value["spec"]["targetCPUUtilizationPercentage"] = json!(percent);
    }
    value
}

async fn patch(api: &Api, kind: &str, query: &str, body: &Value) -> (u16, Value) {
    let path = format!("{V1}/web{query}");
    let answer = send(api, "PATCH", &path, &[("content-type", kind)], &body.to_string()).await;
    let code = answer.status().as_u16();
    let bytes = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

/// What is stored: the percentage of the processor, and the behaviour.
async fn stored(api: &Api) -> (Value, Value) {
    let (code, value) = get(api, V2).await;
    assert_eq!(code, 200, "{value}");
    (value["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"].clone(), value["spec"]["behavior"].clone())
}

#[tokio::test]
async fn an_autoscaler_is_patched_in_its_first_version_and_keeps_what_that_does_not_know() {
    let api = api();
    let (code, made) = ask(&api, "POST", V1, &autoscaler(Some(50))).await;
    assert_eq!(code, 201, "{made}");
    let mut second = get(&api, V2).await.1;
    second["spec"]["behavior"] = json!({ "scaleDown": { "stabilizationWindowSeconds": 60, "selectPolicy": "Max" } });
    let (code, answer) = ask(&api, "PUT", V2, &second).await;
    assert_eq!(code, 200, "{answer}");
    let behavior = answer["spec"]["behavior"].clone();
    let field = "targetCPUUtilizationPercentage";
    let patches = [
        ("application/merge-patch+json", json!({ "spec": { (field): 60 } }), 60),
        ("application/strategic-merge-patch+json", json!({ "spec": { (field): 70 } }), 70),
        (
            "application/json-patch+json",
            json!([{ "op": "replace", "path": format!("/spec/{field}"), "value": 80 }]),
            80,
        ),
    ];
    for (kind, body, percent) in patches {
        let (code, answer) = patch(&api, kind, "", &body).await;
        assert_eq!((code, &answer["spec"][field]), (200, &json!(percent)), "{kind}: {answer}");
        assert_eq!(stored(&api).await, (json!(percent), behavior.clone()), "{kind}");
    }
    let wrong = json!({ "spec": { (field): "many" } });
    assert_eq!(patch(&api, "application/merge-patch+json", "", &wrong).await.0, 422);
    assert_eq!(stored(&api).await.0, 80);
}

#[tokio::test]
async fn an_autoscaler_is_applied_in_its_first_version() {
    let api = api();
    let kind = "application/apply-patch+yaml";
    let query = "?fieldManager=me&force=true";
    for (percent, code) in [(50, 201), (50, 200), (60, 200)] {
        let (found, answer) = patch(&api, kind, query, &autoscaler(Some(percent))).await;
        assert_eq!((found, &answer["spec"]["targetCPUUtilizationPercentage"]), (code, &json!(percent)), "{answer}");
        assert_eq!(answer["apiVersion"], "autoscaling/v1");
        assert_eq!(stored(&api).await.0, percent);
    }
    let mut wrong = autoscaler(None);
    wrong["spec"]["metrics"] = json!([]);
    let (code, answer) = patch(&api, kind, query, &wrong).await;
    let words = ".spec.metrics: field not declared in schema";
    assert!(code == 500 && answer["message"].as_str().unwrap().contains(words), "{answer}");
}

/// upstream: structured-merge-diff merge/multiple_appliers_test.go: each manager owns fields of the version that it writes.
#[tokio::test]
async fn who_applies_in_the_first_version_owns_fields_of_it() {
    let api = api();
    let kind = "application/apply-patch+yaml";
    let field = "targetCPUUtilizationPercentage";
    let managers = |answer: &Value| {
        let list = answer["metadata"]["managedFields"].as_array().unwrap().clone();
        let told = list.into_iter().map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            let spec = entry["fieldsV1"]["f:spec"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            (text("manager"), text("apiVersion"), spec)
        });
        told.collect::<Vec<_>>()
    };
    let entry = |manager: &str, version: &str, fields: &[&str]| {
        let fields = fields.iter().map(|field| format!("f:{field}")).collect::<Vec<_>>();
        (manager.to_owned(), format!("autoscaling/{version}"), fields)
    };
    let all = ["maxReplicas", "minReplicas", "scaleTargetRef", field];
    let (code, made) = patch(&api, kind, "?fieldManager=me", &autoscaler(Some(50))).await;
    assert_eq!((code, managers(&made)), (201, vec![entry("me", "v1", &all)]));
    let (_, again) = patch(&api, kind, "?fieldManager=me", &autoscaler(Some(50))).await;
    assert_eq!(again, made, "nothing to write");

    // Who changes the metric in the second version takes the field of the first.
    let mut second = get(&api, V2).await.1;
    second["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = json!(70);
    let (code, answer) = ask(&api, "PUT", &format!("{V2}?fieldManager=other"), &second).await;
    let wanted = vec![entry("me", "v1", &all[..3]), entry("other", "v2", &["metrics"])];
    assert_eq!((code, managers(&answer)), (200, wanted), "{answer}");
    let (code, refused) = patch(&api, kind, "?fieldManager=me", &autoscaler(Some(50))).await;
    let words = "Apply failed with 1 conflict: conflict with \"other\" using autoscaling/v2: .spec.metrics";
    assert_eq!((code, refused["message"].as_str()), (409, Some(words)));

    // And back: what the first version changes nobody owns in the second any more.
    let body = json!({ "spec": { (field): 80 } });
    let (code, answer) = patch(&api, "application/merge-patch+json", "?fieldManager=third", &body).await;
    let wanted = vec![entry("me", "v1", &all[..3]), entry("third", "v1", &[field])];
    assert_eq!((code, managers(&answer)), (200, wanted), "{answer}");
    let (_, without) = patch(&api, kind, "?fieldManager=third&force=true", &autoscaler(Some(80))).await;
    assert_eq!(without["spec"][field], 80);
    let (code, gone) = patch(&api, kind, "?fieldManager=me&force=true", &autoscaler(None)).await;
    assert_eq!((code, &gone["spec"][field]), (200, &json!(80)), "another one wants it");
}
