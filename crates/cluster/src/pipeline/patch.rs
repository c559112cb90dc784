//! An object that a patch changes.

use std::sync::Arc;

use klab_api_machinery::go_text::go_text;
use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::registry;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::schema::Mismatch;
use klab_api_machinery::status::Status;
use klab_api_machinery::validation::Errors;
use serde_json::{Value, json};

use super::decode::{Fault, decode};
use super::write::store_patched;
use crate::custom_versions::live;
use crate::patch::Patch;
use crate::transaction::Transaction;

pub(crate) fn patch(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    part: Part,
    namespace: &str,
    name: &str,
    patch: Patch,
) -> Result<Arc<Object>, Status> {
    let row = resource.row();
    let current = live(transaction, resource, namespace, name)?;
    let old = current.value();
    let mut new = current.whole();
    // A patch is written in the version that it is sent to.
    let second = transaction.second(resource);
    if let Some(second) = second {
        new = registry::served(second, new);
    }
    let shown = second.unwrap_or(resource).row();
    patch.carry_out(&shown.api_version(), shown.kind, &mut new)?;
    if row.custom && matches!(patch, Patch::Strategic(_)) {
        return Err(unsupported());
    }
    let before = new.clone();
    check_patched_kind(transaction, resource, &patch, &before)?;
    if let Some(second) = second {
        decode(transaction, second, &mut new).map_err(|fault| refused(&patch, &before, &fault))?;
        new = registry::stored(second, new);
    }
    decode(transaction, resource, &mut new).map_err(|fault| refused(&patch, &before, &fault))?;
    store_patched(transaction, &current, part, namespace, &old, new)
}

/// Refuses an object that a patch has made one of another kind. A strategic merge patch cannot: it is of the kind that
/// it is merged into.
fn check_patched_kind(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    patch: &Patch,
    patched: &Value,
) -> Result<(), Status> {
    let row = transaction.served(resource).row();
    let (version, kind) = (patched["apiVersion"].as_str(), patched["kind"].as_str());
    let is_other = |given: Option<&str>, own: &str| given.is_some_and(|given| given != own);
    let own = row.api_version();
    if !matches!(patch, Patch::Json(_) | Patch::Merge(_)) || !(is_other(version, &own) || is_other(kind, row.kind)) {
        return Ok(());
    }
    let (version, kind) = (version.unwrap_or(&own), kind.unwrap_or(row.kind));
    if row.custom {
        // upstream: apiextensions-apiserver pkg/registry/customresource/validator.go validateTypeMeta (v1.36)
        let mut errors = Errors::default();
        for (field, given, own) in [("kind", kind, row.kind), ("apiVersion", version, &own)] {
            if given != own {
                errors.invalid(field, &json!(given), format!("must be {own}"));
            }
        }
        return errors.into_result(row, patched["metadata"]["name"].as_str().unwrap_or_default());
    }
    if ResourceId::by_kind(version, kind).is_some_and(|other| other.row().stored_as.unwrap_or(other) == resource) {
        return Ok(());
    }
    Err(refused(patch, patched, &Fault::Mismatch(Mismatch(row.not_of(version, kind)))))
}

/// 415: kinds defined at run time have no merge keys.
fn unsupported() -> Status {
    Status::new(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml, application/apply-patch+cbor",
    )
}

/// 422: the object after the patch is not one of its kind.
pub(crate) fn refused(patch: &Patch, patched: &Value, fault: &Fault) -> Status {
    let (shown, because) = match (patch, fault) {
        (Patch::Strategic(patch), Fault::Mismatch(mismatch)) => {
            let kind = mismatch.0.rsplit(" of type ").next().unwrap_or_default();
            let text = if mismatch.0.contains(" of type ") {
                format!("unrecognized type: {kind}")
            } else {
                mismatch.0.clone()
            };
            (go_text(&consumed(patch)), text)
        }
        (Patch::Strategic(patch), fault) => (go_text(&consumed(patch)), fault.to_string()),
        (_, fault) => (patched.to_string(), fault.to_string()),
    };
    let message = format!("Invalid value: {}: {because}", json!(shown));
    let mut status = Status::new(422, "Invalid", format!(" \"\" is invalid: patch: {message}"));
    status.details = json!({ "causes": [{ "reason": "FieldValueInvalid", "message": message, "field": "patch" }] });
    status
}

/// A strategic merge patch as it is after Kubernetes has merged it: directives, and lists whose order they set, are
/// taken out on the way.
fn consumed(patch: &Value) -> Value {
    let Value::Object(map) = patch else { return patch.clone() };
    let ordered = |name: &str| map.contains_key(&format!("$setElementOrder/{name}"));
    map.iter()
        .filter(|(name, _)| !name.starts_with('$') && !ordered(name))
        .map(|(name, value)| (name.clone(), consumed(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
