//! Writes through subresources: binding, eviction, scale.

use std::sync::Arc;

use klab_scheduler::selector::Selector;
use serde_json::{Value, json};

use super::{Cluster, DeleteOptions, Deleted, Part, Transaction, WriteOptions};
use crate::admission::{Deed, Operation, is_configured};
use crate::custom::Definition;
use crate::object::Object;
use crate::patch::ScaleManagers;
use crate::resource::{self as kinds, NODES, POD_DISRUPTION_BUDGETS, PODS, ResourceId};
use crate::status::Status;
use crate::value::time_text;

/// Labels that binding copies from the node to the pod (PodTopologyLabelsAdmission).
const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];
/// How many evicted pods a budget may wait for.
const MAX_DISRUPTED_PODS: usize = 2000;

impl Cluster {
    /// Binds a pod to a node: sets `spec.nodeName` and the condition `PodScheduled`, copies the node's region and zone.
    ///
    /// # Errors
    /// 404 without the pod, 409 when it is bound already, being deleted or gated.
    pub fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<Arc<Object>, Status> {
        self.bind_with(namespace, pod, node, &WriteOptions::by("kube-scheduler"))
    }

    /// [`Cluster::bind`] with options.
    ///
    /// # Errors
    /// As [`Cluster::bind`].
    pub fn bind_with(
        &self,
        namespace: &str,
        pod: &str,
        node: &str,
        options: &WriteOptions<'_>,
    ) -> Result<Arc<Object>, Status> {
        self.write(options, (), |transaction, ()| transaction.bind(namespace, pod, node))
    }

    /// Evicts a pod: deletes it if the disruption budgets that cover it allow that.
    ///
    /// # Errors
    /// 404 without the pod, 429 when a budget forbids it, 500 when more than one budget covers the pod.
    pub fn evict(&self, namespace: &str, pod: &str, options: &DeleteOptions) -> Result<Deleted, Status> {
        self.evict_by(namespace, pod, options, &WriteOptions::by("kube-apiserver"))
    }

    /// [`Cluster::evict`] for somebody.
    ///
    /// # Errors
    /// As [`Cluster::evict`].
    pub(crate) fn evict_by(
        &self,
        namespace: &str,
        pod: &str,
        options: &DeleteOptions,
        write: &WriteOptions<'_>,
    ) -> Result<Deleted, Status> {
        let write = WriteOptions { dry_run: options.dry_run, ..write.clone() };
        self.write(&write, (), |transaction, ()| transaction.evict(namespace, pod, options))
    }

    /// Asks webhooks and policies about a connection to a part of an object, with the options that it was asked for with.
    ///
    /// # Errors
    /// The Status of who refuses it.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go ConnectResource (v1.36)
    pub(crate) fn connect(
        &self,
        resource: ResourceId,
        (namespace, name): (&str, &str),
        subresource: &str,
        asked: &Value,
        options: &WriteOptions<'_>,
    ) -> Result<(), Status> {
        if !self.read(is_configured) {
            return Ok(());
        }
        self.write(options, (), |transaction, ()| {
            let kind = Some(("", "v1", asked["kind"].as_str().unwrap_or_default()));
            let operation = Operation::Connect;
            let deed = Deed { operation, resource, subresource, namespace, name, kind, old: None };
            transaction.consider(&deed, Some(asked))
        })
    }

    /// The `autoscaling/v1` Scale of a Deployment, ReplicaSet, StatefulSet or ReplicationController.
    ///
    /// # Errors
    /// 404 without the object, or for a kind that has no scale.
    pub fn scale_get(&self, resource: ResourceId, namespace: &str, name: &str) -> Result<Value, Status> {
        let object = self.get(resource, namespace, name).ok_or_else(|| Status::not_found(resource.row(), name))?;
        self.scale_shown(resource, &object)
    }

    /// The Scale of an object in the version that is asked for.
    ///
    /// # Errors
    /// 404 for a kind that has no scale.
    pub(crate) fn scale_shown(&self, resource: ResourceId, object: &Object) -> Result<Value, Status> {
        let paths = self.read_scale(resource).ok_or_else(no_scale)?;
        Ok(scale_of(resource, &paths, &object.value()))
    }

    fn read_scale(&self, resource: ResourceId) -> Option<ScalePaths> {
        let state = self.lock();
        ScalePaths::of(resource, state.definitions.of(&state.store, resource).as_deref())
    }

    /// Writes a Scale, and returns the new one.
    ///
    /// # Errors
    /// 404 without the object, 409 for a stale resourceVersion, 422 for a negative number.
    pub fn scale_set(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        scale: Value,
        options: &WriteOptions<'_>,
    ) -> Result<Value, Status> {
        self.scale_set_reporting(resource, namespace, name, &scale, options).map(|(scale, _)| scale)
    }

    /// [`Cluster::scale_set`], with the warnings a client is to see.
    pub(crate) fn scale_set_reporting(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        scale: &Value,
        options: &WriteOptions<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        self.scale_as(resource, namespace, name, options, &|transaction, _, _| {
            let mut scale = scale.clone();
            transaction.decode_scale(&mut scale).map_err(|fault| fault.of("Scale", "v1"))?;
            Ok(scale)
        })
    }

    /// Changes a Scale by a patch, and returns the new one.
    ///
    /// # Errors
    /// As [`Cluster::scale_set`], or what `change` answers.
    pub fn scale_modify(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        options: &WriteOptions<'_>,
        change: impl Fn(Value) -> Result<Value, Status>,
    ) -> Result<Value, Status> {
        self.scale_as(resource, namespace, name, options, &|_, scale, _| change(scale)).map(|(scale, _)| scale)
    }

