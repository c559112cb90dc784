//! Endpoints and EndpointSlices.

// upstream: pkg/apis/core/validation/validation.go validateEndpointSubsets, ValidateEndpointIP (v1.36)
// upstream: pkg/apis/discovery/validation/validation.go ValidateEndpointSlice, ValidateEndpointSliceUpdate (v1.36)

use std::net::IpAddr;

use std::collections::HashSet;

use klab_cel::names;
use serde_json::Value;

use super::Errors;
use super::field::{entries, supported, text};
use crate::schema::Path;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// Most endpoints and ports of one slice, and most addresses of one endpoint.
const MAX_ENDPOINTS: usize = 1000;
const MAX_PORTS: usize = 20_000;
const MAX_ADDRESSES: usize = 100;

/// A change of Endpoints: subsets that stay as they are are not looked at.
pub(crate) fn endpoints_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["subsets"] != new["subsets"] {
        endpoints(new, errors);
    }
}

/// New Endpoints.
pub fn endpoints(value: &Value, errors: &mut Errors) {
    let list = Path::Root.field("subsets");
    for (at, subset) in entries(value, "subsets") {
        let path = list.index(at);
        let all = ["addresses", "notReadyAddresses"];
        if all.iter().all(|field| entries(subset, field).next().is_none()) {
            errors.required(path, "must specify `addresses` or `notReadyAddresses`");
        }
        for field in all {
            let list = path.field(field);
            for (at, address) in entries(subset, field) {
                endpoint_address(address, &list.index(at), errors);
            }
        }
        let several = entries(subset, "ports").count() > 1;
        let list = path.field("ports");
        for (at, port) in entries(subset, "ports") {
            endpoint_port(port, several, &list.index(at), errors);
        }
    }
}

