//! What all controllers of one embedded cluster share: the cluster, what is known of it, and the work that is due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::device_selector::Language;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;
use klab_scheduler::{Cluster as SchedulerCache, Profiles};
use serde_json::Value;

use super::component::Component;
use super::events::{Note, Recorder, reference};
use super::fault::{Faults, Subject};
use super::queue::{Key, ObjectName, Queue};
use super::settings::Settings;
use super::view::View;
use crate::clock::later;
use crate::cluster::Cluster;

/// What controllers work with. What only one of them remembers, it keeps itself.
pub(super) struct Plane {
    pub(super) cluster: Arc<Cluster>,
    pub(super) settings: Settings,
    pub(super) view: View,
    /// The cluster as the scheduler sees it, which DaemonSets ask for the nodes.
    pub(super) scheduler_cache: SchedulerCache,
    pub(super) queue: Queue,
    pub(super) recorder: Recorder,
    /// Owners whose pods were refused, and how often in a row.
    pub(super) refused: BTreeMap<Key, u32>,
    /// Owners whose pods fail, and how long they wait before they replace the next one.
    replacing: BTreeMap<(Key, Box<str>), Replacing>,
    /// Components that do not run.
    stopped: BTreeSet<Component>,
    /// Whether one of them runs again, or otherwise than before, and has to read all objects.
    pub(super) has_restarted: bool,
    /// What is being worked on.
    pub(super) subject: Option<Subject>,
    pub(super) faults: Faults,
    /// Subjects at which a test has the control plane panic.
    #[cfg(test)]
    pub(super) trap: Option<fn(&Subject) -> bool>,
}

/// How long an owner waits after it has replaced a failed pod before it replaces the next one.
// upstream: pkg/controller/daemon/daemon_controller.go failedPodsBackoff, client-go util/flowcontrol/backoff.go (v1.36)
#[derive(Debug)]
struct Replacing {
    last: Timestamp,
    wait: SignedDuration,
}

const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(1);
const MAX_WAIT: SignedDuration = SignedDuration::from_mins(15);

/// An empty cluster as the scheduler sees it.
fn scheduler_cache(settings: &Settings, profiles: &Arc<Profiles>) -> SchedulerCache {
    let mut scheduler_cache = SchedulerCache::new(settings.tie_break());
    scheduler_cache.set_selector_language(Arc::new(Language));
    scheduler_cache.set_profiles(Arc::clone(profiles));
    scheduler_cache.set_features(settings.features);
    scheduler_cache
}

impl Plane {
    pub(super) fn new(cluster: Arc<Cluster>, settings: Settings) -> Self {
        let scheduler_cache = scheduler_cache(&settings, &settings.profiles);
        let recorder = Recorder::new(settings.only_warnings);
        let queue = if settings.shuffled { Queue::shuffled(settings.seed) } else { Queue::default() };
        Self {
            cluster,
            settings,
            view: View::default(),
            scheduler_cache,
            queue,
            recorder,
            refused: BTreeMap::new(),
            replacing: BTreeMap::new(),
            stopped: BTreeSet::new(),
            has_restarted: false,
            subject: None,
            faults: Faults::default(),
            #[cfg(test)]
            trap: None,
        }
    }

    /// Forgets what is known of the cluster, before all objects are read again.
    pub(super) fn forget(&mut self) {
        self.view = View::default();
        self.scheduler_cache = scheduler_cache(&self.settings, self.scheduler_cache.profiles());
    }

    /// Has the scheduler go on with these profiles: it reads all objects again.
    pub(super) fn set_profiles(&mut self, profiles: Profiles) {
        if **self.scheduler_cache.profiles() != profiles {
            self.scheduler_cache.set_profiles(Arc::new(profiles));
            self.has_restarted = true;
        }
    }

    /// Notes which components do not run from now on.
    pub(super) fn set_stopped(&mut self, stopped: BTreeSet<Component>) {
        self.has_restarted |= !self.stopped.is_subset(&stopped);
        self.stopped = stopped;
    }

    /// Whether a component does not run.
    pub(super) fn is_stopped(&self, component: Component) -> bool {
        self.stopped.contains(&component)
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

    /// Whether an owner may replace a failed pod, made at `made`, in this place of its own (a node, or none): the first at
    /// once, further ones after 1 s, doubled each time up to 15 min. It comes back to the owner when that time is over.
    ///
    /// Upstream, DaemonSets wait like that; other owners are slowed down by the network and the kubelet alone. Here both
    /// answer at once: pods that fail as soon as they are made would be replaced without end at one instant.
    pub(super) fn may_replace(&mut self, key: &Key, place: &str, made: Timestamp) -> bool {
        let now = self.now();
        self.replacing.retain(|_, one| now.duration_since(one.last) <= MAX_WAIT.saturating_mul(2));
        let at = (key.clone(), Box::from(place));
        let wait = match self.replacing.get(&at) {
            None => FIRST_WAIT,
            // It was replaced already, and stays to be looked at.
            Some(replacing) if made.as_second() < replacing.last.as_second() => return true,
            Some(replacing) => {
                let due = later(replacing.last, replacing.wait);
                if due > now {
                    self.queue.add_at(key.clone(), due);
                    return false;
                }
                replacing.wait.saturating_mul(2).min(MAX_WAIT)
            }
        };
        self.replacing.insert(at, Replacing { last: now, wait });
        true
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
