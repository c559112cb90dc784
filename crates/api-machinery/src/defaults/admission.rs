//! Defaults of what configures admission: webhooks, policies and their bindings.

// upstream: pkg/apis/admissionregistration/v1/defaults.go (v1.36)

use serde_json::{Value, json};

use super::field::{each, set};

/// A Validating- or MutatingWebhookConfiguration.
pub fn webhooks(value: &mut Value) {
    let mutating = value["kind"] == "MutatingWebhookConfiguration";
    for hook in each(value, "webhooks") {
        set(hook, "failurePolicy", "Fail");
        set(hook, "timeoutSeconds", 10);
        if mutating {
            set(hook, "reinvocationPolicy", "Never");
        }
        matching(hook);
        scopes(hook, "rules");
        if let Some(service) = hook["clientConfig"].get_mut("service") {
            set(service, "port", 443);
        }
    }
}

/// A Validating- or MutatingAdmissionPolicy.
pub fn policy(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "failurePolicy", "Fail");
    if let Some(constraints) = spec.get_mut("matchConstraints").filter(|constraints| constraints.is_object()) {
        resources(constraints);
    }
}

/// The binding of a policy.
pub(crate) fn policy_binding(value: &mut Value) {
    let spec = &mut value["spec"];
    if let Some(resources) = spec.get_mut("matchResources").filter(|resources| resources.is_object()) {
        self::resources(resources);
    }
    if let Some(reference) = spec.get_mut("paramRef").filter(|reference| reference.is_object()) {
        set(reference, "parameterNotFoundAction", "Deny");
    }
}

fn resources(value: &mut Value) {
    matching(value);
    scopes(value, "resourceRules");
    scopes(value, "excludeResourceRules");
}

fn matching(value: &mut Value) {
    set(value, "matchPolicy", "Equivalent");
    set(value, "namespaceSelector", json!({}));
    set(value, "objectSelector", json!({}));
}

fn scopes(value: &mut Value, field: &str) {
    for rule in each(value, field) {
        set(rule, "scope", "*");
    }
}
