//! Managed fields, server-side apply and the three merging patches of Kubernetes: functions of JSON and of the schemas of kinds.

mod apply;
mod disputes;
mod faults;
mod fields;
mod json;
mod managed;
mod operations;
mod place;
mod scale;
mod strategic;
mod typed;

pub use apply::{check_types, no_manager, untyped, wrong_kind};
pub use disputes::{KUBECTL, LAST_APPLIED, take_from_others, taken_over};
pub use fields::Fields;
pub use managed::{Entry, Managed, Writer, difference, new_managers, strip, track};
pub use operations::{Operations, Unfit, is_deeper};
pub use place::{Place, Root};
pub use scale::ScaleManagers;
pub use typed::{Difference, fields_of, merge, prune};

use klab_api_machinery::go_text::no_map;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::schema::{Shape, schema};
use klab_api_machinery::status::Status;
use serde_json::Value;

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

/// Merges a configuration of a kind into an object, as server-side apply does, without regard to managers.
pub fn merge_configuration(resource: ResourceId, object: &mut Value, config: &Value) {
    let row = resource.row();
    typed::merge(object, config, place::Root::new(&row.api_version(), row.kind, None).place());
}

impl Patch {
    /// What a client may want to know of the patch itself, beside what it has twice.
    pub fn unknown(&self) -> Vec<String> {
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

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
