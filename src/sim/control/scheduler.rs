//! The scheduler's loop around `scheduling`: which pods wait, when they are tried, what is written of the outcome.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ControlPlane;
use super::events::{Note, reference};
use super::queue::ObjectName;
use super::view::PodInfo;
use crate::sim::object::Object;

/// Pods that wait for a node.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    active: BTreeSet<ObjectName>,
    next: usize,
}

impl Scheduler {
    pub(super) fn new(_seed: u64) -> Self {
        Self::default()
    }

    pub(super) fn forget(&mut self) {
        self.active.clear();
    }

    pub(super) fn pod_changed(&mut self, before: Option<&PodInfo>, after: Option<&PodInfo>) {
        let Some(pod) = after.or(before) else { return };
        if after.is_some_and(|pod| pod.node.is_empty() && pod.active()) {
            self.active.insert(pod.name());
        } else {
            self.active.remove(&pod.name());
        }
    }

    pub(super) fn node_changed(&mut self, _gone: bool, _node: &Object, _previous: Option<&Object>) {}

    pub(super) fn claims_changed(&mut self) {}
}

impl ControlPlane {
    pub(super) fn schedule(&mut self) {
        while let Some(name) = self.scheduler.active.pop_first() {
            let Some(pod) = self.view.pod(&name).map(Arc::clone) else { continue };
            let nodes: Vec<String> = self.view.nodes().map(|node| node.object.name.to_string()).collect();
            if nodes.is_empty() {
                continue;
            }
            let node = &nodes[self.scheduler.next % nodes.len()];
            self.scheduler.next += 1;
            if self.cluster.bind(&name.namespace, &name.name, node).is_ok() {
                let message = format!("Successfully assigned {}/{} to {node}", name.namespace, name.name);
                let host = self.settings.host.clone();
                let note = Note {
                    component: "default-scheduler",
                    host: &host,
                    warning: false,
                    reason: "Scheduled",
                    message: &message,
                };
                self.recorder.record_action(&self.cluster, &reference(&pod.object), None, "Binding", note);
            }
        }
    }
}
