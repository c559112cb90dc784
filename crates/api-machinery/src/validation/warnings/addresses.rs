//! Addresses and ranges that are taken in a spelling that is none of the best.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go GetWarningsForIP, GetWarningsForCIDR (v1.36)

use std::net::IpAddr;

use super::super::addresses::{is_mapped, lenient};
use super::super::{Place, ranges};
use super::collected::Warnings;

/// An address.
pub(super) fn ip(place: &Place<'_, &str>, warnings: &mut Warnings) {
    let text = **place;
    let Some(address) = lenient(text) else { return };
    let proper = address.to_canonical();
    if text.parse::<IpAddr>().is_err() || is_mapped(address) {
        warnings.at(place, format_args!("non-standard IP address {text:?} is invalid: use \"{proper}\""));
    } else if address.is_ipv6() && proper.to_string() != text {
        warnings.at(place, format_args!("IPv6 address {text:?} should be in RFC 5952 canonical format (\"{proper}\")"));
    }
}

/// A range of them.
pub(super) fn cidr(place: &Place<'_, &str>, warnings: &mut Warnings) {
    let text = **place;
    let Some((address, length)) = ranges::lenient_range(text) else { return };
    let first = ranges::first(address, length);
    let whole = format!("{first}/{length}");
    if address != first {
        let single = format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 });
        let rest = format!("is ambiguous in this context (should be {whole:?} or {single:?}?)");
        warnings.at(place, format_args!("CIDR value {text:?} {rest}"));
    }
    if ranges::range(text).is_none() || is_mapped(address) {
        warnings.at(place, format_args!("non-standard CIDR value {text:?} is invalid: use {whole:?}"));
    } else if address == first && address.is_ipv6() && whole != text {
        warnings.at(place, format_args!("IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({whole:?})"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Path;

    #[test]
    fn unusual_spellings_are_warned_of() {
        let warnings_of = |warn: fn(&Place<'_, &str>, &mut Warnings), text: &str| {
            let mut warnings = Warnings::default();
            warn(&Place::new(Path::Root.field("at"), &json!(text)), &mut warnings);
            warnings.texts()
        };
        for (text, wanted) in [
            ("1.2.3.4", vec![]),
            ("fd00::1", vec![]),
            ("01.2.3.4", vec!["at: non-standard IP address \"01.2.3.4\" is invalid: use \"1.2.3.4\""]),
            ("::ffff:1.2.3.4", vec!["at: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\""]),
            ("FE80::1", vec!["at: IPv6 address \"FE80::1\" should be in RFC 5952 canonical format (\"fe80::1\")"]),
            ("x", vec![]),
        ] {
            assert_eq!(warnings_of(ip, text), wanted, "{text}");
        }
        for (text, wanted) in [
            ("10.0.0.0/8", vec![]),
            (
                "10.0.0.1/8",
                vec![
                    "at: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)",
                ],
            ),
            ("10.0.0.0/08", vec!["at: non-standard CIDR value \"10.0.0.0/08\" is invalid: use \"10.0.0.0/8\""]),
            (
                "FD00::/8",
                vec!["at: IPv6 CIDR value \"FD00::/8\" should be in RFC 5952 canonical format (\"fd00::/8\")"],
            ),
        ] {
            assert_eq!(warnings_of(cidr, text), wanted, "{text}");
        }
    }
}
