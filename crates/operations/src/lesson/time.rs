//! Time as lessons know it: how much has passed, and how to let more pass. Callers with a clock of their own step it.

use std::time::{Duration, Instant};

/// A clock that waiting goes through.
pub trait Time {
    /// How much time has passed since a moment that stays the same.
    fn now(&self) -> Duration;

    /// Lets so much time pass.
    fn pass(&self, duration: Duration);
}

/// The time of the machine.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    since: Instant,
}

impl Default for WallClock {
    fn default() -> Self {
        Self { since: Instant::now() }
    }
}

impl Time for WallClock {
    fn now(&self) -> Duration {
        self.since.elapsed()
    }

    fn pass(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
