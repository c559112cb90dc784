//! Kinds that configure others: ConfigMaps, priorities, budgets, definitions.

// upstream: pkg/apis/core/validation/validation.go ValidateConfigMap (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{supported, text};
use super::workload::int_or_percent;
use super::{Errors, Place, metadata};
use crate::schema::Path;

/// Most bytes in a ConfigMap or a Secret.
pub(super) const DATA_LIMIT: usize = 1024 * 1024;
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;
/// The priority classes the cluster itself brings.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub fn config_map(value: &Value, errors: &mut Errors) {
    let mut size = 0;
    for part in ["data", "binaryData"] {
        let path = Path::Root.field(part);
        for (key, content) in value[part].as_object().into_iter().flatten() {
            for fault in names::config_key(key) {
                errors.invalid(path.key(key), &json!(key), fault);
            }
            if part == "binaryData" && value["data"].get(key).is_some() {
                errors.invalid(path.key(key), &json!(key), "duplicate of key present in data");
            }
            size += content.as_str().unwrap_or_default().len();
        }
    }
    if size > DATA_LIMIT {
        errors.too_long("", DATA_LIMIT, "bytes");
    }
}

/// What is marked immutable stays.
pub fn frozen(old: &Value, new: &Value, errors: &mut Errors) {
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        errors.forbidden("immutable", "field is immutable when `immutable` is set");
    }
    for part in ["data", "binaryData"] {
        if old[part] != new[part] {
            errors.forbidden(part, "field is immutable when `immutable` is set");
        }
    }
}

pub fn priority_class(value: &Value, errors: &mut Errors) {
    let name = text(&value["metadata"], "name");
    let number = value["value"].as_i64().unwrap_or_default();
    if name.starts_with("system-") {
        match SYSTEM_CLASSES.iter().find(|(system, _)| *system == name) {
            Some((_, wanted)) if *wanted == number => {}
            Some((_, wanted)) => errors.forbidden(
                "metadata.name",
                format!("priority class names with 'system-' prefix are reserved for system use only. error: value of {name} PriorityClass must be {wanted}"),
            ),
            None => errors.forbidden(
                "metadata.name",
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"),
            ),
        }
    } else if number > HIGHEST_USER_PRIORITY {
        errors
            .forbidden("value", format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"));
    }
    supported(
        &value["preemptionPolicy"],
        &Path::Root.field("preemptionPolicy"),
        &["PreemptLowerPriority", "Never"],
        errors,
    );
}

pub(crate) fn priority_class_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["value"] != new["value"] {
        errors.forbidden("value", "may not be changed in an update.");
    }
    if old["preemptionPolicy"] != new["preemptionPolicy"] {
        errors.invalid("preemptionPolicy", &new["preemptionPolicy"], "field is immutable");
    }
}

pub(crate) fn disruption_budget(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        errors.invalid(path, spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        int_or_percent(&Place::new(path.field(field), &spec[field]), errors);
    }
    metadata::selector(&Place::new(path.field("selector"), &spec["selector"]), errors);
    supported(
        &spec["unhealthyPodEvictionPolicy"],
        &path.field("unhealthyPodEvictionPolicy"),
        &["AlwaysAllow", "IfHealthyBudget"],
        errors,
    );
}
