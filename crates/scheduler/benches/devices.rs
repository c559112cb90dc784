//! How fast pods with resource claims are placed: `cargo bench -p klab-scheduler --bench devices`.
//!
//! Every pod brings a claim of its own, as those made from templates are; its claim is given a device, written down, and
//! the pod bound. Expressions are compared with one attribute here; what they cost is paid once per device.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and has nobody to report errors to")]

#[path = "../../../benches/machine/mod.rs"]
mod machine;

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::ResourceClaim;
use klab_scheduler::{Cluster, DeviceFacts, DeviceSelector, SelectorLanguage, TieBreak, admission};
use serde_json::json;

use machine::machine;

const DEVICES: usize = 8;
const GOAL: f64 = 5_000.0;

fn main() {
    println!("machine: {}, klab {}", machine(), env!("CARGO_PKG_VERSION"));
    run("a device each", 1_000, 8_000, &|_| json!({"deviceClassName": "gpu"}));
    run(
        "a device with an attribute each",
        1_000,
        4_000,
        &|_| json!({"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "model=a100"}}]}),
    );
    run("two devices each", 1_000, 4_000, &|_| json!({"deviceClassName": "gpu", "count": 2}));
    run("no claim", 1_000, 8_000, &|_| serde_json::Value::Null);
}

#[derive(Debug)]
struct Language;

#[derive(Debug)]
struct Equals(String, String);

impl SelectorLanguage for Language {
    fn compile(&self, expression: &str) -> Result<Arc<dyn DeviceSelector>, String> {
        let (name, value) = expression.split_once('=').ok_or("no comparison")?;
        Ok(Arc::new(Equals(name.to_owned(), value.to_owned())))
    }
}

impl DeviceSelector for Equals {
    fn selects(&self, device: &DeviceFacts<'_>) -> Result<bool, String> {
        let attribute = device.attributes.get(&self.0).ok_or("no such key")?;
        Ok(attribute.string.as_deref() == Some(&self.1))
    }
}

fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new(TieBreak::Seeded(1));
    cluster.set_selector_language(Arc::new(Language));
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "vendor=acme"}}]}});
    cluster.set_device_class(&serde_json::from_value(class).unwrap());
    for number in 0..nodes {
        let name = format!("node-{number:05}");
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        }))
        .unwrap();
        cluster.set_node(&node).unwrap();
        let devices: Vec<_> = (0..DEVICES)
            .map(|device| {
                let model = if device % 2 == 0 { "a100" } else { "h100" };
                let attributes = json!({"vendor": {"string": "acme"}, "model": {"string": model}});
                json!({"name": format!("gpu-{device}"), "attributes": attributes})
            })
            .collect();
        let slice = json!({"metadata": {"name": name}, "spec": {"driver": "gpu.example.com", "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}, "devices": devices}});
        cluster.set_resource_slice(&serde_json::from_value(slice).unwrap());
    }
    cluster
}

fn run(what: &str, nodes: usize, pods: usize, request: &dyn Fn(usize) -> serde_json::Value) {
    let mut cluster = cluster(nodes);
    let all: Vec<(Pod, Option<ResourceClaim>)> = (0..pods)
        .map(|number| {
            let exactly = request(number);
            let name = format!("pod-{number}");
            let claims = if exactly.is_null() { json!([]) } else { json!([{"name": "c", "resourceClaimName": name}]) };
            let mut pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "default", "uid": name},
                "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}],
                    "resourceClaims": claims},
            }))
            .unwrap();
            admission::admit(&mut pod).unwrap();
            let claim = json!({"metadata": {"name": name, "namespace": "default", "uid": format!("claim-{number}")},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
            (pod, (!exactly.is_null()).then(|| serde_json::from_value(claim).unwrap()))
        })
        .collect();
    let start = Instant::now();
    let mut placed = 0_usize;
    for (pod, claim) in &all {
        if let Some(claim) = claim {
            cluster.set_resource_claim(claim);
        }
        let decision = cluster.schedule(pod).unwrap();
        let Some(node) = decision.outcome.node() else { continue };
        if let (Some(claim), Some(given)) = (claim, decision.allocations.first()) {
            let mut claim = claim.clone();
            claim.status.get_or_insert_default().allocation.clone_from(&given.allocation);
            cluster.set_resource_claim(&claim);
        }
        cluster.bind(pod, node).unwrap();
        placed += 1;
    }
    let rate = pods as f64 / start.elapsed().as_secs_f64();
    let verdict = if rate >= GOAL { "met" } else { "MISSED" };
    println!(
        "{what}: {nodes} nodes with {DEVICES} devices, {pods} pods ({placed} placed): {rate:.0} pods/s (goal {GOAL}: {verdict})"
    );
}
