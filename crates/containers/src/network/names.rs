//! What a name means to a pod: the cluster's DNS, as CoreDNS serves it, and the pod's own `/etc/hosts`.

// upstream: https://github.com/kubernetes/dns/blob/master/docs/specification.md (schema version 1.1.0)

use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use super::routes::{endpoints, slices};
use crate::objects::{Kind, Objects};
use klab_api_machinery::value::{items, text};

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lookup {
    /// Its addresses, of which there is one at least.
    Found(Vec<IpAddr>),
    Missing,
    Unknown,
}

/// The domain of clusters.
const DOMAIN: &str = "cluster.local";
/// Most aliases that are followed.
const MAX_ALIASES: usize = 8;
/// Names with fewer dots are looked for in the search domains first.
const DOTS: usize = 5;

/// Whether a pod asks the cluster for names.
fn asks_cluster(pod: &Value) -> bool {
    match text(pod, &["spec", "dnsPolicy"]) {
        "" | "ClusterFirst" => pod["spec"]["hostNetwork"] != true,
        policy => policy == "ClusterFirstWithHostNet",
    }
}

/// What a name means to this pod.
pub(super) fn look_up(objects: &dyn Objects, pod: &Value, host: &str) -> Lookup {
    if let Ok(address) = host.parse() {
        return Lookup::Found(vec![address]);
    }
    if host == "localhost" {
        return Lookup::Found(vec![Ipv4Addr::LOCALHOST.into()]);
    }
    if let Some(address) = own(pod, host) {
        return Lookup::Found(vec![address]);
    }
    if !asks_cluster(pod) {
        return Lookup::Unknown;
    }
    let is_whole = host.ends_with('.');
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let namespace = text(pod, &["metadata", "namespace"]);
    if !is_whole && host.matches('.').count() < DOTS {
        let searched = [format!("{namespace}.svc.{DOMAIN}"), format!("svc.{DOMAIN}"), DOMAIN.to_owned()];
        for domain in searched {
            match of_cluster(objects, &format!("{host}.{domain}"), 0) {
                Lookup::Missing => {}
                found => return found,
            }
        }
    }
    // Someone who writes `store.shop` means the namespace that there is, and not a domain of the world.
    let is_named = |name: &str| objects.get(Kind::Namespace, "", name).is_some();
    match host.split_once('.') {
        Some((_, namespace)) if !is_whole && is_named(namespace) => Lookup::Missing,
        _ => of_cluster(objects, &host, 0),
    }
}

/// What the pod's own file of hosts says.
fn own(pod: &Value, host: &str) -> Option<IpAddr> {
    let aliases = items(&pod["spec"]["hostAliases"]);
    let alias = aliases.iter().find(|alias| items(&alias["hostnames"]).iter().any(|name| name == host));
    if let Some(alias) = alias {
        return text(alias, &["ip"]).parse().ok();
    }
    let name = pod["spec"]["hostname"].as_str().unwrap_or_else(|| text(pod, &["metadata", "name"]));
    (name == host).then(|| text(pod, &["status", "podIP"]).parse().ok()).flatten()
}

/// What a whole name means.
fn of_cluster(objects: &dyn Objects, name: &str, aliases: usize) -> Lookup {
    let Some(own) = name.strip_suffix(&format!(".{DOMAIN}")) else {
        return if is_of_the_world(name) { Lookup::Unknown } else { Lookup::Missing };
    };
    let labels: Vec<&str> = own.split('.').collect();
    match labels[..] {
        [service, namespace, "svc"] => of_service(objects, namespace, service, aliases),
        [host, service, namespace, "svc"] => {
            let found = endpoints(&slices(objects, namespace, service), None);
            let named = found.into_iter().filter(|one| one.ready && (one.host == host || dashed(one.address) == host));
            known(named.map(|one| one.address).collect())
        }
        [address, _, "pod"] => match address.replace('-', ".").parse() {
            Ok(address) => known(vec![address]),
            Err(_) => Lookup::Missing,
        },
        _ => Lookup::Missing,
    }
}

/// Whether a name may mean something outside of the cluster: whether its last part is known to belong to no one.
fn is_of_the_world(name: &str) -> bool {
    let Some((_, last)) = name.rsplit_once('.') else { return false };
    let is_nobodys = ["svc", "default", "local", "localhost", "invalid", "test", "example", "internal"].contains(&last);
    !is_nobodys && (!last.contains('-') || last.starts_with("xn--"))
}

fn of_service(objects: &dyn Objects, namespace: &str, name: &str, aliases: usize) -> Lookup {
    let Some(service) = objects.get(Kind::Service, namespace, name) else { return Lookup::Missing };
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        return match text(spec, &["externalName"]).trim_end_matches('.') {
            address if address.parse::<IpAddr>().is_ok() => Lookup::Missing,
            other if aliases < MAX_ALIASES => of_cluster(objects, other, aliases + 1),
            _ => Lookup::Missing,
        };
    }
    if spec["clusterIP"] == "None" {
        let found = endpoints(&slices(objects, namespace, name), None);
        let ready = found.into_iter().filter(|one| one.ready).map(|one| one.address);
        let mut addresses: Vec<IpAddr> = ready.collect();
        addresses.dedup();
        return known(addresses);
    }
    let addresses = items(&spec["clusterIPs"]).iter().filter_map(Value::as_str);
    known(addresses.filter_map(|address| address.parse().ok()).collect())
}

fn known(addresses: Vec<IpAddr>) -> Lookup {
    if addresses.is_empty() { Lookup::Missing } else { Lookup::Found(addresses) }
}

/// The name of an endpoint that has none.
fn dashed(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}
