//! The shards of a class, as one of them knows the others: which one is for somebody who joins.
//!
//! The others are asked with a word that follows from the code of the class, which all shards have. A shard that is silent may have the
//! seat of somebody who comes back: such a one is asked to wait, and gets no second seat.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use futures::future::join_all;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::refusal::Refusal;
use klab_cluster::server::Digest;

/// Where shards ask each other.
pub(super) const ROOM: &str = "/internal/room";
/// Largest request for joining, and answer of a shard.
pub(super) const LARGEST: usize = 64 * 1024;
/// Time for a shard to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// What says that somebody was led already.
pub(super) const LED: &str = "led=1";

/// The shards of a class, as one of them knows the others.
#[derive(Clone)]
pub struct Shards {
    pub(super) own: u32,
    pub(super) many: u32,
    /// Where each is; `{}` stands for its number.
    address: String,
    word: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl std::fmt::Debug for Shards {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The word is not among what is printed.
        formatter.debug_struct("Shards").field("own", &self.own).field("many", &self.many).finish_non_exhaustive()
    }
}

/// What a shard says of itself, to one who asks for somebody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Room {
    /// Seats that nobody has.
    pub(super) free: u32,
    /// Whether the person has a seat there.
    pub(super) knows: bool,
}

/// Somebody who joins, as far as it matters where.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Person {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) pin: Option<String>,
    /// Told to no other shard.
    #[serde(default, skip_serializing)]
    pub(super) code: String,
}

impl Shards {
    /// So many shards, of which this is one. `code` is the code of the class.
    pub fn new(own: u32, many: u32, address: String, code: &str) -> Self {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, code.trim().as_bytes());
        let tag = ring::hmac::sign(&key, b"klab: shards of a class");
        let word = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { own, many, address, word, client }
    }

    pub(super) fn is_one(&self, headers: &HeaderMap) -> bool {
        let word = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        word.is_some_and(|word| Digest::of(word.as_bytes()).equals(&Digest::of(self.word.as_bytes())))
    }

    /// What all shards say, this one's own words among them.
    pub(super) async fn rooms(&self, own: Room, name: &str) -> Vec<Option<Room>> {
        let ask = |number: u32| async move {
            if number == self.own {
                Some(own)
            } else {
                tokio::time::timeout(PATIENCE, self.ask(number, name)).await.ok().flatten()
            }
        };
        join_all((0..self.many).map(ask)).await
    }

    /// What all shards say to a question, this one's own words among them.
    pub(super) async fn all<T: DeserializeOwned + Clone>(
        &self,
        own: T,
        path: &str,
        question: &Value,
    ) -> Vec<Option<T>> {
        let text = Bytes::from(question.to_string());
        let ask = |number: u32| {
            let (own, text) = (own.clone(), text.clone());
            async move {
                if number == self.own {
                    return Some(own);
                }
                let answer = tokio::time::timeout(PATIENCE, self.send(number, path, text)).await.ok().flatten();
                answer.and_then(|answer| serde_json::from_slice(&answer).ok())
            }
        };
        join_all((0..self.many).map(ask)).await
    }

    async fn ask(&self, number: u32, name: &str) -> Option<Room> {
        let person = serde_json::to_vec(&Person { name: name.to_owned(), ..Person::default() }).ok()?;
        serde_json::from_slice(&self.send(number, ROOM, person.into()).await?).ok()
    }

    async fn send(&self, number: u32, path: &str, text: Bytes) -> Option<Bytes> {
        let uri: Uri = format!("{}{path}", self.address.replace("{}", &number.to_string())).parse().ok()?;
        let request = http::Request::post(uri)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.word))
            .body(Full::from(text))
            .ok()?;
        let answer = self.client.request(request).await.ok().filter(|answer| answer.status() == StatusCode::OK)?;
        Some(Limited::new(answer.into_body(), LARGEST).collect().await.ok()?.to_bytes())
    }

    /// The address of a shard, from that of this one: the number is the last element of its path.
    pub(super) fn address_of(&self, own: &str, number: u32) -> Option<String> {
        let before = own.strip_suffix(&self.own.to_string()).filter(|before| before.ends_with('/'))?;
        Some(format!("{before}{number}"))
    }
}

