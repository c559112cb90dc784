//! What may change in a pod that exists: images, a few numbers, more tolerations, fewer gates.

// upstream: pkg/apis/core/validation/validation.go ValidatePodUpdate (v1.36)

use serde_json::{Value, json};

use super::field::{entries, text};
use super::{Errors, placement};
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
    for (_, gate) in entries(after, "schedulingGates") {
        if !entries(before, "schedulingGates").any(|(_, had)| had["name"] == gate["name"]) {
            errors.forbidden(
                path.field("schedulingGates"),
                format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "name")),
            );
        }
    }
    if masked(before, after, gated) != *before {
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
    placement::tolerations(after, &path, errors);
    let alike = |left: &Value, right: &Value| {
        ["key", "operator", "value", "effect"].iter().all(|field| left[*field] == right[*field])
    };
    let kept =
        entries(before, "tolerations").all(|(_, had)| entries(after, "tolerations").any(|(_, have)| alike(had, have)));
    if !kept {
        errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
}

/// The new spec with everything that may change set back to what it was.
fn masked(before: &Value, after: &Value, gated: bool) -> Value {
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
    // A gated pod may still be told more narrowly where to go.
    if gated && narrows(&before["nodeSelector"], &after["nodeSelector"]) {
        fields.push("nodeSelector");
    }
    if gated && narrows_affinity(&before["affinity"], &after["affinity"]) {
        fields.push("affinity");
    }
    for field in fields {
        match before.get(field) {
            Some(value) => spec.insert(field.to_owned(), value.clone()),
            None => spec.remove(field),
        };
    }
    masked
}

fn narrows(before: &Value, after: &Value) -> bool {
    before.as_object().into_iter().flatten().all(|(key, value)| after[key.as_str()] == *value)
}

/// Whether only the required node affinity got more conditions.
fn narrows_affinity(before: &Value, after: &Value) -> bool {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let rest = |affinity: &Value| {
        let mut rest = affinity.clone();
        if let Some(node) = rest.get_mut("nodeAffinity").and_then(Value::as_object_mut) {
            node.remove(REQUIRED);
        }
        if rest["nodeAffinity"].as_object().is_some_and(serde_json::Map::is_empty)
            && let Some(map) = rest.as_object_mut()
        {
            map.remove("nodeAffinity");
        }
        if rest.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { rest }
    };
    let terms = |affinity: &Value| affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"].clone();
    let (had, have) = (terms(before), terms(after));
    let within = |had: &Value, have: &Value, field: &str| {
        entries(had, field).all(|(_, one)| entries(have, field).any(|(_, other)| other == one))
    };
    rest(before) == rest(after)
        && match (had.as_array(), have.as_array()) {
            (None, _) => true,
            (Some(had), Some(have)) => {
                had.len() == have.len()
                    && had
                        .iter()
                        .zip(have)
                        .all(|(had, have)| within(had, have, "matchExpressions") && within(had, have, "matchFields"))
            }
            (Some(_), None) => false,
        }
}
