//! How many more pods of a kind fit into a cluster, and what there is too little of then.

use std::collections::BTreeMap;

use klab_lab::board::in_plain_words;
use klab_lab::verify::{Context, predict};
use klab_lab::words::plural;
use klab_scheduler::TieBreak;
use klab_scheduler::message::without_preemption;
use serde_json::{Value, json};

use crate::capture::Capture;
use crate::model::snapshot;
use crate::pool::pool_of;
use crate::twin::TwinError;

/// Most pods that are tried.
const MAX_TRIED: u32 = 10_000;

/// How many more pods fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fit {
    /// What is placed: `deployment web`.
    pub what: String,
    /// How many fit, by pool.
    pub pools: BTreeMap<String, u32>,
    /// What the scheduler says of the first that does not; none where as many as are tried fit.
    pub message: Option<String>,
}

/// Places pods like those of an object until none fits. Those that the object has in the cluster stay.
///
/// # Errors
/// [`TwinError`] where there are no nodes, or the object has no pods.
pub fn fit(capture: &Capture, object: &Value) -> Result<Fit, TwinError> {
    if capture.of("Node").next().is_none() {
        return Err(TwinError::NoNodes);
    }
    let (kind, name) =
        (object["kind"].as_str().unwrap_or_default(), object["metadata"]["name"].as_str().unwrap_or_default());
    let template = match kind {
        "Pod" => json!({ "metadata": { "labels": object["metadata"]["labels"] }, "spec": object["spec"] }),
        _ => object["spec"]["template"].clone(),
    };
    if !template["spec"]["containers"].is_array() || kind == "DaemonSet" {
        return Err(TwinError::NoPods(format!("{kind} {name}")));
    }
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": { "name": "klab-fit", "namespace": object["metadata"]["namespace"].as_str().unwrap_or("default") },
        "spec": {
            "replicas": MAX_TRIED,
            // Spread and affinity of the pods look at their labels, the owner's selector at the same.
            "selector": { "matchLabels": template["metadata"]["labels"] }, "template": template,
        },
    });
    let prediction = predict(&snapshot(capture)?, &Context::default(), &[set], TieBreak::Seeded(0));
    let Some(workload) = prediction.workloads.into_iter().next() else {
        return Err(TwinError::NoPods(format!("{kind} {name}")));
    };
    let pool = |name: &str| {
        let mut nodes = capture.of("Node").filter(|node| &*node.name == name);
        nodes.next().map_or_else(|| name.to_owned(), |node| pool_of(&node.value()))
    };
    let mut pools: BTreeMap<String, u32> = BTreeMap::new();
    for (node, pods) in &workload.nodes {
        *pools.entry(pool(node)).or_default() += pods;
    }
    let message = workload.message.filter(|_| workload.pending > 0);
    Ok(Fit { what: format!("{} {name}", kind.to_lowercase()), pools, message })
}

impl Fit {
    /// How many fit.
    pub fn count(&self) -> u32 {
        self.pools.values().sum()
    }

    /// For people.
    pub fn human(&self) -> String {
        let (least, fit) = match (&self.message, self.count()) {
            (None, _) => ("At least ", "fit"),
            (_, 1) => ("", "fits"),
            _ => ("", "fit"),
        };
        let pools: Vec<String> = self.pools.iter().map(|(pool, pods)| format!("{pods} on {pool}")).collect();
        let places = if pools.is_empty() { String::new() } else { format!(": {}", pools.join(", ")) };
        let mut text =
            format!("{least}{} of {} {fit}{places}.\n", plural(self.count() as usize, "more pod"), self.what);
        if let Some(message) = &self.message {
            let message = without_preemption(message);
            let words = in_plain_words(message).unwrap_or_else(|| message.to_owned());
            text.push_str(&format!("Then there is no room: {words}\n"));
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "schema": "klab.fit/1", "what": self.what, "fits": self.count(), "pools": self.pools, "message": self.message,
            "isAll": self.message.is_some(),
        })
    }
}
