//! Admission plugins that AKS turns on beside Kubernetes' defaults: node selectors and tolerations of namespaces, and tolerations
//! for extended resources.
//!
//! See <https://learn.microsoft.com/azure/aks/faq>. AKS gives them no configuration of the cluster, so that only annotations of
//! namespaces count.

use std::collections::BTreeSet;

use klab_api_machinery::pod_resources::quality_of_service;
use klab_api_machinery::resource::{NAMESPACES, PODS};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::list_mut;
use klab_api_machinery::views::{Pod, Toleration, metadata};
use klab_cel::names::{self, is_extended_resource};
use serde_json::{Map, Value, json};

use super::forbidden::forbidden;
use crate::flavour::Flavour;
use crate::transaction::Transaction;

const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";
const DEFAULT_TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const TOLERATIONS_WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

/// An annotation of the namespace of a new pod.
fn annotation(transaction: &Transaction<'_>, namespace: &str, key: &str) -> Option<String> {
    if transaction.state.flavour != Flavour::Aks {
        return None;
    }
    let namespace = transaction.state.store.get(NAMESPACES, "", namespace)?.value();
    metadata(&namespace).annotations().get(key).map(str::to_owned)
}

/// What is refused for an annotation that cannot be read: an error that is no answer of the API.
fn unreadable(because: String) -> Status {
    Status::new(500, "", because)
}

/// Gives a new pod the node selector of its namespace.
// upstream: plugin/pkg/admission/podnodeselector/admission.go Admit (v1.36)
///
/// # Errors
/// 403 where the pod asks for another value of a label.
pub(super) fn select_nodes(transaction: &Transaction<'_>, namespace: &str, pod: &mut Value) -> Result<(), Status> {
    let mut selector = selector_without_conflict(transaction, namespace, pod)?;
    selector.extend(Pod(pod).spec().node_selector().iter().map(|(key, value)| (key.to_owned(), json!(value))));
    if !selector.is_empty() {
        pod["spec"]["nodeSelector"] = Value::Object(selector);
    }
    Ok(())
}

/// The node selector of the namespace.
///
/// # Errors
/// 403 where the pod asks for another value of a label; 500 where it cannot be read.
fn selector_without_conflict(
    transaction: &Transaction<'_>,
    namespace: &str,
    pod: &Value,
) -> Result<Map<String, Value>, Status> {
    let Some(annotation) = annotation(transaction, namespace, NODE_SELECTOR) else { return Ok(Map::new()) };
    let selector = labels(&annotation).map_err(unreadable)?;
    let mut own = Pod(pod).spec().node_selector().iter();
    if own.any(|(key, value)| selector.get(key).is_some_and(|wanted| wanted != value)) {
        let because = "pod node label selector conflicts with its namespace node label selector";
        return Err(forbidden(PODS, pod, because));
    }
    Ok(selector)
}

/// Labels as `key=value, …`.
// upstream: staging/src/k8s.io/apimachinery/pkg/labels/labels.go ConvertSelectorToLabelsMap (v1.36)
fn labels(text: &str) -> Result<Map<String, Value>, String> {
    let mut labels = Map::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let words: Vec<&str> = part.split('=').collect();
        let [key, value] = words.as_slice() else { return Err(format!("invalid selector: [{}]", words.join(" "))) };
        let (key, value) = (key.trim(), value.trim());
        // A path that upstream does not give is none to Go, and one that a key is added to has the key alone.
        for (path, text, faults) in
            [("<nil>".to_owned(), key, names::qualified(key)), (format!("[{key}]"), value, names::label_value(value))]
        {
            if !faults.is_empty() {
                return Err(format!("{path}: Invalid value: {text:?}: {}", faults.join("; ")));
            }
        }
        labels.insert(key.to_owned(), json!(value));
    }
    Ok(labels)
}

