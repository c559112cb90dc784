//! Deadlines on the machine's own clock: sums of instants and durations that cannot leave their range.

use std::time::{Duration, Instant};

/// As good as never; any clock can tell it.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// `by` after an instant; where no clock could tell that, in a hundred years.
pub fn after(instant: Instant, by: Duration) -> Instant {
    instant.checked_add(by).or_else(|| instant.checked_add(NEVER)).unwrap_or(instant)
}

/// The instant from which a limit that begins now has been reached.
pub fn within(limit: Duration) -> Instant {
    after(Instant::now(), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_of_any_length_lies_ahead() {
        let now = Instant::now();
        assert_eq!(after(now, Duration::ZERO), now);
        assert!(after(now, Duration::MAX) > after(now, Duration::from_secs(1)));
    }
}
