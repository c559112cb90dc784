//! What all controllers of one embedded cluster share: the cluster, what is known of it, and the work that is due.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_scheduler::Cluster as Picture;
use serde_json::Value;

use super::events::{Note, Recorder, reference};
use super::fault::{Faults, Subject};
use super::queue::{Key, ObjectName, Queue};
use super::settings::Settings;
use super::view::View;
use crate::clock::later;
use crate::cluster::Cluster;
use crate::device_selector::Language;
use crate::object::Object;
use crate::resource::ResourceId;

/// What controllers work with. What only one of them remembers, it keeps itself.
pub(super) struct Plane {
    pub(super) cluster: Arc<Cluster>,
    pub(super) settings: Settings,
    pub(super) view: View,
    /// The cluster as the scheduler sees it, which DaemonSets ask for the nodes.
    pub(super) picture: Picture,
    pub(super) queue: Queue,
    pub(super) recorder: Recorder,
    /// Owners whose pods were refused, and how often in a row.
    pub(super) refused: BTreeMap<Key, u32>,
    /// What is being worked on.
    pub(super) subject: Option<Subject>,
    pub(super) faults: Faults,
    /// Subjects at which a test has the control plane panic.
    #[cfg(test)]
    pub(super) trap: Option<fn(&Subject) -> bool>,
}

/// An empty cluster as the scheduler sees it.
fn picture(settings: &Settings) -> Picture {
    let mut picture = Picture::new(settings.tie_break());
    picture.set_selector_language(Arc::new(Language));
    picture
}

impl Plane {
    pub(super) fn new(cluster: Arc<Cluster>, settings: Settings) -> Self {
        let picture = picture(&settings);
        Self {
            cluster,
            settings,
            view: View::default(),
            picture,
            queue: Queue::default(),
            recorder: Recorder::default(),
            refused: BTreeMap::new(),
            subject: None,
            faults: Faults::default(),
            #[cfg(test)]
            trap: None,
        }
    }

    /// Forgets what is known of the cluster, before all objects are read again.
    pub(super) fn forget(&mut self) {
        self.view = View::default();
        self.picture = picture(&self.settings);
    }

    /// Notes what is worked on from now on.
    pub(super) fn begin(&mut self, subject: Subject) {
        #[cfg(test)]
        let trap = self.trap.filter(|trap| trap(&subject));
        self.subject = Some(subject);
        #[cfg(test)]
        assert!(trap.is_none(), "a trap of the test");
    }

    /// Comes back to an owner whose pods were refused: after 5 ms, doubled each time up to 1000 s, or when a quota of its
    /// namespace changes.
    // upstream: staging/src/k8s.io/client-go/util/workqueue/default_rate_limiters.go DefaultControllerRateLimiter (v1.36)
    pub(super) fn retry_later(&mut self, key: Key) {
        let failures = self.refused.entry(key.clone()).or_default();
        let wait = SignedDuration::from_millis((5 << (*failures).min(18)).min(1_000_000));
        *failures += 1;
        let due = later(self.now(), wait);
        self.queue.add_at(key, due);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.cluster.now()
    }

    /// Names of the objects of a kind in a namespace.
    pub(super) fn names_in(&self, resource: ResourceId, namespace: &str) -> Vec<ObjectName> {
        let (objects, _) = self.cluster.list(resource, Some(namespace));
        objects.iter().map(|object| ObjectName::of(object)).collect()
    }

    /// Names of all objects of a kind.
    pub(super) fn names_in_all(&self, resource: ResourceId) -> Vec<ObjectName> {
        let (objects, _) = self.cluster.list(resource, None);
        objects.iter().map(|object| ObjectName::of(object)).collect()
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
