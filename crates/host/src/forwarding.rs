//! What an instructor asks one shard of a class and is another's: looks are led there, and what is to be done is handed on.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::future::join_all;

use super::address::From;
use super::refusal::Refusal;
use super::seat::SeatId;
use super::shards::{Ask, MAX_BODY, Shards};
use super::state::Host;
use super::teacher::{self, Asker};

/// The paths before a seat: for instructors, and for its learner's programs.
const SEATS: [&str; 2] = ["/teach/seats/", "/api/seats/"];
/// How long a shard may take for what is done to a seat, and to all of its seats: less than a request may take.
const OF_A_SEAT: Duration = Duration::from_secs(55);
const OF_ALL: Duration = Duration::from_secs(45);

/// Redirects to the shard of a seat: a board and a lesson live there, and that shard decides who may ask. Has that shard do what
/// an instructor asks, whose page shows the seats of all shards.
pub(super) async fn to_its_shard(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    request: Request,
    next: Next,
) -> Response {
    let elsewhere = host.shards().and_then(|shards| {
        let path = request.uri().path();
        let (prefix, rest) = SEATS.iter().find_map(|prefix| Some((*prefix, path.strip_prefix(prefix)?)))?;
        let seat: SeatId = rest.split('/').next()?.parse().ok()?;
        let number = shards.others().find(|number| *number == seat.shard)?;
        Some((shards, number, prefix == SEATS[0]))
    });
    let Some((shards, number, is_instructor)) = elsewhere else { return next.run(request).await };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    if !is_instructor || matches!(*request.method(), Method::GET | Method::HEAD) {
        let to = shards.address_of(&host.url(), number);
        let to = to.and_then(|address| HeaderValue::try_from(format!("{address}{path}")).ok());
        return match to {
            Some(to) => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response(),
            None => Refusal::not_found("there is no such seat").into_response(),
        };
    }
    match teacher::of(&host, request.headers(), from) {
        Ok(Asker::Instructor) => {}
        Ok(Asker::Shard) => return Refusal::not_found("there is no such seat").into_response(),
        Err(refusal) => return refusal.into_response(),
    }
    let Ok(body) = to_bytes(request.into_body(), MAX_BODY).await else {
        return Refusal::new(413, "RequestEntityTooLarge", "that is too long").into_response();
    };
    let ask = Ask { method: Method::POST, path: &path, body, patience: OF_A_SEAT };
    match shards.send(number, ask).await {
        Some((code, body)) => (code, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        None => Refusal::new(503, "ServiceUnavailable", format!("{} away: nothing was done", shards_are(&[number])))
            .into_response(),
    }
}

/// Has all other shards do something; gives those that did not.
pub(super) async fn at_all_others(shards: &Shards, path: &str) -> Vec<u32> {
    let asked = shards.others().map(|number| async move {
        let ask = Ask { method: Method::POST, path, body: Bytes::new(), patience: OF_ALL };
        let done = shards.send(number, ask).await.is_some_and(|(code, _)| code.is_success());
        if done { None } else { Some(number) }
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// `shard 2 is`, `shards 1 and 2 are`.
pub(super) fn shards_are(numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => format!("shard {one} is"),
        [first @ .., last] => format!("shards {} and {last} are", first.join(", ")),
        [] => "no shard is".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_named_as_people_name_them() {
        for (numbers, wanted) in
            [(vec![2], "shard 2 is"), (vec![1, 2], "shards 1 and 2 are"), (vec![0, 1, 2], "shards 0, 1 and 2 are")]
        {
            assert_eq!(shards_are(&numbers), wanted);
        }
    }
}
