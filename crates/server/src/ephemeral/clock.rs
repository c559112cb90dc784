//! The clock of an ephemeral cluster, as its administrator sees and moves it.
//!
//! ```text
//! GET  /klab/v1/clock                      {"now": "2026-06-01T08:00:00Z", "stepped": true}
//! POST /klab/v1/clock {"advance": "5m"}    {"now": "2026-06-01T08:05:00Z", "stepped": true}
//! ```

use http::{HeaderValue, Method, Response, header};
use jiff::SignedDuration;
use klab_api_machinery::status::Status;
use serde::Deserialize;
use serde_json::json;

use super::world::World;
use klab_cluster::api::{Body, status_response};

/// Where it is.
pub(super) const PATH: &str = "/klab/v1/clock";
/// What is asked of the clock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    /// How far, as Go writes durations: `5m`, `1h30m`.
    advance: String,
}

/// Answers a request to the clock, by the administrator.
pub(super) async fn answer(world: &World, method: &Method, body: &[u8]) -> Response<Body> {
    let hand = world.hand();
    let moved = match (method, hand) {
        (&Method::GET | &Method::HEAD, _) => Ok(world.api().cluster().now()),
        (&Method::POST, Some(hand)) => match duration(body) {
            Ok(by) => hand.advance(by).await,
            Err(status) => Err(status),
        },
        (&Method::POST, None) => Err(Status::bad_request(
            "this cluster's clock is the machine's and cannot be moved: `klab serve --ephemeral --clock stepped` has one that can",
        )),
        _ => Err(Status::new(405, "MethodNotAllowed", "the clock is read with GET and moved with POST")),
    };
    match moved {
        Ok(now) => {
            let mut response = Response::new(Body::whole(json!({ "now": now, "stepped": hand.is_some() }).to_string()));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(status) => status_response(&status),
    }
}

/// How far the clock is to be moved.
fn duration(body: &[u8]) -> Result<SignedDuration, Status> {
    let wrong = |why: String| Status::bad_request(format!("{why}; wanted: {{\"advance\": \"5m\"}}"));
    let asked: Move =
        serde_json::from_slice(body).map_err(|error| wrong(format!("not a move of the clock: {error}")))?;
    let by: SignedDuration = asked.advance.parse().map_err(|_| wrong(format!("{:?} is no duration", asked.advance)))?;
    if by.is_negative() {
        return Err(wrong(format!("{:?} goes back in time", asked.advance)));
    }
    Ok(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_durations_forward_are_moves() {
        for (text, seconds) in [("5m", 300), ("1h30m", 5400), ("90s", 90), ("0s", 0), ("1.5s", 1)] {
            let body = json!({ "advance": text }).to_string();
            assert_eq!(duration(body.as_bytes()).map(|by| by.as_secs()).ok(), Some(seconds), "{text}");
        }
        for body in [
            "",
            "{}",
            "5m",
            r#"{"advance":5}"#,
            r#"{"advance":""}"#,
            r#"{"advance":"-5m"}"#,
            r#"{"advance":"soon"}"#,
            r#"{"advance":"5"}"#,
            r#"{"advance":"5m","to":"x"}"#,
            "\u{0}",
            r#"{"advance":"99999999999999999999h"}"#,
        ] {
            let refused = duration(body.as_bytes()).unwrap_err();
            assert!(
                refused.code == 400 && refused.message.contains("wanted: {\"advance\": \"5m\"}"),
                "{body}: {refused}"
            );
        }
    }
}
