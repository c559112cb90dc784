//! The clock of an embedded cluster: the system's, or one that tests and `klab test` step.

use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};

/// Where an embedded cluster takes its time from.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

/// `by` after an instant. Objects hold periods of any length: where the sum is beyond what an instant can be, it is the
/// last one.
pub fn later(instant: Timestamp, by: SignedDuration) -> Timestamp {
    instant.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// `by` before an instant, and not before the first one.
pub fn earlier(instant: Timestamp, by: SignedDuration) -> Timestamp {
    instant.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

/// The machine's own clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still until it is stepped, so that a five minute eviction takes microseconds. By default it shows
/// a Monday morning.
#[derive(Debug)]
pub struct SteppedClock(Mutex<Timestamp>);

/// When a cluster begins that is not given a clock.
const BEGINNING: &str = "2026-06-01T08:00:00Z";

impl Default for SteppedClock {
    fn default() -> Self {
        Self::new(BEGINNING.parse().unwrap_or(Timestamp::UNIX_EPOCH))
    }
}

impl SteppedClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Mutex::new(start))
    }

    /// Moves the clock forward.
    pub fn step(&self, by: SignedDuration) {
        let mut now = self.lock();
        *now = later(*now, by);
    }

    /// Moves the clock to `instant`, never backwards.
    pub fn step_to(&self, instant: Timestamp) {
        let mut now = self.lock();
        *now = (*now).max(instant);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Timestamp> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        *self.lock()
    }
}
