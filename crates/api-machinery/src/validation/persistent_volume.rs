//! PersistentVolumes.

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeSpec, ValidatePersistentVolumeUpdate (v1.36)

use klab_cel::names;
use klab_scheduler::features::Gate;
use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use super::claim_spec::access_modes;
use super::devices::volume_affinity;
use super::volume_sources::{SOURCES, driver, iscsi_name};
use super::{Errors, Place, file_paths, placement};
use crate::schema::Path;
use crate::views::{CSIPersistentVolumeSource, Entries, PersistentVolume};

/// Sources that only PersistentVolumes have, beside those that pods have, too.
const OWN: [&str; 2] = ["local", "csi"];

pub(crate) fn check(value: &Value, errors: &mut Errors) {
    let volume = Place::<PersistentVolume<'_>>::root(value);
    let spec = volume.spec();
    spec.access_modes().needed(errors);
    access_modes(&spec.access_modes(), errors);
    capacity(&spec.capacity(), errors);
    let reclaim = spec.persistent_volume_reclaim_policy();
    reclaim.supported(&["Delete", "Recycle", "Retain"], errors);
    let affinity = spec.node_affinity();
    if affinity.required().is_set() {
        placement::node_selector(&affinity.required(), errors);
    } else if affinity.is_set() {
        errors.required(affinity.required(), "must specify required node constraints");
    }
    sources(&volume, errors);
    if is_root(*spec.host_path().path()) && *reclaim == "Recycle" {
        errors.forbidden(reclaim, "may not be 'recycle' for a hostPath mount of '/'");
    }
    spec.storage_class_name().check_if_set(names::subdomain, errors);
    spec.volume_mode().supported(&["Block", "Filesystem"], errors);
    let class = spec.volume_attributes_class_name();
    if let Some(name) = *class {
        if name.is_empty() {
            errors.required(class, "an empty string is disallowed");
        }
        class.check_if_set(names::subdomain, errors);
        if !spec.csi().is_set() {
            errors.required(spec.csi(), "has to be specified when using volumeAttributesClassName");
        }
    }
}

fn capacity<'a>(capacity: &Place<'_, Entries<'a, &'a Value>>, errors: &mut Errors) {
    capacity.needed(errors);
    if capacity.len() != 1 || capacity.get("storage").is_none() {
        errors.unsupported_at(capacity, &["storage"]);
    }
    for (_, amount) in capacity.each() {
        let Ok(quantity) = Quantity::parse(amount.text()) else { continue };
        if quantity.is_negative() {
            errors.invalid(amount, &json!(quantity.units()), "must be a valid resource quantity");
        }
        if quantity.is_negative() || quantity.is_zero() {
            errors.invalid_at(&amount, "must be greater than zero");
        }
    }
}

/// Whether a path comes to `/`.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        depth = if part == ".." { depth.saturating_sub(1) } else { depth + 1 };
    }
    path.starts_with('/') && depth == 0
}

fn sources(volume: &Place<'_, PersistentVolume<'_>>, errors: &mut Errors) {
    let spec = volume.spec();
    let mut first = true;
    for source in SOURCES.iter().filter(|source| spec.field(source.field).is_set()) {
        if std::mem::take(&mut first) {
            source.check(&spec, errors);
        } else {
            errors.forbidden(spec.path.field(source.second), "may not specify more than 1 volume type");
        }
    }
    let (iscsi, local, driver) = (spec.iscsi(), spec.local(), spec.csi());
    if let Some(fault) = iscsi_name(*iscsi.cast(), *volume.metadata().name()) {
        errors.invalid_at(&iscsi.target_portal().called(iscsi.path.field("targetportal")), fault);
    }
    if local.is_set() {
        if std::mem::take(&mut first) {
            local.path().needed(errors);
            file_paths::without_steps_back(&local.path(), errors);
            if !spec.node_affinity().is_set() {
                errors.required(spec.node_affinity(), "Local volume requires node affinity");
            }
        } else {
            errors.forbidden(local, "may not specify more than 1 volume type");
        }
    }
    if driver.is_set() {
        if std::mem::take(&mut first) {
            csi(&driver, errors);
        } else {
            errors.forbidden(driver, "may not specify more than 1 volume type");
        }
    }
    if first {
        errors.required(spec, "must specify a volume type");
    }
}

fn csi(source: &Place<'_, CSIPersistentVolumeSource<'_>>, errors: &mut Errors) {
    driver(&source.driver(), errors);
    source.volume_handle().needed(errors);
    let secrets = [
        source.controller_publish_secret_ref(),
        source.controller_expand_secret_ref(),
        source.node_publish_secret_ref(),
        source.node_expand_secret_ref(),
    ];
    for secret in secrets.iter().filter(|secret| secret.is_set()) {
        secret.name().needed_as(names::subdomain, errors);
        secret.namespace().needed_as(names::label, errors);
    }
}

/// A volume stays where it comes from, what it is like and where it can be had.
pub(crate) fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let new = Place::<PersistentVolume<'_>>::root(new);
    let (before, after) = (PersistentVolume(old).spec(), new.spec());
    let changed = SOURCES.iter().map(|source| source.field).chain(OWN).any(|field| {
        let (before, mut after) = (&before.0[field], after.json[field].clone());
        if field == "csi" && before.is_object() && before["controllerExpandSecretRef"].is_null() {
            after.as_object_mut().map(|source| source.remove("controllerExpandSecretRef"));
        }
        *before != after
    });
    if changed {
        // Upstream shows how they differ in the form of its own types.
        errors.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation");
    }
    // Upstream says nothing of `spec`.
    let bare = after.called(Path::Root);
    if before.volume_mode() != *bare.volume_mode() {
        errors.invalid_at(&bare.volume_mode(), "field is immutable");
    }
    let (had, has) = (before.node_affinity(), bare.node_affinity());
    let is_fixed = !errors.has(Gate::MutablePVNodeAffinity) && had.is_set();
    if is_fixed && modern(had.0) != modern(has.json) {
        errors.invalid_as(has, &volume_affinity(*has), "field is immutable, except for updating from beta label to GA");
    }
    let class = after.volume_attributes_class_name();
    if before.volume_attributes_class_name().is_some() && !class.is_set() {
        errors.forbidden(class, "update from non-nil value to nil is forbidden");
    }
}

