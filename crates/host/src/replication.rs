//! The shards of a class agree on what was decided for all of it: the shard that decides sends it to the others, and one that
//! was away asks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use serde::Deserialize;

use super::answer::typed;
use super::fingerprint;
use super::refusal::Refusal;
use super::register::Entry;
use super::replicated_state::Decisions;
use super::shards::{Ask, PATIENCE, Shards};
use super::state::Host;
use crate::codes;

/// Where shards tell what was decided, and that something was.
pub(super) const DECISIONS: &str = "/internal/decisions";
pub(super) const DECIDED: &str = "/internal/decided";
/// How often a shard asks the others, for what it did not hear.
const AGAIN: Duration = Duration::from_secs(20);

/// What somebody knows already.
#[derive(Debug, Deserialize)]
pub(super) struct Known {
    #[serde(default)]
    known: String,
}

/// What this shard knows to be decided, for another one that does not know the same.
pub(super) async fn decisions(State(host): State<Arc<Host>>, Query(Known { known }): Query<Known>) -> Response {
    let text = {
        let decisions = Decisions::of(&host.register(), codes::given_code(&host).as_deref());
        serde_json::to_string(&decisions).unwrap_or_default()
    };
    let print = fingerprint::of(&text);
    if print == known {
        return StatusCode::NO_CONTENT.into_response();
    }
    ([(header::ETAG, format!("\"{print}\""))], typed("application/json", text)).into_response()
}

/// Which shard decided something.
#[derive(Debug, Deserialize)]
pub(super) struct By {
    shard: u32,
}

/// Another shard decided something: it is asked what, and answered once that is taken in.
pub(super) async fn decided(
    State(host): State<Arc<Host>>,
    Query(By { shard }): Query<By>,
) -> Result<StatusCode, Refusal> {
    let heard = match host.shards() {
        Some(shards) if shards.others().any(|other| other == shard) => learn_from(&host, shards, shard).await,
        _ => None,
    };
    heard.map(|_| StatusCode::NO_CONTENT).ok_or_else(|| Refusal::internal("what was decided could not be taken in"))
}

/// Tells all other shards that something was decided here; gives those that did not hear it, and will when they are back.
pub(super) async fn tell(host: &Host) -> Vec<u32> {
    let Some(shards) = host.shards() else { return Vec::new() };
    let path = format!("{DECIDED}?shard={}", shards.own);
    let answers = shards.others().map(|number| {
        let ask = Ask { method: Method::POST, path: &path, body: Bytes::new(), patience: PATIENCE };
        async move {
            let heard = shards.send(number, ask).await;
            if heard.is_some_and(|(code, _)| code.is_success()) { None } else { Some(number) }
        }
    });
    join_all(answers).await.into_iter().flatten().collect()
}

/// Takes over what another shard knows. None where it is away, or this could not be written down; else what tells it from
/// what it knows later.
pub(super) async fn learn_from(host: &Host, shards: &Shards, number: u32) -> Option<String> {
    learn_unless(host, shards, number, "").await
}

async fn learn_unless(host: &Host, shards: &Shards, number: u32, known: &str) -> Option<String> {
    let path = format!("{DECISIONS}?known={known}");
    let (code, body) = shards.send(number, Ask::get(&path, PATIENCE)).await?;
    if code == StatusCode::NO_CONTENT {
        return Some(known.to_owned());
    }
    let text = std::str::from_utf8(&body).ok().filter(|_| code == StatusCode::OK)?;
    let decisions: Decisions = serde_json::from_str(text).ok()?;
    let news = decisions.news_for(&host.register());
    if !news.is_empty() {
        let is_of_times = news.iter().any(|entry| matches!(entry, Entry::Times(_)));
        let is_word = news.iter().any(|entry| matches!(entry, Entry::Hint { .. }));
        if let Err(error) = host.record(news).await {
            tracing::error!("what another shard decided could not be written down: {error:#}");
            return None;
        }
        if is_of_times {
            host.retimed();
        }
        if is_word {
            host.stages.poke_all();
        }
        host.standings.stir();
    }
    Some(fingerprint::of(text))
}

/// Takes over what all others know that answer.
pub async fn learn_from_all(host: &Host) {
    if let Some(shards) = host.shards() {
        join_all(shards.others().map(|number| learn_from(host, shards, number))).await;
    }
}

/// Asks the others again and again for what was not heard. Never ends.
pub async fn keep_agreeing(host: &Host) {
    let Some(shards) = host.shards() else { return std::future::pending().await };
    let mut known: BTreeMap<u32, String> = BTreeMap::new();
    loop {
        tokio::time::sleep(AGAIN).await;
        for number in shards.others() {
            let last = known.remove(&number).unwrap_or_default();
            if let Some(print) = learn_unless(host, shards, number, &last).await {
                known.insert(number, print);
            }
        }
    }
}
