//! What a webhook is told of a class: by a receiver that checks signatures as any library for Standard Webhooks does.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::sync::mpsc;

use super::running::Running;

const KEY: [u8; 32] = [42; 32];

/// Longest wait for something that is to come.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that is told what happens.
struct Receiver {
    url: String,
    told: mpsc::UnboundedReceiver<(String, Value)>,
    /// How many requests it is yet to refuse, and whether it says nothing at all.
    mood: Arc<Mutex<Mood>>,
}

#[derive(Debug, Default)]
struct Mood {
    refuses: usize,
    silent: bool,
}

#[derive(Clone)]
struct Room {
    told: mpsc::UnboundedSender<(String, Value)>,
    mood: Arc<Mutex<Mood>>,
}

/// The identity of a message that is signed as it should be.
fn checked(headers: &HeaderMap, body: &str) -> Option<String> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let (id, second) = (text("webhook-id")?, text("webhook-timestamp")?);
    let old = jiff::Timestamp::now().as_second().abs_diff(second.parse().ok()?);
    let signature = STANDARD.decode(text("webhook-signature")?.strip_prefix("v1,")?).ok()?;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &KEY);
    ring::hmac::verify(&key, format!("{id}.{second}.{body}").as_bytes(), &signature).ok()?;
    (old < 60).then(|| id.to_owned())
}

async fn take(State(room): State<Room>, headers: HeaderMap, body: String) -> StatusCode {
    let Some(id) = checked(&headers, &body) else { return StatusCode::UNAUTHORIZED };
    let silent = room.mood.lock().unwrap().silent;
    if silent {
        std::future::pending::<()>().await;
    }
    // Whoever waits for it has gone, perhaps.
    let _ = room.told.send((id, serde_json::from_str(&body).unwrap()));
    let mut mood = room.mood.lock().unwrap();
    if mood.refuses > 0 {
        mood.refuses -= 1;
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    StatusCode::NO_CONTENT
}

impl Receiver {
    async fn start(mood: Mood) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks/hunter2", listener.local_addr().unwrap());
        let (sender, told) = mpsc::unbounded_channel();
        let mood = Arc::new(Mutex::new(mood));
        let room = Room { told: sender, mood: Arc::clone(&mood) };
        let app = Router::new().route("/hooks/hunter2", post(take)).with_state(room);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, told, mood }
    }

    /// The next message of a type of which something is so; until then a learner may move on.
    async fn until(&mut self, kind: &str, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (_, told, data) = self.next().await;
            if told == kind && is(&data) {
                return data;
            }
            assert_eq!(told, "seat.moved", "{data}");
        }
    }

    /// The next message: its identity, its type, its data.
    async fn next(&mut self) -> (String, String, Value) {
        let (id, body) = tokio::time::timeout(PATIENCE, self.told.recv()).await.expect("nothing is told").unwrap();
        (id, body["type"].as_str().unwrap().to_owned(), body["data"].clone())
    }
}

/// A host that tells a receiver, and the folder of the secret.
fn host(receiver: &Receiver, more: &[&str]) -> (Running, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, format!("whsec_{}\n", STANDARD.encode(KEY))).unwrap();
    let arguments = ["scheduling", "--webhook", &receiver.url, "--webhook-secret-file", secret.to_str().unwrap()];
    (Running::start(&[&arguments, more].concat()), folder)
}

/// The number of a counter of the class.
async fn counted(host: &Running, name: &str) -> u64 {
    let text = host.text("/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("klab_host_{name}{{class=\"scheduling\"}} ")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_is_told_signed_and_without_names() {
    let mut receiver = Receiver::start(Mood::default()).await;
    let (host, _folder) = host(&receiver, &[]);
    host.join(&host.code, "Ann Example", "2468").await.unwrap();
    let (_, kind, data) = receiver.next().await;
    assert_eq!(
        (kind.as_str(), &data["seat"]["seat"], &data["class"]),
        ("seat.joined", &"0-1".into(), &"scheduling".into())
    );
    assert!(!data.to_string().contains("Ann"), "{data}");
    // Whoever comes again is no news.
    host.join(&host.code, "Ann Example", "2468").await.unwrap();
    host.instruct("POST", "/teach/seats/0-1/steps?done=2").await.unwrap();
    receiver.until("seat.moved", |data| data["seat"]["done"] == 2).await;
    host.instruct("POST", "/teach/extend?minutes=5").await.unwrap();
    receiver.until("class.extended", |_| true).await;
    host.instruct("POST", "/teach/close").await.unwrap();
    assert_eq!(receiver.until("class.closed", |_| true).await["phase"], "closed");
    // Neither the secret nor the receiver's address stands where others look.
    let said = std::fs::read_to_string(host.home().join("host.err")).unwrap();
    assert!(!said.contains("hunter2") && !said.contains("whsec_"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_refuses_is_told_again_and_names_are_told_where_the_instructor_says_so() {
    let mut receiver = Receiver::start(Mood { refuses: 1, ..Mood::default() }).await;
    let (host, _folder) = host(&receiver, &["--webhook-names"]);
    host.join(&host.code, "Ann", "2468").await.unwrap();
    let (first, again) = (receiver.next().await, receiver.next().await);
    assert_eq!(first, again, "an attempt is the same message, by its identity and its content");
    assert_eq!(first.2["seat"]["name"], "Ann");
    host.join(&host.code, "Bob", "2468").await.unwrap();
    assert_ne!(receiver.next().await.0, first.0);
    assert_eq!(counted(&host, "webhook_retried_total").await, 1);
    assert_eq!(counted(&host, "webhook_lost_total").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_says_nothing_holds_nobody_up() {
    let mut receiver = Receiver::start(Mood { silent: true, ..Mood::default() }).await;
    let (mut host, _folder) = host(&receiver, &[]);
    let names: Vec<String> = (0..20).map(|number| format!("L{number}")).collect();
    let joining = futures::future::join_all(names.iter().map(|name| host.join(&host.code, name, "1111")));
    let all = tokio::time::timeout(PATIENCE, joining).await.unwrap();
    let seats: BTreeSet<String> = all.into_iter().map(|one| one.unwrap()["seat"].to_string()).collect();
    assert_eq!(seats.len(), 20);
    let until = tokio::time::Instant::now() + PATIENCE;
    while counted(&host, "webhook_waiting").await < 20 {
        assert!(tokio::time::Instant::now() < until, "{}", host.text("/metrics").await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(counted(&host, "webhook_sent_total").await, 0);
    // The end of the class waits for it for a moment only.
    tokio::time::timeout(PATIENCE, host.end()).await.unwrap();
    assert!(receiver.told.try_recv().is_err());
    assert!(receiver.mood.lock().unwrap().silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_last_is_told_before_the_host_ends() {
    let mut receiver = Receiver::start(Mood::default()).await;
    let (mut host, _folder) = host(&receiver, &[]);
    host.join(&host.code, "Ann", "2468").await.unwrap();
    tokio::time::timeout(PATIENCE, host.end()).await.unwrap();
    assert_eq!(receiver.next().await.1, "seat.joined");
}
