//! What may change in a pod that exists: images, a few numbers, more tolerations, fewer gates.

// upstream: pkg/apis/core/validation/validation.go ValidatePodUpdate (v1.36)

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::devices::{node_selector_term, node_selector_terms};
use super::field::{entries, text};
use super::{Errors, Place, placement};
use crate::schema::Path;

const FORBIDDEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(crate) fn check(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after) = (&old["spec"], &new["spec"]);
    if before == after {
        return;
    }
    let path = Path::Root.field("spec");
    for list in ["containers", "initContainers"] {
        let count = |spec: &Value| spec[list].as_array().map_or(0, Vec::len);
        if count(before) != count(after) {
            let what = if list == "containers" { "containers" } else { "initContainers" };
            errors.forbidden(path.field(list), format!("pod updates may not add or remove {what}"));
            return;
        }
        for (at, container) in entries(after, list) {
            let image = text(container, "image");
            if image.is_empty() {
                errors.required(path.field(list).index(at).field("image"), "");
            } else if image != image.trim() {
                let place = path.field(list);
                errors.invalid(
                    place.index(at).field("image"),
                    &container["image"],
                    "must not have leading or trailing whitespace",
                );
            }
        }
    }
    deadline(before, after, &path, errors);
    tolerations(before, after, &path, errors);
    let gated = entries(before, "schedulingGates").next().is_some();
    let had: HashSet<&Value> = entries(before, "schedulingGates").map(|(_, gate)| &gate["name"]).collect();
    for (_, gate) in entries(after, "schedulingGates") {
        if !had.contains(&gate["name"]) {
            errors.forbidden(
                path.field("schedulingGates"),
                format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "name")),
            );
        }
    }
    let mut masked = masked(before, after);
    if gated {
        direction(before, &mut masked, &path, errors);
    }
    if masked != *before {
        errors.forbidden(path, FORBIDDEN);
    }
}

fn deadline(before: &Value, after: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.field("activeDeadlineSeconds");
    match (before["activeDeadlineSeconds"].as_i64(), after["activeDeadlineSeconds"].as_i64()) {
        (Some(had), Some(have)) if have > had => {
            errors.invalid(path, &json!(have), "must be less than or equal to previous value");
        }
        (Some(_), None) => {
            errors.invalid(path, &Value::Null, "must not update from a positive integer to nil value");
        }
        (_, Some(have)) if have < 0 => errors.invalid(path, &json!(have), "must be greater than or equal to 0"),
        _ => {}
    }
}

