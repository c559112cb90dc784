//! An object in the form of the kind that a rule names, where that is another version of what the request is for.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/generic/conversion.go (v1.36)

use klab_api_machinery::registry;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use crate::custom_versions::convert;
use crate::dynamic_admission::request::Request;
use crate::transaction::Transaction;

/// An object as a rule wants to see it.
///
/// # Errors
/// What a conversion webhook answers, or that it has to be asked first.
pub(super) fn form(
    transaction: &Transaction<'_>,
    served: ResourceId,
    request: &Request<'_>,
    object: Option<&Value>,
) -> Result<Option<Value>, Status> {
    let Some(value) = object.cloned() else { return Ok(None) };
    if request.kind.is_some() || served == request.resource {
        return Ok(Some(value));
    }
    if served.row().custom {
        return in_form(transaction, served, value).map(Some);
    }
    let mut value = value;
    if let Some(conversion) = registry::of(served).conversion {
        (conversion.serve)(&mut value);
    }
    set_type(served, &mut value);
    Ok(Some(value))
}

/// A custom resource in another version. What controllers write is seen in the version that it is in, where a webhook
/// would have to answer: controllers do not wait for one.
fn in_form(transaction: &Transaction<'_>, to: ResourceId, value: Value) -> Result<Value, Status> {
    let definition = transaction.state.definitions.of(&transaction.state.store, to);
    let is_asked = definition.is_some_and(|definition| definition.conversion.is_some());
    if is_asked && transaction.options.served.is_none() { Ok(value) } else { convert(transaction, to, value) }
}

/// The way back from [`form`].
///
/// # Errors
/// As there.
pub(super) fn back(
    transaction: &Transaction<'_>,
    served: ResourceId,
    request: &Request<'_>,
    mut value: Value,
) -> Result<Value, Status> {
    if request.kind.is_some() || served == request.resource {
        return Ok(value);
    }
    if served.row().custom {
        return in_form(transaction, request.resource, value);
    }
    if let Some(conversion) = registry::of(served).conversion {
        (conversion.store)(&mut value);
    }
    set_type(request.resource, &mut value);
    Ok(value)
}

fn set_type(resource: ResourceId, value: &mut Value) {
    value["kind"] = json!(resource.row().kind);
    value["apiVersion"] = json!(resource.row().api_version());
}
