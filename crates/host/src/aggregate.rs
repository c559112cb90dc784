//! A whole class as one of its shards shows it: where all learners are, at this shard and at the others, and how many there
//! are. A shard that is silent counts as away; no request waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures::future::join_all;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::answer::json_answer;
use super::observer;
use super::refusal::Refusal;
use super::seat::SeatId;
use super::shards::{Ask, PATIENCE, starting};
use super::standing::LearnerProgress;
use super::state::Host;
use crate::codes;

/// Where shards ask each other where their learners are.
pub(super) const NEWS: &str = "/internal/class";
/// Changes that go out together.
const TOGETHER: Duration = Duration::from_millis(150);
/// How long a shard says nothing while nothing happens: who asks knows then that it is there.
const SILENCE: Duration = Duration::from_secs(5);
/// How long one that is away is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How long an answer waits for the observer, which looks again at a seat whose lesson has just gone on.
const LOOK: Duration = Duration::from_secs(1);
/// Pieces of news that wait for a slow page.
const WAITING: usize = 8;

/// How many there are at a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    most: u32,
    people: usize,
    seats: usize,
    /// How many people have come with a code, by its hash.
    used: BTreeMap<String, u32>,
}

/// What somebody has seen of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShardSnapshot {
    /// The run of its host; nothing was seen of another one.
    #[serde(default)]
    run: String,
    #[serde(default)]
    number: u64,
}

/// What is new at a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct News {
    seen: ShardSnapshot,
    /// Whether these are all of its seats.
    pub(super) whole: bool,
    pub(super) rows: Vec<LearnerProgress>,
    facts: Facts,
}

/// The state of all seats of this shard, also of those without a look so far.
pub(super) fn standings(host: &Host) -> Vec<LearnerProgress> {
    let seats: Vec<SeatId> = host.register().seats().map(|seat| seat.seat).collect();
    seats.into_iter().filter_map(|seat| observer::standing(host, seat)).collect()
}

/// [`standings`], once the observer has seen each seat at the step that its lesson has come to.
async fn current_standings(host: &Host) -> Vec<LearnerProgress> {
    let mut newest = host.standings.follow();
    let end = klab_cluster::deadline::within(LOOK);
    loop {
        newest.mark_unchanged();
        let rows = standings(host);
        let was_looked_at = |seat| host.standings.get(seat).is_some_and(|seen| seen.held.is_some());
        let are_current = rows.iter().all(|row| row.held.is_some() || !was_looked_at(row.seat));
        if are_current || !matches!(tokio::time::timeout_at(end.into(), newest.changed()).await, Ok(Ok(()))) {
            return rows;
        }
    }
}

fn facts(host: &Host) -> Facts {
    let register = host.register();
    let used = register.codes().filter(|(_, used, _)| *used > 0).map(|(code, used, _)| (code.hash.clone(), used));
    Facts { most: host.settings.most, people: register.people(), seats: register.seats().count(), used: used.collect() }
}

/// What is new at this shard to who has seen so much: at once where that is nothing, else when something is.
async fn news(host: &Host, seen: &ShardSnapshot, patience: Duration) -> News {
    let mut newest = host.standings.follow();
    let whole = seen.run != host.run;
    if !whole {
        let has_changed = tokio::time::timeout(patience, newest.wait_for(|newest| *newest > seen.number)).await.is_ok();
        if has_changed {
            // What happens within a moment is one change.
            tokio::time::sleep(TOGETHER).await;
        }
    }
    let (number, rows) = if whole {
        let number = host.standings.since(u64::MAX).0;
        (number, current_standings(host).await)
    } else {
        host.standings.since(seen.number)
    };
    News { seen: ShardSnapshot { run: host.run.clone(), number }, whole, rows, facts: facts(host) }
}

/// The state that another shard gets; nothing before the class has begun here, as if this shard were away.
pub(super) async fn answer(
    State(host): State<Arc<Host>>,
    Query(seen): Query<ShardSnapshot>,
) -> Result<Response, Refusal> {
    if host.server().is_none() {
        return Err(starting());
    }
    let news = news(&host, &seen, SILENCE).await;
    let document = serde_json::to_value(news).map_err(|error| Refusal::internal(error.to_string()))?;
    Ok(json_answer(StatusCode::OK, &document))
}

/// What is new at any shard; none where it is away.
async fn news_of(host: &Host, shard: u32, seen: &ShardSnapshot, patience: Duration) -> Option<News> {
    match host.shards().filter(|shards| shards.own != shard) {
        // Until the class has begun the host does not know where its learners are, so it must not say that there are none.
        None if host.server().is_none() => None,
        None => Some(news(host, seen, patience).await),
        Some(shards) => {
            let path = format!("{NEWS}?run={}&number={}", seen.run, seen.number);
            shards.document(shard, Ask::get(&path, patience.saturating_add(PATIENCE))).await
        }
    }
}

fn numbers(host: &Host) -> Vec<u32> {
    let others = host.shards().into_iter().flat_map(super::shards::Shards::others);
    let mut all: Vec<u32> = others.chain([host.settings.shard]).collect();
    all.sort_unstable();
    all
}

/// A shard as another one sees it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shard {
    /// What it said last.
    facts: Facts,
    is_away: bool,
}

/// A class as one of its shards shows it.
#[derive(Debug, Default)]
pub(super) struct Class {
    shards: BTreeMap<u32, Shard>,
}

