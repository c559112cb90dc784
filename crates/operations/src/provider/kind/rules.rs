//! What kind, kubeadm or the kubelet would refuse late, minutes into the work, refused before anything is made.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::config;
use super::desired::desired;
use super::machine::{Emulation, Host};
use super::version::KindVersion;
use crate::error::{Code, Error};
use serde_json::Value;

use klab_lab::spec::{Diagnostic, Diagnostics, Lab, Location, Mount, Os, Pool};

/// One thing that cannot be on kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// What is wrong.
    pub message: String,
    /// Where it is written, where klab knows.
    pub at: Option<Location>,
    /// What to do.
    pub help: String,
}

impl Problem {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), at: None, help: help.into() }
    }

    fn at(mut self, location: &Location) -> Self {
        self.at = Some(location.clone());
        self
    }
}

/// What `klab check` says: problems of the lab with any kind and on any machine.
pub fn of_any_machine(lab: &Lab) -> Diagnostics {
    let host = Host { cpus: 1, memory: 0, emulation: Emulation::Full };
    diagnostics(problems(lab, KindVersion::NEWEST, &host))
}

fn diagnostics(problems: Vec<Problem>) -> Diagnostics {
    let mut diagnostics = Diagnostics::default();
    for problem in problems {
        let mut diagnostic = Diagnostic::error(Code::NotOnKind, problem.message).help(problem.help);
        if let Some(location) = &problem.at {
            diagnostic = diagnostic.at(location, "");
        }
        diagnostics.push(diagnostic);
    }
    diagnostics
}

/// All problems as one error, each with its place in the lab file; none where there is no problem.
pub fn error(lab: &Lab, problems: Vec<Problem>) -> Option<Error> {
    let count = problems.len();
    let diagnostics = diagnostics(problems);
    let words = if count == 1 { "one thing is".to_owned() } else { format!("{count} things are") };
    let message =
        format!("{} cannot be made on kind: {words} not possible there; nothing was created", lab.source.name());
    (count > 0).then(|| Error { diagnostics: diagnostics.render(true), ..Error::message(Code::InvalidLab, message) })
}

/// Everything in the lab that a cluster on kind cannot be made of.
pub fn problems(lab: &Lab, kind: KindVersion, host: &Host) -> Vec<Problem> {
    let mut problems = Vec::new();
    for pool in &lab.pools {
        pool_problems(lab, pool, kind, host, &mut problems);
    }
    control_plane_problems(lab, kind, &mut problems);
    port_problems(lab, &mut problems);
    network_problems(lab, &mut problems);
    mount_problems(lab, &mut problems);
    registry_problems(lab, &mut problems);
    feature_gate_problems(lab, &mut problems);
    api_server_problems(lab, &mut problems);
    patch_problems(lab, &mut problems);
    problems
}

fn pool_problems(lab: &Lab, pool: &Pool, kind: KindVersion, host: &Host, problems: &mut Vec<Problem>) {
    let name = &pool.name.value;
    if !lab.makes(pool) {
        return;
    }
    if pool.os == Os::Windows {
        let message = format!("pool `{name}` is of Windows nodes, which kind does not have");
        problems.push(Problem::new(message, "leave `os` out, or make the lab on sim or aks").at(&pool.at));
    }
    if let Err(words) = desired(lab, pool, 0, host) {
        let help = "a smaller size, or a machine with a container runtime that can show any size (Docker on Linux)";
        problems.push(Problem::new(words, help).at(&pool.at));
    }
    for node in &pool.names {
        let own = format!("klab-{}-", lab.name.value);
        if node.value.len() > MAX_HOST_NAME {
            let message = format!("`{node}` is too long for the name of a node on kind");
            let help = format!("it becomes a container's host name: {MAX_HOST_NAME} characters at most");
            problems.push(Problem::new(message, help).at(&node.at));
        } else if node.value.starts_with(&own) {
            let message = format!("`{node}` may be the name of a node that kind names itself");
            problems.push(Problem::new(message, format!("choose one that does not begin with `{own}`")).at(&node.at));
        }
    }
    for (resource, quantity) in &pool.resources {
        let native = !resource.contains('/') || resource.split('/').next().is_some_and(is_kubernetes_domain);
        if native {
            let message = format!("`{resource}` cannot be added to the nodes of pool `{name}`: it is Kubernetes' own");
            let help = "extended resources have a domain of their vendor, such as `nvidia.com/gpu`";
            problems.push(Problem::new(message, help).at(&quantity.at));
        } else if quantity.value.0.parse::<u64>().is_err() {
            let message = format!("`{resource} = \"{}\"` is not a whole number", quantity.value.0);
            problems.push(Problem::new(message, "extended resources are counted in whole numbers").at(&quantity.at));
        }
    }
    if let (Some(version), Some(cluster)) = (&pool.kubernetes, config::cluster_image(lab, kind).kubernetes) {
        let (node, control_plane) = (version.value.minor, cluster.minor);
        if node > control_plane || node + 3 < control_plane {
            let message = format!("nodes of Kubernetes {} cannot join a cluster of {cluster}", version.value);
            let help = "a node is of the cluster's version, or up to three minor versions older";
            problems.push(Problem::new(message, help).at(&version.at));
        }
    }
}