/// Gives a new pod the tolerations of its namespace, and one of memory pressure.
// upstream: plugin/pkg/admission/podtolerationrestriction/admission.go Admit (v1.36)
///
/// # Errors
/// As [`check_tolerations`].
pub(super) fn restrict_tolerations(
    transaction: &Transaction<'_>,
    namespace: &str,
    pod: &mut Value,
) -> Result<(), Status> {
    if transaction.state.flavour != Flavour::Aks {
        return Ok(());
    }
    add_tolerations(pod, tolerations(transaction, namespace, DEFAULT_TOLERATIONS)?);
    tolerate_memory_pressure(transaction, pod);
    check_tolerations(transaction, namespace, pod)
}

/// The tolerations that an annotation of a namespace lists.
fn tolerations(transaction: &Transaction<'_>, namespace: &str, key: &str) -> Result<Vec<Value>, Status> {
    let text = annotation(transaction, namespace, key).filter(|text| !text.is_empty());
    text.map_or(Ok(Vec::new()), |text| serde_json::from_str(&text).map_err(|error| unreadable(error.to_string())))
}

/// Holds a pod against its namespace once every plugin and webhook has changed it.
// upstream: plugin/pkg/admission/podnodeselector/admission.go Validate (v1.36)
///
/// # Errors
/// 403 for the node selector of a new pod, 500 for its tolerations.
pub(crate) fn check_pod(
    transaction: &Transaction<'_>,
    namespace: &str,
    is_new: bool,
    pod: &Value,
) -> Result<(), Status> {
    if is_new {
        selector_without_conflict(transaction, namespace, pod)?;
    }
    check_tolerations(transaction, namespace, pod)
}

/// Holds the tolerations of a pod against those that its namespace allows.
// upstream: plugin/pkg/admission/podtolerationrestriction/admission.go Validate (v1.36)
///
/// # Errors
/// 500 where one of them is not allowed, as a real API server answers.
fn check_tolerations(transaction: &Transaction<'_>, namespace: &str, pod: &Value) -> Result<(), Status> {
    let allowed = tolerations(transaction, namespace, TOLERATIONS_WHITELIST)?;
    let is_allowed =
        |one: Toleration<'_>| allowed.is_empty() || allowed.iter().any(|wide| covers(Toleration(wide), one));
    if !Pod(pod).spec().tolerations().all(is_allowed) {
        let because = "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace \
                       whitelist";
        return Err(unreadable(because.to_owned()));
    }
    Ok(())
}

