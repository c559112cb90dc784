//! Configurations of admission webhooks, and the conversion of a definition's versions.

// upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingWebhook, validateMutatingWebhook;
// staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go (v1.36)

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klab_cel::names;
use serde_json::{Value, json};

use super::admission_rules::{policy, qualified_name, rule, selectors};
use super::field::{entries, supported, text};
use super::{Errors, admission_policy};
use crate::schema::Path;

/// Versions of reviews that API servers know.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const FORM: &str = "; desired format: https://host[/path]";

/// `spec.conversion` of a CustomResourceDefinition. Errors name it as the old form of definitions did.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go
// validateCustomResourceConversion (v1.36)
pub fn conversion(conversion: &Value, is_established: bool, errors: &mut Errors) {
    let spec = Path::Root.field("spec");
    let path = spec.field("conversion");
    let strategy = &conversion["strategy"];
    if text(conversion, "strategy").is_empty() {
        errors.required(path.field("strategy"), "");
    }
    supported(strategy, &path.field("strategy"), &["None", "Webhook"], errors);
    let (webhook, versions) = (&conversion["webhook"], path.field("conversionReviewVersions"));
    let (config, client) = (path.field("webhookClientConfig"), &webhook["clientConfig"]);
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_object() {
            errors.forbidden(config, detail);
        }
        if entries(webhook, "conversionReviewVersions").next().is_some() {
            errors.forbidden(versions, detail);
        }
        return;
    }
    if client.is_object() {
        place(client, &config, errors);
        let bundle = client["caBundle"].as_str().unwrap_or_default();
        if is_established && !bundle.is_empty() && !holds_certificates(bundle) {
            let detail = "unable to load root certificates: unable to parse bytes as PEM block";
            errors.invalid(config.field("caBundle"), &client["caBundle"], detail);
        }
    } else {
        errors.required(config, "required when strategy is set to Webhook");
    }
    reviews(webhook, "conversionReviewVersions", "", &versions, errors);
}

fn holds_certificates(bundle: &str) -> bool {
    let text = STANDARD.decode(bundle).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.trim().is_empty() || text.contains("-----BEGIN CERTIFICATE-----")
}

/// A Validating- or MutatingWebhookConfiguration.
pub fn configuration(value: &Value, errors: &mut Errors) {
    let list = Path::Root.field("webhooks");
    let mut seen = HashSet::new();
    for (at, hook) in entries(value, "webhooks") {
        let path = list.index(at);
        webhook(hook, &path, errors);
        let detail = "must specify one of v1, v1beta1";
        reviews(hook, "admissionReviewVersions", detail, &path.field("admissionReviewVersions"), errors);
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
    place(&hook["clientConfig"], &path.field("clientConfig"), errors);
    admission_policy::conditions(hook, false, path, errors);
}

/// Where a webhook is.
fn place(client: &Value, path: &Path<'_>, errors: &mut Errors) {
    match (client["url"].as_str(), &client["service"]) {
        (Some(url), Value::Null) => self::url(url, &path.field("url"), errors),
        (None, named) if named.is_object() => service(named, &path.field("service"), errors),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

fn reviews(hook: &Value, field: &str, missing: &str, path: &Path<'_>, errors: &mut Errors) {
    let versions = &hook[field];
    if entries(hook, field).next().is_none() {
        return errors.required(path, missing);
    }
    let mut seen = HashSet::new();
    for (at, version) in entries(hook, field) {
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
            errors.required(path.field(field), "");
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
