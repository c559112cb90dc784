//! What of an object a write to one of its parts covers.

use klab_api_machinery::part::Part;
use klab_api_machinery::resource::{self as kinds, ResourceId};
use serde_json::Value;

/// The next version: of `new` what the part covers, of `old` the rest.
pub(crate) fn select_part(resource: ResourceId, part: Part, has_status: bool, old: &Value, mut new: Value) -> Value {
    match part {
        Part::Main => {
            if has_status {
                set_or_remove(&mut new, "status", old.get("status"));
            }
            if resource == kinds::NAMESPACES {
                set_or_remove(&mut new, "spec", old.get("spec"));
            }
            new
        }
        // upstream: apiextensions-apiserver pkg/registry/customresource/status_strategy.go PrepareForUpdate
        Part::Status if resource.row().custom => {
            let mut merged = old.clone();
            set_or_remove(&mut merged, "status", new.get("status"));
            merged
        }
        Part::Status => {
            set_or_remove(&mut new, "spec", old.get("spec"));
            for field in kept_by_status(resource) {
                set_or_remove(&mut new["metadata"], field, old["metadata"].get(field));
            }
            // upstream: pkg/registry/core/pod/strategy.go podStatusStrategy.PrepareForUpdate; validation refuses another class.
            if resource == kinds::PODS
                && let Some(class) = old["status"].get("qosClass")
                && new["status"].is_object()
                && new["status"].get("qosClass").is_none_or(|class| class == "" || class.is_null())
            {
                new["status"]["qosClass"] = class.clone();
            }
            new
        }
        Part::Finalize => {
            let mut merged = old.clone();
            merged["spec"] = new["spec"].take();
            merged["metadata"] = new["metadata"].take();
            merged
        }
        Part::EphemeralContainers => {
            let mut merged = old.clone();
            merged["spec"]["ephemeralContainers"] = new["spec"]["ephemeralContainers"].take();
            merged
        }
        Part::Resize => {
            let mut merged = old.clone();
            for list in ["containers", "initContainers"] {
                let count = merged["spec"][list].as_array().map_or(0, Vec::len);
                for at in 0..count {
                    if merged["spec"][list][at]["name"] == new["spec"][list][at]["name"] {
                        for field in ["resources", "resizePolicy"] {
                            let value = new["spec"][list].get(at).and_then(|container| container.get(field)).cloned();
                            set_or_remove(&mut merged["spec"][list][at], field, value.as_ref());
                        }
                    }
                }
            }
            merged
        }
    }
}

pub(crate) fn set_or_remove(object: &mut Value, field: &str, value: Option<&Value>) {
    let Some(object) = object.as_object_mut() else { return };
    match value {
        // Most writes leave most parts alone, and to compare is cheaper than to copy.
        Some(value) if object.get(field) == Some(value) => {}
        Some(value) => drop(object.insert(field.to_owned(), value.clone())),
        None => drop(object.remove(field)),
    }
}

/// The metadata that a write of the status leaves as it is, besides what no client writes.
// upstream: pkg/registry/<group>/<kind>/strategy.go, PrepareForUpdate of the strategies for status;
// apimachinery pkg/apis/meta/v1/meta.go ResetObjectMetaForStatus
fn kept_by_status(resource: ResourceId) -> &'static [&'static str] {
    match resource {
        kinds::PODS => &["ownerReferences"],
        kinds::DEPLOYMENTS => &["labels"],
        kinds::API_SERVICES
        | kinds::FLOW_SCHEMAS
        | kinds::PRIORITY_LEVEL_CONFIGURATIONS
        | kinds::RESOURCE_CLAIMS
        | kinds::SERVICE_CIDRS
        | kinds::VALIDATING_ADMISSION_POLICIES
        | kinds::VOLUME_ATTACHMENTS => &["annotations", "finalizers", "labels", "ownerReferences"],
        _ => &[],
    }
}
