//! PersistentVolumes.

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeSpec, ValidatePersistentVolumeUpdate (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::claim_spec::{access_modes, class};
use super::field::{entries, supported, text};
use super::volume_sources::{SOURCES, driver, iscsi_name};
use super::{Errors, file_paths, placement};
use crate::schema::Path;
use klab_scheduler::features::Gate;
use klab_scheduler::quantity::Quantity;

/// Sources that only PersistentVolumes have, beside those that pods have, too.
const OWN: [&str; 2] = ["local", "csi"];
const SECRETS: [&str; 4] =
    ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];

pub(crate) fn check(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    if entries(spec, "accessModes").next().is_none() {
        errors.required(path.field("accessModes"), "");
    }
    access_modes(spec, &path, errors);
    capacity(&spec["capacity"], &path.field("capacity"), errors);
    let reclaim = &spec["persistentVolumeReclaimPolicy"];
    let reclaim_path = path.field("persistentVolumeReclaimPolicy");
    supported(reclaim, &reclaim_path, &["Delete", "Recycle", "Retain"], errors);
    let affinity = &spec["nodeAffinity"];
    if affinity.is_object() {
        let place = path.field("nodeAffinity");
        if affinity["required"].is_object() {
            placement::node_selector(&affinity["required"], &place.field("required"), errors);
        } else {
            errors.required(place.field("required"), "must specify required node constraints");
        }
    }
    sources(value, &path, errors);
    if is_root(text(&spec["hostPath"], "path")) && reclaim == "Recycle" {
        errors.forbidden(reclaim_path, "may not be 'recycle' for a hostPath mount of '/'");
    }
    class(spec, "storageClassName", &path, errors);
    supported(&spec["volumeMode"], &path.field("volumeMode"), &["Block", "Filesystem"], errors);
    if let Some(name) = spec["volumeAttributesClassName"].as_str() {
        if name.is_empty() {
            errors.required(path.field("volumeAttributesClassName"), "an empty string is disallowed");
        }
        class(spec, "volumeAttributesClassName", &path, errors);
        if spec["csi"].is_null() {
            errors.required(path.field("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

fn capacity(capacity: &Value, path: &Path<'_>, errors: &mut Errors) {
    let count = capacity.as_object().map_or(0, serde_json::Map::len);
    if count == 0 {
        errors.required(path, "");
    }
    if count != 1 || capacity["storage"].is_null() {
        errors.unsupported(path, capacity, &["storage"]);
    }
    for (name, amount) in capacity.as_object().into_iter().flatten() {
        let Ok(quantity) = Quantity::parse(amount.as_str().unwrap_or_default()) else { continue };
        if quantity.is_negative() {
            errors.invalid(path.key(name), &json!(quantity.units()), "must be a valid resource quantity");
        }
        if quantity.is_negative() || quantity.is_zero() {
            errors.invalid(path.key(name), amount, "must be greater than zero");
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

fn sources(volume: &Value, path: &Path<'_>, errors: &mut Errors) {
    let spec = &volume["spec"];
    let mut first = true;
    for source in SOURCES.iter().filter(|source| spec[source.field].is_object()) {
        if std::mem::take(&mut first) {
            source.check(&spec[source.field], path, errors);
        } else {
            errors.forbidden(path.field(source.second), "may not specify more than 1 volume type");
        }
    }
    let iscsi = &spec["iscsi"];
    if let Some(fault) = iscsi_name(iscsi, text(&volume["metadata"], "name")) {
        errors.invalid(path.field("iscsi").field("targetportal"), &iscsi["targetPortal"], fault);
    }
    for field in OWN.into_iter().filter(|field| spec[*field].is_object()) {
        let place = path.field(field);
        if !std::mem::take(&mut first) {
            errors.forbidden(place, "may not specify more than 1 volume type");
        } else if field == "csi" {
            csi(&spec["csi"], &place, errors);
        } else {
            if text(&spec["local"], "path").is_empty() {
                errors.required(place.field("path"), "");
            } else {
                file_paths::without_steps_back(&spec["local"]["path"], &place.field("path"), errors);
            }
            if spec["nodeAffinity"].is_null() {
                errors.required(path.field("nodeAffinity"), "Local volume requires node affinity");
            }
        }
    }
    if first {
        errors.required(path, "must specify a volume type");
    }
}

fn csi(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    driver(&source["driver"], &path.field("driver"), errors);
    if text(source, "volumeHandle").is_empty() {
        errors.required(path.field("volumeHandle"), "");
    }
    for field in SECRETS.into_iter().filter(|field| source[*field].is_object()) {
        let place = path.field(field);
        for (part, check) in [("name", names::subdomain as fn(&str) -> Vec<String>), ("namespace", names::label)] {
            let given = text(&source[field], part);
            if given.is_empty() {
                errors.required(place.field(part), "");
                continue;
            }
            for fault in check(given) {
                errors.invalid(place.field(part), &source[field][part], fault);
            }
        }
    }
}

/// A volume stays where it comes from, what it is like and where it can be had.
pub(crate) fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after) = (&old["spec"], &new["spec"]);
    let sources = SOURCES.iter().map(|source| source.field).chain(OWN);
    let changed = sources.into_iter().any(|field| {
        let (before, mut after) = (&before[field], after[field].clone());
        if field == "csi" && before.is_object() && before["controllerExpandSecretRef"].is_null() {
            after.as_object_mut().map(|source| source.remove("controllerExpandSecretRef"));
        }
        *before != after
    });
    if changed {
        // Upstream shows how they differ in the form of its own types.
        errors.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation");
    }
    if before["volumeMode"] != after["volumeMode"] {
        errors.invalid("volumeMode", &after["volumeMode"], "field is immutable");
    }
    let is_fixed = !errors.has(Gate::MutablePVNodeAffinity) && !before["nodeAffinity"].is_null();
    if is_fixed && modern(&before["nodeAffinity"]) != modern(&after["nodeAffinity"]) {
        let fault = "field is immutable, except for updating from beta label to GA";
        errors.invalid_as("nodeAffinity", &shown(&after["nodeAffinity"]), fault);
    }
    if before["volumeAttributesClassName"].is_string() && after["volumeAttributesClassName"].is_null() {
        errors.forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden");
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

/// An affinity as Go prints it.
fn shown(affinity: &Value) -> String {
    if affinity.is_null() {
        return "null".to_owned();
    }
    let requirement = |one: &Value| {
        let plain = |field: &str| json!(text(one, field));
        format!("{{\"Key\":{},\"Operator\":{},\"Values\":{}}}", plain("key"), plain("operator"), one["values"])
    };
    let list = |term: &Value, field: &str| match term[field].as_array() {
        None => "null".to_owned(),
        Some(all) => format!("[{}]", all.iter().map(requirement).collect::<Vec<_>>().join(",")),
    };
    let terms: Vec<String> = entries(&affinity["required"], "nodeSelectorTerms")
        .map(|(_, term)| {
            let (labels, fields) = (list(term, "matchExpressions"), list(term, "matchFields"));
            format!("{{\"MatchExpressions\":{labels},\"MatchFields\":{fields}}}")
        })
        .collect();
    format!("{{\"Required\":{{\"NodeSelectorTerms\":[{}]}}}}", terms.join(","))
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
