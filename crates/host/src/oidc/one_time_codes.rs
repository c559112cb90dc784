//! Codes that are good once and for a short while: they take a sign-in from a browser to a terminal.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a pass is good.
pub(crate) const LONG: Duration = Duration::from_mins(15);
/// Letters of a pass.
pub(crate) const LETTERS: usize = 12;

/// The passes that are good: one of each person, by what is kept of it.
#[derive(Debug, Default)]
pub(crate) struct OneTimeCodes {
    by_hash: HashMap<String, (u32, Instant)>,
    by_person: HashMap<u32, String>,
}

impl OneTimeCodes {
    /// Gives somebody a pass in place of the one they had.
    pub(crate) fn give(&mut self, person: u32, hash: String, now: Instant) {
        if let Some(old) = self.by_person.insert(person, hash.clone()) {
            self.by_hash.remove(&old);
        }
        self.by_hash.insert(hash, (person, now));
    }

    /// Whether there is such a pass.
    pub(crate) fn knows(&self, hash: &str, now: Instant) -> bool {
        self.by_hash.get(hash).is_some_and(|(_, since)| now.saturating_duration_since(*since) < LONG)
    }

    /// Whose pass it is; it is none from now on.
    pub(crate) fn take(&mut self, hash: &str, now: Instant) -> Option<u32> {
        let is_good = self.knows(hash, now);
        let (person, _) = self.by_hash.remove(hash)?;
        self.by_person.remove(&person);
        is_good.then_some(person)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_good_once_and_for_a_while() {
        let (mut passes, now) = (OneTimeCodes::default(), Instant::now());
        passes.give(1, "a".into(), now);
        passes.give(2, "b".into(), now);
        assert_eq!((passes.take("a", now), passes.take("a", now)), (Some(1), None));
        passes.give(2, "c".into(), now);
        assert!(!passes.knows("b", now) && passes.knows("c", now), "each has one");
        assert_eq!(passes.take("c", now + LONG), None);
        assert!(passes.by_hash.is_empty() && passes.by_person.is_empty());
    }
}
