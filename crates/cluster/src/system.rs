//! What a fresh cluster runs before anyone uses it: kube-system's workloads as on AKS or kind, services, storage
//! classes, roles.
//!
//! Requests, tolerations, affinities and priority classes are those of AKS with Azure CNI Overlay and of kind, because
//! they decide what is left for a lesson's pods and where the system's own pods go.

mod aks;
mod kind;
mod ordinary_node;
mod roles;
mod workload;

pub(crate) use self::aks::SCHEDULER_CONFIGURATION;
pub use self::aks::{SCHEDULER_CONFIGURATIONS, scheduler_configurations};
pub use self::kind::{control_plane_node, is_control_plane};
pub use self::ordinary_node::ordinary_node;
pub use super::flavour::Flavour;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{ENDPOINT_SLICES, ENDPOINTS, PRIORITY_CLASSES, ResourceId, SERVICE_CIDRS, SERVICES};
use klab_api_machinery::value::time_text;
use serde_json::{Value, json};

use super::cluster::service_range;
use super::cluster::{Cluster, Common, KIND_RANGE, RANGE, SERVICE_CIDR, WriteOptions};

/// Manager of what the API server makes itself.
const API_SERVER: &str = "kube-apiserver";
/// Manager of what its controllers make.
const CONTROLLERS: &str = "kube-controller-manager";

/// How many uids a cluster draws for its roles.
const UIDS_OF_ROLES: usize = 20;

/// The roles and bindings that every API server has.
static ROLES: LazyLock<Vec<Value>> = LazyLock::new(roles::objects);

/// What a fresh cluster of this look holds beside the roles of every API server, in the order in which it is made.
pub fn objects(flavour: Flavour) -> &'static [Value] {
    static OF_FLAVOUR: [LazyLock<Vec<Value>>; 3] = [
        LazyLock::new(|| with_common_objects(Flavour::Aks, aks::objects())),
        LazyLock::new(|| with_common_objects(Flavour::Kind, kind::objects())),
        LazyLock::new(|| with_common_objects(Flavour::Bare, Vec::new())),
    ];
    match flavour {
        Flavour::Aks => &OF_FLAVOUR[0],
        Flavour::Kind => &OF_FLAVOUR[1],
        Flavour::Bare => &OF_FLAVOUR[2],
    }
}

/// The metrics server, for a look that does not have it by itself.
pub fn metrics_server(flavour: Flavour) -> Vec<Value> {
    match flavour {
        Flavour::Kind => kind::metrics_server(),
        Flavour::Aks | Flavour::Bare => Vec::new(),
    }
}

/// What every API server makes itself, then what is of the flavour.
fn with_common_objects(flavour: Flavour, own: Vec<Value>) -> Vec<Value> {
    priority_classes().into_iter().chain(api_service(flavour)).chain(own).collect()
}

/// Every text that stands in what a fresh cluster of this look holds, once: a list.
pub fn texts(flavour: Flavour) -> &'static Value {
    static OF_FLAVOUR: [LazyLock<Value>; 3] = [
        LazyLock::new(|| texts_in(Flavour::Aks)),
        LazyLock::new(|| texts_in(Flavour::Kind)),
        LazyLock::new(|| texts_in(Flavour::Bare)),
    ];
    &OF_FLAVOUR[flavour as usize]
}

