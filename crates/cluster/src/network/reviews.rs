//! What agnhost's admission webhooks say to a review.

// upstream: test/images/agnhost/webhook (v1.36)

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::value::{items, text};

/// An answer, and how long it takes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reviewed {
    pub(super) value: Value,
    /// None where it never comes.
    pub(super) after: Option<Duration>,
}

/// The label, and the key, that the webhooks heed.
const KEY: &str = "webhook-e2e-test";

/// What is said of a request.
enum Said {
    Allowed,
    /// Refused with a reason, as whose status has no message is.
    Reason(String),
    Message(String),
    /// It could not be read.
    Fault(String),
    Patch(Value),
    /// Nothing: such a server breaks off.
    Nothing,
}

/// The answer of the webhook at this path; none where there is none, or to what is no review.
pub(super) fn review(path: &str, body: &[u8], sidecar: &str) -> Option<Reviewed> {
    let review: Value = serde_json::from_slice(body).ok()?;
    let request = &review["request"];
    if review["kind"] != "AdmissionReview" || !request.is_object() {
        return None;
    }
    let mut after = Some(Duration::ZERO);
    let object = &request["object"];
    let judged = if request["operation"] == "DELETE" { &request["oldObject"] } else { object };
    let is = |resource: &str| request["resource"] == json!({ "group": "", "version": "v1", "resource": resource });
    let said = match path {
        "/always-allow-delay-5s" => {
            after = Some(Duration::from_secs(5));
            Said::Allowed
        }
        "/always-deny" => Said::Message("this webhook denies all requests".to_owned()),
        "/add-label" => add_label(object),
        "/pods" if !is("pods") => Said::Fault("expect resource to be {\"\" \"v1\" \"pods\"}".to_owned()),
        "/pods" => {
            if object["metadata"]["labels"][KEY] == "wait-forever" {
                after = None;
            }
            judge_pod(object)
        }
        "/pods/attach" => {
            let stdin = object["stdin"] == true && object["container"] == "container1";
            if request["name"] == "to-be-attached-pod" && stdin {
                Said::Message("attaching to pod 'to-be-attached-pod' is not allowed".to_owned())
            } else {
                Said::Allowed
            }
        }
        "/mutating-pods" | "/mutating-pods-sidecar" if !is("pods") => Said::Nothing,
        "/configmaps" | "/mutating-configmaps" if !is("configmaps") => Said::Nothing,
        "/mutating-pods" => add_init_container(object),
        "/mutating-pods-sidecar" => add_sidecar(object, sidecar),
        "/configmaps" => judge_data(request, judged, "configmap", "key and value"),
        "/custom-resource" => judge_data(request, judged, "custom resource", "data"),
        "/mutating-configmaps" | "/mutating-custom-resource" => stage(object),
        "/crd" => {
            if object["metadata"]["labels"][KEY] == "webhook-disallow" {
                Said::Message("the crd contains unwanted label".to_owned())
            } else {
                Said::Allowed
            }
        }
        _ => return None,
    };
    let mut response = match said {
        Said::Allowed => json!({ "allowed": true }),
        Said::Reason(reason) => json!({ "allowed": false, "status": { "metadata": {}, "reason": reason } }),
        Said::Message(message) | Said::Fault(message) => {
            json!({ "allowed": false, "status": { "metadata": {}, "message": message } })
        }
        Said::Patch(patch) => {
            json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) })
        }
        Said::Nothing => {
            after = None;
            json!({ "allowed": false })
        }
    };
    response["uid"] = request["uid"].clone();
    let value = json!({ "kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response });
    Some(Reviewed { value, after })
}

fn has_container(list: &Value, name: &str) -> bool {
    items(list).iter().any(|one| one["name"] == name)
}

fn add_init_container(pod: &Value) -> Said {
    let has = has_container(&pod["spec"]["initContainers"], "webhook-added-init-container");
    if pod["metadata"]["name"] != "webhook-to-be-mutated" || has {
        return Said::Allowed;
    }
    Said::Patch(json!([{ "op": "add", "path": "/spec/initContainers", "value": [{
        "image": "webhook-added-image", "name": "webhook-added-init-container", "resources": {},
    }] }]))
}

fn add_sidecar(pod: &Value, image: &str) -> Said {
    if image.is_empty() {
        return Said::Message("No image specified by the sidecar-image parameter".to_owned());
    }
    if has_container(&pod["spec"]["containers"], "webhook-added-sidecar") {
        return Said::Allowed;
    }
    Said::Patch(json!([{ "op": "add", "path": "/spec/containers/-", "value": {
        "image": image, "name": "webhook-added-sidecar", "resources": {},
    } }]))
}

fn add_label(object: &Value) -> Said {
    let labels = object["metadata"]["labels"].as_object().filter(|labels| !labels.is_empty());
    let patch = match labels.map(|labels| labels.get("added-label")) {
        None => json!({ "op": "add", "path": "/metadata/labels", "value": { "added-label": "yes" } }),
        Some(None) => json!({ "op": "add", "path": "/metadata/labels/added-label", "value": "yes" }),
        Some(Some(value)) if value != "yes" => {
            json!({ "op": "replace", "path": "/metadata/labels/added-label", "value": "yes" })
        }
        Some(Some(_)) => return Said::Allowed,
    };
    Said::Patch(json!([patch]))
}

fn judge_pod(pod: &Value) -> Said {
    let mut faults = Vec::new();
    match text(pod, &["metadata", "labels", KEY]) {
        "webhook-disallow" => faults.push("the pod contains unwanted label;"),
        "wait-forever" => faults.push("the pod response should not be sent;"),
        _ => {}
    }
    let unwanted = |one: &&Value| text(one, &["name"]).contains("webhook-disallow");
    faults.extend(
        items(&pod["spec"]["containers"]).iter().filter(unwanted).map(|_| "the pod contains unwanted container name;"),
    );
    if faults.is_empty() { Said::Allowed } else { Said::Message(faults.join(" ")) }
}

fn judge_data(request: &Value, object: &Value, what: &str, unwanted: &str) -> Said {
    let (value, operation) = (object["data"][KEY].as_str(), request["operation"].as_str());
    match (value, operation) {
        (Some("webhook-disallow"), Some("CREATE" | "UPDATE")) => {
            Said::Reason(format!("the {what} contains unwanted {unwanted}"))
        }
        (Some("webhook-nondeletable"), Some("DELETE")) => {
            Said::Reason(format!("the {what} cannot be deleted because it contains unwanted key and value"))
        }
        _ => Said::Allowed,
    }
}

/// The next stage of what two of them do one after the other.
fn stage(object: &Value) -> Said {
    let data = &object["data"];
    let added = |stage: &str| Said::Patch(json!([{ "op": "add", "path": format!("/data/{stage}"), "value": "yes" }]));
    if data["mutation-stage-1"] == "yes" {
        added("mutation-stage-2")
    } else if data["mutation-start"] == "yes" {
        added("mutation-stage-1")
    } else {
        Said::Allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, request: Value) -> Value {
        let body = json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request });
        review(path, body.to_string().as_bytes(), "")
            .map(|reviewed| reviewed.value["response"].clone())
            .unwrap_or_default()
    }

    #[test]
    fn data_decides() {
        let of = |operation: &str, value: &str| {
            let object = json!({ "data": { KEY: value } });
            said(
                "/custom-resource",
                json!({ "uid": "u", "operation": operation, "object": object, "oldObject": object }),
            )
        };
        assert_eq!(of("CREATE", "fine"), json!({ "allowed": true, "uid": "u" }));
        assert_eq!(of("UPDATE", "webhook-disallow")["status"]["reason"], "the custom resource contains unwanted data");
        assert_eq!(of("DELETE", "webhook-disallow")["allowed"], true);
        assert_eq!(of("DELETE", "webhook-nondeletable")["allowed"], false);
    }

    #[test]
    fn stages_follow_each_other() {
        let of = |data: Value| {
            let response = said("/mutating-custom-resource", json!({ "uid": "u", "object": { "data": data } }));
            let patch = STANDARD.decode(response["patch"].as_str().unwrap_or_default()).unwrap_or_default();
            String::from_utf8_lossy(&patch).into_owned()
        };
        assert_eq!(of(json!({ "a": "b" })), "");
        assert!(of(json!({ "mutation-start": "yes" })).contains("mutation-stage-1"));
        assert!(of(json!({ "mutation-start": "yes", "mutation-stage-1": "yes" })).contains("mutation-stage-2"));
    }

    #[test]
    fn what_is_no_review_is_not_answered() {
        for body in ["", "{}", "[]", r#"{"kind":"AdmissionReview"}"#, r#"{"kind":"AdmissionReview","request":[]}"#] {
            assert_eq!(review("/always-deny", body.as_bytes(), ""), None, "{body}");
        }
        assert_eq!(said("/no-such-path", json!({ "uid": "u" })), Value::Null);
    }
}