/// Linux takes 64 bytes; a name of the DNS has a byte less.
const MAX_HOST_NAME: usize = 63;

fn is_kubernetes_domain(domain: &str) -> bool {
    ["kubernetes.io", "k8s.io"].iter().any(|own| domain == *own || domain.ends_with(&format!(".{own}")))
}

fn control_plane_problems(lab: &Lab, kind: KindVersion, problems: &mut Vec<Problem>) {
    let count = lab.kind.control_planes;
    if count == 0 || count.is_multiple_of(2) {
        let message = format!("`control_planes = {count}` gives no cluster that can lose a node");
        problems.push(Problem::new(message, "use 1, 3 or 5: etcd needs a majority"));
    }
    let image = config::cluster_image(lab, kind);
    if let (Some(version), Some(newest)) = (image.kubernetes, kind.newest_kubernetes())
        && version.minor > newest
    {
        let message = format!(
            "kind {kind} cannot make nodes of Kubernetes {version}: their kubeadm does not read what it writes"
        );
        problems
            .push(Problem::new(message, format!("install kind 0.32 or newer, or set `kubernetes = \"1.{newest}\"`")));
    }
}

fn port_problems(lab: &Lab, problems: &mut Vec<Problem>) {
    let any = IpAddr::from([0, 0, 0, 0]);
    let mut taken: BTreeMap<(u16, String), Vec<IpAddr>> = BTreeMap::new();
    let mut take = |port: u16, protocol: &str, address: IpAddr| {
        let there = taken.entry((port, protocol.to_uppercase())).or_default();
        let clash = there.iter().any(|other| *other == address || other.is_unspecified() || address.is_unspecified());
        there.push(address);
        clash
    };
    for port in &lab.kind.ports {
        let address = match port.address.as_deref() {
            None => Ok(any),
            Some(text) => text.parse(),
        };
        let Ok(address) = address else {
            let text = port.address.as_deref().unwrap_or_default();
            let message = format!("`{text}` is not an address that port {} can listen on", port.host);
            problems.push(Problem::new(message, "write an IP address of this machine, such as 127.0.0.1"));
            continue;
        };
        if !["TCP", "UDP", "SCTP"].contains(&port.protocol.to_uppercase().as_str()) {
            let message = format!("there is no protocol `{}` for port {}", port.protocol, port.host);
            problems.push(Problem::new(message, "use TCP, UDP or SCTP"));
        }
        if port.container == 0 {
            problems.push(Problem::new("port 0 of a node cannot be reached", "name the node's port in `container`"));
        }
        if port.container == 6443 && port.protocol.eq_ignore_ascii_case("tcp") {
            let message = "port 6443 of the control plane is the API server's, which kind publishes itself";
            problems.push(Problem::new(message, "set `api_server_port` for a fixed port"));
        }
        if port.host != 0 && take(port.host, &port.protocol, address) {
            let message = format!("port {} of this machine is mapped twice", port.host);
            problems.push(Problem::new(message, "give each entry of `ports` its own `host`"));
        }
    }
    let address = lab.kind.api_server_address.as_deref().unwrap_or("127.0.0.1");
    match (address.parse(), lab.kind.api_server_port) {
        (Ok(address), Some(port)) if port != 0 && take(port, "TCP", address) => {
            let message = format!("port {port} of this machine is the API server's and is mapped in `ports` too");
            problems.push(Problem::new(message, "change `api_server_port` or the entry of `ports`"));
        }
        (Ok(_), _) => {}
        (Err(_), _) => {
            let message = format!("`{address}` is not an address the API server can listen on");
            problems.push(Problem::new(message, "write an IP address of this machine, such as 127.0.0.1"));
        }
    }
}

