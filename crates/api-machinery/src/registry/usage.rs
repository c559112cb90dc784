//! What objects take of a ResourceQuota, for the kinds of which more is counted than their number.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::pod_resources::{amounts, pod_total};
use crate::views::PersistentVolumeClaim;
use klab_scheduler::quantity::Quantity;

/// Takes a name and the amount that is used of it.
pub type Take<'a> = &'a mut dyn FnMut(&str, Quantity);

/// Whether pods can count for a name.
pub(crate) fn pods_count(name: &str) -> bool {
    !["services", "configmaps", "secrets", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"]
        .contains(&name)
}

/// What a pod takes.
pub fn pod(value: &Value, take: Take<'_>) {
    if matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return;
    }
    take("pods", Quantity::from_units(1));
    for (name, amount) in pod_total(value, "requests") {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            take(&name, amount);
        }
        take(&format!("requests.{name}"), amount);
    }
    for (name, amount) in pod_total(value, "limits") {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            take(&format!("limits.{name}"), amount);
        }
    }
}

/// Whether Services can count for a name.
pub(crate) fn services_count(name: &str) -> bool {
    name.starts_with("services")
}

/// What a Service takes.
pub fn service(value: &Value, take: Take<'_>) {
    let one = Quantity::from_units(1);
    take("services", one);
    let ports = value["spec"]["ports"].as_array().map_or(0, Vec::len) as i64;
    match value["spec"]["type"].as_str() {
        Some("NodePort") => take("services.nodeports", Quantity::from_units(ports)),
        Some("LoadBalancer") => {
            take("services.loadbalancers", one);
            let given = value["spec"]["ports"].as_array().into_iter().flatten();
            let given = given.filter(|port| port["nodePort"].as_i64().is_some_and(|port| port != 0)).count();
            let fixed = value["spec"]["allocateLoadBalancerNodePorts"] == false;
            take("services.nodeports", Quantity::from_units(if fixed { given as i64 } else { ports }));
        }
        _ => {}
    }
}

/// Whether claims can count for a name.
pub(crate) fn claims_count(name: &str) -> bool {
    name.contains("persistentvolumeclaims") || name.contains("storage")
}

/// What a claim takes.
pub fn claim(value: &Value, take: Take<'_>) {
    let one = Quantity::from_units(1);
    take("persistentvolumeclaims", one);
    let spec = PersistentVolumeClaim(value).spec();
    let class = spec.storage_class_name().unwrap_or_default();
    if !class.is_empty() {
        take(&format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), one);
    }
    if let Some(amount) = amounts(spec.resources().requests()).get("storage") {
        take("requests.storage", *amount);
        if !class.is_empty() {
            take(&format!("{class}.storageclass.storage.k8s.io/requests.storage"), *amount);
        }
    }
}

/// Whether resource claims can count for a name.
pub(crate) fn resource_claims_count(name: &str) -> bool {
    name.ends_with(DEVICES_OF_CLASS) || is_extended(name)
}

/// Whether a quota counts by this name what pods ask for as a resource, and claims as devices.
pub fn is_extended(name: &str) -> bool {
    name.starts_with("requests.") && name.contains('/')
}

/// What a resource claim takes of resources that its classes stand for as well: its devices, but for those that the pod it
/// stands for has asked for already. `resource` is what a class stands for beside its own name.
// upstream: pkg/quota/v1/evaluator/core/resource_claims.go addExtendedResourceQuota (v1.36)
pub fn extended(claim: &Value, pod: Option<&Value>, resource: impl Fn(&str) -> Option<String>, take: Take<'_>) {
    let mut of_pod: BTreeMap<String, Quantity> = BTreeMap::new();
    if let Some(value) = pod {
        self::pod(value, &mut |name, amount| _ = of_pod.insert(name.to_owned(), amount));
    }
    let mut devices = Vec::new();
    resource_claim(claim, &mut |name, amount| {
        if let Some(class) = name.strip_suffix(DEVICES_OF_CLASS) {
            devices.push((format!("{IMPLICIT_DEVICES}{class}"), amount));
            devices.extend(resource(class).map(|resource| (format!("requests.{resource}"), amount)));
        }
    });
    for (name, mut amount) in devices {
        amount -= of_pod.get(&name).copied().unwrap_or_default();
        if !amount.is_zero() && !amount.is_negative() {
            take(&name, amount);
        }
    }
}

/// What a quota of devices of a class ends in, after the class.
const DEVICES_OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// What it begins with where it is counted as a resource of pods.
const IMPLICIT_DEVICES: &str = "requests.deviceclass.resource.kubernetes.io/";
/// Devices that a claim can have: what a request for all counts.
const ALL_DEVICES: i64 = 32;

/// What a resource claim takes: of alternatives that of the largest, class by class.
// upstream: pkg/quota/v1/evaluator/core/resource_claims.go Usage (v1.36)
pub fn resource_claim(value: &Value, take: Take<'_>) {
    let devices = |request: &Value| match request["allocationMode"].as_str() {
        Some("ExactCount") => request["count"].as_i64().unwrap_or(0),
        Some("All") => ALL_DEVICES,
        _ => 0,
    };
    let class = |request: &Value| request["deviceClassName"].as_str().unwrap_or_default().to_owned();
    let mut total: BTreeMap<String, i64> = BTreeMap::new();
    for request in value["spec"]["devices"]["requests"].as_array().into_iter().flatten() {
        let mut of_request: BTreeMap<String, i64> = BTreeMap::new();
        let exactly = std::iter::once(&request["exactly"]).filter(|exactly| exactly.is_object());
        for one in exactly.chain(request["firstAvailable"].as_array().into_iter().flatten()) {
            let most = of_request.entry(class(one)).or_default();
            *most = (*most).max(devices(one));
        }
        for (class, count) in of_request {
            let sum = total.entry(class).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    for (class, count) in total {
        take(&format!("{class}{DEVICES_OF_CLASS}"), Quantity::from_units(count));
    }
}
