//! Writes through subresources: binding, eviction, scale.

use std::sync::Arc;

use klab_api_machinery::custom::Definition;
use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::{self as kinds, POD_DISRUPTION_BUDGETS, PODS, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::{condition_is_true, selector_terms, time_text};
use klab_scheduler::selector::Selector;
use serde_json::{Value, json};

use super::commit::commit;
use super::delete::delete_considered;
use super::write::write_over;
use crate::admission::pods::copy_topology;
use crate::admission::{Deed, consider, is_asked};
use crate::custom_versions::{in_own_version, live};
use crate::dynamic_admission::Operation;
use crate::patch::ScaleManagers;
use crate::transaction::{DeleteOptions, Deleted, Transaction};

/// How many evicted pods a budget may wait for.
const MAX_DISRUPTED_PODS: usize = 2000;

/// What becomes of a Scale.
pub(crate) type ScaleChange<'a> =
    dyn Fn(&mut Transaction<'_>, Value, &mut ScaleManagers<'_>) -> Result<Value, Status> + 'a;

pub(crate) fn bind(
    transaction: &mut Transaction<'_>,
    namespace: &str,
    name: &str,
    node: &str,
) -> Result<Arc<Object>, Status> {
    let pod = transaction.existing(PODS, namespace, name)?;
    let old = pod.value();
    let refused = |because: String| {
        let mut status = Status::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on pods/binding \"{name}\": {because}"),
        );
        status.details = json!({ "name": name, "kind": "pods/binding" });
        Err(status)
    };
    if pod.deleting {
        return refused(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(bound) = old["spec"]["nodeName"].as_str().filter(|bound| !bound.is_empty()) {
        return refused(format!("pod {name} is already assigned to node \"{bound}\""));
    }
    if old["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return refused(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    if is_asked(transaction, PODS) {
        let binding = json!({
            "kind": "Binding", "apiVersion": "v1", "metadata": { "name": name, "namespace": namespace },
            "target": { "kind": "Node", "name": node },
        });
        let deed = Deed {
            operation: Operation::Create,
            resource: PODS,
            subresource: "binding",
            namespace,
            name,
            kind: Some(("", "v1", "Binding")),
            old: None,
        };
        consider(transaction, &deed, Some(&binding))?;
    }
    let mut new = (*old).clone();
    new["spec"]["nodeName"] = json!(node);
    copy_topology(transaction, node, &mut new);
    // The pod has its node, so none is kept for it any longer.
    new["status"].as_object_mut().map(|status| status.remove("nominatedNodeName"));
    let now = time_text(transaction.now);
    set_condition(&mut new["status"], "PodScheduled", |condition| {
        if condition["status"] != "True" {
            condition["lastTransitionTime"] = json!(now);
        }
        condition["status"] = json!("True");
        condition["lastProbeTime"] = Value::Null;
        for field in ["observedGeneration", "reason", "message"] {
            condition.as_object_mut().map(|condition| condition.remove(field));
        }
    });
    // The node name is no change a client made, so `metadata.generation` stays.
    Ok(commit(transaction, PODS, new))
}

pub(crate) fn evict(
    transaction: &mut Transaction<'_>,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    let pod = transaction.existing(PODS, namespace, name)?;
    let value = pod.value();
    if is_asked(transaction, PODS) {
        let eviction = json!({
            "kind": "Eviction", "apiVersion": "policy/v1", "metadata": { "name": name, "namespace": namespace },
        });
        let deed = Deed {
            operation: Operation::Create,
            resource: PODS,
            subresource: "eviction",
            namespace,
            name,
            kind: Some(("policy", "v1", "Eviction")),
            old: None,
        };
        consider(transaction, &deed, Some(&eviction))?;
    }
    let phase = value["status"]["phase"].as_str().unwrap_or_default();
    if !pod.deleting && !matches!(phase, "Succeeded" | "Failed" | "Pending") {
        charge_budget(transaction, &pod, &value)?;
    }
    if !pod.deleting && !options.dry_run {
        let mut marked = (*value).clone();
        let now = time_text(transaction.now);
        let observed = marked["metadata"]["generation"].clone();
        set_condition(&mut marked["status"], "DisruptionTarget", |condition| {
            *condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now,
                "observedGeneration": observed,
            });
        });
        commit(transaction, PODS, marked);
    }
    delete_considered(transaction, PODS, namespace, name, options)
}

