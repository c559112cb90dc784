//! What PersistentVolumeClaims ask for, also those that pods make for themselves.

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimSpec (v1.36)

use klab_cel::names;
use klab_scheduler::quantity::Quantity;
use serde_json::json;

use super::{Errors, Place, metadata};
use crate::views::{PersistentVolumeClaimSpec, Views};

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The spec of a claim.
pub(super) fn check(spec: &Place<'_, PersistentVolumeClaimSpec<'_>>, errors: &mut Errors) {
    spec.access_modes().needed_for("at least 1 access mode is required", errors);
    metadata::selector(&spec.selector(), errors);
    access_modes(&spec.access_modes(), errors);
    let resources = spec.resources();
    // Upstream leaves `requests` out of its place.
    let requests = resources.requests().called(resources.path);
    let amount = requests.entry("storage");
    match Quantity::parse(amount.text()) {
        Err(_) => errors.required(amount, ""),
        Ok(quantity) if quantity.is_zero() || quantity.is_negative() => {
            errors.invalid_at(&amount, "must be greater than zero");
        }
        Ok(_) => {}
    }
    spec.storage_class_name().check_if_set(names::subdomain, errors);
    spec.volume_mode().supported(&["Block", "Filesystem"], errors);
    sources(spec, errors);
    spec.volume_attributes_class_name().check_if_set(names::subdomain, errors);
}

/// How many may use a volume, and how.
pub(super) fn access_modes<'a>(modes: &Place<'_, Views<'a, &'a str>>, errors: &mut Errors) {
    modes.each().for_each(|mode| mode.called(modes.path).supported(&MODES, errors));
    let known = || modes.each().filter(|mode| MODES.contains(mode));
    if known().any(|mode| *mode == MODES[3]) && known().any(|mode| *mode != MODES[3]) {
        errors.forbidden(modes, "may not use ReadWriteOncePod with other access modes");
    }
}

/// What a volume begins with.
fn sources(spec: &Place<'_, PersistentVolumeClaimSpec<'_>>, errors: &mut Errors) {
    let (source, reference) = (spec.data_source(), spec.data_source_ref());
    // Both have these fields, and only the reference has a namespace.
    for source in [&source.cast(), &reference].into_iter().filter(|source| source.is_set()) {
        source.name().needed(errors);
        source.kind().needed(errors);
        if !source.api_group().text().is_empty() {
            source.api_group().check(names::subdomain, errors);
        } else if *source.kind() != "PersistentVolumeClaim" {
            let fault = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.invalid(source, &json!(*source.kind()), fault);
        }
        source.namespace().check_if_set(names::label, errors);
    }
    let same = *source.api_group() == *reference.api_group()
        && *source.kind() == *reference.kind()
        && *source.name() == *reference.name();
    let fault = match (source.is_set(), reference.is_set()) {
        (true, true) if !reference.namespace().text().is_empty() => {
            "may not be specified when dataSourceRef.namespace is specified"
        }
        (true, true) if !same => "must match dataSourceRef",
        _ => return,
    };
    // Upstream shows the path of the field, as a struct without fields that are shown.
    errors.invalid_as(spec, "{}", fault);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::schema::Path;

    #[test]
    fn claims_ask_for_what_there_is() {
        let faults = |change: Value| {
            let mut spec =
                json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
            for (field, value) in change.as_object().into_iter().flatten() {
                spec[field.as_str()] = value.clone();
            }
            Errors::found(|errors| check(&Place::new(Path::Root.field("spec"), &spec), errors))
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
