//! The shards of a class, as one of them knows the others: how they ask each other, and which one is for somebody who joins.
//!
//! They know each other by a word that follows from the secret of the class, which all shards have and no learner. A shard that is
//! silent may have the seat of somebody who comes back: such a one is asked to wait, and gets no second seat.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use futures::future::join_all;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::code::Spent;
use super::refusal::Refusal;
use super::secret::{Secret, ring_equal};

/// Where shards ask each other for somebody who joins.
pub(super) const ROOM: &str = "/internal/room";
/// Largest request for joining.
pub(super) const MAX_BODY: usize = 64 * 1024;
/// Largest answer of a shard: all that is known of its learners.
const MAX_ANSWER: usize = 32 << 20;
/// Time for a shard to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
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
    /// Free seats; less than none, where codes for seats were good beyond its own number.
    pub(super) free: i64,
    /// Whether the person has a seat there.
    pub(super) knows: bool,
    /// Where the code is one for a seat, the shard that admits its holder.
    #[serde(default)]
    pub(super) home: Option<u32>,
    /// How many people have come there by the code.
    #[serde(default)]
    pub(super) used: u32,
}

/// Somebody who joins, as far as it matters where.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Person {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) pin: Option<String>,
    #[serde(default)]
    pub(super) code: String,
}

/// Somebody who joins, as shards ask each other: the code is a hash.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Sought {
    pub(super) name: String,
    pub(super) code: String,
}

/// What is asked of another shard.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    /// With the query.
    pub(super) path: &'a str,
    pub(super) body: Bytes,
    pub(super) patience: Duration,
}

impl<'a> Ask<'a> {
    /// For a document.
    pub(super) fn get(path: &'a str, patience: Duration) -> Self {
        Self { method: Method::GET, path, body: Bytes::new(), patience }
    }
}

impl Shards {
    /// A number of shards, of which this is one. `secret` is that of the class.
    pub fn new(own: u32, many: u32, address: String, secret: &Secret) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(PATIENCE));
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { own, many, address, word: secret.proof("shards", "word"), client }
    }

    /// How many there are.
    pub(super) fn many(&self) -> u32 {
        self.many.max(1)
    }

    /// The numbers of the others.
    pub(super) fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let own = self.own;
        (0..self.many).filter(move |number| *number != own)
    }

    pub(super) fn is_one(&self, headers: &HeaderMap) -> bool {
        let word = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        word.is_some_and(|word| ring_equal(word.as_bytes(), self.word.as_bytes()))
    }

    /// The answer of another shard; none where it is away.
    pub(super) async fn send(&self, number: u32, ask: Ask<'_>) -> Option<(StatusCode, Bytes)> {
        let uri: Uri = format!("{}{}", self.address.replace("{}", &number.to_string()), ask.path).parse().ok()?;
        let request = http::Request::builder()
            .method(ask.method)
            .uri(uri)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.word))
            .body(Full::from(ask.body))
            .ok()?;
        let whole = async {
            let answer = self.client.request(request).await.ok()?;
            let code = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.ok()?.to_bytes();
            Some((code, body))
        };
        tokio::time::timeout(ask.patience, whole).await.ok().flatten()
    }

    /// A document of another shard; none where it is away, or says no such thing.
    pub(super) async fn document<T: DeserializeOwned>(&self, number: u32, ask: Ask<'_>) -> Option<T> {
        let (code, body) = self.send(number, ask).await?;
        if code == StatusCode::OK { serde_json::from_slice(&body).ok() } else { None }
    }

    /// What all shards say of somebody who joins, this one's own words among them.
    pub(super) async fn rooms(&self, own: Room, sought: &Sought) -> Vec<Option<Room>> {
        self.all(own, ROOM, sought).await
    }

    /// What all shards say to a question, this one's own words among them.
    pub(super) async fn all<T: DeserializeOwned + Clone>(
        &self,
        own: T,
        path: &str,
        question: &impl Serialize,
    ) -> Vec<Option<T>> {
        let body = Bytes::from(serde_json::to_vec(question).unwrap_or_default());
        let ask = |number: u32| {
            let (own, body) = (own.clone(), body.clone());
            async move {
                let ask = Ask { method: Method::POST, path, body, patience: PATIENCE };
                if number == self.own { Some(own) } else { self.document(number, ask).await }
            }
        };
        join_all((0..self.many).map(ask)).await
    }

    /// The address of a shard, from that of this one: the number is the last element of its path.
    pub(super) fn address_of(&self, own: &str, number: u32) -> Option<String> {
        let before = own.strip_suffix(&self.own.to_string()).filter(|before| before.ends_with('/'))?;
        Some(format!("{before}{number}"))
    }
}

