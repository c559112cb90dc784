//! Writes through subresources of pods: binding, eviction.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{POD_DISRUPTION_BUDGETS, PODS};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::{list_mut, time_text};
use klab_api_machinery::views::{Condition, Pod, PodDisruptionBudget as Budget, metadata};
use klab_scheduler::features::Gate;
use klab_scheduler::selector::Selector;
use serde_json::{Value, json};

use super::commit::commit;
use super::write::delete;
use crate::admission::pods::copy_topology;
use crate::admission::{AdmissionRequest, consider, is_asked};
use crate::dynamic_admission::Operation;
use crate::transaction::{DeleteOptions, Deleted, Transaction};

/// How many evicted pods a budget may wait for.
const MAX_DISRUPTED_PODS: usize = 2000;

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
    let spec = Pod(&old).spec();
    if !spec.node_name().is_empty() {
        return refused(format!("pod {name} is already assigned to node \"{}\"", spec.node_name()));
    }
    if !spec.scheduling_gates().is_empty() {
        return refused(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    if is_asked(transaction, PODS) {
        let binding = json!({
            "kind": "Binding", "apiVersion": "v1", "metadata": { "name": name, "namespace": namespace },
            "target": { "kind": "Node", "name": node },
        });
        let admission_request = AdmissionRequest {
            operation: Operation::Create,
            resource: PODS,
            subresource: "binding",
            namespace,
            name,
            kind: Some(("", "v1", "Binding")),
            old: None,
        };
        consider(transaction, &admission_request, Some(&binding))?;
    }
    let mut new = (*old).clone();
    new["spec"]["nodeName"] = json!(node);
    copy_topology(transaction, node, &mut new);
    // The pod has its node, so none is kept for it any longer.
    if transaction.state.features.has(Gate::ClearingNominatedNodeNameAfterBinding) {
        new["status"].as_object_mut().map(|status| status.remove("nominatedNodeName"));
    }
    let now = time_text(transaction.now);
    set_condition(&mut new["status"], "PodScheduled", |condition| {
        if Condition(condition).status() != "True" {
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
        let admission_request = AdmissionRequest {
            operation: Operation::Create,
            resource: PODS,
            subresource: "eviction",
            namespace,
            name,
            kind: Some(("policy", "v1", "Eviction")),
            old: None,
        };
        consider(transaction, &admission_request, Some(&eviction))?;
    }
    let phase = Pod(&value).status().phase();
    if !pod.deleting && !matches!(phase, "Succeeded" | "Failed" | "Pending") {
        charge_budget(transaction, &pod, Pod(&value))?;
    }
    if !pod.deleting && !options.dry_run {
        let mut marked = (*value).clone();
        let now = time_text(transaction.now);
        let observed = metadata(&marked).generation();
        set_condition(&mut marked["status"], "DisruptionTarget", |condition| {
            *condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now,
                "observedGeneration": observed,
            });
        });
        commit(transaction, PODS, marked);
    }
    // They were asked about the eviction.
    transaction.is_considered = true;
    delete(transaction, PODS, namespace, name, options)
}

/// Takes the pod from the budget that covers it, or answers why that is not possible.
fn charge_budget(transaction: &mut Transaction<'_>, pod: &Arc<Object>, value: Pod<'_>) -> Result<(), Status> {
    let covers = |budget: &&Arc<Object>| {
        Selector::from_json(Budget(&budget.value()).spec().selector().0).matches_by(|key| pod.label(key))
    };
    let budgets = transaction.state.store.list(POD_DISRUPTION_BUDGETS, Some(&pod.namespace));
    let covering: Vec<Arc<Object>> = budgets.filter(covers).cloned().collect();
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
    let (spec, status) = (Budget(&changed).spec(), Budget(&changed).status());
    let (healthy, desired, allowed) =
        (status.current_healthy(), status.desired_healthy(), status.disruptions_allowed());
    if !value.status().conditions().is_true("Ready") {
        let always = spec.unhealthy_pod_eviction_policy() == Some("AlwaysAllow");
        if always || (desired > 0 && healthy >= desired) {
            return Ok(());
        }
    }
    let name = &budget.name;
    let generation = metadata(&changed).generation();
    if status.observed_generation() < generation {
        return Err(too_many(format!("The disruption budget {name} is still being processed by the server.")));
    }
    if status.disrupted_pods().len() > MAX_DISRUPTED_PODS {
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

/// Changes the condition of that type, adding it if there is none.
fn set_condition(status: &mut Value, kind: &str, change: impl FnOnce(&mut Value)) {
    let conditions = list_mut(&mut status["conditions"]);
    if let Some(condition) = conditions.iter_mut().find(|condition| Condition(condition).type_() == kind) {
        change(condition);
        return;
    }
    let mut condition = json!({ "type": kind });
    change(&mut condition);
    conditions.push(condition);
}

fn too_many(cause: String) -> Status {
    let mut status =
        Status::new(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
    status.details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] });
    status
}
