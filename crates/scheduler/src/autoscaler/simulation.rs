//! A cluster to try pods on: where they fit, one after the other, without scores and without preemption.

// upstream: cluster-autoscaler/simulator/clustersnapshot/predicate/predicate_snapshot.go SchedulePod (v1.36)

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::group::Template;
use crate::class_cache::ClassCaches;
use crate::cluster::Cluster;
use crate::cycle::{Cycle, Tallies};
use crate::decision::Rejection;
use crate::delta::Delta;
use crate::error::ObjectError;
use crate::ids::{ClassId, LabelsId, NodeId};
use crate::node_info::NodeSpec;
use crate::plugins::{self, View};
use crate::pod_info::PodInfo;
use crate::pod_key::PodKey;
use crate::profile::default_profile;
use crate::schedule::Subject;
use crate::state::{Place, PodEntry, State};

/// Pods that are alike to the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Kind {
    class: ClassId,
    labels: LabelsId,
}

/// A cluster that pods are tried on.
pub(super) struct Simulation {
    state: State,
    caches: ClassCaches,
}

impl Simulation {
    /// One that begins as the cluster is.
    pub(super) fn of(cluster: &Cluster) -> Self {
        Self { state: cluster.fork(), caches: ClassCaches::default() }
    }

    /// One that goes on from here, without changing this one.
    pub(super) fn fork(&self) -> Self {
        Self { state: self.state.clone(), caches: ClassCaches::default() }
    }

    /// The kind of a pod. Kinds stay the same in forks.
    pub(super) fn kind(&mut self, pod: &Pod) -> Result<Kind, ObjectError> {
        let subject = Subject::of(&mut self.state, pod, "")?;
        Ok(Kind { class: subject.class, labels: subject.labels })
    }

    /// What pods of a kind ask for.
    pub(super) fn info(&self, kind: Kind) -> &PodInfo {
        &self.state.class(kind.class).info
    }

    /// Adds a node.
    pub(super) fn add_node(&mut self, spec: NodeSpec) {
        self.state.set_node(spec);
    }

    /// Adds a new node of a template under a name, with the pods of its DaemonSets.
    pub(super) fn add_new(&mut self, template: &Template, name: &str) {
        self.add_node(template.named(name));
        for pod in &template.daemons {
            let daemon = pod.metadata.name.as_deref().unwrap_or_default();
            // Read before, when the template was made.
            if let Ok(subject) = Subject::of(&mut self.state, pod, &format!("{daemon}-{name}")) {
                let kind = Kind { class: subject.class, labels: subject.labels };
                self.place(kind, subject.key, name);
            }
        }
    }

    /// Removes a node; its pods stay known and count nowhere.
    pub(super) fn remove_node(&mut self, name: &str) {
        self.state.remove_node(name);
    }

    /// The names of all nodes, in the order in which they came.
    pub(super) fn nodes(&self) -> Vec<Arc<str>> {
        self.state.live_nodes().map(|(_, node)| Arc::clone(&node.spec.name)).collect()
    }

    /// A node's specification.
    pub(super) fn node(&self, name: &str) -> Option<Arc<NodeSpec>> {
        Some(Arc::clone(&self.state.node(self.state.node_id(name)?)?.spec))
    }

    /// Takes a pod off its node.
    pub(super) fn remove_pod(&mut self, key: &PodKey) {
        self.state.remove_pod(&key.namespace, &key.name);
    }

    /// Puts a pod on a node.
    pub(super) fn place(&mut self, kind: Kind, key: PodKey, node: &str) {
        self.state.set_pod(PodEntry {
            key,
            class: kind.class,
            labels: kind.labels,
            place: Place::Bound(Arc::from(node)),
            started: None,
            terminating: false,
            preempted: false,
        });
    }

    /// Whether a pod of a kind fits on a node.
    pub(super) fn fits(&mut self, kind: Kind, name: &str, node: &str) -> bool {
        // The commonest reason, without looking at the others.
        if let Some(id) = self.state.node_id(node)
            && let Some(there) = self.state.node(id)
        {
            let wanted = &self.state.class(kind.class).info.resources.requests;
            let (offered, taken) = (&there.spec.allocatable, &there.requested);
            let lacks = |wanted: i64, offered: i64, taken: i64| wanted > 0 && wanted > offered - taken;
            if lacks(wanted.cpu, offered.cpu, taken.cpu)
                || lacks(wanted.memory, offered.memory, taken.memory)
                || there.pods.len() as i64 >= there.spec.allowed_pods
            {
                return false;
            }
        }
        self.ask(kind, name, node, |cycle, view| {
            plugins::pre_filter(cycle).is_none() && plugins::verdict(cycle, view).is_none()
        })
        .unwrap_or(false)
    }

    /// The first of `count` nodes with room for a pod of a kind, by place, where the search begins at `from` and goes round.
    pub(super) fn room<'n>(
        &mut self,
        kind: Kind,
        name: &str,
        count: usize,
        node: impl Fn(usize) -> &'n str,
        from: usize,
    ) -> Option<usize> {
        let mut places = (0..count).map(|step| (from + step) % count);
        places.find(|place| self.fits(kind, name, node(*place)))
    }

    /// Why a pod of a kind does not fit on a node: the first filter that refuses it, as the scheduler asks them. None if
    /// it fits, or there is no such node.
    pub(super) fn refusal(&mut self, kind: Kind, name: &str, node: &str) -> Option<Rejection> {
        self.ask(kind, name, node, |cycle, view| {
            let for_all = plugins::pre_filter(cycle).map(|(plugin, reasons)| (Some(plugin), reasons));
            let (plugin, reasons) = for_all.or_else(|| plugins::first_reasons(cycle, view))?;
            Some(Rejection { plugin, code: plugins::code_of(&reasons), reasons })
        })?
    }

    fn ask<T>(
        &mut self,
        kind: Kind,
        name: &str,
        node: &str,
        about: impl FnOnce(&Cycle<'_>, &View<'_>) -> T,
    ) -> Option<T> {
        let id = self.state.node_id(node)?;
        let info = self.info(kind);
        let none = Tallies::default();
        let own_rules = !(info.spread.is_empty() && info.affinity.is_empty() && info.anti_affinity.is_empty());
        self.state.refresh_matching(kind.labels);
        if !own_rules {
            let cycle = Cycle::new(&self.state, default_profile(), kind.class, kind.labels, name, None, &none);
            if !cycle.topology_matters() {
                return on_node(&cycle, id, about);
            }
        }
        let cache = self.caches.refreshed(&mut self.state, default_profile(), kind.class, kind.labels, name);
        let cycle = Cycle::new(&self.state, default_profile(), kind.class, kind.labels, name, None, &cache.tallies);
        on_node(&cycle, id, about)
    }
}

fn on_node<T>(cycle: &Cycle<'_>, id: NodeId, about: impl FnOnce(&Cycle<'_>, &View<'_>) -> T) -> Option<T> {
    let node = cycle.node(id)?;
    Some(about(cycle, &View { id, node, delta: Delta::NONE }))
}
