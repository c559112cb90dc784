//! IP addresses in fields that are older than the rules for them.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go (v1.36, StrictIPCIDRValidation)

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use super::Errors;
use crate::schema::Path;

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
pub(super) fn ip(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let text = value.as_str().unwrap_or_default();
    let shown = json!(text);
    let Some(address) = lenient(text) else {
        errors.invalid(path, &shown, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        return;
    };
    if text.parse::<IpAddr>().is_err() {
        errors.invalid(path, &shown, "must not have leading 0s");
    }
    if is_mapped(address) {
        errors.invalid(path, &shown, "must not be an IPv4-mapped IPv6 address");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(check: impl Fn(&Value, &Path<'_>, &mut Errors), text: &str) -> String {
        let mut errors = Errors::default();
        check(&json!(text), &Path::Root.field("at"), &mut errors);
        errors.texts().join("; ").replace(&format!("at: Invalid value: \"{text}\": "), "")
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
            assert_eq!(faults(ip, text), wanted, "{text}");
        }
    }
}
