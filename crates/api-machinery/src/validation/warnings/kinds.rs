//! Kinds of which there is little to say: Services, policies, nodes, quotas and others.

// upstream: pkg/api/service/warnings.go, pkg/registry/<group>/<kind>/strategy.go (v1.36)

use base64::Engine as _;
use klab_scheduler::quantity::Quantity;
use serde_json::Value;

use super::super::Place;
use super::collected::Warnings;
use super::{addresses, labels};
use crate::views::{
    EndpointSlice, Endpoints, Ingress, NetworkPolicy, NodeSpec, ResourceQuota, ResourceSlice, RuntimeClass, Secret,
    Service, ServiceAccount,
};

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";
const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

/// A Service.
pub fn service(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let service = Place::<Service<'_>>::root(new);
    let spec = service.spec();
    if service.metadata().annotations().get(HINTS).is_some() {
        let now = "service.kubernetes.io/topology-mode";
        warnings.add(format!("annotation {HINTS} is deprecated, please use {now} instead"));
    }
    let (kind, address) = (*spec.type_(), *spec.cluster_ip());
    if !address.is_empty() && address != "None" {
        spec.cluster_ips().each().for_each(|one| addresses::ip(&one, warnings));
    }
    let is_headless = kind == "ClusterIP" && address == "None";
    let is_external = !spec.external_ips().is_empty();
    let balancer = !spec.load_balancer_ip().is_empty();
    let sticky = !matches!(*spec.session_affinity(), "" | "None");
    for (given, field) in [(balancer, "loadBalancerIP"), (is_external, "externalIPs"), (sticky, "SessionAffinity")] {
        if is_headless && given {
            warnings.add(format!("spec.{field} is ignored for headless services"));
        }
    }
    spec.external_ips().each().for_each(|one| addresses::ip(&one, warnings));
    if is_external && !is_headless && kind != "ExternalName" {
        warnings.add("spec.externalIPs is deprecated and may no longer be implemented in some clusters");
    }
    if balancer {
        addresses::ip(&spec.load_balancer_ip(), warnings);
    }
    spec.load_balancer_source_ranges().each().for_each(|one| addresses::cidr(&one, warnings));
    if kind == "ExternalName" && is_external {
        warnings.add("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if kind != "ExternalName" && !spec.external_name().is_empty() {
        warnings.add("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if *spec.traffic_distribution() == Some("PreferClose") {
        warnings.add("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
}

/// A NetworkPolicy.
pub fn network_policy(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let policy = Place::<NetworkPolicy<'_>>::root(new);
    policy.spec().each_rule(|_, peers| {
        for peer in peers.each() {
            let block = peer.ip_block();
            addresses::cidr(&block.cidr(), warnings);
            block.except().each().for_each(|one| addresses::cidr(&one, warnings));
        }
    });
}

/// A new Ingress.
pub fn ingress(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let ingress = Ingress(new);
    let is_annotated = ingress.metadata().annotations().get(INGRESS_CLASS).is_some();
    if old.is_none() && is_annotated && ingress.spec().ingress_class_name().is_none() {
        warnings.add(format!("annotation {INGRESS_CLASS:?} is deprecated, please use 'spec.ingressClassName' instead"));
    }
}

/// A Node.
pub fn node(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let spec = Place::<NodeSpec<'_>>::of_spec(new);
    if spec.config_source().is_set() {
        warnings.at(spec.config_source(), "the feature is removed");
    }
    if !spec.external_id().is_empty() {
        warnings.at(spec.external_id(), "this field is deprecated, and is unused by Kubernetes");
    }
    spec.pod_cidrs().each().for_each(|one| addresses::cidr(&one, warnings));
}

/// A new ResourceQuota: nothing can be had that is asked for beyond the limits.
pub fn quota(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_some() {
        return;
    }
    let hard = ResourceQuota(new).spec().hard();
    let amount = |name: &str| hard.get(name)?.as_str().and_then(|text| Quantity::parse(text).ok());
    for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let mut request = format!("requests.{name}");
        if amount(&request).is_none() && matches!(name, "cpu" | "memory") {
            name.clone_into(&mut request);
        }
        let limit = format!("limits.{name}");
        if let (Some(asked), Some(most)) = (amount(&request), amount(&limit))
            && asked > most
        {
            warnings.add(format!("ResourceQuota {request} ({asked}) should be less than {limit} ({most})"));
        }
    }
}

/// A RuntimeClass.
pub fn runtime_class(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let class = Place::<RuntimeClass<'_>>::root(new);
    let scheduling = class.scheduling();
    let selector = scheduling.node_selector();
    labels::map(*selector).for_each(|(_, old)| warnings.at(selector, old));
}

/// A Secret with a key and a certificate. Whether the two belong together is not looked at.
pub fn secret(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let secret = Secret(new);
    if secret.type_() != "kubernetes.io/tls" {
        return;
    }
    for (key, what) in [("tls.crt", "certificate"), ("tls.key", "key")] {
        let text = secret.data().get(key).unwrap_or_default();
        let text = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
        if !String::from_utf8_lossy(&text).contains("-----BEGIN ") {
            warnings.add(format!("tls: failed to find any PEM data in {what} input"));
            return;
        }
    }
}

/// A ServiceAccount that has an annotation which it did not have.
pub fn service_account(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let has = |account: &Value| ServiceAccount(account).metadata().annotations().get(MOUNTABLE).is_some();
    if has(new) && !old.is_some_and(has) {
        warnings.add(format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        ));
    }
}

/// An EndpointSlice that no controller of the cluster writes.
pub fn endpoint_slice(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let slice = Place::<EndpointSlice<'_>>::root(new);
    if old.is_none() && *slice.address_type() == "FQDN" {
        warnings.add("spec.addressType: FQDN endpoints are deprecated");
    }
    let manager = slice.metadata().labels().get("endpointslice.kubernetes.io/managed-by");
    if matches!(manager, Some("endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io")) {
        return;
    }
    for endpoint in slice.endpoints().each() {
        endpoint.addresses().each().for_each(|one| addresses::ip(&one, warnings));
    }
}

/// Endpoints that no controller of the cluster writes.
pub fn endpoints(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let endpoints = Place::<Endpoints<'_>>::root(new);
    if endpoints.metadata().labels().get("endpoints.kubernetes.io/managed-by") == Some("endpoint-controller") {
        return;
    }
    for subset in endpoints.subsets().each() {
        subset.addresses().each().for_each(|address| addresses::ip(&address.ip(), warnings));
        subset.not_ready_addresses().each().for_each(|address| addresses::ip(&address.ip(), warnings));
    }
}

/// A ResourceSlice.
pub fn resource_slice(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let driver = ResourceSlice(new).spec().driver();
    if driver != driver.to_lowercase() {
        warnings
            .add(format!("spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::collected::warnings_of;
    use super::*;
    use serde_json::json;

    #[test]
    fn services() {
        let of = |spec: Value| warnings_of(service, &json!({ "spec": spec }));
        for (spec, wanted) in [
            (json!({ "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"] }), vec![]),
            (
                json!({ "type": "ClusterIP", "clusterIP": "None", "loadBalancerIP": "1.2.3.4", "externalIPs": ["1.2.3.4"], "sessionAffinity": "ClientIP" }),
                vec![
                    "spec.loadBalancerIP is ignored for headless services",
                    "spec.externalIPs is ignored for headless services",
                    "spec.SessionAffinity is ignored for headless services",
                ],
            ),
            (
                json!({ "type": "LoadBalancer", "externalIPs": ["FD00::1"], "loadBalancerSourceRanges": ["10.0.0.1/8"] }),
                vec![
                    "spec.externalIPs[0]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")",
                    "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
                    "spec.loadBalancerSourceRanges[0]: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)",
                ],
            ),
            (
                json!({ "type": "ExternalName", "externalIPs": ["1.2.3.4"] }),
                vec!["spec.externalIPs is ignored when spec.type is \"ExternalName\""],
            ),
            (
                json!({ "type": "NodePort", "externalName": "a.b" }),
                vec!["spec.externalName is ignored when spec.type is not \"ExternalName\""],
            ),
            (
                json!({ "type": "ClusterIP", "trafficDistribution": "PreferClose" }),
                vec!["spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\""],
            ),
        ] {
            assert_eq!(of(spec.clone()), wanted, "{spec}");
        }
    }

    #[test]
    fn others() {
        let annotated = |key: &str| json!({ "metadata": { "annotations": { key: "x" } }, "spec": {} });
        assert_eq!(
            warnings_of(ingress, &annotated(INGRESS_CLASS)),
            ["annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"]
        );
        assert_eq!(
            warnings_of(service_account, &annotated(MOUNTABLE)),
            [
                "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
            ]
        );
        let hard = json!({ "spec": { "hard": { "cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi", "limits.memory": "2Gi" } } });
        assert_eq!(warnings_of(quota, &hard), ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]);
        assert_eq!(
            warnings_of(secret, &json!({ "type": "kubernetes.io/tls", "data": { "tls.crt": "", "tls.key": "" } })),
            ["tls: failed to find any PEM data in certificate input"]
        );
        assert_eq!(
            warnings_of(node, &json!({ "spec": { "externalID": "x" } })),
            ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]
        );
        let policy = json!({ "spec": { "egress": [{ "to": [{ "ipBlock": { "cidr": "10.0.0.1/8" } }] }] } });
        assert_eq!(
            warnings_of(network_policy, &policy),
            [
                "spec.egress[0].to[0].ipBlock.cidr: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"
            ]
        );
        assert_eq!(
            warnings_of(endpoint_slice, &json!({ "addressType": "FQDN" })),
            ["spec.addressType: FQDN endpoints are deprecated"]
        );
    }
}
