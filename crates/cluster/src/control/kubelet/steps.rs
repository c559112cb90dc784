//! When the next step of each pod on a hollow node is due.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use super::super::queue::ObjectName;
use super::super::view::PodInfo;
use crate::clock::later;
use klab_scheduler::hash::fnv32;

/// When the next step of each pod is due. Lost at a restart, after which the step's full delay runs again.
#[derive(Debug, Default)]
pub(super) struct Steps(HashMap<ObjectName, (Box<str>, Step, Timestamp)>);

/// What becomes of a pod on a hollow node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Its containers start.
    Start,
    /// Its containers end by themselves.
    Finish,
    /// Its containers are ended.
    Stop,
}

impl Steps {
    /// The pod is gone.
    pub(super) fn forget(&mut self, name: &ObjectName) {
        self.0.remove(name);
    }

    /// When the step is due; set to `now + delay` when it is first asked for, and whether this was the first time.
    pub(super) fn due(
        &mut self,
        pod: &PodInfo,
        step: Step,
        now: Timestamp,
        delay: SignedDuration,
    ) -> (Timestamp, bool) {
        let name = pod.name();
        if let Some((uid, have, due)) = self.0.get(&name)
            && *uid == pod.object.uid
            && *have == step
        {
            return (*due, false);
        }
        let spread = if step == Step::Start { spread(pod, delay) } else { SignedDuration::ZERO };
        let due = later(now, delay.saturating_add(spread));
        self.0.insert(name, (pod.object.uid.clone(), step, due));
        (due, true)
    }
}

/// Pods of one age do not act at one instant: up to a fifth of the delay more, the same for a pod in every run.
fn spread(pod: &PodInfo, delay: SignedDuration) -> SignedDuration {
    let share = fnv32(&[pod.object.name.as_bytes()]) % 200;
    SignedDuration::from_millis((delay.as_millis() * i128::from(share) / 1000) as i64)
}
