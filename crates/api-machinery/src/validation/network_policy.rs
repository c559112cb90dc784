//! NetworkPolicies.

// upstream: pkg/apis/networking/validation/validation.go ValidateNetworkPolicySpec, ValidateIPBlock (v1.36)

use std::collections::HashSet;

use serde_json::Value;

use super::{Errors, Place, container, handlers, metadata, ranges};
use crate::views::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec, Views};

/// A new policy.
pub(crate) fn create(value: &Value, errors: &mut Errors) {
    check(value, &HashSet::new(), errors);
}

/// A changed policy: ranges that the old one has are let through, whatever they are.
pub(crate) fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let mut had = HashSet::new();
    Place::<NetworkPolicy<'_>>::root(old).spec().each_rule(|_, peers| {
        for block in Views::clone(peers).map(NetworkPolicyPeer::ip_block) {
            had.insert(block.cidr());
            had.extend(block.except());
        }
    });
    check(new, &had, errors);
}

impl<'a> Place<'_, NetworkPolicySpec<'a>> {
    /// The ports and peers of each rule, in either direction.
    pub(super) fn each_rule(
        &self,
        mut visit: impl FnMut(&Place<'_, Views<'a, NetworkPolicyPort<'a>>>, &Place<'_, Views<'a, NetworkPolicyPeer<'a>>>),
    ) {
        self.ingress().each().for_each(|rule| visit(&rule.ports(), &rule.from()));
        self.egress().each().for_each(|rule| visit(&rule.ports(), &rule.to()));
    }
}

fn check(value: &Value, had: &HashSet<&str>, errors: &mut Errors) {
    let spec = Place::<NetworkPolicySpec<'_>>::of_spec(value);
    metadata::selector(&spec.pod_selector(), errors);
    spec.each_rule(|ports, peers| {
        ports.each().for_each(|one| port(&one, errors));
        peers.each().for_each(|one| peer(&one, had, errors));
    });
    let kinds = spec.policy_types();
    if kinds.len() > 2 {
        return errors.invalid_at(&kinds, "may not specify more than two policyTypes");
    }
    kinds.each().for_each(|kind| kind.supported(&["Ingress", "Egress"], errors));
}

fn port(port: &Place<'_, NetworkPolicyPort<'_>>, errors: &mut Errors) {
    port.protocol().supported(&["TCP", "UDP", "SCTP"], errors);
    let (first, last) = (port.port(), port.end_port());
    match (first.json, *last) {
        (Value::Null, None) => return,
        (Value::Null, Some(_)) => {
            return errors.invalid_at(&last, "may not be specified when `port` is not specified");
        }
        (Value::String(_), Some(_)) => errors.invalid_at(&last, "may not be specified when `port` is non-numeric"),
        _ => {}
    }
    handlers::port(&first, errors);
    if let (Some(from), Some(to)) = (first.as_i64(), *last) {
        if to < from {
            errors.invalid(last, first.json, "must be greater than or equal to `port`");
        }
        container::number(&last, errors);
    }
}

fn peer(peer: &Place<'_, NetworkPolicyPeer<'_>>, had: &HashSet<&str>, errors: &mut Errors) {
    metadata::selector(&peer.pod_selector(), errors);
    metadata::selector(&peer.namespace_selector(), errors);
    let selects = peer.pod_selector().is_set() || peer.namespace_selector().is_set();
    if peer.ip_block().is_set() {
        block(&peer.ip_block(), had, errors);
        if selects {
            errors.forbidden(peer, "may not specify both ipBlock and another peer");
        }
    } else if !selects {
        errors.required(peer, "must specify a peer");
    }
}