fn texts_in(flavour: Flavour) -> Value {
    fn gather<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::String(text) => _ = found.insert(text),
            Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
            Value::Object(fields) => fields.iter().for_each(|(key, value)| {
                found.insert(key);
                gather(value, found);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    ROLES.iter().chain(objects(flavour)).for_each(|object| gather(object, &mut found));
    found.into_iter().collect()
}

/// Fills a cluster with what one of this look begins with; what is there already stays as it is. Gives what was made, as
/// `Deployment/coredns`.
pub fn bootstrap(cluster: &Cluster, flavour: Flavour) -> Vec<String> {
    let mut made = ensure_roles(cluster);
    let at = if flavour == Flavour::Kind { KIND_RANGE } else { RANGE };
    made.extend(ensure_service_cidr(cluster, at));
    made.extend(ensure(cluster, objects(flavour), "kube-addon-manager"));
    made
}

/// Makes what every API server has, where it is not there: an older klab may have made the cluster.
pub fn ensure_common(cluster: &Cluster) {
    ensure_roles(cluster);
    ensure_service_cidr(cluster, service_range(cluster));
}

/// Makes the roles and bindings that every API server has, where they are not there.
fn ensure_roles(cluster: &Cluster) -> Vec<String> {
    static COMMON: LazyLock<Common> =
        LazyLock::new(|| Common::of(&ROLES, &WriteOptions::by(API_SERVER), UIDS_OF_ROLES));
    if cluster.begin_with(&COMMON) { ROLES.iter().map(title).collect() } else { ensure(cluster, &ROLES, API_SERVER) }
}

/// Makes the range that Services have their addresses from, where it is not there.
fn ensure_service_cidr(cluster: &Cluster, range: &str) -> Option<String> {
    static COMMON: [LazyLock<Common>; 2] = [
        LazyLock::new(|| Common::of(&[service_cidr(RANGE)], &WriteOptions::by(CONTROLLERS), 0)),
        LazyLock::new(|| Common::of(&[service_cidr(KIND_RANGE)], &WriteOptions::by(CONTROLLERS), 0)),
    ];
    let common = &COMMON[usize::from(range == KIND_RANGE)];
    cluster.begin_with(common).then(|| format!("ServiceCIDR/{SERVICE_CIDR}"))
}

fn ensure(cluster: &Cluster, objects: &[Value], manager: &'static str) -> Vec<String> {
    let mut all = Vec::new();
    for object in objects {
        let resource = object["apiVersion"]
            .as_str()
            .zip(object["kind"].as_str())
            .and_then(|(version, kind)| ResourceId::by_kind(version, kind));
        let Some(resource) = resource else {
            debug_assert!(false, "no such kind: {object}");
            continue;
        };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if cluster.get(resource, &namespace, name).is_none() {
            let made = cluster.create(resource, &namespace, object.clone(), &WriteOptions::by(manager));
            debug_assert!(made.is_ok(), "{made:?}");
            all.extend(made.is_ok().then(|| title(object)));
        }
    }
    all
}

/// Kind and name.
fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// The pods a control-plane node runs from files of its own; none on other nodes.
pub(crate) fn static_pods(node: &Object) -> Vec<Value> {
    if node.label("node-role.kubernetes.io/control-plane").is_some() { kind::static_pods(node) } else { Vec::new() }
}

fn priority_classes() -> Vec<Value> {
    let row = PRIORITY_CLASSES.row();
    [
        (
            "system-cluster-critical",
            2_000_000_000_i64,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ]
    .into_iter()
    .map(|(name, value, description)| {
        json!({
            "apiVersion": row.api_version(), "kind": row.kind, "metadata": { "name": name }, "value": value,
            "description": description, "preemptionPolicy": "PreemptLowerPriority",
        })
    })
    .collect()
}

/// The range that Services have their addresses from, as its controller leaves it.
// upstream: pkg/controlplane/controller/defaultservicecidr, pkg/controller/servicecidrs (v1.36)
fn service_cidr(range: &str) -> Value {
    json!({
        "apiVersion": SERVICE_CIDRS.row().api_version(), "kind": "ServiceCIDR",
        "metadata": { "name": SERVICE_CIDR, "finalizers": ["networking.k8s.io/service-cidr-finalizer"] },
        "spec": { "cidrs": [range] },
        "status": { "conditions": [{
            "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready",
            "lastTransitionTime": time_text(Timestamp::UNIX_EPOCH),
        }] },
    })
}

/// The Service in front of the API server, with the endpoint behind it.
fn api_service(flavour: Flavour) -> Vec<Value> {
    let (address, endpoint, port) = match flavour {
        Flavour::Aks | Flavour::Bare => ("10.0.0.1", "10.224.0.2", 443),
        Flavour::Kind => ("10.96.0.1", "172.18.0.2", 6443),
    };
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    vec![
        json!({
            "apiVersion": SERVICES.row().api_version(), "kind": "Service",
            "metadata": { "name": "kubernetes", "namespace": "default", "labels": labels },
            "spec": {
                "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": port }],
            },
        }),
        json!({
            "apiVersion": ENDPOINTS.row().api_version(), "kind": "Endpoints",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
            },
            "subsets": [{
                "addresses": [{ "ip": endpoint }], "ports": [{ "name": "https", "port": port, "protocol": "TCP" }],
            }],
        }),
        json!({
            "apiVersion": ENDPOINT_SLICES.row().api_version(), "kind": "EndpointSlice",
            "metadata": {
                "name": "kubernetes", "namespace": "default", "labels": { "kubernetes.io/service-name": "kubernetes" },
            },
            "addressType": "IPv4", "endpoints": [{ "addresses": [endpoint], "conditions": { "ready": true } }],
            "ports": [{ "name": "https", "port": port, "protocol": "TCP" }],
        }),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::SteppedClock;

    #[test]
    fn clusters_share_the_range_of_their_services_and_give_addresses_of_it() {
        let made = |flavour| {
            let cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7);
            bootstrap(&cluster, flavour);
            let range = cluster.get(SERVICE_CIDRS, "", SERVICE_CIDR).unwrap();
            let service = json!({ "metadata": { "name": "web" }, "spec": { "ports": [{ "port": 80 }] } });
            let service = cluster.create(SERVICES, "default", service, &WriteOptions::client("test")).unwrap();
            let address = service.value()["spec"]["clusterIP"].as_str().unwrap().to_owned();
            (range, address)
        };
        let (one, other, kind) = (made(Flavour::Aks), made(Flavour::Bare), made(Flavour::Kind));
        assert!(Arc::ptr_eq(&one.0, &other.0));
        assert!(one.1.starts_with("10.0.") && kind.1.starts_with("10.96."), "{} {}", one.1, kind.1);
        assert_eq!(kind.0.value()["spec"]["cidrs"], json!(["10.96.0.0/16"]));
    }
}
