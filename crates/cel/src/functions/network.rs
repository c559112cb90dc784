//! Addresses and ranges of addresses.
//!
//! // upstream: apiserver pkg/cel/library/ip.go, cidr.go

use std::net::IpAddr;
use std::sync::Arc;

use super::outcome::Outcome;
use crate::value::{Opaque, Value};

/// An address.
#[derive(Debug)]
struct Ip(IpAddr);

/// An address and how many of its bits count.
#[derive(Debug)]
struct Cidr(IpAddr, u8);

/// Functions that make addresses; `None` where it is none of them.
pub(super) fn call(function: &str, values: &[Value]) -> Option<Outcome> {
    let [Value::String(text)] = values else { return None };
    Some(match function {
        "ip" => parse_ip(text).map(|ip| Value::Opaque(Arc::new(Ip(ip)))),
        "isIP" => Ok(Value::Bool(parse_ip(text).is_ok())),
        "ip.isCanonical" => parse_ip(text).map(|ip| Value::Bool(ip.to_string() == text.as_ref())),
        "cidr" => parse_cidr(text).map(|(ip, bits)| Value::Opaque(Arc::new(Cidr(ip, bits)))),
        "isCIDR" => Ok(Value::Bool(parse_cidr(text).is_ok())),
        _ => return None,
    })
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let ip: IpAddr = text
        .parse()
        .map_err(|_| format!("IP Address {text:?} parse error during conversion from string: unable to parse IP"))?;
    match ip {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        ip => Ok(ip),
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || format!("network address parse error during conversion from string: invalid CIDR {text:?}");
    let (ip, bits) = text.split_once('/').ok_or_else(wrong)?;
    let ip = parse_ip(ip)?;
    let well_formed =
        !bits.is_empty() && (bits == "0" || !bits.starts_with('0')) && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: u8 = bits.parse().ok().filter(|_| well_formed).ok_or_else(wrong)?;
    if bits > width(ip) { Err(wrong()) } else { Ok((ip, bits)) }
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// The address with only the bits that count.
fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(bits))).unwrap_or(0);
            IpAddr::from((u32::from(four) & mask).to_be_bytes())
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(bits))).unwrap_or(0);
            IpAddr::from((u128::from(six) & mask).to_be_bytes())
        }
    }
}

fn holds(range: &Cidr, ip: IpAddr) -> bool {
    range.0.is_ipv4() == ip.is_ipv4() && masked(ip, range.1) == masked(range.0, range.1)
}

impl Opaque for Ip {
    fn type_name(&self) -> &'static str {
        "net.IP"
    }

    fn text(&self) -> String {
        self.0.to_string()
    }

    fn call(&self, function: &str, _arguments: &[Value]) -> Option<Outcome> {
        let link_local = |ip: IpAddr| match ip {
            IpAddr::V4(four) => four.is_link_local(),
            IpAddr::V6(six) => six.is_unicast_link_local(),
        };
        Some(Ok(match function {
            "@size" => Value::Int(if self.0.is_ipv4() { 4 } else { 16 }),
            "family" => Value::Int(if self.0.is_ipv4() { 4 } else { 6 }),
            "isUnspecified" => Value::Bool(self.0.is_unspecified()),
            "isLoopback" => Value::Bool(self.0.is_loopback()),
            "isLinkLocalMulticast" => Value::Bool(match self.0 {
                IpAddr::V4(four) => four.octets().starts_with(&[224, 0, 0]),
                IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
            }),
            "isLinkLocalUnicast" => Value::Bool(link_local(self.0)),
            "isGlobalUnicast" => {
                let broadcast = matches!(self.0, IpAddr::V4(four) if four.is_broadcast());
                Value::Bool(
                    !broadcast
                        && !self.0.is_unspecified()
                        && !self.0.is_loopback()
                        && !self.0.is_multicast()
                        && !link_local(self.0),
                )
            }
            _ => return None,
        }))
    }
}

impl Opaque for Cidr {
    fn type_name(&self) -> &'static str {
        "net.CIDR"
    }

    fn text(&self) -> String {
        format!("{}/{}", self.0, self.1)
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Option<Outcome> {
        let argument = || match arguments {
            [Value::String(text)] => Some(text.to_string()),
            [Value::Opaque(opaque)] => Some(opaque.text()),
            _ => None,
        };
        Some(Ok(match function {
            "@size" => Value::Int(i64::from(self.1.div_ceil(8))),
            "ip" => Value::Opaque(Arc::new(Ip(self.0))),
            "prefixLength" => Value::Int(i64::from(self.1)),
            "masked" => Value::Opaque(Arc::new(Self(masked(self.0, self.1), self.1))),
            "containsIP" => match parse_ip(&argument()?) {
                Ok(ip) => Value::Bool(holds(self, ip)),
                Err(error) => return Some(Err(error)),
            },
            "containsCIDR" => match parse_cidr(&argument()?) {
                Ok((ip, bits)) => Value::Bool(bits >= self.1 && holds(self, ip)),
                Err(error) => return Some(Err(error)),
            },
            _ => return None,
        }))
    }
}
