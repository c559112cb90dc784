//! The instructor's page: the class on one screen, and what an instructor does with it.
//!
//! The link's word stands behind a `#`, which no browser sends and no proxy writes down; the page gives it for a cookie.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::From;
use super::aggregate::{self, Class, Following};
use super::answer::{failed, json_answer, page, typed};
use super::api::unusable;
use super::board_cache::Viewer;
use super::code::For;
use super::forwarding::{at_all_others, shards_are};
use super::metrics::count;
use super::refusal::Refusal;
use super::register::{Entry, Times};
use super::seat::SeatId;
use super::standing;
use super::state::{Host, Learner};
use super::teacher::{Asker, Teaching, is_word};
use super::{board_view, cookie, grading, learner, replication};
use crate::barring;
use crate::codes;
use klab_cluster::clock::later;
use klab_operations::lesson::words::{self, find};

/// The shards whose seats are missing in a spreadsheet.
const AWAY: HeaderName = HeaderName::from_static("klab-shards-away");
/// How often a stream says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Longest word to learners.
const HINT: usize = 500;

/// The page itself; to who is not known, one that only exchanges the link.
pub async fn whole(State(host): State<Arc<Host>>, headers: HeaderMap) -> Response {
    let known = host.is_instructor(&headers);
    let title = format!("Class {}", host.settings.name);
    let sign_in = host.sign_in().filter(|sign_in| !sign_in.settings.instructors.is_empty());
    let sign_in = sign_in
        .map(|sign_in| json!({ "place": sign_in.place(), "at": format!("{}/oidc/begin?then=teach", host.url()) }));
    let labs: serde_json::Map<String, Value> = host
        .courses()
        .filter(|_| known)
        .map(|(name, course)| (name.clone(), course.lab().steps.iter().map(words::title).collect()))
        .collect();
    let labs = Value::Object(labs).to_string();
    let is_practice = host.settings.practice.is_some();
    page(
        "teach.html",
        &json!({ "base": host.base(), "title": title, "known": known, "sign_in": sign_in, "labs": labs, "is_practice": is_practice }),
    )
}

/// Gives a browser the instructor's cookie for the word of the link.
pub async fn open(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    body: String,
) -> Result<Response, Refusal> {
    is_word(&host, &body, from)?;
    host.audit.line("instructor", json!({ "from": from }));
    let cookie = cookie::set(cookie::INSTRUCTOR, &host.instructor_proof(), &host.common_base(), host.is_secure());
    Ok(([(header::SET_COOKIE, cookie)], StatusCode::NO_CONTENT).into_response())
}

