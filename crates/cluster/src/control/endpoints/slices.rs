//! EndpointSlices: one set of slices for each set of ports that pods have, at most 100 endpoints in a slice.

// upstream: staging/src/k8s.io/endpointslice/reconciler.go reconcileByAddressType, reconcileByPortMapping, finalize (v1.36)
// upstream: staging/src/k8s.io/endpointslice/util/endpointset.go hashEndpoint (v1.36)

use std::collections::HashMap;
use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ENDPOINT_SLICES;
use klab_api_machinery::value::{controller_reference, items};
use klab_api_machinery::views::{Endpoint, EndpointSlice, Service};
use serde_json::{Map, Value, json};

use super::super::plane::Plane;
use super::super::pods::writes;
use super::super::view::PodInfo;
use super::backends::Backend;
use super::{Endpoints, HEADLESS, SERVICE_LABEL, SLICE_CONTROLLER, SLICE_MANAGED_BY, Selected, overwrite, set_trigger};
use crate::cluster::DeleteOptions;

/// How many endpoints one slice holds (`--max-endpoints-per-slice`).
const SLICE_SIZE: usize = 100;

/// A slice as the controller wants it.
struct Slice {
    /// The one that is there; none for a new one.
    object: Option<Arc<Object>>,
    ports: Value,
    endpoints: Vec<Value>,
    changed: bool,
}

impl Slice {
    fn room(&self) -> usize {
        SLICE_SIZE.saturating_sub(self.endpoints.len())
    }

    fn take(&mut self, from: &mut Vec<Value>) {
        let taken = from.len().min(self.room());
        self.changed |= taken > 0;
        self.endpoints.extend(from.drain(..taken));
    }
}

impl Endpoints {
    pub(super) fn write_slices(&mut self, plane: &mut Plane, selected: &Selected<'_>) {
        let service = selected.service;
        let mut have: Vec<Arc<Object>> = plane
            .view
            .dependents_of(&service.uid)
            .filter(|(resource, _)| *resource == ENDPOINT_SLICES)
            .filter_map(|(_, at)| plane.cluster.get(ENDPOINT_SLICES, &at.namespace, &at.name))
            .filter(|slice| slice.label(SLICE_MANAGED_BY) == Some(SLICE_CONTROLLER) && !slice.deleting)
            .collect();
        let mut wanted: Vec<Slice> = Vec::new();
        for (ports, endpoints) in self.endpoints_by_ports(plane, selected) {
            let numbered = endpoints.into_iter().enumerate();
            let mut left: Wanted =
                numbered.map(|(at, endpoint)| (identity(Endpoint(&endpoint)), (at, endpoint))).collect();
            let same = |slice: &mut Arc<Object>| {
                let value = slice.value();
                let slice = EndpointSlice(&value);
                slice.ports().map(|port| port.0).eq(items(&ports)) && !slice.endpoints().is_empty()
            };
            let mut slices: Vec<Slice> =
                have.extract_if(.., same).map(|object| keep(object, &ports, &mut left)).collect();
            let mut left: Vec<(usize, Value)> = left.into_values().collect();
            left.sort_unstable_by_key(|(at, _)| *at);
            fill(&mut slices, &ports, left.into_iter().map(|(_, endpoint)| endpoint).collect());
            let (used, empty): (Vec<Slice>, Vec<Slice>) =
                slices.into_iter().partition(|slice| !slice.endpoints.is_empty());
            have.extend(empty.into_iter().filter_map(|slice| slice.object));
            wanted.extend(used);
        }
        if wanted.is_empty() {
            // One slice there is always.
            wanted.push(Slice { object: None, ports: Value::Null, endpoints: Vec::new(), changed: true });
        }
        // What would be deleted takes the place of what would be made.
        for slice in wanted.iter_mut().filter(|slice| slice.object.is_none()) {
            slice.object = have.pop();
        }
        let labels = slice_labels(selected);
        for slice in wanted {
            write_slice(plane, selected, &labels, slice);
        }
        for surplus in have {
            let _deleted =
                plane.cluster.delete(ENDPOINT_SLICES, &surplus.namespace, &surplus.name, &DeleteOptions::default());
        }
    }

    /// The endpoints, by the ports that they have.
    fn endpoints_by_ports(&mut self, plane: &Plane, selected: &Selected<'_>) -> Vec<(Value, Vec<Value>)> {
        let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
        for pod in &selected.pods {
            let node = plane.view.node(&pod.node);
            if node.is_none() && !selected.publishes_unready {
                continue;
            }
            let zone = node.and_then(|node| node.object.label("topology.kubernetes.io/zone"));
            let backend = self.backends.of(pod);
            let ports = ports_of(selected.value, &backend);
            let endpoint = endpoint(selected, pod, &backend, zone);
            match groups.iter_mut().find(|(have, _)| *have == ports) {
                Some((_, endpoints)) => endpoints.push(endpoint),
                None => groups.push((ports, vec![endpoint])),
            }
        }
        groups
    }
}

