//! The instructor's page: the class on one screen, and what an instructor does with it.
//!
//! The link's word stands behind a `#`, which no browser sends and no proxy writes down; the page gives it for a cookie.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::From;
use super::answer::{failed, json_answer, page, typed};
use super::code::For;
use super::metrics::count;
use super::refusal::Refusal;
use super::register::{Entry, Phase, Times};
use super::seat::SeatId;
use super::secret::ring_equal;
use super::stage::Viewer;
use super::standing::{self, Standing};
use super::state::{Host, Learner, bearer};
use super::{cookie, grading, learner, observer, viewing};
use klab_cluster::clock::later;

/// Changes that are told together.
const TOGETHER: Duration = Duration::from_millis(150);
/// How often a stream says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Longest word to learners.
const HINT: usize = 500;

/// Whether it is the instructor, by the browser or by the word itself.
fn of(host: &Host, headers: &HeaderMap, from: std::net::IpAddr) -> Result<(), Refusal> {
    if host.is_instructor(headers) {
        return Ok(());
    }
    let Some(word) = bearer(headers) else {
        return Err(Refusal::new(401, "Unauthorized", "this is for the instructor: open the instructor's link first"));
    };
    is_word(host, word, from)
}

fn is_word(host: &Host, word: &str, from: std::net::IpAddr) -> Result<(), Refusal> {
    if let Some(seconds) = host.wait(from) {
        return Err(Refusal::too_many(seconds));
    }
    if ring_equal(word.trim().as_bytes(), host.instructor_word().as_bytes()) {
        return Ok(());
    }
    host.guessed(from);
    Err(Refusal::forbidden("this is not the instructor's link"))
}

/// The page itself; to who is not known, one that only exchanges the link.
pub async fn whole(State(host): State<Arc<Host>>, headers: HeaderMap) -> Response {
    let known = host.is_instructor(&headers);
    let title = format!("Class {}", host.settings.name);
    let sign_in = host.sign_in().filter(|sign_in| !sign_in.settings.instructors.is_empty());
    let sign_in = sign_in
        .map(|sign_in| json!({ "place": sign_in.place(), "at": format!("{}/oidc/begin?then=teach", host.url()) }));
    page("teach.html", &json!({ "base": host.base(), "title": title, "known": known, "sign_in": sign_in }))
}

/// Gives a browser the instructor's cookie for the word of the link.
pub async fn open(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    body: String,
) -> Result<Response, Refusal> {
    is_word(&host, &body, from)?;
    host.audit.line("instructor", json!({ "from": from }));
    let proof = host.secret.proof("instructor", "browser");
    let cookie = cookie::set(cookie::INSTRUCTOR, &proof, &host.base(), host.is_secure());
    Ok(([(header::SET_COOKIE, cookie)], StatusCode::NO_CONTENT).into_response())
}

/// What is known of all seats, also of those that nobody has looked at yet.
pub fn standings(host: &Host) -> Vec<Standing> {
    let seats: Vec<SeatId> = host.register().seats().map(|seat| seat.seat).collect();
    seats.into_iter().filter_map(|seat| observer::standing(host, seat)).collect()
}

/// What is known of the class itself.
fn facts(host: &Host) -> Value {
    let now = Timestamp::now();
    let code = host.class_code();
    let register = host.register();
    let phase = register.phase(now).word();
    let codes: Vec<Value> = register
        .codes()
        .map(|(code, used, revoked)| json!({ "number": code.number, "of": code.of, "used": used, "revoked": revoked, "until": code.until }))
        .collect();
    let times = register.times();
    json!({
        "class": host.settings.name, "url": host.url(), "phase": phase, "opens": times.opens, "closes": times.closes,
        "most": host.settings.most, "people": register.people(), "seats": register.seats().count(), "code": code,
        "codes": codes,
    })
}

