//! What a write of an object's status covers, kind by kind.

use klab_cluster::api::Api;
use serde_json::{Value, json};

use super::{api, ask, get};

/// Makes an object, and writes its status together with a label, an annotation, a finalizer and a field of its spec; gives
/// the object as it was made and as it is then.
async fn written(api: &Api, path: &str, mut object: Value) -> (Value, Value) {
    object["metadata"] = json!({ "name": "one", "labels": { "had": "yes" } });
    let (code, made) = ask(api, "POST", path, &object).await;
    assert_eq!(code, 201, "{made}");
    let own = format!("{path}/one");
    let mut changed = get(api, &own).await.1;
    let before = changed.clone();
    for field in ["labels", "annotations"] {
        changed["metadata"][field]["added"] = json!("yes");
    }
    changed["metadata"]["finalizers"] = json!(["example.com/keep"]);
    changed["spec"]["unheardOf"] = json!("x");
    changed["status"]["conditions"] = json!([{
        "type": "Seen", "status": "True", "reason": "Seen", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let (code, answer) = ask(api, "PUT", &format!("{own}/status?fieldValidation=Ignore"), &changed).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer["status"]["conditions"][0]["type"], "Seen", "{answer}");
    (before, get(api, &own).await.1)
}

#[tokio::test]
async fn a_status_of_some_kinds_is_written_without_metadata() {
    let api = api();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "gizmos.labs.test" },
        "spec": {
            "group": "labs.test", "scope": "Namespaced", "names": { "plural": "gizmos", "kind": "Gizmo" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    let (code, answer) =
        ask(&api, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    assert_eq!(code, 201, "{answer}");
    let kinds = [
        (
            "/apis/labs.test/v1/namespaces/default/gizmos",
            json!({ "apiVersion": "labs.test/v1", "kind": "Gizmo", "spec": { "size": 1 }, "beside": 1 }),
        ),
        (
            "/apis/networking.k8s.io/v1/servicecidrs",
            json!({ "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "spec": { "cidrs": ["10.9.0.0/24"] } }),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "spec": {
                    "matchConstraints": { "resourceRules": [
                        { "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"] },
                    ] },
                    "validations": [{ "expression": "true" }],
                },
            }),
        ),
    ];
    for (path, object) in kinds {
        let (before, after) = written(&api, path, object).await;
        assert_eq!(after["status"]["conditions"][0]["type"], "Seen", "{path}");
        for field in ["labels", "annotations", "finalizers"] {
            assert_eq!(after["metadata"][field], before["metadata"][field], "{path}: {field}");
        }
        assert_eq!((&after["spec"], &after["beside"]), (&before["spec"], &before["beside"]), "{path}");
    }
}

#[tokio::test]
async fn metadata_that_a_status_writes_is_checked() {
    let api = api();
    let disruption = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": { "minAvailable": 1, "selector": { "matchLabels": { "a": "b" } } },
    });
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let (_, mut after) = written(&api, path, disruption).await;
    assert_eq!(after["metadata"]["labels"], json!({ "had": "yes", "added": "yes" }), "this kind takes them");
    after["metadata"]["labels"]["added"] = json!("not a value");
    let (code, answer) = ask(&api, "PUT", &format!("{path}/one/status"), &after).await;
    assert_eq!((code, answer["reason"].as_str()), (422, Some("Invalid")), "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("metadata.labels"), "{answer}");
}

#[tokio::test]
async fn the_quality_of_service_of_a_pod_stays_what_it_is() {
    let api = api();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({ "metadata": { "name": "one" }, "spec": { "containers": [{ "name": "a", "image": "nginx" }] } });
    assert_eq!(ask(&api, "POST", pods, &pod).await.0, 201);
    let own = format!("{pods}/one");
    let mut changed = get(&api, &own).await.1;
    changed["status"]["qosClass"] = json!("Guaranteed");
    let (code, answer) = ask(&api, "PUT", &format!("{own}/status"), &changed).await;
    assert_eq!(code, 422, "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.ends_with("status.qosClass: Invalid value: \"Guaranteed\": field is immutable"), "{message}");
    // A client that says nothing of it leaves it alone.
    changed["status"] = json!({ "message": "seen" });
    let (code, answer) = ask(&api, "PUT", &format!("{own}/status"), &changed).await;
    assert_eq!((code, &answer["status"]["qosClass"]), (200, &json!("BestEffort")), "{answer}");
}
