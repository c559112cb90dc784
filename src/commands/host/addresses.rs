//! The names and addresses of this machine, as others reach it.

use std::net::IpAddr;
use std::time::Duration;

use klab_operations::exec::Command;

/// How long the machine's own name may take.
const NAME: Duration = Duration::from_secs(2);

/// How this machine is reached.
pub(super) struct Addresses {
    /// Its name, if it has one that others may know.
    name: Option<String>,
    /// Its addresses, those first by which others reach it most likely.
    pub(super) addresses: Vec<IpAddr>,
}

/// Those at which a class is reached that listens at an address.
pub(super) fn of(listen: IpAddr) -> Addresses {
    let addresses = if listen.is_unspecified() { all(listen.is_ipv6()) } else { vec![listen] };
    Addresses { name: if listen.is_loopback() { None } else { host_name() }, addresses }
}

/// The addresses of all networks that this machine is in.
fn all(with_six: bool) -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let mut addresses: Vec<(bool, IpAddr)> = interfaces
        .iter()
        .filter(|interface| !interface.is_loopback())
        // Bridges of containers are no way for anybody else.
        .map(|interface| {
            let inner =
                ["docker", "br-", "veth", "virbr", "cni", "podman"].iter().any(|kind| interface.name.starts_with(kind));
            (inner, interface.ip())
        })
        .filter(|(_, ip)| match ip {
            IpAddr::V4(four) => !four.is_link_local(),
            IpAddr::V6(six) => with_six && !six.is_unicast_link_local(),
        })
        .collect();
    addresses.sort_by_key(|(inner, ip)| (*inner, ip.is_ipv6()));
    addresses.dedup();
    let mut addresses: Vec<IpAddr> = addresses.into_iter().map(|(_, ip)| ip).collect();
    if addresses.is_empty() {
        addresses.push(IpAddr::from([127, 0, 0, 1]));
    }
    addresses
}

fn host_name() -> Option<String> {
    let kernel_name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel_name.or_else(|| Command::new("hostname").output(NAME).ok())?;
    let name = name.trim().to_owned();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    (!name.is_empty() && name.len() < 64 && name.chars().all(plain)).then_some(name)
}

impl Addresses {
    /// The names that a certificate is to be good for, where people also call the host by a URL.
    pub(super) fn names(&self, url: Option<&str>) -> Vec<String> {
        let mut names: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        names.extend(self.name.iter().flat_map(|name| [name.clone(), format!("{name}.local")]));
        names.extend(url.and_then(host_of));
        names.sort();
        names.dedup();
        names.retain(|name| !["127.0.0.1", "localhost"].contains(&name.as_str()));
        names
    }
}

/// The host in a URL.
fn host_of(url: &str) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    Some(uri.host()?.trim_matches(['[', ']']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_for_all_names_once() {
        let addresses = Addresses {
            name: Some("lab7".to_owned()),
            addresses: vec!["10.0.0.7".parse().unwrap(), "127.0.0.1".parse().unwrap()],
        };
        assert_eq!(
            addresses.names(Some("https://labs.example.org:8443/x")),
            ["10.0.0.7", "lab7", "lab7.local", "labs.example.org"]
        );
        assert_eq!(addresses.names(Some("https://10.0.0.7")), ["10.0.0.7", "lab7", "lab7.local"]);
        assert_eq!(host_of("https://[fd00::1]:1/x").as_deref(), Some("fd00::1"));
        assert!(!all(false).is_empty());
    }
}
