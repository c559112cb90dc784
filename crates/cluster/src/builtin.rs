//! Objects every API server shows and no lab changes: APIServices, FlowSchemas, PriorityLevelConfigurations, IPAddresses. They are
//! made up when they are asked for, so that they cost no cluster anything.

use std::net::IpAddr;

use klab_api_machinery::resource::{API_SERVICES, ResourceId, SERVICES};
use serde_json::{Value, json};

use crate::store::Store;

/// Name, priority level, matching precedence, by what flows differ.
const FLOWS: &[(&str, &str, i64, &str)] = &[
    ("exempt", "exempt", 1, ""),
    ("probes", "exempt", 2, ""),
    ("system-leader-election", "leader-election", 100, "ByUser"),
    ("system-node-high", "node-high", 400, "ByUser"),
    ("system-nodes", "system", 500, "ByUser"),
    ("kube-controller-manager", "workload-high", 800, "ByNamespace"),
    ("kube-scheduler", "workload-high", 800, "ByNamespace"),
    ("kube-system-service-accounts", "workload-high", 900, "ByNamespace"),
    ("service-accounts", "workload-low", 9000, "ByUser"),
    ("global-default", "global-default", 9900, "ByUser"),
    ("catch-all", "catch-all", 10_000, "ByUser"),
];

/// Name, concurrency shares, queues, hand size; no queues where requests are refused or exempt.
const LEVELS: &[(&str, i64, i64, i64)] = &[
    ("catch-all", 5, 0, 0),
    ("exempt", 0, 0, 0),
    ("global-default", 20, 128, 6),
    ("leader-election", 10, 16, 4),
    ("node-high", 40, 64, 6),
    ("system", 30, 64, 6),
    ("workload-high", 40, 128, 6),
    ("workload-low", 100, 128, 6),
];

/// The addresses that Services have: one object for each, called after it.
// upstream: pkg/registry/core/service/ipallocator/ipallocator.go createIPAddress (v1.36)
pub(crate) fn ip_addresses(store: &Store) -> Vec<Value> {
    let mut all = Vec::new();
    for service in store.list(SERVICES, None) {
        let value = service.value();
        let addresses = value["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for address in addresses.filter_map(|address| address.parse::<IpAddr>().ok()) {
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            all.push(json!({
                "metadata": {
                    "name": address.to_string(), "creationTimestamp": value["metadata"]["creationTimestamp"],
                    "labels": {
                        "ipaddress.kubernetes.io/ip-family": family,
                        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                    },
                },
                "spec": { "parentRef": {
                    "group": "", "resource": "services", "namespace": &*service.namespace, "name": &*service.name,
                } },
            }));
        }
    }
    all
}

/// Whether every API server has this level.
pub(crate) fn has_level(name: &str) -> bool {
    LEVELS.iter().any(|(level, ..)| *level == name)
}

/// The uid of an object that is made up: the same whenever it is.
pub(crate) fn uid(kind: ResourceId, name: &str) -> String {
    let row = kind.row();
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{}/{}/{name}", row.group, row.plural).as_bytes());
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[12..15], &hex[15..18], &hex[18..30])
}

/// One APIService for each version of each group that is served.
pub(crate) fn api_services(group_versions: &[(&str, &str)]) -> Vec<Value> {
    // The group of APIServices themselves is not aggregated.
    let aggregated = group_versions.iter().filter(|(group, _)| *group != API_SERVICES.row().group);
    aggregated.map(|(group, version)| api_service(group, version)).collect()
}

/// The flows that every API server tells apart.
pub(crate) fn flow_schemas() -> Vec<Value> {
    FLOWS.iter().map(flow_schema).collect()
}

/// The priority levels of these flows.
pub(crate) fn priority_levels() -> Vec<Value> {
    LEVELS.iter().map(priority_level).collect()
}

fn api_service(group: &str, version: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("{version}.{group}"),
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
        },
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 17_800, "versionPriority": 15},
        "status": {"conditions": [{
            "type": "Available", "status": "True", "reason": "Local", "message": "Local APIServices are always available",
        }]},
    })
}

fn flow_schema((name, level, precedence, distinguisher): &(&str, &str, i64, &str)) -> Value {
    let mut value = json!({
        "metadata": {"name": name, "generation": 1, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        "spec": {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence},
        "status": {"conditions": [{"type": "Dangling", "status": "False", "reason": "Found"}]},
    });
    if !distinguisher.is_empty() {
        value["spec"]["distinguisherMethod"] = json!({"type": distinguisher});
    }
    value
}

fn priority_level((name, shares, queues, hand): &(&str, i64, i64, i64)) -> Value {
    let spec = match (*name, *queues) {
        ("exempt", _) => json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": shares}}),
        (_, 0) => json!({"type": "Limited",
            "limited": {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"}}}),
        _ => json!({"type": "Limited", "limited": {"nominalConcurrencyShares": shares, "limitResponse": {
            "type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}}}}),
    };
    json!({
        "metadata": {"name": name, "generation": 1, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        "spec": spec, "status": {},
    })
}
