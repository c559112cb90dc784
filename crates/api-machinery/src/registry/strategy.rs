//! What the registry does to versions of objects of some kinds, and which changes count as a new generation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::validation::service::is_asked_for_health;

/// The annotation that counts the templates of a DaemonSet, for clients older than its generation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// A namespace is labelled with its name, so that selectors can find it.
pub(super) fn label_namespace(_: Option<&Value>, new: &mut Value) {
    let name = new["metadata"]["name"].clone();
    if new["metadata"].is_object() {
        new["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
}

/// Counts the versions of a DaemonSet's template in its annotation.
pub(super) fn count_template(old: Option<&Value>, new: &mut Value) {
    let generation = match old {
        None => 1,
        Some(old) => {
            let had = old["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
            let had: i64 = had.and_then(|text| text.parse().ok()).unwrap_or(1);
            had + i64::from(old["spec"]["template"] != new["spec"]["template"])
        }
    };
    if new["metadata"].is_object() {
        new["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(generation.to_string());
    }
}

/// A Service that becomes one of another type loses what only the old one has, unless the client changed that, too. What it
/// still has and the client leaves out stays.
// upstream: pkg/registry/core/service/strategy.go dropTypeDependentFields, patchAllocatedValues (v1.36)
pub(super) fn drop_by_type(old: Option<&Value>, new: &mut Value) {
    let Some(old) = old.map(|old| &old["spec"]) else { return };
    let spec = &mut new["spec"];
    let kind = |spec: &Value, kinds: &[&str]| spec["type"].as_str().is_some_and(|kind| kinds.contains(&kind));
    let on_nodes = |spec: &Value| kind(spec, &["NodePort", "LoadBalancer"]);
    let external = |spec: &Value| {
        let addresses = spec["externalIPs"].as_array().is_some_and(|addresses| !addresses.is_empty());
        on_nodes(spec) || (kind(spec, &["ClusterIP"]) && addresses)
    };
    let balancer = |spec: &Value| kind(spec, &["LoadBalancer"]);
    if on_nodes(old) && !on_nodes(spec) && node_ports(old) == node_ports(spec) {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    if is_asked_for_health(old) && is_asked_for_health(spec) && spec["healthCheckNodePort"].is_null() {
        spec["healthCheckNodePort"] = old["healthCheckNodePort"].clone();
    }
    for (field, lost) in [
        ("healthCheckNodePort", is_asked_for_health(old) && !is_asked_for_health(spec)),
        ("allocateLoadBalancerNodePorts", balancer(old) && !balancer(spec)),
        ("loadBalancerClass", balancer(old) && !balancer(spec)),
        ("externalTrafficPolicy", external(old) && !external(spec)),
    ] {
        if lost && old[field] == spec[field] {
            spec.as_object_mut().map(|spec| spec.remove(field));
        }
    }
}

/// The ports of nodes that a Service has.
fn node_ports(spec: &Value) -> BTreeSet<i64> {
    let ports = spec["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| port["nodePort"].as_i64().filter(|number| *number != 0)).collect()
}

/// The generation counts the versions of the spec.
pub fn spec(old: &Value, new: &Value) -> bool {
    old["spec"] != new["spec"]
}

/// A Deployment's annotations go to its ReplicaSets, so that they count, too.
// upstream: pkg/registry/apps/deployment/strategy.go PrepareForUpdate (v1.36)
pub(super) fn spec_or_annotations(old: &Value, new: &Value) -> bool {
    let annotations = |value: &Value| {
        let annotations = value["metadata"]["annotations"].as_object();
        annotations.filter(|annotations| !annotations.is_empty()).cloned()
    };
    spec(old, new) || annotations(old) != annotations(new)
}

/// The webhooks of a configuration.
pub fn webhooks(old: &Value, new: &Value) -> bool {
    old["webhooks"] != new["webhooks"]
}

/// The fields of an EndpointSlice.
pub fn endpoints(old: &Value, new: &Value) -> bool {
    ["addressType", "endpoints", "ports"].iter().any(|field| old[field] != new[field])
}

/// New objects have a generation, which stays as it is.
pub fn nothing(_: &Value, _: &Value) -> bool {
    false
}

/// Of kinds that CustomResourceDefinitions define, all that is neither metadata nor status.
pub(super) fn all_but_metadata_and_status(old: &Value, new: &Value) -> bool {
    let fields = |value: &Value| {
        let mut value = value.clone();
        if let Some(map) = value.as_object_mut() {
            map.retain(|name, _| !matches!(name.as_str(), "metadata" | "status"));
        }
        value
    };
    fields(old) != fields(new)
}