/// The shard for somebody, from what each said.
pub(super) fn choose(rooms: &[Option<Room>], comes_back: bool) -> Result<usize, Refusal> {
    if let Some(known) = rooms.iter().position(|room| room.is_some_and(|room| room.knows)) {
        return Ok(known);
    }
    if comes_back && rooms.iter().any(Option::is_none) {
        return Err(Refusal::new(
            503,
            "ServiceUnavailable",
            "a part of the class is just starting: try again in a moment",
        ));
    }
    let free = |room: &Option<Room>| room.map_or(0, |room| room.free);
    // Of equals the first.
    let most = rooms.iter().enumerate().rev().max_by_key(|(_, room)| free(room));
    let full = || Refusal::new(503, "ServiceUnavailable", "all seats of the class are taken: ask the instructor");
    most.filter(|(_, room)| free(room) > 0).map(|(number, _)| number).ok_or_else(full)
}

/// Who joins, from what a form or a program sends.
pub(super) fn person(headers: &HeaderMap, body: &[u8]) -> Person {
    let is_json =
        headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if is_json {
        return serde_json::from_slice(body).unwrap_or_default();
    }
    let mut person = Person::default();
    for (key, value) in form_urlencoded::parse(body) {
        match &*key {
            "name" => person.name = value.into_owned(),
            "pin" => person.pin = Some(value.into_owned()),
            "code" => person.code = value.into_owned(),
            _ => {}
        }
    }
    person
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    macro_rules! room {
        ($free:expr, $knows:expr) => {
            Some(Room { free: $free, knows: $knows })
        };
    }

    #[test]
    fn people_go_where_their_seat_is_and_others_where_most_is_free() {
        for (rooms, comes_back, wanted) in [
            (vec![room!(3, false), room!(9, false), room!(9, false)], false, Some(1)),
            (vec![room!(3, false), room!(9, false), room!(0, true)], true, Some(2)),
            // Somebody new needs no shard that is silent; somebody who comes back may need it.
            (vec![room!(3, false), None], false, Some(0)),
            (vec![room!(3, false), None], true, None),
            (vec![room!(0, false), room!(0, false)], false, None),
            (vec![None, None], false, None),
        ] {
            assert_eq!(choose(&rooms, comes_back).ok(), wanted, "{rooms:?}");
        }
    }

    #[test]
    fn names_are_read_as_pages_and_programs_send_them() {
        let of = |kind: &'static str, body: &str| {
            person(&HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))]), body.as_bytes())
        };
        let ann = Person { name: "Ann B".into(), pin: Some("12".into()), code: "x".into() };
        assert_eq!(of("application/x-www-form-urlencoded", "code=x&name=Ann+B&pin=12"), ann);
        assert_eq!(of("application/json", r#"{"code":"x","name":"Ann B","pin":"12"}"#), ann);
        assert_eq!(of("application/json", "nonsense"), Person::default());
    }

    #[test]
    fn shards_know_each_other_by_the_code_and_by_their_paths() {
        let one = Shards::new(2, 4, "http://klab-{}:8443".into(), "abcd-1234\n");
        let other = Shards::new(3, 4, "http://klab-{}:8443".into(), "abcd-1234");
        let of = |word: &str| {
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {word}")).unwrap())])
        };
        assert!(one.is_one(&of(&other.word)) && !one.is_one(&of("abcd-1234")) && !one.is_one(&HeaderMap::new()));
        assert_eq!(one.address_of("https://h/shards/2", 0).as_deref(), Some("https://h/shards/0"));
        assert_eq!(one.address_of("https://h/shards/12", 0), None);
        assert_eq!(one.address_of("https://h2", 0), None);
    }
}