/// An affinity with the labels that took the place of older ones.
fn modern(affinity: &Value) -> Value {
    let mut affinity = affinity.clone();
    let terms = affinity.pointer_mut("/required/nodeSelectorTerms").and_then(Value::as_array_mut);
    for term in terms.into_iter().flatten() {
        let expressions = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        for expression in expressions.into_iter().flatten() {
            let now = match expression["key"].as_str() {
                Some("failure-domain.beta.kubernetes.io/zone") => "topology.kubernetes.io/zone",
                Some("failure-domain.beta.kubernetes.io/region") => "topology.kubernetes.io/region",
                Some("beta.kubernetes.io/os") => "kubernetes.io/os",
                Some("beta.kubernetes.io/arch") => "kubernetes.io/arch",
                Some("beta.kubernetes.io/instance-type") => "node.kubernetes.io/instance-type",
                _ => continue,
            };
            expression["key"] = json!(now);
        }
    }
    affinity
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(change: &Value) -> Value {
        let mut spec = json!({
            "capacity": { "storage": "10G" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/foo", "type": "Directory" },
            "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
        });
        for (field, value) in change.as_object().into_iter().flatten() {
            spec[field.as_str()] = value.clone();
        }
        json!({ "metadata": { "name": "pv" }, "spec": spec })
    }

    #[test]
    fn volumes_come_from_one_place() {
        let faults = |change: &Value| Errors::found(|errors| check(&volume(change), errors));
        let affinity = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "k", "operator": "In", "values": ["v"] }] }] } });
        for (change, wanted) in [
            (json!({}), vec![]),
            (json!({ "hostPath": null, "local": { "path": "/x" }, "nodeAffinity": affinity }), vec![]),
            (json!({ "hostPath": null, "csi": { "driver": "disk.csi.azure.com", "volumeHandle": "h" } }), vec![]),
            (
                json!({ "hostPath": null, "local": { "path": "" } }),
                vec!["local.path: Required value", "nodeAffinity: Required value: Local volume requires node affinity"],
            ),
            (
                json!({ "capacity": {} }),
                vec!["capacity: Required value", "capacity: Unsupported value: {}: supported values: \"storage\""],
            ),
            (
                json!({ "capacity": { "storage": "0" } }),
                vec!["capacity[storage]: Invalid value: \"0\": must be greater than zero"],
            ),
            (json!({ "accessModes": [] }), vec!["accessModes: Required value"]),
            (
                json!({ "persistentVolumeReclaimPolicy": "x" }),
                vec![
                    "persistentVolumeReclaimPolicy: Unsupported value: \"x\": supported values: \"Delete\", \"Recycle\", \"Retain\"",
                ],
            ),
            (
                json!({ "hostPath": { "path": "/a/.." , "type": "" }, "persistentVolumeReclaimPolicy": "Recycle" }),
                vec![
                    "hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
                    "persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
                ],
            ),
            (
                json!({ "hostPath": null, "csi": { "driver": "d", "nodePublishSecretRef": { "name": "n" } } }),
                vec!["csi.volumeHandle: Required value", "csi.nodePublishSecretRef.namespace: Required value"],
            ),
            (
                json!({ "csi": { "driver": "d", "volumeHandle": "h" } }),
                vec!["csi: Forbidden: may not specify more than 1 volume type"],
            ),
            (
                json!({ "volumeAttributesClassName": "" }),
                vec![
                    "volumeAttributesClassName: Required value: an empty string is disallowed",
                    "csi: Required value: has to be specified when using volumeAttributesClassName",
                ],
            ),
            (
                json!({ "nodeAffinity": {} }),
                vec!["nodeAffinity.required: Required value: must specify required node constraints"],
            ),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("spec.{fault}")).collect();
            assert_eq!(faults(&change), wanted, "{change}");
        }
        assert_eq!(faults(&json!({ "hostPath": null })), ["spec: Required value: must specify a volume type"]);
    }

    #[test]
    fn volumes_stay_what_they_are() {
        let faults = |old: &Value, new: &Value| Errors::found(|errors| update(&volume(old), &volume(new), errors));
        let zone = |key: &str| json!({ "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": key, "operator": "Exists" }] }] } } });
        let (old, new) = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
        assert_eq!(faults(&json!({}), &json!({ "capacity": { "storage": "20G" } })), [""; 0]);
        assert_eq!(faults(&zone(old), &zone(new)), [""; 0]);
        assert_eq!(faults(&json!({}), &zone(new)), [""; 0]);
        assert_eq!(
            faults(&zone(new), &zone("other")),
            [
                "nodeAffinity: Invalid value: {\"Required\":{\"NodeSelectorTerms\":[{\"MatchExpressions\":[{\"Key\":\"other\",\"Operator\":\"Exists\",\"Values\":null}],\"MatchFields\":null}]}}: field is immutable, except for updating from beta label to GA"
            ]
        );
        assert_eq!(
            faults(&json!({}), &json!({ "hostPath": { "path": "/bar", "type": "" } })),
            ["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"]
        );
        assert_eq!(
            faults(&json!({}), &json!({ "volumeMode": "Block" })),
            ["volumeMode: Invalid value: \"Block\": field is immutable"]
        );
    }
}
