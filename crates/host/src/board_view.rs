//! The board of a seat as a page: to its learner, and to the instructor who looks into it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use futures::{FutureExt, Stream, StreamExt};
use serde_json::json;

use super::answer::{failed, json_answer};
use super::asset;
use super::board_cache::{Stage, Viewer};
use super::metrics::count;
use super::refusal::Refusal;
use super::renderer::{form, frame, stage_of};
use super::seat::SeatId;
use super::state::Host;
use super::templates::rendered;
use crate::barring;
use klab_operations::board::page::{self, Hosted, Page};
use klab_operations::board::scene::Number;

/// How often a stream says that it is there while nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Most pages that are open at a time.
pub const PAGES: u64 = 20_000;

/// A small picture: the nodes of the pools with their pods, and what waits.
const PICTURE: &str = "<p id=\"peek-words\" class=\"summary\" data-part=\"summary\"></p>\
                       <div class=\"pools\" data-part=\"pools\"></div><div data-part=\"tray\"></div>";
/// How long a board is kept that was drawn for a small picture.
const KEPT: Duration = Duration::from_secs(2);

/// What a page of a seat asks for, by the last part of its path and its query.
///
/// # Errors
/// When there is no such thing, or the seat does not answer.
pub async fn answer(
    host: &Arc<Host>,
    (seat, lab, viewer): (SeatId, &str, Viewer),
    (what, query): (&str, &str),
    headers: &HeaderMap,
) -> Result<Response, Refusal> {
    let wanted = |key: &str| {
        form_urlencoded::parse(query.as_bytes()).find(|(known, _)| known == key).map(|(_, value)| value.into_owned())
    };
    let number = |key: &str| wanted(key).and_then(|text| text.parse::<Number>().ok()).unwrap_or_default();
    let course = host.course(lab).ok_or_else(|| Refusal::not_found("the lab is not in this class"))?;
    let form = form(host, seat, viewer);
    match what {
        "board.css" => return Ok(asset::BOARD_STYLE.answer(headers)),
        "board.js" => return Ok(asset::BOARD.answer(headers)),
        "pod" | "node" => {
            let name = wanted("name").unwrap_or_default();
            let frame = frame(host, seat, lab).await.map_err(|error| failed(&error))?;
            let html = if what == "pod" { page::pod(&frame, &name) } else { page::node(&frame, &name) };
            let html = html.map_err(|error| failed(&error))?;
            return Ok(html.map_or_else(
                || (StatusCode::NOT_FOUND, "it is not in the cluster any more\n").into_response(),
                |html| Html(html).into_response(),
            ));
        }
        "step" => {
            let frame = frame(host, seat, lab).await.map_err(|error| failed(&error))?;
            let read = wanted("number").and_then(|text| text.parse().ok());
            let html = page::lesson(&frame, course.shown(&frame.progress, form), read, form)
                .map_err(|error| failed(&error))?;
            return Ok(Html(html).into_response());
        }
        "picture" if viewer == Viewer::Instructor => return picture(host, seat, lab).await,
        _ => {}
    }
    let stage = stage_of(host, seat, lab, viewer).await.map_err(|error| failed(&error))?;
    match what {
        "" => {
            let base = host.base();
            let script = if viewer == Viewer::Learner { "learn.js" } else { "look.js" };
            let console = match (viewer, host.console()) {
                (Viewer::Learner, Some(_)) => Some(
                    rendered("console.html", &json!({ "base": base, "lab": lab })).map_err(|error| failed(&error))?,
                ),
                _ => None,
            };
            let html = stage.whole(&|number, parts, title| {
                Page { title, number, run: &host.run, parts }.hosted(&Hosted {
                    base: &base,
                    script,
                    console: console.as_deref(),
                })
            });
            Ok(Html(html.map_err(|error| failed(&error))?).into_response())
        }
        "moments" => Ok(json_answer(StatusCode::OK, &stage.moments())),
        "at" => {
            let changes = serde_json::to_value(stage.whole_at(number("moment"))).unwrap_or_default();
            Ok(json_answer(StatusCode::OK, &changes))
        }
        "events" => {
            let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.split_once('-'));
            // Of another run all is new; the page sees the run and loads itself again.
            let last = last.map(|(run, number)| if run == host.run { number.parse().unwrap_or(0) } else { 0 });
            let visit = Visit::new(host, PAGES).ok_or_else(crowded)?;
            let stream = changes((visit, stage, host.run.clone()), last.unwrap_or_else(|| number("since")));
            let person = host.register().seat(seat).map(|seat| seat.person).filter(|_| viewer == Viewer::Learner);
            let barred = person.map_or_else(
                || std::future::pending().left_future(),
                |person| barring::is_barred(host, person).right_future(),
            );
            let words = sse::Event::default().event("ended").data(Refusal::barred().message);
            let stream = stream.take_until(barred).chain(futures::stream::iter(person.map(|_| Ok(words))));
            let answer = Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT));
            Ok(([(header::CACHE_CONTROL, "no-store")], answer).into_response())
        }
        _ => Err(Refusal::not_found("there is nothing at this address")),
    }
}

