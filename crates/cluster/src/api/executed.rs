//! How many commands are being executed in a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Commands under way at once in one cluster.
pub(super) const MAX_COMMANDS: usize = 32;

/// Commands that are being executed in the containers of a cluster.
#[derive(Debug, Default)]
pub(super) struct Executed(Arc<AtomicUsize>);

/// One of them, until it is dropped.
pub(super) struct One(Arc<AtomicUsize>);

impl Executed {
    /// One more, unless there are that many.
    pub(super) fn one_more(&self) -> Option<One> {
        let more = |now: usize| (now < MAX_COMMANDS).then_some(now + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(One(Arc::clone(&self.0)))
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
