//! Endpoints and EndpointSlices of Services with selectors.

// upstream: staging/src/k8s.io/endpointslice/reconciler.go Reconcile (v1.36)
// upstream: pkg/controller/endpoint/endpoints_controller.go syncService (v1.36)

use std::sync::Arc;

use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::value::{controller_reference, items, map_mut, selects, service_selector, text, time_text};
use super::view::{Phase, PodInfo};
use crate::cluster::{DeleteOptions, Part};
use crate::object::Object;
use crate::resource::{ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES};

const SERVICE_LABEL: &str = "kubernetes.io/service-name";
const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// How many endpoints one slice holds.
const SLICE_SIZE: usize = 100;

/// Fills EndpointSlices and Endpoints of Services.
pub(super) struct Endpoints;

impl Reconciler for Endpoints {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        match change.resource() {
            SERVICES => {
                plane.keep_selector(change, service_selector);
                plane.queue.add(key(change.name()));
            }
            PODS if change.concerns_selectors_of_pods() => {
                for object in change.versions() {
                    for service in plane.view.selecting(SERVICES, object) {
                        plane.queue.add(key(service));
                    }
                }
            }
            PODS => {}
            _ => {
                let object = change.object;
                let service = object.label(SERVICE_LABEL).unwrap_or(&object.name);
                plane.queue.add(key(ObjectName::new(&object.namespace, service)));
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        plane.sync_service(&key.name);
    }
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::EndpointSlice, SERVICES, name)
}

impl Plane {
    fn sync_service(&mut self, name: &ObjectName) {
        let Some(service) = self.cluster.get(SERVICES, &name.namespace, &name.name) else {
            // Slices follow their owner; Endpoints have none.
            if self.cluster.get(ENDPOINTS, &name.namespace, &name.name).is_some_and(|object| is_ours(&object)) {
                let _deleted = self.cluster.delete(ENDPOINTS, &name.namespace, &name.name, &DeleteOptions::default());
            }
            return;
        };
        let value = service.value();
        // Without a selector the endpoints are someone else's; external names have none.
        if value["spec"]["selector"].as_object().is_none_or(serde_json::Map::is_empty)
            || text(&value, &["spec", "type"]) == "ExternalName"
        {
            return;
        }
        let selector = service_selector(&value["spec"]["selector"]);
        let mut pods: Vec<Arc<PodInfo>> = self
            .view
            .pods_in(&name.namespace)
            .filter(|pod| selects(&selector, &pod.object) && pod.ip.is_some() && !pod.finished())
            .map(Arc::clone)
            .collect();
        pods.sort_by(|left, right| left.ip.cmp(&right.ip));
        self.write_slices(&service, &value, &pods);
        self.write_endpoints(&service, &value, &pods);
    }

    fn write_slices(&mut self, service: &Object, value: &Value, pods: &[Arc<PodInfo>]) {
        let publishes_unready = value["spec"]["publishNotReadyAddresses"] == true;
        let endpoints: Vec<Value> = pods
            .iter()
            .map(|pod| {
                let ready = publishes_unready || (pod.ready && !pod.object.deleting);
                let mut endpoint = json!({
                    "addresses": [pod.ip],
                    "conditions": { "ready": ready, "serving": pod.ready, "terminating": pod.object.deleting },
                    "targetRef": target(pod), "nodeName": pod.node,
                });
                let zone = self
                    .view
                    .node(&pod.node)
                    .and_then(|node| node.object.label("topology.kubernetes.io/zone").map(str::to_owned));
                if let Some(zone) = zone {
                    endpoint["zone"] = json!(zone);
                }
                if let Some(host) = host_name(service, pod) {
                    endpoint["hostname"] = json!(host);
                }
                endpoint
            })
            .collect();
        let ports = if pods.is_empty() { Value::Null } else { slice_ports(value, pods) };
        let mut labels = value["metadata"]["labels"].clone();
        let map = map_mut(&mut labels);
        map.insert(SLICE_MANAGED_BY.to_owned(), json!(SLICE_CONTROLLER));
        map.insert(SERVICE_LABEL.to_owned(), json!(service.name));
        if text(value, &["spec", "clusterIP"]) == "None" {
            map.insert(HEADLESS.to_owned(), json!(""));
        }
        let mut have: Vec<Arc<Object>> = self
            .view
            .dependents_of(&service.uid)
            .filter(|(resource, _)| *resource == ENDPOINT_SLICES)
            .filter_map(|(_, at)| self.cluster.get(ENDPOINT_SLICES, &at.namespace, &at.name))
            .filter(|slice| slice.label(SLICE_MANAGED_BY) == Some(SLICE_CONTROLLER) && !slice.deleting)
            .collect();
        have.reverse();
        let trigger = json!({ TRIGGER: time_text(self.now()) });
        let mut chunks: Vec<&[Value]> = endpoints.chunks(SLICE_SIZE).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        for chunk in chunks {
            let wanted = if chunk.is_empty() { Value::Null } else { json!(chunk) };
            if let Some(slice) = have.pop() {
                let old = slice.value();
                if old["endpoints"] == wanted && old["ports"] == ports && old["metadata"]["labels"] == labels {
                    continue;
                }
                let _updated = self.cluster.modify(
                    ENDPOINT_SLICES,
                    Part::Main,
                    &slice.namespace,
                    &slice.name,
                    &writes(),
                    |slice| {
                        slice["endpoints"] = wanted;
                        slice["ports"] = ports.clone();
                        slice["metadata"]["labels"] = labels.clone();
                        slice["metadata"]["annotations"] = trigger.clone();
                    },
                );
            } else {
                let slice = json!({
                    "metadata": {
                        "generateName": format!("{}-", service.name), "labels": labels, "annotations": trigger,
                        "ownerReferences": [controller_reference(service)],
                    },
                    "addressType": "IPv4", "endpoints": wanted, "ports": ports,
                });
                let _made = self.cluster.create(ENDPOINT_SLICES, &service.namespace, slice, &writes());
            }
        }
        for surplus in have {
            let _deleted =
                self.cluster.delete(ENDPOINT_SLICES, &surplus.namespace, &surplus.name, &DeleteOptions::default());
        }
    }

