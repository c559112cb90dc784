//! Validating- and MutatingAdmissionPolicies and their bindings, and the expressions in them.

// upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingAdmissionPolicySpec,
// validateMutatingAdmissionPolicySpec, validateValidatingAdmissionPolicyBindingSpec, validateParamRef (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use klab_cel::{Type, is_word};
use serde_json::{Value, json};

use super::{Errors, Place, admission_rules, metadata};
use crate::policy_expression::{Names, Wanted, compile};
use crate::views::{
    MatchCondition, MutatingAdmissionPolicyBindingSpec, MutatingAdmissionPolicySpec, Mutation, ParamKind, ParamRef,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation, Views,
};

const MAX_ANNOTATIONS: usize = 20;
const MAX_CONDITIONS: usize = 64;

/// A ValidatingAdmissionPolicy.
pub(crate) fn validating(value: &Value, errors: &mut Errors) {
    let policy = Place::<ValidatingAdmissionPolicy<'_>>::root(value);
    let spec = policy.spec();
    head(&spec, errors);
    let known = variables(&spec, errors);
    let names = Names { variables: &known, ..of_policy(&spec) };
    let (validations, annotations) = (spec.validations(), spec.audit_annotations());
    if validations.is_empty() && annotations.is_empty() {
        let needed = "validations or auditAnnotations must contain at least one item";
        errors.required(&validations, needed);
        errors.required(&annotations, needed);
    }
    validations.each().for_each(|validation| rule(&validation, &names, errors));
    if annotations.len() > MAX_ANNOTATIONS {
        errors.invalid_at(&annotations, format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations"));
    }
    let mut seen = HashSet::new();
    for annotation in annotations.each() {
        let key = annotation.key();
        errors.faults(&key, &format!("{}/{}", *policy.metadata().name(), *key), names::qualified);
        expression(&annotation.value_expression(), &names, Wanted::TextOrNull, errors);
        key.unique(&mut seen, errors);
    }
}

/// A MutatingAdmissionPolicy.
pub(crate) fn mutating(value: &Value, errors: &mut Errors) {
    let spec = Place::<MutatingAdmissionPolicySpec<'_>>::of_spec(value);
    // Both kinds of policies begin alike.
    let alike = spec.cast();
    head(&alike, errors);
    let known = variables(&alike, errors);
    let names = Names { variables: &known, ..of_policy(&alike) };
    let constraints = spec.match_constraints();
    let rules = constraints.resource_rules();
    for rule in rules.each() {
        // Upstream leaves out which one it is.
        let rule = rule.called(rules.path);
        let list = rule.operations();
        for operation in list.each() {
            operation.called(list.path).supported(&["*", "CONNECT", "CREATE", "UPDATE"], errors);
        }
    }
    spec.mutations().needed_for("mutations must contain at least one item", errors);
    spec.mutations().each().for_each(|one| mutation(&one, &names, errors));
    spec.reinvocation_policy().needed(errors);
    spec.reinvocation_policy().supported(&["IfNeeded", "Never"], errors);
}

fn mutation(mutation: &Place<'_, Mutation<'_>>, names: &Names<'_>, errors: &mut Errors) {
    let kind = mutation.patch_type();
    // Both have an expression.
    let (patch, configuration) = (mutation.json_patch(), mutation.apply_configuration().cast());
    let (own, other, wanted) = match *kind {
        "JSONPatch" => (patch, configuration, Wanted::Patches),
        "ApplyConfiguration" => (configuration, patch, Wanted::Configuration),
        _ => return kind.needed_of(&["ApplyConfiguration", "JSONPatch"], errors),
    };
    if own.is_set() {
        expression(&own.expression(), names, wanted, errors);
    } else {
        errors.required(own, &format!("must be specified when patchType is {}", *kind));
    }
    if other.is_set() {
        let shown = json!(format!("{{{}}}", other.field_name()));
        errors.invalid(other, &shown, format!("must not be specified when patchType is {}", *kind));
    }
}

/// The binding of a ValidatingAdmissionPolicy.
pub(crate) fn validating_binding(value: &Value, errors: &mut Errors) {
    mutating_binding(value, errors);
    let spec = Place::<ValidatingAdmissionPolicyBindingSpec<'_>>::of_spec(value);
    let actions = spec.validation_actions();
    let mut seen = HashSet::new();
    for action in actions.each() {
        action.supported(&["Audit", "Deny", "Warn"], errors);
        action.unique(&mut seen, errors);
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        errors.invalid_at(
            &actions,
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        );
    }
    if seen.is_empty() {
        errors.required(actions, "at least one validation action is required");
    }
}

/// The binding of a MutatingAdmissionPolicy.
pub(crate) fn mutating_binding(value: &Value, errors: &mut Errors) {
    let spec = Place::<MutatingAdmissionPolicyBindingSpec<'_>>::of_spec(value);
    spec.policy_name().needed_as(names::subdomain, errors);
    if spec.param_ref().is_set() {
        reference(&spec.param_ref(), errors);
    }
    admission_rules::resources(&spec.match_resources(), errors);
}

fn head(spec: &Place<'_, ValidatingAdmissionPolicySpec<'_>>, errors: &mut Errors) {
    spec.failure_policy().supported(&["Fail", "Ignore"], errors);
    if spec.param_kind().is_set() {
        parameters(&spec.param_kind(), errors);
    }
    let constraints = spec.match_constraints();
    if !constraints.is_set() {
        return errors.required(constraints, "");
    }
    admission_rules::resources(&constraints, errors);
    constraints.resource_rules().needed(errors);
    conditions(&spec.match_conditions(), &of_policy(spec), errors);
}

/// What the expressions of a policy may name, but for its variables.
fn of_policy(spec: &Place<'_, ValidatingAdmissionPolicySpec<'_>>) -> Names<'static> {
    Names { params: spec.param_kind().is_set(), authorizer: true, ..Names::default() }
}

