//! Services.

// upstream: pkg/apis/core/validation/validation.go validateService, ValidateServiceUpdate (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::container::number;
use super::endpoints::elsewhere;
use super::{Errors, Place, addresses, handlers, metadata, ranges};
use crate::views::{Service, ServiceSpec};

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";

/// A new Service.
pub fn create(value: &Value, errors: &mut Errors) {
    check(&Value::Null, value, errors);
}

/// Whether clients outside the cluster reach it.
fn is_external(spec: ServiceSpec<'_>) -> bool {
    match spec.type_() {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.external_ips().is_empty(),
        _ => false,
    }
}

/// Whether the load balancer asks nodes if they have an endpoint.
pub(crate) fn is_asked_for_health(spec: &Value) -> bool {
    let spec = ServiceSpec(spec);
    spec.type_() == "LoadBalancer" && spec.external_traffic_policy() == "Local"
}

fn check(old: &Value, value: &Value, errors: &mut Errors) {
    let service = Place::<Service<'_>>::root(value);
    let (old, spec, metadata) = (Service(old).spec(), service.spec(), service.metadata());
    let annotations = metadata.annotations();
    if let (Some(mode), Some(hints)) = (annotations.get(MODE), annotations.get(HINTS))
        && mode != hints
    {
        let fault = format!("must match annotations[{HINTS}] when both are specified");
        errors.invalid_at(&annotations.entry(MODE), fault);
    }
    let (kind, is_headless) = (*spec.type_(), *spec.cluster_ip() == "None");
    if kind != "ExternalName" && spec.ports().is_empty() && !is_headless {
        errors.required(spec.ports(), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless => {
            let fault = format!("may not be set to 'None' for {kind} services");
            errors.invalid(spec.cluster_ips().path.index(0), spec.cluster_ip().json, fault);
        }
        "ExternalName" => external_name(&spec.external_name(), errors),
        _ => {}
    }
    ports(&spec, errors);
    metadata::labels(&spec.selector(), errors);
    affinity(&spec, errors);
    families(&spec, errors);
    external_addresses(old, &spec, errors);
    spec.type_().supported(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    twice(&spec, errors);
    balancer(old, &spec, errors);
    traffic(&spec, errors);
}

fn external_name(place: &Place<'_, &str>, errors: &mut Errors) {
    let name = place.strip_suffix('.').unwrap_or(place);
    if name.is_empty() {
        return errors.required(place, "");
    }
    errors.faults(place, name, names::subdomain);
}

fn ports(spec: &Place<'_, ServiceSpec<'_>>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for port in spec.ports().each() {
        let name = port.name();
        if !name.is_empty() {
            name.check(names::label, errors);
            name.unique(&mut seen, errors);
        } else if spec.ports().len() > 1 {
            errors.required(name, "");
        }
        number(&port.port(), errors);
        port.protocol().supported(&["SCTP", "TCP", "UDP"], errors);
        handlers::port(&port.target_port(), errors);
        port.app_protocol().check_given(names::qualified, errors);
    }
}

/// Ports that are there twice.
fn twice(spec: &Place<'_, ServiceSpec<'_>>, errors: &mut Errors) {
    let (list, mut on_nodes, mut seen) = (spec.ports(), HashSet::new(), HashSet::new());
    for port in list.each().filter(|port| *port.node_port() != 0) {
        if !on_nodes.insert((*port.node_port(), *port.protocol())) {
            errors.duplicate_at(&port.node_port());
        }
    }
    for port in list.each() {
        let (number, protocol) = (port.port(), port.protocol());
        if !seen.insert((*number, *protocol)) {
            // Upstream shows what it looked for.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                protocol.json, number.json
            );
            errors.duplicate_as(port, &shown);
        }
    }
}

fn affinity(spec: &Place<'_, ServiceSpec<'_>>, errors: &mut Errors) {
    spec.session_affinity().supported(&["ClientIP", "None"], errors);
    let config = spec.session_affinity_config();
    let client = config.client_ip();
    let timeout = client.timeout_seconds();
    match *spec.session_affinity() {
        "None" if config.is_set() => errors.forbidden(config, "must not be set when session affinity is None"),
        "ClientIP" => {
            let steps = [config.cast::<&Value>(), client.cast(), timeout.cast()];
            if let Some(missing) = steps.iter().find(|step| !step.is_set()) {
                errors.required(missing, "when session affinity type is ClientIP");
            }
            timeout.within(1..=86_400, "must be greater than 0 and less than 86400", errors);
        }
        _ => {}
    }
}

fn families(spec: &Place<'_, ServiceSpec<'_>>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for family in spec.ip_families().each() {
        family.supported(&["IPv4", "IPv6"], errors);
        family.unique(&mut seen, errors);
    }
    spec.ip_family_policy().supported(&["PreferDualStack", "RequireDualStack", "SingleStack"], errors);
}

fn external_addresses(old: ServiceSpec<'_>, spec: &Place<'_, ServiceSpec<'_>>, errors: &mut Errors) {
    let had: HashSet<&str> = old.external_ips().collect();
    for address in spec.external_ips().each() {
        let before = errors.len();
        if !had.contains(*address) {
            addresses::ip(&address, errors);
        }
        if errors.len() == before {
            elsewhere(&address, errors);
        }
    }
}

/// What only a balancer of load has.
fn balancer(old: ServiceSpec<'_>, spec: &Place<'_, ServiceSpec<'_>>, errors: &mut Errors) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let is_balancer = *spec.type_() == "LoadBalancer";
    // Upstream writes the field with a capital.
    let list = spec.load_balancer_source_ranges().called(spec.path.field("LoadBalancerSourceRanges"));
    if !list.is_empty() && !is_balancer {
        errors.forbidden(&list, ONLY);
    }
    for range in list.each() {
        if !old.load_balancer_source_ranges().any(|had| had.trim() == range.trim()) {
            ranges::cidr(&Place::new(range.path, &json!(range.trim())), errors);
        }
    }
    let (ports, class) = (spec.allocate_load_balancer_node_ports(), spec.load_balancer_class());
    if ports.is_set() && !is_balancer {
        errors.forbidden(ports, ONLY);
    }
    if is_balancer {
        class.check_given(names::qualified, errors);
    } else {
        class.absent(ONLY, errors);
    }
}

fn traffic(spec: &Place<'_, ServiceSpec<'_>>, errors: &mut Errors) {
    let (policy, health) = (spec.external_traffic_policy(), spec.health_check_node_port());
    if is_external(**spec) {
        policy.needed_of(&["Cluster", "Local"], errors);
    } else if !policy.is_empty() {
        errors.invalid_at(&policy, "may only be set for externally-accessible services");
    }
    match (is_asked_for_health(spec.json), *health) {
        (true, 0) => errors.required(health, ""),
        (true, _) => number(&health, errors),
        (false, 0) => {}
        (false, _) => {
            let fault = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid_at(&health, fault);
        }
    }
    spec.internal_traffic_policy().supported(&["Cluster", "Local"], errors);
    spec.traffic_distribution().supported(&["PreferClose", "PreferSameZone", "PreferSameNode"], errors);
}

/// A changed Service.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let service = Place::<Service<'_>>::root(new);
    let (before, after) = (Service(old).spec(), service.spec());
    let both = |kind: &str| before.type_() == kind && *after.type_() == kind;
    let is_external = before.type_() == "ExternalName" || *after.type_() == "ExternalName";
    let had = before.cluster_ip();
    if !is_external && !had.is_empty() && had != *after.cluster_ip() {
        let list = after.cluster_ips();
        errors.invalid(list.path.index(0), list.json, "may not change once set");
    }
    let (class, health) = (after.load_balancer_class(), after.health_check_node_port());
    if both("LoadBalancer") && before.load_balancer_class() != *class {
        errors.invalid_at(&class, "may not change once set");
    }
    let is_asked = is_asked_for_health(before.0) && is_asked_for_health(after.json);
    if is_asked && before.health_check_node_port() != *health {
        errors.forbidden(health, "field is immutable");
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
