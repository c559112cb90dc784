//! Begins what takes its time at a seat; a stream reports what comes of it.

use std::sync::Arc;
use std::time::Duration;

use super::event_stream::EventStream;
use super::grading::{self, MAX_WAIT};
use super::state::{Host, Learner};
use klab_operations::error::{Code, Error, Result};

/// Grades a learner.
pub(super) fn grading(
    host: Arc<Host>,
    learner: Learner,
    step: Option<String>,
    timeout: Option<Duration>,
    stream: EventStream,
) {
    let timeout = timeout.unwrap_or(Duration::from_mins(2)).min(MAX_WAIT);
    tokio::spawn(async move {
        let grading = grading::grade(&host, &learner, step.as_deref(), timeout, &stream);
        let outcome = tokio::select! {
            outcome = grading => outcome,
            // Who has gone needs no verdict.
            () = stream.unheard() => return,
        };
        host.audit.seat("verify", learner.seat, "learner");
        stream.end(outcome).await;
    });
}

/// Does work that waits for what it does.
pub(super) fn in_the_background(stream: EventStream, work: impl FnOnce(&EventStream) -> Result<()> + Send + 'static) {
    tokio::spawn(async move {
        let said = stream.clone();
        let done = tokio::task::spawn_blocking(move || work(&said)).await;
        let outcome = done.unwrap_or_else(|_| Err(Error::message(Code::ClassFault, "the host met a fault of its own")));
        stream.end(outcome).await;
    });
}
