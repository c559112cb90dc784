//! Signing in to a class of several shards: who has a seat is led to its shard, others to the one with the most room.
//!
//! No shard vouches for a person to another one: a person who is led signs in there, which takes no typing. Shards exchange
//! only whether they know somebody, by a hash.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::admission;
use crate::answer::json_answer;
use crate::refusal::Refusal;
use crate::shards::Shards;
use crate::state::Host;

/// Where shards ask each other.
pub(super) const PATH: &str = "/internal/identity";

/// What a shard says of itself, to one who asks for somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Room {
    free: u32,
    knows: bool,
}

/// Somebody, as shards ask each other.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Sought {
    subject: String,
}

/// The shard for somebody who has signed in.
pub(super) async fn place(host: &Host, shards: &Shards, subject: &str, is_led: bool) -> Result<u32, Refusal> {
    let rooms = shards.all(room_for(host, subject), PATH, &json!({ "subject": subject })).await;
    choose(&rooms, shards.own, is_led)
}

/// A person who is led stays, unless another shard knows them: saying that one was led gives no second seat.
fn choose(rooms: &[Option<Room>], own: u32, is_led: bool) -> Result<u32, Refusal> {
    let number = |place: usize| u32::try_from(place).unwrap_or(own);
    if let Some(known) = rooms.iter().position(|room| room.is_some_and(|room| room.knows)) {
        return Ok(number(known));
    }
    if rooms.iter().any(Option::is_none) {
        // Their seat may be there.
        let message = "a part of the class is just starting: try again in a moment";
        return Err(Refusal { retry_after: Some(3), ..Refusal::new(503, "ServiceUnavailable", message) });
    }
    if is_led {
        return Ok(own);
    }
    // Of equals the first.
    let most = rooms.iter().enumerate().rev().max_by_key(|(_, room)| room.map_or(0, |room| room.free));
    Ok(most.map_or(own, |(place, _)| number(place)))
}

/// What this shard says of somebody, to another shard.
pub(super) async fn room(State(host): State<Arc<Host>>, headers: HeaderMap, body: Bytes) -> Response {
    if !host.shards().is_some_and(|shards| shards.is_one(&headers)) {
        return Refusal::not_found("there is nothing here").into_response();
    }
    let sought: Sought = serde_json::from_slice(&body).unwrap_or_default();
    let Room { free, knows } = room_for(&host, &sought.subject);
    json_answer(StatusCode::OK, &json!({ "free": free, "knows": knows }))
}

fn room_for(host: &Host, subject: &str) -> Room {
    let identity = admission::identity(host, subject);
    let register = host.register();
    let taken = u32::try_from(register.seats().count()).unwrap_or(u32::MAX);
    Room { free: host.settings.most.saturating_sub(taken), knows: register.knows_identity(&identity) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_go_where_their_seat_is_and_nobody_gets_a_second_one() {
        let room = |free: u32, knows: bool| Some(Room { free, knows });
        for (rooms, is_led, wanted) in [
            (vec![room(3, false), room(9, false), room(9, false)], false, Some(1)),
            (vec![room(3, false), room(9, false)], true, Some(0)),
            (vec![room(3, false), room(0, true)], false, Some(1)),
            (vec![room(3, false), room(0, true)], true, Some(1)),
            // Two that know somebody are one too many: all agree on which it is.
            (vec![room(3, true), room(0, true)], true, Some(0)),
            (vec![room(3, false), None], false, None),
            (vec![room(3, false), None], true, None),
            (vec![None, room(3, true)], false, Some(1)),
            (vec![room(0, false), room(0, false)], false, Some(0)),
        ] {
            assert_eq!(choose(&rooms, 0, is_led).ok(), wanted, "{rooms:?} {is_led}");
        }
    }
}
