//! Admission plugins that AKS turns on beside Kubernetes' defaults: node selectors and tolerations of namespaces, and tolerations
//! for extended resources.
//!
//! See <https://learn.microsoft.com/azure/aks/faq>. AKS gives them no configuration of the cluster, so that only annotations of
//! namespaces count.

use std::collections::BTreeSet;

use klab_api_machinery::pod_resources::quality_of_service;
use klab_api_machinery::resource::{NAMESPACES, PODS};
use klab_api_machinery::status::Status;
use klab_cel::names::is_extended_resource;
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
    namespace["metadata"]["annotations"][key].as_str().map(str::to_owned)
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
    let Some(annotation) = annotation(transaction, namespace, NODE_SELECTOR) else { return Ok(()) };
    let mut selector = Map::new();
    for part in annotation.split(',').map(str::trim).filter(|_| !annotation.is_empty()) {
        let (key, value) = part
            .split_once('=')
            .filter(|(_, value)| !value.contains('='))
            .ok_or_else(|| unreadable(format!("invalid selector: [{part}]")))?;
        selector.insert(key.trim().to_owned(), json!(value.trim()));
    }
    let own = pod["spec"]["nodeSelector"].as_object().cloned().unwrap_or_default();
    if own.iter().any(|(key, value)| selector.get(key).is_some_and(|wanted| wanted != value)) {
        let because = "pod node label selector conflicts with its namespace node label selector";
        return Err(forbidden(PODS, pod, because));
    }
    selector.extend(own);
    if !selector.is_empty() {
        pod["spec"]["nodeSelector"] = Value::Object(selector);
    }
    Ok(())
}

/// Gives a new pod the tolerations of its namespace, and one of memory pressure.
// upstream: plugin/pkg/admission/podtolerationrestriction/admission.go Admit, Validate (v1.36)
///
/// # Errors
/// 500 where the namespace does not allow what it tolerates then, as a real API server answers.
pub(super) fn restrict_tolerations(
    transaction: &Transaction<'_>,
    namespace: &str,
    pod: &mut Value,
) -> Result<(), Status> {
    if transaction.state.flavour != Flavour::Aks {
        return Ok(());
    }
    let listed = |key: &str| -> Result<Vec<Value>, Status> {
        let text = annotation(transaction, namespace, key).filter(|text| !text.is_empty());
        text.map_or(Ok(Vec::new()), |text| serde_json::from_str(&text).map_err(|error| unreadable(error.to_string())))
    };
    add_tolerations(pod, listed(DEFAULT_TOLERATIONS)?);
    tolerate_memory_pressure(transaction, pod);
    let allowed = listed(TOLERATIONS_WHITELIST)?;
    let is_allowed = |one: &Value| allowed.is_empty() || allowed.iter().any(|wide| covers(wide, one));
    if !pod["spec"]["tolerations"].as_array().into_iter().flatten().all(is_allowed) {
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

/// Puts tolerations before those of a pod, without those that another one covers.
fn add_tolerations(pod: &mut Value, first: Vec<Value>) {
    let own = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let all = merged(first, own);
    if !all.is_empty() {
        pod["spec"]["tolerations"] = Value::Array(all);
    }
}

/// Has a pod tolerate the taints that are named after the extended resources it requests.
// upstream: plugin/pkg/admission/extendedresourcetoleration/admission.go Admit (v1.36)
pub(super) fn tolerate_extended_resources(transaction: &Transaction<'_>, pod: &mut Value) {
    if transaction.state.flavour != Flavour::Aks {
        return;
    }
    let lists = ["containers", "initContainers"].into_iter().filter_map(|list| pod["spec"][list].as_array());
    let requests = lists.flatten().filter_map(|container| container["resources"]["requests"].as_object());
    let resources: BTreeSet<String> =
        requests.flat_map(Map::keys).filter(|name| is_extended_resource(name)).cloned().collect();
    for resource in resources {
        let toleration = json!({ "key": resource, "operator": "Exists", "effect": "NoSchedule" });
        let tolerations = &mut pod["spec"]["tolerations"];
        match tolerations.as_array_mut() {
            Some(list) if list.contains(&toleration) => {}
            Some(list) => list.push(toleration),
            None => *tolerations = json!([toleration]),
        }
    }
}

/// Two lists as one, without what another of them covers; of equals the first stays.
// upstream: pkg/util/tolerations/tolerations.go MergeTolerations (v1.36)
fn merged(first: Vec<Value>, second: Vec<Value>) -> Vec<Value> {
    let all: Vec<Value> = first.into_iter().chain(second).collect();
    let mut kept: Vec<Value> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let before = kept.iter().any(|wide| covers(wide, one));
        let after = all.iter().skip(at + 1).any(|wide| wide != one && covers(wide, one));
        if !before && !after {
            kept.push(one.clone());
        }
    }
    kept
}

/// Whether a toleration tolerates all that another one does.
// upstream: pkg/util/tolerations/tolerations.go isSuperset (v1.36)
fn covers(wide: &Value, narrow: &Value) -> bool {
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let is_equal = |of: &Value| matches!(of["operator"].as_str(), None | Some("" | "Equal"));
    let (key, effect, exists) = (text(wide, "key"), text(wide, "effect"), wide["operator"] == "Exists");
    let is_key = key == text(narrow, "key") || key.is_empty() && exists;
    let is_effect = effect.is_empty() || effect == text(narrow, "effect");
    let seconds = |of: &Value| of["tolerationSeconds"].as_i64();
    let lasts = |longest: i64| seconds(narrow).is_some_and(|seconds| seconds <= longest);
    let is_long = effect != "NoExecute" || seconds(wide).is_none_or(lasts);
    let is_value = exists || is_equal(wide) && is_equal(narrow) && text(wide, "value") == text(narrow, "value");
    wide == narrow || is_key && is_effect && is_long && is_value
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let longer = json!({ "key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60 });
        let for_ever = json!({ "key": "k", "operator": "Exists", "effect": "NoExecute" });
        assert!(covers(&for_ever, &longer) && !covers(&longer, &for_ever));
    }
}
