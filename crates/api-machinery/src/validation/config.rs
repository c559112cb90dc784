//! Kinds that configure others: ConfigMaps, priorities, budgets, definitions.

// upstream: pkg/apis/core/validation/validation.go ValidateConfigMap (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::workload::int_or_percent;
use super::{Errors, Place, metadata};
use crate::views::{ConfigMap, PodDisruptionBudgetSpec, PriorityClass};

/// Most bytes in a ConfigMap or a Secret.
pub(super) const DATA_LIMIT: usize = 1024 * 1024;
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;
/// The priority classes the cluster itself brings.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub fn config_map(value: &Value, errors: &mut Errors) {
    let map = Place::<ConfigMap<'_>>::root(value);
    let mut size = 0;
    for (part, others) in [(map.data(), None), (map.binary_data(), Some(*map.data()))] {
        for (key, content) in part.each() {
            errors.faults(&content, key, names::config_key);
            if others.is_some_and(|others| others.get(key).is_some()) {
                errors.invalid(content, &json!(key), "duplicate of key present in data");
            }
            size += content.len();
        }
    }
    if size > DATA_LIMIT {
        errors.too_long("", DATA_LIMIT, "bytes");
    }
}

/// What is marked immutable stays, in ConfigMaps and Secrets.
pub fn frozen(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (Place::<ConfigMap<'_>>::root(old), Place::<ConfigMap<'_>>::root(new));
    if *old.immutable() != Some(true) {
        return;
    }
    let fault = "field is immutable when `immutable` is set";
    if *new.immutable() != Some(true) {
        errors.forbidden(new.immutable(), fault);
    }
    for (had, has) in [(old.data(), new.data()), (old.binary_data(), new.binary_data())] {
        if had.json != has.json {
            errors.forbidden(has, fault);
        }
    }
}

pub fn priority_class(value: &Value, errors: &mut Errors) {
    let class = Place::<PriorityClass<'_>>::root(value);
    let (metadata, number) = (class.metadata(), class.value());
    let name = metadata.name();
    if name.starts_with("system-") {
        let fault = match SYSTEM_CLASSES.iter().find(|(system, _)| system == &*name) {
            Some((_, wanted)) if *wanted == *number => None,
            Some((_, wanted)) => Some(format!("value of {} PriorityClass must be {wanted}", *name)),
            None => Some(format!("{} is not a known system priority class", *name)),
        };
        if let Some(fault) = fault {
            let rule = "priority class names with 'system-' prefix are reserved for system use only. error: ";
            errors.forbidden(name, format!("{rule}{fault}"));
        }
    } else if *number > HIGHEST_USER_PRIORITY {
        let fault = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        errors.forbidden(number, fault);
    }
    class.preemption_policy().supported(&["PreemptLowerPriority", "Never"], errors);
}

pub(crate) fn priority_class_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (Place::<PriorityClass<'_>>::root(old), Place::<PriorityClass<'_>>::root(new));
    if *old.value() != *new.value() {
        errors.forbidden(new.value(), "may not be changed in an update.");
    }
    new.preemption_policy().stays(&old.preemption_policy(), errors);
}

pub(crate) fn disruption_budget(value: &Value, errors: &mut Errors) {
    let spec = Place::<PodDisruptionBudgetSpec<'_>>::of_spec(value);
    let (least, most) = (spec.min_available(), spec.max_unavailable());
    if least.is_set() && most.is_set() {
        errors.invalid_at(&spec, "minAvailable and maxUnavailable cannot be both set");
    }
    int_or_percent(&least, errors);
    int_or_percent(&most, errors);
    metadata::selector(&spec.selector(), errors);
    spec.unhealthy_pod_eviction_policy().supported(&["AlwaysAllow", "IfHealthyBudget"], errors);
}
