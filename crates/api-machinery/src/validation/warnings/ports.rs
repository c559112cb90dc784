//! Ports that the containers of a pod share, or may share.

// upstream: pkg/api/pod/warnings.go warningsForPodSpecAndMeta (v1.36)

use std::collections::HashMap;

use super::super::Place;
use super::collected::Warnings;
use crate::views::{ContainerPort, PodSpec};

/// The ports of one number and protocol that were looked at, and those among them that clash with a further one.
#[derive(Default)]
struct Ports<'a> {
    seen: Vec<Port<'a>>,
    /// Those without a host port, by their places in `seen`.
    unbound: Vec<usize>,
    /// Those with one, by this and their address.
    bound: HashMap<(i64, &'a str), Vec<usize>>,
    /// Those with one and any address, by this.
    addressed: HashMap<i64, Vec<usize>>,
}

struct Port<'a> {
    place: String,
    host_ip: &'a str,
    host_port: i64,
}

impl<'a> Ports<'a> {
    /// The ports that clash with this one, in their order: no more than there can be warnings of.
    fn clashes(&self, port: &Port<'_>) -> Vec<&Port<'a>> {
        if port.host_port == 0 {
            return self.seen.iter().take(Warnings::MAX).collect();
        }
        let alike = self.bound.get(&(port.host_port, port.host_ip));
        let ambiguous = if port.host_ip.is_empty() {
            self.addressed.get(&port.host_port)
        } else {
            self.bound.get(&(port.host_port, ""))
        };
        let lists = [Some(&self.unbound), alike, ambiguous].into_iter().flatten();
        let mut found: Vec<usize> = lists.flat_map(|list| list.iter().copied().take(Warnings::MAX)).collect();
        found.sort_unstable();
        found.into_iter().map(|at| &self.seen[at]).collect()
    }

    fn add(&mut self, port: Port<'a>) {
        let at = self.seen.len();
        if port.host_port == 0 {
            self.unbound.push(at);
        } else {
            self.bound.entry((port.host_port, port.host_ip)).or_default().push(at);
            if !port.host_ip.is_empty() {
                self.addressed.entry(port.host_port).or_default().push(at);
            }
        }
        self.seen.push(port);
    }
}

/// The ports of all containers.
pub(super) fn check(spec: &Place<'_, PodSpec<'_>>, warnings: &mut Warnings) {
    let mut seen: HashMap<(i64, &str), Ports<'_>> = HashMap::new();
    spec.each_container(|container| {
        for port in container.ports().each() {
            if !warnings.is_full() {
                one(&port, &mut seen, warnings);
            }
        }
    });
    let mut first: HashMap<&str, String> = HashMap::new();
    spec.each_container(|container| {
        for port in container.ports().each().filter(|port| !port.name().is_empty()) {
            let name = *port.name();
            match first.get(name) {
                Some(first) => warnings.at(
                    port,
                    format_args!("duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}"),
                ),
                None => drop(first.insert(name, port.to_string())),
            }
        }
    });
}

fn one<'a>(
    place: &Place<'_, ContainerPort<'a>>,
    seen: &mut HashMap<(i64, &'a str), Ports<'a>>,
    warnings: &mut Warnings,
) {
    let (host_ip, host_port) = (*place.host_ip(), *place.host_port());
    let (number, protocol) = (*place.container_port(), *place.protocol());
    if !host_ip.is_empty() && host_port == 0 {
        let name = *place.name();
        let shown =
            format_args!("{{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{host_ip}}}");
        warnings.at(place, format_args!("hostIP set without hostPort: {shown}"));
    }
    let others = seen.entry((number, protocol)).or_default();
    let port = Port { place: place.to_string(), host_ip, host_port };
    for other in others.clashes(&port) {
        let kind = if host_ip == other.host_ip && host_port == other.host_port {
            "duplicate"
        } else if host_port == 0 || other.host_port == 0 {
            "overlapping"
        } else {
            "dangerously ambiguous"
        };
        warnings.at(place, format_args!("{kind} port definition with {}", other.place));
    }
    others.add(port);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::views::Pod;

    /// What upstream says, which compares each port with all before it.
    fn pair_by_pair(ports: &[Value]) -> Vec<String> {
        let mut said = Vec::new();
        for (at, port) in ports.iter().enumerate() {
            for (before, other) in ports[..at].iter().enumerate() {
                let number = |port: &Value| port["hostPort"].as_i64().unwrap_or_default();
                let (own, its) = (number(port), number(other));
                let ip = |port: &Value| port["hostIP"].as_str().unwrap_or_default().to_owned();
                let kind = if ip(port) == ip(other) && own == its {
                    "duplicate"
                } else if own == 0 || its == 0 {
                    "overlapping"
                } else if own == its && ip(port).is_empty() != ip(other).is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                let list = "spec.containers[0].ports";
                said.push(format!("{list}[{at}]: {kind} port definition with {list}[{before}]"));
            }
        }
        said
    }

    #[test]
    fn every_pair_of_ports_is_compared() {
        let kinds = [("", 0), ("", 81), ("1.1.1.1", 81), ("2.2.2.2", 81), ("1.1.1.1", 82)];
        for number in 0..kinds.len().pow(4) {
            let digits = (0..4_u32).map(|digit| kinds[number / kinds.len().pow(digit) % kinds.len()]);
            let port = |(ip, port): (&str, i64)| json!({ "containerPort": 80, "hostIP": ip, "hostPort": port });
            let ports: Vec<Value> = digits.map(port).collect();
            let mut warnings = Warnings::default();
            let pod = json!({ "spec": { "containers": [{ "ports": ports }] } });
            check(&Place::<Pod<'_>>::root(&pod).spec(), &mut warnings);
            assert_eq!(warnings.texts(), pair_by_pair(&ports), "{ports:?}");
        }
    }
}
