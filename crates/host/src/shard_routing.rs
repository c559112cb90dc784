//! A class of several shards: who joins is led to the shard that has their seat, or to the one that has the most room; who has a
//! code for a seat, to the one shard at which that code is good.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::address::From;
use super::answer::{json_answer, refused};
use super::code::{For, may_be_for_a_seat, plain};
use super::refusal::Refusal;
use super::replication;
use super::shards::{
    LED, MAX_BODY, Person, Room, Shards, Sought, choose, free_together, person, refuse_beyond, starting,
};
use super::state::Host;
use crate::admission;

/// Whether the class has room for somebody, though this shard may have none.
#[derive(Debug, Clone, Copy)]
pub struct Beyond;

/// Leads who joins to their shard, or lets them in here.
pub(super) async fn lead(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    request: Request,
    next: Next,
) -> Response {
    let Some(shards) = host.shards().filter(|_| request.method() == http::Method::POST) else {
        return next.run(request).await;
    };
    let is_led = request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == LED));
    let (mut parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return Refusal::new(413, "RequestEntityTooLarge", "that is too long").into_response();
    };
    let person = person(&parts.headers, &body);
    // After too many guesses no other shard is asked. A code for a seat is never a guess.
    let is_seat_code = || {
        let hash = host.class.hash(&plain(&person.code));
        host.register().code(&hash).is_some_and(|(code, _)| code.of == For::Seat)
    };
    // A pass is good here and nowhere else.
    if admission::is_pass(&host, &person.code) || host.judged(from, || Ok(())).is_err() && !is_seat_code() {
        return next.run(Request::from_parts(parts, Body::from(body))).await;
    }
    let to = match place(&host, shards, &person, (is_led, from)).await {
        Ok(Destination::Here) => None,
        Ok(Destination::HereBeyond) => {
            parts.extensions.insert(Beyond);
            None
        }
        Ok(Destination::At(number)) => shards.address_of(&host.url(), number),
        Err(refusal) => return refused(refusal, &parts.headers, &host.base()),
    };
    match to.and_then(|address| HeaderValue::try_from(format!("{address}{}?{LED}", parts.uri.path())).ok()) {
        // The method stays, and what was sent.
        Some(to) => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response(),
        None => next.run(Request::from_parts(parts, Body::from(body))).await,
    }
}

/// Where somebody is let in.
enum Destination {
    Here,
    /// Here, also where this shard has no room: others have it.
    HereBeyond,
    At(u32),
}

async fn place(
    host: &Host,
    shards: &Shards,
    person: &Person,
    (is_led, from): (bool, IpAddr),
) -> Result<Destination, Refusal> {
    let sought = Sought { name: person.name.clone(), code: host.class.hash(&plain(&person.code)) };
    let mut own = room_for(host, &sought);
    // A seat's code that this shard has not heard of may have been made while it was away.
    let may_be_for_a_seat = may_be_for_a_seat(&person.code) && !host.register().knows(&sought.code);
    // How many people a code has let in is what all shards say together.
    let bound = host.register().uses(&sought.code).1.filter(|_| !own.knows);
    let is_settled = bound.is_none() && own.home.map_or(!may_be_for_a_seat, |home| home == shards.own && own.free > 0);
    if is_led && is_settled {
        return Ok(Destination::Here);
    }
    let rooms = shards.rooms(own, &sought).await;
    if let Some(bound) = bound {
        refuse_beyond(bound, &rooms)?;
    }
    if own.home.is_none()
        && let Some(number) = rooms.iter().position(|room| room.is_some_and(|room| room.home.is_some()))
    {
        // Also whether it was taken back since.
        replication::learn_from(host, shards, u32::try_from(number).unwrap_or(shards.own)).await;
        own = room_for(host, &sought);
    }
    match own.home {
        Some(home) if home == shards.own => {
            Ok(if free_together(&rooms) > 0 { Destination::HereBeyond } else { Destination::Here })
        }
        // The holder of a seat by that code has it there, and no other gets a second one.
        Some(home) => {
            let is_there = rooms.get(home as usize).is_some_and(Option::is_some);
            if is_there { Ok(Destination::At(home)) } else { Err(starting()) }
        }
        // No shard that answers knows the code; one that is away may.
        None if may_be_for_a_seat && rooms.iter().any(Option::is_none) => {
            host.judged(from, || Err(Refusal { is_guess: true, ..starting() }))
        }
        None if is_led => Ok(Destination::Here),
        None => {
            let comes_back = person.pin.as_ref().is_some_and(|pin| !pin.trim().is_empty());
            let chosen = u32::try_from(choose(&rooms, comes_back)?).unwrap_or(shards.own);
            Ok(if chosen == shards.own { Destination::Here } else { Destination::At(chosen) })
        }
    }
}

/// What this shard says of somebody, to another shard.
pub(super) async fn room(State(host): State<Arc<Host>>, body: Bytes) -> Response {
    let sought: Sought = serde_json::from_slice(&body).unwrap_or_default();
    match serde_json::to_value(room_for(&host, &sought)) {
        Ok(room) => json_answer(StatusCode::OK, &room),
        Err(error) => Refusal::internal(error.to_string()).into_response(),
    }
}

fn room_for(host: &Host, sought: &Sought) -> Room {
    let register = host.register();
    let taken = i64::try_from(register.seats().count()).unwrap_or(i64::MAX);
    let knows = !sought.name.trim().is_empty() && register.needs_pin(&sought.name).is_some();
    let code = register.code(&sought.code).filter(|(code, _)| code.of == For::Seat);
    let home = code.map(|(code, _)| code.is_good_at());
    let (used, _) = register.uses(&sought.code);
    Room { free: i64::from(host.settings.most).saturating_sub(taken), knows, home, used }
}
