//! What kind refuses of a configuration, in kind's words, and what klab's embedded cluster cannot be.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::configuration::{Cluster, Node};

/// All that is wrong with a cluster of this name, as kind joins it in one line; `None` where nothing is.
pub fn mistakes(cluster: &Cluster, name: &str) -> Option<String> {
    let mut found = Vec::new();
    if name.is_empty() || !name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-')) {
        found.push(format!("'{name}' is not a valid cluster name, cluster names must match `^[a-z0-9.-]+$`"));
    }
    let networking = &cluster.networking;
    found.extend(port_mistake(networking.api_server_port).map(|words| format!("invalid apiServerPort: {words}")));
    if !["ipv4", "ipv6", "dual"].contains(&networking.ip_family.as_str()) {
        found.push(format!("invalid ipFamily: {}", networking.ip_family));
    }
    for (what, subnet) in [("pod", &networking.pod_subnet), ("service", &networking.service_subnet)] {
        found.extend(subnet_mistake(subnet, &networking.ip_family).map(|why| format!("invalid {what} subnet {why}")));
    }
    if !["iptables", "ipvs", "nftables", "none"].contains(&networking.kube_proxy_mode.as_str()) {
        found.push(format!("invalid kubeProxyMode: {}", networking.kube_proxy_mode));
    }
    for (index, node) in cluster.nodes.iter().enumerate() {
        found.extend(joined(of_node(node)).map(|why| format!("invalid configuration for node {index}: {why}")));
    }
    if !cluster.nodes.iter().any(|node| node.role == "control-plane") {
        found.push("must have at least one control-plane node".to_owned());
    }
    joined(found)
}

/// What of a valid configuration the embedded cluster cannot be.
pub fn beyond_klab(cluster: &Cluster) -> Option<String> {
    let family = &cluster.networking.ip_family;
    (family != "ipv4").then(|| format!("ipFamily {family}: klab's embedded cluster has IPv4 only"))
}

/// As kind prints one mistake or several.
fn joined(found: Vec<String>) -> Option<String> {
    match found.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(format!("[{}]", all.join(", "))),
    }
}

fn of_node(node: &Node) -> Vec<String> {
    let mut found = Vec::new();
    if !["control-plane", "worker"].contains(&node.role.as_str()) {
        found.push(format!("\"{}\" is not a valid node role", node.role));
    }
    let mut taken = BTreeSet::new();
    for mapping in &node.extra_port_mappings {
        found.extend(port_mistake(mapping.host_port).map(|words| format!("invalid hostPort: {words}")));
        found.extend(port_mistake(mapping.container_port).map(|words| format!("invalid containerPort: {words}")));
    }
    // kind reports the first of these alone. It chooses a port itself for 0 and -1.
    for mapping in node.extra_port_mappings.iter().filter(|mapping| mapping.host_port > 0) {
        let address = if mapping.listen_address.is_empty() { "0.0.0.0" } else { &mapping.listen_address };
        let Ok(address) = address.parse::<IpAddr>() else {
            found.push(format!("invalid portMapping: invalid listen address: {address}"));
            break;
        };
        let port = format!("{}/{}", mapping.host_port, mapping.protocol);
        let is_taken = |one: &IpAddr| taken.contains(&(port.clone(), *one));
        let wildcard = ["0.0.0.0", "::"].iter().any(|all| all.parse().is_ok_and(|all| is_taken(&all)));
        let all = address.is_unspecified() && taken.iter().any(|(known, _)| *known == port);
        if wildcard || all || is_taken(&address) {
            let what = "port mapping with same listen address, port and protocol already configured";
            found.push(format!("invalid portMapping: {what}: {address}:{port}"));
            break;
        }
        taken.insert((port, address));
    }
    found
}

fn port_mistake(port: i32) -> Option<String> {
    (!(-1..=65535).contains(&port)).then(|| format!("invalid port number: {port}"))
}

fn subnet_mistake(text: &str, family: &str) -> Option<String> {
    let mut families = Vec::new();
    for one in text.split(',') {
        let parts = one.split_once('/').and_then(|(address, length)| {
            let address: IpAddr = address.parse().ok()?;
            let bits = if address.is_ipv4() { 32 } else { 128 };
            length.parse().ok().filter(|length: &u8| *length <= bits).map(|_| address.is_ipv4())
        });
        let Some(is_ipv4) = parts else {
            return Some(format!("failed to parse cidr value:\"{one}\" with error: invalid CIDR address: {one}"));
        };
        families.push(is_ipv4);
    }
    let both = "expected one (IPv4 or IPv6) CIDR or two CIDRs from each family for dual-stack networking";
    let words = match (family, families.as_slice()) {
        ("dual", [_] | [true, false] | [false, true]) => return None,
        ("dual", _) => both,
        (_, [_, _, ..]) => "only one CIDR allowed for single-stack networking",
        ("ipv4", [false]) => "expected IPv4 CIDR for IPv4 family",
        ("ipv6", [true]) => "expected IPv6 CIDR for IPv6 family",
        _ => return None,
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rest: &str) -> Option<String> {
        let text = format!("kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n{rest}");
        mistakes(&Cluster::parse(&text).unwrap(), "a")
    }

    #[test]
    fn mistakes_are_worded_as_kind_words_them() {
        let port = |address: &str| format!("{{ hostPort: 80, containerPort: 80, listenAddress: \"{address}\" }}");
        let ports =
            |one: &str, other: &str| of(&format!("nodes: [{{ extraPortMappings: [{}, {}] }}]", port(one), port(other)));
        for (found, words) in [
            (of(""), None),
            (of("nodes: [{ role: worker }]"), Some("must have at least one control-plane node")),
            (
                of("nodes: [{ role: wrker }]"),
                Some(
                    "[invalid configuration for node 0: \"wrker\" is not a valid node role, must have at least one control-plane node]",
                ),
            ),
            (of("networking: { ipFamily: ipv5 }"), Some("invalid ipFamily: ipv5")),
            (
                of("networking: { podSubnet: 10.1.0.0 }"),
                Some(
                    "invalid pod subnet failed to parse cidr value:\"10.1.0.0\" with error: invalid CIDR address: 10.1.0.0",
                ),
            ),
            (
                of("networking: { serviceSubnet: \"fd00::/112\" }"),
                Some("invalid service subnet expected IPv4 CIDR for IPv4 family"),
            ),
            (of("networking: { apiServerPort: 70000 }"), Some("invalid apiServerPort: invalid port number: 70000")),
            (of("networking: { kubeProxyMode: none }"), None),
            (ports("127.0.0.1", "127.0.0.2"), None),
            (
                ports("127.0.0.1", ""),
                Some(
                    "invalid configuration for node 0: invalid portMapping: port mapping with same listen address, port and protocol already configured: 0.0.0.0:80/TCP",
                ),
            ),
        ] {
            assert_eq!(found.as_deref(), words);
        }
        assert!(
            mistakes(&Cluster::ordinary(), "Bad_Name").unwrap().starts_with("'Bad_Name' is not a valid cluster name")
        );
    }

    #[test]
    fn a_family_that_klab_does_not_have_is_refused() {
        let mut cluster = Cluster::ordinary();
        assert_eq!(beyond_klab(&cluster), None);
        cluster.networking.ip_family = "dual".to_owned();
        assert!(beyond_klab(&cluster).unwrap().contains("IPv4 only"));
    }
}
