//! ValidatingAdmissionPolicies: what is refused, warned of, or let pass.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go Dispatch, validator.go
// Validate (v1.36)

use klab_api_machinery::status::Status;
use klab_cel::Value;
use serde_json::{Value as Json, json};

use super::form::form;
use super::parameters;
use crate::dynamic_admission::condition::{Verdict, failed, judge};
use crate::dynamic_admission::policy::{Binding, Policy, Rule};
use crate::dynamic_admission::request::Request;
use crate::dynamic_admission::scene::Scene;
use crate::transaction::Transaction;

/// Longest message that an expression may make.
const MAX_MESSAGE_LENGTH: usize = 5 * 1024;

/// Something that a policy does not like.
struct Objection {
    message: String,
    reason: Option<String>,
}

impl From<String> for Objection {
    fn from(message: String) -> Self {
        Self { message, reason: None }
    }
}

/// Asks the policies that judge the object.
pub(crate) fn ask_validating_policies(
    transaction: &mut Transaction<'_>,
    request: &Request<'_>,
    object: Option<&Json>,
) -> Result<(), Status> {
    let policies = transaction.state.admission.policies.validating(&transaction.state.store);
    let mut refused: Option<Status> = None;
    for policy in policies.iter() {
        let store = &transaction.state.store;
        let served = match policy.matching.selects(store, request, object) {
            Ok(Some(served)) => served,
            Ok(None) => continue,
            Err(status) => {
                if !policy.ignores_failure {
                    let because = format!("failed to configure policy: {}", status.message);
                    refused.get_or_insert_with(|| denied(request, policy, None, &because.into()));
                }
                continue;
            }
        };
        let (object, old) =
            (form(transaction, served, request, object)?, form(transaction, served, request, request.old)?);
        let described = request.describe(served, None, None);
        for binding in &policy.bindings {
            if let Some(matching) = &binding.matching
                && !matching.selects_or_is_open(store, request, object.as_ref()).unwrap_or(false)
            {
                continue;
            }
            let given = match parameters::collect(transaction.state, policy, binding, request.place()) {
                Ok(given) => given,
                Err(_) if policy.ignores_failure => continue,
                Err(because) => {
                    let because = format!("failed to configure binding: {because}");
                    refused.get_or_insert_with(|| denied(request, policy, Some(binding), &because.into()));
                    continue;
                }
            };
            for params in &given {
                let scene = Scene {
                    params: params.as_ref(),
                    variables: &policy.variables,
                    ..Scene::new(request, &described, store, (object.as_ref(), old.as_ref()))
                };
                let (objections, errors) = objections(policy, &scene);
                for objection in objections {
                    for action in &binding.actions {
                        match action.as_str() {
                            "Deny" => {
                                refused.get_or_insert_with(|| denied(request, policy, Some(binding), &objection));
                            }
                            "Warn" => transaction.warnings.push(format!(
                                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                                policy.name, binding.name, objection.message
                            )),
                            _ => {}
                        }
                    }
                }
                for because in errors {
                    refused.get_or_insert_with(|| denied(request, policy, Some(binding), &because.into()));
                }
            }
        }
    }
    refused.map_or(Ok(()), Err)
}

/// What a policy does not like, and the errors of its annotations.
fn objections(policy: &Policy, scene: &Scene<'_>) -> (Vec<Objection>, Vec<String>) {
    let error = |because: String| if policy.ignores_failure { Vec::new() } else { vec![Objection::from(because)] };
    if let Some(broken) = &policy.broken {
        return (error(broken.clone()), Vec::new());
    }
    match judge(&policy.conditions, scene, policy.ignores_failure) {
        Verdict::Holds => {}
        Verdict::Fails => return (Vec::new(), Vec::new()),
        Verdict::Error(because) => return (error(because), Vec::new()),
    }
    let mut found = Vec::new();
    for rule in &policy.validations {
        match scene.evaluate(&rule.program) {
            Ok(Value::Bool(true)) => {}
            Ok(_) => {
                let reason = rule.reason.clone().unwrap_or_else(|| "Invalid".to_owned());
                found.push(Objection { message: message(rule, scene), reason: Some(reason) });
            }
            Err(failure) => found.extend(error(failed(&rule.source, &failure))),
        }
    }
    let mut errors = Vec::new();
    for annotation in &policy.annotations {
        // There is no audit log that would hold the value.
        if let Err(failure) = scene.evaluate(&annotation.program)
            && !policy.ignores_failure
        {
            errors.push(failed(&annotation.source, &failure));
        }
    }
    (found, errors)
}

/// What is said of a rule that does not hold.
fn message(rule: &Rule, scene: &Scene<'_>) -> String {
    let made = rule.message_program.as_ref().and_then(|program| scene.evaluate(program).ok());
    if let Some(Value::String(made)) = made {
        let made = made.trim();
        if !made.is_empty() && made.len() <= MAX_MESSAGE_LENGTH && !made.contains('\n') {
            return made.to_owned();
        }
    }
    match rule.message.trim() {
        "" => format!("failed expression: {}", rule.source.trim()),
        message => message.to_owned(),
    }
}

fn denied(request: &Request<'_>, policy: &Policy, binding: Option<&Binding>, objection: &Objection) -> Status {
    let with = binding.map_or_else(String::new, |binding| format!(" with binding '{}'", binding.name));
    let message = format!("ValidatingAdmissionPolicy '{}'{with} denied request: {}", policy.name, objection.message);
    let (code, reason) = match objection.reason.as_deref() {
        Some("Forbidden") => (403, "Forbidden"),
        Some("Unauthorized") => (401, "Unauthorized"),
        Some("RequestEntityTooLarge") => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    let mut status = Status::forbidden(request.resource.row(), request.name, &message);
    status.details["causes"] = json!([{ "message": message }]);
    Status { code, reason, ..status }
}
