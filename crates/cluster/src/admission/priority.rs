//! Priority classes: from a name to a number, and only one default.

use std::sync::Arc;

use klab_api_machinery::resource::{PODS, PRIORITY_CLASSES};
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{Pod, PriorityClass, metadata};
use serde_json::{Value, json};

use super::forbidden::forbidden;
use crate::transaction::Transaction;

const DEFAULT_POLICY: &str = "PreemptLowerPriority";

/// Gives a pod the priority of its class.
pub(super) fn add_priority(transaction: &Transaction<'_>, pod: &mut Value) -> Result<(), Status> {
    let name = Pod(pod).spec().priority_class_name().to_owned();
    let class = if name.is_empty() {
        let default = default_class(transaction);
        if let Some(class) = &default {
            pod["spec"]["priorityClassName"] = json!(metadata(class).name());
        }
        default
    } else {
        let Some(class) = transaction.state.store.get(PRIORITY_CLASSES, "", &name) else {
            return Err(forbidden(PODS, pod, &format!("no PriorityClass with name {name} was found")));
        };
        Some(class.value())
    };
    let class = class.unwrap_or_default();
    let class = PriorityClass(&class);
    let priority = class.value();
    if let Some(given) = Pod(pod).spec().priority().filter(|given| *given != priority) {
        let because = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(forbidden(PODS, pod, &because));
    }
    pod["spec"]["priority"] = json!(priority);
    let policy = class.preemption_policy().unwrap_or(DEFAULT_POLICY);
    if let Some(given) = Pod(pod).spec().preemption_policy().filter(|given| *given != policy) {
        let because = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(PODS, pod, &because));
    }
    pod["spec"]["preemptionPolicy"] = json!(policy);
    Ok(())
}

/// The class of pods that name none: of several defaults the lowest, as upstream.
fn default_class(transaction: &Transaction<'_>) -> Option<Arc<Value>> {
    transaction
        .state
        .store
        .list(PRIORITY_CLASSES, None)
        .map(|class| class.value())
        .filter(|class| PriorityClass(class).global_default())
        .min_by_key(|class| PriorityClass(class).value())
}

/// Refuses a second default class.
///
/// # Errors
/// 403 when there is another one.
pub(crate) fn check_default_class(transaction: &Transaction<'_>, class: &Value) -> Result<(), Status> {
    if !PriorityClass(class).global_default() {
        return Ok(());
    }
    match default_class(transaction) {
        Some(other) if metadata(&other).name() != metadata(class).name() => {
            let name = metadata(&other).name();
            let because = format!("PriorityClass {name} is already marked as default. Only one default can exist");
            Err(forbidden(PRIORITY_CLASSES, class, &because))
        }
        _ => Ok(()),
    }
}
