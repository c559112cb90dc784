//! Seats that somebody looks at: the board of each as it is drawn, for all who look at it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::{Notify, watch};

use super::seat::SeatId;
use klab_lab::board::Board;
use klab_lab::verify::{Asides, KnownAsides};
use klab_operations::board::scene::{Changes, Number, Scene};
use klab_operations::error::Result;

/// Bytes that are kept of a board's past.
const PAST: usize = 512 << 10;

/// More changes than a board has while somebody looks at it. All numbers together are far from what a browser counts exactly.
const CHANGES: Number = 1 << 24;

/// What makes a page of the number of a board's newest change, its parts and its title.
pub type Written<'w> = &'w dyn Fn(Number, BTreeMap<&str, &str>, &str) -> Result<String>;

/// Who looks at a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Viewer {
    /// Whose it is.
    Learner,
    /// The instructor, who changes nothing there.
    Instructor,
}

/// A seat that is looked at.
pub struct Stage {
    /// Which.
    pub seat: SeatId,
    /// The lab in it.
    pub lab: String,
    /// Who looks.
    pub viewer: Viewer,
    scene: Mutex<(Scene, Option<Arc<Board>>)>,
    asides: Mutex<KnownAsides>,
    newest: watch::Sender<Number>,
    changed: Arc<Notify>,
}

/// The seats that are looked at.
#[derive(Default)]
pub struct Stages {
    all: Mutex<HashMap<(SeatId, Viewer), Weak<Stage>>>,
    begun: AtomicU64,
}

impl Stages {
    /// The board that somebody looks at already.
    pub fn get(&self, seat: SeatId, viewer: Viewer) -> Option<Arc<Stage>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, stage| stage.strong_count() > 0);
        all.get(&(seat, viewer)).and_then(Weak::upgrade)
    }

    /// A board of a seat on which nothing is drawn yet. Its changes have higher numbers than those of all boards before it: a page that
    /// slept, or loads slowly, may come back when its board is forgotten and another one is drawn.
    pub fn begin(&self, seat: SeatId, lab: &str, viewer: Viewer) -> Stage {
        let last = self.begun.fetch_add(CHANGES, Ordering::Relaxed);
        Stage {
            seat,
            lab: lab.to_owned(),
            viewer,
            scene: Mutex::new((Scene::keeping(PAST, last), None)),
            asides: Mutex::default(),
            newest: watch::Sender::new(last),
            changed: Arc::new(Notify::new()),
        }
    }

    /// Takes a board in, unless somebody was faster; gives the one that is looked at, and whether it is this one.
    pub fn put(&self, stage: Arc<Stage>) -> (Arc<Stage>, bool) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (stage.seat, stage.viewer);
        if let Some(known) = all.get(&key).and_then(Weak::upgrade) {
            return (known, false);
        }
        all.insert(key, Arc::downgrade(&stage));
        (stage, true)
    }

    /// Says that a seat has changed.
    pub fn poke(&self, seat: SeatId) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for viewer in [Viewer::Learner, Viewer::Instructor] {
            if let Some(stage) = all.get(&(seat, viewer)).and_then(Weak::upgrade) {
                stage.changed.notify_one();
            }
        }
    }

    /// Says that all seats may have changed.
    pub fn poke_all(&self) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().filter_map(Weak::upgrade).for_each(|stage| stage.changed.notify_one());
    }
}

impl Stage {
    fn lock(&self) -> MutexGuard<'_, (Scene, Option<Arc<Board>>)> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a board with these parts.
    pub fn show(&self, parts: Vec<(String, String)>, board: &Board) {
        let mut inner = self.lock();
        let board = match &inner.1 {
            Some(last) => Board::clone(board).after(last),
            None => Board::clone(board),
        };
        inner.0.show(parts, &board.moves, Timestamp::now().as_millisecond());
        inner.1 = Some(Arc::new(board));
        let last = inner.0.last();
        self.newest.send_if_modified(|newest| std::mem::replace(newest, last) != last);
    }

    /// What was found beside the checks of a step.
    pub fn asides(&self, step: Option<usize>) -> Asides {
        self.asides.lock().unwrap_or_else(PoisonError::into_inner).at(step)
    }

    /// Keeps what was found beside the checks of a step; says whether that is news.
    pub fn keep_asides(&self, step: Option<usize>, asides: Asides) -> bool {
        self.asides.lock().unwrap_or_else(PoisonError::into_inner).take(step, asides)
    }

    /// What says that the seat has changed, without keeping the board.
    pub fn news(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// The page as it is now, and all its parts.
    pub fn whole(&self, written: Written<'_>) -> Result<String> {
        let inner = self.lock();
        let number = inner.0.last();
        let parts = inner.0.at(number).into_iter().map(|(name, html)| (name, &**html)).collect();
        let title = inner.1.as_ref().and_then(|board| board.title.clone()).unwrap_or_else(|| self.lab.clone());
        written(number, parts, &title)
    }

    /// What changed after a change.
    pub fn since(&self, number: Number) -> Changes {
        self.lock().0.since(number)
    }

    /// All parts as they were at a moment.
    pub fn whole_at(&self, number: Number) -> Changes {
        self.lock().0.whole_at(number)
    }

    /// The moments that are remembered.
    pub fn moments(&self) -> serde_json::Value {
        json!(self.lock().0.moments().collect::<Vec<_>>())
    }

    /// Hears of each change.
    pub fn follow(&self) -> watch::Receiver<Number> {
        self.newest.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_comes_back_to_another_board_gets_all_of_it() {
        let stages = Stages::default();
        let seat = "0-1".parse().unwrap();
        let drawn = || {
            let stage = stages.begin(seat, "lab", Viewer::Learner);
            stage.lock().0.show(vec![("lesson".to_owned(), "step 1".to_owned())], &[], 0);
            stage
        };
        let last = drawn().since(0).number;
        assert_eq!(drawn().since(last).parts.into_keys().collect::<Vec<_>>(), ["lesson"]);
    }
}