fn tolerations(before: &Value, after: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.field("tolerations");
    placement::tolerations(&Place::new(path, &after["tolerations"]), errors);
    let have: HashSet<_> = entries(after, "tolerations").map(identity).collect();
    if !entries(before, "tolerations").map(identity).all(|had| have.contains(&had)) {
        errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
}

/// What tells a toleration from others.
fn identity((_, toleration): (usize, &Value)) -> [&Value; 4] {
    ["key", "operator", "value", "effect"].map(|field| &toleration[field])
}

/// The new spec with everything that may change set back to what it was.
fn masked(before: &Value, after: &Value) -> Value {
    let mut masked = after.clone();
    let Some(spec) = masked.as_object_mut() else { return masked };
    for list in ["containers", "initContainers"] {
        for (at, container) in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
            container["image"] = before[list][at]["image"].clone();
        }
    }
    let mut fields = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if before["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0)
        && after["terminationGracePeriodSeconds"] == 1
    {
        fields.push("terminationGracePeriodSeconds");
    }
    for field in fields {
        set_back(spec, field, &before[field]);
    }
    masked
}

fn set_back(object: &mut Map<String, Value>, field: &str, value: &Value) {
    if value.is_null() {
        object.remove(field);
    } else {
        object.insert(field.to_owned(), value.clone());
    }
}

/// Where a gated pod goes may be said more narrowly. Sets back what was judged here.
// upstream: pkg/apis/core/validation/validation.go validateNodeSelectorMutation, validateNodeAffinityMutation (v1.36)
fn direction(before: &Value, after: &mut Value, path: &Path<'_>, errors: &mut Errors) {
    let (had, have) = (&before["nodeSelector"], &after["nodeSelector"]);
    if had.as_object().into_iter().flatten().any(|(key, value)| have[key.as_str()] != *value) {
        let have = if have.is_null() { json!({}) } else { have.clone() };
        let fault = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(path.field("nodeSelector"), &have, fault);
    }
    let affinity = path.field("affinity");
    let affinity = affinity.field("nodeAffinity");
    required_terms(&before["affinity"]["nodeAffinity"], &after["affinity"]["nodeAffinity"], &affinity, errors);
    let Some(spec) = after.as_object_mut() else { return };
    set_back(spec, "nodeSelector", had);
    let mut rest = spec.get("affinity").and_then(Value::as_object).cloned().unwrap_or_default();
    set_back(&mut rest, "nodeAffinity", &before["affinity"]["nodeAffinity"]);
    let was_given = !before["affinity"].is_null();
    set_back(spec, "affinity", &if rest.is_empty() && !was_given { Value::Null } else { Value::Object(rest) });
}

fn required_terms(before: &Value, after: &Value, path: &Path<'_>, errors: &mut Errors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |affinity: &Value| affinity[REQUIRED]["nodeSelectorTerms"].as_array().cloned().unwrap_or_default();
    let (had, have) = (terms(before), terms(after));
    let path = path.field(REQUIRED);
    let path = path.field("nodeSelectorTerms");
    if !had.is_empty() && had.len() != have.len() {
        let fault = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid_as(path, &node_selector_terms(&have), fault);
    }
    for (at, (had, have)) in had.iter().zip(&have).enumerate() {
        if had != have && !only_adds(had, have) {
            let fault = "only additions are allowed (no mutations or deletions)";
            errors.invalid_as(path.index(at), &node_selector_term(have), fault);
        }
    }
}

/// Whether a term has the conditions that it had, in their order, and perhaps more. Without any, it selects nothing.
fn only_adds(before: &Value, after: &Value) -> bool {
    let list = |term: &Value, field: &str| term[field].as_array().cloned().unwrap_or_default();
    let fields = ["matchExpressions", "matchFields"].map(|field| (list(before, field), list(after, field)));
    fields.iter().any(|(had, _)| !had.is_empty()) && fields.iter().all(|(had, have)| have.starts_with(had))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(before: &Value, after: &Value) -> Vec<String> {
        let spec = |more: &Value| {
            let mut spec =
                json!({ "containers": [{ "name": "c", "image": "i" }], "schedulingGates": [{ "name": "g" }] });
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "spec": spec })
        };
        let mut errors = Errors::default();
        check(&spec(before), &spec(after), &mut errors);
        errors.texts()
    }

    fn required(terms: &Value) -> Value {
        let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
        json!({ "affinity": { "nodeAffinity": required } })
    }

    #[test]
    fn a_gated_pod_may_be_sent_to_fewer_nodes_only() {
        let selector = |labels: Value| json!({ "nodeSelector": labels });
        let had = selector(json!({ "disk": "ssd" }));
        assert!(faults(&had, &selector(json!({ "disk": "ssd", "zone": "a" }))).is_empty());
        let only = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        for changed in [json!({ "disk": "hdd" }), json!({})] {
            assert_eq!(
                faults(&had, &selector(changed.clone())),
                [format!("spec.nodeSelector: Invalid value: {changed}: {only}")]
            );
        }
        let term =
            |values: &[&str]| json!({ "matchExpressions": [{ "key": "disk", "operator": "In", "values": values }] });
        let wider = json!({ "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["ssd"] }, { "key": "gpu", "operator": "Exists" }] });
        let had = required(&json!([term(&["ssd"])]));
        assert!(faults(&had, &required(&json!([wider]))).is_empty());
        assert!(faults(&json!({}), &had).is_empty(), "anything where nothing was said");
        let place = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        let shown =
            "{\"MatchExpressions\":[{\"Key\":\"disk\",\"Operator\":\"In\",\"Values\":[\"hdd\"]}],\"MatchFields\":null}";
        assert_eq!(
            faults(&had, &required(&json!([term(&["hdd"])]))),
            [format!("{place}[0]: Invalid value: {shown}: only additions are allowed (no mutations or deletions)")]
        );
        assert_eq!(
            faults(&had, &json!({ "affinity": {} })),
            [format!(
                "{place}: Invalid value: null: no additions/deletions to non-empty NodeSelectorTerms list are allowed"
            )]
        );
        let other = json!({ "affinity": { "podAffinity": {} } });
        assert!(
            faults(&json!({}), &other)[0].starts_with("spec: Forbidden: pod updates may not change"),
            "no other rule"
        );
    }
}
