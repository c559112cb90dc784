//! What may change in a pod that exists: images, a few numbers, more tolerations, fewer gates.

// upstream: pkg/apis/core/validation/validation.go ValidatePodUpdate (v1.36)

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::devices::{node_selector_term, node_selector_terms};
use super::{Errors, Place, container, placement};
use crate::views::{NodeSelector, NodeSelectorTerm, Pod, PodSchedulingGate, PodSpec, Toleration, Views};

const FORBIDDEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(crate) fn check(old: &Value, new: &Value, errors: &mut Errors) {
    let pod = Place::<Pod<'_>>::root(new);
    let (before, spec) = (Pod(old).spec(), pod.spec());
    if before == *spec {
        return;
    }
    for (had, list) in [(before.containers(), spec.containers()), (before.init_containers(), spec.init_containers())] {
        if had.len() != list.len() {
            let fault = format!("pod updates may not add or remove {}", list.field_name());
            return errors.forbidden(&list, fault);
        }
        for container in list.each() {
            container.image().needed(errors);
            container::image(&container, errors);
        }
    }
    deadline(before.active_deadline_seconds(), &spec.active_deadline_seconds(), errors);
    tolerations(before, &spec.tolerations(), errors);
    let gates = spec.scheduling_gates();
    let had: HashSet<&str> = before.scheduling_gates().map(PodSchedulingGate::name).collect();
    for name in Views::clone(&gates).map(PodSchedulingGate::name).filter(|name| !had.contains(name)) {
        errors.forbidden(&gates, format!("only deletion is allowed, but found new scheduling gate '{name}'"));
    }
    let mut masked = masked(before, *spec);
    if !had.is_empty() {
        direction(before, &spec, &mut masked, errors);
    }
    if masked != *before.0 {
        errors.forbidden(spec, FORBIDDEN);
    }
}

fn deadline(had: Option<i64>, seconds: &Place<'_, Option<i64>>, errors: &mut Errors) {
    match (had, **seconds) {
        (Some(had), Some(has)) if has > had => {
            errors.invalid_at(seconds, "must be less than or equal to previous value");
        }
        (Some(_), None) => errors.invalid_at(seconds, "must not update from a positive integer to nil value"),
        _ => seconds.not_negative(errors),
    }
}

fn tolerations<'a>(before: PodSpec<'_>, list: &Place<'_, Views<'a, Toleration<'a>>>, errors: &mut Errors) {
    placement::tolerations(list, errors);
    let has: HashSet<_> = Views::clone(list).map(Toleration::identity).collect();
    if !before.tolerations().map(Toleration::identity).all(|had| has.contains(&had)) {
        errors.forbidden(list, "existing toleration can not be modified except its tolerationSeconds");
    }
}

/// The new spec with everything that may change set back to what it was.
fn masked(before: PodSpec<'_>, after: PodSpec<'_>) -> Value {
    let mut masked = after.0.clone();
    let Some(spec) = masked.as_object_mut() else { return masked };
    for list in ["containers", "initContainers"] {
        for (at, container) in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
            container["image"] = before.0[list][at]["image"].clone();
        }
    }
    let is_mended = before.termination_grace_period_seconds().is_some_and(|seconds| seconds < 0)
        && after.termination_grace_period_seconds() == Some(1);
    let grace = is_mended.then_some("terminationGracePeriodSeconds");
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"].into_iter().chain(grace) {
        set_back(spec, field, &before.0[field]);
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
fn direction(before: PodSpec<'_>, spec: &Place<'_, PodSpec<'_>>, masked: &mut Value, errors: &mut Errors) {
    let (selector, affinity) = (spec.node_selector(), spec.affinity());
    if before.node_selector().iter().any(|(key, value)| selector.get(key) != Some(value)) {
        let shown = if selector.is_set() { selector.json.clone() } else { json!({}) };
        let fault = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(selector, &shown, fault);
    }
    let (had, has) = (before.affinity().node_affinity(), affinity.node_affinity());
    let required = has.required_during_scheduling_ignored_during_execution();
    required_terms(had.required_during_scheduling_ignored_during_execution(), &required, errors);
    let Some(spec) = masked.as_object_mut() else { return };
    set_back(spec, "nodeSelector", &before.0["nodeSelector"]);
    let mut rest = spec.get("affinity").and_then(Value::as_object).cloned().unwrap_or_default();
    set_back(&mut rest, "nodeAffinity", had.0);
    let is_none = rest.is_empty() && !before.affinity().is_set();
    set_back(spec, "affinity", &if is_none { Value::Null } else { Value::Object(rest) });
}

fn required_terms(before: NodeSelector<'_>, after: &Place<'_, NodeSelector<'_>>, errors: &mut Errors) {
    let (had, has) = (before.node_selector_terms(), after.node_selector_terms());
    if !had.is_empty() && had.len() != has.len() {
        let fault = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid_as(&has, &node_selector_terms(**after), fault);
    }
    for (_, has) in had.zip(has.each()).filter(|(had, has)| had != &**has && !only_adds(*had, **has)) {
        let fault = "only additions are allowed (no mutations or deletions)";
        errors.invalid_as(has, &node_selector_term(*has), fault);
    }
}

/// Whether a term has the conditions that it had, in their order, and perhaps more. Without any, it selects nothing.
fn only_adds(before: NodeSelectorTerm<'_>, after: NodeSelectorTerm<'_>) -> bool {
    let (labels, fields) = (before.match_expressions(), before.match_fields());
    let is_any = !labels.is_empty() || !fields.is_empty();
    let begins =
        |had: Views<'_, _>, has: Views<'_, _>| had.len() <= has.len() && had.zip(has).all(|(had, has)| had == has);
    is_any && begins(labels, after.match_expressions()) && begins(fields, after.match_fields())
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
