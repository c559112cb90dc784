//! Everything that happens, as data: the seam between the work and what is shown or recorded of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Something that happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// An activity began.
    Started {
        /// Ties start, progress and end together.
        id: u64,
        /// Present participle: `Creating`.
        verb: &'static str,
        /// What it is done to.
        what: String,
    },
    /// Where an activity is.
    Progress {
        /// The activity.
        id: u64,
        /// What is waited for now.
        detail: String,
    },
    /// An activity ended well, or something was found that needs no activity.
    Finished {
        /// The activity.
        id: u64,
        /// Past tense: `Created`.
        verb: &'static str,
        /// What was done, in a few words.
        what: String,
        /// How long it took; absent where time says nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        elapsed_ms: Option<u64>,
    },
    /// An activity is over without a result of its own; an error or a report follows on another way.
    Ended {
        /// The activity.
        id: u64,
    },
    /// What goes on outside klab from now on, even if klab is interrupted; empty when nothing does.
    UnderWay {
        /// Each in words: `pool extra is being created`.
        outside: Vec<String>,
    },
    /// Something the user should know although the work goes on.
    Warned {
        /// The sentence.
        message: String,
    },
}

/// Receives events.
pub trait Sink: Send + Sync {
    /// Takes one event, in order.
    fn event(&self, event: &Event);
}

/// Hands events to whoever shows or records them. Cheap to clone.
#[derive(Clone)]
pub struct Events(Arc<dyn Sink>);

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Events {
    /// Events that go to `sink`.
    pub fn new(sink: Arc<dyn Sink>) -> Self {
        Self(sink)
    }

    /// Events nobody looks at.
    pub fn nowhere() -> Self {
        struct Nowhere;
        impl Sink for Nowhere {
            fn event(&self, _: &Event) {}
        }
        Self::new(Arc::new(Nowhere))
    }

    /// Begins an activity; it counts as failed unless it is finished.
    pub fn start(&self, verb: &'static str, what: impl Into<String>) -> Activity {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.event(&Event::Started { id, verb, what: what.into() });
        Activity { events: self.clone(), id, since: Instant::now(), ended: false }
    }

    /// Something that is a fact without having been an activity.
    pub fn note(&self, verb: &'static str, what: impl Into<String>) {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.event(&Event::Finished { id, verb, what: what.into(), elapsed_ms: None });
    }

    /// Says what goes on outside klab from now on.
    pub fn under_way(&self, outside: Vec<String>) {
        self.0.event(&Event::UnderWay { outside });
    }

    /// Hands on what another sink was given.
    pub fn pass(&self, event: &Event) {
        self.0.event(event);
    }

    /// A warning.
    pub fn warn(&self, message: impl Into<String>) {
        self.0.event(&Event::Warned { message: message.into() });
    }
}

/// A running activity.
pub struct Activity {
    events: Events,
    id: u64,
    since: Instant,
    ended: bool,
}

impl Activity {
    /// Says where it is.
    pub fn progress(&self, detail: impl Into<String>) {
        self.events.0.event(&Event::Progress { id: self.id, detail: detail.into() });
    }

    /// Ends it silently: what it found is said elsewhere.
    pub fn end(mut self) {
        self.ended = true;
        self.events.0.event(&Event::Ended { id: self.id });
    }

    /// Ends it well.
    pub fn finish(mut self, verb: &'static str, what: impl Into<String>) -> Duration {
        self.ended = true;
        let elapsed = self.since.elapsed();
        let elapsed_ms = u64::try_from(elapsed.as_millis()).ok();
        self.events.0.event(&Event::Finished { id: self.id, verb, what: what.into(), elapsed_ms });
        elapsed
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        if !self.ended {
            self.events.0.event(&Event::Ended { id: self.id });
        }
    }
}