/// The class as it changes.
pub async fn events(Teaching(host, _): Teaching) -> Result<Response, Refusal> {
    let visit = board_view::Visit::new(&host, board_view::PAGES).ok_or_else(board_view::crowded)?;
    let state = (visit, Following::new(&host), host, Class::default(), Value::Null);
    let stream = futures::stream::unfold(state, |(visit, mut following, host, mut class, mut sent)| async move {
        let (shard, news) = loop {
            let (shard, news) = following.next().await?;
            if class.take(shard, news.as_ref()) {
                break (shard, news);
            }
        };
        let now = Timestamp::now();
        let (all, rows) = news.map_or_else(Default::default, |news| (news.whole, news.rows));
        let rows: Vec<Value> = rows.iter().map(|row| row.document(now)).collect();
        let mut facts = class.document(&host);
        // There may be thousands of codes, and they change seldom.
        let codes = facts["codes"].take();
        if codes != sent {
            facts["codes"] = codes.clone();
            sent = codes;
        }
        let data = json!({ "shard": shard, "all": all, "rows": rows, "class": facts });
        let event = sse::Event::default().event("class").data(data.to_string());
        Some((Ok::<_, Infallible>(event), (visit, following, host, class, sent)))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

/// Which part of the class is meant.
#[derive(Debug, Default, Deserialize)]
pub struct Part {
    /// Only what is at this shard.
    #[serde(default)]
    own: bool,
}

/// The class as a document.
pub async fn document(Teaching(host, _): Teaching, Query(Part { own }): Query<Part>) -> Result<Response, Refusal> {
    let now = Timestamp::now();
    let (class, all) = aggregate::gather(&host, own).await;
    let histograms: serde_json::Map<String, Value> =
        host.courses().map(|(lab, _)| (lab.clone(), json!(standing::histogram(&all, lab)))).collect();
    Ok(json_answer(
        StatusCode::OK,
        &json!({
            "schema": "klab.hosted-class/1", "class": class.document(&host), "histogram": histograms,
            "seats": all.values().map(|one| one.document(now)).collect::<Vec<_>>(),
        }),
    ))
}

/// What a spreadsheet is to have.
#[derive(Debug, Deserialize)]
pub struct Sheet {
    #[serde(default)]
    nameless: bool,
    #[serde(default)]
    own: bool,
}

/// The class as a spreadsheet.
pub async fn sheet(
    Teaching(host, _): Teaching,
    Query(Sheet { nameless, own }): Query<Sheet>,
) -> Result<Response, Refusal> {
    let (class, all) = aggregate::gather(&host, own).await;
    let away: Vec<String> = class.away().iter().map(ToString::to_string).collect();
    let mut answer = typed("text/csv; charset=utf-8", standing::csv(&all, nameless));
    if let (false, Ok(away)) = (away.is_empty(), HeaderValue::try_from(away.join(", "))) {
        answer.headers_mut().insert(AWAY, away);
    }
    Ok(answer)
}

/// Longer, by a number of minutes.
#[derive(Debug, Deserialize)]
pub struct Longer {
    minutes: i64,
}

/// Extends the class.
pub async fn extend(
    Teaching(host, _): Teaching,
    Query(Longer { minutes }): Query<Longer>,
) -> Result<Response, Refusal> {
    if !(1..=60 * 24 * 30).contains(&minutes) {
        return Err(Refusal::bad_request("a class is extended by minutes, at most thirty days at a time"));
    }
    let now = Timestamp::now();
    let times = host.times();
    // A class that has closed opens again.
    let closes = times.closes.map(|closes| later(closes.max(now), SignedDuration::from_mins(minutes)));
    retime(&host, Times { closes, decided: Some(now), ..times }, "extend").await
}

/// Closes the class.
pub async fn close(Teaching(host, _): Teaching) -> Result<Response, Refusal> {
    let now = Timestamp::now();
    let times = Times { closes: Some(now), decided: Some(now), ..host.times() };
    retime(&host, times, "close").await
}

async fn retime(host: &Host, times: Times, what: &str) -> Result<Response, Refusal> {
    if host.register().is_removed() {
        return Err(Refusal::conflict("the class is over, and its seats are removed"));
    }
    host.record(vec![Entry::Times(times)]).await.map_err(|error| failed(&error))?;
    host.audit.line(what, json!({ "closes": times.closes }));
    host.retimed();
    Ok(answer(host).await)
}

/// Tells the other shards what was decided, and the instructor who did not hear it.
async fn answer(host: &Host) -> Response {
    match replication::tell(host).await.as_slice() {
        [] => StatusCode::NO_CONTENT.into_response(),
        away => {
            let words = format!("done; {} away and will know of it when it is back\n", shards_are(away));
            (StatusCode::ACCEPTED, words).into_response()
        }
    }
}

/// A word to all.
pub async fn hint(Teaching(host, _): Teaching, body: String) -> Result<Response, Refusal> {
    tell(&host, None, body).await
}

async fn tell(host: &Host, seat: Option<SeatId>, text: String) -> Result<Response, Refusal> {
    let text: String = text.trim().chars().filter(|letter| !letter.is_control()).take(HINT).collect();
    host.record(vec![Entry::Hint { seat, text, at: Timestamp::now() }]).await.map_err(|error| failed(&error))?;
    host.audit.line("hint", json!({ "seat": seat }));
    if let Some(seat) = seat {
        host.stages.poke(seat);
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    host.stages.poke_all();
    Ok(answer(host).await)
}

/// Opens the next step to all who have done the one before.
pub async fn open_next(Teaching(host, asker): Teaching) -> Result<Response, Refusal> {
    let others = async {
        match host.shards().filter(|_| asker == Asker::Instructor) {
            Some(shards) => at_all_others(shards, "/teach/open-next").await,
            None => Vec::new(),
        }
    };
    let (own, away) = futures::join!(open_own(&host), others);
    own?;
    if away.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let words = format!("done, but {} away: open the next step again when it is back\n", shards_are(&away));
    Ok((StatusCode::ACCEPTED, words).into_response())
}

async fn open_own(host: &Host) -> Result<(), Refusal> {
    let seats: Vec<(SeatId, String)> = host.register().seats().map(|seat| (seat.seat, seat.lab.clone())).collect();
    host.audit.line("open-next", json!({ "seats": seats.len() }));
    for (seat, lab) in seats {
        grading::open(host, seat, &lab).await.map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// How many codes, and for what.
#[derive(Debug, Deserialize)]
pub struct Codes {
    seats: Option<u32>,
}

/// Makes codes, and says them once.
pub async fn codes(Teaching(host, _): Teaching, Query(Codes { seats }): Query<Codes>) -> Result<Response, Refusal> {
    let (kind, uses, many) = seats.map_or((For::Class, None, 1), |seats| (For::Seat, Some(1), seats));
    if many > 10_000 {
        return Err(Refusal::bad_request("at most 10000 codes at a time"));
    }
    let texts = codes::new_codes(&host, kind, None, uses, many).await.map_err(|error| failed(&error))?;
    host.audit.line("codes", json!({ "of": kind, "count": many }));
    host.standings.stir();
    // Who does not hear of them asks when somebody brings one.
    replication::tell(&host).await;
    let text: String = texts.iter().map(|text| format!("{text}\n")).collect();
    Ok(typed("text/plain; charset=utf-8", text))
}

/// Which code.
#[derive(Debug, Deserialize)]
pub struct Revoked {
    code: u32,
}

/// Takes a code back.
pub async fn revoke(Teaching(host, _): Teaching, Query(Revoked { code }): Query<Revoked>) -> Result<Response, Refusal> {
    host.record(vec![Entry::Revoked { code }]).await.map_err(|error| failed(&error))?;
    host.audit.line("revoke", json!({ "code": code }));
    host.standings.stir();
    Ok(answer(&host).await)
}

fn seat_of(host: &Host, seat: &str) -> Result<Learner, Refusal> {
    let gone = || Refusal::not_found("there is no such seat");
    let seat: SeatId = seat.parse().map_err(|_| gone())?;
    let register = host.register();
    let known = register.seat(seat).ok_or_else(gone)?;
    let name = register.person(known.person).map(|person| person.name.clone()).unwrap_or_default();
    Ok(Learner { person: known.person, name, seat, lab: known.lab.clone(), ended: None })
}

/// Looks into a seat.
pub async fn look(
    Teaching(host, _): Teaching,
    Path(seat): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let learner = seat_of(&host, &seat)?;
    host.audit.seat("look", learner.seat, "instructor");
    count(&host.metrics.looks);
    board_view::answer(&host, (learner.seat, &learner.lab, Viewer::Instructor), ("", ""), &headers).await
}

/// What the page of a seat asks for.
pub async fn part(
    Teaching(host, _): Teaching,
    Path((seat, what)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
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
    if what == "picture" {
        host.audit.seat("picture", learner.seat, "instructor");
    }
    let query = uri.query().unwrap_or_default();
    board_view::answer(&host, (learner.seat, &learner.lab, Viewer::Instructor), (&what, query), &headers).await
}

/// The step that a seat is brought to, by name or number; 0 is the set-up.
#[derive(Debug, Default, Deserialize)]
pub struct To {
    done: Option<String>,
}

/// Does something with one seat.
pub async fn act(
    Teaching(host, _): Teaching,
    Path((seat, what)): Path<(String, String)>,
    Query(To { done }): Query<To>,
    body: Bytes,
) -> Result<Response, Refusal> {
    let learner = seat_of(&host, &seat)?;
    host.audit.seat(&what, learner.seat, "instructor");
    match what.as_str() {
        "reset" => learner::bring_back(&host, &learner, None).await?,
        "steps" => {
            let course = host.course(&learner.lab).ok_or_else(|| Refusal::not_found("the lab is not in this class"))?;
            let step = done.filter(|step| step != "0").map(|step| find(course.lab(), &step)).transpose();
            let done = step.map_err(|error| unusable(&error))?.map(|step| step.saturating_add(1));
            learner::bring_back(&host, &learner, done).await?;
        }
        "hint" => return tell(&host, Some(learner.seat), String::from_utf8_lossy(&body).into_owned()).await,
        "forget-pin" => {
            let entry = Entry::PinForgotten { person: learner.person };
            host.record(vec![entry]).await.map_err(|error| failed(&error))?;
        }
        "revoke" | "readmit" => {
            barring::bar(&host, learner.person, what == "revoke").await.map_err(|error| failed(&error))?;
        }
        _ => return Err(Refusal::not_found("there is nothing at this address")),
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}
