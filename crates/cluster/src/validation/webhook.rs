//! Configurations of admission webhooks.

// upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingWebhook, validateMutatingWebhook;
// staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go (v1.36)

use std::collections::HashSet;

use serde_json::{Value, json};

use super::admission_rules::{policy, qualified_name, rule, selectors};
use super::field::{entries, supported, text};
use super::{Errors, admission_policy, names};
use crate::schema::Path;

/// Versions of reviews that API servers know.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const FORM: &str = "; desired format: https://host[/path]";

/// A Validating- or MutatingWebhookConfiguration.
pub(crate) fn configuration(value: &Value, errors: &mut Errors) {
    let list = Path::Root.field("webhooks");
    let mut seen = HashSet::new();
    for (at, hook) in entries(value, "webhooks") {
        let path = list.index(at);
        webhook(hook, &path, errors);
        reviews(hook, &path.field("admissionReviewVersions"), errors);
        if !text(hook, "name").is_empty() && !seen.insert(text(hook, "name")) {
            errors.duplicate(path.field("name"), &hook["name"]);
        }
    }
}

fn webhook(hook: &Value, path: &Path<'_>, errors: &mut Errors) {
    qualified_name(hook, &path.field("name"), errors);
    let list = path.field("rules");
    for (at, one) in entries(hook, "rules") {
        rule(one, &list.index(at), errors);
    }
    supported(&hook["failurePolicy"], &path.field("failurePolicy"), &["Fail", "Ignore"], errors);
    policy(hook, path, errors);
    if hook["sideEffects"].is_null() {
        errors.required(path.field("sideEffects"), "must specify one of None, NoneOnDryRun");
    }
    supported(&hook["sideEffects"], &path.field("sideEffects"), &["None", "NoneOnDryRun"], errors);
    if hook["timeoutSeconds"].as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let message = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(path.field("timeoutSeconds"), &hook["timeoutSeconds"], message);
    }
    selectors(hook, path, errors);
    supported(&hook["reinvocationPolicy"], &path.field("reinvocationPolicy"), &["IfNeeded", "Never"], errors);
    let client = path.field("clientConfig");
    match (hook["clientConfig"]["url"].as_str(), &hook["clientConfig"]["service"]) {
        (Some(url), Value::Null) => self::url(url, &client.field("url"), errors),
        (None, named) if named.is_object() => service(named, &client.field("service"), errors),
        _ => errors.required(client, "exactly one of url or service is required"),
    }
    admission_policy::conditions(hook, false, path, errors);
}

fn reviews(hook: &Value, path: &Path<'_>, errors: &mut Errors) {
    let versions = &hook["admissionReviewVersions"];
    if entries(hook, "admissionReviewVersions").next().is_none() {
        return errors.required(path, "must specify one of v1, v1beta1");
    }
    let mut seen = HashSet::new();
    for (at, version) in entries(hook, "admissionReviewVersions") {
        let name = version.as_str().unwrap_or_default();
        if !seen.insert(name) {
            errors.invalid(path.index(at), version, "duplicate version");
            continue;
        }
        for fault in names::label_1035(name) {
            errors.invalid(path.index(at), version, fault);
        }
    }
    if !REVIEWS.iter().any(|version| seen.contains(version)) {
        errors.invalid(path, versions, "must include at least one of v1, v1beta1");
    }
}

fn url(url: &str, path: &Path<'_>, errors: &mut Errors) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        errors.invalid(path, &json!(scheme), format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() || scheme.is_empty() {
        errors.invalid(path, &json!(""), format!("host must be specified{FORM}"));
    }
    for (part, what) in [(user, "user information is"), (fragment, "fragments are"), (query, "query parameters are")] {
        if !part.is_empty() {
            errors.invalid(path, &json!(part), format!("{what} not permitted in the URL"));
        }
    }
}

fn service(service: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["name", "namespace"] {
        if text(service, field).is_empty() {
            let detail = if field == "name" { "service name is required" } else { "service namespace is required" };
            errors.required(path.field(field), detail);
        }
    }
    if service["port"].as_i64().is_some_and(|port| !(1..=65535).contains(&port)) {
        let message = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(path.field("port"), &service["port"], message);
    }
    let url_path = text(service, "path");
    let place = path.field("path");
    match url_path {
        "" | "/" => return,
        "//" => return errors.invalid(place, &json!(url_path), "segment[0] may not be empty"),
        _ => {}
    }
    if !url_path.starts_with('/') {
        errors.invalid(place, &json!(url_path), "must start with a '/'");
    }
    let inner = url_path.strip_prefix('/').unwrap_or(url_path);
    for (at, segment) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if segment.is_empty() {
            errors.invalid(place, &json!(url_path), format!("segment[{at}] may not be empty"));
            continue;
        }
        for fault in names::subdomain(segment) {
            errors.invalid(place, &json!(url_path), format!("segment[{at}]: {fault}"));
        }
    }
}
