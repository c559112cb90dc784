//! Ports that the containers of a pod share, or may share.

// upstream: pkg/api/pod/warnings.go warningsForPodSpecAndMeta (v1.36)

use std::collections::HashMap;

use serde_json::Value;

use super::super::field::{containers, entries, text};
use super::told::Warnings;
use crate::schema::Path;

struct Seen<'a> {
    place: String,
    host_ip: &'a str,
    host_port: i64,
}

/// The ports of all containers.
pub(super) fn check(spec: &Value, place: &Path<'_>, warnings: &mut Warnings) {
    let mut seen: HashMap<String, Vec<Seen<'_>>> = HashMap::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (at, container) in entries(spec, list) {
            let path = place.field(list);
            let path = path.index(at);
            let path = path.field("ports");
            for (at, port) in entries(container, "ports") {
                one(port, &path.index(at), &mut seen, warnings);
            }
        }
    }
    names(spec, place, warnings);
}

fn one<'a>(port: &'a Value, place: &Path<'_>, seen: &mut HashMap<String, Vec<Seen<'a>>>, warnings: &mut Warnings) {
    let number = |field: &str| port[field].as_i64().unwrap_or_default();
    let (host_ip, host_port, protocol) = (text(port, "hostIP"), number("hostPort"), text(port, "protocol"));
    if !host_ip.is_empty() && host_port == 0 {
        let shown = format!(
            "{{Name:{} HostPort:0 ContainerPort:{} Protocol:{protocol} HostIP:{host_ip}}}",
            text(port, "name"),
            number("containerPort")
        );
        warnings.at(place, &format!("hostIP set without hostPort: {shown}"));
    }
    let others = seen.entry(format!("{}/{protocol}", number("containerPort"))).or_default();
    for other in others.iter() {
        let kind = if host_ip == other.host_ip && host_port == other.host_port {
            "duplicate"
        } else if host_port == 0 || other.host_port == 0 {
            "overlapping"
        } else if host_port == other.host_port && host_ip.is_empty() != other.host_ip.is_empty() {
            "dangerously ambiguous"
        } else {
            continue;
        };
        warnings.at(place, &format!("{kind} port definition with {}", other.place));
    }
    others.push(Seen { place: place.to_string(), host_ip, host_port });
}

fn names(spec: &Value, place: &Path<'_>, warnings: &mut Warnings) {
    let mut seen: HashMap<String, String> = HashMap::new();
    containers(spec, place, |container, path| {
        let path = path.field("ports");
        for (at, port) in entries(container, "ports") {
            let name = text(port, "name");
            let path = path.index(at);
            if name.is_empty() {
                continue;
            }
            match seen.get(name) {
                Some(first) => warnings.at(
                    &path,
                    &format!(
                        "duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}"
                    ),
                ),
                None => {
                    seen.insert(name.to_owned(), path.to_string());
                }
            }
        }
    });
}