/// A network in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    bits: u128,
    prefix: u32,
    width: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let prefix: u32 = prefix.parse().ok()?;
        let (bits, width) = match address.parse().ok()? {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        (prefix <= width).then_some(Self { bits, prefix, width })
    }

    fn start(self, prefix: u32) -> u128 {
        self.bits.checked_shr(self.width - prefix).unwrap_or(0)
    }

    fn overlaps(self, other: Self) -> bool {
        let prefix = self.prefix.min(other.prefix);
        self.width == other.width && self.start(prefix) == other.start(prefix)
    }
}

fn network_problems(lab: &Lab, problems: &mut Vec<Problem>) {
    // kind's own defaults.
    let pods = lab.kind.pod_subnet.as_deref().unwrap_or("10.244.0.0/16");
    let services = lab.kind.service_subnet.as_deref().unwrap_or("10.96.0.0/16");
    let mut networks = Vec::new();
    for (what, text) in [("pod_subnet", pods), ("service_subnet", services)] {
        match Network::parse(text) {
            Some(network) => networks.push(network),
            None => problems.push(Problem::new(
                format!("`{what} = \"{text}\"` is not a network"),
                "write it in CIDR notation, such as 10.244.0.0/16",
            )),
        }
    }
    if let [pods_network, services_network] = networks[..] {
        if pods_network.overlaps(services_network) {
            let message = format!("the networks of pods ({pods}) and services ({services}) overlap");
            problems.push(Problem::new(message, "change `pod_subnet` or `service_subnet`"));
        }
        let nodes = 1 + lab.pools.iter().map(|pool| pool.nodes.value).sum::<u32>();
        // Every node gets a /24 of the pods' network.
        if pods_network.width == 32 && pods_network.prefix <= 24 && u64::from(nodes) > 1 << (24 - pods_network.prefix) {
            let message = format!("the pods' network {pods} is too small for {nodes} nodes, each of which takes a /24");
            problems.push(Problem::new(message, "choose a larger `pod_subnet`, such as 10.244.0.0/16"));
        }
        if pods_network.width == 32 && pods_network.prefix > 24 {
            let message = format!("the pods' network {pods} is too small: each node takes a /24 of it");
            problems.push(Problem::new(message, "choose a larger `pod_subnet`, such as 10.244.0.0/16"));
        }
    }
}

fn mount_problems(lab: &Lab, problems: &mut Vec<Problem>) {
    let mut seen: Vec<Mount> = Vec::new();
    for mount in &lab.kind.mounts {
        let host = config::host_path(lab, &mount.host);
        if !host.exists() {
            let message = format!("`{}` should be mounted into the nodes, but does not exist", host.display());
            problems.push(Problem::new(message, format!("`mkdir -p '{}'` makes it", host.display())));
        }
        let container = mount.container.trim_end_matches('/');
        let within = |place: &str| container == place || container.starts_with(&format!("{place}/"));
        if !mount.container.starts_with('/') || container.is_empty() {
            let message = format!("`{}` is not a place in a node to mount something at", mount.container);
            problems.push(Problem::new(message, "write an absolute path, such as /data"));
        } else if ["/proc", "/sys", "/kind", "/var/lib/kubelet", "/var/lib/containerd", "/etc/kubernetes"]
            .into_iter()
            .any(within)
            || ["/var", "/etc", "/run", "/usr", "/tmp"].contains(&container)
        {
            let message =
                format!("`{}` holds what the node itself needs; nothing can be mounted there", mount.container);
            problems.push(Problem::new(message, "choose a folder of its own, such as /data"));
        } else if seen.iter().any(|other| other.container == container) {
            let message = format!("two entries are mounted at `{container}`");
            problems.push(Problem::new(message, "give each entry of `mounts` its own `container`"));
        }
        seen.push(Mount { container: container.to_owned(), ..mount.clone() });
    }
}

