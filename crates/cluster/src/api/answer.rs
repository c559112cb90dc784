//! Responses: JSON, text, Status.

use std::collections::HashSet;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use crate::body::Body;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What a client with credentials gets is for no other client.
// upstream: apiserver pkg/endpoints/filters/cachecontrol.go WithCacheControl (v1.36)
pub(super) const PRIVATE: HeaderValue = HeaderValue::from_static("no-cache, private");

fn with(code: u16, kind: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.headers_mut().insert(CACHE_CONTROL, PRIVATE);
    response
}

/// A response that already is JSON text.
pub(super) fn json_text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    with(code, JSON, Body::whole(text))
}

/// JSON text of an object, which ends its line as encoders of API servers do.
pub(super) fn json_line(code: u16, text: impl Into<Vec<u8>>) -> Response<Body> {
    let mut text = text.into();
    text.push(b'\n');
    json_text(code, text)
}

/// A message in Kubernetes' envelope.
pub(super) fn protobuf(code: u16, message: Vec<u8>) -> Response<Body> {
    with(code, PROTOBUF, Body::whole(message))
}

/// A watch whose events are messages.
pub(super) fn protobuf_stream(body: Body) -> Response<Body> {
    with(200, HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch"), body)
}

pub(super) fn json_body(code: u16, body: Body) -> Response<Body> {
    with(code, JSON, body)
}

pub(super) fn json_value(code: u16, value: &Value) -> Response<Body> {
    json_text(code, value.to_string())
}

/// Like [`json_text`], with a media type of its own.
pub(super) fn json_as(kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    with(200, HeaderValue::from_static(kind), Body::whole(text))
}

pub(super) fn yaml_value(code: u16, value: &Value) -> Response<Body> {
    match serde_saphyr::to_string(value) {
        Ok(text) => with(code, YAML, Body::whole(text)),
        Err(error) => status(&Status::new(500, "InternalError", error.to_string())),
    }
}

pub(super) fn text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    with(code, TEXT, Body::whole(text))
}

/// Text that goes on for as long as somebody reads it.
pub(super) fn text_body(code: u16, body: Body) -> Response<Body> {
    with(code, TEXT, body)
}

/// `404 page not found`, as Go's server has it: for what is no API path at all.
pub(super) fn page_not_found() -> Response<Body> {
    text(404, "404 page not found\n")
}

/// A Status, with its fields in the order of API servers.
pub(super) fn status_value(code: u16, status: &Value) -> Response<Body> {
    const WHOLE: [&str; 8] = ["kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"];
    const DETAILS: [&str; 6] = ["name", "group", "kind", "uid", "causes", "retryAfterSeconds"];
    const CAUSE: [&str; 3] = ["reason", "message", "field"];
    let causes = |causes: &Value| {
        let causes = causes.as_array().into_iter().flatten();
        format!("[{}]", causes.map(|cause| ordered(cause, &CAUSE, &|_| None)).collect::<Vec<_>>().join(","))
    };
    let details = |details: &Value| ordered(details, &DETAILS, &|name| (name == "causes").then_some(&causes));
    json_line(code, ordered(status, &WHOLE, &|name| (name == "details").then_some(&details)))
}

/// How a field is written that is not written as it is.
type Written<'a> = &'a dyn Fn(&Value) -> String;

/// An object with these fields in their order.
fn ordered<'a>(value: &Value, names: &[&str], within: &dyn Fn(&str) -> Option<Written<'a>>) -> String {
    let fields = names.iter().filter_map(|name| {
        let field = value.get(name)?;
        let text = within(name).map_or_else(|| field.to_string(), |write| write(field));
        Some(format!("\"{name}\":{text}"))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// The Status of a refused request.
pub fn status(status: &Status) -> Response<Body> {
    let mut response = status_value(status.code, &status.to_value());
    if let Some(seconds) = status.details["retryAfterSeconds"].as_u64() {
        response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// 404 for a path below a group that is served.
pub(super) fn no_such_resource() -> Status {
    Status { details: json!({}), ..Status::new(404, "NotFound", "the server could not find the requested resource") }
}

/// 405.
pub(super) fn method_not_allowed() -> Status {
    Status {
        details: json!({}),
        ..Status::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }
}

/// Most bytes of all warnings together. Beyond them each is cut to [`MAX_WARNING`] characters, and later ones are dropped.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go (v1.36)
const MAX_WARNINGS: usize = 4 * 1024;
const MAX_WARNING: usize = 256;
/// Clients limit header lines as well.
const MAX_WARNING_LINES: usize = 100;

/// Adds a `Warning` header, which kubectl prints.
pub(super) fn warn(response: &mut Response<Body>, warning: &str) {
    let text = format!("299 - {}", super::query::quoted(warning));
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().append(http::header::WARNING, value);
    }
}

/// Adds `Warning` headers, each once, and no more than fit.
pub(super) fn warn_all(response: &mut Response<Body>, warnings: &[String]) {
    let mut seen = HashSet::new();
    let new = warnings.iter().filter(|text| !text.is_empty() && seen.insert(text.as_str()));
    let texts: Vec<&str> = new.map(String::as_str).take(MAX_WARNING_LINES).collect();
    let fit = texts.iter().map(|text| text.len()).sum::<usize>() <= MAX_WARNINGS;
    let mut left = MAX_WARNINGS;
    for text in texts {
        let cut = text.char_indices().nth(MAX_WARNING).filter(|_| !fit).map_or(text, |(at, _)| &text[..at]);
        let Some(rest) = left.checked_sub(cut.len()) else { return };
        left = rest;
        warn(response, cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(texts: &[String]) -> Vec<String> {
        let mut response = Response::new(Body::whole(String::new()));
        warn_all(&mut response, texts);
        let headers = response.headers().get_all(http::header::WARNING).iter();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        headers.map(|value| text(value).trim_start_matches("299 - ").trim_matches('"').to_owned()).collect()
    }

    #[test]
    fn warnings_fit_into_headers() {
        let texts = |length: usize, count: usize| (0..count).map(|at| format!("{at:0length$}")).collect::<Vec<_>>();
        assert_eq!(warnings(&["a".to_owned(), "b".to_owned(), "a".to_owned(), String::new()]), ["a", "b"]);
        assert_eq!(warnings(&texts(10, 1_000)).len(), 100);
        assert_eq!(warnings(&texts(1_000, 4))[3].len(), 1_000, "all of them fit");
        let cut = warnings(&texts(1_000, 40));
        assert_eq!((cut.len(), cut.iter().map(String::len).max()), (16, Some(256)));
        assert_eq!(warnings(&["é".repeat(5_000)]), ["é".repeat(256)]);
    }
}
