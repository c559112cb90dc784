//! LimitRanges: defaults for containers that do not say, and bounds for all.

// upstream: plugin/pkg/admission/limitranger/admission.go PodMutateLimitFunc, PodValidateLimitFunc (v1.36)

use std::cmp::Ordering;
use std::sync::Arc;

use klab_api_machinery::pod_resources::{Amounts, amounts, pod_total};
use klab_api_machinery::resource::{LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::forbidden::forbidden;
use crate::transaction::Transaction;
use klab_scheduler::quantity::Quantity;

fn limit_ranges(transaction: &Transaction<'_>, namespace: &str) -> Vec<Arc<Value>> {
    transaction.state.store.list(LIMIT_RANGES, Some(namespace)).map(|range| range.value()).collect()
}

/// Fills in `default` and `defaultRequest` of the namespace's LimitRanges, and notes it in an annotation.
pub(super) fn add_default_limits(transaction: &Transaction<'_>, namespace: &str, pod: &mut Value) {
    let mut notes: Vec<String> = Vec::new();
    for range in limit_ranges(transaction, namespace) {
        for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
            for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                notes.extend(fill(container, LimitRange(&range), what));
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
        for item in LimitRange(&range).spec().limits() {
            if resource == PERSISTENT_VOLUME_CLAIMS {
                if item.type_() == "PersistentVolumeClaim" {
                    let resources = PersistentVolumeClaim(value).spec().resources();
                    check_claim(item, &amounts(resources.requests()), &mut faults);
                }
                continue;
            }
            let spec = Pod(value).spec();
            match item.type_() {
                "Container" => {
                    for container in spec.containers().chain(spec.init_containers()) {
                        let resources = container.resources();
                        check(item, &amounts(resources.requests()), &amounts(resources.limits()), &mut faults);
                    }
                }
                "Pod" => check(item, &pod_total(value, "requests"), &pod_total(value, "limits"), &mut faults),
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
fn fill(container: &mut Value, range: LimitRange<'_>, what: &str) -> Vec<String> {
    let mut notes = Vec::new();
    for (field, noun) in [("requests", "request"), ("limits", "limit")] {
        let mut added: Vec<&str> = Vec::new();
        for item in range.spec().limits().filter(|item| item.type_() == "Container") {
            let given = if noun == "limit" { item.default() } else { item.default_request() };
            for (name, amount) in given.iter() {
                if container["resources"][field].get(name).is_none() {
                    container["resources"][field][name] = amount.clone();
                    added.push(name);
                }
            }
        }
        if !added.is_empty() {
            added.sort_unstable();
            notes.push(format!("{} {noun} for {what} {}", added.join(", "), Container(container).name()));
        }
    }
    notes
}

fn check(item: LimitRangeItem<'_>, requests: &Amounts, limits: &Amounts, faults: &mut Vec<String>) {
    let kind = item.type_();
    for (name, bound) in &amounts(item.min()) {
        let start = format!("minimum {name} usage per {kind} is {bound}");
        match (requests.get(name), limits.get(name)) {
            (None, _) => faults.push(format!("{start}.  No request is specified")),
            (Some(request), _) if request < bound => faults.push(format!("{start}, but request is {request}")),
            (_, Some(limit)) if limit < bound => faults.push(format!("{start}, but limit is {limit}")),
            _ => {}
        }
    }
    for (name, bound) in &amounts(item.max()) {
        let start = format!("maximum {name} usage per {kind} is {bound}");
        match (limits.get(name), requests.get(name)) {
            (None, _) => faults.push(format!("{start}.  No limit is specified")),
            (Some(limit), _) if limit > bound => faults.push(format!("{start}, but limit is {limit}")),
            (_, Some(request)) if request > bound => faults.push(format!("{start}, but request is {request}")),
            _ => {}
        }
    }
    for (name, bound) in &amounts(item.max_limit_request_ratio()) {
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

fn check_claim(item: LimitRangeItem<'_>, requests: &Amounts, faults: &mut Vec<String>) {
    let (less, more) = (Ordering::Less, Ordering::Greater);
    for (bounds, word, beyond) in [(item.min(), "minimum", less), (item.max(), "maximum", more)] {
        for (name, bound) in &amounts(bounds) {
            let start = format!("{word} {name} usage per PersistentVolumeClaim is {bound}");
            match requests.get(name) {
                None => faults.push(format!("{start}.  No request is specified")),
                Some(request) if request.cmp(bound) == beyond => {
                    faults.push(format!("{start}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
}
