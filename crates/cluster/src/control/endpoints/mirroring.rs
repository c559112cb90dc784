//! Endpoints that somebody keeps by hand for a Service without selector are mirrored to EndpointSlices.

// upstream: pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go syncEndpoints, shouldMirror (v1.36)
// upstream: pkg/controller/endpointslicemirroring/reconciler.go reconcile (v1.36)

use std::net::IpAddr;
use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{ENDPOINT_SLICES, ENDPOINTS, SERVICES};
use klab_api_machinery::value::{controller_reference, items};
use klab_api_machinery::views::{
    CoreEndpointPort, EndpointAddress, EndpointSlice, EndpointSubset, Endpoints, ObjectMeta, Service,
};
use serde_json::{Map, Value, json};

use super::super::controller::Controller;
use super::super::plane::Plane;
use super::super::pods::writes;
use super::super::queue::{Key, ObjectName};
use super::super::reconcile::{Change, Reconciler};
use super::{SERVICE_LABEL, SLICE_MANAGED_BY, TRIGGER, overwrite};
use crate::cluster::DeleteOptions;

const COMPONENT: &str = "endpoint-slice-mirroring-controller";
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How many addresses of one subset are mirrored (`--mirroring-max-endpoints-per-subset`).
const MAX_PER_SUBSET: usize = 1000;

/// Mirrors Endpoints that are kept by hand.
#[derive(Default)]
pub(in super::super) struct Mirroring;

impl Reconciler for Mirroring {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let object = change.object;
        let name = match change.resource() {
            ENDPOINT_SLICES if object.label(SLICE_MANAGED_BY) != Some(MANAGER) => return,
            ENDPOINT_SLICES => object.label(SERVICE_LABEL).unwrap_or_default(),
            _ => &object.name,
        };
        plane.queue.add(Key::new(
            Controller::EndpointSliceMirroring,
            ENDPOINTS,
            ObjectName::new(&object.namespace, name),
        ));
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        plane.mirror_endpoints(&key.name);
    }
}

/// A slice as the controller wants it.
struct Mirror {
    address_type: &'static str,
    ports: Value,
    endpoints: Vec<Value>,
}

/// What the subsets of Endpoints come to.
#[derive(Default)]
struct Mirrors {
    slices: Vec<Mirror>,
    /// Addresses that are none.
    invalid: usize,
    /// Addresses left out, invalid or too many.
    skipped: usize,
}

impl Plane {
    fn mirror_endpoints(&mut self, name: &ObjectName) {
        let endpoints = self.cluster.get(ENDPOINTS, &name.namespace, &name.name);
        let service = self.cluster.get(SERVICES, &name.namespace, &name.name);
        let by_hand = service.is_some_and(|service| Service(&service.value()).spec().selector().is_empty());
        let mirrored = endpoints.filter(|endpoints| by_hand && is_to_be_mirrored(endpoints));
        let mut have: Vec<Arc<Object>> = self.mirrors_of(name);
        let Some(endpoints) = mirrored else {
            self.delete_mirrors(have);
            return;
        };
        let value = endpoints.value();
        let mirrors = mirrors(Endpoints(&value).subsets());
        if mirrors.invalid > 0 {
            let message = format!("Skipped {} invalid IP addresses when mirroring to EndpointSlices", mirrors.invalid);
            self.note(&endpoints, COMPONENT, true, "InvalidIPAddress", &message);
        }
        if mirrors.skipped > mirrors.invalid {
            let message = format!(
                "A max of {MAX_PER_SUBSET} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
                mirrors.skipped
            );
            self.note(&endpoints, COMPONENT, true, "TooManyAddressesToMirror", &message);
        }
        let mut wanted: Vec<(Mirror, Option<Arc<Object>>)> = Vec::new();
        for mirror in mirrors.slices {
            let same = have.iter().position(|slice| {
                let old = slice.value();
                let old = EndpointSlice(&old);
                old.address_type() == mirror.address_type && old.ports().map(|port| port.0).eq(items(&mirror.ports))
            });
            wanted.push((mirror, same.map(|at| have.remove(at))));
        }
        // What would be deleted takes the place of what would be made.
        for (mirror, slot) in wanted.iter_mut().filter(|(_, slot)| slot.is_none()) {
            let same = |slice: &Arc<Object>| EndpointSlice(&slice.value()).address_type() == mirror.address_type;
            *slot = have.iter().position(same).map(|at| have.remove(at));
        }
        for (mirror, object) in wanted {
            self.write_mirror(&endpoints, Endpoints(&value).metadata(), mirror, object.as_deref());
        }
        self.delete_mirrors(have);
    }

    fn mirrors_of(&self, name: &ObjectName) -> Vec<Arc<Object>> {
        // Most namespaces have none, and their slices need not be looked at one by one.
        let (slices, _) = self.cluster.list(ENDPOINT_SLICES, Some(&name.namespace));
        let ours = |slice: &Arc<Object>| {
            slice.label(SLICE_MANAGED_BY) == Some(MANAGER) && slice.label(SERVICE_LABEL) == Some(&name.name)
        };
        slices.into_iter().filter(ours).collect()
    }

    fn delete_mirrors(&self, slices: Vec<Arc<Object>>) {
        for slice in slices.into_iter().filter(|slice| !slice.deleting) {
            let _deleted =
                self.cluster.delete(ENDPOINT_SLICES, &slice.namespace, &slice.name, &DeleteOptions::default());
        }
    }