fn block(block: &Place<'_, IPBlock<'_>>, had: &HashSet<&str>, errors: &mut Errors) {
    let range = block.cidr();
    if range.is_empty() {
        return range.needed(errors);
    }
    if !had.contains(*range) {
        ranges::cidr(&range, errors);
    }
    if !ranges::is_range(*range) {
        return;
    }
    for except in block.except().each() {
        if !had.contains(*except) {
            ranges::cidr(&except, errors);
        }
        if ranges::is_range(*except) && !ranges::is_within(*except, *range) {
            errors.invalid_at(&except, "must be a strict subset of `cidr`");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(spec: Value) -> Vec<String> {
        Errors::found(|errors| create(&json!({ "spec": spec }), errors))
    }

    fn of_peer(peer: Value) -> Vec<String> {
        faults(json!({ "ingress": [{ "from": [peer] }] }))
    }

    #[test]
    fn rules_name_ports_and_peers() {
        let ports = |port: Value| faults(json!({ "egress": [{ "ports": [port] }] }));
        let path = "spec.egress[0].ports[0]";
        for (port, wanted) in [
            (json!({}), vec![]),
            (json!({ "protocol": "SCTP", "port": "http", }), vec![]),
            (json!({ "port": 32000, "endPort": 32768 }), vec![]),
            (
                json!({ "protocol": "ICMP" }),
                vec![".protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \"SCTP\""],
            ),
            (json!({ "port": 0 }), vec![".port: Invalid value: 0: must be between 1 and 65535, inclusive"]),
            (
                json!({ "port": 80, "endPort": 79 }),
                vec![".endPort: Invalid value: 80: must be greater than or equal to `port`"],
            ),
            (
                json!({ "port": "dns", "endPort": 79 }),
                vec![".endPort: Invalid value: 79: may not be specified when `port` is non-numeric"],
            ),
            (
                json!({ "endPort": 79 }),
                vec![".endPort: Invalid value: 79: may not be specified when `port` is not specified"],
            ),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("{path}{fault}")).collect();
            assert_eq!(ports(port.clone()), wanted, "{port}");
        }
        let path = "spec.ingress[0].from[0]";
        let block = |cidr: &str, except: &[&str]| json!({ "ipBlock": { "cidr": cidr, "except": except } });
        for (peer, wanted) in [
            (json!({ "podSelector": {}, "namespaceSelector": { "matchLabels": { "a": "b" } } }), vec![]),
            (block("192.168.0.0/16", &["192.168.3.0/24"]), vec![]),
            (json!({}), vec![": Required value: must specify a peer"]),
            (
                json!({ "podSelector": {}, "ipBlock": { "cidr": "10.0.0.0/8" } }),
                vec![": Forbidden: may not specify both ipBlock and another peer"],
            ),
            (block("", &[]), vec![".ipBlock.cidr: Required value"]),
            (
                block("10.0.0.0", &["x"]),
                vec![
                    ".ipBlock.cidr: Invalid value: \"10.0.0.0\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ],
            ),
            (
                block("192.168.8.0/24", &["192.168.9.0/24"]),
                vec![".ipBlock.except[0]: Invalid value: \"192.168.9.0/24\": must be a strict subset of `cidr`"],
            ),
            (
                block("192.168.8.0/24", &["192.168.8.0/24"]),
                vec![".ipBlock.except[0]: Invalid value: \"192.168.8.0/24\": must be a strict subset of `cidr`"],
            ),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("{path}{fault}")).collect();
            assert_eq!(of_peer(peer.clone()), wanted, "{peer}");
        }
        assert_eq!(
            faults(json!({ "policyTypes": ["Ingress", "Egress", "Both"] })),
            [
                "spec.policyTypes: Invalid value: [\"Ingress\",\"Egress\",\"Both\"]: may not specify more than two policyTypes"
            ]
        );
        assert_eq!(
            faults(json!({ "policyTypes": ["Both"] })),
            ["spec.policyTypes[0]: Unsupported value: \"Both\": supported values: \"Ingress\", \"Egress\""]
        );
    }

    #[test]
    fn ranges_that_were_there_stay() {
        let of = |cidr: &str| json!({ "spec": { "egress": [{ "to": [{ "ipBlock": { "cidr": cidr } }] }] } });
        let change = |old: &str, new: &str| Errors::found(|errors| update(&of(old), &of(new), errors));
        assert_eq!(change("10.0.0.1/8", "10.0.0.1/8"), [""; 0]);
        assert_eq!(change("10.0.0.1/8", "10.0.0.2/8").len(), 1);
    }
}
