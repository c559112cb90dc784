//! The refusal of an object by admission.

use serde_json::Value;

use crate::resource::ResourceId;
use crate::status::Status;

/// 403 for an object, by its own name.
pub(super) fn forbidden(resource: ResourceId, value: &Value, because: &str) -> Status {
    Status::forbidden(resource.row(), value["metadata"]["name"].as_str().unwrap_or_default(), because)
}

/// 500, with the cause.
pub(super) fn internal(because: &str) -> Status {
    Status::internal(because)
}
