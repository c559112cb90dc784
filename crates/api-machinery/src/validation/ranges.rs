//! Ranges of IP addresses in fields that are older than the rules for them.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go IsValidCIDRForLegacyField (v1.36, StrictIPCIDRValidation)

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::addresses::{is_mapped, lenient};
use super::{Errors, Place};

/// A range with the length of its prefix, without zeros in front of numbers.
pub(super) fn range(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let plain = length == "0" || !length.starts_with('0');
    let length = length.parse().ok().filter(|_| plain && length.bytes().all(|byte| byte.is_ascii_digit()))?;
    fitting(address.parse().ok()?, length)
}

/// [`range`] as old clients may write it.
pub(super) fn lenient_range(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let length = length.parse().ok().filter(|_| length.bytes().all(|byte| byte.is_ascii_digit()))?;
    fitting(lenient(address)?, length)
}

fn fitting(address: IpAddr, length: u8) -> Option<(IpAddr, u8)> {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    (length <= bits).then_some((address, length))
}

/// The first address of a range.
pub(super) fn first(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(u32::from(32 - length)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(address) & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(u32::from(128 - length)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
        }
    }
}

/// A range in a field that is older than the rules for ranges.
pub(super) fn cidr(cidr: &Place<'_, &str>, errors: &mut Errors) {
    let fault = match range(cidr) {
        _ if !is_range(cidr) => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        None => "must not have leading 0s in IP or prefix length",
        Some((address, _)) if is_mapped(address) => "must not have an IPv4-mapped IPv6 address",
        Some((address, length)) if first(address, length) != address => {
            "must not have bits set beyond the prefix length"
        }
        Some(_) => return,
    };
    errors.invalid_text(cidr, fault);
}

/// Whether a text is a range, in any spelling.
pub(super) fn is_range(text: &str) -> bool {
    lenient_range(text).is_some()
}

/// Whether one range lies within another, and is smaller.
pub(super) fn is_within(inner: &str, outer: &str) -> bool {
    let (Some(inner), Some(outer)) = (lenient_range(inner), lenient_range(outer)) else { return false };
    inner.0.is_ipv4() == outer.0.is_ipv4() && inner.1 > outer.1 && first(inner.0, outer.1) == first(outer.0, outer.1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Path;

    fn faults(text: &str) -> String {
        let faults = Errors::found(|errors| cidr(&Place::new(Path::Root.field("at"), &json!(text)), errors));
        faults.join("; ").replace(&format!("at: Invalid value: \"{text}\": "), "")
    }

    #[test]
    fn ranges_begin_where_they_begin() {
        for (text, wanted) in [
            ("10.0.0.0/8", ""),
            ("0.0.0.0/0", ""),
            ("2001:DB8::/32", ""),
            ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
            ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
            ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
            ("10.0.0.0/33", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            ("10.0.0.0", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        ] {
            assert_eq!(faults(text), wanted, "{text}");
        }
        assert!(is_within("10.1.0.0/16", "10.0.0.0/8"));
        assert!(!is_within("10.0.0.0/8", "10.0.0.0/8"));
        assert!(!is_within("11.0.0.0/16", "10.0.0.0/8"));
    }
}