fn registry_problems(lab: &Lab, problems: &mut Vec<Problem>) {
    for (registry, mirror) in &lab.kind.registry_mirrors {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || ".-:_".contains(letter);
        if registry.is_empty() || !registry.chars().all(plain) {
            let message = format!("`{registry}` is not the name of a registry");
            problems
                .push(Problem::new(message, "write it as in image names, such as docker.io or registry.local:5000"));
        }
        if !mirror.starts_with("http://") && !mirror.starts_with("https://") {
            let message = format!("the mirror of `{registry}`, `{mirror}`, is not a URL");
            problems.push(Problem::new(message, format!("write `http://{mirror}` or `https://{mirror}`")));
        }
    }
}

fn feature_gate_problems(lab: &Lab, problems: &mut Vec<Problem>) {
    for gate in lab.kind.feature_gates.keys() {
        let named = gate.starts_with(|letter: char| letter.is_ascii_uppercase())
            && gate.chars().all(|letter| letter.is_ascii_alphanumeric());
        if !named {
            let message = format!("`{gate}` cannot be a feature gate");
            problems.push(Problem::new(message, "feature gates are written like `InPlacePodVerticalScaling`"));
        }
    }
}

fn api_server_problems(lab: &Lab, problems: &mut Vec<Problem>) {
    let is_api = |api: &str| {
        let letters =
            |part: &str| !part.is_empty() && part.chars().all(|it| it.is_ascii_alphanumeric() || "-.".contains(it));
        api == "v1" || (api.contains('/') && api.split('/').all(letters))
    };
    for api in lab.kind.runtime_config.keys().filter(|api| !is_api(api)) {
        let message = format!("`{api}` names no API");
        problems.push(Problem::new(message, "write `api/all`, `api/beta`, or group and version, such as `apps/v1`"));
    }
}

/// The kinds of configuration that kubeadm has, and kind patches.
const KUBEADM_KINDS: [&str; 5] = [
    "ClusterConfiguration",
    "InitConfiguration",
    "JoinConfiguration",
    "KubeletConfiguration",
    "KubeProxyConfiguration",
];

fn patch_problems(lab: &Lab, problems: &mut Vec<Problem>) {
    for (number, patch) in (1..).zip(&lab.kind.kubeadm_patches) {
        let wrong = match serde_saphyr::from_str::<Value>(patch) {
            Err(error) => format!("patch {number} of kubeadm is not YAML: {}", error.without_snippet()),
            Ok(read) if KUBEADM_KINDS.contains(&read["kind"].as_str().unwrap_or_default()) => continue,
            Ok(_) => format!("patch {number} of kubeadm has no `kind` that kubeadm knows"),
        };
        problems.push(Problem::new(wrong, format!("its kind is one of {}", KUBEADM_KINDS.join(", "))));
    }
}

/// Ports of this machine that the cluster will listen on: address and protocol.
pub fn listening_ports(lab: &Lab) -> Vec<(SocketAddr, String)> {
    let any = IpAddr::from([0, 0, 0, 0]);
    let mut ports: Vec<_> = lab
        .kind
        .ports
        .iter()
        .filter(|port| port.host != 0)
        .map(|port| {
            let address = port.address.as_deref().and_then(|text| text.parse().ok()).unwrap_or(any);
            (SocketAddr::new(address, port.host), port.protocol.to_uppercase())
        })
        .collect();
    if let Some(port) = lab.kind.api_server_port.filter(|port| *port != 0) {
        let address = lab.kind.api_server_address.as_deref().unwrap_or("127.0.0.1");
        let address = address.parse().unwrap_or(IpAddr::from([127, 0, 0, 1]));
        ports.push((SocketAddr::new(address, port), "TCP".to_owned()));
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_overlap_when_one_is_within_the_other() {
        for (one, other, expected) in [
            ("10.244.0.0/16", "10.96.0.0/16", false),
            ("10.0.0.0/8", "10.96.0.0/16", true),
            ("10.96.5.0/24", "10.96.0.0/16", true),
            ("0.0.0.0/0", "10.96.0.0/16", true),
            ("fd00::/64", "10.96.0.0/16", false),
            ("fd00::/64", "fd00:0:0:0:1::/80", true),
        ] {
            let [one, other] = [one, other].map(|text| Network::parse(text).unwrap());
            assert_eq!(one.overlaps(other), expected);
            assert_eq!(other.overlaps(one), expected);
        }
        for text in ["10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
