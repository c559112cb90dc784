//! A class of several shards: who joins is led to the shard that has their seat, or to the one that has the most room.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::{json_answer, refused};
use super::refusal::Refusal;
use super::shards::{LARGEST, LED, Person, Room, choose, person};
use super::state::Host;

/// Leads who joins to their shard, or lets them in here.
pub(super) async fn lead(State(host): State<Arc<Host>>, request: Request, next: Next) -> Response {
    let is_led = request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == LED));
    let Some(shards) = host.shards().filter(|_| !is_led && request.method() == http::Method::POST) else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LARGEST).await else {
        return Refusal::new(413, "RequestEntityTooLarge", "that is too long").into_response();
    };
    let person = person(&parts.headers, &body);
    if host.is_pass(&person.code) {
        // It is good here and nowhere else.
        return next.run(Request::from_parts(parts, Body::from(body))).await;
    }
    let comes_back = person.pin.as_ref().is_some_and(|pin| !pin.trim().is_empty());
    let rooms = shards.rooms(room_for(&host, &person.name), &person.name).await;
    let chosen = match choose(&rooms, comes_back) {
        Ok(chosen) => u32::try_from(chosen).unwrap_or(shards.own),
        Err(refusal) => return refused(refusal, &parts.headers, &host.base()),
    };
    let to = shards.address_of(&host.url(), chosen).filter(|_| chosen != shards.own);
    let to = to.and_then(|address| HeaderValue::try_from(format!("{address}{}?{LED}", parts.uri.path())).ok());
    match to {
        // The method stays, and what was sent.
        Some(to) => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response(),
        None => next.run(Request::from_parts(parts, Body::from(body))).await,
    }
}

/// What this shard says of somebody, to another shard.
pub(super) async fn room(State(host): State<Arc<Host>>, headers: HeaderMap, body: Bytes) -> Response {
    if !host.shards().is_some_and(|shards| shards.is_one(&headers)) {
        return Refusal::not_found("there is nothing here").into_response();
    }
    let person: Person = serde_json::from_slice(&body).unwrap_or_default();
    match serde_json::to_value(room_for(&host, &person.name)) {
        Ok(room) => json_answer(StatusCode::OK, &room),
        Err(error) => Refusal::internal(error.to_string()).into_response(),
    }
}

fn room_for(host: &Host, name: &str) -> Room {
    let register = host.register();
    let taken = u32::try_from(register.seats().count()).unwrap_or(u32::MAX);
    let knows = !name.trim().is_empty() && register.needs_pin(name).is_some();
    Room { free: host.settings.most.saturating_sub(taken), knows }
}
