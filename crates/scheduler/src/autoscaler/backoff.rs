//! Pools whose nodes did not come: for a while no more are asked of them, each time for longer.

// upstream: cluster-autoscaler/utils/backoff/exponential_backoff.go Backoff, BackoffStatus, RemoveStaleBackoffData (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

/// How long a pool is left alone at first (`--initial-node-group-backoff-duration`).
pub const FIRST: SignedDuration = SignedDuration::from_mins(5);
/// How long it is left alone at most (`--max-node-group-backoff-duration`).
const MAX_BACKOFF: SignedDuration = SignedDuration::from_mins(30);
/// So long after its last failure it counts as one that never failed (`--node-group-backoff-reset-timeout`).
const RESET: SignedDuration = SignedDuration::from_hours(3);

/// Why a pool did not grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// In one word, such as `timeout`.
    pub code: &'static str,
    /// In a sentence.
    pub message: String,
}

/// The pools that failed to grow.
#[derive(Debug, Clone, Default)]
pub struct Backoffs(BTreeMap<Arc<str>, Backoff>);

#[derive(Debug, Clone)]
struct Backoff {
    duration: SignedDuration,
    until: Timestamp,
    failed: Timestamp,
    failure: Failure,
}

impl Backoffs {
    /// Notes that a pool failed to grow.
    pub fn fail(&mut self, group: &Arc<str>, failure: Failure, now: Timestamp) {
        let duration = match self.0.get(group) {
            None => FIRST,
            // Failures at the same time do not count twice.
            Some(known) if known.until >= now => known.duration,
            Some(known) => known.duration.saturating_add(known.duration).min(MAX_BACKOFF),
        };
        let until = now.saturating_add(duration).unwrap_or(Timestamp::MAX);
        self.0.insert(Arc::clone(group), Backoff { duration, until, failed: now, failure });
    }

    /// Why a pool is left alone, if it is.
    pub fn of(&self, group: &str, now: Timestamp) -> Option<&Failure> {
        self.0.get(group).filter(|known| known.until >= now).map(|known| &known.failure)
    }

    /// Forgets failures of long ago.
    pub fn forget_stale(&mut self, now: Timestamp) {
        self.0.retain(|_, known| now.duration_since(known.failed) <= RESET);
    }

    /// The last instants at which pools that are left alone now still are.
    pub fn ends(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        self.0.values().map(|known| known.until).filter(move |until| *until >= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_fails_again_and_again_is_left_alone_for_longer_and_longer() {
        let at = |minutes: i64| Timestamp::from_second(minutes * 60).unwrap();
        let mut backoffs = Backoffs::default();
        let group: Arc<str> = "a".into();
        let failure = || Failure { code: "timeout", message: "too late".to_owned() };
        let mut now = 0;
        for minutes in [5, 10, 20, 30, 30] {
            backoffs.fail(&group, failure(), at(now));
            // Another failure at the same time changes nothing about how long.
            backoffs.fail(&group, failure(), at(now));
            assert_eq!(backoffs.ends(at(now)).collect::<Vec<_>>(), [at(now + minutes)]);
            assert_eq!(backoffs.of("a", at(now + minutes)), Some(&failure()));
            now += minutes + 1;
            assert_eq!(backoffs.of("a", at(now)), None);
        }
        assert_eq!(backoffs.of("b", at(0)), None);
        backoffs.forget_stale(at(now + 60));
        backoffs.fail(&group, failure(), at(now + 60));
        assert_eq!(backoffs.ends(at(now)).next(), Some(at(now + 90)));
        backoffs.forget_stale(at(now + 60 + 181));
        backoffs.fail(&group, failure(), at(now + 300));
        assert_eq!(backoffs.ends(at(now)).next(), Some(at(now + 305)));
    }
}