/// Free seats of all shards that answered.
pub(super) fn free_together(rooms: &[Option<Room>]) -> i64 {
    rooms.iter().flatten().map(|room| room.free).fold(0, i64::saturating_add)
}

/// The answer to a person who needs a shard that is away.
pub(super) fn starting() -> Refusal {
    let message = "a part of the class is just starting: try again in a moment";
    Refusal { retry_after: Some(2), ..Refusal::new(503, "ServiceUnavailable", message) }
}

/// The shard for somebody with the code of the class, from what each said.
pub(super) fn choose(rooms: &[Option<Room>], comes_back: bool) -> Result<usize, Refusal> {
    if let Some(known) = rooms.iter().position(|room| room.is_some_and(|room| room.knows)) {
        return Ok(known);
    }
    if comes_back && rooms.iter().any(Option::is_none) {
        return Err(starting());
    }
    let free = |room: &Option<Room>| room.map_or(0, |room| room.free);
    // Of equals the first.
    let most = rooms.iter().enumerate().rev().max_by_key(|(_, room)| free(room));
    let full = || Refusal::new(503, "ServiceUnavailable", "all seats of the class are taken: ask the instructor");
    let most = most.filter(|(_, room)| free(room) > 0 && free_together(rooms) > 0);
    most.map(|(number, _)| number).ok_or_else(full)
}

/// Refuses somebody new whose code has let in as many people as it does, at whichever shards. Whether it has is not known while one
/// of them is away.
pub(super) fn refuse_beyond(bound: u32, rooms: &[Option<Room>]) -> Result<(), Refusal> {
    let used: u64 = rooms.iter().flatten().map(|room| u64::from(room.used)).sum();
    match rooms {
        _ if rooms.iter().flatten().any(|room| room.knows) => Ok(()),
        _ if used >= u64::from(bound) => Err(Refusal::spent(Spent::Used)),
        _ if rooms.iter().any(Option::is_none) => Err(starting()),
        _ => Ok(()),
    }
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
            Some(Room { free: $free, knows: $knows, ..Room::default() })
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
            // Seats that codes took beyond a shard's own number are seats of the class.
            (vec![room!(1, false), room!(-1, false)], false, None),
            (vec![room!(2, false), room!(-1, false)], false, Some(0)),
        ] {
            assert_eq!(choose(&rooms, comes_back).ok(), wanted, "{rooms:?}");
        }
    }

    #[test]
    fn a_code_lets_in_so_many_people_at_all_shards_together() {
        let room = |used, knows| Some(Room { knows, used, ..Room::default() });
        for (rooms, is_in) in [
            (vec![room(2, false), room(0, false)], true),
            (vec![room(2, false), room(1, false)], false),
            (vec![room(3, false), None], false),
            // A person with a seat comes back to it.
            (vec![room(2, false), room(1, true)], true),
            // One that is away may have let in the last one.
            (vec![room(2, false), None], false),
        ] {
            assert_eq!(refuse_beyond(3, &rooms).is_ok(), is_in, "{rooms:?}");
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
    fn shards_know_each_other_by_the_secret_and_by_their_paths() {
        let secret = Secret::of_class("of all shards\n");
        let one = Shards::new(2, 4, "http://klab-{}:8443".into(), &secret);
        let other = Shards::new(3, 4, "http://klab-{}:8443".into(), &Secret::of_class("of all shards"));
        let of = |word: &str| {
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {word}")).unwrap())])
        };
        assert!(one.is_one(&of(&other.word)) && !one.is_one(&of("of all shards")) && !one.is_one(&HeaderMap::new()));
        assert!(!one.is_one(&of(&secret.proof("instructor", "browser"))));
        assert_eq!(one.address_of("https://h/shards/2", 0).as_deref(), Some("https://h/shards/0"));
        assert_eq!(one.address_of("https://h/shards/12", 0), None);
        assert_eq!(one.address_of("https://h2", 0), None);
        assert_eq!(one.others().collect::<Vec<_>>(), [0, 1, 3]);
    }
}
