//! The control plane: what all controllers of one embedded cluster share.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::events::{Note, Recorder, reference};
use super::fault::{Faults, Subject};
use super::memory::{Evictions, Recommendations, Steps, Zones};
use super::queue::{Key, Queue};
use super::scheduler_state::Scheduler;
use super::settings::Settings;
use super::view::View;
use crate::clock::later;
use crate::cluster::Cluster;
use crate::object::Object;

/// The acting part of one embedded cluster.
pub struct ControlPlane {
    pub(super) cluster: Arc<Cluster>,
    pub(super) settings: Settings,
    pub(super) view: View,
    pub(super) queue: Queue,
    pub(super) recorder: Recorder,
    pub(super) scheduler: Scheduler,
    pub(super) steps: Steps,
    pub(super) evictions: Evictions,
    pub(super) zones: Zones,
    pub(super) recommendations: Recommendations,
    /// Owners whose pods were refused, and how often in a row.
    pub(super) refused: BTreeMap<Key, u32>,
    /// Nodes that pods name and that do not exist, and until when they may appear.
    pub(super) absent_nodes: BTreeMap<Box<str>, Timestamp>,
    /// The version of the cluster up to which changes have been read.
    pub(super) seen: u64,
    /// Whether all objects have been read, so that changes suffice.
    pub(super) listed: bool,
    /// What is being worked on.
    pub(super) subject: Option<Subject>,
    pub(super) faults: Faults,
    /// Subjects at which a test has the control plane panic.
    #[cfg(test)]
    pub(super) trap: Option<fn(&Subject) -> bool>,
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

    /// Comes back to an owner whose pods were refused: after 1 s, doubled each time up to a minute, or when a quota
    /// of its namespace changes.
    pub(super) fn retry_later(&mut self, key: Key) {
        let failures = self.refused.entry(key.clone()).or_default();
        let wait = SignedDuration::from_secs((1 << (*failures).min(6)).min(60));
        *failures += 1;
        let due = later(self.now(), wait);
        self.queue.add_at(key, due);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.cluster.now()
    }

    /// Writes an event about an object.
    pub(super) fn note(&mut self, about: &Object, component: &str, warning: bool, reason: &str, message: &str) {
        self.note_about(&reference(about), component, warning, reason, message);
    }

    pub(super) fn note_about(&mut self, about: &Value, component: &str, warning: bool, reason: &str, message: &str) {
        let note = Note { component, host: "", warning, reason, message };
        self.recorder.record(&self.cluster, about, note);
    }
}
