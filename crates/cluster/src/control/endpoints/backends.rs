//! What Services ask of a pod that never changes: its ports by name, its host name. Read once for each pod.

// upstream: staging/src/k8s.io/endpointslice/utils.go FindPort (v1.36)

use std::collections::HashMap;
use std::sync::Arc;

use klab_api_machinery::views::ServicePort;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::view::PodInfo;

/// A pod behind a Service.
#[derive(Debug, Default)]
pub(super) struct Backend {
    /// Name, protocol and number of the ports that have names.
    ports: Vec<(Box<str>, Box<str>, i64)>,
    host: Box<str>,
    subdomain: Box<str>,
}

impl Backend {
    /// The port a port of a Service leads to; none if it is named and the pod has none of that name.
    pub(super) fn port(&self, port: ServicePort<'_>) -> Option<Value> {
        let target = port.target_port();
        let Value::String(name) = target else {
            return Some(if target.is_null() { json!(port.port()) } else { target.clone() });
        };
        let found = self.ports.iter().find(|(have, over, _)| **have == **name && **over == *port.protocol());
        found.map(|(_, _, number)| (*number).into())
    }

    /// The host name by which a Service knows the pod, which names it as its subdomain.
    pub(super) fn host_name(&self, service: &str) -> Option<&str> {
        (*self.subdomain == *service && !self.host.is_empty()).then_some(&*self.host)
    }
}

/// The pods behind Services, by uid.
#[derive(Debug, Default)]
pub(super) struct Backends {
    known: HashMap<Box<str>, Arc<Backend>>,
}

impl Backends {
    /// What a pod says.
    pub(super) fn of(&mut self, pod: &PodInfo) -> Arc<Backend> {
        let read = || Arc::new(read(pod));
        Arc::clone(self.known.entry(pod.object.uid.clone()).or_insert_with(read))
    }

    /// The pod is gone.
    pub(super) fn forget(&mut self, uid: &str) {
        self.known.remove(uid);
    }
}

#[derive(Deserialize, Default)]
struct Pod {
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    hostname: Option<String>,
    subdomain: Option<String>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    restart_policy: Option<String>,
    ports: Option<Vec<Port>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    name: Option<String>,
    protocol: Option<String>,
    container_port: i64,
}

fn read(pod: &PodInfo) -> Backend {
    let spec = pod.object.decode::<Pod>().unwrap_or_default().spec;
    let sidecars = spec.init_containers.unwrap_or_default().into_iter();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let containers = spec.containers.unwrap_or_default().into_iter().chain(sidecars);
    let ports = containers.flat_map(|container| container.ports.unwrap_or_default()).filter_map(|port| {
        let name = port.name.filter(|name| !name.is_empty())?;
        Some((name.into(), port.protocol.as_deref().unwrap_or("TCP").into(), port.container_port))
    });
    Backend {
        ports: ports.collect(),
        host: spec.hostname.unwrap_or_default().into(),
        subdomain: spec.subdomain.unwrap_or_default().into(),
    }
}
