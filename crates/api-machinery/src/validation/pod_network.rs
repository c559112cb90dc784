//! How a pod is called and reached, and how it finds others: host network, names, DNS, host aliases.

// upstream: pkg/apis/core/validation/validation.go validatePodDNSConfig, validatePodHostNetworkDeps, validatePodHostName (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, text};
use super::{Errors, addresses};
use crate::schema::Path;

const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCHES_LENGTH: usize = 2048;
const MAX_HOST_LENGTH: usize = 64;

/// No two containers of a list have the same port of the machine.
pub(super) fn host_ports<'a>(
    containers: impl Iterator<Item = (usize, &'a Value)>,
    list: &Path<'_>,
    errors: &mut Errors,
) {
    let mut taken = HashSet::new();
    for (at, container) in containers {
        let ports = list.index(at);
        let ports = ports.field("ports");
        for (at, port) in entries(container, "ports") {
            let Some(number) = port["hostPort"].as_i64().filter(|number| *number != 0) else { continue };
            let shown = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if taken.contains(&shown) {
                errors.duplicate(ports.index(at).field("hostPort"), &json!(shown));
            } else {
                taken.insert(shown);
            }
        }
    }
}

/// On the network of the machine, a container's port is the machine's. A template may leave it out.
pub(super) fn host_network(spec: &Value, is_pod: bool, path: &Path<'_>, errors: &mut Errors) {
    if spec["hostNetwork"] != true {
        return;
    }
    let list = path.field("containers");
    for (at, container) in entries(spec, "containers") {
        let ports = list.index(at);
        let ports = ports.field("ports");
        for (at, port) in entries(container, "ports") {
            let host = port["hostPort"].as_i64().unwrap_or_default();
            if (is_pod || host != 0) && Some(host) != port["containerPort"].as_i64() {
                let fault = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(ports.index(at).field("hostPort"), &json!(host), fault);
            }
        }
    }
}

/// `dnsConfig`.
pub(super) fn dns(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let config = &spec["dnsConfig"];
    let path = path.field("dnsConfig");
    let servers = path.field("nameservers");
    let count = entries(config, "nameservers").count();
    if spec["dnsPolicy"] == "None" {
        if !config.is_object() {
            return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if count == 0 {
            let fault = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(servers, fault);
        }
    }
    if count > MAX_SERVERS {
        let fault = format!("must not have more than {MAX_SERVERS} nameservers");
        errors.invalid(servers, &config["nameservers"], fault);
    }
    for (at, server) in entries(config, "nameservers") {
        addresses::ip(server, &servers.index(at), errors);
    }
    searches(config, &path.field("searches"), errors);
    let options = path.field("options");
    for (at, option) in entries(config, "options") {
        if text(option, "name").is_empty() {
            errors.required(options.index(at), "must not be empty");
        }
    }
}

fn searches(config: &Value, list: &Path<'_>, errors: &mut Errors) {
    let all: Vec<&str> = entries(config, "searches").filter_map(|(_, search)| search.as_str()).collect();
    if all.len() > MAX_SEARCHES {
        let fault = format!("must not have more than {MAX_SEARCHES} search paths");
        errors.invalid(list, &config["searches"], fault);
    }
    if all.join(" ").len() > MAX_SEARCHES_LENGTH {
        let fault =
            format!("must not have more than {MAX_SEARCHES_LENGTH} characters (including spaces) in the search list");
        errors.invalid(list, &config["searches"], fault);
    }
    for (at, search) in all.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        for fault in names::search_domain(search) {
            errors.invalid(list.index(at), &json!(search), fault);
        }
    }
}

/// What the pod calls itself.
pub(super) fn host_name(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(name) = spec["hostnameOverride"].as_str() else { return };
    let path = path.field("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec[field] == true {
            errors.forbidden(path, format!("may not be specified when {field} is true"));
        }
    }
    if name.len() > MAX_HOST_LENGTH {
        errors.too_long(path, MAX_HOST_LENGTH, "bytes");
    }
    for fault in names::subdomain(name) {
        errors.invalid(path, &spec["hostnameOverride"], fault);
    }
}

/// `hostAliases`.
pub(super) fn aliases(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    for (at, alias) in entries(spec, "hostAliases") {
        let path = list.index(at);
        addresses::ip(&alias["ip"], &path.field("ip"), errors);
        let list = path.field("hostnames");
        for (at, name) in entries(alias, "hostnames") {
            for fault in names::subdomain(name.as_str().unwrap_or_default()) {
                errors.invalid(list.index(at), name, fault);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(spec: Value) -> Vec<String> {
        let mut errors = Errors::default();
        let path = Path::Root.field("spec");
        host_ports(entries(&spec, "containers"), &path.field("containers"), &mut errors);
        host_network(&spec, true, &path, &mut errors);
        dns(&spec, &path, &mut errors);
        host_name(&spec, &path, &mut errors);
        aliases(&spec, &path.field("hostAliases"), &mut errors);
        errors.texts()
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
            assert_eq!(faults(spec.clone()), wanted, "{spec}");
        }
    }
}
