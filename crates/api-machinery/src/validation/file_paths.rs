//! Paths of files inside containers and volumes.

// upstream: pkg/apis/core/validation/validation.go ValidateLocalNonReservedPath, validatePathNoBacksteps (v1.36)

use super::{Errors, Place};

/// A path that never steps back.
pub(super) fn without_steps_back<T>(path: &Place<'_, T>, errors: &mut Errors) {
    if path.text().split('/').any(|part| part == "..") {
        errors.invalid_at(path, "must not contain '..'");
    }
}

/// A path below something.
pub(super) fn descending<T>(path: &Place<'_, T>, errors: &mut Errors) {
    if path.text().starts_with('/') {
        errors.invalid_at(path, "must be a relative path");
    }
    without_steps_back(path, errors);
}

/// A path below something that a kubelet has no use for itself.
pub(super) fn free<T>(path: &Place<'_, T>, errors: &mut Errors) {
    descending(path, errors);
    if path.text().starts_with("..") && !path.text().starts_with("../") {
        errors.invalid_at(path, "must not start with '..'");
    }
}

/// The permissions of a file.
pub(super) fn mode(mode: &Place<'_, Option<i64>>, errors: &mut Errors) {
    mode.within(0..=0o777, "must be a number between 0 and 0777 (octal), both inclusive", errors);
}
