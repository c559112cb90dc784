//! Pure: answers of the class's pages and of its API, with what a browser may do with each.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::templates::rendered;
use klab_operations::error::Error;

/// What a page may load and run: what this host gives, and nothing that is written into it; forms go to it alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Sets what a browser may do with an answer: it keeps nothing, and passes no address on to others.
pub fn secured(mut answer: Response, is_secure: bool) -> Response {
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
        // A proxy that keeps answers until they are whole would keep a page that lives for ever.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
    if is_secure {
        let value = HeaderValue::from_static("max-age=86400");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, value);
    }
    answer
}

/// A document for programs.
pub fn json_answer(code: StatusCode, document: &Value) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], document.to_string()).into_response()
}

/// A text of a type.
pub fn typed(kind: &'static str, text: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, kind)], text.into()).into_response()
}

/// Whether a browser asks, which shows pages.
pub fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// A page of the class; what fails is said in its place.
pub fn page(template: &str, document: &Value) -> Response {
    match rendered(template, document) {
        Ok(html) => Html(html).into_response(),
        Err(error) => failed(&error).into_response(),
    }
}

/// Something of klab's own that failed, for the one who asked: the causes stand in the log.
pub fn failed(error: &Error) -> Refusal {
    tracing::error!("{error:#}");
    Refusal::internal(error.source.to_string())
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = json_answer(code, &self.document());
        if let Some(seconds) = self.retry_after {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

/// A refusal as the client can read it.
pub fn refused(refusal: Refusal, headers: &HeaderMap, base: &str) -> Response {
    if !wants_page(headers) {
        return refusal.into_response();
    }
    let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let document = json!({ "base": base, "title": "Not now", "words": refusal.message, "back": true });
    (code, page("words.html", &document)).into_response()
}
