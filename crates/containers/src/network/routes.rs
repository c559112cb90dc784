//! Where a connection leads: a Service's address to one of its endpoints, as kube-proxy has it, an address of a pod or of a
//! node to the pod behind it.

// upstream: pkg/proxy/topology.go CategorizeEndpoints, pkg/proxy/iptables/proxier.go syncProxyRules (v1.36)

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use klab_scheduler::selector::Selector;
use serde_json::Value;

use crate::objects::{Kind, Objects};
use crate::shell::resolver::Connection;
use klab_api_machinery::value::{integer, items, text};

/// The label of a slice that names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Where a connection ends.
#[derive(Debug, Clone)]
pub(super) struct Destination {
    pub(super) pod: Arc<Value>,
    pub(super) port: u16,
}

/// Where a connection ends, or what becomes of it.
type Route = Result<Destination, Connection>;

/// An endpoint of a Service.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) host: String,
    node: String,
    pub(super) ready: bool,
    /// It is about to end, and still serves.
    serves_on: bool,
}

/// The endpoints in them at the port of that name, or at any where that does not matter.
pub(super) fn endpoints(slices: &[Arc<Value>], port: Option<&str>) -> Vec<Endpoint> {
    let mut found = Vec::new();
    for slice in slices {
        let number = match port {
            None => 0,
            Some(name) => {
                let of = |one: &&Value| text(one, &["name"]) == name && is_tcp(one);
                let number = items(&slice["ports"]).iter().find(of).and_then(|one| integer(one, &["port"]));
                let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { continue };
                number
            }
        };
        for one in items(&slice["endpoints"]) {
            let conditions = &one["conditions"];
            let Some(address) = one["addresses"][0].as_str().and_then(|address| address.parse().ok()) else { continue };
            found.push(Endpoint {
                address,
                port: number,
                host: text(one, &["hostname"]).to_owned(),
                node: text(one, &["nodeName"]).to_owned(),
                ready: conditions["ready"] != false,
                serves_on: conditions["serving"] == true && conditions["terminating"] == true,
            });
        }
    }
    found
}

fn is_tcp(port: &Value) -> bool {
    port["protocol"].as_str().is_none_or(|protocol| protocol == "TCP")
}

/// The slices of a Service.
pub(super) fn slices(objects: &dyn Objects, namespace: &str, service: &str) -> Vec<Arc<Value>> {
    let mut own = objects.list(Kind::EndpointSlice, Some(namespace));
    own.retain(|slice| slice["metadata"]["labels"][SERVICE_LABEL] == service);
    own
}

/// Where a connection of a pod to an address leads.
pub(super) fn route(objects: &dyn Objects, from: &Value, to: SocketAddr) -> Route {
    let landed = if to.ip().is_loopback() && from["spec"]["hostNetwork"] == true {
        at_node(objects, text(from, &["spec", "nodeName"]), to)?
    } else if to.ip().is_loopback() {
        Destination { pod: Arc::new(from.clone()), port: to.port() }
    } else {
        landing(objects, from, to)?
    };
    if is_policed(objects, from, &landed.pod) { Err(Connection::Unknown) } else { Ok(landed) }
}

fn landing(objects: &dyn Objects, from: &Value, to: SocketAddr) -> Route {
    let address = to.ip().to_string();
    for service in objects.list(Kind::Service, None) {
        if let Some(route) = through_service(objects, from, &service, &address, to.port()) {
            return route;
        }
    }
    if let Some(pod) = pod_at(objects, &address) {
        return Ok(Destination { pod, port: to.port() });
    }
    for node in objects.list(Kind::Node, None) {
        if items(&node["status"]["addresses"]).iter().any(|own| own["address"] == address.as_str()) {
            return at_node(objects, text(&node, &["metadata", "name"]), to);
        }
    }
    Err(Connection::Unknown)
}

/// The pod that has this address for itself.
fn pod_at(objects: &dyn Objects, address: &str) -> Option<Arc<Value>> {
    objects.pods_with(address).into_iter().find(|pod| {
        let ended = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
        let own = || items(&pod["status"]["podIPs"]).iter().any(|own| own["ip"] == address);
        !ended && pod["spec"]["hostNetwork"] != true && own()
    })
}

