//! Paths of files inside containers and volumes.

// upstream: pkg/apis/core/validation/validation.go ValidateLocalNonReservedPath, validatePathNoBacksteps (v1.36)

use serde_json::{Value, json};

use super::Errors;
use crate::schema::Path;

/// A path that never steps back.
pub(super) fn without_steps_back(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if value.as_str().unwrap_or_default().split('/').any(|part| part == "..") {
        errors.invalid(path, value, "must not contain '..'");
    }
}

/// A path below something.
pub(super) fn descending(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if value.as_str().unwrap_or_default().starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    without_steps_back(value, path, errors);
}

/// A path below something that a kubelet has no use for itself.
pub(super) fn free(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    descending(value, path, errors);
    let text = value.as_str().unwrap_or_default();
    if text.starts_with("..") && !text.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
}

/// The permissions of a file.
pub(super) fn mode(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.invalid(path, &json!(value), "must be a number between 0 and 0777 (octal), both inclusive");
    }
}
