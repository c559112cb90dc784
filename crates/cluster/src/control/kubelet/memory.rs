//! What a kubelet remembers of its pods beside their status: instants more exact than the seconds a status has, and
//! what it counts. All of it may be lost at a restart: then the status says what happened when.

use std::collections::{BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use klab_scheduler::hash::fnv32;

use super::super::queue::ObjectName;
use super::super::view::PodInfo;
use crate::clock::later;

/// The waiting time after the second failure, which each further one doubles, and the longest. A container that ran for twice
/// as long as that starts with the first again.
pub(super) type Span = (SignedDuration, SignedDuration);
/// What a kubelet waits for containers and images.
pub(super) const BACK_OFF: Span = (SignedDuration::from_secs(10), SignedDuration::from_mins(5));
/// What it waits for containers with the feature gate `ReduceDefaultCrashLoopBackOffDecay`.
// upstream: pkg/kubelet/kubelet.go newCrashLoopBackOff (v1.36)
pub(super) const REDUCED_BACK_OFF: Span = (SignedDuration::from_secs(1), SignedDuration::from_mins(1));

/// How often something is tried by time alone. By then there are no further events about it; a change of what is missing brings about
/// the next try.
pub(super) const TRIES: u32 = 25;
/// How long the second try to set up volumes is waited for; each further one doubles that, up to the most.
const FIRST: SignedDuration = SignedDuration::from_millis(500);
const MAX_VOLUME_WAIT: SignedDuration = SignedDuration::from_secs(122);
/// How long a kubelet waits for the volumes of a pod before it says so and begins again.
const PATIENCE: SignedDuration = SignedDuration::from_secs(123);
/// And how long it leaves the pod alone then.
const PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// What is remembered of each pod.
#[derive(Debug, Default)]
pub(super) struct Memories(HashMap<ObjectName, Memory>);

/// What is remembered of one pod.
#[derive(Debug, Default)]
pub(super) struct Memory {
    uid: Box<str>,
    step: Option<(Step, Timestamp)>,
    /// How it stands with its volumes, while they cannot be set up.
    pub(super) mounting: Option<Mounting>,
    /// When all its containers were removed, to start again.
    pub(super) reset: Option<Timestamp>,
    containers: Vec<(Box<str>, ContainerMemory)>,
}

/// What is remembered of a container.
#[derive(Debug, Default, Clone)]
pub(super) struct ContainerMemory {
    /// When it started.
    pub(super) since: Option<Timestamp>,
    /// How long it waits after its next failure.
    pub(super) back_off: Option<SignedDuration>,
    /// How often its image could not be pulled, and when last.
    pub(super) pulls: Option<(u32, Timestamp)>,
    /// How often it could not be created, and when last.
    pub(super) creations: Option<(u32, Timestamp)>,
    /// Files that it found in its volumes when it started.
    pub(super) seen: Option<BTreeSet<String>>,
    /// When the network answered what it waits for.
    pub(super) answered: Option<Timestamp>,
    /// Whether its failing probes have been reported since it started.
    pub(super) failures_reported: bool,
    /// Whether it has been reported that a probe has it ended.
    pub(super) end_reported: bool,
}

/// Tries to set up the volumes of a pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mounting {
    pub(super) since: Timestamp,
    pub(super) last: Timestamp,
    pub(super) tries: u32,
    /// How often it has been said that the kubelet has waited long enough.
    pub(super) reported: i64,
}

// upstream: pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go (v1.36)
impl Mounting {
    /// When the next try is due.
    pub(super) fn due(&self) -> Timestamp {
        let doublings = self.tries.saturating_sub(1).min(8);
        later(self.last, FIRST.saturating_mul(1 << doublings).min(MAX_VOLUME_WAIT))
    }

    /// When the kubelet has waited long enough for the next time.
    pub(super) fn over(&self) -> Timestamp {
        let rounds = i32::try_from(self.reported).unwrap_or(i32::MAX);
        later(self.since, PATIENCE.saturating_add(PATIENCE.saturating_add(PAUSE).saturating_mul(rounds)))
    }