/// A small picture of a seat's board, as a page shows it already or as it is drawn for this.
async fn picture(host: &Arc<Host>, seat: SeatId, lab: &str) -> Result<Response, Refusal> {
    let shown = host.stages.get(seat, Viewer::Learner).or_else(|| host.stages.get(seat, Viewer::Instructor));
    let stage = match shown {
        Some(stage) => stage,
        None => kept(host, seat, lab).await?,
    };
    let html = stage.whole(&|_, parts, _| Ok(page::filled(PICTURE, &parts)));
    Ok(Html(html.map_err(|error| failed(&error))?).into_response())
}

/// A board that no page shows, kept for a moment: at most [`super::boards::MAX_PICTURES`] of them.
async fn kept(host: &Arc<Host>, seat: SeatId, lab: &str) -> Result<Arc<Stage>, Refusal> {
    let place = host.boards.picture().ok_or_else(|| Refusal {
        retry_after: Some(KEPT.as_secs()),
        ..Refusal::new(429, "TooManyRequests", "the host draws boards of many other seats: wait a moment")
    })?;
    let (own, lab) = (Arc::clone(host), lab.to_owned());
    // It takes its place until it is drawn, also where the page has gone.
    let drawn = tokio::spawn(async move { (stage_of(&own, seat, &lab, Viewer::Instructor).await, place) });
    let (stage, place) = drawn.await.map_err(|error| Refusal::internal(error.to_string()))?;
    let stage = stage.map_err(|error| failed(&error))?;
    let kept = Arc::clone(&stage);
    tokio::spawn(async move {
        tokio::time::sleep(KEPT).await;
        drop((kept, place));
    });
    Ok(stage)
}

/// The refusal of one page too many.
pub fn crowded() -> Refusal {
    Refusal { retry_after: Some(30), ..Refusal::new(503, "ServiceUnavailable", "too many pages are open") }
}

/// What changed since `from`, whenever something did. Who reads slowly gets several changes as one.
fn changes(
    (visit, stage, run): (Visit, Arc<Stage>, String),
    from: Number,
) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    let newest = stage.follow();
    futures::stream::unfold((visit, stage, run, newest, from), |(visit, stage, run, mut newest, from)| async move {
        newest.wait_for(|newest| *newest > from).await.ok()?;
        let changes = stage.since(from);
        let number = changes.number;
        let data = serde_json::to_string(&changes).ok()?;
        let event = sse::Event::default().event("change").id(format!("{run}-{number}")).data(data);
        Some((Ok(event), (visit, stage, run, newest, number)))
    })
}

/// An open page, for as long as this lives.
pub struct Visit {
    host: Arc<Host>,
}

impl Visit {
    /// One more page, if there is room for it.
    pub fn new(host: &Arc<Host>, most: u64) -> Option<Self> {
        count(&host.metrics.pages);
        let visit = Self { host: Arc::clone(host) };
        // Counted down when it is dropped, also where it is one too many.
        (host.metrics.pages.load(Ordering::Relaxed) <= most).then_some(visit)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.host.metrics.pages.fetch_sub(1, Ordering::Relaxed);
    }
}
