//! The four kinds of patches an API server takes.

mod apply;
mod elsewhere;
mod faults;
mod fields;
mod json;
mod managed;
mod operations;
mod place;
mod scale;
mod strategic;
#[cfg(test)]
mod tests;
mod typed;

pub(crate) use elsewhere::track_in_version;
pub(crate) use managed::{Managed, Writer, new_managers, track};
pub(crate) use operations::{Operations, is_deeper};
pub(crate) use scale::ScaleManagers;

use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster::{Cluster, Fault, Part, Transaction, WriteOptions, Written};
use super::object::Object;
use super::registry;
use super::resource::ResourceId;
use super::schema::{Mismatch, Shape, schema};
use super::status::Status;
use super::validation::Errors;
use crate::go_text::{go_text, no_map};

/// A patch, as decoded from a request's body.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// `application/json-patch+json` (RFC 6902): a list of operations.
    Json(Value),
    /// `application/merge-patch+json` (RFC 7386).
    Merge(Value),
    /// `application/strategic-merge-patch+json`: a merge that knows the keys of lists.
    Strategic(Value),
    /// `application/apply-patch+yaml`: server-side apply.
    Apply {
        /// The fields the manager wants, and no others.
        value: Value,
        /// Take fields from other managers instead of failing.
        force: bool,
    },
}

/// Merges a configuration of a kind into an object, as server-side apply does, whoever owns its fields.
pub(crate) fn merge_configuration(resource: ResourceId, object: &mut Value, config: &Value) {
    let row = resource.row();
    typed::merge(object, config, place::Root::new(&row.api_version(), row.kind, None).place());
}

impl Cluster {
    /// Patches an object; server-side apply creates it if there is none. Also says whether it was created.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn patch(
        &self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        patch: Patch,
        options: &WriteOptions<'_>,
    ) -> Result<(Arc<Object>, bool), Status> {
        let written = self.patch_reporting(resource, part, namespace, name, patch, options)?;
        Ok((written.object, written.created))
    }

    /// [`Cluster::patch`], with the warnings a client is to see.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn patch_reporting(
        &self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        patch: Patch,
        options: &WriteOptions<'_>,
    ) -> Result<Written, Status> {
        self.write(options, patch, |transaction, patch| {
            let (object, created) = match patch {
                Patch::Apply { value, force } => transaction.apply(resource, part, namespace, name, value, force)?,
                other => (transaction.patch(resource, part, namespace, name, other)?, false),
            };
            Ok(transaction.written(object, created))
        })
    }

    /// Patches the Scale of a workload, and returns the new one.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn scale_patch(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        patch: Patch,
        options: &WriteOptions<'_>,
    ) -> Result<Value, Status> {
        self.scale_patch_reporting(resource, namespace, name, &patch, options).map(|(scale, _)| scale)
    }

    /// [`Cluster::scale_patch`], with the warnings a client is to see.
    pub(crate) fn scale_patch_reporting(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        patch: &Patch,
        options: &WriteOptions<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        self.scale_as(resource, namespace, name, options, &|transaction, mut scale, managers| {
            if let Patch::Apply { value, force } = patch {
                return managers.apply(scale, value, *force);
            }
            patch.carry_out("autoscaling/v1", "Scale", &mut scale)?;
            let before = scale.clone();
            transaction.decode_scale(&mut scale).map_err(|fault| refused(patch, &before, &fault))?;
            Ok(scale)
        })
    }
}

impl Transaction<'_> {
    fn patch(
        &mut self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        patch: Patch,
    ) -> Result<Arc<Object>, Status> {
        let row = resource.row();
        let current = self.live(resource, namespace, name)?;
        let old = current.value();
        let mut new = current.whole();
        // A patch is written in the version that it is sent to.
        let second = self.second(resource);
        if let Some(second) = second {
            new = registry::served(second, new);
        }
        let shown = second.unwrap_or(resource).row();
        patch.carry_out(&shown.api_version(), shown.kind, &mut new)?;
        if row.custom && matches!(patch, Patch::Strategic(_)) {
            return Err(unsupported());
        }
        let before = new.clone();
        self.check_patched_kind(resource, &patch, &before)?;
        if let Some(second) = second {
            self.decode(second, &mut new).map_err(|fault| refused(&patch, &before, &fault))?;
            new = registry::stored(second, new);
        }
        self.decode(resource, &mut new).map_err(|fault| refused(&patch, &before, &fault))?;
        self.store_patched(&current, part, namespace, &old, new)
    }
}

impl Transaction<'_> {
    /// Refuses an object that a patch has made one of another kind. A strategic merge patch cannot: it is of the kind that
    /// it is merged into.
    fn check_patched_kind(&self, resource: ResourceId, patch: &Patch, patched: &Value) -> Result<(), Status> {
        let row = self.served(resource).row();
        let (version, kind) = (patched["apiVersion"].as_str(), patched["kind"].as_str());
        let is_other = |given: Option<&str>, own: &str| given.is_some_and(|given| given != own);
        let own = row.api_version();
        if !matches!(patch, Patch::Json(_) | Patch::Merge(_)) || !(is_other(version, &own) || is_other(kind, row.kind))
        {
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
}

impl Patch {
    /// What a client may want to know of the patch itself, beside what it has twice.
    pub(crate) fn unknown(&self) -> Vec<String> {
        if let Self::Json(operations) = self { json::unknown(operations) } else { Vec::new() }
    }

    /// Changes `value`, an object of that kind.
    ///
    /// # Errors
    /// 400 for a patch that is none, 422 for one that does not fit the object.
    pub fn carry_out(&self, api_version: &str, kind: &str, value: &mut Value) -> Result<(), Status> {
        match self {
            Self::Json(operations) => json::carry_out(value, operations),
            Self::Merge(patch) | Self::Apply { value: patch, .. } => {
                if patch.is_null() {
                    return Err(Status::bad_request("Invalid JSON Patch"));
                }
                if !patch.is_object() {
                    return Err(Status::bad_request(format!("error decoding patch: {}", no_map(patch))));
                }
                json_patch::merge(value, patch);
                Ok(())
            }
            Self::Strategic(patch) => {
                let patch = match patch {
                    Value::Object(patch) => patch.clone(),
                    Value::Null => serde_json::Map::new(),
                    other => return Err(Status::bad_request(no_map(other))),
                };
                let shape = schema().kind(api_version, kind).map(Shape::Struct);
                strategic::merge(value, patch, shape.as_ref()).map_err(Status::bad_request)
            }
        }
    }
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
fn refused(patch: &Patch, patched: &Value, fault: &Fault) -> Status {
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
