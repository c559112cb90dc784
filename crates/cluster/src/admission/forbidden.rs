//! The refusal of an object by admission.

use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use serde_json::Value;

/// 403 for an object, by its own name.
pub(super) fn forbidden(resource: ResourceId, value: &Value, because: &str) -> Status {
    Status::forbidden(resource.row(), value["metadata"]["name"].as_str().unwrap_or_default(), because)
}

/// 500, with the cause.
pub(super) fn internal(because: &str) -> Status {
    Status::internal(because)
}
