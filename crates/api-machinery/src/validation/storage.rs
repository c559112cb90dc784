//! Classes of storage, and what CSI drivers say of themselves.

// upstream: pkg/apis/storage/validation/validation.go (v1.36)

use std::collections::{BTreeMap, BTreeSet, HashSet};

use klab_cel::names;
use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use super::place::Texts;
use super::{Errors, Place, metadata, volume_sources};
use crate::views::{
    CSIDriver, CSIDriverSpec, CSINode, CSIStorageCapacity, StorageClass, TopologySelectorTerm, VolumeAttachment,
    VolumeAttachmentSpec, VolumeAttributesClass,
};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_SIZE: usize = 256 * 1024;
const MAX_NODE_ID_LENGTH: usize = 256;

/// A StorageClass.
pub fn class(value: &Value, errors: &mut Errors) {
    let class = Place::<StorageClass<'_>>::root(value);
    provisioner(&class.provisioner(), errors);
    parameters(&class.parameters(), errors);
    class.reclaim_policy().supported(&["Delete", "Retain"], errors);
    class.volume_binding_mode().supported(&["Immediate", "WaitForFirstConsumer"], errors);
    let mut seen = BTreeSet::new();
    for term in class.allowed_topologies().each() {
        if !seen.insert(topology(&term, errors)) {
            errors.duplicate(term.match_label_expressions(), &json!(""));
        }
    }
}

/// What a class says of the way volumes are made stays.
pub(crate) fn class_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (Place::<StorageClass<'_>>::root(old), Place::<StorageClass<'_>>::root(new));
    new.parameters().stays(&old.parameters(), errors);
    new.provisioner().stays(&old.provisioner(), errors);
    new.reclaim_policy().stays(&old.reclaim_policy(), errors);
    new.volume_binding_mode().stays(&old.volume_binding_mode(), errors);
}

fn provisioner(name: &Place<'_, &str>, errors: &mut Errors) {
    name.needed(errors);
    if !name.is_empty() {
        errors.faults(name, &name.to_lowercase(), names::qualified);
    }
}

fn parameters(parameters: &Place<'_, Texts<'_>>, errors: &mut Errors) {
    if parameters.len() > MAX_PARAMETERS {
        return errors.too_long(parameters, MAX_PARAMETERS, "bytes");
    }
    if parameters.get("").is_some() {
        errors.invalid(parameters, &json!(""), "field can not be empty.");
    }
    if parameters.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_PARAMETERS_SIZE {
        errors.too_long(parameters, MAX_PARAMETERS_SIZE, "bytes");
    }
}

fn topology<'a>(
    term: &Place<'_, TopologySelectorTerm<'a>>,
    errors: &mut Errors,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut known = BTreeMap::new();
    for requirement in term.match_label_expressions().each() {
        let (key, values) = (requirement.key(), requirement.values());
        values.needed(errors);
        let mut seen = HashSet::new();
        values.each().for_each(|value| value.unique(&mut seen, errors));
        key.check(names::qualified, errors);
        if known.insert(*key, seen.into_iter().collect()).is_some() {
            errors.duplicate(key, &json!(*key));
        }
    }
    known
}

/// A VolumeAttributesClass.
pub(crate) fn attributes_class(value: &Value, errors: &mut Errors) {
    let class = Place::<VolumeAttributesClass<'_>>::root(value);
    provisioner(&class.driver_name(), errors);
    parameters(&class.parameters(), errors);
    class.parameters().needed_for("must contain at least one key/value pair", errors);
}

/// A VolumeAttributesClass stays as it is.
pub(crate) fn attributes_class_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (VolumeAttributesClass(old), Place::<VolumeAttributesClass<'_>>::root(new));
    if old.driver_name() != *new.driver_name() {
        errors.forbidden(new.driver_name(), "updates to driverName are forbidden.");
    }
    if !old.parameters().iter().eq(new.parameters().iter()) {
        errors.forbidden(new.parameters(), "updates to parameters are forbidden.");
    }
}

