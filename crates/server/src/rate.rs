//! How often, and how much: a bucket that fills with time and that each use takes from.

use std::time::Duration;

use tokio::time::Instant;

/// A bucket that holds so much at most, and fills at a steady rate.
#[derive(Debug)]
pub(super) struct Bucket {
    /// What is in it; below nothing where more was taken than there was.
    level: f64,
    at: Option<Instant>,
}

impl Bucket {
    /// A full one.
    pub(super) fn new() -> Self {
        Self { level: 0.0, at: None }
    }

    fn fill(&mut self, per_second: f64, most: f64, now: Instant) {
        self.level = match self.at {
            Some(at) => (self.level + now.saturating_duration_since(at).as_secs_f64() * per_second).min(most),
            None => most,
        };
        self.at = Some(now);
    }

    /// Takes one, if there is one; else says how long it takes until there is.
    pub(super) fn take_one(&mut self, per_second: f64, most: f64, now: Instant) -> Result<(), Duration> {
        self.fill(per_second, most, now);
        if self.level >= 1.0 {
            self.level -= 1.0;
            return Ok(());
        }
        Err(wait((1.0 - self.level) / per_second))
    }

    /// Takes so much, whether it is there or not.
    pub(super) fn spend(&mut self, amount: f64, per_second: f64, most: f64, now: Instant) {
        self.fill(per_second, most, now);
        self.level -= amount;
    }

    /// How long it takes until nothing is owed.
    pub(super) fn owes(&mut self, per_second: f64, most: f64, now: Instant) -> Duration {
        self.fill(per_second, most, now);
        if self.level >= 0.0 { Duration::ZERO } else { wait(-self.level / per_second) }
    }
}

fn wait(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_what_is_in_it_and_then_as_fast_as_it_fills() {
        let start = Instant::now();
        let at = |millis: u64| start.checked_add(Duration::from_millis(millis)).unwrap();
        let mut bucket = Bucket::new();
        let taken = (0..10).filter(|_| bucket.take_one(2.0, 5.0, at(0)).is_ok()).count();
        assert_eq!(taken, 5);
        assert_eq!(bucket.take_one(2.0, 5.0, at(0)), Err(Duration::from_millis(500)));
        assert_eq!(bucket.take_one(2.0, 5.0, at(500)), Ok(()));
        let taken = (0..100).filter(|number| bucket.take_one(2.0, 5.0, at(1000 + number * 100)).is_ok()).count();
        assert!((20..=22).contains(&taken), "{taken}");
    }

    #[test]
    fn what_was_spent_beyond_is_owed() {
        let start = Instant::now();
        let mut bucket = Bucket::new();
        bucket.spend(0.3, 0.5, 0.1, start);
        assert_eq!(bucket.owes(0.5, 0.1, start), Duration::from_millis(400));
        let later = start.checked_add(Duration::from_millis(400)).unwrap();
        assert!(bucket.owes(0.5, 0.1, later) < Duration::from_millis(1));
    }
}
