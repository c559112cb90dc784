//! Everything that happens, as data: the seam between the work and what is shown or recorded of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;

mod described;

pub use self::described::{COMMON, DESCRIBED, Described};

/// The form of events in JSON.
const SCHEMA: &str = "klab.event/1";

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
        /// What it is about, for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
    },
    /// Where an activity is.
    Progress {
        /// The activity.
        id: u64,
        /// What is waited for now.
        detail: String,
        /// What it is about, for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
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
        /// What it is about, for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
    },
    /// An activity is over without a result of its own; an error or a report follows on another way.
    Ended {
        /// The activity.
        id: u64,
        /// What it is about, for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
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

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// `lab`, `cluster`, `pool` or `step`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

/// An event as it is written in JSON: with its form, its moment and its lab.
#[derive(Serialize)]
pub struct Stamped<'a, T> {
    schema: &'static str,
    time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    lab: Option<&'a str>,
    #[serde(flatten)]
    event: &'a T,
}

impl<'a, T: Serialize> Stamped<'a, T> {
    /// An event of a lab, if it is known which, at a moment.
    pub fn new(event: &'a T, lab: Option<&'a str>, time: Timestamp) -> Self {
        Self { schema: SCHEMA, time, lab, event }
    }
}

/// Receives events.
pub trait Sink: Send + Sync {
    /// Takes one event, in order.
    fn event(&self, event: &Event);
}

/// Hands events to whoever shows or records them. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    sink: Arc<dyn Sink>,
    subject: Option<Subject>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Events {
    /// Events that go to `sink`.
    pub fn new(sink: Arc<dyn Sink>) -> Self {
        Self { sink, subject: None }
    }

    /// The same way, for what happens to a `lab`, `cluster`, `pool` or `step`: programs read its name there.
    pub fn about(&self, kind: &'static str, name: impl Into<String>) -> Self {
        Self { sink: Arc::clone(&self.sink), subject: Some(Subject { kind, name: name.into() }) }
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
        self.sink.event(&Event::Started { id, verb, what: what.into(), subject: self.subject.clone() });
        Activity { events: self.clone(), id, since: Instant::now(), ended: false }
    }

    /// Something that is a fact without having been an activity.
    pub fn note(&self, verb: &'static str, what: impl Into<String>) {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let subject = self.subject.clone();
        self.sink.event(&Event::Finished { id, verb, what: what.into(), elapsed_ms: None, subject });
    }

    /// Says what goes on outside klab from now on.
    pub fn under_way(&self, outside: Vec<String>) {
        self.sink.event(&Event::UnderWay { outside });
    }

    /// Hands on what another sink was given.
    pub fn pass(&self, event: &Event) {
        self.sink.event(event);
    }

    /// A warning.
    pub fn warn(&self, message: impl Into<String>) {
        self.sink.event(&Event::Warned { message: message.into() });
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
        let subject = self.events.subject.clone();
        self.events.sink.event(&Event::Progress { id: self.id, detail: detail.into(), subject });
    }

    fn tell_end(&self) {
        self.events.sink.event(&Event::Ended { id: self.id, subject: self.events.subject.clone() });
    }

    /// Ends it silently: what it found is said elsewhere.
    pub fn end(mut self) {
        self.ended = true;
        self.tell_end();
    }

    /// Ends it well.
    pub fn finish(mut self, verb: &'static str, what: impl Into<String>) -> Duration {
        self.ended = true;
        let elapsed = self.since.elapsed();
        let elapsed_ms = u64::try_from(elapsed.as_millis()).ok();
        let subject = self.events.subject.clone();
        self.events.sink.event(&Event::Finished { id: self.id, verb, what: what.into(), elapsed_ms, subject });
        elapsed
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        if !self.ended {
            self.tell_end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// One of each event, with all its fields.
    fn samples() -> Vec<Event> {
        let subject = || Some(Subject { kind: "pool", name: "extra".to_owned() });
        let what = || "pool extra".to_owned();
        vec![
            Event::Started { id: 1, verb: "Creating", what: what(), subject: subject() },
            Event::Progress { id: 1, detail: "1 of 2 nodes".to_owned(), subject: subject() },
            Event::Finished { id: 1, verb: "Created", what: what(), elapsed_ms: Some(12), subject: subject() },
            Event::Ended { id: 1, subject: subject() },
            Event::UnderWay { outside: vec!["pool extra is being created".to_owned()] },
            Event::Warned { message: "it is late".to_owned() },
        ]
    }

    #[test]
    fn every_event_is_described_with_its_fields() {
        for event in samples() {
            let value = serde_json::to_value(Stamped::new(&event, Some("taints"), Timestamp::UNIX_EPOCH)).unwrap();
            let name = value["event"].as_str().unwrap();
            let row =
                DESCRIBED.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name} is not described"));
            let told: BTreeSet<&str> = COMMON.iter().chain(row.fields).map(|(field, _)| *field).collect();
            let written: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(told, written, "{name}");
        }
    }

    #[test]
    fn an_event_says_its_form_its_moment_and_its_lab() {
        let event = &samples()[0];
        let text = |lab| serde_json::to_string(&Stamped::new(event, lab, Timestamp::UNIX_EPOCH)).unwrap();
        insta::assert_snapshot!(text(Some("taints")), @r#"{"schema":"klab.event/1","time":"1970-01-01T00:00:00Z","lab":"taints","event":"started","id":1,"verb":"Creating","what":"pool extra","subject":{"kind":"pool","name":"extra"}}"#);
        let unknown: Value = serde_json::from_str(&text(None)).unwrap();
        assert!(unknown.get("lab").is_none());
    }
}
