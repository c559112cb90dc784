//! What may be written into the status of a pod.

// upstream: pkg/apis/core/validation/validation.go ValidatePodStatusUpdate, validatePodConditions (v1.36)

use klab_cel::names;
use klab_scheduler::features::Gate;
use serde_json::{Value, json};

use super::Errors;
use super::field::{entries, text};
use crate::schema::Path;

/// Conditions of the API server's own, whose names need no check.
const SYSTEM: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

pub(super) fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let path = Path::Root.field("status");
    let generation = |status: &Value, path: &Path<'_>, errors: &mut Errors| {
        if status["observedGeneration"].as_i64().is_some_and(|generation| generation < 0) {
            let place = path.field("observedGeneration");
            errors.invalid(place, &status["observedGeneration"], "must be a non-negative integer");
        }
    };
    let list = path.field("conditions");
    for (at, condition) in entries(&new["status"], "conditions") {
        generation(condition, &list.index(at), errors);
        let kind = text(condition, "type");
        if !SYSTEM.contains(&kind) {
            for fault in names::qualified(kind) {
                errors.invalid(list.index(at).field("Type"), &json!(kind), fault);
            }
        }
    }
    let nominated = text(&new["status"], "nominatedNodeName");
    if !nominated.is_empty() && nominated != text(&old["status"], "nominatedNodeName") {
        let place = path.field("nominatedNodeName");
        for fault in names::subdomain(nominated) {
            errors.invalid(place, &json!(nominated), fault);
        }
        let is_cleared = errors.has(Gate::ClearingNominatedNodeNameAfterBinding);
        if is_cleared && !text(&old["spec"], "nodeName").is_empty() {
            errors.forbidden(place, "may not be set on pods that are already bound to a node");
        }
    }
    generation(&new["status"], &path, errors);
    if new["status"]["qosClass"] != old["status"]["qosClass"] {
        errors.invalid(path.field("qosClass"), &new["status"]["qosClass"], "field is immutable");
    }
}
