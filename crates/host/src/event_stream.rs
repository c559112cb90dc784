//! What a long request says while it works: a line of JSON for each thing that happens, and one for its end.
//!
//! A learner who asks for a step waits longer than proxies and servers wait for an answer: the answer begins at once, and grows.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::answer::typed;
use super::refusal::without_places;
use klab_lab::report::{self, Styles, Suite};
use klab_lab::verify::Report;
use klab_operations::error::Error;
use klab_operations::event::{Event, Sink};

/// Lines that wait for a slow reader before work waits for them.
const WAITING: usize = 256;
/// How often a line comes that says nothing.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);

/// Where lines go.
#[derive(Clone)]
pub struct EventStream {
    lines: mpsc::Sender<Value>,
}

impl EventStream {
    /// A talk, and the answer that carries it.
    pub fn new() -> (Self, Response) {
        let (talk, receiver) = Self::heard();
        let stream = futures::stream::unfold(receiver, |mut receiver| async move {
            let text = match tokio::time::timeout(HEARTBEAT, receiver.recv()).await {
                Ok(Some(line)) => format!("{line}\n"),
                Ok(None) => return None,
                Err(_) => "\n".to_owned(),
            };
            Some((Ok::<_, Infallible>(Bytes::from(text)), receiver))
        });
        (talk, typed("application/x-ndjson", Body::from_stream(stream)))
    }

    /// A talk, and what is said in it.
    pub fn heard() -> (Self, mpsc::Receiver<Value>) {
        let (lines, receiver) = mpsc::channel(WAITING);
        (Self { lines }, receiver)
    }

    /// A stream without a reader, for work that reports its outcome in another way.
    pub fn nowhere() -> Self {
        Self { lines: mpsc::channel(1).0 }
    }

    /// Says a line. Where the reader is too slow, lines are left out; the last ones are waited for by [`EventStream::end`].
    fn say(&self, line: Value) {
        let _ = self.lines.try_send(line);
    }

    /// A command that does the same as what klab does.
    pub fn command(&self, line: &str) {
        self.say(json!({ "command": line }));
    }

    /// A report, in all its forms: the reader has them as a klab there would have made them.
    pub fn report(&self, report: &Report, step: Option<(usize, usize, &str)>) {
        let mut document = report::json(report);
        if let Some((number, of, name)) = step {
            document["step"] = json!({ "name": name, "number": number, "of": of });
        }
        let name = step.map_or(report.lab.as_str(), |(_, _, name)| name);
        let junit = report::junit(&[Suite { name, report }]).unwrap_or_default();
        self.say(json!({
            "report": { "human": report::human(report, Styles::coloured()), "json": document, "junit": junit, "ok": report.ok() },
        }));
    }

    /// The end: what came of it.
    pub async fn end(self, outcome: Result<(), Error>) {
        let line = match outcome {
            Ok(()) => json!({ "end": { "ok": true } }),
            Err(error) => {
                let chain: Vec<String> = error.source.chain().map(|cause| without_places(&cause.to_string())).collect();
                json!({ "end": { "ok": false, "code": error.code, "case": error.code.name(), "exit_code": error.kind().exit_code(), "causes": chain, "hints": error.hints } })
            }
        };
        // The reader may have gone.
        let _ = self.lines.send(line).await;
    }

    /// Returns when the reader is gone.
    pub async fn unheard(&self) {
        self.lines.closed().await;
    }
}

impl Sink for EventStream {
    fn event(&self, event: &Event) {
        match event {
            Event::Finished { verb, what, facts, .. } => {
                self.say(json!({ "done": what, "verb": verb, "action": facts.action }));
            }
            Event::Warned { message, .. } => self.say(json!({ "warning": message })),
            Event::Started { .. } | Event::Progress { .. } | Event::Ended { .. } | Event::UnderWay { .. } => {}
        }
    }
}
