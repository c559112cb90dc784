//! Classes of storage, and what CSI drivers say of themselves.

// upstream: pkg/apis/storage/validation/validation.go (v1.36)

use std::collections::{BTreeMap, BTreeSet, HashSet};

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, not_negative, supported, text};
use super::{Errors, Place, metadata, volume_sources};
use crate::schema::Path;
use klab_scheduler::quantity::Quantity;

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_SIZE: usize = 256 * 1024;
const MAX_NODE_ID_LENGTH: usize = 256;

/// A StorageClass.
pub fn class(value: &Value, errors: &mut Errors) {
    let path = Path::Root;
    provisioner(value, "provisioner", errors);
    parameters(&value["parameters"], errors);
    supported(&value["reclaimPolicy"], &path.field("reclaimPolicy"), &["Delete", "Retain"], errors);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    supported(&value["volumeBindingMode"], &path.field("volumeBindingMode"), &modes, errors);
    let list = path.field("allowedTopologies");
    let mut seen: BTreeSet<BTreeMap<&str, BTreeSet<&str>>> = BTreeSet::new();
    for (at, term) in entries(value, "allowedTopologies") {
        let term = topology(term, &list.index(at), errors);
        if !seen.insert(term) {
            errors.duplicate(list.index(at).field("matchLabelExpressions"), &json!(""));
        }
    }
}

/// What a class says of the way volumes are made stays.
pub(crate) fn class_update(old: &Value, new: &Value, errors: &mut Errors) {
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if old[field] != new[field] {
            errors.invalid(field, &new[field], "field is immutable");
        }
    }
}

fn provisioner(value: &Value, field: &str, errors: &mut Errors) {
    let path = Path::Root.field(field);
    let name = text(value, field);
    if name.is_empty() {
        return errors.required(path, "");
    }
    let name = name.to_lowercase();
    for fault in names::qualified(&name) {
        errors.invalid(path, &json!(name), fault);
    }
}

fn parameters(parameters: &Value, errors: &mut Errors) {
    let path = Path::Root.field("parameters");
    let all = || parameters.as_object().into_iter().flatten();
    if all().count() > MAX_PARAMETERS {
        return errors.too_long(path, MAX_PARAMETERS, "bytes");
    }
    for _ in all().filter(|(name, _)| name.is_empty()) {
        errors.invalid(path, &json!(""), "field can not be empty.");
    }
    let size: usize = all().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_PARAMETERS_SIZE {
        errors.too_long(path, MAX_PARAMETERS_SIZE, "bytes");
    }
}

fn topology<'a>(term: &'a Value, path: &Path<'_>, errors: &mut Errors) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let list = path.field("matchLabelExpressions");
    let mut known = BTreeMap::new();
    for (at, requirement) in entries(term, "matchLabelExpressions") {
        let path = list.index(at);
        let values = path.field("values");
        if entries(requirement, "values").next().is_none() {
            errors.required(values, "");
        }
        let mut set = BTreeSet::new();
        for (at, value) in entries(requirement, "values") {
            if !set.insert(value.as_str().unwrap_or_default()) {
                errors.duplicate(values.index(at), value);
            }
        }
        let key = text(requirement, "key");
        for fault in names::qualified(key) {
            errors.invalid(path.field("key"), &json!(key), fault);
        }
        if known.insert(key, set).is_some() {
            errors.duplicate(path.field("key"), &json!(key));
        }
    }
    known
}

/// A VolumeAttributesClass.
pub(crate) fn attributes_class(value: &Value, errors: &mut Errors) {
    provisioner(value, "driverName", errors);
    parameters(&value["parameters"], errors);
    if value["parameters"].as_object().is_none_or(serde_json::Map::is_empty) {
        errors.required("parameters", "must contain at least one key/value pair");
    }
}

/// A VolumeAttributesClass stays as it is.
pub(crate) fn attributes_class_update(old: &Value, new: &Value, errors: &mut Errors) {
    for field in ["driverName", "parameters"] {
        if old[field] != new[field] {
            errors.forbidden(field, format!("updates to {field} are forbidden."));
        }
    }
}

