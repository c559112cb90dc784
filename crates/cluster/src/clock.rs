//! The clock of an embedded cluster: the system's, or one that tests and `klab test` step.

use std::sync::Mutex;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
pub use klab_api_machinery::value::{earlier, later};

/// Where an embedded cluster takes its time from.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// How many times as fast as the machine's it goes.
    fn times(&self) -> u32 {
        1
    }

    /// How long the machine waits until the clock shows an instant.
    fn until(&self, instant: Timestamp) -> Duration {
        Duration::try_from(instant.duration_since(self.now())).unwrap_or_default() / self.times().max(1)
    }
}

/// The machine's own clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that goes faster than the machine's since an instant of the past. Tests of klab as a process use it: an autoscaler looks
/// every 15 seconds.
#[derive(Debug)]
pub struct FastClock {
    began: Timestamp,
    times: u32,
}

impl FastClock {
    /// A clock that goes this many times as fast as the machine's since `began`.
    pub fn new(began: Timestamp, times: u32) -> Self {
        Self { began, times }
    }
}

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        let passed = Timestamp::now().duration_since(self.began);
        later(self.began, passed.saturating_mul(i32::try_from(self.times).unwrap_or(i32::MAX)))
    }

    fn times(&self) -> u32 {
        self.times
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_clock_is_ahead_and_waits_for_less() {
        let minute = SignedDuration::from_mins(1);
        let clock = FastClock::new(earlier(Timestamp::now(), minute), 6);
        let (machine, shown) = (Timestamp::now(), clock.now());
        assert!(shown >= later(machine, minute * 5), "{shown}");
        let wait = clock.until(later(shown, minute));
        assert!(wait <= Duration::from_secs(10), "{wait:?}");
        assert_eq!(clock.until(machine), Duration::ZERO);
    }
}
