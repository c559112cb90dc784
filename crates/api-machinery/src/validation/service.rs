//! Services.

// upstream: pkg/apis/core/validation/validation.go validateService, ValidateServiceUpdate (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::container::number;
use super::endpoints::elsewhere;
use super::field::{entries, supported, text};
use super::{Errors, Place, addresses, handlers, metadata, ranges};
use crate::schema::Path;

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
const MAX_AFFINITY: i64 = 86_400;

/// A new Service.
pub fn create(value: &Value, errors: &mut Errors) {
    check(&Value::Null, value, errors);
}

fn is_headless(spec: &Value) -> bool {
    text(spec, "clusterIP") == "None"
}

/// Whether clients outside the cluster reach it.
fn is_external(spec: &Value) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => entries(spec, "externalIPs").next().is_some(),
        _ => false,
    }
}

/// Whether the load balancer asks nodes if they have an endpoint.
pub(crate) fn is_asked_for_health(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

fn check(old: &Value, value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let kind = text(spec, "type");
    let annotations = &value["metadata"]["annotations"];
    if annotations[MODE].is_string() && annotations[HINTS].is_string() && annotations[MODE] != annotations[HINTS] {
        let place = Path::Root.field("metadata");
        let fault = format!("must match annotations[{HINTS}] when both are specified");
        errors.invalid(place.field("annotations").key(MODE), &annotations[MODE], fault);
    }
    if kind != "ExternalName" && entries(spec, "ports").next().is_none() && !is_headless(spec) {
        errors.required(path.field("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let fault = format!("may not be set to 'None' for {kind} services");
            errors.invalid(path.field("clusterIPs").index(0), &spec["clusterIP"], fault);
        }
        "ExternalName" => external_name(spec, &path, errors),
        _ => {}
    }
    ports(spec, &path.field("ports"), errors);
    metadata::labels(&Place::new(path.field("selector"), &spec["selector"]), errors);
    affinity(spec, &path, errors);
    families(spec, &path, errors);
    external_addresses(&old["spec"], spec, &path.field("externalIPs"), errors);
    supported(&spec["type"], &path.field("type"), &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    twice(spec, &path.field("ports"), errors);
    balancer(&old["spec"], spec, &path, errors);
    traffic(spec, &path, errors);
}

fn external_name(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("externalName");
    let name = text(spec, "externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        return errors.required(place, "");
    }
    for fault in names::subdomain(name) {
        errors.invalid(place, &json!(name), fault);
    }
}

fn ports(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    let several = entries(spec, "ports").count() > 1;
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, port) in entries(spec, "ports") {
        let path = list.index(at);
        let name = text(port, "name");
        if name.is_empty() {
            if several {
                errors.required(path.field("name"), "");
            }
        } else {
            for fault in names::label(name) {
                errors.invalid(path.field("name"), &port["name"], fault);
            }
            if !seen.insert(name) {
                errors.duplicate(path.field("name"), &port["name"]);
            }
        }
        number(&Place::<i64>::new(path.field("port"), &port["port"]), errors);
        supported(&port["protocol"], &path.field("protocol"), &["SCTP", "TCP", "UDP"], errors);
        handlers::port(&Place::new(path.field("targetPort"), &port["targetPort"]), errors);
        if let Some(protocol) = port["appProtocol"].as_str() {
            for fault in names::qualified(protocol) {
                errors.invalid(path.field("appProtocol"), &port["appProtocol"], fault);
            }
        }
    }
}

/// Ports that are there twice.
fn twice(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    let mut on_nodes = HashSet::new();
    for (at, port) in entries(spec, "ports") {
        let Some(number) = port["nodePort"].as_i64().filter(|number| *number != 0) else { continue };
        if !on_nodes.insert((number, text(port, "protocol"))) {
            errors.duplicate(list.index(at).field("nodePort"), &port["nodePort"]);
        }
    }
    let mut seen = HashSet::new();
    for (at, port) in entries(spec, "ports") {
        if !seen.insert((port["port"].as_i64(), text(port, "protocol"))) {
            // Upstream shows what it looked for.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                port["protocol"], port["port"]
            );
            errors.duplicate_as(list.index(at), &shown);
        }
    }
}

fn affinity(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    supported(&spec["sessionAffinity"], &path.field("sessionAffinity"), &["ClientIP", "None"], errors);
    let config = &spec["sessionAffinityConfig"];
    let path = path.field("sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "None" if !config.is_null() => errors.forbidden(path, "must not be set when session affinity is None"),
        "ClientIP" => {
            let when = "when session affinity type is ClientIP";
            let client = path.field("clientIP");
            let timeout = &config["clientIP"]["timeoutSeconds"];
            if config.is_null() {
                errors.required(path, when);
            } else if config["clientIP"].is_null() {
                errors.required(client, when);
            } else if timeout.is_null() {
                errors.required(client.field("timeoutSeconds"), when);
            } else if !timeout.as_i64().is_some_and(|seconds| (1..=MAX_AFFINITY).contains(&seconds)) {
                let fault = format!("must be greater than 0 and less than {MAX_AFFINITY}");
                errors.invalid(client.field("timeoutSeconds"), timeout, fault);
            }
        }
        _ => {}
    }
}

fn families(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("ipFamilies");
    let mut seen = HashSet::new();
    for (at, family) in entries(spec, "ipFamilies") {
        supported(family, &list.index(at), &["IPv4", "IPv6"], errors);
        if !seen.insert(family) {
            errors.duplicate(list.index(at), family);
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    supported(&spec["ipFamilyPolicy"], &path.field("ipFamilyPolicy"), &policies, errors);
}

fn external_addresses(old: &Value, spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    let had: HashSet<&Value> = entries(old, "externalIPs").map(|(_, address)| address).collect();
    for (at, address) in entries(spec, "externalIPs") {
        let path = list.index(at);
        let before = errors.len();
        if !had.contains(address) {
            addresses::ip(&Place::new(path, address), errors);
        }
        if errors.len() == before {
            elsewhere(address, &path, errors);
        }
    }
}

/// What only a balancer of load has.
fn balancer(old: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let is_balancer = spec["type"] == "LoadBalancer";
    // Upstream writes the field with a capital.
    let list = path.field("LoadBalancerSourceRanges");
    if entries(spec, "loadBalancerSourceRanges").next().is_some() && !is_balancer {
        errors.forbidden(list, ONLY);
    }
    for (at, range) in entries(spec, "loadBalancerSourceRanges") {
        let trimmed = range.as_str().unwrap_or_default().trim();
        let is_old = |(_, had): (usize, &Value)| had.as_str().is_some_and(|had| had.trim() == trimmed);
        if !entries(old, "loadBalancerSourceRanges").any(is_old) {
            ranges::cidr(&json!(trimmed), &list.index(at), errors);
        }
    }
    if !spec["allocateLoadBalancerNodePorts"].is_null() && !is_balancer {
        errors.forbidden(path.field("allocateLoadBalancerNodePorts"), ONLY);
    }
    if let Some(class) = spec["loadBalancerClass"].as_str() {
        let place = path.field("loadBalancerClass");
        if is_balancer {
            for fault in names::qualified(class) {
                errors.invalid(place, &spec["loadBalancerClass"], fault);
            }
        } else {
            errors.forbidden(place, ONLY);
        }
    }
}

fn traffic(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = &spec["externalTrafficPolicy"];
    let place = path.field("externalTrafficPolicy");
    if is_external(spec) {
        if text(spec, "externalTrafficPolicy").is_empty() {
            errors.required(place, "");
        } else {
            supported(policy, &place, &["Cluster", "Local"], errors);
        }
    } else if !text(spec, "externalTrafficPolicy").is_empty() {
        errors.invalid(place, policy, "may only be set for externally-accessible services");
    }
    let health = &spec["healthCheckNodePort"];
    let place = path.field("healthCheckNodePort");
    if is_asked_for_health(spec) {
        if health.as_i64().unwrap_or_default() == 0 {
            errors.required(place, "");
        } else {
            number(&Place::<i64>::new(place, health), errors);
        }
    } else if health.as_i64().is_some_and(|port| port != 0) {
        let fault = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(place, health, fault);
    }
    supported(&spec["internalTrafficPolicy"], &path.field("internalTrafficPolicy"), &["Cluster", "Local"], errors);
    let ways = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    supported(&spec["trafficDistribution"], &path.field("trafficDistribution"), &ways, errors);
}

/// A changed Service.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after) = (&old["spec"], &new["spec"]);
    let external = |spec: &Value| text(spec, "type") == "ExternalName";
    if !external(before)
        && !external(after)
        && !text(before, "clusterIP").is_empty()
        && before["clusterIP"] != after["clusterIP"]
    {
        errors.invalid("spec.clusterIPs[0]", &after["clusterIPs"], "may not change once set");
    }
    let is_balancer = |spec: &Value| spec["type"] == "LoadBalancer";
    if is_balancer(before) && is_balancer(after) && before["loadBalancerClass"] != after["loadBalancerClass"] {
        errors.invalid("spec.loadBalancerClass", &after["loadBalancerClass"], "may not change once set");
    }
    if is_asked_for_health(before)
        && is_asked_for_health(after)
        && before["healthCheckNodePort"] != after["healthCheckNodePort"]
    {
        errors.forbidden("spec.healthCheckNodePort", "field is immutable");
    }
    check(old, new, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(change: &Value) -> Vec<String> {
        let mut spec = json!({
            "type": "ClusterIP", "clusterIP": "10.0.0.1", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{ "name": "p", "port": 80, "targetPort": 80, "protocol": "TCP" }],
        });
        for (field, value) in change.as_object().into_iter().flatten() {
            spec[field.as_str()] = value.clone();
        }
        Errors::found(|errors| create(&json!({ "spec": spec }), errors))
    }

    #[test]
    fn what_a_type_has_no_other_has() {
        let only = "may only be used when `type` is 'LoadBalancer'";
        for (change, wanted) in [
            (json!({}), vec![]),
            (json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000, "loadBalancerClass": "a.example/b", "loadBalancerSourceRanges": [" 10.0.0.0/8 "] }), vec![]),
            (json!({ "externalIPs": ["1.2.3.4"], "externalTrafficPolicy": "Cluster" }), vec![]),
            (json!({ "externalIPs": ["127.0.0.1"], "externalTrafficPolicy": "Cluster" }),
                vec!["externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()]),
            (json!({ "externalTrafficPolicy": "Local" }),
                vec!["externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services".to_owned()]),
            (json!({ "type": "NodePort" }), vec!["externalTrafficPolicy: Required value".to_owned()]),
            (json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local" }), vec!["healthCheckNodePort: Required value".to_owned()]),
            (json!({ "healthCheckNodePort": 30000 }),
                vec!["healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'".to_owned()]),
            (json!({ "loadBalancerClass": "a.example/b", "allocateLoadBalancerNodePorts": true, "loadBalancerSourceRanges": ["10.0.0.0/8"] }), vec![
                format!("LoadBalancerSourceRanges: Forbidden: {only}"),
                format!("allocateLoadBalancerNodePorts: Forbidden: {only}"),
                format!("loadBalancerClass: Forbidden: {only}"),
            ]),
            (json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 86401 } } }),
                vec!["sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400".to_owned()]),
            (json!({ "sessionAffinityConfig": {} }), vec!["sessionAffinityConfig: Forbidden: must not be set when session affinity is None".to_owned()]),
            (json!({ "ipFamilies": ["IPv4", "IPv4", "x"] }), vec![
                "ipFamilies[1]: Duplicate value: \"IPv4\"".to_owned(),
                "ipFamilies[2]: Unsupported value: \"x\": supported values: \"IPv4\", \"IPv6\"".to_owned(),
            ]),
            (json!({ "trafficDistribution": "x" }),
                vec!["trafficDistribution: Unsupported value: \"x\": supported values: \"PreferClose\", \"PreferSameZone\", \"PreferSameNode\"".to_owned()]),
            (json!({ "ports": [{ "name": "a", "port": 80, "targetPort": "x_y", "protocol": "TCP", "appProtocol": "a b" }, { "name": "b", "port": 80, "targetPort": 80, "protocol": "TCP" }] }), vec![
                "ports[0].targetPort: Invalid value: \"x_y\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
                format!("ports[0].appProtocol: Invalid value: \"a b\": {}", names::qualified("a b")[0]),
                "ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}".to_owned(),
            ]),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("spec.{fault}")).collect();
            assert_eq!(faults(&change), wanted, "{change}");
        }
        assert_eq!(faults(&json!({ "type": "ExternalName", "externalName": "a_b." })).len(), 1);
    }
}