impl Class {
    /// Takes in what a shard said, or that it said nothing; whether that is otherwise than before.
    pub(super) fn take(&mut self, shard: u32, news: Option<&News>) -> bool {
        let before = self.shards.remove(&shard);
        let now = if let Some(news) = news {
            Shard { facts: news.facts.clone(), is_away: false }
        } else {
            let facts = before.as_ref().map(|before| before.facts.clone()).unwrap_or_default();
            Shard { facts, is_away: true }
        };
        let is_same = before.as_ref() == Some(&now);
        self.shards.insert(shard, now);
        !is_same || news.is_some_and(|news| news.whole || !news.rows.is_empty())
    }

    /// The shards that are away.
    pub(super) fn away(&self) -> Vec<u32> {
        self.shards.iter().filter(|(_, shard)| shard.is_away).map(|(number, _)| *number).collect()
    }

    /// As pages and programs show it.
    pub(super) fn document(&self, host: &Host) -> Value {
        let known: Vec<&Facts> = self.shards.values().map(|shard| &shard.facts).collect();
        let now = Timestamp::now();
        let code = codes::class_code(host);
        let register = host.register();
        let times = register.times();
        let codes: Vec<Value> = register
            .codes()
            .map(|(code, _, revoked)| {
                let used: u32 = known.iter().filter_map(|facts| facts.used.get(&code.hash)).sum();
                json!({
                    "number": code.number, "name": code.name(), "of": code.of, "used": used, "revoked": revoked, "until": code.until,
                })
            })
            .collect();
        json!({
            "class": host.settings.name, "url": host.url(), "phase": register.phase(now).word(), "opens": times.opens,
            "closes": times.closes, "most": known.iter().map(|facts| u64::from(facts.most)).sum::<u64>(),
            "people": known.iter().map(|facts| facts.people).sum::<usize>(),
            "seats": known.iter().map(|facts| facts.seats).sum::<usize>(),
            "code": code, "codes": codes, "shards": self.shards.len(), "away": self.away(),
        })
    }
}

/// All seats of the class at this moment, of the shards that answer; of this shard only where no others are meant.
pub(super) async fn gather(host: &Host, only_own: bool) -> (Class, BTreeMap<SeatId, LearnerProgress>) {
    let numbers = if only_own { vec![host.settings.shard] } else { numbers(host) };
    let nothing = ShardSnapshot::default();
    let asked = numbers.iter().map(|number| news_of(host, *number, &nothing, Duration::ZERO));
    let (mut class, mut all) = (Class::default(), BTreeMap::new());
    for (number, news) in numbers.iter().zip(join_all(asked).await) {
        class.take(*number, news.as_ref());
        all.extend(news.into_iter().flat_map(|news| news.rows).map(|row| (row.seat, row)));
    }
    (class, all)
}

/// News of all shards, for as long as this lives.
pub(super) struct Following {
    news: mpsc::Receiver<(u32, Option<News>)>,
    _asking: JoinSet<()>,
}

impl Following {
    /// Begins to ask all shards.
    pub(super) fn new(host: &Arc<Host>) -> Self {
        let (sender, news) = mpsc::channel(WAITING);
        let mut asking = JoinSet::new();
        for shard in numbers(host) {
            asking.spawn(follow(Arc::clone(host), shard, sender.clone()));
        }
        Self { news, _asking: asking }
    }

    /// The next news: the shard, and what it says; nothing where it has gone away.
    pub(super) async fn next(&mut self) -> Option<(u32, Option<News>)> {
        self.news.recv().await
    }
}

async fn follow(host: Arc<Host>, shard: u32, sender: mpsc::Sender<(u32, Option<News>)>) {
    let mut seen = ShardSnapshot::default();
    loop {
        let news = news_of(&host, shard, &seen, SILENCE).await;
        let is_away = news.is_none();
        // What was said of one that was away is said again as a whole.
        seen = news.as_ref().map(|news| news.seen.clone()).unwrap_or_default();
        if sender.send((shard, news)).await.is_err() {
            return;
        }
        if is_away {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Settings;
    use super::*;

    fn news(rows: Vec<LearnerProgress>, people: usize) -> News {
        News { seen: ShardSnapshot::default(), whole: false, rows, facts: Facts { people, ..Facts::default() } }
    }

    #[test]
    fn what_says_nothing_new_is_not_told_and_who_is_silent_is_away() {
        let mut class = Class::default();
        assert!(class.take(0, Some(&news(Vec::new(), 1))), "the first word of a shard");
        assert!(!class.take(0, Some(&news(Vec::new(), 1))));
        assert!(class.take(0, Some(&news(Vec::new(), 2))));
        assert!(class.take(0, Some(&News { whole: true, ..news(Vec::new(), 2) })));
        assert!(class.take(1, None) && !class.take(1, None));
        assert_eq!(class.away(), [1]);
        assert!(class.take(1, Some(&news(Vec::new(), 7))));
        assert_eq!(class.away(), [0_u32; 0]);
        assert!(class.take(1, None));
        assert_eq!(class.shards[&1].facts.people, 7, "what it said last");
    }

    #[tokio::test]
    async fn a_shard_that_has_not_begun_is_away_and_not_without_learners() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::open(folder.path(), Settings::default(), &["scheduling".to_owned()]).unwrap();
        let (class, all) = gather(&host, false).await;
        assert_eq!((class.away(), all.len()), (vec![0], 0));
        let refusal = answer(State(Arc::new(host)), Query(ShardSnapshot::default())).await.unwrap_err();
        assert_eq!((refusal.code, refusal.retry_after), (503, Some(2)));
    }
}