/// A CSIDriver.
pub fn driver(value: &Value, errors: &mut Errors) {
    let spec = Place::<CSIDriverSpec<'_>>::of_spec(value);
    spec.fs_group_policy().supported(&["File", "None", "ReadWriteOnceWithFSType"], errors);
    let requests = spec.token_requests();
    let mut audiences = HashSet::new();
    for request in requests.each() {
        let (audience, seconds) = (request.audience(), request.expiration_seconds());
        if !audiences.insert(*audience) {
            errors.duplicate(audience, &json!(*audience));
            continue;
        }
        seconds.within(600.., "may not specify a duration less than 10 minutes", errors);
        seconds.within(..=1 << 32, "may not specify a duration larger than 2^32 seconds", errors);
    }
    let modes = spec.volume_lifecycle_modes();
    modes.each().for_each(|mode| mode.called(modes.path).supported(&["Persistent", "Ephemeral"], errors));
    let period = spec.node_allocatable_update_period_seconds();
    period.within(10.., "must be greater than or equal to 10 seconds", errors);
    let in_secrets = spec.service_account_token_in_secrets();
    if in_secrets.is_set() && requests.is_empty() {
        let fault = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid_at(&in_secrets, fault);
    }
}

/// How volumes of a driver live stays.
pub(crate) fn driver_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (Place::<CSIDriver<'_>>::root(old), Place::<CSIDriver<'_>>::root(new));
    let (old, new) = (old.spec(), new.spec());
    // Upstream calls the field so.
    new.attach_required().called(new.path.field("attachedRequired")).stays(&old.attach_required(), errors);
    new.volume_lifecycle_modes().stays(&old.volume_lifecycle_modes(), errors);
}

/// A CSINode.
pub fn node(value: &Value, errors: &mut Errors) {
    let node = Place::<CSINode<'_>>::root(value);
    let mut seen = HashSet::new();
    for driver in node.spec().drivers().each() {
        let id = driver.node_id();
        volume_sources::driver(&driver.name(), errors);
        id.needed(errors);
        if id.len() > MAX_NODE_ID_LENGTH {
            errors.invalid_at(&id, "must be 256 characters or less");
        }
        driver.allocatable().count().not_negative(errors);
        driver.name().unique(&mut seen, errors);
        let mut keys = HashSet::new();
        for key in driver.topology_keys().each() {
            let key = key.called(driver.path);
            key.needed(errors);
            key.unique(&mut keys, errors);
            key.check(names::qualified, errors);
        }
    }
}

/// A VolumeAttachment.
pub fn attachment(value: &Value, errors: &mut Errors) {
    let spec = Place::<VolumeAttachmentSpec<'_>>::of_spec(value);
    let source = spec.source();
    let name = source.persistent_volume_name();
    volume_sources::driver(&spec.attacher(), errors);
    let rule = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.inline_volume_spec().is_set(), *name) {
        (false, None) => errors.required(source, rule),
        (true, Some(_)) => errors.forbidden(source, rule),
        (false, Some("")) => errors.required(name, "must specify non empty persistentVolumeName"),
        _ => {}
    }
    spec.node_name().check(names::subdomain, errors);
    name.check_given(names::subdomain, errors);
}

/// What is attached where stays.
pub(crate) fn attachment_update(old: &Value, new: &Value, errors: &mut Errors) {
    let spec = Place::<VolumeAttachmentSpec<'_>>::of_spec(new);
    if VolumeAttachment(old).spec() != *spec {
        let source = spec.source();
        // The specification of an inline volume is not shown as Go would.
        let shown = format!(
            "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{},\"InlineVolumeSpec\":{}}},\"NodeName\":{}}}",
            spec.attacher().json,
            source.persistent_volume_name().json,
            source.inline_volume_spec().json,
            spec.node_name().json
        );
        errors.invalid_as(spec, &shown, "field is immutable");
    }
}

/// A CSIStorageCapacity.
pub fn capacity(value: &Value, errors: &mut Errors) {
    let capacity = Place::<CSIStorageCapacity<'_>>::root(value);
    let amount = capacity.capacity();
    metadata::selector(&capacity.node_topology(), errors);
    capacity.storage_class_name().check(names::subdomain, errors);
    if Quantity::parse(amount.text()).is_ok_and(Quantity::is_negative) {
        errors.invalid_at(&amount, "must be greater than or equal to 0");
    }
}

/// Where and of which class it is stays.
pub(crate) fn capacity_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (Place::<CSIStorageCapacity<'_>>::root(old), Place::<CSIStorageCapacity<'_>>::root(new));
    new.node_topology().stays(&old.node_topology(), errors);
    new.storage_class_name().stays(&old.storage_class_name(), errors);
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
