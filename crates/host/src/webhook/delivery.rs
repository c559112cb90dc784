//! Gives messages to the receiver: a few at a time, each with a deadline, again after pauses that grow.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use http::StatusCode;
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;
use tokio::sync::{OnceCell, mpsc};

use super::signature::Signer;
use crate::metrics::{Metrics, count};
use crate::service_address::Address;
use klab_operations::client::bearer::{self, Trust};

/// Requests at a time.
const AT_A_TIME: usize = 8;
/// How long the receiver has for one of them.
const ANSWER: Duration = Duration::from_secs(10);
/// Pauses before each further attempt: for half an hour in all.
const PAUSES: [u64; 7] = [1, 5, 30, 60, 300, 600, 900];
/// Longest pause that a receiver may ask for.
const MAX_PAUSE: Duration = Duration::from_mins(15);

/// The receiver, and how it is reached.
#[derive(Debug)]
pub struct Settings {
    /// Where it is.
    pub receiver: Receiver,
    /// Signs the messages.
    pub signer: Signer,
    /// Whether it gets the names of learners.
    pub names: bool,
}

/// One event on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What tells it from all others: attempts have one.
    pub id: String,
    /// JSON.
    pub body: String,
}

/// Where the receiver is.
#[derive(Clone)]
pub struct Receiver {
    address: Address,
    client: OnceCell<kube::Client>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Paths of receivers have words in them that only those know who may write there.
        formatter.debug_struct("Receiver").field("origin", &self.address.origin).finish_non_exhaustive()
    }
}

impl std::str::FromStr for Receiver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self { address: text.parse()?, client: OnceCell::new() })
    }
}

/// What the receiver says to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Taken,
    /// Not now, and perhaps when.
    Later(Option<Duration>),
    /// It wants nothing any more.
    Gone,
}

/// Gives all messages to the receiver, until no sender is left or the receiver is gone.
pub(super) async fn deliver_all(waiting: mpsc::Receiver<Message>, settings: &Settings, metrics: &Metrics) {
    let post = |message: Message| async move { post(settings, &message).await };
    deliver(waiting, post, &PAUSES.map(Duration::from_secs), metrics).await;
}

async fn deliver<F, P>(waiting: mpsc::Receiver<Message>, post: P, pauses: &[Duration], metrics: &Metrics)
where
    P: Fn(Message) -> F,
    F: Future<Output = Answer>,
{
    let gone = std::cell::Cell::new(false);
    let messages = futures::stream::unfold(waiting, |mut waiting| async {
        let message = waiting.recv().await?;
        Some((message, waiting))
    });
    let (gone, post) = (&gone, &post);
    let each = |message: Message| async move {
        let taken = !gone.get() && taken(&message, post, pauses, gone, metrics).await;
        count(if taken { &metrics.webhook_sent } else { &metrics.webhook_lost });
        metrics.webhook_waiting.fetch_sub(1, Ordering::Relaxed);
    };
    messages.for_each_concurrent(AT_A_TIME, each).await;
}

/// Whether the receiver has taken a message.
async fn taken<F, P>(
    message: &Message,
    post: &P,
    pauses: &[Duration],
    gone: &std::cell::Cell<bool>,
    metrics: &Metrics,
) -> bool
where
    P: Fn(Message) -> F,
    F: Future<Output = Answer>,
{
    let mut pauses = pauses.iter();
    loop {
        let asked = match post(message.clone()).await {
            Answer::Taken => return true,
            Answer::Later(asked) => asked,
            Answer::Gone => {
                if !gone.replace(true) {
                    tracing::warn!("the webhook's receiver wants no more events (410)");
                }
                return false;
            }
        };
        let Some(pause) = pauses.next().filter(|_| !gone.get()) else { return false };
        count(&metrics.webhook_retried);
        tokio::time::sleep(asked.map_or(*pause, |asked| asked.clamp(*pause, MAX_PAUSE.max(*pause)))).await;
    }
}

async fn post(settings: &Settings, message: &Message) -> Answer {
    match tokio::time::timeout(ANSWER, attempt(settings, message)).await {
        Ok(Some(answer)) => answer,
        Ok(None) | Err(_) => Answer::Later(None),
    }
}