/// Takes the pod from the budget that covers it, or answers why that is not possible.
fn charge_budget(transaction: &mut Transaction<'_>, pod: &Arc<Object>, value: &Value) -> Result<(), Status> {
    let covering: Vec<Arc<Object>> = transaction
        .state
        .store
        .list(POD_DISRUPTION_BUDGETS, Some(&pod.namespace))
        .filter(|budget| Selector::from_json(&budget.value()["spec"]["selector"]).matches_by(|key| pod.label(key)))
        .cloned()
        .collect();
    let budget = match covering.as_slice() {
        [] => return Ok(()),
        [one] => Arc::clone(one),
        _ => {
            return Err(Status::new(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let mut changed = budget.to_value();
    let number = |field: &str| changed["status"][field].as_i64().unwrap_or_default();
    let (healthy, desired, allowed) =
        (number("currentHealthy"), number("desiredHealthy"), number("disruptionsAllowed"));
    if !condition_is_true(&value["status"]["conditions"], "Ready") {
        let always = changed["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        if always || (desired > 0 && healthy >= desired) {
            return Ok(());
        }
    }
    let name = &budget.name;
    let generation = changed["metadata"]["generation"].as_i64().unwrap_or_default();
    if number("observedGeneration") < generation {
        return Err(too_many(format!("The disruption budget {name} is still being processed by the server.")));
    }
    if changed["status"]["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        return Err(Status::forbidden(
            POD_DISRUPTION_BUDGETS.row(),
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed <= 0 {
        return Err(too_many(format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )));
    }
    changed["status"]["disruptionsAllowed"] = json!(allowed - 1);
    changed["status"]["disruptedPods"][pod.name.as_ref()] = json!(time_text(transaction.now));
    if allowed == 1 {
        let now = time_text(transaction.now);
        set_condition(&mut changed["status"], "DisruptionAllowed", |condition| {
            condition["status"] = json!("False");
            condition["reason"] = json!("InsufficientPods");
            condition["message"] = json!("");
            condition["observedGeneration"] = json!(generation);
            condition["lastTransitionTime"] = json!(now);
        });
    }
    commit(transaction, POD_DISRUPTION_BUDGETS, changed);
    Ok(())
}

pub(crate) fn scale(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    name: &str,
    change: &ScaleChange<'_>,
) -> Result<Value, Status> {
    let row = resource.row();
    let definition = transaction.state.definitions.of(&transaction.state.store, resource);
    let paths = ScalePaths::of(resource, definition.as_deref()).ok_or_else(no_scale)?;
    let current = live(transaction, resource, namespace, name)?;
    let old = current.value();
    let before = scale_of(resource, &paths, &old);
    let mut managers = ScaleManagers::of(&current, transaction.writer(resource, Part::Main), &paths.spec);
    let scale = change(transaction, before.clone(), &mut managers)?;
    if is_asked(transaction, resource) {
        let deed = Deed {
            operation: Operation::Update,
            resource,
            subresource: "scale",
            namespace,
            name,
            kind: Some(("autoscaling", "v1", "Scale")),
            old: Some(&before),
        };
        consider(transaction, &deed, Some(&scale))?;
        // Not about the object whose scale it is.
        transaction.is_considered = true;
    }
    let metadata = &scale["metadata"];
    if metadata["uid"].as_str().is_some_and(|uid| !uid.is_empty() && uid != current.uid.as_ref())
        || metadata["resourceVersion"]
            .as_str()
            .is_some_and(|version| !version.is_empty() && version != current.resource_version.to_string())
    {
        return Err(Status::conflict(row, name));
    }
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas < 0 {
        let message = "must be greater than or equal to 0";
        let whole =
            format!("Scale.autoscaling \"{name}\" is invalid: spec.replicas: Invalid value: {replicas}: {message}");
        return Err(Status {
            details: json!({
                "name": name, "group": "autoscaling", "kind": "Scale",
                "causes": [{
                    "reason": "FieldValueInvalid",
                    "message": format!("Invalid value: {replicas}: {message}"),
                    "field": "spec.replicas",
                }],
            }),
            ..Status::new(422, "Invalid", whole)
        });
    }
    let mut new = (*old).clone();
    if let Some((last, holders)) = paths.spec.split_last() {
        let holder = holders.iter().fold(&mut new, |value, part| &mut value[part.as_str()]);
        holder[last.as_str()] = json!(replicas);
    }
    let managed = managers.after(before["spec"]["replicas"].as_i64().unwrap_or_default() != replicas);
    let written = write_over(transaction, &current, Part::Main, &old, new, Some(managed))?;
    let written = in_own_version(transaction, resource, written)?;
    Ok(scale_of(resource, &paths, &written.value()))
}

/// Where a kind has what its Scale shows.
pub(crate) struct ScalePaths {
    spec: Vec<String>,
    status: Vec<String>,
    /// Of custom resources, whose selector is a text; other kinds have a label selector in their spec.
    selector: Option<Vec<String>>,
}

impl ScalePaths {
    /// `None` for kinds that have no scale.
    pub(crate) fn of(resource: ResourceId, definition: Option<&Definition>) -> Option<Self> {
        let parts = |path: &str| path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        if !resource.row().custom {
            resource.row().subresource("scale")?;
            return Some(Self { spec: parts(".spec.replicas"), status: parts(".status.replicas"), selector: None });
        }
        let version = definition?.version(resource)?;
        let scale = Some(&version.spec["subresources"]["scale"]).filter(|scale| scale.is_object())?;
        let at = |name: &str| parts(scale[name].as_str().unwrap_or_default());
        Some(Self {
            spec: at("specReplicasPath"),
            status: at("statusReplicasPath"),
            selector: Some(at("labelSelectorPath")),
        })
    }
}

/// The Scale view of a workload. Zero replicas are left out of `spec`, as Go's `omitempty` does.
pub(crate) fn scale_of(resource: ResourceId, paths: &ScalePaths, value: &Value) -> Value {
    let metadata = &value["metadata"];
    let at = |path: &[String]| path.iter().fold(value, |value, part| &value[part.as_str()]);
    let mut spec = json!({});
    if let Some(replicas) = at(&paths.spec).as_i64().filter(|replicas| *replicas != 0) {
        spec["replicas"] = json!(replicas);
    }
    let mut status = json!({ "replicas": at(&paths.status).as_i64().unwrap_or_default() });
    let selector = match &paths.selector {
        Some(path) if path.is_empty() => String::new(),
        Some(path) => at(path).as_str().unwrap_or_default().to_owned(),
        None => selector_text(resource, &value["spec"]["selector"]),
    };
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": spec, "status": status,
    })
}

/// A label selector in the form of a query parameter: `app=web,tier in (a,b)`.
fn selector_text(resource: ResourceId, selector: &Value) -> String {
    let equals = if resource == kinds::REPLICATION_CONTROLLERS { selector } else { &selector["matchLabels"] };
    let mut terms = selector_terms(equals, &selector["matchExpressions"]);
    terms.sort();
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

/// Changes the condition of that type, adding it if there is none.
fn set_condition(status: &mut Value, kind: &str, change: impl FnOnce(&mut Value)) {
    if !status.is_object() {
        *status = json!({});
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    if let Some(condition) = conditions.iter_mut().find(|condition| condition["type"] == kind) {
        change(condition);
        return;
    }
    let mut condition = json!({ "type": kind });
    change(&mut condition);
    conditions.push(condition);
}

/// 404 for kinds that have no scale.
pub(crate) fn no_scale() -> Status {
    let mut status = Status::new(404, "NotFound", "the server could not find the requested resource");
    status.details = json!({});
    status
}

fn too_many(cause: String) -> Status {
    let mut status =
        Status::new(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
    status.details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] });
    status
}
