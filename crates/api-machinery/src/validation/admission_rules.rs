//! Which requests webhooks and policies say they are for.

// upstream: pkg/apis/admissionregistration/validation/validation.go validateRuleWithOperations, validateResources,
// validateMatchResources (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, supported, text};
use super::{Errors, Place, metadata};
use crate::schema::Path;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const POLICIES: [&str; 2] = ["Equivalent", "Exact"];

/// `matchPolicy`.
pub(super) fn policy(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    supported(&value["matchPolicy"], &path.field("matchPolicy"), &POLICIES, errors);
}

/// `namespaceSelector` and `objectSelector`.
pub(super) fn selectors(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["namespaceSelector", "objectSelector"] {
        metadata::selector(&Place::new(path.field(field), &value[field]), errors);
    }
}

/// What policies and bindings are for.
pub(super) fn resources(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    policy(value, path, errors);
    selectors(value, path, errors);
    for field in ["resourceRules", "excludeResourceRules"] {
        let list = path.field(field);
        for (at, one) in entries(value, field) {
            let path = list.index(at);
            let list = path.field("resourceNames");
            let mut seen = HashSet::new();
            for (at, name) in entries(one, "resourceNames") {
                for fault in names::path_segment(name.as_str().unwrap_or_default()) {
                    errors.invalid(list.index(at), name, fault);
                }
                if !seen.insert(name.as_str()) {
                    errors.duplicate(list.index(at), name);
                }
            }
            rule(one, &path, errors);
        }
    }
}

/// A rule with its operations.
pub(super) fn rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    not_all_and_others(rule, "operations", "operations", path, errors);
    let list = path.field("operations");
    for (at, operation) in entries(rule, "operations") {
        supported(operation, &list.index(at), &OPERATIONS, errors);
    }
    not_all_and_others(rule, "apiGroups", "API groups", path, errors);
    not_all_and_others(rule, "apiVersions", "API versions", path, errors);
    let list = path.field("apiVersions");
    for (at, version) in entries(rule, "apiVersions") {
        if version == "" {
            errors.required(list.index(at), "");
        }
    }
    kinds(rule, &path.field("resources"), errors);
    supported(&rule["scope"], &path.field("scope"), &SCOPES, errors);
}

fn not_all_and_others(rule: &Value, field: &str, what: &str, path: &Path<'_>, errors: &mut Errors) {
    let count = entries(rule, field).count();
    if count == 0 {
        errors.required(path.field(field), "");
    }
    if count > 1 && entries(rule, field).any(|(_, one)| one == "*") {
        let message = format!("if '*' is present, must not specify other {what}");
        errors.invalid(path.field(field), &rule[field], message);
    }
}

fn kinds(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    if entries(rule, "resources").next().is_none() {
        errors.required(path, "");
    }
    let (mut all_parts, mut of_all) = (HashSet::new(), HashSet::new());
    let (mut everything, mut all, mut plain) = (false, false, false);
    for (at, one) in entries(rule, "resources") {
        let name = one.as_str().unwrap_or_default();
        if name.is_empty() {
            errors.required(path.index(at), "");
            continue;
        }
        everything |= name == "*/*";
        all |= name == "*";
        let Some((resource, part)) = name.split_once('/') else {
            plain = name != "*";
            continue;
        };
        if all_parts.contains(resource) {
            let message = format!("if '{resource}/*' is present, must not specify {name}");
            errors.invalid(path.index(at), one, message);
        }
        if of_all.contains(part) {
            errors.invalid(path.index(at), one, format!("if '*/{part}' is present, must not specify {name}"));
        }
        if part == "*" {
            all_parts.insert(resource);
        }
        if resource == "*" {
            of_all.insert(part);
        }
    }
    if everything && entries(rule, "resources").count() > 1 {
        errors.invalid(path, &rule["resources"], "if '*/*' is present, must not specify other resources");
    }
    if all && plain {
        let message = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, &rule["resources"], message);
    }
}

/// The name of a webhook: a domain with three segments.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsFullyQualifiedName (v1.36)
pub(super) fn qualified_name(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = text(value, "name");
    if name.is_empty() {
        return errors.required(path, "");
    }
    let faults = names::subdomain(name);
    if !faults.is_empty() {
        return errors.invalid(path, &json!(name), faults.join(","));
    }
    if name.split('.').count() < 3 {
        errors.invalid(path, &json!(name), "should be a domain with at least three segments separated by dots");
    }
}
