//! Which labels of nodes matter: those that the lab asks for, and those by which pods choose among the nodes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Affinity, TopologySpreadConstraint};

use crate::names::is_system_namespace;
use crate::spec::{Action, Check, Condition, Lab, NodeSet, Selector, Subject};
use crate::verify::Snapshot;

/// Keys of the labels that selectors use.
pub(super) fn used(snapshot: &Snapshot, lab: Option<&Lab>) -> BTreeSet<String> {
    let mut keys = Keys::default();
    let is_own = |namespace: Option<&str>| !namespace.is_some_and(is_system_namespace);
    let own = snapshot.pods.iter().filter(|pod| is_own(pod.metadata.namespace.as_deref()));
    for spec in own.filter_map(|pod| pod.spec.as_ref()) {
        keys.0.extend(spec.node_selector.iter().flatten().map(|(key, _)| key.clone()));
        spec.affinity.iter().for_each(|affinity| keys.affinity(affinity));
        keys.spread(spec.topology_spread_constraints.iter().flatten());
    }
    // Where all nodes are alike, a label chooses nothing.
    keys.0.retain(|key| {
        let label = |node: &k8s_openapi::api::core::v1::Node| node.metadata.labels.as_ref()?.get(key).cloned();
        let mut values = snapshot.nodes.iter().map(|node| label(node));
        let first = values.next();
        values.any(|value| Some(value) != first)
    });
    if let Some(lab) = lab {
        keys.lab(lab);
    }
    keys.0
}

#[derive(Default)]
struct Keys(BTreeSet<String>);

impl Keys {
    fn lab(&mut self, lab: &Lab) {
        for workload in lab.workloads.iter().filter(|workload| !workload.deferred) {
            self.0.extend(workload.node_selector.keys().cloned());
            workload.affinity.iter().for_each(|affinity| self.affinity(&affinity.value));
            self.spread(workload.topology_spread.iter().map(|constraint| &constraint.value));
        }
        self.checks(&lab.checks);
        for action in lab.steps.iter().flat_map(|step| &step.actions) {
            match &action.value {
                Action::Label { labels, .. } => self.0.extend(labels.keys().cloned()),
                Action::Unlabel { keys, .. } => self.0.extend(keys.iter().cloned()),
                _ => {}
            }
        }
    }

    fn checks(&mut self, checks: &[Check]) {
        for check in checks {
            if let Subject::Nodes(set) = &check.subject.value {
                self.set(set);
            }
            for condition in &check.conditions {
                condition.value.nodes().into_iter().for_each(|set| self.set(set));
                if let Condition::Spread { over, .. } = &condition.value {
                    self.0.insert(over.clone());
                }
            }
        }
    }

    fn set(&mut self, set: &NodeSet) {
        if let NodeSet::Selector(selector) = set {
            self.selector(selector);
        }
    }

    fn selector(&mut self, selector: &Selector) {
        self.0.extend(selector.requirements().iter().map(|requirement| requirement.key.clone()));
    }

    fn affinity(&mut self, affinity: &Affinity) {
        if let Some(nodes) = &affinity.node_affinity {
            let required = nodes.required_during_scheduling_ignored_during_execution.iter();
            let required = required.flat_map(|required| &required.node_selector_terms);
            let preferred = nodes.preferred_during_scheduling_ignored_during_execution.iter().flatten();
            let terms = required.chain(preferred.map(|term| &term.preference));
            self.0.extend(terms.flat_map(|term| term.match_expressions.iter().flatten()).map(|it| it.key.clone()));
        }
        let near = affinity.pod_affinity.as_ref();
        let near_required = near
            .and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten();
        let apart = affinity.pod_anti_affinity.as_ref();
        let apart_required = apart
            .and_then(|apart| apart.required_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten();
        self.0.extend(near_required.chain(apart_required).map(|term| term.topology_key.clone()));
    }

    fn spread<'c>(&mut self, constraints: impl Iterator<Item = &'c TopologySpreadConstraint>) {
        self.0.extend(constraints.map(|constraint| constraint.topology_key.clone()));
    }
}
