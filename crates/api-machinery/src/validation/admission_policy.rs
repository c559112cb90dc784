//! Validating- and MutatingAdmissionPolicies and their bindings, and the expressions in them.

// upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingAdmissionPolicySpec,
// validateMutatingAdmissionPolicySpec, validateValidatingAdmissionPolicyBindingSpec, validateParamRef (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use klab_cel::{Type, is_word};
use serde_json::{Value, json};

use super::field::{entries, supported, text};
use super::{Errors, Place, admission_rules, metadata};
use crate::policy_expression::{Names, Wanted, compile};
use crate::schema::Path;

const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const MAX_ANNOTATIONS: usize = 20;
const MAX_CONDITIONS: usize = 64;

/// A ValidatingAdmissionPolicy.
pub(crate) fn validating(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    head(spec, &path, errors);
    let known = variables(spec, &path, errors);
    let names =
        Names { params: spec["paramKind"].is_object(), authorizer: true, variables: &known, ..Names::default() };
    let has = |field: &str| entries(spec, field).next().is_some();
    if !has("validations") && !has("auditAnnotations") {
        for field in ["validations", "auditAnnotations"] {
            errors.required(path.field(field), "validations or auditAnnotations must contain at least one item");
        }
    }
    let list = path.field("validations");
    for (at, validation) in entries(spec, "validations") {
        rule(validation, &names, &list.index(at), errors);
    }
    let list = path.field("auditAnnotations");
    if entries(spec, "auditAnnotations").count() > MAX_ANNOTATIONS {
        let message = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        errors.invalid(list, &spec["auditAnnotations"], message);
    }
    let mut seen = HashSet::new();
    for (at, annotation) in entries(spec, "auditAnnotations") {
        let path = list.index(at);
        let key = format!("{}/{}", text(&value["metadata"], "name"), text(annotation, "key"));
        for fault in names::qualified(&key) {
            errors.invalid(path.field("key"), &json!(key), fault);
        }
        expression(annotation, "valueExpression", &names, Wanted::TextOrNull, &path, errors);
        if !seen.insert(text(annotation, "key")) {
            errors.duplicate(list.index(at).field("key"), &annotation["key"]);
        }
    }
}

/// A MutatingAdmissionPolicy.
pub(crate) fn mutating(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    head(spec, &path, errors);
    let known = variables(spec, &path, errors);
    let names =
        Names { params: spec["paramKind"].is_object(), authorizer: true, variables: &known, ..Names::default() };
    let constraints = path.field("matchConstraints");
    let rules = constraints.field("resourceRules");
    for (_, rule) in entries(&spec["matchConstraints"], "resourceRules") {
        for (_, operation) in entries(rule, "operations") {
            supported(operation, &rules.field("operations"), &["*", "CONNECT", "CREATE", "UPDATE"], errors);
        }
    }
    if entries(spec, "mutations").next().is_none() {
        errors.required(path.field("mutations"), "mutations must contain at least one item");
    }
    let list = path.field("mutations");
    for (at, mutation) in entries(spec, "mutations") {
        let path = list.index(at);
        let (own, other) = match text(mutation, "patchType") {
            "JSONPatch" => ("jsonPatch", "applyConfiguration"),
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
            "" => {
                errors.required(path.field("patchType"), "");
                continue;
            }
            _ => {
                let choices = ["ApplyConfiguration", "JSONPatch"];
                errors.unsupported(path.field("patchType"), &mutation["patchType"], &choices);
                continue;
            }
        };
        let kind = text(mutation, "patchType");
        if mutation[own].is_object() {
            let wanted = if kind == "JSONPatch" { Wanted::Patches } else { Wanted::Configuration };
            expression(&mutation[own], "expression", &names, wanted, &path.field(own), errors);
        } else {
            errors.required(path.field(own), &format!("must be specified when patchType is {kind}"));
        }
        if mutation[other].is_object() {
            let message = format!("must not be specified when patchType is {kind}");
            errors.invalid(path.field(other), &json!(format!("{{{other}}}")), message);
        }
    }
    if text(spec, "reinvocationPolicy").is_empty() {
        errors.required(path.field("reinvocationPolicy"), "");
    }
    supported(&spec["reinvocationPolicy"], &path.field("reinvocationPolicy"), &["IfNeeded", "Never"], errors);
}

