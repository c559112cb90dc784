//! Where a connection leads: a Service's address to one of its endpoints, as kube-proxy has it, an address of a pod or of a
//! node to the pod behind it.

// upstream: pkg/proxy/topology.go CategorizeEndpoints, pkg/proxy/iptables/proxier.go syncProxyRules (v1.36)

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use klab_scheduler::hash::fnv64;
use serde_json::Value;

use crate::client_config::slices;
use crate::process::{Heard, Protocol};
use crate::resource::{NETWORK_POLICIES, NODES, PODS, SERVICES};
use crate::store::Store;
use crate::value::{integer, items, text};

/// Where a connection ends.
#[derive(Debug, Clone)]
pub(crate) struct Landed {
    pub(crate) pod: Arc<Value>,
    pub(crate) port: u16,
}

/// Why it leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missed {
    Refused,
    /// What is sent there is dropped.
    Silence,
    /// Why nobody knows.
    Unknown(String),
}

impl From<Missed> for Heard {
    fn from(missed: Missed) -> Self {
        match missed {
            Missed::Refused => Self::Refused,
            Missed::Silence => Self::Silence,
            Missed::Unknown(why) => Self::Unknown(why),
        }
    }
}

/// Who connects, where that matters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) pod: &'a Value,
    /// Decides which of several endpoints it is.
    pub(super) chance: u64,
}

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
pub(super) fn endpoints(slices: &[Arc<Value>], port: Option<(&str, Protocol)>) -> Vec<Endpoint> {
    let mut found = Vec::new();
    for slice in slices {
        let number = match port {
            None => 0,
            Some((name, protocol)) => {
                let of = |one: &&Value| text(one, &["name"]) == name && protocol_of(one) == Some(protocol);
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

fn protocol_of(port: &Value) -> Option<Protocol> {
    match port["protocol"].as_str() {
        None | Some("TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        _ => None,
    }
}

/// Where a connection to an address leads.
pub(super) fn route(store: &Store, from: Origin<'_>, to: SocketAddr, protocol: Protocol) -> Result<Landed, Missed> {
    let landed = if to.ip().is_loopback() && from.pod["spec"]["hostNetwork"] == true {
        at_node(store, from, text(from.pod, &["spec", "nodeName"]), to, protocol)?
    } else if to.ip().is_loopback() {
        Landed { pod: Arc::new(from.pod.clone()), port: to.port() }
    } else {
        landing(store, from, to, protocol)?
    };
    if is_policed(store, from.pod, &landed.pod) {
        return Err(Missed::Unknown("whether NetworkPolicies let it through is not known".to_owned()));
    }
    Ok(landed)
}

fn landing(store: &Store, from: Origin<'_>, to: SocketAddr, protocol: Protocol) -> Result<Landed, Missed> {
    let address = to.ip().to_string();
    for service in store.list(SERVICES, None) {
        let value = service.value();
        if let Some(result) = through_service(store, from, &value, &address, to.port(), protocol) {
            return result;
        }
    }
    if let Some(pod) = pod_at(store, &address) {
        return Ok(Landed { pod, port: to.port() });
    }
    for node in store.list(NODES, None) {
        let node = node.value();
        if items(&node["status"]["addresses"]).iter().any(|own| own["address"] == address.as_str()) {
            return at_node(store, from, text(&node, &["metadata", "name"]), to, protocol);
        }
    }
    Err(Missed::Unknown(format!("nobody knows what is at {address}")))
}

/// The pods in whose JSON a text stands: to read them all would take long in a large cluster.
fn pods_with<'a>(store: &'a Store, wanted: &'a str) -> impl Iterator<Item = Arc<Value>> + 'a {
    let has = move |json: &[u8]| std::str::from_utf8(json).is_ok_and(|json| json.contains(wanted));
    store.list(PODS, None).filter(move |pod| has(&pod.json)).map(|pod| pod.value())
}

/// The pod that has this address for itself.
fn pod_at(store: &Store, address: &str) -> Option<Arc<Value>> {
    pods_with(store, address).find(|pod| {
        let ended = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
        let own = || items(&pod["status"]["podIPs"]).iter().any(|own| own["ip"] == address);
        !ended && pod["spec"]["hostNetwork"] != true && own()
    })
}

/// Where an address of this Service leads; none where it is none.
fn through_service(
    store: &Store,
    from: Origin<'_>,
    service: &Value,
    address: &str,
    port: u16,
    protocol: Protocol,
) -> Option<Result<Landed, Missed>> {
    let spec = &service["spec"];
    let has = |list: &Value| items(list).iter().any(|own| own == address);
    let inner = has(&spec["clusterIPs"]);
    let balanced = items(&service["status"]["loadBalancer"]["ingress"]).iter().any(|own| own["ip"] == address);
    if !inner && !balanced && !has(&spec["externalIPs"]) {
        return None;
    }
    let of = |one: &&Value| integer(one, &["port"]) == Some(i64::from(port)) && protocol_of(one) == Some(protocol);
    let Some(entry) = items(&spec["ports"]).iter().find(of) else { return Some(Err(Missed::Silence)) };
    let local = inner && spec["internalTrafficPolicy"] == "Local";
    let node = local.then(|| text(from.pod, &["spec", "nodeName"]));
    Some(balance(store, from, service, entry, node, protocol))
}

/// One of the endpoints of a Service's port; of those on a node only, where one is given.
fn balance(
    store: &Store,
    from: Origin<'_>,
    service: &Value,
    entry: &Value,
    node: Option<&str>,
    protocol: Protocol,
) -> Result<Landed, Missed> {
    let (namespace, name) = (text(service, &["metadata", "namespace"]), text(service, &["metadata", "name"]));
    if (namespace, name) == ("default", "kubernetes") {
        return Err(Missed::Unknown("the API server is not asked from pods".to_owned()));
    }
    let mut all = endpoints(&slices(store, namespace, name), Some((text(entry, &["name"]), protocol)));
    let has_any = all.iter().any(|one| one.ready);
    all.retain(|one| node.is_none_or(|node| one.node == node));
    let ready: Vec<Endpoint> = all.iter().filter(|one| one.ready).cloned().collect();
    let mut chosen = if ready.is_empty() { all.into_iter().filter(|one| one.serves_on).collect() } else { ready };
    if chosen.is_empty() {
        return Err(if has_any { Missed::Silence } else { Missed::Refused });
    }
    chosen.sort_by_key(|one| one.address);
    let chance = if service["spec"]["sessionAffinity"] == "ClientIP" {
        fnv64(&[text(from.pod, &["status", "podIP"]).as_bytes(), name.as_bytes()])
    } else {
        from.chance
    };
    let at = usize::try_from(chance % chosen.len() as u64).unwrap_or_default();
    let Some(one) = chosen.get(at) else { return Err(Missed::Refused) };
    match pod_at(store, &one.address.to_string()).or_else(|| host_pod(store, &one.node, one.port)) {
        Some(pod) => Ok(Landed { pod, port: one.port }),
        None => Err(Missed::Unknown(format!("nobody knows what is at {}", SocketAddr::new(one.address, one.port)))),
    }
}

/// Where a port of a node leads.
fn at_node(store: &Store, from: Origin<'_>, node: &str, to: SocketAddr, protocol: Protocol) -> Result<Landed, Missed> {
    let (address, port) = (to.ip().to_string(), to.port());
    for service in store.list(SERVICES, None) {
        let service = service.value();
        let of =
            |one: &&Value| integer(one, &["nodePort"]) == Some(i64::from(port)) && protocol_of(one) == Some(protocol);
        if let Some(entry) = items(&service["spec"]["ports"]).iter().find(of) {
            let local = service["spec"]["externalTrafficPolicy"] == "Local";
            return balance(store, from, &service, entry, local.then_some(node), protocol);
        }
    }
    for pod in pods_with(store, "\"hostPort\"") {
        if text(&pod, &["spec", "nodeName"]) != node || pod["spec"]["hostNetwork"] == true {
            continue;
        }
        for container in items(&pod["spec"]["containers"]) {
            let of = |one: &&Value| {
                let here = ["", "0.0.0.0", &address].contains(&text(one, &["hostIP"]));
                here && integer(one, &["hostPort"]) == Some(i64::from(port)) && protocol_of(one) == Some(protocol)
            };
            let own = items(&container["ports"]).iter().find(of).and_then(|one| integer(one, &["containerPort"]));
            if let Some(own) = own.and_then(|own| u16::try_from(own).ok()) {
                return Ok(Landed { pod, port: own });
            }
        }
    }
    match host_pod(store, node, port) {
        Some(pod) => Ok(Landed { pod, port }),
        None => Err(Missed::Unknown(format!("what listens at port {port} of node {node} is not known"))),
    }
}

/// The pod in the network of a node that says it listens at this port.
fn host_pod(store: &Store, node: &str, port: u16) -> Option<Arc<Value>> {
    pods_with(store, "\"hostNetwork\"").find(|pod| {
        let says = |container: &Value| {
            items(&container["ports"]).iter().any(|one| integer(one, &["containerPort"]) == Some(i64::from(port)))
        };
        pod["spec"]["hostNetwork"] == true
            && text(pod, &["spec", "nodeName"]) == node
            && items(&pod["spec"]["containers"]).iter().any(says)
    })
}

/// Whether a policy is about one of the two, so that it may be in the way.
fn is_policed(store: &Store, from: &Value, to: &Value) -> bool {
    let namespaces: HashSet<&str> = [from, to].into_iter().map(|pod| text(pod, &["metadata", "namespace"])).collect();
    let about = |policy: &Value, pod: &Value| {
        let selector = klab_scheduler::selector::Selector::from_json(&policy["spec"]["podSelector"]);
        policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
            && selector.matches_by(|key| pod["metadata"]["labels"][key].as_str())
    };
    let policies = namespaces.into_iter().flat_map(|namespace| store.list(NETWORK_POLICIES, Some(namespace)));
    policies.map(|policy| policy.value()).any(|policy| about(&policy, from) || about(&policy, to))
}

/// The port of a pod that is given by its number; none is the first that its containers name.
// upstream: pkg/registry/core/pod/strategy.go ResourceLocation (v1.36)
pub(super) fn pod_port(pod: &Value, port: &str) -> Option<u16> {
    if !port.is_empty() {
        return port.parse().ok();
    }
    let ports = items(&pod["spec"]["containers"]).iter().flat_map(|container| items(&container["ports"]));
    let first = ports.into_iter().find_map(|one| integer(one, &["containerPort"]));
    u16::try_from(first.unwrap_or(80)).ok()
}

/// Where a port of a Service leads that is given by its name or number; none is any.
///
/// # Errors
/// As API servers say them.
// upstream: pkg/registry/core/service/storage/storage.go ResourceLocation (v1.36)
pub(super) fn service_port(
    store: &Store,
    chance: u64,
    service: &Value,
    port: &str,
) -> Result<Result<Landed, Missed>, String> {
    let name = text(service, &["metadata", "name"]);
    let of = |one: &&Value| {
        port.is_empty()
            || text(one, &["name"]) == port
            || integer(one, &["port"]).is_some_and(|own| own.to_string() == port)
    };
    let entry = items(&service["spec"]["ports"]).iter().find(of);
    let entry = entry.ok_or_else(|| format!("no service port {port:?} found for service {name:?}"))?;
    let landed = balance(store, Origin { pod: &Value::Null, chance }, service, entry, None, Protocol::Tcp);
    match landed {
        Err(Missed::Refused) => Err(format!("no endpoints available for service {name:?}")),
        landed => Ok(landed),
    }
}
