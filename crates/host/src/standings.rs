//! Where all learners of a class are, and word of each change for those who look on.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::seat::SeatId;
use super::standing::LearnerProgress;

/// Where all learners are.
#[derive(Debug)]
pub struct Standings {
    inner: Mutex<Inner>,
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    all: BTreeMap<SeatId, LearnerProgress>,
    /// The number of the change that brought each.
    changed: BTreeMap<SeatId, u64>,
    last: u64,
}

impl Default for Standings {
    fn default() -> Self {
        Self { inner: Mutex::default(), newest: watch::Sender::new(0) }
    }
}

impl Standings {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in where a learner is.
    pub fn put(&self, standing: LearnerProgress) {
        let mut inner = self.lock();
        if inner.all.get(&standing.seat) == Some(&standing) {
            return;
        }
        inner.last = inner.last.saturating_add(1);
        let (last, seat) = (inner.last, standing.seat);
        inner.changed.insert(seat, last);
        inner.all.insert(seat, standing);
        self.newest.send_replace(last);
    }

    /// Says that something of the class itself is otherwise.
    pub fn stir(&self) {
        let mut inner = self.lock();
        inner.last = inner.last.saturating_add(1);
        self.newest.send_replace(inner.last);
    }

    /// Forgets all seats.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.all.clear();
        inner.changed.clear();
        drop(inner);
        self.stir();
    }

    /// Where a learner is, as far as somebody has looked.
    pub fn get(&self, seat: SeatId) -> Option<LearnerProgress> {
        self.lock().all.get(&seat).cloned()
    }

    /// Those that came after a change, and the number of the newest one.
    pub fn since(&self, number: u64) -> (u64, Vec<LearnerProgress>) {
        let inner = self.lock();
        let newer = inner.changed.iter().filter(|(_, changed)| **changed > number);
        (inner.last, newer.filter_map(|(seat, _)| inner.all.get(seat).cloned()).collect())
    }

    /// Hears of each change.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}
