//! The parameters that a binding gives to its policy.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go CollectParams (v1.36)

use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::views::ParamRef;
use klab_scheduler::selector::Selector;
use serde_json::Value;

use crate::dynamic_admission::policy::{Binding, Policy};
use crate::transaction::State;

/// The kind of parameters: one of Kubernetes' own, or one that a definition defines.
fn kind_of(state: &State, api_version: &str, kind: &str) -> Option<ResourceId> {
    if let Some(id) = ResourceId::by_kind(api_version, kind) {
        return id.row().is_stored().then_some(id);
    }
    let outlines = state.definitions.outlines(&state.store);
    let mut served = outlines.iter().flat_map(|outline| &outline.listings).map(|(id, _)| *id);
    served.find(|id| id.row().kind == kind && id.row().api_version() == api_version)
}

/// The objects that a policy is asked with; `None` among them is a question without parameters.
///
/// # Errors
/// Why the binding cannot be used.
pub(super) fn collect(
    state: &State,
    policy: &Policy,
    binding: &Binding,
    namespace: &str,
) -> Result<Vec<Option<Value>>, String> {
    let Some((api_version, kind)) = &policy.param_kind else { return Ok(vec![None]) };
    let reference = ParamRef(&binding.reference);
    if !reference.is_set() {
        return Ok(vec![None]);
    }
    let Some(resource) = kind_of(state, api_version, kind) else {
        return Err(format!("paramKind kind `&ParamKind{{APIVersion:{api_version},Kind:{kind},}}` not known"));
    };
    let place = match (resource.row().namespaced, reference.namespace()) {
        (true, "") if namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned()
            );
        }
        (true, "") => namespace,
        (true, given) => given,
        (false, "") => "",
        (false, _) => return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()),
    };
    let stored = resource.row().stored_as.unwrap_or(resource);
    let found: Vec<Option<Value>> = if reference.name().is_empty() {
        let selector = Selector::from_json(reference.selector().0);
        let within = resource.row().namespaced.then_some(place);
        let matching = state.store.list(stored, within).filter(|object| selector.matches_by(|key| object.label(key)));
        matching.map(|object| Some(object.to_value())).collect()
    } else {
        let named = state.store.get(stored, place, reference.name());
        named.map(|object| Some(object.to_value())).into_iter().collect()
    };
    if found.is_empty() && reference.parameter_not_found_action() != Some("Allow") {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}
