//! Synthetic figures of use: what the metrics API says that containers and nodes use.

use std::collections::HashMap;
use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::views::{Container, Node, Pod};
use serde_json::{Value, json};

use crate::load;

/// What the metrics API shows; there are no containers whose use could be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metrics {
    /// There is no metrics API.
    Absent,
    /// Every running container uses this share (0 to 1) of what it requests, or a little where it requests nothing;
    /// a node uses what its pods use, and 2 % of its capacity for itself.
    Share(f64),
    /// The figures of the recorded flows: the i-th node by name uses 150m + 10m × i and 1 GiB + i MiB, each container
    /// 5m and 20Mi.
    Fixed,
}

/// Millionths of a core and bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Use {
    pub(super) nanocores: i64,
    pub(super) bytes: i64,
}

impl Use {
    pub(super) fn to_value(self) -> Value {
        json!({"cpu": format!("{}n", self.nanocores), "memory": format!("{}Ki", self.bytes / 1024)})
    }
}

/// What containers use that request nothing.
const IDLE: Use = Use { nanocores: 1_000_000, bytes: 8 << 20 };

/// CPU in nanocores.
fn nanocores(cores: f64) -> i64 {
    (cores * 1e9).round() as i64
}

/// What a container uses, of a pod whose workload has this share of its CPU request to do.
pub(super) fn container_use(container: Container<'_>, metrics: Metrics, load: Option<f64>) -> Use {
    let Metrics::Share(share) = metrics else { return Use { nanocores: 5_000_000, bytes: 20 << 20 } };
    let requested = |resource: &str| load::amount(container.resources().requests(), resource).unwrap_or_default();
    let (cores, bytes) = (requested("cpu"), requested("memory"));
    let cpu = if cores == 0.0 && load.is_none() {
        IDLE.nanocores
    } else {
        nanocores(load::within_limit(container, "cpu", cores * load.unwrap_or(share)))
    };
    Use { nanocores: cpu, bytes: if bytes == 0.0 { IDLE.bytes } else { (bytes * share) as i64 } }
}

pub(super) fn node_use(node: &Value, pods: &[Arc<Object>], share: f64, loads: &HashMap<Box<str>, f64>) -> Use {
    let capacity = Node(node).status().capacity();
    let of_node = |resource: &str| load::amount(capacity, resource).unwrap_or_default() / 50.0;
    let mut used = Use { nanocores: nanocores(of_node("cpu")), bytes: of_node("memory") as i64 };
    for pod in pods {
        let load = loads.get(&pod.uid).copied();
        let value = pod.value();
        if Pod(&value).status().phase() != "Running" {
            continue;
        }
        for container in Pod(&value).spec().containers() {
            let one = container_use(container, Metrics::Share(share), load);
            used.nanocores = used.nanocores.saturating_add(one.nanocores);
            used.bytes = used.bytes.saturating_add(one.bytes);
        }
    }
    used
}
