//! MutatingAdmissionPolicies: parts of objects that are applied, and JSON patches.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go, patch/{smd,json_patch}.go
// (v1.36)

use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use serde_json::{Value as Json, json};

use super::change::take_changed;
use super::form::{back, form};
use super::parameters;
use super::webhooks::Chain;
use crate::dynamic_admission::condition::{Verdict, failed, judge};
use crate::dynamic_admission::policy::{Mutation, Policy};
use crate::dynamic_admission::request::Request;
use crate::dynamic_admission::scene::Scene;
use crate::transaction::Transaction;
use klab_fields::{Operations, merge_configuration};

/// Asks the policies that may change the object.
pub(crate) fn ask_mutating_policies(
    transaction: &mut Transaction<'_>,
    request: &Request<'_>,
    object: &mut Json,
    chain: &mut Chain,
    repeated: bool,
) -> Result<(), Status> {
    let policies = transaction.state.admission.policies.mutating(&transaction.state.store);
    let mut refused: Option<Status> = None;
    for policy in policies.iter() {
        let Some(served) = policy.matching.selects(&transaction.state.store, request, Some(object))? else { continue };
        for binding in &policy.bindings {
            let store = &transaction.state.store;
            if let Some(matching) = &binding.matching
                && !matching.selects_or_is_open(store, request, Some(object)).unwrap_or(false)
            {
                continue;
            }
            let mut refuse = |because: String| {
                if !policy.ignores_failure {
                    refused.get_or_insert_with(|| denied(request, policy, &binding.name, &because));
                }
            };
            let given = match parameters::collect(transaction.state, policy, binding, request.place()) {
                Ok(given) => given,
                Err(because) => {
                    refuse(format!("failed to configure binding: {because}"));
                    continue;
                }
            };
            for params in &given {
                let name = params.as_ref().map_or(&Json::Null, |params| &params["metadata"]["name"]);
                let id = format!("policy/{}/{}/{name}", policy.name, binding.name);
                match mutated(transaction, request, policy, (served, &id), params.as_ref(), object, (&*chain, repeated))
                {
                    Ok(None) => {}
                    Ok(Some(changed)) => {
                        if changed != *object {
                            take_changed(request, object, changed)?;
                            chain.changed();
                        }
                        if policy.is_reinvoked {
                            chain.invoked(&id);
                        }
                    }
                    Err(because) => refuse(because),
                }
            }
        }
    }
    refused.map_or(Ok(()), Err)
}

/// The object as a policy wants it; none where it is not asked.
fn mutated(
    transaction: &Transaction<'_>,
    request: &Request<'_>,
    policy: &Policy,
    (served, id): (ResourceId, &str),
    params: Option<&Json>,
    object: &Json,
    (chain, repeated): (&Chain, bool),
) -> Result<Option<Json>, String> {
    if let Some(broken) = &policy.broken {
        return Err(broken.clone());
    }
    let described = request.describe(served, None, None);
    let status = |status: Status| status.message;
    let old = form(transaction, served, request, request.old).map_err(status)?;
    let mut current = form(transaction, served, request, Some(object)).map_err(status)?.unwrap_or_default();
    let scene = |current: &Json| -> Result<bool, String> {
        let scene = Scene {
            params,
            variables: &policy.variables,
            ..Scene::new(request, &described, &transaction.state.store, (Some(current), old.as_ref()))
        };
        match judge(&policy.conditions, &scene, policy.ignores_failure) {
            Verdict::Holds => Ok(true),
            Verdict::Fails => Ok(false),
            Verdict::Error(because) => Err(because),
        }
    };
    if !scene(&current)? || (repeated && !chain.is_asked_again(id)) {
        return Ok(None);
    }
    for mutation in &policy.mutations {
        let value = {
            let scene = Scene {
                params,
                variables: &policy.variables,
                ..Scene::new(request, &described, &transaction.state.store, (Some(&current), old.as_ref()))
            };
            scene.evaluate(&mutation.program).map_err(|failure| failed(&mutation.source, &failure))?
        };
        change(served, mutation, &value.to_json(), &mut current)?;
    }
    back(transaction, served, request, current).map(Some).map_err(status)
}

fn change(served: ResourceId, mutation: &Mutation, value: &Json, object: &mut Json) -> Result<(), String> {
    if mutation.is_patch {
        let mut operations = value.clone();
        for operation in operations.as_array_mut().into_iter().flatten() {
            // Only what an operation has, as the patch's JSON would.
            if let Some(map) = operation.as_object_mut() {
                map.retain(|field, value| field == "value" || !value.is_null());
            }
        }
        let patch: json_patch::Patch =
            serde_json::from_value(operations).map_err(|error| format!("JSON Patch: {error}"))?;
        return Operations::all(object, patch).map_err(|error| format!("JSON Patch: {error}"));
    }
    for field in ["apiVersion", "kind"] {
        if !value[field].is_null() {
            return Err(format!("applyConfiguration may not set {field}"));
        }
    }
    if let Some(field) = ["name", "namespace", "uid"].iter().find(|field| !value["metadata"][**field].is_null()) {
        return Err(format!("error applying patch: invalid ApplyConfiguration: may not mutate metadata.{field}"));
    }
    merge_configuration(served, object, value);
    Ok(())
}

fn denied(request: &Request<'_>, policy: &Policy, binding: &str, because: &str) -> Status {
    let message = format!("policy '{}' with binding '{binding}' denied request: {because}", policy.name);
    let mut status = Status::forbidden(request.resource.row(), request.name, &message);
    status.details["causes"] = json!([{ "message": message }]);
    Status { code: 422, reason: "Invalid", message, ..status }
}
