//! Which clusters of a server are awake, and when those that are parked are due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

/// Which clusters are awake, and when those that are parked are due.
#[derive(Default)]
pub(super) struct Activity {
    active: Mutex<BTreeSet<Arc<str>>>,
    due: Mutex<Due>,
    /// Something is due earlier than before.
    pub(super) earlier: Notify,
}

#[derive(Default)]
struct Due {
    by_time: BTreeSet<(Timestamp, Arc<str>)>,
    by_name: BTreeMap<Arc<str>, Timestamp>,
}

impl Activity {
    /// Notes that a cluster is awake.
    pub(super) fn note_active(&self, name: &Arc<str>) {
        self.forget_due(name);
        self.active.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(name));
    }

    /// Notes that a cluster is parked, and until when at most.
    pub(super) fn is_parked(&self, name: &Arc<str>, due: Option<Timestamp>) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.forget_due(name);
        let Some(instant) = due else { return };
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.by_time.insert((instant, Arc::clone(name)));
        due.by_name.insert(Arc::clone(name), instant);
        drop(due);
        self.earlier.notify_one();
    }

    /// Forgets a cluster.
    pub(super) fn is_gone(&self, name: &Arc<str>) {
        self.is_parked(name, None);
    }

    fn forget_due(&self, name: &Arc<str>) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(instant) = due.by_name.remove(name) {
            due.by_time.remove(&(instant, Arc::clone(name)));
        }
    }

    /// Names of the clusters that are awake.
    pub(super) fn active(&self) -> Vec<Arc<str>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// When the next parked cluster is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).by_time.first().map(|(instant, _)| *instant)
    }

    /// Parked clusters that are due, at most `most`.
    pub(super) fn due(&self, now: Timestamp, most: usize) -> Vec<Arc<str>> {
        let due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.by_time
            .iter()
            .take_while(|(instant, _)| *instant <= now)
            .take(most)
            .map(|(_, name)| Arc::clone(name))
            .collect()
    }
}
