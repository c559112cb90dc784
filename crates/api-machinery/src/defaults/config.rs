//! Defaults of the kinds that configure others: Secrets, definitions, autoscalers, limits, bindings, policies; of nodes
//! and endpoints.

use base64::Engine as _;
use serde_json::{Value, json};

use super::field::{each, set};

/// `stringData` is a way to write `data`; it is never read back.
pub fn secret(value: &mut Value) {
    set(value, "type", "Opaque");
    let Some(plain) = value.as_object_mut().and_then(|secret| secret.remove("stringData")) else { return };
    for (key, text) in plain.as_object().into_iter().flatten() {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text.as_str().unwrap_or_default());
        value["data"][key] = json!(encoded);
    }
}

pub fn definition(value: &mut Value) {
    let spec = &mut value["spec"];
    if !spec.is_object() {
        return;
    }
    set(spec, "conversion", json!({ "strategy": "None" }));
    if let Some(service) = spec.pointer_mut("/conversion/webhook/clientConfig/service") {
        set(service, "port", 443);
    }
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if spec["names"].is_object() {
        set(&mut spec["names"], "singular", kind.to_lowercase());
        set(&mut spec["names"], "listKind", format!("{kind}List"));
    }
    let versions = spec["versions"].as_array().into_iter().flatten();
    let stored: Vec<Value> =
        versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone()).collect();
    if value["status"].is_null() {
        value["status"] = json!({
            "conditions": null, "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": stored,
        });
    }
}

pub fn autoscaler(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "minReplicas", 1);
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        spec["metrics"] = json!([{
            "type": "Resource",
            "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } },
        }]);
    }
    let scaled_to_zero = spec["behavior"].is_object();
    if !scaled_to_zero {
        return;
    }
    let behavior = &mut spec["behavior"];
    for (direction, policies) in [
        (
            "scaleUp",
            json!([{ "type": "Pods", "value": 4, "periodSeconds": 15 }, { "type": "Percent", "value": 100, "periodSeconds": 15 }]),
        ),
        ("scaleDown", json!([{ "type": "Percent", "value": 100, "periodSeconds": 15 }])),
    ] {
        set(behavior, direction, json!({}));
        let rules = &mut behavior[direction];
        if direction == "scaleUp" {
            set(rules, "stabilizationWindowSeconds", 0);
        }
        set(rules, "selectPolicy", "Max");
        set(rules, "policies", policies);
    }
}

pub fn limit_range(value: &mut Value) {
    for item in each(&mut value["spec"], "limits").filter(|item| item["type"] == "Container") {
        let copy = |item: &mut Value, from: &str, to: &str| {
            let Some(source) = item.get(from).and_then(Value::as_object).cloned() else { return };
            set(item, to, json!({}));
            for (name, amount) in source {
                set(&mut item[to], &name, amount);
            }
        };
        copy(item, "max", "default");
        copy(item, "default", "defaultRequest");
        copy(item, "min", "defaultRequest");
    }
}

pub fn binding(value: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if value["roleRef"]["apiGroup"].as_str().is_none_or(str::is_empty) && value["roleRef"].is_object() {
        value["roleRef"]["apiGroup"] = json!(GROUP);
    }
    for subject in each(value, "subjects") {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            set(subject, "apiGroup", GROUP);
        }
    }
}

pub(crate) fn endpoint_slice(value: &mut Value) {
    for port in each(value, "ports") {
        set(port, "name", "");
        set(port, "protocol", "TCP");
    }
}

pub fn endpoints(value: &mut Value) {
    for subset in each(value, "subsets") {
        for port in each(subset, "ports") {
            set(port, "protocol", "TCP");
        }
    }
}

pub(crate) fn network_policy(value: &mut Value) {
    let spec = &mut value["spec"];
    let egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
    if spec["policyTypes"].as_array().is_none_or(Vec::is_empty) && spec.is_object() {
        spec["policyTypes"] = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    }
    for direction in ["ingress", "egress"] {
        for rule in each(spec, direction) {
            for port in each(rule, "ports") {
                set(port, "protocol", "TCP");
            }
        }
    }
}

pub fn priority_class(value: &mut Value) {
    set(value, "preemptionPolicy", "PreemptLowerPriority");
}

/// What a node has is what pods may use, unless its kubelet says otherwise.
pub fn node(value: &mut Value) {
    if value["status"]["allocatable"].is_null() && value["status"]["capacity"].is_object() {
        value["status"]["allocatable"] = value["status"]["capacity"].clone();
    }
}
