//! How long a Job waits after pods that failed: 10 s, doubled for each failure since the last success, at most 10 min.

// upstream: pkg/controller/job/backoff_utils.go newBackoffRecord, getFinishedTime, getRemainingTime (v1.36)

use super::super::view::PodInfo;
use crate::clock::{earlier, later};
use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::views::{Container, ContainerStatus, Pod};

const FIRST: i64 = 10;
const MAX_BACKOFF: i64 = 600;

/// The failures since the last success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Record {
    failures: i64,
    last: Option<Timestamp>,
}

impl Record {
    /// The record after more pods have ended, given by when they did.
    pub(super) fn after(self, succeeded: &[Timestamp], failed: &[Timestamp]) -> Self {
        let Some(success) = succeeded.iter().max() else {
            let last = failed.iter().copied().max();
            return Self { failures: self.failures + failed.len() as i64, last: last.or(self.last) };
        };
        let since: Vec<Timestamp> = failed.iter().copied().filter(|at| at > success).collect();
        Self { failures: since.len() as i64, last: since.into_iter().max() }
    }

    /// Until when no pod is to be made.
    pub(super) fn end(self) -> Option<Timestamp> {
        self.last.and_then(|last| end_after(self.failures, last))
    }
}

/// Until when the controller makes no pod after `failures` failures, the last of them at `last`.
pub(super) fn end_after(failures: i64, last: Timestamp) -> Option<Timestamp> {
    if failures == 0 {
        return None;
    }
    let doubled = FIRST.saturating_mul(1 << (failures - 1).clamp(0, 10));
    Some(later(last, SignedDuration::from_secs(doubled.min(MAX_BACKOFF))))
}

/// When a pod ended: as its containers say, or its readiness, or its deletion.
pub(super) fn finished_at(pod: &PodInfo, value: Pod<'_>) -> Timestamp {
    let (metadata, status) = (value.metadata(), value.status());
    let ended = |status: ContainerStatus<'_>| status.state().terminated().finished_at();
    let sidecars = value.spec().init_containers().filter(|container| container.restart_policy() == Some("Always"));
    let sidecars: Vec<&str> = sidecars.map(Container::name).collect();
    let beside = status.init_container_statuses().filter(|status| sidecars.contains(&status.name()));
    let containers: Option<Vec<Timestamp>> = status.container_statuses().chain(beside).map(ended).collect();
    let unready = || {
        let ready = status.conditions().of_type("Ready")?;
        ready.last_transition_time().filter(|_| ready.status() == "False")
    };
    let deleted = || {
        let grace = metadata.deletion_grace_period_seconds().unwrap_or_default();
        Some(earlier(metadata.deletion_timestamp()?, SignedDuration::from_secs(grace)))
    };
    containers.and_then(|ends| ends.into_iter().max()).or_else(unready).or_else(deleted).unwrap_or(pod.created)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn waiting_doubles_with_each_failure_since_the_last_success() {
        let none = Record::default();
        assert_eq!(none.end(), None);
        let twice = none.after(&[], &[at(1)]).after(&[], &[at(30)]);
        assert_eq!(twice.end(), Some(at(50)));
        assert_eq!(twice.after(&[], &[]), twice);
        assert_eq!(twice.after(&[at(40)], &[]), none);
        assert_eq!(twice.after(&[at(40)], &[at(39), at(45)]).end(), Some(at(55)));
        assert_eq!(end_after(30, at(0)), Some(at(600)));
    }
}