    fn write_mirror(&self, endpoints: &Object, metadata: ObjectMeta<'_>, mirror: Mirror, object: Option<&Object>) {
        let entry = |(key, value): (&str, &str)| (key.to_owned(), json!(value));
        let mut labels: Map<String, Value> = metadata.labels().iter().map(entry).collect();
        labels.insert(SERVICE_LABEL.to_owned(), json!(endpoints.name));
        labels.insert(SLICE_MANAGED_BY.to_owned(), json!(MANAGER));
        let annotations = metadata.annotations().iter().filter(|(key, _)| ![TRIGGER, LAST_APPLIED].contains(key));
        let annotations: Map<String, Value> = annotations.map(entry).collect();
        let annotations = if annotations.is_empty() { Value::Null } else { Value::Object(annotations) };
        let Some(object) = object else {
            if endpoints.deleting {
                return;
            }
            let made = json!({
                "metadata": {
                    "generateName": format!("{}-", endpoints.name), "labels": labels, "annotations": annotations,
                    "ownerReferences": [controller_reference(endpoints)],
                },
                "addressType": mirror.address_type, "endpoints": mirror.endpoints, "ports": mirror.ports,
            });
            let _made = self.cluster.create(ENDPOINT_SLICES, &endpoints.namespace, made, &writes());
            return;
        };
        let old = object.value();
        let (old, metadata) = (EndpointSlice(&old), EndpointSlice(&old).metadata().0);
        let same = old.endpoints().map(|endpoint| endpoint.0).eq(&mirror.endpoints)
            && old.ports().map(|port| port.0).eq(items(&mirror.ports))
            && metadata["labels"].as_object() == Some(&labels)
            && metadata["annotations"] == annotations;
        if same {
            return;
        }
        overwrite(self, object, |slice| {
            slice["endpoints"] = json!(mirror.endpoints);
            slice["ports"] = mirror.ports;
            slice["metadata"]["labels"] = Value::Object(labels);
            slice["metadata"]["annotations"] = annotations;
            slice["metadata"]["ownerReferences"] = json!([controller_reference(endpoints)]);
        });
    }
}

fn is_to_be_mirrored(endpoints: &Object) -> bool {
    endpoints.label(SKIP) != Some("true") && !endpoints.metadata_text().contains(LEADER)
}

/// One slice for each family of addresses in each subset.
fn mirrors<'a>(subsets: impl Iterator<Item = EndpointSubset<'a>>) -> Mirrors {
    let mut found = Mirrors::default();
    for subset in subsets {
        let ports: Vec<Value> = subset.ports().map(slice_port).collect();
        let ports = if ports.is_empty() { Value::Null } else { Value::Array(ports) };
        let mut added = 0;
        for (addresses, ready) in [(subset.addresses(), true), (subset.not_ready_addresses(), false)] {
            for address in addresses {
                if added >= MAX_PER_SUBSET {
                    found.skipped += 1;
                    continue;
                }
                let Some((address_type, endpoint)) = endpoint(address, ready) else {
                    found.invalid += 1;
                    found.skipped += 1;
                    continue;
                };
                added += 1;
                let same = |have: &&mut Mirror| have.address_type == address_type && have.ports == ports;
                match found.slices.iter_mut().find(same) {
                    Some(mirror) if !mirror.endpoints.contains(&endpoint) => mirror.endpoints.push(endpoint),
                    Some(_) => {}
                    None => {
                        let ports = ports.clone();
                        found.slices.push(Mirror { address_type, ports, endpoints: vec![endpoint] });
                    }
                }
            }
        }
    }
    found
}

fn slice_port(port: CoreEndpointPort<'_>) -> Value {
    let mut made = json!({ "name": port.name(), "port": port.port(), "protocol": port.protocol() });
    if let Some(protocol) = port.app_protocol() {
        made["appProtocol"] = json!(protocol);
    }
    made
}

/// The endpoint an address is, with the family of its address; none if it is no address.
fn endpoint(address: EndpointAddress<'_>, ready: bool) -> Option<(&'static str, Value)> {
    let ip: IpAddr = address.ip().parse().ok()?;
    let mut endpoint = json!({ "addresses": [ip.to_string()], "conditions": { "ready": ready } });
    for field in ["targetRef", "nodeName", "hostname"] {
        let have = &address.0[field];
        if !have.is_null() && have != "" {
            endpoint[field] = have.clone();
        }
    }
    Some((if ip.is_ipv4() { "IPv4" } else { "IPv6" }, endpoint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_become_slices_by_ports_and_family() {
        let port = |number: i64| json!([{ "port": number, "protocol": "TCP" }]);
        let subsets = [
            json!({ "addresses": [{ "ip": "192.0.2.1" }, { "ip": "2001:db8::1" }, { "ip": "x" }], "ports": port(80) }),
            json!({ "addresses": [{ "ip": "192.0.2.1" }], "ports": port(81) }),
            json!({ "notReadyAddresses": [{ "ip": "192.0.2.2" }], "ports": port(80) }),
        ];
        let found = mirrors(subsets.iter().map(EndpointSubset));
        let shapes: Vec<_> = found
            .slices
            .iter()
            .map(|slice| (slice.address_type, slice.endpoints.len(), &slice.ports[0]["port"]))
            .collect();
        assert_eq!(shapes, [("IPv4", 2, &json!(80)), ("IPv6", 1, &json!(80)), ("IPv4", 1, &json!(81))]);
        assert_eq!((found.invalid, found.skipped), (1, 1));
        assert_eq!(found.slices[0].endpoints[1]["conditions"]["ready"], false);
    }

    #[test]
    fn very_many_addresses_are_cut_off() {
        let addresses: Vec<_> =
            (0..1100).map(|at| json!({ "ip": format!("10.0.{}.{}", at / 250, at % 250) })).collect();
        let found = mirrors([EndpointSubset(&json!({ "addresses": addresses }))].into_iter());
        assert_eq!((found.slices[0].endpoints.len(), found.skipped), (1000, 100));
    }
}