/// A CSIDriver.
pub fn driver(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    supported(&spec["fsGroupPolicy"], &path.field("fsGroupPolicy"), &policies, errors);
    let list = path.field("tokenRequests");
    let mut audiences: HashSet<&str> = HashSet::new();
    for (at, request) in entries(spec, "tokenRequests") {
        let path = list.index(at);
        if !audiences.insert(text(request, "audience")) {
            errors.duplicate(path.field("audience"), &json!(text(request, "audience")));
            continue;
        }
        let fault = match request["expirationSeconds"].as_i64() {
            Some(..600) => "may not specify a duration less than 10 minutes",
            Some(0x1_0000_0001..) => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        errors.invalid(path.field("expirationSeconds"), &request["expirationSeconds"], fault);
    }
    for (_, mode) in entries(spec, "volumeLifecycleModes") {
        supported(mode, &path.field("volumeLifecycleModes"), &["Persistent", "Ephemeral"], errors);
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|seconds| seconds < 10) {
        let place = path.field("nodeAllocatableUpdatePeriodSeconds");
        errors.invalid(place, period, "must be greater than or equal to 10 seconds");
    }
    let in_secrets = &spec["serviceAccountTokenInSecrets"];
    if !in_secrets.is_null() && entries(spec, "tokenRequests").next().is_none() {
        let fault = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(path.field("serviceAccountTokenInSecrets"), in_secrets, fault);
    }
}

/// How volumes of a driver live stays.
pub(crate) fn driver_update(old: &Value, new: &Value, errors: &mut Errors) {
    for (field, place) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
        if old["spec"][field] != new["spec"][field] {
            errors.invalid(Path::Root.field("spec").field(place), &new["spec"][field], "field is immutable");
        }
    }
}

/// A CSINode.
pub fn node(value: &Value, errors: &mut Errors) {
    let list = Path::Root.field("spec");
    let list = list.field("drivers");
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, driver) in entries(&value["spec"], "drivers") {
        let path = list.index(at);
        volume_sources::driver(&Place::new(path.field("name"), &driver["name"]), errors);
        let id = text(driver, "nodeID");
        if id.is_empty() {
            errors.required(path.field("nodeID"), "");
        }
        if id.len() > MAX_NODE_ID_LENGTH {
            errors.invalid(path.field("nodeID"), &json!(id), "must be 256 characters or less");
        }
        let allocatable = path.field("allocatable");
        not_negative(&driver["allocatable"]["count"], &allocatable.field("count"), errors);
        if !seen.insert(text(driver, "name")) {
            errors.duplicate(path.field("name"), &driver["name"]);
        }
        let mut keys: HashSet<&str> = HashSet::new();
        for (_, key) in entries(driver, "topologyKeys") {
            let text = key.as_str().unwrap_or_default();
            if text.is_empty() {
                errors.required(path, "");
            }
            if !keys.insert(text) {
                errors.duplicate(path, key);
            }
            for fault in names::qualified(text) {
                errors.invalid(path, key, fault);
            }
        }
    }
}

