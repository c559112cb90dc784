//! What a claim and its volume are bound by: annotations, the reference to the claim; and the binder's name and keys.

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use klab_api_machinery::views::{Entries, Pod, Volume};
use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use super::super::controller::Controller;
use super::super::queue::{Key, ObjectName};

pub(super) const COMPONENT: &str = "persistentvolume-controller";
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Who made a volume on demand.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

pub(super) fn claim_key(name: ObjectName) -> Key {
    Key::new(Controller::PersistentVolumeBinder, PERSISTENT_VOLUME_CLAIMS, name)
}

pub(super) fn volume_key(name: &str) -> Key {
    Key::new(Controller::PersistentVolumeBinder, PERSISTENT_VOLUMES, ObjectName::new("", name))
}

/// The claims a pod names, and those of its ephemeral volumes.
pub(super) fn claims_of(pod: &Object) -> Vec<ObjectName> {
    let value = pod.value();
    let claim = |volume: Volume<'_>| match volume.persistent_volume_claim().claim_name() {
        "" => claim_of_ephemeral(pod, volume),
        name => Some(name.to_owned()),
    };
    let names = Pod(&value).spec().volumes().filter_map(claim);
    names.map(|name| ObjectName::new(&pod.namespace, &name)).collect()
}

/// The name of the claim that is made for a volume, if that is an ephemeral one.
// upstream: staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go VolumeClaimName (v1.36)
pub(super) fn claim_of_ephemeral(pod: &Object, volume: Volume<'_>) -> Option<String> {
    volume.ephemeral().is_set().then(|| format!("{}-{}", pod.name, volume.name()))
}

/// The storage in a list of amounts; nothing where it cannot be read.
pub(super) fn storage(amounts: Entries<'_, &Value>) -> Quantity {
    let amount = amounts.get("storage").and_then(Value::as_str);
    amount.and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

pub(super) fn claim_reference(object: &Object) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": object.namespace, "name": object.name,
        "uid": object.uid, "resourceVersion": object.resource_version.to_string(),
    })
}
