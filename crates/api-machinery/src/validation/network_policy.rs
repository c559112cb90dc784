//! NetworkPolicies.

// upstream: pkg/apis/networking/validation/validation.go ValidateNetworkPolicySpec, ValidateIPBlock (v1.36)

use std::collections::HashSet;

use serde_json::{Value, json};

use super::field::{entries, supported, text};
use super::{Errors, Place, container, handlers, metadata, ranges};
use crate::schema::Path;

/// The directions of a policy, with the fields that say who is at the other end.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// A new policy.
pub(crate) fn create(value: &Value, errors: &mut Errors) {
    check(&value["spec"], &HashSet::new(), errors);
}

/// A changed policy: ranges that the old one has are let through, whatever they are.
pub(crate) fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let mut had = HashSet::new();
    for (direction, end) in DIRECTIONS {
        let rules = entries(&old["spec"], direction);
        for (_, peer) in rules.flat_map(|(_, rule)| entries(rule, end)) {
            let block = &peer["ipBlock"];
            had.insert(text(block, "cidr"));
            had.extend(entries(block, "except").filter_map(|(_, except)| except.as_str()));
        }
    }
    check(&new["spec"], &had, errors);
}

fn check(spec: &Value, had: &HashSet<&str>, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    metadata::selector(&Place::new(path.field("podSelector"), &spec["podSelector"]), errors);
    for (direction, end) in DIRECTIONS {
        let list = path.field(direction);
        for (at, rule) in entries(spec, direction) {
            let path = list.index(at);
            let list = path.field("ports");
            for (at, one) in entries(rule, "ports") {
                port(one, &list.index(at), errors);
            }
            let list = path.field(end);
            for (at, one) in entries(rule, end) {
                peer(one, had, &list.index(at), errors);
            }
        }
    }
    let list = path.field("policyTypes");
    if entries(spec, "policyTypes").count() > DIRECTIONS.len() {
        return errors.invalid(list, &spec["policyTypes"], "may not specify more than two policyTypes");
    }
    for (at, kind) in entries(spec, "policyTypes") {
        supported(kind, &list.index(at), &["Ingress", "Egress"], errors);
    }
}

fn port(port: &Value, path: &Path<'_>, errors: &mut Errors) {
    supported(&port["protocol"], &path.field("protocol"), &["TCP", "UDP", "SCTP"], errors);
    let (first, last) = (&port["port"], &port["endPort"]);
    let place = path.field("endPort");
    match (first, last.as_i64()) {
        (Value::Null, None) => return,
        (Value::Null, Some(_)) => {
            return errors.invalid(place, last, "may not be specified when `port` is not specified");
        }
        (Value::String(_), Some(_)) => {
            errors.invalid(place, last, "may not be specified when `port` is non-numeric");
        }
        _ => {}
    }
    handlers::port(&Place::new(path.field("port"), first), errors);
    if let (Some(from), Some(to)) = (first.as_i64(), last.as_i64()) {
        if to < from {
            errors.invalid(place, first, "must be greater than or equal to `port`");
        }
        container::number(&Place::<i64>::new(place, last), errors);
    }
}

fn peer(peer: &Value, had: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let mut count = 0;
    for field in ["podSelector", "namespaceSelector"].into_iter().filter(|field| peer[*field].is_object()) {
        count += 1;
        metadata::selector(&Place::new(path.field(field), &peer[field]), errors);
    }
    if peer["ipBlock"].is_object() {
        block(&peer["ipBlock"], had, &path.field("ipBlock"), errors);
        if count > 0 {
            errors.forbidden(path, "may not specify both ipBlock and another peer");
        }
    } else if count == 0 {
        errors.required(path, "must specify a peer");
    }
}

fn block(block: &Value, had: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let range = text(block, "cidr");
    if range.is_empty() {
        return errors.required(path.field("cidr"), "");
    }
    if !had.contains(range) {
        ranges::cidr(&block["cidr"], &path.field("cidr"), errors);
    }
    if !ranges::is_range(range) {
        return;
    }
    let list = path.field("except");
    for (at, except) in entries(block, "except") {
        let place = list.index(at);
        let text = except.as_str().unwrap_or_default();
        if !had.contains(text) {
            ranges::cidr(except, &place, errors);
        }
        if ranges::is_range(text) && !ranges::is_within(text, range) {
            errors.invalid(place, &json!(text), "must be a strict subset of `cidr`");
        }
    }
}

#[cfg(test)]
mod tests {
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
