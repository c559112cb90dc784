//! An object that a patch changes.

use std::sync::Arc;

use klab_api_machinery::go_text::go_text;
use klab_api_machinery::object::Object;
use klab_api_machinery::registry;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::schema::Mismatch;
use klab_api_machinery::status::Status;
use klab_api_machinery::validation::Errors;
use klab_api_machinery::views::metadata;
use serde_json::{Value, json};

use super::decode::{Fault, decode};
use super::metadata;
use crate::custom_versions::live;
use crate::transaction::Transaction;
use klab_fields::Patch;

/// An object, and what a patch makes of it.
pub(crate) struct Patched {
    resource: ResourceId,
    /// The second version that the patch is written in, if it is.
    second: Option<ResourceId>,
    patch: Patch,
    pub(crate) current: Arc<Object>,
    /// The current JSON.
    pub(crate) old: Arc<Value>,
    pub(crate) new: Value,
    /// What the patch has made, before it is decoded.
    before: Value,
}

impl Patched {
    /// Finds the object, and shows it in the version that the patch is written in.
    ///
    /// # Errors
    /// 404 where there is none.
    pub(crate) fn of(
        transaction: &Transaction<'_>,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        patch: Patch,
    ) -> Result<Self, Status> {
        let current = live(transaction, resource, namespace, name)?;
        let (old, mut new) = (current.value(), current.whole());
        let second = transaction.second(resource);
        if let Some(second) = second {
            new = registry::served(second, new);
        }
        Ok(Self { resource, second, patch, current, old, new, before: Value::Null })
    }

    fn refused(&self, fault: &Fault) -> Status {
        refused(&self.patch, &self.before, fault)
    }
}

/// Carries out the patch.
pub(crate) fn carry_out(_: &mut Transaction<'_>, patched: &mut Patched) -> Result<(), Status> {
    let shown = patched.second.unwrap_or(patched.resource).row();
    patched.patch.carry_out(&shown.api_version(), shown.kind, &mut patched.new)?;
    patched.before = patched.new.clone();
    Ok(())
}

/// Refuses a strategic merge patch of a custom resource.
pub(crate) fn check_media_type(_: &mut Transaction<'_>, patched: &mut Patched) -> Result<(), Status> {
    if patched.resource.row().custom && matches!(patched.patch, Patch::Strategic(_)) {
        return Err(unsupported());
    }
    Ok(())
}

/// Refuses an object that a patch has made one of another kind. A strategic merge patch cannot: it is of the kind that
/// it is merged into.
pub(crate) fn check_patched_kind(transaction: &mut Transaction<'_>, patched: &mut Patched) -> Result<(), Status> {
    let row = transaction.served(patched.resource).row();
    let before = &patched.before;
    let (version, kind) = (before["apiVersion"].as_str(), before["kind"].as_str());
    let is_other = |given: Option<&str>, own: &str| given.is_some_and(|given| given != own);
    let own = row.api_version();
    let is_typed = matches!(patched.patch, Patch::Json(_) | Patch::Merge(_));
    if !is_typed || !(is_other(version, &own) || is_other(kind, row.kind)) {
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
        return errors.into_result(row, metadata(before).name());
    }
    let is_stored_as = |other: ResourceId| other.row().stored_as.unwrap_or(other) == patched.resource;
    if ResourceId::by_kind(version, kind).is_some_and(is_stored_as) {
        return Ok(());
    }
    Err(patched.refused(&Fault::Mismatch(Mismatch(row.not_of(version, kind)))))
}

/// Decodes it, in a second version first where the patch is written in one.
pub(crate) fn decode_patched(transaction: &mut Transaction<'_>, patched: &mut Patched) -> Result<(), Status> {
    if let Some(second) = patched.second {
        decode(transaction, second, &mut patched.new).map_err(|fault| patched.refused(&fault))?;
        patched.new = registry::stored(second, patched.new.take());
    }
    decode(transaction, patched.resource, &mut patched.new).map_err(|fault| patched.refused(&fault))
}

/// Makes it the object that the path names.
pub(crate) fn address_patched(_: &mut Transaction<'_>, patched: &mut Patched) -> Result<(), Status> {
    let current = &patched.current;
    metadata::address_object(current.resource, &current.namespace, &current.name, &mut patched.new)
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
