//! The `Status` object an API server answers errors with.

use serde_json::{Value, json};

use super::resource::Resource;

/// A refused request: HTTP code, Kubernetes reason, message, details.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// `NotFound`, `AlreadyExists`, `Conflict`, `Invalid`, `Forbidden`, …
    pub reason: &'static str,
    /// The server's sentence.
    pub message: String,
    /// `details` of the Status object: name, group, kind, causes.
    pub details: Value,
    /// With what the rest of a list can be had whose first pages are too old.
    pub continue_token: Option<String>,
}

impl Status {
    /// A status without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null, continue_token: None }
    }

    /// 404: `pods "x" not found`.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::named(404, "NotFound", resource, name, format!("{} \"{name}\" not found", resource.qualified()))
    }

    /// 409: `pods "x" already exists`.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::named(409, "AlreadyExists", resource, name, format!("{} \"{name}\" already exists", resource.qualified()))
    }

    /// 409: the object changed since it was read.
    pub fn conflict(resource: &Resource, name: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": the object has been modified; please apply your changes to the latest version and try again",
            resource.qualified()
        );
        Self::named(409, "Conflict", resource, name, message)
    }

    /// 409 for another reason than a stale version.
    pub fn conflict_because(resource: &Resource, name: &str, because: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {because}", resource.qualified());
        Self::named(409, "Conflict", resource, name, message)
    }

    /// 409: a precondition of a deletion does not hold. Unlike other conflicts it names the kind, not the resource.
    pub fn precondition(resource: &Resource, name: &str, because: &str) -> Self {
        let kind = resource.kind;
        let message = format!("Operation cannot be fulfilled on {kind} \"{name}\": {because}");
        let mut status = Self::named(409, "Conflict", resource, name, message);
        status.details["kind"] = json!(kind);
        status
    }

    /// 403: `pods "x" is forbidden: because`.
    pub fn forbidden(resource: &Resource, name: &str, because: &str) -> Self {
        Self::named(
            403,
            "Forbidden",
            resource,
            name,
            format!("{} \"{name}\" is forbidden: {because}", resource.qualified()),
        )
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 500, with the cause.
    pub fn internal(because: &str) -> Self {
        Self {
            details: json!({ "causes": [{ "message": because }] }),
            ..Self::new(500, "InternalError", format!("Internal error occurred: {because}"))
        }
    }

    fn named(code: u16, reason: &'static str, resource: &Resource, name: &str, message: String) -> Self {
        let mut details = json!({ "name": name, "kind": resource.plural });
        if !resource.group.is_empty() {
            details["group"] = json!(resource.group);
        }
        Self { code, reason, message, details, continue_token: None }
    }

    /// The Status object as JSON.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = json!(token);
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