/// `matchConditions`.
pub(crate) fn conditions<'a>(list: &Place<'_, Views<'a, MatchCondition<'a>>>, names: &Names<'_>, errors: &mut Errors) {
    list.at_most(MAX_CONDITIONS, errors);
    let mut seen = HashSet::new();
    for condition in list.each() {
        let (name, expression) = (condition.name(), condition.expression());
        let source = expression.trim();
        if source.is_empty() {
            errors.required(expression, "");
        } else if let Err(because) = compile(source, names, Wanted::Bool) {
            errors.invalid(expression, &json!(source), because);
        }
        name.needed_as(names::qualified, errors);
        if !name.is_empty() {
            name.unique(&mut seen, errors);
        }
    }
}

/// The variables of a policy, and what they come to.
fn variables(spec: &Place<'_, ValidatingAdmissionPolicySpec<'_>>, errors: &mut Errors) -> Vec<(String, Type)> {
    let mut known: Vec<(String, Type)> = Vec::new();
    for variable in spec.variables().each() {
        let (name, source) = (variable.name(), variable.expression());
        if name.trim().is_empty() {
            errors.required(name, "name is not specified");
        } else if !is_identifier(*name) {
            errors.invalid_at(&name, "must be a valid CEL identifier");
        }
        if source.trim().is_empty() {
            errors.required(source, "expression is not specified");
            continue;
        }
        match compile(*source, &Names { variables: &known, ..of_policy(spec) }, Wanted::Anything) {
            Ok(program) => known.push(((*name).to_owned(), program.output().clone())),
            Err(because) => errors.invalid_at(&source, because),
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

fn rule(validation: &Place<'_, Validation<'_>>, names: &Names<'_>, errors: &mut Errors) {
    expression(&validation.expression(), names, Wanted::Bool, errors);
    let (computed, message) = (validation.message_expression(), validation.message());
    let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    if is_blank(*computed) {
        errors.invalid_at(&computed, "must be non-empty if specified");
    } else if !computed.is_empty() {
        expression(&computed, &Names { authorizer: false, ..*names }, Wanted::Text, errors);
    }
    if is_blank(*message) {
        errors.invalid_at(&message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid_at(&message, "must not contain line breaks");
    }
    validation.reason().supported(&["Forbidden", "Invalid", "RequestEntityTooLarge"], errors);
}

fn expression(source: &Place<'_, &str>, names: &Names<'_>, wanted: Wanted, errors: &mut Errors) {
    if source.trim().is_empty() {
        errors.required(source, &format!("{} is not specified", source.field_name()));
    } else if let Err(because) = compile(source, names, wanted) {
        errors.invalid_at(source, because);
    }
}

fn parameters(parameters: &Place<'_, ParamKind<'_>>, errors: &mut Errors) {
    let (given, kind) = (parameters.api_version(), parameters.kind());
    let (group, version) = given.split_once('/').unwrap_or(("", *given));
    if given.is_empty() {
        errors.required(given, "");
    } else if version.contains('/') {
        errors.invalid_at(&given, format!("unexpected GroupVersion string: {}", *given));
    } else {
        let faults = if group.is_empty() { Vec::new() } else { names::subdomain(group) };
        if !faults.is_empty() {
            errors.invalid(given, &json!(group), faults.join(","));
        }
        let faults = names::label_1035(version);
        if version.is_empty() {
            errors.invalid_at(&given, "version must be specified");
        } else if !faults.is_empty() {
            errors.invalid(given, &json!(version), faults.join(","));
        }
    }
    let faults = names::label_1035(&kind.to_lowercase());
    if kind.is_empty() {
        errors.required(kind, "");
    } else if !faults.is_empty() {
        let message = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        errors.invalid_at(&kind, message);
    }
}

fn reference(reference: &Place<'_, ParamRef<'_>>, errors: &mut Errors) {
    let (name, selector) = (reference.name(), reference.selector());
    name.check_if_set(names::path_segment, errors);
    if !name.is_empty() && selector.is_set() {
        errors.forbidden(name, "name and selector are mutually exclusive");
    }
    metadata::selector(&selector, errors);
    match (name.is_empty(), selector.is_set()) {
        (false, true) => errors.forbidden(selector, "name and selector are mutually exclusive"),
        (true, false) => errors.required(reference, "one of name or selector must be specified"),
        _ => {}
    }
    reference.parameter_not_found_action().supported(&["Deny", "Allow"], errors);
}
