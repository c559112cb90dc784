//! Pods are not resized beyond what their node has, nor on nodes that cannot resize.

// upstream: plugin/pkg/admission/podresize/admission.go (v1.36)

use k8s_openapi::api::core::v1::Pod;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{NODES, PODS};
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{self, Node, metadata};
use klab_scheduler::pod_requests;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::typed::Typed;
use serde_json::{Value, json};

use crate::transaction::Transaction;

/// Refuses a resize of a pod that is bound.
pub(super) fn check_resize(transaction: &Transaction<'_>, current: &Object, new: &Value) -> Result<(), Status> {
    let spec = views::Pod(new).spec();
    let name = spec.node_name();
    if name.is_empty() || metadata(&current.value()).generation() == metadata(new).generation() {
        return Ok(());
    }
    let refused = |because: &str| Status::forbidden(PODS.row(), &current.name, because);
    let caused = |because: &str, reason: &str| {
        let mut status = refused(because);
        status.details["causes"] = json!([{ "reason": reason }]);
        status
    };
    let node = transaction.state.store.get(NODES, "", name);
    let node = node.ok_or_else(|| refused(&format!("node {name:?} not found")))?;
    if let Some(system) = node.label("kubernetes.io/os").filter(|system| *system != "linux") {
        let because = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Err(caused(&because, "UnsupportedPlatform"));
    }
    // What it has been given so far does not count.
    let Ok(pod) = Pod::from_value(&json!({ "spec": spec.0 })) else { return Ok(()) };
    let requests = pod_requests(&pod).unwrap_or_default();
    let node = node.value();
    let has = |resource: &str| {
        let text = Node(&node).status().allocatable().get(resource).and_then(Value::as_str);
        text.and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
    };
    let too_much: Vec<String> = ["cpu", "memory"]
        .into_iter()
        .filter_map(|resource| {
            let (wanted, has) = (requests.get(resource).copied().unwrap_or_default(), has(resource));
            let in_units = |amount: Quantity| amount.base_units(resource);
            (wanted > has)
                .then(|| format!("{resource}, requested: {}, allocatable: {}", in_units(wanted), in_units(has)))
        })
        .collect();
    if too_much.is_empty() {
        return Ok(());
    }
    let because = format!("node didn't have enough allocatable resources: {}", too_much.join("; "));
    Err(caused(&because, "NodeCapacity"))
}