async fn attempt(settings: &Settings, message: &Message) -> Option<Answer> {
    let receiver = &settings.receiver;
    let made = || bearer::client(&receiver.address.origin, Trust::Machine, None, ANSWER);
    let client = receiver.client.get_or_try_init(made).await.ok()?;
    let second = Timestamp::now().as_second();
    let request = http::Request::post(&receiver.address.path)
        .header("content-type", "application/json")
        .header("user-agent", concat!("klab/", env!("CARGO_PKG_VERSION")))
        .header("webhook-id", &message.id)
        .header("webhook-timestamp", second)
        .header("webhook-signature", settings.signer.sign(&message.id, second, &message.body))
        .body(Body::from(message.body.clone().into_bytes()))
        .ok()?;
    let answer = client.send(request).await.inspect_err(|error| {
        // Not the error's own words: they may have the address in them.
        tracing::debug!(receiver = ?receiver, kind = %kind_of(error), "the webhook's receiver was not reached");
    });
    let answer = answer.ok()?;
    let (status, asked) = (answer.status(), pause_of(answer.headers()));
    // A short answer is read, so that the connection can be used again.
    let _ = http_body_util::Limited::new(answer.into_body(), 64 * 1024).collect().await;
    Some(match status {
        status if status.is_success() => Answer::Taken,
        StatusCode::GONE => Answer::Gone,
        _ => Answer::Later(asked),
    })
}

fn kind_of(error: &kube::Error) -> &'static str {
    if matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_)) { "connection" } else { "request" }
}

/// The pause that a receiver asks for, in seconds.
fn pause_of(headers: &http::HeaderMap) -> Option<Duration> {
    headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    const SOON: [Duration; 2] = [Duration::from_millis(1); 2];

    /// What comes of messages, and how often each was sent, where the receiver answers the n-th attempt of each so.
    fn sent(ids: &[&str], answer: impl Fn(&str, usize) -> Answer) -> ([u64; 3], BTreeMap<String, usize>) {
        let (queue, waiting) = mpsc::channel(16);
        let metrics = Metrics::default();
        for id in ids {
            metrics.webhook_waiting.fetch_add(1, Ordering::Relaxed);
            queue.try_send(Message { id: (*id).to_owned(), body: String::new() }).unwrap();
        }
        drop(queue);
        let attempts = RefCell::new(BTreeMap::new());
        let post = |message: Message| {
            let attempt = *attempts.borrow_mut().entry(message.id.clone()).and_modify(|many| *many += 1).or_insert(1);
            let answer = answer(&message.id, attempt);
            async move { answer }
        };
        let all = deliver(waiting, post, &SOON, &metrics);
        let runtime = klab_operations::client::runtime().unwrap();
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), all).await.unwrap() });
        assert_eq!(metrics.webhook_waiting.load(Ordering::Relaxed), 0);
        let read = [&metrics.webhook_sent, &metrics.webhook_retried, &metrics.webhook_lost];
        (read.map(|counter| counter.load(Ordering::Relaxed)), attempts.into_inner())
    }

    #[test]
    fn who_refuses_is_asked_again_for_a_while() {
        let (counts, attempts) = sent(&["a", "b", "c"], |id, attempt| match (id, attempt) {
            ("a", _) | ("b", 3) => Answer::Taken,
            _ => Answer::Later(Some(Duration::ZERO)),
        });
        assert_eq!(counts, [2, 4, 1], "sent, retried, lost");
        assert_eq!(attempts, [("a", 1), ("b", 3), ("c", 3)].map(|(id, many)| (id.to_owned(), many)).into());
    }

    #[test]
    fn who_is_gone_is_not_asked_again() {
        let (counts, attempts) = sent(&["a", "b", "c"], |_, _| Answer::Gone);
        assert_eq!(counts, [0, 0, 3]);
        assert_eq!(attempts.len(), 1, "{attempts:?}");
    }

    #[test]
    fn addresses_over_which_others_could_read_are_refused() {
        for good in ["https://h.example/x?y=1", "http://127.0.0.1:1/", "http://localhost:1", "http://[::1]:80/a"] {
            assert!(good.parse::<Receiver>().is_ok(), "{good}");
        }
        for bad in
            ["http://h.example/", "ftp://h/", "h.example", "/x", "https://", "https://a:b@h/", "https://h/#x", ""]
        {
            assert!(bad.parse::<Receiver>().is_err(), "{bad}");
        }
        let secret: Receiver = "https://h.example/services/hunter2?key=hunter2".parse().unwrap();
        assert_eq!(
            (secret.address.origin.as_str(), secret.address.path.as_str()),
            ("https://h.example", "/services/hunter2?key=hunter2")
        );
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
