//! Everything that happens, as data: the seam between the work and what is shown or recorded of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use klab_lab::code::Code;
use serde::Serialize;

mod described;
mod verb;

pub use self::described::{COMMON, DESCRIBED, Described};
pub use self::verb::Verb;

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
        /// The same for programs.
        #[serde(flatten)]
        facts: Facts,
    },
    /// Where an activity is.
    Progress {
        /// The activity.
        id: u64,
        /// What is waited for now.
        detail: String,
        /// The same for programs.
        #[serde(flatten)]
        facts: Facts,
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
        /// The same for programs.
        #[serde(flatten)]
        facts: Facts,
    },
    /// An activity is over without a result of its own; an error or a report follows on another way.
    Ended {
        /// The activity.
        id: u64,
        /// The same for programs.
        #[serde(flatten)]
        facts: Facts,
    },
    /// What goes on outside klab from now on, even if klab is interrupted; empty when nothing does.
    UnderWay {
        /// Each in words: `pool extra is being created`.
        outside: Vec<String>,
        /// The same for programs, in the same order.
        activities: Vec<Facts>,
    },
    /// Something the user should know although the work goes on.
    Warned {
        /// The sentence.
        message: String,
        /// What is warned of, by which the user looks it up.
        code: Code,
        /// The exact case.
        case: &'static str,
        /// What it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
    },
}

/// What the words of an event say, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// What is done: the code of its verb.
    pub action: &'static str,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// How many of what its verb counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// Something that goes on outside klab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    words: String,
    facts: Facts,
}

impl Outside {
    /// What is done there to a thing, and the same in words.
    pub fn new(verb: Verb, kind: About, name: &str, words: String) -> Self {
        let subject = Some(Subject { kind, name: name.to_owned() });
        Self { words, facts: Facts { action: verb.action(), subject, count: None } }
    }

    /// In words.
    pub fn into_words(self) -> String {
        self.words
    }
}

/// Kinds of what events are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// A lab or class.
    Lab,
    /// A cluster.
    Cluster,
    /// A pool.
    Pool,
    /// A node.
    Node,
    /// A step of a lesson.
    Step,
    /// A workload.
    Workload,
    /// An image.
    Image,
    /// An add-on.
    Addon,
    /// A container registry.
    Registry,
}

impl About {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Lab,
        Self::Cluster,
        Self::Pool,
        Self::Node,
        Self::Step,
        Self::Workload,
        Self::Image,
        Self::Addon,
        Self::Registry,
    ];
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// Of which kind it is.
    pub kind: About,
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

/// Takes events of which only the result counts.
#[derive(Debug, Clone, Copy)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn event(&self, _: &Event) {}
}

/// Hands events to what shows or records them. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    sink: Arc<dyn Sink>,
    subject: Option<Subject>,
    count: Option<u64>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Events {
    /// Events that go to `sink`.
    pub fn new(sink: Arc<dyn Sink>) -> Self {
        Self { sink, subject: None, count: None }
    }

    /// The same way, for what happens to one thing: programs read its name there.
    pub fn about(&self, kind: About, name: impl Into<String>) -> Self {
        Self { subject: Some(Subject { kind, name: name.into() }), ..self.clone() }
    }

    /// The same way, for a known number of things: programs read the number there.
    pub fn counting(&self, count: usize) -> Self {
        Self { count: u64::try_from(count).ok(), ..self.clone() }
    }

    fn facts(&self, verb: Verb) -> Facts {
        Facts { action: verb.action(), subject: self.subject.clone(), count: self.count }
    }

    /// Events without a receiver.
    pub fn nowhere() -> Self {
        Self::new(Arc::new(Nowhere))
    }

    /// Begins an activity; it counts as failed unless it is finished.
    pub fn start(&self, verb: Verb, what: impl Into<String>) -> Activity {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.sink.event(&Event::Started { id, verb: verb.doing(), what: what.into(), facts: self.facts(verb) });
        Activity { events: self.clone(), verb, id, since: Instant::now(), ended: false }
    }

    /// Something that is a fact without having been an activity.
    pub fn note(&self, verb: Verb, what: impl Into<String>) {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let facts = self.facts(verb);
        self.sink.event(&Event::Finished { id, verb: verb.done(), what: what.into(), elapsed_ms: None, facts });
    }

    /// Says what goes on outside klab from now on.
    pub fn under_way(&self, outside: Vec<Outside>) {
        let (outside, activities) = outside.into_iter().map(|one| (one.words, one.facts)).unzip();
        self.sink.event(&Event::UnderWay { outside, activities });
    }

    /// Hands on what another sink was given.
    pub fn pass(&self, event: &Event) {
        self.sink.event(event);
    }

    /// A warning.
    pub fn warn(&self, code: Code, message: impl Into<String>) {
        let (message, subject) = (message.into(), self.subject.clone());
        self.sink.event(&Event::Warned { message, code, case: code.name(), subject });
    }
}

/// A running activity.
pub struct Activity {
    events: Events,
    verb: Verb,
    id: u64,
    since: Instant,
    ended: bool,
}

