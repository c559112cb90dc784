//! LimitRanges: defaults for containers that do not say, and bounds for all.

// upstream: plugin/pkg/admission/limitranger/admission.go PodMutateLimitFunc, PodValidateLimitFunc (v1.36)

use klab_api_machinery::pod_resources::{Amounts, amounts, pod_total};
use klab_api_machinery::resource::{LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, ResourceId};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::forbidden::forbidden;
use crate::transaction::Transaction;
use klab_scheduler::quantity::Quantity;

fn limit_ranges(transaction: &Transaction<'_>, namespace: &str) -> Vec<Value> {
    transaction.state.store.list(LIMIT_RANGES, Some(namespace)).map(|range| range.to_value()).collect()
}

/// Fills in `default` and `defaultRequest` of the namespace's LimitRanges, and notes it in an annotation.
pub(super) fn add_default_limits(transaction: &Transaction<'_>, namespace: &str, pod: &mut Value) {
    let mut notes: Vec<String> = Vec::new();
    for range in limit_ranges(transaction, namespace) {
        for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
            for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                notes.extend(fill(container, &range, what));
            }
        }
    }
    if !notes.is_empty() {
        pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"] =
            json!(format!("LimitRanger plugin set: {}", notes.join("; ")));
    }
}

/// Refuses a pod or a claim that asks for what no LimitRange of its namespace allows.
///
/// # Errors
/// 403 with the reasons.
pub(crate) fn check_limits(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    value: &Value,
) -> Result<(), Status> {
    let mut faults: Vec<String> = Vec::new();
    for range in limit_ranges(transaction, namespace) {
        for item in range["spec"]["limits"].as_array().into_iter().flatten() {
            if resource == PERSISTENT_VOLUME_CLAIMS {
                if item["type"] == "PersistentVolumeClaim" {
                    check_claim(item, &amounts(&value["spec"]["resources"]["requests"]), &mut faults);
                }
                continue;
            }
            match item["type"].as_str() {
                Some("Container") => {
                    for list in ["containers", "initContainers"] {
                        for container in value["spec"][list].as_array().into_iter().flatten() {
                            let (requests, limits) = (
                                amounts(&container["resources"]["requests"]),
                                amounts(&container["resources"]["limits"]),
                            );
                            check(item, &requests, &limits, &mut faults);
                        }
                    }
                }
                Some("Pod") => check(item, &pod_total(value, "requests"), &pod_total(value, "limits"), &mut faults),
                _ => {}
            }
        }
    }
    match faults.as_slice() {
        [] => Ok(()),
        [one] => Err(forbidden(resource, value, one)),
        many => Err(forbidden(resource, value, &format!("[{}]", many.join(", ")))),
    }
}

/// Fills in what a container leaves open; returns notes like `cpu, memory request for container main`.
fn fill(container: &mut Value, range: &Value, what: &str) -> Vec<String> {
    let mut notes = Vec::new();
    for (field, source, noun) in [("requests", "defaultRequest", "request"), ("limits", "default", "limit")] {
        let mut added: Vec<String> = Vec::new();
        for item in range["spec"]["limits"].as_array().into_iter().flatten().filter(|item| item["type"] == "Container")
        {
            for (name, amount) in item[source].as_object().into_iter().flatten() {
                if container["resources"][field].get(name).is_none() {
                    container["resources"][field][name] = amount.clone();
                    added.push(name.clone());
                }
            }
        }
        if !added.is_empty() {
            added.sort();
            let name = container["name"].as_str().unwrap_or_default();
            notes.push(format!("{} {noun} for {what} {name}", added.join(", ")));
        }
    }
    notes
}

fn check(item: &Value, requests: &Amounts, limits: &Amounts, faults: &mut Vec<String>) {
    let kind = item["type"].as_str().unwrap_or_default();
    for (name, bound) in &amounts(&item["min"]) {
        let start = format!("minimum {name} usage per {kind} is {bound}");
        match (requests.get(name), limits.get(name)) {
            (None, _) => faults.push(format!("{start}.  No request is specified")),
            (Some(request), _) if request < bound => faults.push(format!("{start}, but request is {request}")),
            (_, Some(limit)) if limit < bound => faults.push(format!("{start}, but limit is {limit}")),
            _ => {}
        }
    }
    for (name, bound) in &amounts(&item["max"]) {
        let start = format!("maximum {name} usage per {kind} is {bound}");
        match (limits.get(name), requests.get(name)) {
            (None, _) => faults.push(format!("{start}.  No limit is specified")),
            (Some(limit), _) if limit > bound => faults.push(format!("{start}, but limit is {limit}")),
            (_, Some(request)) if request > bound => faults.push(format!("{start}, but request is {request}")),
            _ => {}
        }
    }
    for (name, bound) in &amounts(&item["maxLimitRequestRatio"]) {
        let start = format!("{name} max limit to request ratio per {kind} is {bound}, but");
        let known = |map: &Amounts| map.get(name).copied().filter(|amount: &Quantity| !amount.is_zero());
        match (known(requests), known(limits)) {
            (None, _) => faults.push(format!("{start} no request is specified or request is 0")),
            (_, None) => faults.push(format!("{start} no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let ratio = limit.as_f64() / request.as_f64();
                if ratio > bound.as_f64() {
                    faults.push(format!("{start} provided ratio is {ratio:.6}"));
                }
            }
        }
    }
}

fn check_claim(item: &Value, requests: &Amounts, faults: &mut Vec<String>) {
    for (field, word) in [("min", "minimum"), ("max", "maximum")] {
        for (name, bound) in &amounts(&item[field]) {
            let start = format!("{word} {name} usage per PersistentVolumeClaim is {bound}");
            match requests.get(name) {
                None => faults.push(format!("{start}.  No request is specified")),
                Some(request) if (field == "min" && request < bound) || (field == "max" && request > bound) => {
                    faults.push(format!("{start}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
}
