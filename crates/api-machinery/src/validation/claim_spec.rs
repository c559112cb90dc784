//! What PersistentVolumeClaims ask for, also those that pods make for themselves.

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimSpec (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, supported, text};
use super::{Errors, metadata};
use crate::schema::Path;
use klab_scheduler::quantity::Quantity;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The spec of a claim.
pub(super) fn check(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if entries(spec, "accessModes").next().is_none() {
        errors.required(path.field("accessModes"), "at least 1 access mode is required");
    }
    metadata::selector(&spec["selector"], &path.field("selector"), errors);
    access_modes(spec, path, errors);
    let amount = &spec["resources"]["requests"]["storage"];
    let resources = path.field("resources");
    match amount.as_str().map(Quantity::parse) {
        None | Some(Err(_)) => errors.required(resources.key("storage"), ""),
        Some(Ok(quantity)) if quantity.is_zero() || quantity.is_negative() => {
            errors.invalid(resources.key("storage"), amount, "must be greater than zero");
        }
        Some(Ok(_)) => {}
    }
    class(spec, "storageClassName", path, errors);
    supported(&spec["volumeMode"], &path.field("volumeMode"), &["Block", "Filesystem"], errors);
    sources(spec, path, errors);
    class(spec, "volumeAttributesClassName", path, errors);
}

/// How many may use a volume, and how.
pub(super) fn access_modes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.field("accessModes");
    for (_, mode) in entries(spec, "accessModes") {
        supported(mode, &path, &MODES, errors);
    }
    let known = || entries(spec, "accessModes").filter(|(_, mode)| MODES.iter().any(|known| *mode == known));
    let (single, other) = (known().any(|(_, mode)| mode == MODES[3]), known().any(|(_, mode)| mode != MODES[3]));
    if single && other {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// A name of a class.
pub(super) fn class(spec: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    let name = text(spec, field);
    if !name.is_empty() {
        for fault in names::subdomain(name) {
            errors.invalid(path.field(field), &spec[field], fault);
        }
    }
}

/// What a volume begins with.
fn sources(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["dataSource", "dataSourceRef"] {
        let source = &spec[field];
        if !source.is_object() {
            continue;
        }
        let path = path.field(field);
        for needed in ["name", "kind"] {
            if text(source, needed).is_empty() {
                errors.required(path.field(needed), "");
            }
        }
        let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
        if group.is_empty() {
            if kind != "PersistentVolumeClaim" {
                let fault = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                errors.invalid(path, &json!(kind), fault);
            }
        } else {
            for fault in names::subdomain(group) {
                errors.invalid(path.field("apiGroup"), &source["apiGroup"], fault);
            }
        }
        let namespace = text(source, "namespace");
        if field == "dataSourceRef" && !namespace.is_empty() {
            for fault in names::label(namespace) {
                errors.invalid(path.field("namespace"), &source["namespace"], fault);
            }
        }
    }
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    let same = ["apiGroup", "kind", "name"].iter().all(|field| source[*field] == reference[*field]);
    let fault = match (source.is_object(), reference.is_object()) {
        (true, true) if !text(reference, "namespace").is_empty() => {
            "may not be specified when dataSourceRef.namespace is specified"
        }
        (true, true) if !same => "must match dataSourceRef",
        _ => return,
    };
    // Upstream shows the path of the field, as a struct without fields that are shown.
    errors.invalid_as(path, "{}", fault);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_ask_for_what_there_is() {
        let faults = |change: Value| {
            let mut spec =
                json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
            for (field, value) in change.as_object().into_iter().flatten() {
                spec[field.as_str()] = value.clone();
            }
            Errors::found(|errors| check(&spec, &Path::Root.field("spec"), errors))
        };
        let modes = "\"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"";
        for (change, wanted) in [
            (json!({}), vec![]),
            (json!({ "accessModes": [] }), vec!["accessModes: Required value: at least 1 access mode is required".to_owned()]),
            (json!({ "accessModes": ["fake"] }), vec![format!("accessModes: Unsupported value: \"fake\": supported values: {modes}")]),
            (json!({ "accessModes": ["ReadWriteOncePod", "ReadWriteMany"] }),
                vec!["accessModes: Forbidden: may not use ReadWriteOncePod with other access modes".to_owned()]),
            (json!({ "resources": {} }), vec!["resources[storage]: Required value".to_owned()]),
            (json!({ "resources": { "requests": { "storage": "0" } } }), vec!["resources[storage]: Invalid value: \"0\": must be greater than zero".to_owned()]),
            (json!({ "volumeMode": "Fake" }), vec!["volumeMode: Unsupported value: \"Fake\": supported values: \"Block\", \"Filesystem\"".to_owned()]),
            (json!({ "dataSource": { "kind": "Snap", "name": "x" } }),
                vec!["dataSource: Invalid value: \"Snap\": must be 'PersistentVolumeClaim' when referencing the default apiGroup".to_owned()]),
            (json!({ "dataSource": { "kind": "PersistentVolumeClaim", "name": "" } }), vec!["dataSource.name: Required value".to_owned()]),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("spec.{fault}")).collect();
            assert_eq!(faults(change.clone()), wanted, "{change}");
        }
    }
}