/// Has a pod tolerate memory pressure, unless it is of the class `BestEffort`.
pub(super) fn tolerate_memory_pressure(transaction: &Transaction<'_>, pod: &mut Value) {
    if transaction.state.flavour == Flavour::Aks && quality_of_service(pod) != "BestEffort" {
        add_tolerations(pod, vec![json!({ "key": MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule" })]);
    }
}

/// Puts tolerations after those of a pod, without those that another one covers.
fn add_tolerations(pod: &mut Value, more: Vec<Value>) {
    if !more.is_empty() {
        let own = Pod(pod).spec().tolerations().map(|one| one.0.clone()).collect();
        pod["spec"]["tolerations"] = Value::Array(merged(own, more));
    }
}

/// Has a pod tolerate the taints that are named after the extended resources it requests.
// upstream: plugin/pkg/admission/extendedresourcetoleration/admission.go Admit (v1.36)
pub(super) fn tolerate_extended_resources(transaction: &Transaction<'_>, pod: &mut Value) {
    if transaction.state.flavour != Flavour::Aks {
        return;
    }
    let containers = Pod(pod).spec().containers().chain(Pod(pod).spec().init_containers());
    let requests = containers.flat_map(|container| container.resources().requests().iter());
    let resources: BTreeSet<String> =
        requests.filter(|(name, _)| is_extended_resource(name)).map(|(name, _)| name.to_owned()).collect();
    for resource in resources {
        let toleration = json!({ "key": resource, "operator": "Exists", "effect": "NoSchedule" });
        let tolerations = list_mut(&mut pod["spec"]["tolerations"]);
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
}

/// Two lists as one, without what another of them covers; of equals the first stays.
// upstream: pkg/util/tolerations/tolerations.go MergeTolerations (v1.36)
fn merged(first: Vec<Value>, second: Vec<Value>) -> Vec<Value> {
    let all: Vec<Value> = first.into_iter().chain(second).collect();
    let mut kept: Vec<Value> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let covers = |wide: &Value| covers(Toleration(wide), Toleration(one));
        let before = kept.iter().any(covers);
        let after = all.iter().skip(at + 1).any(|wide| wide != one && covers(wide));
        if !before && !after {
            kept.push(one.clone());
        }
    }
    kept
}

/// Whether a toleration tolerates all that another one does.
// upstream: pkg/util/tolerations/tolerations.go isSuperset (v1.36)
fn covers(wide: Toleration<'_>, narrow: Toleration<'_>) -> bool {
    // No operator means Equal in the wider one alone.
    let is_equal = ["", "Equal"].contains(&wide.operator()) && narrow.operator() == "Equal";
    let (key, effect, exists) = (wide.key(), wide.effect(), wide.operator() == "Exists");
    let is_key = key == narrow.key() || key.is_empty() && exists;
    let is_effect = effect.is_empty() || effect == narrow.effect();
    let lasts = |longest: i64| narrow.toleration_seconds().is_some_and(|seconds| seconds <= longest);
    let is_long = effect != "NoExecute" || wide.toleration_seconds().is_none_or(lasts);
    let is_value = exists || is_equal && wide.value() == narrow.value();
    wide == narrow || is_key && is_effect && is_long && is_value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_namespace_are_refused_in_upstreams_words() {
        assert_eq!(labels(" infra = false ,a=").unwrap(), *json!({ "infra": "false", "a": "" }).as_object().unwrap());
        assert_eq!(labels("").unwrap(), Map::new());
        for (text, begins) in [
            ("disk", "invalid selector: [disk]"),
            ("a=b=c", "invalid selector: [a b c]"),
            ("a=b,", "invalid selector: []"),
            ("=b", "<nil>: Invalid value: \"\": name part must be non-empty; name part must consist of"),
            ("a=b c", "[a]: Invalid value: \"b c\": a valid label must be an empty string or consist of"),
        ] {
            let words = labels(text).unwrap_err();
            assert!(words.starts_with(begins), "{text}: {words}");
        }
    }

    #[test]
    fn a_toleration_that_another_covers_is_not_kept() {
        let of = |key: &str, operator: &str, value: &str, effect: &str| {
            let mut one = json!({ "key": key, "operator": operator });
            for (field, text) in [("value", value), ("effect", effect)] {
                if !text.is_empty() {
                    one[field] = json!(text);
                }
            }
            one
        };
        let gpu = of("sku", "Equal", "gpu", "NoSchedule");
        for (first, second, wanted) in [
            (vec![gpu.clone()], vec![gpu.clone()], vec![gpu.clone()]),
            (vec![of("sku", "Exists", "", "")], vec![gpu.clone()], vec![of("sku", "Exists", "", "")]),
            (vec![gpu.clone()], vec![of("", "Exists", "", "")], vec![of("", "Exists", "", "")]),
            (
                vec![gpu.clone()],
                vec![of("sku", "Equal", "cpu", "NoSchedule")],
                vec![gpu.clone(), of("sku", "Equal", "cpu", "NoSchedule")],
            ),
        ] {
            assert_eq!(merged(first, second), wanted);
        }
        let covers = |wide: &Value, narrow: &Value| covers(Toleration(wide), Toleration(narrow));
        let longer = json!({ "key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60 });
        let unsaid = json!({ "key": "sku", "value": "gpu", "effect": "NoSchedule" });
        assert!(covers(&unsaid, &gpu) && covers(&unsaid, &unsaid) && !covers(&gpu, &unsaid));
        let for_ever = json!({ "key": "k", "operator": "Exists", "effect": "NoExecute" });
        assert!(covers(&for_ever, &longer) && !covers(&longer, &for_ever));
    }
}