/// A VolumeAttachment.
pub fn attachment(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    volume_sources::driver(&Place::new(path.field("attacher"), &spec["attacher"]), errors);
    let (inline, name) = (&spec["source"]["inlineVolumeSpec"], &spec["source"]["persistentVolumeName"]);
    let place = path.field("source");
    let rule = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline.is_object(), name.as_str()) {
        (false, None) => errors.required(place, rule),
        (true, Some(_)) => errors.forbidden(place, rule),
        (false, Some("")) => {
            errors.required(place.field("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        _ => {}
    }
    for fault in names::subdomain(text(spec, "nodeName")) {
        errors.invalid(path.field("nodeName"), &json!(text(spec, "nodeName")), fault);
    }
    for fault in name.as_str().map(names::subdomain).unwrap_or_default() {
        errors.invalid("spec.source.persistentVolumeName", name, fault);
    }
}

/// What is attached where stays.
pub(crate) fn attachment_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["spec"] != new["spec"] {
        let (spec, source) = (&new["spec"], &new["spec"]["source"]);
        // The specification of an inline volume is not shown as Go would.
        let shown = format!(
            "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{},\"InlineVolumeSpec\":{}}},\"NodeName\":{}}}",
            spec["attacher"], source["persistentVolumeName"], source["inlineVolumeSpec"], spec["nodeName"]
        );
        errors.invalid_as("spec", &shown, "field is immutable");
    }
}

/// A CSIStorageCapacity.
pub fn capacity(value: &Value, errors: &mut Errors) {
    metadata::selector(&Place::new(Path::Root.field("nodeTopology"), &value["nodeTopology"]), errors);
    for fault in names::subdomain(text(value, "storageClassName")) {
        errors.invalid("storageClassName", &json!(text(value, "storageClassName")), fault);
    }
    let amount = &value["capacity"];
    if amount.as_str().and_then(|text| Quantity::parse(text).ok()).is_some_and(Quantity::is_negative) {
        errors.invalid("capacity", amount, "must be greater than or equal to 0");
    }
}

/// Where and of which class it is stays.
pub(crate) fn capacity_update(old: &Value, new: &Value, errors: &mut Errors) {
    for field in ["nodeTopology", "storageClassName"] {
        if old[field] != new[field] {
            errors.invalid(field, &new[field], "field is immutable");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(check: fn(&Value, &mut Errors), value: Value) -> Vec<String> {
        Errors::found(|errors| check(&value, errors))
    }

    #[test]
    fn classes_say_who_makes_volumes_and_where() {
        let topology = |keys: &[(&str, &[&str])]| {
            let all: Vec<Value> = keys.iter().map(|(key, values)| json!({ "key": key, "values": values })).collect();
            json!({ "matchLabelExpressions": all })
        };
        let zone = topology(&[("topology.kubernetes.io/zone", &["1", "2"])]);
        for (value, wanted) in [
            (
                json!({ "provisioner": "kubernetes.io/foo", "parameters": { "a": "b" }, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate", "allowedTopologies": [zone] }),
                vec![],
            ),
            (json!({ "provisioner": "" }), vec!["provisioner: Required value"]),
            (
                json!({ "provisioner": "x", "reclaimPolicy": "Recycle" }),
                vec!["reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\""],
            ),
            (
                json!({ "provisioner": "x", "volumeBindingMode": "foo" }),
                vec![
                    "volumeBindingMode: Unsupported value: \"foo\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
                ],
            ),
            (
                json!({ "provisioner": "x", "parameters": { "": "b" } }),
                vec!["parameters: Invalid value: \"\": field can not be empty."],
            ),
            (
                json!({ "provisioner": "x", "allowedTopologies": [zone, zone] }),
                vec!["allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\""],
            ),
            (
                json!({ "provisioner": "x", "allowedTopologies": [topology(&[("k", &["a", "a"]), ("k", &[])])] }),
                vec![
                    "allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"a\"",
                    "allowedTopologies[0].matchLabelExpressions[1].values: Required value",
                    "allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: \"k\"",
                ],
            ),
        ] {
            assert_eq!(faults(class, value.clone()), wanted, "{value}");
        }
        assert_eq!(
            faults(attributes_class, json!({ "driverName": "d" })),
            ["parameters: Required value: must contain at least one key/value pair"]
        );
        let mut errors = Errors::default();
        class_update(
            &json!({ "provisioner": "a", "parameters": {} }),
            &json!({ "provisioner": "b", "parameters": { "k": "v" } }),
            &mut errors,
        );
        assert_eq!(
            errors.texts(),
            [
                "parameters: Invalid value: {\"k\":\"v\"}: field is immutable",
                "provisioner: Invalid value: \"b\": field is immutable"
            ]
        );
    }

    #[test]
    fn drivers_say_what_they_are_like() {
        let of = |spec: Value| faults(driver, json!({ "spec": spec }));
        assert_eq!(
            of(
                json!({ "fsGroupPolicy": "File", "volumeLifecycleModes": ["Ephemeral"], "tokenRequests": [{ "audience": "a", "expirationSeconds": 600 }] })
            ),
            [""; 0]
        );
        assert_eq!(
            of(json!({ "tokenRequests": [{ "audience": "a", "expirationSeconds": 1 }, { "audience": "a" }] })),
            [
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
                "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
            ]
        );
        assert_eq!(
            of(json!({ "volumeLifecycleModes": ["x"], "serviceAccountTokenInSecrets": true })),
            [
                "spec.volumeLifecycleModes: Unsupported value: \"x\": supported values: \"Persistent\", \"Ephemeral\"",
                "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified",
            ]
        );
        assert_eq!(
            faults(
                node,
                json!({ "spec": { "drivers": [{ "name": "d", "nodeID": "", "allocatable": { "count": -1 }, "topologyKeys": ["a", "a"] }] } })
            ),
            [
                "spec.drivers[0].nodeID: Required value",
                "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                "spec.drivers[0]: Duplicate value: \"a\"",
            ]
        );
    }

    #[test]
    fn attachments_are_of_one_volume() {
        let of = |source: Value| {
            faults(attachment, json!({ "spec": { "attacher": "d", "nodeName": "n", "source": source } }))
        };
        let rule = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        assert_eq!(of(json!({ "persistentVolumeName": "pv" })), [""; 0]);
        assert_eq!(of(json!({})), [format!("spec.source: Required value: {rule}")]);
        assert_eq!(
            of(json!({ "persistentVolumeName": "pv", "inlineVolumeSpec": {} })),
            [format!("spec.source: Forbidden: {rule}")]
        );
    }
}
