//! `matchLabelKeys` and `mismatchLabelKeys`: a new pod's own labels become conditions of its selectors.

// upstream: pkg/registry/core/pod/strategy.go mutatePodAffinity, mutateTopologySpreadConstraints (v1.36)

use serde_json::{Value, json};

/// Adds to the selectors of a new pod what its label keys ask for, those of spread constraints only where `spread` says so.
pub(super) fn merge(pod: &mut Value, spread: bool) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod["spec"].as_object_mut() else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else { continue };
        for preference in entries(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = preference.get_mut("podAffinityTerm") {
                merge_term(term, &labels);
            }
        }
        for term in entries(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_term(term, &labels);
        }
    }
    let constraints = spec.get_mut("topologySpreadConstraints").filter(|_| spread);
    for constraint in constraints.and_then(Value::as_array_mut).into_iter().flatten() {
        merge_term(constraint, &labels);
    }
}

fn entries<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn merge_term(term: &mut Value, labels: &Value) {
    let mut conditions = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term[field].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if let Some(value) = labels[key].as_str() {
                conditions.push(json!({ "key": key, "operator": operator, "values": [value] }));
            }
        }
    }
    if conditions.is_empty() || !term["labelSelector"].is_object() {
        return;
    }
    let have = &mut term["labelSelector"]["matchExpressions"];
    match have.as_array_mut() {
        Some(have) => have.extend(conditions),
        None => *have = Value::Array(conditions),
    }
}
