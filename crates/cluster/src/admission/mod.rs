//! Admission: what a cluster adds to an object, or refuses it for, because of the other objects it holds.

mod aks;
mod change;
pub(crate) mod default_class;
pub(crate) mod devices;
mod dynamic;
mod forbidden;
mod form;
mod label_keys;
pub(crate) mod limit_range;
mod mutating_policies;
mod parameters;
mod pod_resize;
mod pod_security;
pub(crate) mod pods;
pub(crate) mod priority;
pub(crate) mod quota;
mod runtime_class;
pub(crate) mod signing;
mod validating_policies;
mod webhooks;

use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::{CERTIFICATE_SIGNING_REQUESTS, PERSISTENT_VOLUME_CLAIMS, PODS, STORAGE_CLASSES};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::list_mut;
use klab_api_machinery::views::{PersistentVolumeClaim as Claim, StorageClass};
use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use self::limit_range::{add_default_limits, check_limits};
use self::pod_resize::check_resize;
use self::signing::check_approval;
use crate::transaction::Transaction;
pub(crate) use aks::check_pod;
pub(crate) use dynamic::{AdmissionRequest, consider, has_webhooks, is_asked, is_configured, judge, mutate};
pub(crate) use pod_security::{Candidate, check_pod_security};

/// Fills in what a new version of an object does not say, because of other objects.
pub(crate) fn admit_update(transaction: &Transaction<'_>, part: Part, current: &Object, new: &mut Value) {
    match (current.resource, part) {
        (PODS, Part::Main) => {
            pods::add_default_tolerations(new);
            aks::tolerate_memory_pressure(transaction, new);
            aks::tolerate_extended_resources(transaction, new);
        }
        (PODS, Part::Resize) if !current.deleting => add_default_limits(transaction, &current.namespace, new),
        _ => {}
    }
}

/// Refuses a valid new version of an object because of other objects.
///
/// # Errors
/// 403 with the reasons.
pub(crate) fn restrict_update(
    transaction: &Transaction<'_>,
    part: Part,
    current: &Object,
    new: &Value,
) -> Result<(), Status> {
    match (current.resource, part) {
        (PODS, Part::Resize) | (PERSISTENT_VOLUME_CLAIMS, Part::Main) if !current.deleting => {
            if part == Part::Main {
                check_expansion(transaction, current, new)?;
            }
            check_limits(transaction, current.resource, &current.namespace, new)?;
            if part == Part::Resize { check_resize(transaction, current, new) } else { Ok(()) }
        }
        (CERTIFICATE_SIGNING_REQUESTS, Part::Status) => check_approval(transaction, current, new),
        _ => Ok(()),
    }
}

/// A claim grows only while it is bound, and where its class lets it.
// upstream: plugin/pkg/admission/storage/persistentvolume/resize/admission.go Validate, allowResize (v1.36)
fn check_expansion(transaction: &Transaction<'_>, current: &Object, new: &Value) -> Result<(), Status> {
    let old = current.value();
    let (old, new) = (Claim(&old), Claim(new));
    let size = |claim: Claim<'_>| Quantity::parse(claim.spec().resources().requests().get("storage")?.as_str()?).ok();
    if size(new) <= size(old) {
        return Ok(());
    }
    let refused = |because: &str| Err(Status::forbidden(current.resource.row(), &current.name, because));
    if old.status().phase() != "Bound" {
        return refused("Only bound persistent volume claims can be expanded");
    }
    let name = new.spec().storage_class_name().unwrap_or_default();
    let class = transaction.state.store.get(STORAGE_CLASSES, "", name);
    if class.is_some_and(|class| StorageClass(&class.value()).allow_volume_expansion() == Some(true)) {
        return Ok(());
    }
    refused(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    )
}

/// Has a new object stay until its finalizer is taken away, which is done when nothing uses it.
// upstream: plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go Admit (v1.36)
pub(crate) fn protect(value: &mut Value, finalizer: &str) {
    let finalizers = list_mut(&mut value["metadata"]["finalizers"]);
    if !finalizers.iter().any(|have| have == finalizer) {
        finalizers.push(json!(finalizer));
    }
}
