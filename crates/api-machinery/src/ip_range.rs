//! Ranges of IP addresses, as ServiceCIDRs name them.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde_json::Value;

/// `10.1.0.0/24`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpRange {
    pub first: IpAddr,
    pub length: u32,
}

impl std::str::FromStr for IpRange {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (first, length) = text.split_once('/').ok_or(())?;
        let (first, length) = (first.parse::<IpAddr>().map_err(drop)?, length.parse().map_err(drop)?);
        if length > if first.is_ipv4() { 32 } else { 128 } { Err(()) } else { Ok(Self { first, length }) }
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

impl IpRange {
    /// Those of a ServiceCIDR.
    pub fn all_in(cidr: &Value) -> Vec<Self> {
        let texts = cidr["spec"]["cidrs"].as_array().into_iter().flatten();
        texts.filter_map(|text| text.as_str()?.parse().ok()).collect()
    }

    /// Whether an address is in it.
    pub fn has(&self, address: IpAddr) -> bool {
        self.contains(address, if address.is_ipv4() { 32 } else { 128 })
    }

    /// The addresses that Services may have of a range of IPv4: neither its first nor its last.
    pub fn hosts(&self) -> Option<RangeInclusive<u32>> {
        let IpAddr::V4(first) = self.first else { return None };
        let rest = u32::MAX.checked_shr(self.length).unwrap_or_default();
        let first = u32::from(first) & !rest;
        Some(first.saturating_add(1)..=(first | rest).saturating_sub(1))
    }

    /// Whether a smaller range is in it.
    pub fn contains(&self, first: IpAddr, length: u32) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
            IpAddr::V6(address) => u128::from(address),
        };
        let differs = bits(self.first) ^ bits(first);
        self.first.is_ipv4() == first.is_ipv4()
            && self.length <= length
            && (self.length == 0 || differs >> (128 - self.length) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_smaller_ones_of_their_family() {
        for (outer, inner, wanted) in [
            ("10.1.0.0/16", "10.1.2.0/24", true),
            ("10.1.2.0/24", "10.1.0.0/16", false),
            ("10.1.0.0/16", "10.2.0.0/24", false),
            ("0.0.0.0/0", "10.2.0.0/24", true),
            ("::/0", "10.2.0.0/24", false),
            ("fd00::/64", "fd00::1:0/112", true),
            ("fd00::/64", "fd01::/112", false),
        ] {
            let (outer, inner): (IpRange, IpRange) = (outer.parse().unwrap(), inner.parse().unwrap());
            assert_eq!(outer.contains(inner.first, inner.length), wanted, "{outer:?} {inner:?}");
        }
        for bad in ["", "10.1.0.0", "10.1.0.0/33", "10.1.0/24", "x/1", "fd00::/129"] {
            assert!(bad.parse::<IpRange>().is_err(), "{bad}");
        }
    }
}