fn ports_of(service: Service<'_>, backend: &Backend) -> Value {
    let ports = service.spec().ports().filter_map(|port| {
        let number = backend.port(port)?;
        let mut made = json!({ "name": port.name(), "protocol": port.protocol(), "port": number });
        if let Some(protocol) = port.app_protocol() {
            made["appProtocol"] = json!(protocol);
        }
        Some(made)
    });
    let ports: Vec<Value> = ports.collect();
    if ports.is_empty() { Value::Null } else { Value::Array(ports) }
}

fn endpoint(selected: &Selected<'_>, pod: &PodInfo, backend: &Backend, zone: Option<&str>) -> Value {
    let ready = selected.publishes_unready || (pod.ready && !pod.object.deleting);
    let mut endpoint = json!({
        "addresses": [pod.ip],
        "conditions": { "ready": ready, "serving": pod.ready, "terminating": pod.object.deleting },
        "targetRef": target(pod), "nodeName": pod.node,
    });
    if let Some(zone) = zone {
        endpoint["zone"] = json!(zone);
    }
    if let Some(host) = backend.host_name(&selected.service.name) {
        endpoint["hostname"] = json!(host);
    }
    endpoint
}

/// The pod an endpoint is.
pub(super) fn target(pod: &PodInfo) -> Value {
    json!({ "kind": "Pod", "namespace": pod.object.namespace, "name": pod.object.name, "uid": pod.object.uid })
}

/// What makes an endpoint the same one: its addresses, its host name, the pod it is.
fn identity(endpoint: Endpoint<'_>) -> String {
    let mut identity = String::new();
    for address in endpoint.addresses() {
        identity.push_str(address);
        identity.push(' ');
    }
    let target = endpoint.target_ref();
    for part in [endpoint.hostname().unwrap_or_default(), target.namespace(), target.name()] {
        identity.push_str(part);
        identity.push('/');
    }
    identity
}

/// Endpoints that are to be in slices, with their places in the order of addresses.
type Wanted = HashMap<String, (usize, Value)>;

/// A slice that is there, with the endpoints that it keeps, which are taken out of those that are wanted.
fn keep(object: Arc<Object>, ports: &Value, wanted: &mut Wanted) -> Slice {
    let value = object.value();
    let had = EndpointSlice(&value).endpoints();
    let kept = had.clone().filter_map(|endpoint| wanted.remove(&identity(endpoint)));
    let kept: Vec<Value> = kept.map(|(_, endpoint)| endpoint).collect();
    let changed = !had.map(|endpoint| endpoint.0).eq(&kept);
    Slice { object: Some(object), ports: ports.clone(), endpoints: kept, changed }
}

/// Puts what is left into slices that are to be written anyway, the fullest first; then into one that has room for all
/// of it; then into new ones.
fn fill(slices: &mut Vec<Slice>, ports: &Value, mut left: Vec<Value>) {
    let mut changing: Vec<&mut Slice> =
        slices.iter_mut().filter(|slice| slice.changed && !slice.endpoints.is_empty()).collect();
    changing.sort_by_key(|slice| slice.room());
    for slice in changing {
        slice.take(&mut left);
    }
    while !left.is_empty() {
        let fitting = slices.iter_mut().filter(|slice| !slice.changed && slice.room() >= left.len());
        if let Some(slice) = fitting.min_by_key(|slice| slice.room()).filter(|_| left.len() < SLICE_SIZE) {
            slice.take(&mut left);
        } else {
            let mut slice = Slice { object: None, ports: ports.clone(), endpoints: Vec::new(), changed: true };
            slice.take(&mut left);
            slices.push(slice);
        }
    }
}

fn slice_labels(selected: &Selected<'_>) -> Value {
    let of_service = selected.value.metadata().labels().iter();
    let of_service = of_service.filter(|(key, _)| ![SERVICE_LABEL, SLICE_MANAGED_BY, HEADLESS].contains(key));
    let mut labels: Map<String, Value> = of_service.map(|(key, value)| (key.to_owned(), json!(value))).collect();
    labels.insert(SLICE_MANAGED_BY.to_owned(), json!(SLICE_CONTROLLER));
    labels.insert(SERVICE_LABEL.to_owned(), json!(selected.service.name));
    if selected.is_headless() {
        labels.insert(HEADLESS.to_owned(), json!(""));
    }
    Value::Object(labels)
}

fn write_slice(plane: &Plane, selected: &Selected<'_>, labels: &Value, slice: Slice) {
    let service = selected.service;
    let endpoints = if slice.endpoints.is_empty() { Value::Null } else { Value::Array(slice.endpoints) };
    let trigger = selected.trigger.as_deref();
    let Some(object) = slice.object else {
        let mut made = json!({
            "metadata": {
                "generateName": format!("{}-", service.name), "labels": labels,
                "ownerReferences": [controller_reference(service)],
            },
            "addressType": "IPv4", "endpoints": endpoints, "ports": slice.ports,
        });
        set_trigger(&mut made, trigger);
        let _made = plane.cluster.create(ENDPOINT_SLICES, &service.namespace, made, &writes());
        return;
    };
    let old = object.value();
    if old["endpoints"] == endpoints && old["ports"] == slice.ports && old["metadata"]["labels"] == *labels {
        return;
    }
    overwrite(plane, &object, |value| {
        value["endpoints"] = endpoints;
        value["ports"] = slice.ports;
        value["metadata"]["labels"] = labels.clone();
        set_trigger(value, trigger);
    });
}
