//! Which node, pool or zone of a cluster can fail so that every pod finds another place, and which budgets block a drain.

use std::collections::BTreeMap;

use klab_api_machinery::resource::POD_DISRUPTION_BUDGETS;
use klab_lab::words::{first_of, plural};
use serde_json::{Value, json};

use crate::capture::Capture;
use crate::model::{LostPod, Model, UNKNOWN};
use crate::twin::{Twin, TwinError};

/// How many failures of a kind a text lists.
const MAX_LISTED: usize = 10;

/// What can fail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survival {
    /// Each node, and the pods that find no place without it.
    pub nodes: BTreeMap<String, Vec<LostPod>>,
    /// Each pool.
    pub pools: BTreeMap<String, Vec<LostPod>>,
    /// Each zone.
    pub zones: BTreeMap<String, Vec<LostPod>>,
    /// Budgets that let no pod go: `namespace/name`.
    pub budgets: Vec<String>,
}

/// Lets each node, pool and zone fail on its own.
///
/// # Errors
/// [`TwinError`] where there is nothing to copy.
pub fn survive(capture: &Capture) -> Result<Survival, TwinError> {
    let twin = Twin::of(capture, 0)?;
    let model = Model::of(capture)?;
    let mut survival = Survival::default();
    let lose = |names: &[&str]| model.lose(&mut model.scheduler(), names);
    let mut pools: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut zones: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut scheduler = model.scheduler();
    for (name, node) in &model.nodes {
        survival
            .nodes
            .insert(name.clone(), node.alone().cloned().chain(model.empty(&mut scheduler, name, &[], false)).collect());
        pools.entry(&node.pool).or_default().push(name);
        if let Some(zone) = &node.zone {
            zones.entry(zone).or_default().push(name);
        }
    }
    survival.pools = pools.into_iter().map(|(pool, nodes)| (pool.to_owned(), lose(&nodes))).collect();
    survival.zones = zones.into_iter().map(|(zone, nodes)| (zone.to_owned(), lose(&nodes))).collect();
    for budget in twin.cluster.inner().list(POD_DISRUPTION_BUDGETS, None).0 {
        let status = &budget.value()["status"];
        if status["disruptionsAllowed"] == 0 && status["expectedPods"].as_u64().is_some_and(|pods| pods > 0) {
            survival.budgets.push(format!("{}/{}", budget.namespace, budget.name));
        }
    }
    Ok(survival)
}

impl Survival {
    /// For people.
    pub fn human(&self) -> String {
        let mut text = String::new();
        for (one, failures) in [("node", &self.nodes), ("pool", &self.pools), ("zone", &self.zones)] {
            let failing: Vec<_> = failures.iter().filter(|(_, lost)| !lost.is_empty()).collect();
            let survived = failures.len() - failing.len();
            text.push_str(&match failures.len() {
                0 => continue,
                all if all == survived => format!("Any {one} can fail, and every pod has a place.\n"),
                all => format!("{survived} of {} can fail; not these:\n", plural(all, one)),
            });
            for (name, lost) in failing.iter().take(MAX_LISTED) {
                let pods: Vec<&str> = lost.iter().map(|lost| lost.pod.as_str()).collect();
                text.push_str(&format!(
                    "  {name}: {} without a place: {}\n",
                    plural(lost.len(), "pod"),
                    first_of(&pods, 4)
                ));
            }
            if failing.len() > MAX_LISTED {
                text.push_str(&format!("  and {} more\n", failing.len() - MAX_LISTED));
            }
        }
        let unknown = self.nodes.values().flatten().filter(|lost| lost.why == UNKNOWN).count();
        if unknown > 0 {
            let (pods, belong) = (plural(unknown, "pod"), if unknown == 1 { "belongs" } else { "belong" });
            text.push_str(&format!(
                "{pods} {belong} to controllers that klab does not know, and do not come back here.\n"
            ));
        }
        if !self.budgets.is_empty() {
            text.push_str(&format!(
                "A drain waits for {}: {}\n",
                plural(self.budgets.len(), "budget"),
                first_of(&self.budgets, MAX_LISTED)
            ));
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let failures = |failures: &BTreeMap<String, Vec<LostPod>>| {
            let one = |(name, lost): (&String, &Vec<LostPod>)| {
                let lost: Vec<Value> = lost.iter().map(|lost| json!({ "pod": lost.pod, "why": lost.why })).collect();
                json!({ "name": name, "survives": lost.is_empty(), "lost": lost })
            };
            failures.iter().map(one).collect::<Vec<_>>()
        };
        json!({
            "schema": "klab.survive/1", "nodes": failures(&self.nodes), "pools": failures(&self.pools),
            "zones": failures(&self.zones), "budgets": self.budgets,
        })
    }
}
