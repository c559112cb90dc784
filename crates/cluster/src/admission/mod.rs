//! Admission: what a cluster adds to an object, or refuses it for, because of the other objects it holds.

mod authorizer;
mod change;
mod condition;
mod consultation;
pub(crate) mod default_class;
pub(crate) mod devices;
mod dynamic;
mod forbidden;
mod form;
mod kept;
mod label_keys;
mod limit_range;
mod matching;
mod pod_resize;
mod pod_security;
pub(crate) mod pods;
pub(crate) mod policy;
mod priority;
mod quota;
mod request;
mod runtime_class;
mod scene;
pub(crate) mod signing;
mod webhooks;

use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use super::cluster::{Part, Transaction};
use super::object::Object;
use super::resource::{CERTIFICATE_SIGNING_REQUESTS, PERSISTENT_VOLUME_CLAIMS, PODS, STORAGE_CLASSES};
use super::status::Status;

pub(crate) use consultation::{Batch, Beginning, Consultation, waiting};
pub(crate) use dynamic::{Deed, has_webhooks, is_configured};
pub(crate) use kept::Kept;
pub(crate) use pod_security::Newcomer;
pub(crate) use quota::Bookkeeping;
pub(crate) use request::Operation;

impl Transaction<'_> {
    /// Fills in what a new version of an object does not say, because of other objects.
    pub(crate) fn admit_update(&self, part: Part, current: &Object, new: &mut Value) {
        match (current.resource, part) {
            (PODS, Part::Main) => pods::add_default_tolerations(new),
            (PODS, Part::Resize) if !current.deleting => self.add_default_limits(&current.namespace, new),
            _ => {}
        }
    }

    /// Refuses a valid new version of an object because of other objects.
    ///
    /// # Errors
    /// 403 with the reasons.
    pub(crate) fn restrict_update(&self, part: Part, current: &Object, new: &Value) -> Result<(), Status> {
        match (current.resource, part) {
            (PODS, Part::Resize) | (PERSISTENT_VOLUME_CLAIMS, Part::Main) if !current.deleting => {
                if part == Part::Main {
                    self.check_expansion(current, new)?;
                }
                self.check_limits(current.resource, &current.namespace, new)?;
                if part == Part::Resize { self.check_resize(current, new) } else { Ok(()) }
            }
            (CERTIFICATE_SIGNING_REQUESTS, Part::Status) => self.check_approval(current, new),
            _ => Ok(()),
        }
    }

    /// A claim grows only while it is bound, and where its class lets it.
    // upstream: plugin/pkg/admission/storage/persistentvolume/resize/admission.go Validate, allowResize (v1.36)
    fn check_expansion(&self, current: &Object, new: &Value) -> Result<(), Status> {
        let old = current.value();
        let size = |claim: &Value| Quantity::parse(claim["spec"]["resources"]["requests"]["storage"].as_str()?).ok();
        if size(new) <= size(&old) {
            return Ok(());
        }
        let refused = |because: &str| Err(Status::forbidden(current.resource.row(), &current.name, because));
        if old["status"]["phase"] != "Bound" {
            return refused("Only bound persistent volume claims can be expanded");
        }
        let name = new["spec"]["storageClassName"].as_str().unwrap_or_default();
        let class = self.state.store.get(STORAGE_CLASSES, "", name);
        if class.is_some_and(|class| class.value()["allowVolumeExpansion"] == true) {
            return Ok(());
        }
        refused(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        )
    }
}

/// Has a new object stay until its finalizer is taken away, which is done when nothing uses it.
// upstream: plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go Admit (v1.36)
pub(crate) fn protect(value: &mut Value, finalizer: &str) {
    let finalizers = &mut value["metadata"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(list) if list.iter().any(|have| have == finalizer) => {}
        Some(list) => list.push(json!(finalizer)),
        None => *finalizers = json!([finalizer]),
    }
}
