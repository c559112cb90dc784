//! The values Kubernetes v1.36 fills in where an object does not say.
//!
//! Objects are tidied before ([`crate::schema::Schema::tidy`]), so fields have their types.

mod field;
mod job;
mod pod;
mod service;
mod storage;
mod workload;

use base64::Engine as _;
use serde_json::{Value, json};

use self::field::{each, set};
use super::resource::{self as kinds, ResourceId};

pub(crate) use job::generate_selector;
pub(crate) use service::Addresses;

/// Fills in the defaults of an object.
pub(crate) fn apply(resource: ResourceId, value: &mut Value) {
    match resource {
        kinds::PODS => pod::pod(value),
        kinds::POD_TEMPLATES => pod::template(&mut value["template"]),
        kinds::DEPLOYMENTS => workload::deployment(value),
        kinds::REPLICA_SETS => workload::replica_set(value),
        kinds::REPLICATION_CONTROLLERS => workload::replication_controller(value),
        kinds::DAEMON_SETS => workload::daemon_set(value),
        kinds::STATEFUL_SETS => workload::stateful_set(value),
        kinds::JOBS => job::job(value),
        kinds::CRON_JOBS => job::cron_job(value),
        kinds::SERVICES => service::service(value),
        kinds::ENDPOINT_SLICES => endpoint_slice(value),
        kinds::ENDPOINTS => endpoints(value),
        kinds::SECRETS => secret(value),
        kinds::CUSTOM_RESOURCE_DEFINITIONS => definition(value),
        kinds::PRIORITY_CLASSES => set(value, "preemptionPolicy", "PreemptLowerPriority"),
        kinds::STORAGE_CLASSES => storage::class(value),
        kinds::PERSISTENT_VOLUMES => storage::volume(&mut value["spec"]),
        kinds::PERSISTENT_VOLUME_CLAIMS => storage::claim(&mut value["spec"]),
        kinds::HORIZONTAL_POD_AUTOSCALERS => autoscaler(&mut value["spec"]),
        kinds::LIMIT_RANGES => limit_range(value),
        kinds::ROLE_BINDINGS | kinds::CLUSTER_ROLE_BINDINGS => binding(value),
        kinds::NODES if value["status"]["allocatable"].is_null() && value["status"]["capacity"].is_object() => {
            value["status"]["allocatable"] = value["status"]["capacity"].clone();
        }
        kinds::NETWORK_POLICIES => network_policy(&mut value["spec"]),
        _ => {}
    }
}

/// `stringData` is a way to write `data`; it is never read back.
fn secret(value: &mut Value) {
    set(value, "type", "Opaque");
    let Some(plain) = value.as_object_mut().and_then(|secret| secret.remove("stringData")) else { return };
    for (key, text) in plain.as_object().into_iter().flatten() {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text.as_str().unwrap_or_default());
        value["data"][key] = json!(encoded);
    }
}

fn definition(value: &mut Value) {
    let spec = &mut value["spec"];
    if !spec.is_object() {
        return;
    }
    set(spec, "conversion", json!({ "strategy": "None" }));
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

fn autoscaler(spec: &mut Value) {
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

fn limit_range(value: &mut Value) {
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

fn binding(value: &mut Value) {
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

fn endpoint_slice(value: &mut Value) {
    for port in each(value, "ports") {
        set(port, "name", "");
        set(port, "protocol", "TCP");
    }
}

fn endpoints(value: &mut Value) {
    for subset in each(value, "subsets") {
        for port in each(subset, "ports") {
            set(port, "protocol", "TCP");
        }
    }
}

fn network_policy(spec: &mut Value) {
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
