//! Pure: where a request comes from: the machine that sent it, or whom a proxy that is believed names.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::HeaderMap;

/// Whom a request comes from, for those who answer it.
#[derive(Debug, Clone, Copy)]
pub struct From(pub IpAddr);

/// Addresses that begin alike: `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no address and no network such as 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl Network {
    /// Whether an address is in it.
    pub fn has(&self, address: IpAddr) -> bool {
        let spread = |bits: u128, width: u32| bits.checked_shr(width.saturating_sub(u32::from(self.bits))).unwrap_or(0);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                spread(u128::from(u32::from(own)), 32) == spread(u128::from(u32::from(other)), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => spread(own.into(), 128) == spread(other.into(), 128),
            _ => false,
        }
    }
}

/// Whether an address is one of a proxy that is believed.
pub fn is_proxy(address: IpAddr, proxies: &[Network]) -> bool {
    proxies.iter().any(|network| network.has(address))
}

/// The address of a hop: alone, with a port, and of IPv6 in brackets, as proxies write it.
fn hop_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.parse().ok().filter(|address: &IpAddr| bare == text || address.is_ipv6()).or_else(with_port)
}

/// Whom a request comes from. What a proxy says that is not believed, or what stands before what a believed one has added, may
/// be anything.
pub fn client(from: IpAddr, headers: &HeaderMap, proxies: &[Network]) -> IpAddr {
    let mut client = from.to_canonical();
    if !is_proxy(client, proxies) {
        return client;
    }
    let all: Vec<&str> = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
    for hop in all.iter().rev().flat_map(|value| value.rsplit(',')) {
        let Some(address) = hop_address(hop.trim()) else { break };
        client = address.to_canonical();
        if !is_proxy(client, proxies) {
            break;
        }
    }
    client
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_network_has_the_addresses_that_begin_as_it_does() {
        for (network, address, has) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "fe80::1", true),
            ("::/0", "10.0.0.1", false),
        ] {
            assert_eq!(networks(&[network])[0].has(address.parse().unwrap()), has, "{network} {address}");
        }
        for wrong in ["", "10.0.0", "10.0.0.0/33", "10.0.0.0/x", "fd00::/129", "example.org"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_proxies_that_are_known_are_believed() {
        let proxies = networks(&["127.0.0.1", "10.0.0.0/8"]);
        for (from, said, wanted) in [
            ("192.0.2.9", vec!["198.51.100.1"], "192.0.2.9"),
            ("127.0.0.1", vec![], "127.0.0.1"),
            ("127.0.0.1", vec!["198.51.100.1"], "198.51.100.1"),
            // What a client made up stands before what the proxy has seen.
            ("127.0.0.1", vec!["203.0.113.5, 198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", vec!["203.0.113.5", "198.51.100.1, 10.0.0.7"], "198.51.100.1"),
            ("127.0.0.1", vec!["203.0.113.5, rubbish"], "127.0.0.1"),
            ("127.0.0.1", vec!["10.0.0.7"], "10.0.0.7"),
            ("127.0.0.1", vec!["198.51.100.1:443"], "198.51.100.1"),
            ("127.0.0.1", vec!["203.0.113.5:1, 198.51.100.1:65535, 10.0.0.7:80"], "198.51.100.1"),
            ("127.0.0.1", vec!["2001:db8::1"], "2001:db8::1"),
            ("127.0.0.1", vec!["[2001:db8::1]"], "2001:db8::1"),
            ("127.0.0.1", vec!["[2001:db8::1]:443"], "2001:db8::1"),
            ("127.0.0.1", vec!["[::ffff:198.51.100.1]:443"], "198.51.100.1"),
            ("127.0.0.1", vec!["198.51.100.1:"], "127.0.0.1"),
            ("127.0.0.1", vec!["198.51.100.1:65536"], "127.0.0.1"),
            ("127.0.0.1", vec!["[198.51.100.1]"], "127.0.0.1"),
            ("127.0.0.1", vec!["[2001:db8::1"], "127.0.0.1"),
            ("127.0.0.1", vec!["unknown"], "127.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for value in &said {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            let client = client(from.parse().unwrap(), &headers, &proxies);
            assert_eq!(client, wanted.parse::<IpAddr>().unwrap(), "{from} {said:?}");
        }
    }
}
