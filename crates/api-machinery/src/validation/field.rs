//! Fields as rules read them, and the rules that many fields share.

use klab_cel::names;
use serde_json::{Value, json};

use super::errors::Errors;
use crate::schema::Path;
use crate::work;

/// The text of a field, empty if absent.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The entries of a list field, with their places. Each is a step.
pub(super) fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    value[field].as_array().into_iter().flatten().enumerate().take_while(|_| work::step())
}

/// A number must not be below 0.
pub(super) fn not_negative(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if value.as_i64().is_some_and(|number| number < 0) {
        errors.invalid(path, value, "must be greater than or equal to 0");
    }
}

/// A text must be one of the choices.
pub(super) fn supported(value: &Value, path: &Path<'_>, choices: &[&str], errors: &mut Errors) {
    if !value.is_null() && !choices.contains(&value.as_str().unwrap_or_default()) {
        errors.unsupported(path, value, choices);
    }
}

/// All containers of a pod's spec, with their places: in the order in which upstream visits them.
pub(super) fn containers(spec: &Value, path: &Path<'_>, mut visit: impl FnMut(&Value, &Path<'_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let place = path.field(list);
        for (at, container) in entries(spec, list) {
            visit(container, &place.index(at));
        }
    }
}

/// A text that begins with somebody's domain: `acme.io/foo`.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsDomainPrefixedPath (v1.36)
pub(super) fn domain_path(text: &str, path: &Path<'_>, errors: &mut Errors) {
    let (domain, rest) = text.split_once('/').unwrap_or((text, ""));
    if text.is_empty() {
        return errors.required(path, "");
    }
    if domain.is_empty() || rest.is_empty() {
        return errors.invalid(path, &json!(text), "must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    for fault in names::subdomain(domain) {
        errors.invalid(path, &json!(domain), fault);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !rest.bytes().all(plain) {
        let fault = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.invalid(path, &json!(rest), fault);
    }
}
