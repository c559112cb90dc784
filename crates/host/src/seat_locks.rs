//! Which seats somebody works on: one at a time works on each.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::seat::SeatId;

/// The seats that are worked on.
#[derive(Debug, Default)]
pub struct SeatLocks {
    taken: Mutex<HashSet<SeatId>>,
}

/// The right to work on a seat, until this is dropped.
#[derive(Debug)]
pub struct SeatLock<'t> {
    turns: &'t SeatLocks,
    seat: SeatId,
}

impl SeatLocks {
    /// The right to work on a seat, if it is free.
    pub fn take(&self, seat: SeatId) -> Option<SeatLock<'_>> {
        let is_free = self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(seat);
        // Dropping a turn gives the seat back, so none is made for a seat that is taken.
        is_free.then(|| SeatLock { turns: self, seat })
    }

    /// Does something short if no command works on the seat. Commands that come meanwhile wait; none is refused.
    pub fn while_free<T>(&self, seat: SeatId, act: impl FnOnce() -> T) -> Option<T> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        (!taken.contains(&seat)).then(act)
    }
}

impl Drop for SeatLock<'_> {
    fn drop(&mut self) {
        self.turns.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.seat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_works_on_a_seat_and_others_on_others() {
        let turns = SeatLocks::default();
        let [one, two] = [1, 2].map(|number| SeatId { shard: 0, number });
        let held = turns.take(one);
        assert!(held.is_some() && turns.take(one).is_none() && turns.take(two).is_some());
        assert_eq!([one, two].map(|seat| turns.while_free(seat, || ()).is_some()), [false, true]);
        drop(held);
        assert!(turns.while_free(one, || ()).is_some() && turns.take(one).is_some());
    }
}
