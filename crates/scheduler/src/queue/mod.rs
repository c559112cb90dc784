//! The scheduling queue: which pending pod is tried next, and what brings back one that could not be placed.
//!
//! Pods wait in one of four places, as in kube-scheduler. *Active* pods are tried, highest priority first, then in order
//! of entry. A pod that failed is *unschedulable* until something happens that can help it; it then backs off (1 s,
//! doubling to 10 s) and becomes active. When nothing is active, pods that back off are tried at once, unless an error sent
//! them back. *Gated* pods wait for their scheduling gates to go. Nothing here knows the time; it is given.

mod event;
mod hints;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

pub use event::{Event, PodFacts};

use self::event::Kind;
use super::decision::{Decision, Outcome};
use super::devices::known_names;
use super::error::ObjectError;
use super::hash::mix;
use super::pod_info::{PodInfo, namespace_of};
use super::pod_key::PodKey;
use super::profile::{Profile, Profiles, default_profile};
use super::reason::PluginName;

/// Backoff after the first failure.
pub const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
/// Longest backoff.
pub const MAX_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
/// How long a pod stays unschedulable without any event that can help; then it is tried anyway.
pub const SWEEP_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Where a pod waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It is tried as soon as it is its turn.
    Active,
    /// It is tried when its backoff ends, or earlier if nothing else is active.
    BackingOff {
        /// End of the backoff.
        until: Timestamp,
    },
    /// It waits for an event that can help.
    Unschedulable {
        /// When it failed.
        since: Timestamp,
    },
    /// It has scheduling gates.
    Gated,
    /// Its resource claims are not there yet.
    AwaitingClaims,
}

#[derive(Debug, Clone)]
struct Waiting {
    facts: PodFacts,
    /// When it entered, or failed the last time.
    entered: Timestamp,
    /// Order of entry, for equal times.
    number: u64,
    failures: u32,
    /// Whether it failed with an error and not with a plugin's verdict: nothing shortens its backoff then.
    erred: bool,
    /// The plugins that refused it; events are judged by these.
    refused_by: Vec<PluginName>,
    place: Place,
    /// The place of its profile.
    profile: usize,
}

type Rank = (Reverse<i32>, Timestamp, u64);

/// Pending pods and their order.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    pods: BTreeMap<PodKey, Waiting>,
    active: BTreeMap<Rank, PodKey>,
    backing_off: BTreeSet<(Timestamp, Rank, PodKey)>,
    /// Those that back off after an error, by its end.
    after_error: BTreeSet<(Timestamp, PodKey)>,
    /// Unschedulable pods by the time they failed.
    unschedulable: BTreeSet<(Timestamp, PodKey)>,
    /// Pods whose resource claims are not there yet.
    awaiting_claims: BTreeSet<PodKey>,
    /// Pods handed out by [`Self::pop`] whose result is not known yet.
    in_flight: BTreeMap<PodKey, Waiting>,
    entered: u64,
    /// Decides in place of the order of entry.
    shuffled: Option<u64>,
    /// Pods of other schedulers do not wait here.
    profiles: Arc<Profiles>,
}

impl Queue {
    /// An empty queue for the pods of the default scheduler.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes over the profiles of a configured scheduler: only pods that ask for one of them wait here.
    pub fn set_profiles(&mut self, profiles: &Arc<Profiles>) {
        if !Arc::ptr_eq(&self.profiles, profiles) {
            self.profiles = Arc::clone(profiles);
        }
    }

    /// Among pods of one priority that come at the same instant a seed decides which is tried first, and not the order in which they
    /// came: controllers of a real cluster work side by side.
    pub fn shuffle(&mut self, seed: u64) {
        self.shuffled = Some(seed);
    }

