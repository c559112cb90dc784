//! HTTP on a connection, for every kind of server: HTTP/1.1 and HTTP/2 with their limits, answers in time, the token that is shown.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::future::FutureExt;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use klab_api_machinery::status::Status;

use super::refusal::panicked;

/// Time for a TLS handshake.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for the head of a request; also how long an idle connection is kept.
pub(super) const HEAD: Duration = Duration::from_mins(2);
/// Time until a connection has sent a request with credentials: connections without any do not keep others out.
pub(super) const PROBATION: Duration = Duration::from_secs(10);
/// Time for the body of a request to arrive and be worked on. Bodies of answers, which watches keep open, are not meant.
pub(super) const REQUEST: Duration = Duration::from_mins(1);
/// How often the other end of an HTTP/2 connection is asked whether it is there, and how long it may take to answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// Requests under way at once on one HTTP/2 connection, watches among them (what Go's servers allow).
const MAX_STREAMS: u32 = 250;
/// Bytes of headers that are read.
const MAX_HEADERS: u32 = 64 * 1024;

/// What serves one connection.
pub(super) fn builder(http_2: bool, head: Duration) -> auto::Builder<TokioExecutor> {
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut builder = if http_2 { builder.http2_only() } else { builder.http1_only() };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(MAX_HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS);
    builder
}

/// The answer to a request, within its time. A panic is the request's, not the connection's, on which others may be under
/// way.
pub(super) async fn in_time<T>(answer: impl Future<Output = T>) -> Result<T, Status> {
    match tokio::time::timeout(REQUEST, AssertUnwindSafe(answer).catch_unwind()).await {
        Ok(answered) => answered.map_err(|_| panicked()),
        Err(_) => Err(Status::new(504, "Timeout", "the request took too long")),
    }
}

/// The bearer token that somebody shows.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(answer: impl Future<Output = ()>) -> Result<(), u16> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(in_time(answer)).map_err(|status| status.code)
    }

    #[test]
    fn a_request_that_panics_or_never_ends_is_answered() {
        assert_eq!(ends(async {}), Ok(()));
        assert_eq!(ends(async { panic!("a fault of klab's own") }), Err(500));
        assert_eq!(ends(std::future::pending()), Err(504));
    }

    #[test]
    fn a_token_is_what_stands_after_bearer() {
        for (header, token) in
            [("Bearer abc", Some("abc")), ("bearer  abc ", Some("abc")), ("Basic abc", None), ("abc", None)]
        {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, http::HeaderValue::from_static(header))]);
            assert_eq!(bearer(&headers), token, "{header}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
