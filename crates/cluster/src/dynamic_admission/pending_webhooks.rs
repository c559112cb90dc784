//! What webhooks have said to one write so far, and what it still has to ask them.
//!
//! A write holds the cluster's lock, which no write may hold while a webhook works. So a write that needs an answer it
//! does not have notes the question and fails; its caller asks without the lock, and makes the write again, which finds
//! the answer. Names, uids and the time are the same in all attempts, so that the questions are, too; what others changed
//! meanwhile makes other questions.
//!
//! Reads ask, too, where objects are kept in another version than they are asked for and a webhook converts them. What has
//! been converted is remembered for as long as the request takes, object by object: of a list that changes meanwhile, only
//! what has changed is asked for again.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use jiff::Timestamp;
use klab_api_machinery::status::Status;
use serde_json::Value;

use crate::webhook::{Call, CallError, Transport};

/// Questions of one write at most, however often what it writes changes under it.
const MAX_QUESTIONS: usize = 100;
/// How often objects are converted for one request, however often they change meanwhile.
const MAX_ROUNDS: usize = 50;
/// Bytes of all answers about objects of one request: a webhook may make much of little.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// How many questions of one request are under way at a time.
const AT_ONCE: usize = 8;

/// The answer to a request that has to wait; no client sees it.
pub(crate) fn waiting() -> Status {
    Status::new(500, "InternalError", "the request waits for a webhook")
}

/// How an answer about objects is read.
type Reader = Box<dyn FnOnce(Result<Bytes, CallError>) -> Result<Vec<Value>, String> + Send>;

/// Objects that a webhook is to convert in one request.
pub(crate) struct Batch {
    /// What is sent.
    pub(crate) call: Call,
    /// By what the objects are found again, in their order.
    pub(crate) keys: Vec<String>,
    /// Gives as many objects as there are keys.
    pub(crate) read: Reader,
}

impl fmt::Debug for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Batch({} of {})", self.keys.len(), self.call.url)
    }
}

/// What webhooks have said to one write so far.
#[derive(Debug, Default)]
pub struct PendingWebhooks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    beginning: Option<Beginning>,
    answers: Vec<(Call, Result<Bytes, CallError>)>,
    pending: Vec<Call>,
    converted: HashMap<String, Result<Value, String>>,
    batches: Vec<Batch>,
    rounds: usize,
    /// Bytes of the answers about objects.
    bytes: usize,
    /// Whether the write was made: nothing may be asked about it after that, for that would make it again.
    is_written: bool,
}

/// What all attempts have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beginning {
    pub(crate) now: Timestamp,
    /// State of the random numbers.
    pub(crate) random: u64,
}

impl PendingWebhooks {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the first attempt began; none before there was one that had to wait.
    pub(crate) fn beginning(&self) -> Option<Beginning> {
        self.inner().beginning
    }

    /// Notes how the first attempt began.
    pub(crate) fn begin(&self, beginning: Beginning) {
        self.inner().beginning.get_or_insert(beginning);
    }

    /// The answer to a question; none notes the question.
    pub(crate) fn answer(&self, call: &Call) -> Option<Result<Bytes, CallError>> {
        let mut inner = self.inner();
        if let Some((_, answer)) = inner.answers.iter().find(|(asked, _)| asked == call) {
            return Some(answer.clone());
        }
        if inner.answers.len() >= MAX_QUESTIONS {
            let because = "the object changes faster than webhooks can be asked about it";
            return Some(Err(CallError::Unreachable(because.to_owned())));
        }
        if !inner.pending.contains(call) {
            inner.pending.push(call.clone());
        }
        None
    }

    /// An object as it was converted, or why it was not; none if no webhook was asked.
    pub(crate) fn converted(&self, key: &str) -> Option<Result<Value, String>> {
        self.inner().converted.get(key).cloned()
    }

    /// Has objects converted before the request is worked on again.
    ///
    /// # Errors
    /// That it is too late for that, or was done too often.
    pub(crate) fn convert(&self, batches: Vec<Batch>) -> Result<(), &'static str> {
        let mut inner = self.inner();
        if inner.is_written {
            return Err("the definition was changed meanwhile");
        }
        if inner.rounds >= MAX_ROUNDS {
            return Err("the objects change faster than they can be converted");
        }
        inner.batches.extend(batches);
        Ok(())
    }

    /// Takes what objects were converted to, or why they were not.
    fn answered(&self, keys: Vec<String>, answer: Result<Vec<Value>, String>) {
        let mut inner = self.inner();
        match answer {
            Ok(values) => inner.converted.extend(keys.into_iter().zip(values.into_iter().map(Ok))),
            Err(because) => inner.converted.extend(keys.into_iter().map(|key| (key, Err(because.clone())))),
        }
    }

    /// Notes that the write was made.
    pub(crate) fn written(&self) {
        self.inner().is_written = true;
    }

    /// Whether the request failed only because it has to wait.
    pub(crate) fn is_pending(&self) -> bool {
        let inner = self.inner();
        !inner.pending.is_empty() || !inner.batches.is_empty()
    }

    /// An answer about objects, unless there have been too many bytes of them.
    fn counted(&self, body: Bytes) -> Result<Bytes, CallError> {
        let mut inner = self.inner();
        inner.bytes = inner.bytes.saturating_add(body.len());
        if inner.bytes <= MAX_BYTES {
            return Ok(body);
        }
        let because = format!("the converted objects of one request are larger than {MAX_BYTES} bytes");
        Err(CallError::Unreadable(because))
    }

    /// Asks all that is to be asked, side by side. Says whether there was anything.
    pub(crate) async fn ask(&self, transport: &dyn Transport) -> bool {
        let (calls, batches) = {
            let mut inner = self.inner();
            (std::mem::take(&mut inner.pending), std::mem::take(&mut inner.batches))
        };
        if calls.is_empty() && batches.is_empty() {
            return false;
        }
        if !calls.is_empty() {
            let answers = futures::future::join_all(calls.iter().map(|call| transport.send(call))).await;
            self.inner().answers.extend(calls.into_iter().zip(answers));
        }
        if !batches.is_empty() {
            self.inner().rounds += 1;
            let asked = batches.into_iter().map(|batch| async move {
                let answer = transport.send(&batch.call).await.and_then(|body| self.counted(body));
                (batch.keys, (batch.read)(answer))
            });
            let mut answers = futures::stream::iter(asked).buffer_unordered(AT_ONCE);
            while let Some((keys, answer)) = answers.next().await {
                self.answered(keys, answer);
            }
        }
        true
    }
}
