//! Pure: when to say, where nothing lives on the screen, that something is still going on.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use klab_lab::words::duration;

/// How long nothing is said of an activity, and how long until it is said again.
const FIRST: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(60);

/// Activities that are under way, each with when it is due to be spoken of.
#[derive(Debug, Default)]
pub(super) struct Slow(HashMap<u64, Going>);

#[derive(Debug)]
struct Going {
    verb: &'static str,
    what: String,
    detail: String,
    begun: Instant,
    due: Instant,
}

impl Slow {
    /// An activity began.
    pub(super) fn begin(&mut self, id: u64, verb: &'static str, what: &str, now: Instant) {
        let due = klab_cluster::deadline::after(now, FIRST);
        self.0.insert(id, Going { verb, what: what.to_owned(), detail: String::new(), begun: now, due });
    }

    /// Where an activity is.
    pub(super) fn is_at(&mut self, id: u64, detail: &str) {
        if let Some(going) = self.0.get_mut(&id) {
            detail.clone_into(&mut going.detail);
        }
    }

    /// What is to be said now: of each activity that is due its verb, and in words what it is about, for how long, and where it
    /// is.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(&'static str, String)> {
        let due = self.0.values_mut().filter(|going| going.due <= now);
        let said = due.map(|going| {
            going.due = klab_cluster::deadline::after(now, AGAIN);
            let since = duration(now.saturating_duration_since(going.begun));
            let detail = if going.detail.is_empty() { String::new() } else { format!(": {}", going.detail) };
            (going.verb, format!("{}, {since} so far{detail}", going.what))
        });
        said.collect()
    }

    /// It is over.
    pub(super) fn end(&mut self, id: u64) {
        self.0.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_long_is_spoken_of_and_not_at_every_step() {
        let begun = Instant::now();
        let at = |seconds: u64| begun.checked_add(Duration::from_secs(seconds)).unwrap();
        let mut slow = Slow::default();
        let said =
            |slow: &mut Slow, seconds| slow.due(at(seconds)).pop().map(|(verb, words)| format!("{verb} {words}"));
        slow.begin(1, "Verifying", "3 checks", begun);
        assert_eq!(said(&mut slow, 9), None);
        assert_eq!(said(&mut slow, 11).as_deref(), Some("Verifying 3 checks, 11 s so far"));
        slow.is_at(1, "waiting for web");
        assert_eq!(said(&mut slow, 12), None);
        assert_eq!(said(&mut slow, 71).as_deref(), Some("Verifying 3 checks, 1m 11s so far: waiting for web"));
        slow.end(1);
        assert_eq!(said(&mut slow, 300), None);
    }
}