/// The binding of a ValidatingAdmissionPolicy.
pub(crate) fn validating_binding(value: &Value, errors: &mut Errors) {
    mutating_binding(value, errors);
    let spec = Path::Root.field("spec");
    let list = spec.field("validationActions");
    let actions = &value["spec"]["validationActions"];
    let mut seen = HashSet::new();
    for (at, action) in entries(&value["spec"], "validationActions") {
        supported(action, &list.index(at), &ACTIONS, errors);
        if !seen.insert(action.as_str().unwrap_or_default()) {
            errors.duplicate(list.index(at), action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        errors.invalid(
            list,
            actions,
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        );
    }
    if seen.is_empty() {
        errors.required(list, "at least one validation action is required");
    }
}

/// The binding of a MutatingAdmissionPolicy.
pub(crate) fn mutating_binding(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let policy = text(spec, "policyName");
    if policy.is_empty() {
        errors.required(path.field("policyName"), "");
    } else {
        for fault in names::subdomain(policy) {
            errors.invalid(path.field("policyName"), &spec["policyName"], fault);
        }
    }
    if spec["paramRef"].is_object() {
        reference(&spec["paramRef"], &path.field("paramRef"), errors);
    }
    if spec["matchResources"].is_object() {
        admission_rules::resources(&spec["matchResources"], &path.field("matchResources"), errors);
    }
}

fn head(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    supported(&spec["failurePolicy"], &path.field("failurePolicy"), &FAILURE_POLICIES, errors);
    if spec["paramKind"].is_object() {
        parameters(&spec["paramKind"], &path.field("paramKind"), errors);
    }
    let constraints = path.field("matchConstraints");
    if !spec["matchConstraints"].is_object() {
        return errors.required(constraints, "");
    }
    admission_rules::resources(&spec["matchConstraints"], &constraints, errors);
    if entries(&spec["matchConstraints"], "resourceRules").next().is_none() {
        errors.required(constraints.field("resourceRules"), "");
    }
    conditions(spec, spec["paramKind"].is_object(), path, errors);
}

/// `matchConditions`.
pub(crate) fn conditions(value: &Value, params: bool, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("matchConditions");
    let count = entries(value, "matchConditions").count();
    if count > MAX_CONDITIONS {
        errors.too_many(list, count, MAX_CONDITIONS);
    }
    let names = Names { params, authorizer: true, ..Names::default() };
    let mut seen = HashSet::new();
    for (at, condition) in entries(value, "matchConditions") {
        let path = list.index(at);
        let source = text(condition, "expression").trim();
        if source.is_empty() {
            errors.required(path.field("expression"), "");
        } else if let Err(because) = compile(source, &names, Wanted::Bool) {
            errors.invalid(path.field("expression"), &json!(source), because);
        }
        let name = text(condition, "name");
        if name.is_empty() {
            errors.required(path.field("name"), "");
            continue;
        }
        for fault in names::qualified(name) {
            errors.invalid(path.field("name"), &condition["name"], fault);
        }
        if !seen.insert(name) {
            errors.duplicate(path.field("name"), &condition["name"]);
        }
    }
}

/// The variables of a policy, and what they come to.
fn variables(spec: &Value, path: &Path<'_>, errors: &mut Errors) -> Vec<(String, Type)> {
    let list = path.field("variables");
    let params = spec["paramKind"].is_object();
    let mut known: Vec<(String, Type)> = Vec::new();
    for (at, variable) in entries(spec, "variables") {
        let path = list.index(at);
        let (name, source) = (text(variable, "name"), text(variable, "expression"));
        if name.trim().is_empty() {
            errors.required(path.field("name"), "name is not specified");
        } else if !is_identifier(name) {
            errors.invalid(path.field("name"), &variable["name"], "must be a valid CEL identifier");
        }
        if source.trim().is_empty() {
            errors.required(path.field("expression"), "expression is not specified");
            continue;
        }
        let names = Names { params, authorizer: true, variables: &known, ..Names::default() };
        match compile(source, &names, Wanted::Anything) {
            Ok(program) => known.push((name.to_owned(), program.output().clone())),
            Err(because) => errors.invalid(path.field("expression"), &variable["expression"], because),
        }
    }
    known
}

fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !is_word(name)
}

fn rule(validation: &Value, names: &Names<'_>, path: &Path<'_>, errors: &mut Errors) {
    expression(validation, "expression", names, Wanted::Bool, path, errors);
    let said = text(validation, "messageExpression");
    if !said.is_empty() && said.trim().is_empty() {
        let place = path.field("messageExpression");
        errors.invalid(place, &validation["messageExpression"], "must be non-empty if specified");
    } else if !said.is_empty() {
        let names = Names { authorizer: false, ..*names };
        expression(validation, "messageExpression", &names, Wanted::Text, path, errors);
    }
    let message = text(validation, "message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(path.field("message"), &validation["message"], "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid(path.field("message"), &validation["message"], "must not contain line breaks");
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    supported(&validation["reason"], &path.field("reason"), &reasons, errors);
}

fn expression(value: &Value, field: &str, names: &Names<'_>, wanted: Wanted, path: &Path<'_>, errors: &mut Errors) {
    let source = text(value, field);
    let place = path.field(field);
    if source.trim().is_empty() {
        return errors.required(place, &format!("{field} is not specified"));
    }
    if let Err(because) = compile(source, names, wanted) {
        errors.invalid(place, &value[field], because);
    }
}

fn parameters(kind: &Value, path: &Path<'_>, errors: &mut Errors) {
    let given = text(kind, "apiVersion");
    let (group, version) = given.split_once('/').unwrap_or(("", given));
    if given.is_empty() {
        errors.required(path.field("apiVersion"), "");
    } else if version.contains('/') {
        let message = format!("unexpected GroupVersion string: {given}");
        errors.invalid(path.field("apiVersion"), &kind["apiVersion"], message);
    } else {
        let faults = if group.is_empty() { Vec::new() } else { names::subdomain(group) };
        if !faults.is_empty() {
            errors.invalid(path.field("apiVersion"), &json!(group), faults.join(","));
        }
        let faults = names::label_1035(version);
        if version.is_empty() {
            errors.invalid(path.field("apiVersion"), &kind["apiVersion"], "version must be specified");
        } else if !faults.is_empty() {
            errors.invalid(path.field("apiVersion"), &json!(version), faults.join(","));
        }
    }
    let name = text(kind, "kind");
    let faults = names::label_1035(&name.to_lowercase());
    if name.is_empty() {
        errors.required(path.field("kind"), "");
    } else if !faults.is_empty() {
        let message = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        errors.invalid(path.field("kind"), &kind["kind"], message);
    }
}

fn reference(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = text(reference, "name");
    let selects = reference["selector"].is_object();
    if !name.is_empty() {
        for fault in names::path_segment(name) {
            errors.invalid(path.field("name"), &reference["name"], fault);
        }
        if selects {
            errors.forbidden(path.field("name"), "name and selector are mutually exclusive");
        }
    }
    if selects {
        metadata::selector(&Place::new(path.field("selector"), &reference["selector"]), errors);
        if !name.is_empty() {
            errors.forbidden(path.field("selector"), "name and selector are mutually exclusive");
        }
    }
    if name.is_empty() && !selects {
        errors.required(path, "one of name or selector must be specified");
    }
    let action = path.field("parameterNotFoundAction");
    supported(&reference["parameterNotFoundAction"], &action, &["Deny", "Allow"], errors);
}