impl Activity {
    /// Says where it is.
    pub fn progress(&self, detail: impl Into<String>) {
        let facts = self.events.facts(self.verb);
        self.events.sink.event(&Event::Progress { id: self.id, detail: detail.into(), facts });
    }

    fn tell_end(&self) {
        self.events.sink.event(&Event::Ended { id: self.id, facts: self.events.facts(self.verb) });
    }

    /// Ends it silently: what it found is said elsewhere.
    pub fn end(mut self) {
        self.ended = true;
        self.tell_end();
    }

    /// The activity, whose number is known only now.
    #[must_use]
    pub fn counting(mut self, count: usize) -> Self {
        self.events = self.events.counting(count);
        self
    }

    /// Ends it well.
    pub fn finish(self, what: impl Into<String>) -> Duration {
        let verb = self.verb;
        self.finish_as(verb, what)
    }

    /// Ends it well, with something else done than was begun.
    pub fn finish_as(mut self, verb: Verb, what: impl Into<String>) -> Duration {
        self.ended = true;
        let elapsed = self.since.elapsed();
        let elapsed_ms = u64::try_from(elapsed.as_millis()).ok();
        let facts = self.events.facts(verb);
        self.events.sink.event(&Event::Finished {
            id: self.id,
            verb: verb.done(),
            what: what.into(),
            elapsed_ms,
            facts,
        });
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

    use serde_json::{Value, json};

    use super::*;

    /// One of each event, with all its fields.
    fn samples() -> Vec<Event> {
        let facts = || {
            let subject = Some(Subject { kind: About::Pool, name: "extra".to_owned() });
            Facts { action: Verb::CreatePool.action(), subject, count: Some(2) }
        };
        let what = || "pool extra".to_owned();
        vec![
            Event::Started { id: 1, verb: "Creating", what: what(), facts: facts() },
            Event::Progress { id: 1, detail: "1 of 2 nodes".to_owned(), facts: facts() },
            Event::Finished { id: 1, verb: "Created", what: what(), elapsed_ms: Some(12), facts: facts() },
            Event::Ended { id: 1, facts: facts() },
            Event::UnderWay { outside: vec!["pool extra is being created".to_owned()], activities: vec![facts()] },
            Event::Warned {
                message: "it is late".to_owned(),
                code: Code::Caveat,
                case: Code::Caveat.name(),
                subject: facts().subject,
            },
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
    fn every_kind_of_subject_is_described() {
        let kinds: Vec<String> = About::ALL.iter().map(|kind| serde_json::to_string(kind).unwrap()).collect();
        let told = kinds.join(", ").replace('"', "`");
        let row = DESCRIBED.iter().find(|row| row.name == "started").unwrap();
        let (_, meaning) = row.fields.iter().find(|(field, _)| *field == "subject").unwrap();
        assert!(meaning.contains(&told), "{told}");
    }

    #[test]
    fn what_goes_on_outside_and_what_is_warned_of_is_told_to_programs_too() {
        #[derive(Default)]
        struct Kept(std::sync::Mutex<Vec<Value>>);
        impl Sink for Kept {
            fn event(&self, event: &Event) {
                self.0.lock().unwrap().push(serde_json::to_value(event).unwrap());
            }
        }
        let kept = Arc::new(Kept::default());
        let events = Events::new(Arc::<Kept>::clone(&kept));
        let words = "pool `extra` is being created".to_owned();
        events.under_way(vec![Outside::new(Verb::CreatePool, About::Pool, "extra", words)]);
        events.under_way(Vec::new());
        events.about(About::Node, "worker1").warn(Code::PodsStayed, "1 pod did not leave");
        events.warn(Code::ClusterFault, "a problem");
        let subject = |kind: &str, name: &str| json!({ "kind": kind, "name": name });
        let activity = json!({ "action": "create-pool", "subject": subject("pool", "extra") });
        assert_eq!(
            *kept.0.lock().unwrap(),
            [
                json!({ "event": "under-way", "outside": ["pool `extra` is being created"], "activities": [activity] }),
                json!({ "event": "under-way", "outside": [], "activities": [] }),
                json!({ "event": "warned", "message": "1 pod did not leave", "code": "K0634", "case": "pods-stayed",
                    "subject": subject("node", "worker1") }),
                json!({ "event": "warned", "message": "a problem", "code": "K0417", "case": "cluster-fault" }),
            ]
        );
    }

    #[test]
    fn an_event_says_its_form_its_moment_and_its_lab() {
        let event = &samples()[0];
        let text = |lab| serde_json::to_string(&Stamped::new(event, lab, Timestamp::UNIX_EPOCH)).unwrap();
        insta::assert_snapshot!(text(Some("taints")), @r#"{"schema":"klab.event/1","time":"1970-01-01T00:00:00Z","lab":"taints","event":"started","id":1,"verb":"Creating","what":"pool extra","action":"create-pool","subject":{"kind":"pool","name":"extra"},"count":2}"#);
        let unknown: Value = serde_json::from_str(&text(None)).unwrap();
        assert!(unknown.get("lab").is_none());
    }
}
