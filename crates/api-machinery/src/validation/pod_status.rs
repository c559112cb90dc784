//! What may be written into the status of a pod.

// upstream: pkg/apis/core/validation/validation.go ValidatePodStatusUpdate, validatePodConditions (v1.36)

use klab_cel::names;
use klab_scheduler::features::Gate;
use serde_json::Value;

use super::{Errors, Place};
use crate::views::Pod;

/// Conditions of the API server's own, whose names need no check.
const SYSTEM: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

pub(super) fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (Pod(old), Place::<Pod<'_>>::root(new));
    let (before, status) = (old.status(), new.status());
    let generation = |generation: &Place<'_, i64>, errors: &mut Errors| {
        if **generation < 0 {
            errors.invalid_at(generation, "must be a non-negative integer");
        }
    };
    for condition in status.conditions().each() {
        generation(&condition.observed_generation(), errors);
        let kind = condition.type_();
        if !SYSTEM.contains(&*kind) {
            kind.called(condition.path.field("Type")).check(names::qualified, errors);
        }
    }
    let nominated = status.nominated_node_name();
    if !nominated.is_empty() && *nominated != before.nominated_node_name() {
        nominated.check(names::subdomain, errors);
        let is_cleared = errors.has(Gate::ClearingNominatedNodeNameAfterBinding);
        if is_cleared && !old.spec().node_name().is_empty() {
            errors.forbidden(nominated, "may not be set on pods that are already bound to a node");
        }
    }
    generation(&status.observed_generation(), errors);
    if *status.qos_class() != before.qos_class() {
        errors.invalid_at(&status.qos_class(), "field is immutable");
    }
}