    /// [`Cluster::scale_modify`] by somebody who looks at the managers of the object, too. Also gives warnings.
    pub(crate) fn scale_as(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        options: &WriteOptions<'_>,
        change: &ScaleChange<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        self.write(options, (), |transaction, ()| {
            let scale = transaction.scale(resource, namespace, name, change)?;
            Ok((scale, std::mem::take(&mut transaction.warnings)))
        })
    }
}

/// What becomes of a Scale.
type ScaleChange<'a> = dyn Fn(&mut Transaction<'_>, Value, &mut ScaleManagers<'_>) -> Result<Value, Status> + 'a;

impl Transaction<'_> {
    fn bind(&mut self, namespace: &str, name: &str, node: &str) -> Result<Arc<Object>, Status> {
        let pod = self.existing(PODS, namespace, name)?;
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
        if self.is_asked(PODS) {
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
            self.consider(&deed, Some(&binding))?;
        }
        let mut new = (*old).clone();
        new["spec"]["nodeName"] = json!(node);
        self.copy_topology(node, &mut new);
        // The pod has its node, so none is kept for it any longer.
        new["status"].as_object_mut().map(|status| status.remove("nominatedNodeName"));
        let now = time_text(self.now);
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
        Ok(self.commit(PODS, new))
    }

    /// Gives a pod the region and zone of the node it is on.
    pub(crate) fn copy_topology(&self, node: &str, pod: &mut Value) {
        let Some(node) = self.state.store.get(NODES, "", node) else { return };
        for key in TOPOLOGY_LABELS {
            if let Some(value) = node.label(key) {
                pod["metadata"]["labels"][key] = json!(value);
            }
        }
    }

    fn evict(&mut self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<Deleted, Status> {
        let pod = self.existing(PODS, namespace, name)?;
        let value = pod.value();
        if self.is_asked(PODS) {
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
            self.consider(&deed, Some(&eviction))?;
        }
        let phase = value["status"]["phase"].as_str().unwrap_or_default();
        if !pod.deleting && !matches!(phase, "Succeeded" | "Failed" | "Pending") {
            self.charge_budget(&pod, &value)?;
        }
        if !pod.deleting && !options.dry_run {
            let mut marked = (*value).clone();
            let now = time_text(self.now);
            let observed = marked["metadata"]["generation"].clone();
            set_condition(&mut marked["status"], "DisruptionTarget", |condition| {
                *condition = json!({
                    "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now,
                    "observedGeneration": observed,
                });
            });
            self.commit(PODS, marked);
        }
        self.delete_considered(PODS, namespace, name, options)
    }

    /// Takes the pod from the budget that covers it, or answers why that is not possible.
    fn charge_budget(&mut self, pod: &Arc<Object>, value: &Value) -> Result<(), Status> {
        let covering: Vec<Arc<Object>> = self
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
        if !is_ready(value) {
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
        changed["status"]["disruptedPods"][pod.name.as_ref()] = json!(time_text(self.now));
        if allowed == 1 {
            let now = time_text(self.now);
            set_condition(&mut changed["status"], "DisruptionAllowed", |condition| {
                condition["status"] = json!("False");
                condition["reason"] = json!("InsufficientPods");
                condition["message"] = json!("");
                condition["observedGeneration"] = json!(generation);
                condition["lastTransitionTime"] = json!(now);
            });
        }
        self.commit(POD_DISRUPTION_BUDGETS, changed);
        Ok(())
    }

    fn scale(
        &mut self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        change: &ScaleChange<'_>,
    ) -> Result<Value, Status> {
        let row = resource.row();
        let definition = self.state.definitions.of(&self.state.store, resource);
        let paths = ScalePaths::of(resource, definition.as_deref()).ok_or_else(no_scale)?;
        let current = self.live(resource, namespace, name)?;
        let old = current.value();
        let before = scale_of(resource, &paths, &old);
        let mut managers = ScaleManagers::of(&current, self.writer(resource, Part::Main), &paths.spec);
        let scale = change(self, before.clone(), &mut managers)?;
        if self.is_asked(resource) {
            let deed = Deed {
                operation: Operation::Update,
                resource,
                subresource: "scale",
                namespace,
                name,
                kind: Some(("autoscaling", "v1", "Scale")),
                old: Some(&before),
            };
            self.consider(&deed, Some(&scale))?;
            // Not about the object whose scale it is.
            self.is_considered = true;
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
        let written = self.write_over(&current, Part::Main, &old, new, Some(managed))?;
        let written = self.in_own_version(resource, written)?;
        Ok(scale_of(resource, &paths, &written.value()))
    }
}

/// Where a kind has what its Scale shows.
struct ScalePaths {
    spec: Vec<String>,
    status: Vec<String>,
    /// Of custom resources, whose selector is a text; other kinds have a label selector in their spec.
    selector: Option<Vec<String>>,
}

impl ScalePaths {
    /// `None` for kinds that have no scale.
    fn of(resource: ResourceId, definition: Option<&Definition>) -> Option<Self> {
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
fn scale_of(resource: ResourceId, paths: &ScalePaths, value: &Value) -> Value {
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
    let mut terms: Vec<(String, String)> = equals
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort();
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
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
fn no_scale() -> Status {
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