fn endpoint_address(address: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("ip");
    let given = &address["ip"];
    let ip = given.as_str().unwrap_or_default().parse::<IpAddr>();
    if ip.is_err() {
        errors.invalid(place, given, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
    label(&address["hostname"], &path.field("hostname"), errors);
    if let Some(node) = address["nodeName"].as_str() {
        for fault in names::subdomain(node) {
            errors.invalid(path.field("nodeName"), &address["nodeName"], fault);
        }
    }
    elsewhere(given, &place, errors);
}

/// An address that leads to another machine.
// upstream: pkg/apis/core/validation/validation.go ValidateEndpointIP (v1.36)
pub fn elsewhere(given: &Value, place: &Path<'_>, errors: &mut Errors) {
    match given.as_str().unwrap_or_default().parse::<IpAddr>() {
        Err(_) => errors.invalid(place, given, "must be a valid IP address"),
        Ok(ip) => {
            special(ip, given, place, errors);
            if ip.is_loopback() {
                errors.invalid(place, given, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
            }
        }
    }
}

/// Addresses that lead nowhere from another machine.
fn special(ip: IpAddr, given: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        errors.invalid(path, given, format!("may not be unspecified ({ip})"));
    }
    if link_local {
        errors.invalid(path, given, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        errors.invalid(path, given, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

fn label(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(name) = value.as_str().filter(|name| !name.is_empty()) {
        for fault in names::label(name) {
            errors.invalid(path, value, fault);
        }
    }
}

fn endpoint_port(port: &Value, needs_name: bool, path: &Path<'_>, errors: &mut Errors) {
    if needs_name && text(port, "name").is_empty() {
        errors.required(path.field("name"), "");
    }
    label(&port["name"], &path.field("name"), errors);
    if !port["port"].as_i64().is_some_and(|number| (1..=65535).contains(&number)) {
        errors.invalid(path.field("port"), &port["port"], "must be between 1 and 65535, inclusive");
    }
    if text(port, "protocol").is_empty() {
        errors.required(path.field("protocol"), "");
    } else {
        supported(&port["protocol"], &path.field("protocol"), &PROTOCOLS, errors);
    }
}

/// A new EndpointSlice.
pub fn slice(value: &Value, errors: &mut Errors) {
    let kind = text(value, "addressType");
    let place = Path::Root.field("addressType");
    if kind.is_empty() {
        errors.required(place, "");
    } else {
        supported(&value["addressType"], &place, &["FQDN", "IPv4", "IPv6"], errors);
    }
    let list = Path::Root.field("endpoints");
    let count = entries(value, "endpoints").count();
    if count > MAX_ENDPOINTS {
        errors.too_many(list, count, MAX_ENDPOINTS);
        return;
    }
    for (at, endpoint) in entries(value, "endpoints") {
        slice_endpoint(endpoint, kind, &list.index(at), errors);
    }
    let list = Path::Root.field("ports");
    let count = entries(value, "ports").count();
    if count > MAX_PORTS {
        errors.too_many(list, count, MAX_PORTS);
        return;
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, port) in entries(value, "ports") {
        let path = list.index(at);
        let name = text(port, "name");
        label(&port["name"], &path.field("name"), errors);
        if !seen.insert(name) {
            errors.duplicate(path.field("name"), &port["name"]);
        }
        if port["protocol"].is_null() {
            errors.required(path.field("protocol"), "");
        } else {
            supported(&port["protocol"], &path.field("protocol"), &PROTOCOLS, errors);
        }
    }
}

fn slice_endpoint(endpoint: &Value, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("addresses");
    match entries(endpoint, "addresses").count() {
        0 => errors.required(list, "must contain at least 1 address"),
        count if count > MAX_ADDRESSES => errors.too_many(list, count, MAX_ADDRESSES),
        _ => {}
    }
    for (at, address) in entries(endpoint, "addresses") {
        let path = list.index(at);
        let ip = address.as_str().unwrap_or_default().parse::<IpAddr>();
        match (kind, ip) {
            ("IPv4" | "IPv6", Err(_)) => {
                errors.invalid(path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
            }
            ("IPv4", Ok(IpAddr::V6(_))) => errors.invalid(path, address, "must be an IPv4 address"),
            ("IPv6", Ok(IpAddr::V4(_))) => errors.invalid(path, address, "must be an IPv6 address"),
            // Other than upstream, loopback is let through: a webhook behind a slice may run on this machine.
            ("IPv4" | "IPv6", Ok(ip)) => special(ip, address, &path, errors),
            _ => {}
        }
    }
    label(&endpoint["hostname"], &path.field("hostname"), errors);
}

/// A change of a slice: the kind of its addresses stays, and what stays is not looked at.
pub(crate) fn slice_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["endpoints"] != new["endpoints"] || old["ports"] != new["ports"] {
        slice(new, errors);
    }
    if old["addressType"] != new["addressType"] {
        errors.invalid("addressType", &new["addressType"], "field is immutable");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(check: fn(&Value, &mut Errors), value: &Value) -> Vec<String> {
        Errors::found(|errors| check(value, errors))
    }

    #[test]
    fn addresses_lead_to_other_machines() {
        let of =
            |ip: &str| json!({"subsets": [{"addresses": [{"ip": ip}], "ports": [{"port": 80, "protocol": "TCP"}]}]});
        let ip = "subsets[0].addresses[0].ip: Invalid value: ";
        for (address, wanted) in [
            ("192.0.2.1", vec![]),
            ("127.0.0.1", vec!["may not be in the loopback range (127.0.0.0/8, ::1/128)"]),
            ("0.0.0.0", vec!["may not be unspecified (0.0.0.0)"]),
            ("fe80::1", vec!["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]),
            ("224.0.0.5", vec!["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]),
            ("x", vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)", "must be a valid IP address"]),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("{ip}\"{address}\": {fault}")).collect();
            assert_eq!(faults(endpoints, &of(address)), wanted, "{address}");
        }
        assert_eq!(
            faults(endpoints, &json!({"subsets": [{}]})),
            ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]
        );
    }

    #[test]
    fn slices_have_addresses_of_one_kind() {
        let of = |kind: &str, address: &str| json!({"addressType": kind, "endpoints": [{"addresses": [address]}]});
        assert_eq!(faults(slice, &of("IPv4", "192.0.2.1")), [""; 0]);
        assert_eq!(
            faults(slice, &of("IPv4", "2001:db8::1")),
            ["endpoints[0].addresses[0]: Invalid value: \"2001:db8::1\": must be an IPv4 address"]
        );
        assert_eq!(faults(slice, &of("FQDN", "a.example")), [""; 0]);
        assert!(faults(slice, &of("IPX", "1"))[0].starts_with("addressType: Unsupported value: \"IPX\""));
    }
}
