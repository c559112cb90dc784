//! Which seats somebody works on: one at a time works on each.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::seat::SeatId;

/// The seats that are worked on.
#[derive(Debug, Default)]
pub struct Turns {
    taken: Mutex<HashSet<SeatId>>,
}

/// The right to work on a seat, until this is dropped.
#[derive(Debug)]
pub struct Turn<'t> {
    turns: &'t Turns,
    seat: SeatId,
}

impl Turns {
    /// The right to work on a seat, if nobody has it.
    pub fn take(&self, seat: SeatId) -> Option<Turn<'_>> {
        let is_free = self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(seat);
        is_free.then_some(Turn { turns: self, seat })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.seat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_works_on_a_seat_and_others_on_others() {
        let turns = Turns::default();
        let [one, two] = [1, 2].map(|number| SeatId { shard: 0, number });
        let held = turns.take(one);
        assert!(held.is_some() && turns.take(one).is_none() && turns.take(two).is_some());
        drop(held);
        assert!(turns.take(one).is_some());
    }
}
