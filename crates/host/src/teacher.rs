//! Whether a request is the instructor's: by the browser, by the word of the link, or because another shard of the class has seen that
//! it is.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use http::request::Parts;

use super::address::From;
use super::refusal::Refusal;
use super::state::{Host, bearer};

/// Who asks for what is the instructor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// The instructor.
    Instructor,
    /// Another shard, for the instructor: only what is here is meant.
    Shard,
}

/// The class, to whom what is the instructor's is shown, and who that is.
pub struct Teaching(pub Arc<Host>, pub(super) Asker);

impl FromRequestParts<Arc<Host>> for Teaching {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, host: &Arc<Host>) -> Result<Self, Refusal> {
        let From(from) = parts.extensions.get().copied().ok_or_else(Refusal::unauthorised)?;
        Ok(Self(Arc::clone(host), of(host, &parts.headers, from)?))
    }
}

/// Who asks, if they may.
pub(super) fn of(host: &Host, headers: &HeaderMap, from: IpAddr) -> Result<Asker, Refusal> {
    if host.is_instructor(headers) {
        return Ok(Asker::Instructor);
    }
    if host.shards().is_some_and(|shards| shards.is_one(headers)) {
        return Ok(Asker::Shard);
    }
    let Some(word) = bearer(headers) else {
        return Err(Refusal::new(401, "Unauthorized", "this is for the instructor: open the instructor's link first"));
    };
    is_word(host, word, from).map(|()| Asker::Instructor)
}

/// Whether somebody says the instructor's word; who guesses too often has to wait.
pub(super) fn is_word(host: &Host, word: &str, from: IpAddr) -> Result<(), Refusal> {
    // It is too long to guess: it works whatever others try.
    if host.is_instructor_word(word.trim()) {
        return Ok(());
    }
    host.judged(from, || Err(Refusal::guess(403, "Forbidden", "this is not the instructor's link")))
}
