//! Tells another program what happens in a class: signed requests of the Standard Webhooks form, from a thread of their own.
//!
//! ```text
//! Standings ─ news ─▶ queue, bounded ─▶ a few requests at a time, again after a pause ─▶ the receiver
//! ```
//!
//! The class never waits for the receiver. What does not fit into the queue, or is not taken in time, is lost and counted.

pub mod delivery;
pub mod news;
pub mod signature;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

use self::delivery::{Message, Settings, deliver_all};
use self::news::{ClassAt, Happening, News};
use super::aggregate::standings;
use super::metrics::count;
use super::state::Host;
use klab_operations::error::{Code, Context as _, Result};

/// Messages that wait for the receiver.
const WAITING: usize = 1000;
/// How often it is looked who is stuck: that comes by time alone.
const LOOK: Duration = Duration::from_secs(10);
/// Changes that go out together.
const TOGETHER: Duration = Duration::from_millis(100);
/// How long the receiver has after the class has ended.
const FAREWELL: Duration = Duration::from_secs(5);

/// A class whose events go out for as long as its server runs.
#[derive(Debug)]
pub struct Telling(JoinHandle<()>);

impl Telling {
    /// Returns when the events until the server stopped have gone out, or were tried for a moment.
    pub async fn ended(self) {
        // It ends by itself, and a fault of it is no fault of the class.
        let _ = tokio::task::spawn_blocking(move || self.0.join()).await;
    }
}

/// Tells what happens in a class from now on, in a thread of its own.
///
/// # Errors
/// When the system refuses a thread.
pub fn begin(host: &Arc<Host>, settings: Settings) -> Result<Telling> {
    let host = Arc::clone(host);
    let runtime = klab_operations::client::runtime()?;
    let mut newest = host.standings.follow();
    let seen = *newest.borrow_and_update();
    // What is there by now is no news.
    let news = News::of(class_at(&host), &standings(&host));
    let thread = std::thread::Builder::new().name("webhook".to_owned());
    let spawned = thread.spawn(move || runtime.block_on(tell(&host, &settings, news, (newest, seen))));
    spawned.map(Telling).code(Code::MachineRefused, || "could not start a thread".to_owned())
}

async fn tell(host: &Host, settings: &Settings, news: News, newest: (watch::Receiver<u64>, u64)) {
    let (queue, waiting) = mpsc::channel(WAITING);
    let delivering = deliver_all(waiting, settings, &host.metrics);
    tokio::pin!(delivering);
    tokio::select! {
        () = follow(host, news, newest, queue, settings.names) => {}
        // It goes on for as long as there is a queue.
        () = &mut delivering => return,
    }
    if tokio::time::timeout(FAREWELL, delivering).await.is_err() {
        let lost = host.metrics.webhook_waiting.swap(0, Ordering::Relaxed);
        host.metrics.webhook_lost.fetch_add(lost, Ordering::Relaxed);
        tracing::warn!(lost, "the webhook had not taken all events when the class ended");
    }
}

/// Finds out what happens, until the server stops.
async fn follow(
    host: &Host,
    mut news: News,
    (mut newest, mut seen): (watch::Receiver<u64>, u64),
    queue: mpsc::Sender<Message>,
    names: bool,
) {
    let Some(server) = host.server().cloned() else { return };
    let mut number: u64 = 0;
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let (ends, by_time) = tokio::select! {
            () = server.stopped() => (true, false),
            Ok(()) = newest.changed() => {
                tokio::time::sleep(TOGETHER).await;
                (false, false)
            }
            _ = tick.tick() => (false, true),
        };
        newest.borrow_and_update();
        let (last, mut rows) = host.standings.since(seen);
        seen = last;
        if by_time {
            rows.extend(news.may_be_stuck().filter_map(|seat| host.standings.get(seat)));
        }
        let now = Timestamp::now();
        for happening in news.take(class_at(host), &rows, now) {
            number = number.saturating_add(1);
            put(host, &queue, number, &happening, names, now);
        }
        if ends {
            return;
        }
    }
}

/// Puts an event into the queue, where there is room.
fn put(host: &Host, queue: &mpsc::Sender<Message>, number: u64, happening: &Happening, names: bool, now: Timestamp) {
    let class = (host.settings.name.as_str(), host.settings.shard);
    let message = Message {
        id: format!("{}-{}-{}-{number}", class.0, class.1, host.run),
        body: happening.document(class, names, now).to_string(),
    };
    host.metrics.webhook_waiting.fetch_add(1, Ordering::Relaxed);
    if queue.try_send(message).is_err() {
        host.metrics.webhook_waiting.fetch_sub(1, Ordering::Relaxed);
        count(&host.metrics.webhook_lost);
    }
}

fn class_at(host: &Host) -> ClassAt {
    ClassAt { phase: host.phase(), times: host.times() }
}
