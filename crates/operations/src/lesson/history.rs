//! Pure: what pools and earlier steps put on nodes, as far as the lab file tells.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;

use super::nodes::matches;
use crate::stage::actions_before;
use klab_lab::spec::{Action, Lab, NodeSet};

/// Taints, labels, cordons and failures in force at a point of the lesson.
pub(super) struct History<'a> {
    stage: &'a Lab,
    taints: Vec<(NodeSet, Taint)>,
    labels: Vec<(NodeSet, String, String)>,
    cordoned: Vec<NodeSet>,
    failed: Vec<(NodeSet, Option<u32>)>,
}

impl<'a> History<'a> {
    /// Before an action (from 0) of a step (from 0); `stage` is the lab at that point.
    pub(super) fn before(lab: &Lab, stage: &'a Lab, step: usize, action: usize) -> Self {
        let mut history =
            Self { stage, taints: Vec::new(), labels: Vec::new(), cordoned: Vec::new(), failed: Vec::new() };
        for pool in &stage.pools {
            let set = NodeSet::Pool(pool.name.value.clone());
            history.taints.extend(pool.node_taints().into_iter().map(|taint| (set.clone(), taint)));
            let labels = pool.node_labels(&stage.aks.location, None);
            // The zone is another on every node, where there is one.
            let known = labels.into_iter().filter(|(key, _)| pool.zones.is_empty() || !key.ends_with("/zone"));
            history.labels.extend(known.map(|(key, value)| (set.clone(), key, value)));
        }
        for done in actions_before(lab, step, action) {
            history.take(&done.value);
        }
        history
    }

    fn take(&mut self, action: &Action) {
        // Of a drain that is refused the cordon is left.
        match action.tried() {
            Action::Taint { taint, nodes } => {
                let stage = self.stage;
                self.taints.retain(|(set, other)| {
                    !(other.key == taint.key && other.effect == taint.effect && within(stage, set, nodes))
                });
                self.taints.push((nodes.clone(), taint.clone()));
            }
            Action::Untaint { key, value, effect, nodes } => {
                let stage = self.stage;
                self.taints.retain(|(set, taint)| {
                    !(matches(taint, key, value.as_deref(), effect.as_deref()) && overlap(stage, set, nodes))
                });
            }
            Action::Label { labels, nodes } => {
                let stage = self.stage;
                self.labels.retain(|(set, key, _)| !(labels.contains_key(key) && within(stage, set, nodes)));
                self.labels.extend(labels.iter().map(|(key, value)| (nodes.clone(), key.clone(), value.clone())));
            }
            Action::Unlabel { keys, nodes } => {
                let stage = self.stage;
                self.labels.retain(|(set, key, _)| !(keys.contains(key) && overlap(stage, set, nodes)));
            }
            Action::Cordon { nodes } | Action::Drain { nodes, .. } => self.cordoned.push(nodes.clone()),
            Action::Uncordon { nodes } => {
                let stage = self.stage;
                self.cordoned.retain(|set| !overlap(stage, set, nodes));
            }
            Action::FailNode { nodes, count } => self.failed.push((nodes.clone(), *count)),
            Action::RestoreNode { nodes } => {
                let stage = self.stage;
                self.failed.retain(|(set, _)| !overlap(stage, set, nodes));
            }
            _ => {}
        }
    }

    /// The taint of this key and effect on nodes of the set, if one was put there.
    pub(super) fn taint(&self, nodes: &NodeSet, key: &str, effect: &str) -> Option<Taint> {
        self.taints(nodes, key, None, Some(effect)).pop().map(|(_, taint)| taint)
    }

    /// The taints on nodes of the set that a pattern means, each with the nodes that carry it.
    pub(super) fn taints(
        &self,
        nodes: &NodeSet,
        key: &str,
        value: Option<&str>,
        effect: Option<&str>,
    ) -> Vec<(NodeSet, Taint)> {
        let meant = self
            .taints
            .iter()
            .filter(|(set, taint)| matches(taint, key, value, effect) && overlap(self.stage, set, nodes));
        meant.map(|(set, taint)| (self.narrower(set, nodes), taint.clone())).collect()
    }

    /// The value of a label of nodes of the set, if it is known.
    pub(super) fn label(&self, nodes: &NodeSet, key: &str) -> Option<String> {
        let last = self.labels.iter().rev().find(|(set, known, _)| known == key && overlap(self.stage, set, nodes));
        last.map(|(_, _, value)| value.clone())
    }

    /// Whether a step has cordoned nodes of the set.
    pub(super) fn is_cordoned(&self, nodes: &NodeSet) -> bool {
        self.cordoned.iter().any(|set| overlap(self.stage, set, nodes))
    }

    /// What stopped nodes of the set, if a step has.
    pub(super) fn failure(&self, nodes: &NodeSet) -> Option<Action> {
        let (_, count) = self.failed.iter().rev().find(|(set, _)| overlap(self.stage, set, nodes))?;
        Some(Action::FailNode { nodes: nodes.clone(), count: *count })
    }

    fn narrower(&self, one: &NodeSet, other: &NodeSet) -> NodeSet {
        if within(self.stage, one, other) { one.clone() } else { other.clone() }
    }
}

/// The pools whose nodes are in a set, as far as the lab file tells; none for a node by name.
fn pools(stage: &Lab, set: &NodeSet) -> Option<BTreeSet<String>> {
    match set {
        NodeSet::Node(_) => None,
        NodeSet::Pool(pool) => Some(BTreeSet::from([pool.clone()])),
        NodeSet::Selector(selector) => {
            let zones = |zones: &[u8]| -> Vec<Option<u8>> {
                if zones.is_empty() { vec![None] } else { zones.iter().copied().map(Some).collect() }
            };
            let is_meant = |pool: &&klab_lab::spec::Pool| {
                zones(&pool.zones).into_iter().any(|zone| {
                    let labels: BTreeMap<_, _> = pool.node_labels(&stage.aks.location, zone);
                    selector.matches(&labels)
                })
            };
            let pools: BTreeSet<String> =
                stage.pools.iter().filter(is_meant).map(|pool| pool.name.value.clone()).collect();
            // Labels that steps put on are not followed.
            (!pools.is_empty()).then_some(pools)
        }
    }
}

/// Whether two sets have nodes in common, as far as the lab file tells.
fn overlap(stage: &Lab, one: &NodeSet, other: &NodeSet) -> bool {
    one == other
        || match (pools(stage, one), pools(stage, other)) {
            (Some(one), Some(other)) => !one.is_disjoint(&other),
            _ => false,
        }
}

/// Whether all nodes of a set are in another, as far as the lab file tells.
fn within(stage: &Lab, inner: &NodeSet, outer: &NodeSet) -> bool {
    inner == outer
        || match (pools(stage, inner), pools(stage, outer)) {
            (Some(inner), Some(outer)) => inner.is_subset(&outer),
            _ => false,
        }
}
