//! Synthetic figures of use: what the metrics API says that containers and nodes use.

use std::collections::HashMap;
use std::sync::Arc;

use klab_api_machinery::object::Object;
use serde_json::{Value, json};

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

/// A quantity in thousandths; until the scheduler's exact quantities are here.
fn milli(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or_default();
    let end = text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
    let factor = match &text[end..] {
        "m" => 1.0,
        "k" => 1e6,
        "M" => 1e9,
        "G" => 1e12,
        "Ki" => 1000.0 * 1024.0,
        "Mi" => 1000.0 * 1024.0 * 1024.0,
        "Gi" => 1000.0 * 1024.0 * 1024.0 * 1024.0,
        _ => 1000.0,
    };
    (text[..end].parse::<f64>().unwrap_or_default() * factor) as i64
}

/// What containers use that request nothing.
const IDLE: Use = Use { nanocores: 1_000_000, bytes: 8 << 20 };

/// What a container uses, of a pod whose workload has this share of its CPU request to do.
pub(super) fn container_use(container: &Value, metrics: Metrics, load: Option<f64>) -> Use {
    let Metrics::Share(share) = metrics else { return Use { nanocores: 5_000_000, bytes: 20 << 20 } };
    let requests = &container["resources"]["requests"];
    let part = |amount: i64, idle: i64| if amount == 0 { idle } else { (amount as f64 * share) as i64 };
    let nanocores = |amounts: &Value| milli(&amounts["cpu"]).saturating_mul(1_000_000);
    let wanted = match load {
        Some(load) => (nanocores(requests) as f64 * load) as i64,
        None => part(nanocores(requests), IDLE.nanocores),
    };
    let limit = Some(nanocores(&container["resources"]["limits"])).filter(|limit| *limit > 0);
    let bytes = milli(&requests["memory"]) / 1000;
    Use { nanocores: limit.map_or(wanted, |limit| wanted.min(limit)), bytes: part(bytes, IDLE.bytes) }
}

pub(super) fn node_use(node: &Value, pods: &[Arc<Object>], share: f64, loads: &HashMap<Box<str>, f64>) -> Use {
    let capacity = &node["status"]["capacity"];
    let millicores = milli(&capacity["cpu"]);
    let bytes = milli(&capacity["memory"]) / 1000;
    let mut used = Use { nanocores: millicores.saturating_mul(20_000), bytes: bytes / 50 };
    for pod in pods {
        let load = loads.get(&pod.uid).copied();
        let pod = pod.value();
        if pod["status"]["phase"] != "Running" {
            continue;
        }
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            let one = container_use(container, Metrics::Share(share), load);
            used.nanocores = used.nanocores.saturating_add(one.nanocores);
            used.bytes = used.bytes.saturating_add(one.bytes);
        }
    }
    used
}