    /// Takes in a new pending pod, or the changes of one that waits. Pods that are bound, finished, being deleted or of
    /// another scheduler do not wait here: they are removed.
    pub fn set(&mut self, pod: &Pod, now: Timestamp) -> Result<(), ObjectError> {
        let name = pod.metadata.name.as_deref().ok_or(ObjectError::Missing { field: "metadata.name" })?;
        let key = PodKey::new(namespace_of(pod), name);
        let profiles = Arc::clone(&self.profiles);
        let Some((spec, profile)) = pod.spec.as_ref().filter(|_| waits(pod)).zip(profiles.of(pod)) else {
            self.remove(&key);
            return Ok(());
        };
        let facts = PodFacts {
            info: Arc::new(PodInfo::from_api(pod)?),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            resource_claims: known_names(pod),
        };
        let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
        if let Some(waiting) = self.in_flight.get_mut(&key) {
            waiting.facts = facts;
            return Ok(());
        }
        let Some(mut waiting) = self.take(&key) else {
            let number = self.shuffled.map_or(self.entered, |seed| mix(seed ^ self.entered));
            self.entered += 1;
            let place = if gated { Place::Gated } else { Place::Active };
            let (profile, refused_by) = (profile.place, Vec::new());
            // Those that waited before they were read come in the order in which they were made: when they were tried the last time,
            // which is what counts, no object says.
            let made = pod.metadata.creation_timestamp.as_ref().filter(|_| self.shuffled.is_none());
            let made = made.map_or(now, |made| made.0);
            let waiting = Waiting {
                entered: made.min(now),
                failures: 0,
                erred: false,
                refused_by,
                facts,
                number,
                place,
                profile,
            };
            self.put(key, waiting);
            return Ok(());
        };
        let old = std::mem::replace(&mut waiting.facts, facts);
        waiting.place = match waiting.place {
            _ if gated => Place::Gated,
            Place::Unschedulable { .. } => {
                let event = Event::ItselfChanged { old, new: waiting.facts.clone() };
                // No row asks what devices are for a change of the pod itself.
                let helped = waiting.is_helped(profile, &event, &event.kinds(), &|_| false);
                if helped { waiting.place_after_event(now) } else { waiting.place }
            }
            Place::Gated | Place::AwaitingClaims => Place::Active,
            place => place,
        };
        self.put(key, waiting);
        Ok(())
    }

    /// Forgets a pod that was bound or deleted.
    pub fn remove(&mut self, key: &PodKey) {
        self.take(key);
        self.in_flight.remove(key);
    }

    /// The pod to try next. Tell the queue what came of it with [`Self::failed`] or [`Self::remove`].
    pub fn pop(&mut self, now: Timestamp) -> Option<PodKey> {
        self.flush(now);
        let key = match self.active.first_key_value() {
            Some((_, key)) => key.clone(),
            None => self.backing_off.first().map(|(_, _, key)| key.clone())?,
        };
        let waiting = self.take(&key)?;
        self.in_flight.insert(key.clone(), waiting);
        Some(key)
    }

    /// Takes back a pod that could not be placed (or for which pods are being evicted).
    pub fn failed(&mut self, decision: &Decision, now: Timestamp) {
        let Some(mut waiting) = self.in_flight.remove(&decision.pod) else { return };
        waiting.failures += 1;
        waiting.entered = now;
        // Of those that fail at one instant, the first to be tried goes on being the first.
        waiting.number = self.entered;
        self.entered += 1;
        waiting.refused_by.clone_from(&decision.refused_by);
        waiting.erred = !matches!(decision.outcome, Outcome::Unschedulable { .. } | Outcome::Preempting(_));
        waiting.place = Place::Unschedulable { since: now };
        self.put(decision.pod.clone(), waiting);
    }

    /// Takes back a pod whose resource claims are not there yet: it is tried again when one of them comes, or when it
    /// changes itself. That counts as no failure.
    pub fn awaits_claims(&mut self, key: &PodKey) {
        let Some(mut waiting) = self.in_flight.remove(key) else { return };
        waiting.place = Place::AwaitingClaims;
        self.put(key.clone(), waiting);
    }

    /// Brings back the pods that an event can help. Returns how many. `is_devices` says whether a resource is the devices of
    /// a class.
    pub fn event(&mut self, event: &Event, is_devices: &dyn Fn(&str) -> bool, now: Timestamp) -> usize {
        let kinds = event.kinds();
        let profile = |waiting: &Waiting| self.profiles.all().get(waiting.profile).unwrap_or_else(|| default_profile());
        let can_help = |key: &PodKey| {
            self.pods.get(key).is_some_and(|waiting| waiting.is_helped(profile(waiting), event, &kinds, is_devices))
        };
        let waiting = self.unschedulable.iter().map(|(_, key)| key);
        let helped: Vec<_> = waiting.filter(|key| can_help(key)).cloned().collect();
        for key in &helped {
            self.bring_back(key, now);
        }
        let concerned = |key: &&PodKey| self.pods.get(*key).is_some_and(|pod| hints::uses(event, &pod.facts));
        let come: Vec<_> = self.awaiting_claims.iter().filter(concerned).cloned().collect();
        for key in &come {
            if let Some(mut waiting) = self.take(key) {
                waiting.place = Place::Active;
                self.put(key.clone(), waiting);
            }
        }
        helped.len() + come.len()
    }

