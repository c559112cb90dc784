//! What webhooks have said to one write so far, and what it still has to ask them.
//!
//! A write holds the cluster's lock, and nobody may hold that while a webhook thinks. So a write that needs an answer it
//! does not have notes the question and fails; whoever made it asks without the lock, and makes the write again, which finds
//! the answer. Names, uids and the time are the same in all attempts, so that the questions are, too; what others changed
//! meanwhile makes other questions.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;

use crate::webhook::{Call, CallError, Transport};

/// Questions of one write at most, however often what it writes changes under it.
const MOST: usize = 100;

/// What webhooks have said to one write so far.
#[derive(Debug, Default)]
pub(crate) struct Consultation(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    beginning: Option<Beginning>,
    answers: Vec<(Call, Result<Bytes, CallError>)>,
    pending: Vec<Call>,
}

/// What all attempts have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beginning {
    pub(crate) now: Timestamp,
    /// State of the random numbers.
    pub(crate) random: u64,
}

impl Consultation {
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
        if inner.answers.len() >= MOST {
            let because = "the object changes faster than webhooks can be asked about it";
            return Some(Err(CallError::Unreachable(because.to_owned())));
        }
        if !inner.pending.contains(call) {
            inner.pending.push(call.clone());
        }
        None
    }

    /// Whether the write failed only because it has to wait.
    pub(crate) fn is_pending(&self) -> bool {
        !self.inner().pending.is_empty()
    }

    /// Asks all that is to be asked, side by side. Says whether there was anything.
    pub(crate) async fn ask(&self, transport: &dyn Transport) -> bool {
        let calls = std::mem::take(&mut self.inner().pending);
        if calls.is_empty() {
            return false;
        }
        let answers = futures::future::join_all(calls.iter().map(|call| transport.send(call))).await;
        self.inner().answers.extend(calls.into_iter().zip(answers));
        true
    }
}
