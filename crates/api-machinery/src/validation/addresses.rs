//! IP addresses in fields that are older than the rules for them.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go (v1.36, StrictIPCIDRValidation)

use std::net::{IpAddr, Ipv4Addr};

use super::{Errors, Place};

/// An address as old clients may write it, with zeros in front of its numbers.
pub(super) fn lenient(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next().filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

/// Whether an address stands for one of the older kind.
pub(super) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// An address in a field that is older than the rules for addresses: any spelling will do that means one address only.
pub(super) fn ip(address: &Place<'_, &str>, errors: &mut Errors) {
    let text = **address;
    let Some(parsed) = lenient(text) else {
        return errors.invalid_text(address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    };
    if text.parse::<IpAddr>().is_err() {
        errors.invalid_text(address, "must not have leading 0s");
    }
    if is_mapped(parsed) {
        errors.invalid_text(address, "must not be an IPv4-mapped IPv6 address");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Path;

    fn faults(text: &str) -> String {
        let faults = Errors::found(|errors| ip(&Place::new(Path::Root.field("at"), &json!(text)), errors));
        faults.join("; ").replace(&format!("at: Invalid value: \"{text}\": "), "")
    }

    #[test]
    fn addresses_that_mean_one_address_only() {
        for (text, wanted) in [
            ("1.2.3.4", ""),
            ("FE80::1", ""),
            ("01.2.3.004", "must not have leading 0s"),
            ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
            ("1.2.3", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("1.2.3.256", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ] {
            assert_eq!(faults(text), wanted, "{text}");
        }
    }
}
