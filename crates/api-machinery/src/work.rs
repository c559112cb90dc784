//! How much work a request has done, in steps: it stops at its bound, and when its client has gone.
//!
//! A step is an entry of a list that a rule looks at, an error, a warning, an operation of a patch, or a few units of what
//! an expression costs. The thread counts them, so that rules need not pass a counter along. Once the work has to stop, lists have no more entries; what comes of it is thrown away.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::status::Status;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
    static BOUND: RefCell<Option<Bound>> = const { RefCell::new(None) };
}

/// The number of steps after which a thread looks whether its work is cancelled.
const BETWEEN_LOOKS: u64 = 256;

struct Bound {
    /// The count of steps at which the work stops.
    last: u64,
    cancelled: Cancelled,
    over: bool,
}

/// Whether some work is to stop, as its thread and others see it.
#[derive(Debug, Clone, Default)]
pub struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    /// Whether it is.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Cancels some work when it is dropped.
#[derive(Debug)]
pub struct CancelOnDrop(pub Cancelled);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Work stopped before its end; nothing of it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// The answer to a request whose work stopped.
pub fn stopped() -> Status {
    Status::new(504, "Timeout", "the request took too long")
}

/// Counts a step of this thread. Returns whether its work may go on.
pub fn step() -> bool {
    steps(1)
}

/// Counts work that takes as long as `count` steps. Returns whether this thread may go on.
pub fn steps(count: u64) -> bool {
    let before = STEPS.get();
    let now = before.wrapping_add(count);
    STEPS.set(now);
    BOUND.with_borrow_mut(|bound| {
        let Some(bound) = bound else { return true };
        let looks = before / BETWEEN_LOOKS != now / BETWEEN_LOOKS;
        bound.over |= now > bound.last || (looks && bound.cancelled.is_cancelled());
        !bound.over
    })
}

/// Whether the work of this thread has to stop.
pub fn is_over() -> bool {
    BOUND.with_borrow(|bound| bound.as_ref().is_some_and(|bound| bound.over))
}

/// Lets the work of this thread go on to its end: it has stored something.
pub fn complete() {
    BOUND.set(None);
}

/// Does some work that stops after `most` steps, or once it is cancelled.
///
/// # Errors
/// When it has stopped.
pub fn within<T>(most: u64, cancelled: &Cancelled, work: impl FnOnce() -> T) -> Result<T, Stopped> {
    /// Also when the work panics.
    struct Unbound;
    impl Drop for Unbound {
        fn drop(&mut self) {
            complete();
        }
    }
    let last = STEPS.get().saturating_add(most);
    let _unbound = Unbound;
    BOUND.set(Some(Bound { last, cancelled: cancelled.clone(), over: false }));
    let done = work();
    if is_over() { Err(Stopped) } else { Ok(done) }
}

/// How many steps some work takes on this thread.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = STEPS.get();
    let done = work();
    (done, STEPS.get().wrapping_sub(before))
}
