//! Bodies of requests in the canonical form of their kind, and what they have too much.

use std::collections::HashSet;
use std::fmt;

use klab_api_machinery::custom;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::{Resource, ResourceId};
use klab_api_machinery::schema::{Mismatch, schema};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use crate::transaction::{FieldValidation, Transaction};
use klab_fields::is_deeper;

/// How deep objects may be nested. Every reader of JSON has a limit; what is stored must stay below this one's, together
/// with the ownership of its fields, which is kept a few levels deeper.
const MAX_DEPTH: usize = 100;

/// Brings a body into canonical form, and collects what it has too much.
pub(crate) fn decode(transaction: &mut Transaction<'_>, resource: ResourceId, value: &mut Value) -> Result<(), Fault> {
    let row = resource.row();
    if is_deeper(value, MAX_DEPTH) {
        return Err(Fault::Mismatch(Mismatch("json: exceeded max depth".to_owned())));
    }
    let resets_managers = value["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
    let unknown = match schema().kind(&row.api_version(), row.kind) {
        Some(id) => schema().tidy(id, value).map_err(Fault::Mismatch)?.unknown,
        None => decode_custom(transaction, resource, value)?,
    };
    if resets_managers {
        // The one list that says something when it is empty.
        value["metadata"]["managedFields"] = json!([]);
    }
    tell(transaction, &unknown, row.custom)
}

/// Tells of what a body has too much, as the client wants to know it.
fn tell(transaction: &mut Transaction<'_>, unknown: &[String], is_custom: bool) -> Result<(), Fault> {
    let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
    let twice = transaction.options.problems.iter().cloned();
    // Custom resources, YAML and patches are read as they come, and looked through afterwards.
    let problems: Vec<String> = if is_custom || transaction.options.twice_first {
        twice.chain(unknown).collect()
    } else {
        unknown.chain(twice).collect()
    };
    match transaction.options.validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            // A patch of a kind with a second version is read in both.
            let known: HashSet<&String> = transaction.warnings.iter().collect();
            let new: Vec<String> = problems.into_iter().filter(|problem| !known.contains(problem)).collect();
            transaction.warnings.extend(new);
            Ok(())
        }
        FieldValidation::Strict if problems.is_empty() => Ok(()),
        FieldValidation::Strict => Err(Fault::Strict(problems)),
    }
}

/// [`decode`] of a Scale, whatever it is of.
pub(crate) fn decode_scale(transaction: &mut Transaction<'_>, scale: &mut Value) -> Result<(), Fault> {
    let Some(id) = schema().kind("autoscaling/v1", "Scale") else { return Ok(()) };
    let unknown = schema().tidy(id, scale).map_err(Fault::Mismatch)?.unknown;
    tell(transaction, &unknown, false)
}

/// Makes a body a custom resource of its version: without what its definition does not know, and with defaults. Gives
/// the paths of what was taken out.
fn decode_custom(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    value: &mut Value,
) -> Result<Vec<String>, Fault> {
    let mut unknown = schema().tidy_custom(value).map_err(Fault::Mismatch)?.unknown;
    let definition = transaction.state.definitions.of(&transaction.state.store, resource);
    if let Some(version) = definition.as_ref().and_then(|definition| definition.version(transaction.served(resource))) {
        if version.schema().is_object() {
            unknown.extend(custom::prune(version.schema(), value));
            custom::default(version.schema(), value);
        }
        let row = resource.row();
        value["apiVersion"] = json!(row.api_version());
        value["kind"] = json!(row.kind);
    }
    Ok(unknown)
}

/// [`decode`] of a stored object, which is in canonical form, after a change: of a status that was
/// changed alone only the status need be looked at.
pub(crate) fn decode_changed(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    part: Part,
    old: &Value,
    value: &mut Value,
) -> Result<(), Fault> {
    let row = resource.row();
    let only_status = part == Part::Status
        && transaction.options.validation == FieldValidation::Ignore
        && value["status"].is_object()
        && old["metadata"] == value["metadata"];
    match schema().kind(&row.api_version(), row.kind).filter(|_| only_status) {
        Some(id) => schema().tidy_field(id, "status", &mut value["status"]).map_err(Fault::Mismatch).map(drop),
        None => decode(transaction, resource, value),
    }
}

/// Why a body is not an object of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A value has the wrong type.
    Mismatch(Mismatch),
    /// Fields that the kind does not have, or that occur twice, when the client wants none.
    Strict(Vec<String>),
}

impl Fault {
    /// The answer to a request with such a body.
    pub(crate) fn of_body(self, row: &Resource) -> Status {
        self.of(row.kind, row.version)
    }

    /// The same for a body that is no object of a resource.
    pub(crate) fn of(&self, kind: &str, version: &str) -> Status {
        Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {self}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch(mismatch) => mismatch.fmt(formatter),
            Self::Strict(problems) => write!(formatter, "strict decoding error: {}", problems.join(", ")),
        }
    }
}
