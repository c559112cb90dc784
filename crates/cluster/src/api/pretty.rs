//! JSON for people to read, as browsers and `curl` get it, and who asks for it with `?pretty=true`.

// upstream: apiserver pkg/endpoints/handlers/negotiation/negotiate.go isPrettyPrint (v1.36)

use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Response};

use super::query::Query;
use crate::body::Body;

/// Programs that people read answers with.
const READERS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// Whether a person is going to read the answer.
pub(super) fn is_wanted(parts: &Parts, query: &Query) -> bool {
    let header = |name: HeaderName| text(&parts.headers, &name);
    if header(ACCEPT).contains("pretty=1") {
        return true;
    }
    match query.get("pretty") {
        Some(said) => matches!(said, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => READERS.iter().any(|reader| header(USER_AGENT).starts_with(reader)),
    }
}

/// An answer with its lines broken, where it is JSON and has an end.
pub(super) fn printed(response: Response<Body>) -> Response<Body> {
    if !text(response.headers(), &CONTENT_TYPE).starts_with("application/json") {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let body = match body.into_text() {
        Ok(text) => {
            head.headers.remove(CONTENT_LENGTH);
            Body::whole(indented(&text))
        }
        Err(endless) => *endless,
    };
    Response::from_parts(head, body)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// JSON text with a line for each value, as Go's `MarshalIndent` writes it with two blanks.
fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut escaped, mut opened) = (0_usize, false, false, false);
    for &byte in json {
        if in_text {
            out.push(byte);
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(byte, b'}' | b']');
        if closes {
            depth = depth.saturating_sub(1);
        }
        // Nothing stands between the brackets of what is empty.
        if std::mem::take(&mut opened) != closes {
            line(&mut out, depth);
        }
        out.push(byte);
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => {
                depth += 1;
                opened = true;
            }
            b',' => line(&mut out, depth),
            b':' => out.push(b' '),
            _ => {}
        }
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + depth * 2, b' ');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn lines_are_broken_as_go_breaks_them() {
        let json = br#"{"a":[],"b":{},"c":[1,{"d":"x{\",: \\"}],"e":{"f":null}}"#;
        let wanted = "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"x{\\\",: \\\\\"\n    }\n  ],\n  \"e\": {\n    \"f\": null\n  }\n}";
        assert_eq!(String::from_utf8(indented(json)).unwrap(), wanted);
        assert_eq!(indented(wanted.as_bytes()), wanted.as_bytes());
    }

    proptest! {
        #[test]
        fn what_is_printed_says_the_same(text in "[\\[\\]{}\":,a0-9\\\\ ]{0,40}") {
            let value = serde_json::json!({ "a": [text, [], {}, { text.clone(): 1 }], "b": null });
            let compact = value.to_string();
            let printed = indented(compact.as_bytes());
            prop_assert_eq!(serde_json::from_slice::<Value>(&printed).unwrap(), value.clone());
            prop_assert_eq!(String::from_utf8(printed).unwrap(), serde_json::to_string_pretty(&value).unwrap());
        }
    }
}
