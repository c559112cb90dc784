//! Defaults of Services, and the addresses and ports the cluster gives them.

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_Service (v1.36)

use std::collections::HashSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::field::{each, set};
use crate::ip_range::IpRange;
use crate::validation::Errors;
use crate::validation::service::is_asked_for_health;

/// What allocators say that have nothing left.
const FULL: &str = "range is full";
const NODE_PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;

pub fn service(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None"
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("sessionAffinityConfig");
    }
    if spec["sessionAffinity"] == "ClientIP" {
        set(spec, "sessionAffinityConfig", json!({ "clientIP": { "timeoutSeconds": 10_800 } }));
    }
    set(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
        set(port, "protocol", "TCP");
        let number = port["port"].clone();
        if port["targetPort"].is_null() || port["targetPort"] == 0 || port["targetPort"] == "" {
            port["targetPort"] = number;
        }
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let addressed = kind == "ClusterIP" && each(spec, "externalIPs").next().is_some();
    if addressed || matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind != "ExternalName" {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// The addresses and ports Services of a cluster hold.
#[derive(Debug, Default)]
pub struct Addresses {
    used: HashSet<Ipv4Addr>,
    ports: HashSet<u64>,
}

impl Addresses {
    /// Notes what a Service holds.
    pub fn note(&mut self, service: &Value) {
        if let Some(address) = service["spec"]["clusterIP"].as_str().and_then(|text| text.parse().ok()) {
            self.used.insert(address);
        }
        for port in service["spec"]["ports"].as_array().into_iter().flatten() {
            self.ports.extend(port["nodePort"].as_u64());
        }
        self.ports.extend(service["spec"]["healthCheckNodePort"].as_u64());
    }

    /// Gives a Service the cluster IP and node ports its type asks for, and takes away what a changed type no longer
    /// has. `random` chooses among free ones.
    /// `ranges` is where addresses may be from.
    pub fn allocate(
        &mut self,
        service: &mut Value,
        ranges: &Ranges,
        errors: &mut Errors,
        mut random: impl FnMut() -> u64,
    ) {
        let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let spec = &mut service["spec"];
        if !spec.is_object() {
            return;
        }
        let kind = spec["type"].as_str().unwrap_or_default().to_owned();
        if kind == "ExternalName" {
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
                spec.as_object_mut().map(|spec| spec.remove(field));
            }
        } else {
            self.cluster_address((&name, spec), ranges, errors, &mut random);
        }
        let has_ports = match kind.as_str() {
            "NodePort" => true,
            "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
            _ => false,
        };
        for (at, port) in each(spec, "ports").enumerate() {
            if !has_ports {
                if kind == "ClusterIP" && port["nodePort"].as_u64().is_some_and(|wanted| wanted != 0) {
                    let place = format!("spec.ports[{at}].nodePort");
                    errors.forbidden(place, "may not be used when `type` is 'ClusterIP'");
                }
                port.as_object_mut().map(|port| port.remove("nodePort"));
                continue;
            }
            if let Some(wanted) = port["nodePort"].as_u64().filter(|wanted| *wanted != 0) {
                if !NODE_PORTS.contains(&wanted) {
                    errors.invalid(
                        format!("spec.ports[{at}].nodePort"),
                        &json!(wanted),
                        format!(
                            "provided port is not in the valid range. The range of valid ports is {}-{}",
                            NODE_PORTS.start(),
                            NODE_PORTS.end()
                        ),
                    );
                } else if !self.ports.insert(wanted) {
                    errors.invalid(
                        format!("spec.ports[{at}].nodePort"),
                        &json!(wanted),
                        "provided port is already allocated",
                    );
                }
                continue;
            }
            match self.free_port(&mut random) {
                Some(free) => port["nodePort"] = json!(free),
                None => errors.internal(format!("failed to allocate a nodePort: {FULL}")),
            }
        }
        if is_asked_for_health(spec) && spec["healthCheckNodePort"].as_u64().unwrap_or_default() == 0 {
            spec["healthCheckNodePort"] = json!(self.free_port(&mut random));
        }
    }

    /// A port of nodes that no Service has, which is taken now.
    fn free_port(&mut self, random: &mut impl FnMut() -> u64) -> Option<u64> {
        let count = NODE_PORTS.end() - NODE_PORTS.start() + 1;
        let start = random() % count;
        let mut all = (0..count).map(|step| NODE_PORTS.start() + (start + step) % count);
        let free = all.find(|one| !self.ports.contains(one))?;
        self.ports.insert(free);
        Some(free)
    }

    fn cluster_address(
        &mut self,
        (name, spec): (&str, &mut Value),
        ranges: &Ranges,
        errors: &mut Errors,
        random: &mut impl FnMut() -> u64,
    ) {
        let wanted = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
        let address = if wanted == "None" {
            wanted
        } else if wanted.is_empty() {
            let Some(free) = self.free_address(ranges, random) else {
                errors.internal(format!("failed to allocate a serviceIP for Service {name:?}: {FULL}"));
                return;
            };
            self.used.insert(free);
            free.to_string()
        } else {
            match wanted.parse::<Ipv4Addr>() {
                Ok(address) if ranges.fault(address).is_some() => {
                    let because = ranges.fault(address).unwrap_or_default();
                    let message = format!("failed to allocate IP {wanted}: {because}");
                    errors.invalid("spec.clusterIPs", &json!([wanted]), message);
                    return;
                }
                Ok(address) if !self.used.insert(address) => {
                    errors.invalid(
                        "spec.clusterIPs",
                        &json!([wanted]),
                        format!("failed to allocate IP {wanted}: provided IP is already allocated"),
                    );
                    return;
                }
                Ok(_) => wanted,
                Err(_) => {
                    errors.invalid(
                        "spec.clusterIPs[0]",
                        &json!(wanted),
                        "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    );
                    return;
                }
            }
        };
        spec["clusterIP"] = json!(address);
        spec["clusterIPs"] = json!([address]);
        set(spec, "ipFamilies", json!(["IPv4"]));
        set(spec, "ipFamilyPolicy", "SingleStack");
    }

    /// An address that no Service has, of any of the ranges.
    // upstream: pkg/registry/core/service/ipallocator/cidrallocator.go AllocateNextService (v1.36)
    fn free_address(&self, ranges: &Ranges, random: &mut impl FnMut() -> u64) -> Option<Ipv4Addr> {
        let count = ranges.ready.len();
        let first = if count > 1 { random() as usize % count } else { 0 };
        (first..first + count).find_map(|at| self.free_in(ranges.ready.get(at % count)?, random))
    }

    /// One of a range; first those that are not left for Services that ask for one.
    // upstream: pkg/registry/core/service/ipallocator/ipallocator.go calculateRangeOffset (v1.36)
    fn free_in(&self, range: &IpRange, random: &mut impl FnMut() -> u64) -> Option<Ipv4Addr> {
        let hosts = range.hosts().filter(|hosts| !hosts.is_empty())?;
        let size = hosts.end() - hosts.start() + 1;
        let left = if size <= 14 { 0 } else { (size.saturating_add(2) / 16).clamp(16, 256).min(size) };
        let upper = self.free_from(hosts.start() + left, size - left, random);
        upper.or_else(|| self.free_from(*hosts.start(), left, random))
    }

    /// A free one of `count` addresses.
    fn free_from(&self, first: u32, count: u32, random: &mut impl FnMut() -> u64) -> Option<Ipv4Addr> {
        let start = if count == 0 { return None } else { random() % u64::from(count) };
        let at = |step: u32| Ipv4Addr::from(first + ((start + u64::from(step)) % u64::from(count)) as u32);
        (0..count).map(at).find(|one| !self.used.contains(one))
    }
}

/// Where the addresses of Services may be from.
#[derive(Debug, Default)]
pub struct Ranges {
    /// Those that give out addresses.
    pub ready: Vec<IpRange>,
    /// Whether an address that is asked for must be in one of them.
    pub is_asked: bool,
}

impl Ranges {
    /// Why a Service cannot have an address.
    // upstream: pkg/registry/core/service/ipallocator/interfaces.go ErrNotInRange, ErrMismatchedNetwork (v1.36)
    fn fault(&self, address: Ipv4Addr) -> Option<String> {
        if !self.is_asked {
            return None;
        }
        let Some(range) = self.ready.iter().find(|range| range.has(address.into())) else {
            return Some("the provided network does not match the current range".to_owned());
        };
        range.hosts().filter(|hosts| !hosts.contains(&address.into())).map(|_| {
            format!("the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::SERVICES;

    fn allocate(addresses: &mut Addresses, spec: Value) -> (Value, Errors) {
        let mut value = json!({ "spec": spec });
        service(&mut value);
        let mut errors = Errors::default();
        let ranges = Ranges { ready: "10.0.0.0/16".parse().into_iter().collect(), is_asked: false };
        addresses.allocate(&mut value, &ranges, &mut errors, || 0);
        (value["spec"].take(), errors)
    }

    #[test]
    fn addresses_and_node_ports_are_given_once() {
        let mut addresses = Addresses::default();
        let (first, _) = allocate(&mut addresses, json!({ "type": "NodePort", "ports": [{ "port": 80 }] }));
        let (second, _) = allocate(&mut addresses, json!({ "type": "NodePort", "ports": [{ "port": 80 }] }));
        assert_eq!((&first["clusterIP"], &second["clusterIP"]), (&json!("10.0.1.1"), &json!("10.0.1.2")));
        assert_eq!((&first["ports"][0]["nodePort"], &second["ports"][0]["nodePort"]), (&json!(30_000), &json!(30_001)));
        let (_, errors) = allocate(&mut addresses, json!({ "clusterIP": "10.0.1.1" }));
        let refused = errors.into_result(SERVICES.row(), "web").unwrap_err();
        assert_eq!(refused.details["causes"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn a_range_is_given_out_to_its_last_address() {
        let ranges = Ranges { ready: "10.9.0.0/29".parse().into_iter().collect(), is_asked: true };
        let (mut addresses, mut given) = (Addresses::default(), Vec::new());
        let message = loop {
            let mut value = json!({ "metadata": { "name": "web" }, "spec": { "ports": [{ "port": 80 }] } });
            service(&mut value);
            let mut errors = Errors::default();
            addresses.allocate(&mut value, &ranges, &mut errors, || 0);
            match errors.into_result(SERVICES.row(), "web") {
                Ok(()) => given.push(value["spec"]["clusterIP"].clone()),
                Err(status) => break (status.code, status.message),
            }
        };
        assert_eq!(given, (1..7).map(|last| json!(format!("10.9.0.{last}"))).collect::<Vec<_>>());
        let full = "Internal error occurred: failed to allocate a serviceIP for Service \"web\": range is full";
        assert_eq!(message, (500, full.to_owned()));
    }

    #[test]
    fn without_affinity_its_settings_go() {
        let of = |affinity: &str| {
            let mut value = json!({ "spec": { "sessionAffinity": affinity,
                "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 60 } } } });
            service(&mut value);
            value["spec"]["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].clone()
        };
        assert_eq!((of("None"), of("ClientIP")), (Value::Null, json!(60)));
    }

    #[test]
    fn headless_and_external_services_get_none() {
        let (headless, _) = allocate(&mut Addresses::default(), json!({ "clusterIP": "None" }));
        assert_eq!(headless["clusterIPs"], json!(["None"]));
        let (external, _) =
            allocate(&mut Addresses::default(), json!({ "type": "ExternalName", "externalName": "a.b" }));
        assert!(external.get("clusterIP").is_none());
    }
}
