//! Everything that acts on its own in the embedded cluster: controllers, the scheduler's loop, hollow nodes.
//!
//! One thread, no sleeping: changes are read from the cluster's history, each enqueues only the keys it concerns, and
//! whatever waits for time is a timer on the cluster's clock. Nothing is kept that the objects do not tell again, so a
//! new plane on a restored cluster carries on where the old one was stopped.

mod autoscaler;
mod cluster_roles;
mod controllers;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoints;
mod events;
mod fault;
mod garbage;
mod hash;
mod hollow;
mod job;
mod namespace;
mod nodes;
mod observe;
mod pod_failure;
mod pod_ranges;
mod pods;
mod queue;
mod replica_set;
mod revisions;
mod run;
mod scheduler;
mod settings;
mod stateful_set;
mod taint_eviction;
mod value;
mod view;
mod volumes;
mod zones;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use controllers::{Controller, UnknownController};
pub use run::Progress;
pub use settings::{HEARTBEAT_ANNOTATION, HollowDelays, Settings};

use self::autoscaler::Recommendations;
use self::events::{Note, Recorder, reference};
use self::fault::{Faults, Subject};
use self::hollow::Steps;
use self::queue::{Key, Queue};
use self::scheduler::Scheduler;
use self::taint_eviction::Evictions;
use self::view::View;
use self::zones::Zones;
use super::clock::later;
use super::cluster::Cluster;
use super::object::Object;

/// The acting part of one embedded cluster.
pub struct ControlPlane {
    cluster: Arc<Cluster>,
    settings: Settings,
    view: View,
    queue: Queue,
    recorder: Recorder,
    scheduler: Scheduler,
    steps: Steps,
    evictions: Evictions,
    zones: Zones,
    recommendations: Recommendations,
    /// Owners whose pods were refused, and how often in a row.
    refused: BTreeMap<Key, u32>,
    /// Nodes that pods name and that do not exist, and until when they may appear.
    absent_nodes: BTreeMap<Box<str>, Timestamp>,
    /// The version of the cluster up to which changes have been read.
    seen: u64,
    /// Whether all objects have been read, so that changes suffice.
    listed: bool,
    /// What is being worked on.
    subject: Option<Subject>,
    faults: Faults,
    /// Subjects at which a test has the control plane panic.
    #[cfg(test)]
    trap: Option<fn(&Subject) -> bool>,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// A control plane for a cluster, which may be new or restored.
    pub fn new(cluster: Arc<Cluster>, settings: Settings) -> Self {
        let scheduler = Scheduler::new(settings.seed);
        Self {
            cluster,
            settings,
            view: View::default(),
            queue: Queue::default(),
            recorder: Recorder::default(),
            scheduler,
            steps: Steps::default(),
            evictions: Evictions::default(),
            zones: Zones::default(),
            recommendations: Recommendations::default(),
            refused: BTreeMap::new(),
            absent_nodes: BTreeMap::new(),
            seen: 0,
            listed: false,
            subject: None,
            faults: Faults::default(),
            #[cfg(test)]
            trap: None,
        }
    }

    fn sync(&mut self, key: Key) {
        match key {
            Key::Collect(resource, name) => self.collect(resource, &name),
            Key::ClusterRoles => self.aggregate_cluster_roles(),
            Key::Namespace(name) => self.sync_namespace(&name),
            Key::Node(name) => self.sync_node(&name),
            Key::Evict(name) => self.sync_eviction(&name),
            Key::NamespaceEnd(name) => self.empty_namespace(&name),
            Key::Schedule => self.schedule(),
            Key::Kubelet(name) => self.sync_pod(&name),
            Key::DaemonSet(name) if self.queue.is_due(&Key::DaemonSetRest(name.clone())) => {}
            Key::DaemonSet(name) | Key::DaemonSetRest(name) => self.sync_daemon_set(&name),
            Key::StatefulSet(name) => self.sync_stateful_set(&name),
            Key::Job(name) => self.sync_job(&name),
            Key::ReplicaSet(name) => self.sync_replica_set(&name),
            Key::Deployment(name) => self.sync_deployment(&name),
            Key::ExpireEvents => self.expire_events(),
            Key::CronJob(name) => self.sync_cron_job(&name),
            Key::Claim(name) => self.sync_claim(&name),
            Key::Service(name) => self.sync_service(&name),
            Key::DisruptionBudget(name) => self.sync_disruption_budget(&name),
            Key::Autoscaler(name) => self.sync_autoscaler(&name),
        }
    }

    /// Comes back to an owner whose pods were refused: after 1 s, doubled each time up to a minute, or when a quota
    /// of its namespace changes.
    fn retry_later(&mut self, key: Key) {
        let failures = self.refused.entry(key.clone()).or_default();
        let wait = SignedDuration::from_secs((1 << (*failures).min(6)).min(60));
        *failures += 1;
        let due = later(self.now(), wait);
        self.queue.add_at(key, due);
    }

    fn now(&self) -> Timestamp {
        self.cluster.now()
    }

    /// Writes an event about an object.
    fn note(&mut self, about: &Object, component: &str, warning: bool, reason: &str, message: &str) {
        self.note_about(&reference(about), component, warning, reason, message);
    }

    fn note_about(&mut self, about: &Value, component: &str, warning: bool, reason: &str, message: &str) {
        let note = Note { component, host: "", warning, reason, message };
        self.recorder.record(&self.cluster, about, note);
    }
}
