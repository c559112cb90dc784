//! Kinds of which there is little to say: Services, policies, nodes, quotas and others.

// upstream: pkg/api/service/warnings.go, pkg/registry/<group>/<kind>/strategy.go (v1.36)

use base64::Engine as _;
use klab_scheduler::quantity::Quantity;
use serde_json::Value;

use super::super::field::{entries, text};
use super::collected::Warnings;
use super::{addresses, labels};
use crate::schema::Path;

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";
const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

/// A Service.
pub fn service(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let spec = &new["spec"];
    let path = Path::Root.field("spec");
    if !new["metadata"]["annotations"][HINTS].is_null() {
        let now = "service.kubernetes.io/topology-mode";
        warnings.add(format!("annotation {HINTS} is deprecated, please use {now} instead"));
    }
    let (kind, address) = (text(spec, "type"), text(spec, "clusterIP"));
    if !address.is_empty() && address != "None" {
        listed(spec, "clusterIPs", addresses::ip, &path, warnings);
    }
    let is_headless = kind == "ClusterIP" && address == "None";
    let external = entries(spec, "externalIPs").next().is_some();
    let balancer = !text(spec, "loadBalancerIP").is_empty();
    let sticky = !matches!(text(spec, "sessionAffinity"), "" | "None");
    for (given, field) in [(balancer, "loadBalancerIP"), (external, "externalIPs"), (sticky, "SessionAffinity")] {
        if is_headless && given {
            warnings.add(format!("spec.{field} is ignored for headless services"));
        }
    }
    listed(spec, "externalIPs", addresses::ip, &path, warnings);
    if external && !is_headless && kind != "ExternalName" {
        warnings.add("spec.externalIPs is deprecated and may no longer be implemented in some clusters");
    }
    if balancer {
        addresses::ip(&spec["loadBalancerIP"], &path.field("loadBalancerIP"), warnings);
    }
    listed(spec, "loadBalancerSourceRanges", addresses::cidr, &path, warnings);
    if kind == "ExternalName" && external {
        warnings.add("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if kind != "ExternalName" && !text(spec, "externalName").is_empty() {
        warnings.add("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if spec["trafficDistribution"] == "PreferClose" {
        warnings.add("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
}

/// The entries of a list.
fn listed(
    owner: &Value,
    field: &str,
    warn: fn(&Value, &Path<'_>, &mut Warnings),
    path: &Path<'_>,
    warnings: &mut Warnings,
) {
    let list = path.field(field);
    for (at, one) in entries(owner, field) {
        warn(one, &list.index(at), warnings);
    }
}

/// A NetworkPolicy.
pub fn network_policy(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let spec = Path::Root.field("spec");
    for (direction, end) in [("ingress", "from"), ("egress", "to")] {
        let list = spec.field(direction);
        for (at, rule) in entries(&new["spec"], direction) {
            let path = list.index(at);
            let list = path.field(end);
            for (at, peer) in entries(rule, end).filter(|(_, peer)| peer["ipBlock"].is_object()) {
                let path = list.index(at);
                let path = path.field("ipBlock");
                addresses::cidr(&peer["ipBlock"]["cidr"], &path.field("cidr"), warnings);
                listed(&peer["ipBlock"], "except", addresses::cidr, &path, warnings);
            }
        }
    }
}

/// A new Ingress.
pub fn ingress(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let annotated = !new["metadata"]["annotations"][INGRESS_CLASS].is_null();
    if old.is_none() && annotated && new["spec"]["ingressClassName"].is_null() {
        warnings.add(format!("annotation {INGRESS_CLASS:?} is deprecated, please use 'spec.ingressClassName' instead"));
    }
}

/// A Node.
pub fn node(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let spec = &new["spec"];
    if !spec["configSource"].is_null() {
        warnings.add("spec.configSource: the feature is removed");
    }
    if !text(spec, "externalID").is_empty() {
        warnings.add("spec.externalID: this field is deprecated, and is unused by Kubernetes");
    }
    listed(spec, "podCIDRs", addresses::cidr, &Path::Root.field("spec"), warnings);
}

/// A new ResourceQuota: nothing can be had that is asked for beyond the limits.
pub fn quota(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_some() {
        return;
    }
    let hard = &new["spec"]["hard"];
    let amount = |name: &str| hard[name].as_str().and_then(|text| Quantity::parse(text).ok());
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
    let place = Path::Root.field("scheduling");
    for (_, old) in labels::map(&new["scheduling"]["nodeSelector"]) {
        warnings.at(&place.field("nodeSelector"), old);
    }
}

/// A Secret with a key and a certificate. Whether the two belong together is not looked at.
pub fn secret(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if new["type"] != "kubernetes.io/tls" {
        return;
    }
    for (key, what) in [("tls.crt", "certificate"), ("tls.key", "key")] {
        let text = base64::engine::general_purpose::STANDARD.decode(text(&new["data"], key)).unwrap_or_default();
        if !String::from_utf8_lossy(&text).contains("-----BEGIN ") {
            warnings.add(format!("tls: failed to find any PEM data in {what} input"));
            return;
        }
    }
}

/// A ServiceAccount that has an annotation which it did not have.
pub fn service_account(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let has = |account: &Value| !account["metadata"]["annotations"][MOUNTABLE].is_null();
    if has(new) && !old.is_some_and(has) {
        warnings.add(format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        ));
    }
}

/// An EndpointSlice that no controller of the cluster writes.
pub fn endpoint_slice(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none() && new["addressType"] == "FQDN" {
        warnings.add("spec.addressType: FQDN endpoints are deprecated");
    }
    let manager = text(&new["metadata"]["labels"], "endpointslice.kubernetes.io/managed-by");
    if matches!(manager, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
        return;
    }
    let list = Path::Root.field("endpoints");
    for (at, endpoint) in entries(new, "endpoints") {
        listed(endpoint, "addresses", addresses::ip, &list.index(at), warnings);
    }
}

/// Endpoints that no controller of the cluster writes.
pub fn endpoints(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if text(&new["metadata"]["labels"], "endpoints.kubernetes.io/managed-by") == "endpoint-controller" {
        return;
    }
    let list = Path::Root.field("subsets");
    for (at, subset) in entries(new, "subsets") {
        let path = list.index(at);
        for field in ["addresses", "notReadyAddresses"] {
            let list = path.field(field);
            for (at, address) in entries(subset, field) {
                addresses::ip(&address["ip"], &list.index(at).field("ip"), warnings);
            }
        }
    }
}

/// A ResourceSlice.
pub fn resource_slice(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let driver = text(&new["spec"], "driver");
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
