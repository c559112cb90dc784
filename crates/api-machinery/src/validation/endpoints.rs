//! Endpoints and EndpointSlices.

// upstream: pkg/apis/core/validation/validation.go validateEndpointSubsets, ValidateEndpointIP (v1.36)
// upstream: pkg/apis/discovery/validation/validation.go ValidateEndpointSlice, ValidateEndpointSliceUpdate (v1.36)

use std::collections::HashSet;
use std::net::IpAddr;

use klab_cel::names;
use serde_json::Value;

use super::{Errors, Place, container};
use crate::views::{Endpoint, EndpointAddress, EndpointSlice, Endpoints};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// Most endpoints and ports of one slice, and most addresses of one endpoint.
const MAX_ENDPOINTS: usize = 1000;
const MAX_PORTS: usize = 20_000;
const MAX_ADDRESSES: usize = 100;
const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// A change of Endpoints: subsets that stay as they are are not looked at.
pub(crate) fn endpoints_update(old: &Value, new: &Value, errors: &mut Errors) {
    if !Endpoints(old).subsets().eq(Endpoints(new).subsets()) {
        endpoints(new, errors);
    }
}

/// New Endpoints.
pub fn endpoints(value: &Value, errors: &mut Errors) {
    for subset in Place::<Endpoints<'_>>::root(value).subsets().each() {
        let lists = [subset.addresses(), subset.not_ready_addresses()];
        if lists.iter().all(|list| list.is_empty()) {
            errors.required(subset, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in &lists {
            list.each().for_each(|address| endpoint_address(&address, errors));
        }
        let ports = subset.ports();
        for port in ports.each() {
            if ports.len() > 1 {
                port.name().needed(errors);
            }
            port.name().check_if_set(names::label, errors);
            container::number(&port.port(), errors);
            port.protocol().needed_of(&PROTOCOLS, errors);
        }
    }
}

fn endpoint_address(address: &Place<'_, EndpointAddress<'_>>, errors: &mut Errors) {
    let ip = address.ip();
    if ip.parse::<IpAddr>().is_err() {
        errors.invalid_at(&ip, NO_ADDRESS);
    }
    address.hostname().check_if_set(names::label, errors);
    address.node_name().check_given(names::subdomain, errors);
    elsewhere(&ip, errors);
}

/// An address that leads to another machine.
// upstream: pkg/apis/core/validation/validation.go ValidateEndpointIP (v1.36)
pub(super) fn elsewhere(given: &Place<'_, &str>, errors: &mut Errors) {
    match given.parse::<IpAddr>() {
        Err(_) => errors.invalid_at(given, "must be a valid IP address"),
        Ok(ip) => {
            special(ip, given, errors);
            if ip.is_loopback() {
                errors.invalid_at(given, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
            }
        }
    }
}

/// Addresses that lead nowhere from another machine.
fn special(ip: IpAddr, given: &Place<'_, &str>, errors: &mut Errors) {
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        errors.invalid_at(given, format!("may not be unspecified ({ip})"));
    }
    if link_local {
        errors.invalid_at(given, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        errors.invalid_at(given, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// A new EndpointSlice.
pub fn slice(value: &Value, errors: &mut Errors) {
    let slice = Place::<EndpointSlice<'_>>::root(value);
    let (kind, endpoints, ports) = (slice.address_type(), slice.endpoints(), slice.ports());
    kind.needed_of(&["FQDN", "IPv4", "IPv6"], errors);
    if !endpoints.at_most(MAX_ENDPOINTS, errors) {
        return;
    }
    endpoints.each().for_each(|endpoint| slice_endpoint(&endpoint, *kind, errors));
    if !ports.at_most(MAX_PORTS, errors) {
        return;
    }
    let mut seen = HashSet::new();
    for port in ports.each() {
        port.name().check_if_set(names::label, errors);
        if !seen.insert(port.name().unwrap_or_default()) {
            errors.duplicate_at(&port.name());
        }
        if port.protocol().is_set() {
            port.protocol().supported(&PROTOCOLS, errors);
        } else {
            errors.required(port.protocol(), "");
        }
    }
}

fn slice_endpoint(endpoint: &Place<'_, Endpoint<'_>>, kind: &str, errors: &mut Errors) {
    let addresses = endpoint.addresses();
    addresses.needed_for("must contain at least 1 address", errors);
    addresses.at_most(MAX_ADDRESSES, errors);
    for address in addresses.each() {
        match (kind, address.parse::<IpAddr>()) {
            ("IPv4" | "IPv6", Err(_)) => errors.invalid_at(&address, NO_ADDRESS),
            ("IPv4", Ok(IpAddr::V6(_))) => errors.invalid_at(&address, "must be an IPv4 address"),
            ("IPv6", Ok(IpAddr::V4(_))) => errors.invalid_at(&address, "must be an IPv6 address"),
            // Other than upstream, loopback is let through: a webhook behind a slice may run on this machine.
            ("IPv4" | "IPv6", Ok(ip)) => special(ip, &address, errors),
            _ => {}
        }
    }
    endpoint.hostname().check_if_set(names::label, errors);
}

/// A change of a slice: the kind of its addresses stays, and what stays is not looked at.
pub(crate) fn slice_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (had, has) = (Place::<EndpointSlice<'_>>::root(old), Place::<EndpointSlice<'_>>::root(new));
    if had.endpoints().json != has.endpoints().json || had.ports().json != has.ports().json {
        slice(new, errors);
    }
    has.address_type().stays(&had.address_type(), errors);
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
