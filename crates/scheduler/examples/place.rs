//! Places the pods of a JSON list (`kubectl get nodes,pods -A -o json`) and says, node by node, why the others wait.
//!
//! `kubectl get nodes,pods -A -o json | cargo run -p klab-scheduler --example place`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use k8s_openapi::api::core::v1::{Node, Pod};
use klab_scheduler::{Cluster, TieBreak, admission};
use serde_json::{Value, from_reader, from_value};

fn main() -> Result<(), Box<dyn Error>> {
    let list: Value = from_reader(std::io::stdin())?;
    let items = || list["items"].as_array().into_iter().flatten();
    let mut cluster = Cluster::new(TieBreak::FirstName);
    for node in items().filter(|item| item["kind"] == "Node") {
        cluster.set_node(&from_value::<Node>(node.clone())?)?;
    }
    for pod in items().filter(|item| item["kind"] == "Pod") {
        let mut pod: Pod = from_value(pod.clone())?;
        let name = pod.metadata.name.clone().unwrap_or_default();
        admission::admit(&mut pod)?;
        let decision = cluster.schedule(&pod)?;
        if let Some(node) = decision.outcome.node() {
            println!("{name} → {node}");
            cluster.bind(&pod, node)?;
        } else {
            println!("{name} waits: {}", decision.message);
            for (node, reasons) in cluster.evaluate_all(&pod)? {
                println!("    {node}: {}", reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
            }
        }
    }
    Ok(())
}