/// Where an address of this Service leads; none where it is none.
fn through_service(objects: &dyn Objects, from: &Value, service: &Value, address: &str, port: u16) -> Option<Route> {
    let spec = &service["spec"];
    let has = |list: &Value| items(list).iter().any(|own| own == address);
    let inner = has(&spec["clusterIPs"]);
    let balanced = items(&service["status"]["loadBalancer"]["ingress"]).iter().any(|own| own["ip"] == address);
    if !inner && !balanced && !has(&spec["externalIPs"]) {
        return None;
    }
    let of = |one: &&Value| integer(one, &["port"]) == Some(i64::from(port)) && is_tcp(one);
    let Some(entry) = items(&spec["ports"]).iter().find(of) else { return Some(Err(Connection::Silence)) };
    let local = inner && spec["internalTrafficPolicy"] == "Local";
    Some(balance(objects, service, entry, local.then(|| text(from, &["spec", "nodeName"]))))
}

/// An endpoint of a Service's port; of those on a node only, where one is given.
fn balance(objects: &dyn Objects, service: &Value, entry: &Value, node: Option<&str>) -> Route {
    let (namespace, name) = (text(service, &["metadata", "namespace"]), text(service, &["metadata", "name"]));
    if (namespace, name) == ("default", "kubernetes") {
        return Err(Connection::Unknown);
    }
    let mut all = endpoints(&slices(objects, namespace, name), Some(text(entry, &["name"])));
    let has_any = all.iter().any(|one| one.ready);
    all.retain(|one| node.is_none_or(|node| one.node == node));
    let one = all.iter().find(|one| one.ready).or_else(|| all.iter().find(|one| one.serves_on));
    let Some(one) = one else { return Err(if has_any { Connection::Silence } else { Connection::Refused }) };
    match pod_at(objects, &one.address.to_string()).or_else(|| host_pod(objects, &one.node, one.port)) {
        Some(pod) => Ok(Destination { pod, port: one.port }),
        None => Err(Connection::Unknown),
    }
}

/// Where a port of a node leads.
fn at_node(objects: &dyn Objects, node: &str, to: SocketAddr) -> Route {
    let (address, port) = (to.ip().to_string(), to.port());
    for service in objects.list(Kind::Service, None) {
        let of = |one: &&Value| integer(one, &["nodePort"]) == Some(i64::from(port)) && is_tcp(one);
        if let Some(entry) = items(&service["spec"]["ports"]).iter().find(of) {
            let local = service["spec"]["externalTrafficPolicy"] == "Local";
            return balance(objects, &service, entry, local.then_some(node));
        }
    }
    for pod in objects.pods_with("\"hostPort\"") {
        if text(&pod, &["spec", "nodeName"]) != node || pod["spec"]["hostNetwork"] == true {
            continue;
        }
        for container in items(&pod["spec"]["containers"]) {
            let of = |one: &&Value| {
                let here = ["", "0.0.0.0", &address].contains(&text(one, &["hostIP"]));
                here && integer(one, &["hostPort"]) == Some(i64::from(port)) && is_tcp(one)
            };
            let own = items(&container["ports"]).iter().find(of).and_then(|one| integer(one, &["containerPort"]));
            if let Some(own) = own.and_then(|own| u16::try_from(own).ok()) {
                return Ok(Destination { pod, port: own });
            }
        }
    }
    host_pod(objects, node, port).map(|pod| Destination { pod, port }).ok_or(Connection::Unknown)
}

/// The pod in the network of a node that says it listens at this port.
fn host_pod(objects: &dyn Objects, node: &str, port: u16) -> Option<Arc<Value>> {
    objects.pods_with("\"hostNetwork\"").into_iter().find(|pod| {
        let says = |container: &Value| {
            items(&container["ports"]).iter().any(|one| integer(one, &["containerPort"]) == Some(i64::from(port)))
        };
        pod["spec"]["hostNetwork"] == true
            && text(pod, &["spec", "nodeName"]) == node
            && items(&pod["spec"]["containers"]).iter().any(says)
    })
}

/// Whether a policy is about one of the two, so that it may be in the way.
fn is_policed(objects: &dyn Objects, from: &Value, to: &Value) -> bool {
    let namespaces: HashSet<&str> = [from, to].into_iter().map(|pod| text(pod, &["metadata", "namespace"])).collect();
    let about = |policy: &Value, pod: &Value| {
        let selector = Selector::from_json(&policy["spec"]["podSelector"]);
        policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
            && selector.matches_by(|key| pod["metadata"]["labels"][key].as_str())
    };
    let mut policies = namespaces.into_iter().flat_map(|namespace| objects.list(Kind::NetworkPolicy, Some(namespace)));
    policies.any(|policy| about(&policy, from) || about(&policy, to))
}