    fn write_endpoints(&mut self, service: &Object, value: &Value, pods: &[Arc<PodInfo>]) {
        let publishes_unready = value["spec"]["publishNotReadyAddresses"] == true;
        let address = |pod: &PodInfo| {
            let mut address = json!({ "ip": pod.ip, "nodeName": pod.node, "targetRef": target(pod) });
            if let Some(host) = host_name(service, pod) {
                address["hostname"] = json!(host);
            }
            address
        };
        let (ready, unready): (Vec<&Arc<PodInfo>>, Vec<&Arc<PodInfo>>) =
            pods.iter().filter(|pod| !pod.object.deleting).partition(|pod| publishes_unready || pod.ready);
        let mut subset = json!({});
        for (field, pods) in [("addresses", ready), ("notReadyAddresses", unready)] {
            if !pods.is_empty() {
                subset[field] = Value::Array(pods.into_iter().map(|pod| address(pod)).collect());
            }
        }
        let subsets = if subset.as_object().is_some_and(serde_json::Map::is_empty) {
            Value::Null
        } else {
            let ports = endpoint_ports(value, pods);
            if !items(&ports).is_empty() {
                subset["ports"] = ports;
            }
            json!([subset])
        };
        let mut labels = value["metadata"]["labels"].clone();
        let map = map_mut(&mut labels);
        map.insert("endpoints.kubernetes.io/managed-by".to_owned(), json!("endpoint-controller"));
        if text(value, &["spec", "clusterIP"]) == "None" {
            map.insert(HEADLESS.to_owned(), json!(""));
        }
        let set = |object: &mut Value, trigger: &str| {
            object["metadata"]["labels"] = labels.clone();
            object["metadata"]["annotations"] = json!({ TRIGGER: trigger });
            if let Some(object) = object.as_object_mut() {
                if subsets.is_null() {
                    object.remove("subsets");
                } else {
                    object.insert("subsets".to_owned(), subsets.clone());
                }
            }
        };
        let trigger = time_text(self.now());
        let (namespace, name) = (&service.namespace, &service.name);
        if let Some(object) = self.cluster.get(ENDPOINTS, namespace, name) {
            let old = object.value();
            if old["subsets"] == subsets && old["metadata"]["labels"] == labels {
                return;
            }
            let _updated = self.cluster.modify(ENDPOINTS, Part::Main, namespace, name, &writes(), |object| {
                set(object, &trigger);
            });
        } else {
            let mut object = json!({ "metadata": { "name": name } });
            set(&mut object, &trigger);
            let _made = self.cluster.create(ENDPOINTS, namespace, object, &writes());
        }
    }
}

fn is_ours(object: &Object) -> bool {
    object.label("endpoints.kubernetes.io/managed-by").is_some()
}

fn target(pod: &PodInfo) -> Value {
    json!({ "kind": "Pod", "namespace": pod.object.namespace, "name": pod.object.name, "uid": pod.object.uid })
}

/// A pod that names the headless service as its subdomain is known by its host name.
fn host_name(service: &Object, pod: &PodInfo) -> Option<String> {
    // Only StatefulSets give pods host names of their own, so that most pods need not be read.
    if pod.object.controller().is_none_or(|owner| owner.kind.as_ref() != "StatefulSet") {
        return None;
    }
    let value = pod.object.value();
    (text(&value, &["spec", "subdomain"]) == service.name.as_ref())
        .then(|| text(&value, &["spec", "hostname"]).to_owned())
        .filter(|host| !host.is_empty())
}

/// The port of a pod that a service port leads to; a name is looked up in the pod's containers.
fn target_port(port: &Value, pods: &[Arc<PodInfo>]) -> Option<Value> {
    match &port["targetPort"] {
        Value::String(name) => {
            pods.iter().filter(|pod| pod.phase != Phase::Pending || pods.len() == 1).find_map(|pod| {
                let value = pod.object.value();
                items(&value["spec"]["containers"])
                    .iter()
                    .flat_map(|container| items(&container["ports"]))
                    .find(|have| have["name"] == name.as_str())
                    .map(|have| have["containerPort"].clone())
            })
        }
        Value::Null => Some(port["port"].clone()),
        number => Some(number.clone()),
    }
}

fn slice_ports(value: &Value, pods: &[Arc<PodInfo>]) -> Value {
    let ports = items(&value["spec"]["ports"]).iter().filter_map(|port| {
        let mut made = json!({
            "name": text(port, &["name"]), "protocol": port["protocol"], "port": target_port(port, pods)?,
        });
        if !port["appProtocol"].is_null() {
            made["appProtocol"] = port["appProtocol"].clone();
        }
        Some(made)
    });
    Value::Array(ports.collect())
}

fn endpoint_ports(value: &Value, pods: &[Arc<PodInfo>]) -> Value {
    let ports = items(&value["spec"]["ports"]).iter().filter_map(|port| {
        let mut made = json!({ "protocol": port["protocol"], "port": target_port(port, pods)? });
        if !text(port, &["name"]).is_empty() {
            made["name"] = port["name"].clone();
        }
        Some(made)
    });
    Value::Array(ports.collect())
}
