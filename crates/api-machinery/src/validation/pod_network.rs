//! How a pod is called and reached, and how it finds others: host network, names, DNS, host aliases.

// upstream: pkg/apis/core/validation/validation.go validatePodDNSConfig, validatePodHostNetworkDeps, validatePodHostName (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::json;

use super::{Errors, Place, addresses};
use crate::views::{Container, HostAlias, PodSpec, Views};

const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCHES_LENGTH: usize = 2048;
const MAX_HOST_LENGTH: usize = 64;

/// No two of these containers have the same port of the machine.
pub(super) fn host_ports<'a>(containers: impl Iterator<Item = Place<'a, Container<'a>>>, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for container in containers {
        for port in container.ports().each().filter(|port| *port.host_port() != 0) {
            let shown = format!("{}/{}/{}", *port.protocol(), *port.host_ip(), *port.host_port());
            if taken.contains(&shown) {
                errors.duplicate(port.host_port(), &json!(shown));
            } else {
                taken.insert(shown);
            }
        }
    }
}

/// On the network of the machine, a container's port is the machine's. A template may leave it out.
pub(super) fn host_network(spec: &Place<'_, PodSpec<'_>>, is_pod: bool, errors: &mut Errors) {
    if !*spec.host_network() {
        return;
    }
    for container in spec.containers().each() {
        for port in container.ports().each() {
            let host = port.host_port();
            if (is_pod || *host != 0) && *host != *port.container_port() {
                errors.invalid(host, &json!(*host), "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

/// `dnsConfig`.
pub(super) fn dns(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let config = spec.dns_config();
    let servers = config.nameservers();
    if *spec.dns_policy() == "None" {
        if !config.is_set() {
            return errors.required(config, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            let fault = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(servers, fault);
        }
    }
    if servers.len() > MAX_SERVERS {
        errors.invalid_at(&servers, format!("must not have more than {MAX_SERVERS} nameservers"));
    }
    servers.each().for_each(|server| addresses::ip(&server, errors));
    searches(&config.searches(), errors);
    for option in config.options().each().filter(|option| option.name().is_empty()) {
        errors.required(option, "must not be empty");
    }
}

fn searches<'a>(list: &Place<'_, Views<'a, &'a str>>, errors: &mut Errors) {
    let all: Vec<&str> = list.each().map(|search| *search).collect();
    if all.len() > MAX_SEARCHES {
        errors.invalid_at(list, format!("must not have more than {MAX_SEARCHES} search paths"));
    }
    if all.join(" ").len() > MAX_SEARCHES_LENGTH {
        let fault =
            format!("must not have more than {MAX_SEARCHES_LENGTH} characters (including spaces) in the search list");
        errors.invalid_at(list, fault);
    }
    for search in list.each().filter(|search| **search != ".") {
        errors.faults(&search, search.strip_suffix('.').unwrap_or(*search), names::search_domain);
    }
}

/// What the pod calls itself.
pub(super) fn host_name(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let name = spec.hostname_override();
    if !name.is_set() {
        return;
    }
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if **spec.field(field) == true {
            errors.forbidden(name, format!("may not be specified when {field} is true"));
        }
    }
    name.no_longer_than(MAX_HOST_LENGTH, errors);
    name.check(names::subdomain, errors);
}

/// `hostAliases`.
pub(super) fn aliases<'a>(list: &Place<'_, Views<'a, HostAlias<'a>>>, errors: &mut Errors) {
    for alias in list.each() {
        addresses::ip(&alias.ip(), errors);
        alias.hostnames().each().for_each(|name| name.check(names::subdomain, errors));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::schema::Path;

    fn faults(spec: &Value) -> Vec<String> {
        let spec = Place::<PodSpec<'_>>::new(Path::Root.field("spec"), spec);
        Errors::found(|errors| {
            host_ports(spec.containers().each(), errors);
            host_network(&spec, true, errors);
            dns(&spec, errors);
            host_name(&spec, errors);
            aliases(&spec.host_aliases(), errors);
        })
    }

    #[test]
    fn names_and_addresses() {
        let port = json!({ "containerPort": 80, "hostPort": 80, "protocol": "TCP" });
        for (spec, wanted) in [
            (
                json!({ "dnsPolicy": "None", "dnsConfig": { "nameservers": ["1.2.3.4"], "searches": [".", "_sip._tcp.abc.com.", "a.b"], "options": [{ "name": "ndots", "value": "5" }] } }),
                vec![],
            ),
            (
                json!({ "dnsPolicy": "None" }),
                vec!["dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
            ),
            (
                json!({ "dnsPolicy": "None", "dnsConfig": {} }),
                vec![
                    "dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
                ],
            ),
            (
                json!({ "dnsConfig": { "nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3", "x"] } }),
                vec![
                    "dnsConfig.nameservers: Invalid value: [\"1.1.1.1\",\"2.2.2.2\",\"3.3.3.3\",\"x\"]: must not have more than 3 nameservers",
                    "dnsConfig.nameservers[3]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
            (
                json!({ "dnsConfig": { "options": [{ "value": "5" }] } }),
                vec!["dnsConfig.options[0]: Required value: must not be empty"],
            ),
            (json!({ "hostAliases": [{ "ip": "1.1.1.1", "hostnames": ["a.example"] }] }), vec![]),
            (
                json!({ "hostAliases": [{ "ip": "x" }] }),
                vec![
                    "hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
            (
                json!({ "hostNetwork": true, "containers": [{ "ports": [{ "containerPort": 80, "hostPort": 81 }] }] }),
                vec![
                    "containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
                ],
            ),
            (
                json!({ "containers": [{ "ports": [port, port] }] }),
                vec!["containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""],
            ),
            (
                json!({ "hostNetwork": true, "hostnameOverride": "a" }),
                vec!["hostnameOverride: Forbidden: may not be specified when hostNetwork is true"],
            ),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("spec.{fault}")).collect();
            assert_eq!(faults(&spec), wanted, "{spec}");
        }
    }
}