/// The class as it changes.
pub async fn events(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    let visit = viewing::Visit::new(&host, viewing::PAGES).ok_or_else(viewing::crowded)?;
    let newest = host.standings.follow();
    let stream =
        futures::stream::unfold((visit, host, newest, None::<u64>), |(visit, host, mut newest, last)| async move {
            if let Some(last) = last {
                newest.wait_for(|newest| *newest > last).await.ok()?;
                // What happens within a moment is one change.
                tokio::time::sleep(TOGETHER).await;
            }
            let now = Timestamp::now();
            let (number, rows) = match last {
                None => (host.standings.since(u64::MAX).0, standings(&host)),
                Some(last) => host.standings.since(last),
            };
            let rows: Vec<Value> = rows.iter().map(|row| row.document(now)).collect();
            let data = json!({ "all": last.is_none(), "rows": rows, "class": facts(&host) });
            let event = sse::Event::default().event("class").data(data.to_string());
            Some((Ok::<_, Infallible>(event), (visit, host, newest, Some(number))))
        });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

/// The class as a document.
pub async fn document(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    let now = Timestamp::now();
    let all: std::collections::BTreeMap<SeatId, Standing> =
        standings(&host).into_iter().map(|standing| (standing.seat, standing)).collect();
    let histograms: serde_json::Map<String, Value> =
        host.courses().map(|(lab, _)| (lab.clone(), json!(standing::histogram(&all, lab)))).collect();
    Ok(json_answer(
        StatusCode::OK,
        &json!({
            "schema": "klab.hosted-class/1", "class": facts(&host), "histogram": histograms,
            "seats": all.values().map(|one| one.document(now)).collect::<Vec<_>>(),
        }),
    ))
}

/// What a spreadsheet is to have.
#[derive(Debug, Deserialize)]
pub struct Sheet {
    #[serde(default)]
    nameless: bool,
}

/// The class as a spreadsheet.
pub async fn sheet(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    Query(Sheet { nameless }): Query<Sheet>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    let all = standings(&host).into_iter().map(|standing| (standing.seat, standing)).collect();
    Ok(typed("text/csv; charset=utf-8", standing::csv(&all, nameless)))
}

/// Longer, by so many minutes.
#[derive(Debug, Deserialize)]
pub struct Longer {
    minutes: i64,
}

/// Extends the class.
pub async fn extend(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    Query(Longer { minutes }): Query<Longer>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    if !(1..=60 * 24 * 30).contains(&minutes) {
        return Err(Refusal::bad_request("a class is extended by minutes, at most thirty days at a time"));
    }
    let now = Timestamp::now();
    let times = host.times();
    // A class that has closed opens again.
    let closes = times.closes.map(|closes| later(closes.max(now), SignedDuration::from_mins(minutes)));
    retime(&host, Times { closes, ..times }, "extend").await
}

/// Closes the class.
pub async fn close(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    let times = Times { closes: Some(Timestamp::now()), ..host.times() };
    retime(&host, times, "close").await
}

async fn retime(host: &Host, times: Times, what: &str) -> Result<Response, Refusal> {
    if host.phase() == Phase::Over {
        return Err(Refusal::conflict("the class is over, and its seats are removed"));
    }
    host.record(vec![Entry::Times(times)]).await.map_err(|error| failed(&error))?;
    host.audit.line(what, json!({ "closes": times.closes }));
    host.retimed();
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A word to all.
pub async fn hint(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    headers: HeaderMap,
    body: String,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    tell(&host, None, body).await
}

async fn tell(host: &Host, seat: Option<SeatId>, text: String) -> Result<Response, Refusal> {
    let text: String = text.trim().chars().filter(|letter| !letter.is_control()).take(HINT).collect();
    host.record(vec![Entry::Hint { seat, text, at: Timestamp::now() }]).await.map_err(|error| failed(&error))?;
    host.audit.line("hint", json!({ "seat": seat }));
    match seat {
        Some(seat) => host.stages.poke(seat),
        None => host.stages.poke_all(),
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Opens the next step to all who have done the one before.
pub async fn open_next(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    let seats: Vec<(SeatId, String)> = host.register().seats().map(|seat| (seat.seat, seat.lab.clone())).collect();
    host.audit.line("open-next", json!({ "seats": seats.len() }));
    for (seat, lab) in seats {
        grading::open(&host, seat, &lab).await.map_err(|error| failed(&error))?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// How many codes, and for what.
#[derive(Debug, Deserialize)]
pub struct Codes {
    seats: Option<u32>,
}

/// Makes codes, and says them once.
pub async fn codes(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    Query(Codes { seats }): Query<Codes>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    let (of, uses, many) = seats.map_or((For::Class, None, 1), |seats| (For::Seat, Some(1), seats));
    if many > 10_000 {
        return Err(Refusal::bad_request("at most 10000 codes at a time"));
    }
    let mut text = String::new();
    for _ in 0..many {
        text.push_str(&host.new_code(of, None, uses).await.map_err(|error| failed(&error))?);
        text.push('\n');
    }
    host.audit.line("codes", json!({ "of": of, "count": many }));
    host.standings.stir();
    Ok(typed("text/plain; charset=utf-8", text))
}

/// Which code.
#[derive(Debug, Deserialize)]
pub struct Revoked {
    code: u32,
}

/// Takes a code back.
pub async fn revoke(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    Query(Revoked { code }): Query<Revoked>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    host.record(vec![Entry::Revoked { code }]).await.map_err(|error| failed(&error))?;
    host.audit.line("revoke", json!({ "code": code }));
    host.standings.stir();
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn seat_of(host: &Host, seat: &str) -> Result<Learner, Refusal> {
    let gone = || Refusal::not_found("there is no such seat");
    let seat: SeatId = seat.parse().map_err(|_| gone())?;
    let register = host.register();
    let known = register.seat(seat).ok_or_else(gone)?;
    let name = register.person(known.person).map(|person| person.name.clone()).unwrap_or_default();
    Ok(Learner { person: known.person, name, seat, lab: known.lab.clone() })
}

/// Looks into a seat.
pub async fn look(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    Path(seat): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    let learner = seat_of(&host, &seat)?;
    host.audit.seat("look", learner.seat, "instructor");
    count(&host.metrics.looks);
    viewing::answer(&host, (learner.seat, &learner.lab, Viewer::Instructor), ("", ""), &headers).await
}

/// What the page of a seat asks for.
pub async fn part(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    Path((seat, what)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    let learner = seat_of(&host, &seat)?;
    if what == "kubeconfig" {
        host.audit.seat("kubeconfig", learner.seat, "instructor");
        let own = host.kubeconfig(learner.seat, &format!("{}-{}", learner.lab, learner.seat));
        let token = host.server().and_then(|server| server.token(&learner.seat.to_string()));
        let (own, token) = own.zip(token).ok_or_else(|| Refusal::not_found("the seat is gone"))?;
        // Not the learner's token: one with which nothing is changed.
        return Ok(typed(
            "application/yaml",
            own.replace(&token, &host.secret.proof("look", &learner.seat.to_string())),
        ));
    }
    let query = uri.query().unwrap_or_default();
    viewing::answer(&host, (learner.seat, &learner.lab, Viewer::Instructor), (&what, query), &headers).await
}

/// Where a seat is to be brought.
#[derive(Debug, Default, Deserialize)]
pub struct To {
    done: Option<usize>,
}

/// Does something with one seat.
pub async fn act(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    Path((seat, what)): Path<(String, String)>,
    Query(To { done }): Query<To>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    of(&host, &headers, from)?;
    let learner = seat_of(&host, &seat)?;
    host.audit.seat(&what, learner.seat, "instructor");
    match what.as_str() {
        "reset" => learner::bring_back(&host, &learner, None).await?,
        "steps" => learner::bring_back(&host, &learner, done).await?,
        "hint" => return tell(&host, Some(learner.seat), String::from_utf8_lossy(&body).into_owned()).await,
        "forget-pin" => {
            let entry = Entry::PinForgotten { person: learner.person };
            host.record(vec![entry]).await.map_err(|error| failed(&error))?;
        }
        _ => return Err(Refusal::not_found("there is nothing at this address")),
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}