    /// When the queue next has something to do without any event: the end of a backoff or a sweep. `None` if pods are
    /// ready now or nothing waits for time to pass.
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.is_ready() {
            return None;
        }
        let sweep = self.unschedulable.first().map(|(since, _)| after(*since, SWEEP_AFTER));
        self.after_error.first().map(|(until, _)| *until).into_iter().chain(sweep).min()
    }

    /// Whether [`Self::pop`] would hand out a pod without time passing.
    pub fn is_ready(&self) -> bool {
        !self.active.is_empty() || !self.backing_off.is_empty()
    }

    /// Where a pod waits; `None` if it does not.
    pub fn place(&self, key: &PodKey) -> Option<Place> {
        self.pods.get(key).map(|waiting| waiting.place)
    }

    /// How many pods wait.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether no pod waits.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Ends backoffs whose time has come, and sweeps pods that waited too long for an event.
    fn flush(&mut self, now: Timestamp) {
        loop {
            let over = self.backing_off.first().filter(|(until, _, _)| *until <= now).map(|(_, _, key)| key.clone());
            let over = over
                .or_else(|| self.after_error.first().filter(|(until, _)| *until <= now).map(|(_, key)| key.clone()));
            let Some(key) = over else { break };
            if let Some(mut waiting) = self.take(&key) {
                waiting.place = Place::Active;
                self.put(key, waiting);
            }
        }
        while let Some((_, key)) =
            self.unschedulable.first().filter(|(since, _)| after(*since, SWEEP_AFTER) <= now).cloned()
        {
            self.bring_back(&key, now);
        }
    }

    fn bring_back(&mut self, key: &PodKey, now: Timestamp) {
        if let Some(mut waiting) = self.take(key) {
            waiting.place = waiting.place_after_event(now);
            self.put(key.clone(), waiting);
        }
    }

    fn put(&mut self, key: PodKey, waiting: Waiting) {
        match waiting.place {
            Place::Active => drop(self.active.insert(waiting.rank(), key.clone())),
            Place::BackingOff { until } if waiting.erred => drop(self.after_error.insert((until, key.clone()))),
            Place::BackingOff { until } => drop(self.backing_off.insert((until, waiting.rank(), key.clone()))),
            Place::Unschedulable { since } => drop(self.unschedulable.insert((since, key.clone()))),
            Place::AwaitingClaims => drop(self.awaiting_claims.insert(key.clone())),
            Place::Gated => {}
        }
        self.pods.insert(key, waiting);
    }

    fn take(&mut self, key: &PodKey) -> Option<Waiting> {
        let waiting = self.pods.remove(key)?;
        match waiting.place {
            Place::Active => drop(self.active.remove(&waiting.rank())),
            Place::BackingOff { until } if waiting.erred => drop(self.after_error.remove(&(until, key.clone()))),
            Place::BackingOff { until } => drop(self.backing_off.remove(&(until, waiting.rank(), key.clone()))),
            Place::Unschedulable { since } => drop(self.unschedulable.remove(&(since, key.clone()))),
            Place::AwaitingClaims => drop(self.awaiting_claims.remove(key)),
            Place::Gated => {}
        }
        Some(waiting)
    }
}

fn after(instant: Timestamp, by: SignedDuration) -> Timestamp {
    instant.saturating_add(by).unwrap_or(Timestamp::MAX)
}

impl Waiting {
    fn rank(&self) -> Rank {
        (Reverse(self.facts.info.priority), self.entered, self.number)
    }

    /// Whether an event can help the pod.
    fn is_helped(&self, profile: &Profile, event: &Event, kinds: &[Kind], is_devices: &dyn Fn(&str) -> bool) -> bool {
        hints::can_help(&hints::Occasion { event, pod: &self.facts, profile, is_devices }, kinds, &self.refused_by)
    }

    /// Where the pod goes when something can help it.
    fn place_after_event(&self, now: Timestamp) -> Place {
        // After an error kube-scheduler goes on trying; here the next event does, but not at the same instant.
        let doublings = if self.erred { 0 } else { self.failures.saturating_sub(1).min(10) };
        let backoff = FIRST_BACKOFF.saturating_mul(1 << doublings).min(MAX_BACKOFF);
        let until = after(self.entered, backoff);
        if self.failures > 0 && until > now { Place::BackingOff { until } } else { Place::Active }
    }
}

fn waits(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let finished = matches!(status.and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"));
    let spec = pod.spec.as_ref();
    let bound = spec.and_then(|spec| spec.node_name.as_deref()).is_some_and(|name| !name.is_empty());
    !finished && !bound && pod.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests;