    /// How often it has waited long enough by then.
    pub(super) fn rounds(&self, now: Timestamp) -> i64 {
        let waited = now.duration_since(self.since).saturating_sub(PATIENCE);
        if waited.is_negative() { 0 } else { 1 + waited.as_secs() / PATIENCE.saturating_add(PAUSE).as_secs() }
    }
}

/// What becomes of a pod on a hollow node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Its containers start.
    Start,
    /// Its containers are ended.
    Stop,
}

impl Memories {
    /// The pod is gone.
    pub(super) fn forget(&mut self, name: &ObjectName) {
        self.0.remove(name);
    }

    /// What is remembered of a pod; taken out, to be put back if there is something in it.
    pub(super) fn take(&mut self, pod: &PodInfo) -> Memory {
        match self.0.remove(&pod.name()) {
            Some(memory) if memory.uid == pod.object.uid => memory,
            _ => Memory { uid: pod.object.uid.clone(), ..Memory::default() },
        }
    }

    /// Puts back what was taken.
    pub(super) fn put(&mut self, pod: &PodInfo, memory: Memory) {
        let is_empty = memory.step.is_none() && memory.mounting.is_none() && memory.reset.is_none();
        if !is_empty || !memory.containers.is_empty() {
            self.0.insert(pod.name(), memory);
        }
    }
}

impl Memory {
    /// What is remembered of a container.
    pub(super) fn of(&mut self, container: &str) -> &mut ContainerMemory {
        let at = self.containers.iter().position(|(name, _)| **name == *container).unwrap_or_else(|| {
            self.containers.push((container.into(), ContainerMemory::default()));
            self.containers.len() - 1
        });
        &mut self.containers[at].1
    }

    /// The same without making a note of it.
    pub(super) fn known(&self, container: &str) -> Option<&ContainerMemory> {
        self.containers.iter().find(|(name, _)| **name == *container).map(|(_, kept)| kept)
    }

    /// When the step is due; set to `now + delay` when it is first asked for, and whether this was the first time.
    pub(super) fn due(
        &mut self,
        pod: &PodInfo,
        step: Step,
        now: Timestamp,
        delay: SignedDuration,
    ) -> (Timestamp, bool) {
        if let Some((have, due)) = self.step
            && have == step
        {
            return (due, false);
        }
        let spread = if step == Step::Start { spread(pod, delay) } else { SignedDuration::ZERO };
        let due = later(now, delay.saturating_add(spread));
        self.step = Some((step, due));
        (due, true)
    }

    /// How long a container that has ended waits until it is started again, counted from its end; called once for each
    /// start. `restarts` is what its status counts, for a kubelet that has forgotten.
    // upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go Next, IsInBackOffSince (v1.36)
    pub(super) fn back_off(
        &self,
        container: &str,
        ran: SignedDuration,
        restarts: i64,
        (first, most): Span,
    ) -> SignedDuration {
        if ran > most.saturating_mul(2) {
            return SignedDuration::ZERO;
        }
        match self.known(container).and_then(|kept| kept.back_off) {
            Some(wait) => wait,
            None if restarts <= 0 => SignedDuration::ZERO,
            None => doubled(restarts.saturating_sub(1), (first, most)),
        }
    }

    /// The container is started again: what the next wait will be.
    pub(super) fn started_again(&mut self, container: &str, waited: SignedDuration, (first, most): Span) {
        let wait = if waited.is_zero() { first } else { waited.saturating_mul(2).min(most) };
        self.of(container).back_off = Some(wait);
    }
}

/// The first waiting time, doubled `times` times.
pub(super) fn doubled(times: i64, (first, most): Span) -> SignedDuration {
    first.saturating_mul(1 << times.clamp(0, 6)).min(most)
}

/// Pods of one age do not act at one instant: up to a fifth of the delay more, the same for a pod in every run.
fn spread(pod: &PodInfo, delay: SignedDuration) -> SignedDuration {
    let share = fnv32(&[pod.object.name.as_bytes()]) % 200;
    SignedDuration::from_millis((delay.as_millis() * i128::from(share) / 1000) as i64)
}
