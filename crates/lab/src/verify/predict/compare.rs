//! What was predicted beside what the cluster did.

use std::collections::BTreeMap;
use std::fmt;

use super::{Prediction, is_of};
use crate::verify::context::Context;
use crate::verify::pod::PodState;
use crate::verify::snapshot::Snapshot;
use crate::verify::view::View;

/// A workload that the cluster placed otherwise than predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Predicted pods by pool.
    pub predicted: BTreeMap<String, u32>,
    /// Predicted pods without a node.
    pub predicted_pending: u32,
    /// Pods by pool in the cluster.
    pub actual: BTreeMap<String, u32>,
    /// Pods without a node in the cluster.
    pub actual_pending: u32,
}

impl Difference {
    /// Whether the cluster has as many pods as predicted, only elsewhere: the workload was not scaled since.
    pub fn is_of_place(&self) -> bool {
        let sum = |pools: &BTreeMap<String, u32>, pending: u32| pools.values().sum::<u32>() + pending;
        sum(&self.predicted, self.predicted_pending) == sum(&self.actual, self.actual_pending)
    }

    /// Whether pods that were to wait have nodes of pools that the autoscaler let grow, and nothing else differs: the
    /// prediction counts the nodes that there were.
    fn is_growth(&self, context: Context<'_>) -> bool {
        let acts = context.provider().is_some_and(|provider| provider.profile().has_autoscaler);
        let autoscaled = |pool: &str| acts && context.pool(pool).is_some_and(|pool| pool.autoscale.is_some());
        let count = |pools: &BTreeMap<String, u32>, pool: &str| pools.get(pool).copied().unwrap_or_default();
        let mut pools = self.predicted.keys().chain(self.actual.keys());
        let as_foreseen = pools.all(|pool| {
            let (predicted, actual) = (count(&self.predicted, pool), count(&self.actual, pool));
            predicted == actual || (autoscaled(pool) && actual > predicted)
        });
        as_foreseen && self.actual_pending < self.predicted_pending && self.is_of_place()
    }
}

impl fmt::Display for Difference {
    /// `deployment/web: predicted extra 4, the cluster placed extra 3, main 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |pools: &BTreeMap<String, u32>, pending: u32| {
            let mut parts: Vec<String> = pools.iter().map(|(pool, pods)| format!("{pool} {pods}")).collect();
            if pending > 0 {
                parts.push(format!("{pending} Pending"));
            }
            if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
        };
        write!(
            f,
            "{}/{}: predicted {}, the cluster placed {}",
            self.kind.to_lowercase(),
            self.name,
            said(&self.predicted, self.predicted_pending),
            said(&self.actual, self.actual_pending)
        )
    }
}

/// The workloads that the cluster placed otherwise. Pods that are over or going are left aside; a Job that has ended
/// has none, and is no difference.
pub fn compare(prediction: &Prediction, snapshot: &Snapshot, context: &Context<'_>) -> Vec<Difference> {
    let view = View::new(snapshot, context);
    let mut differences = Vec::new();
    for workload in &prediction.workloads {
        let root = super::Root {
            kind: workload.kind.clone(),
            namespace: workload.namespace.clone(),
            name: workload.name.clone(),
        };
        let mut actual: BTreeMap<String, u32> = BTreeMap::new();
        let mut pending = 0;
        let mut over = false;
        for pod in view.pods.iter().filter(|pod| is_of(pod, &root) && pod.counts()) {
            match pod.node {
                _ if matches!(pod.state, PodState::Succeeded | PodState::Failed { .. }) => over = true,
                Some(node) => *actual.entry(view.pool_of(node).unwrap_or(node).to_owned()).or_default() += 1,
                None => pending += 1,
            }
        }
        let ended = over && actual.is_empty() && pending == 0;
        if !ended && (actual != workload.pools || pending != workload.pending) {
            let difference = Difference {
                kind: root.kind,
                namespace: root.namespace,
                name: root.name,
                predicted: workload.pools.clone(),
                predicted_pending: workload.pending,
                actual,
                actual_pending: pending,
            };
            if !difference.is_growth(*context) {
                differences.push(difference);
            }
        }
    }
    differences
}
