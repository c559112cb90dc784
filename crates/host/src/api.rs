//! The lesson of a seat for programs, above all for `klab` on its learner's machine. Who asks shows the seat's own token.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::answer::{failed, json_answer, typed as typed_text};
use super::begin::{grading, in_the_background};
use super::event_stream::{EventStream, HEARTBEAT};
use super::owner::{Owner, WritingOwner};
use super::queries::{self, Reply};
use super::refusal::Refusal;
use super::state::Host;
use super::steps;
use super::typed;
use klab_lab::verify;
use klab_operations::error::{Error, Kind};
use klab_operations::lesson::session::Goal;
use klab_operations::lesson::text::Page;
use klab_operations::lesson::{GoalArguments, staged};
use klab_operations::observe;
use klab_operations::pool::PoolRequest;

/// Where the learner is.
pub async fn seat(State(host): State<Arc<Host>>, Owner(learner): Owner) -> Result<Response, Refusal> {
    let said = queries::status(&host, &learner).map_err(|error| unusable(&error))?;
    Ok(json_answer(StatusCode::OK, &said.document))
}

fn answer(said: klab_operations::error::Result<Reply>) -> Result<Response, Refusal> {
    let Reply { text, document } = said.map_err(|error| unusable(&error))?;
    Ok(json_answer(StatusCode::OK, &json!({ "text": text, "document": document })))
}

/// What went wrong: what is the learner's to mend with its hints, all else also in the log.
pub(super) fn unusable(error: &Error) -> Refusal {
    match error.kind() {
        Kind::Usage => {
            let hints: String = error.hints.iter().map(|hint| format!("; {hint}")).collect();
            Refusal::bad_request(format!("{error}{hints}"))
        }
        _ => failed(error),
    }
}

/// Which step, and on what it is written.
#[derive(Debug, Deserialize)]
pub struct Guided {
    step: Option<String>,
    width: Option<usize>,
    #[serde(default)]
    colours: bool,
}

/// The guide, as klab writes it at a terminal of this width.
pub async fn guide(
    State(host): State<Arc<Host>>,
    Owner(learner): Owner,
    Query(query): Query<Guided>,
) -> Result<Response, Refusal> {
    let page = Page { width: query.width.unwrap_or(80).clamp(20, 200), colours: query.colours };
    answer(queries::guide(&host, &learner, query.step.as_deref(), page).await)
}

/// Which objects.
#[derive(Debug, Deserialize)]
pub struct Rendered {
    workload: Option<String>,
    step: Option<String>,
}

/// The objects of the lab.
pub async fn render(
    State(host): State<Arc<Host>>,
    Owner(learner): Owner,
    Query(query): Query<Rendered>,
) -> Result<Response, Refusal> {
    answer(queries::render(&host, &learner, query.workload.as_deref(), query.step.as_deref()).await)
}

/// After which step.
#[derive(Debug, Deserialize)]
pub struct Compared {
    step: Option<String>,
}

/// What differs from the lab.
pub async fn diff(
    State(host): State<Arc<Host>>,
    Owner(learner): Owner,
    Query(query): Query<Compared>,
) -> Result<Response, Refusal> {
    answer(queries::diff(&host, &learner, query.step.as_deref()).await)
}

/// The pools.
pub async fn pools(State(host): State<Arc<Host>>, Owner(learner): Owner) -> Result<Response, Refusal> {
    answer(queries::pools(&host, &learner).await)
}

/// Changes a pool for the learner, as it is asked for in the body.
pub async fn change_pool(
    State(host): State<Arc<Host>>,
    WritingOwner(learner): WritingOwner,
    body: Bytes,
) -> Result<Response, Refusal> {
    let pool: PoolRequest = serde_json::from_slice(&body)
        .map_err(|error| Refusal::bad_request(format!("this is nothing to ask of a pool: {error}")))?;
    host.audit.seat("pool", learner.seat, "learner");
    let (stream, answer) = EventStream::new();
    in_the_background(stream, move |stream| steps::change_pool(&host, &learner, &pool, stream));
    Ok(answer)
}

/// Does what is typed of klab, for a learner who has kubectl and no klab. Each word is a line of the body.
pub async fn klab(State(host): State<Arc<Host>>, Owner(learner): Owner, body: String) -> Response {
    let words: Vec<String> = body.lines().map(str::to_owned).collect();
    let run = match typed::run(&host, &learner, &words).await {
        Ok(run) => run,
        Err(error) => typed::failed(error).await,
    };
    let pieces = futures::stream::unfold(run, |mut run| async {
        let text = match tokio::time::timeout(HEARTBEAT, run.next()).await {
            Ok(piece) => typed::marked(&piece?),
            Err(_) => "\n".to_owned(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(text)), run))
    });
    typed_text("text/plain; charset=utf-8", Body::from_stream(pieces))
}

/// Which step, and how long its checks are waited for.
#[derive(Debug, Deserialize)]
pub struct Graded {
    step: Option<String>,
    /// Seconds.
    timeout: Option<u64>,
}

/// Grades the learner.
pub async fn grade(
    State(host): State<Arc<Host>>,
    // Grading only looks: in a class that is closed nothing but the lesson's place would change, and that stays.
    Owner(learner): Owner,
    Query(query): Query<Graded>,
) -> Response {
    let (stream, answer) = EventStream::new();
    grading(host, learner, query.step, query.timeout.map(Duration::from_secs), stream);
    answer
}

/// Performs steps for the learner.
pub async fn step(
    State(host): State<Arc<Host>>,
    WritingOwner(learner): WritingOwner,
    Query(going): Query<GoalArguments>,
) -> Response {
    let goal = Goal::from(going);
    host.audit.seat("step", learner.seat, "learner");
    let (stream, answer) = EventStream::new();
    in_the_background(stream, move |stream| steps::go(&host, &learner, &goal, stream));
    answer
}

/// Where the seat is brought.
#[derive(Debug, Deserialize)]
pub struct Reset {
    to: Option<String>,
}

/// Brings the seat back.
pub async fn reset(
    State(host): State<Arc<Host>>,
    WritingOwner(learner): WritingOwner,
    Query(query): Query<Reset>,
) -> Response {
    let to = query.to.map(Goal::To);
    host.audit.seat("reset", learner.seat, "learner");
    let (stream, answer) = EventStream::new();
    in_the_background(stream, move |stream| steps::reset(&host, &learner, to.as_ref(), stream));
    answer
}

/// What is to be explained.
#[derive(Debug, Deserialize)]
pub struct Explained {
    target: String,
    namespace: Option<String>,
}

/// Why a pod of the seat is where it is.
pub async fn explain(
    State(host): State<Arc<Host>>,
    Owner(learner): Owner,
    Query(query): Query<Explained>,
) -> Result<Response, Refusal> {
    answer(queries::explain(&host, &learner, &query.target, query.namespace.as_deref()).await)
}

/// The board of the seat as it is now, with its checks.
pub async fn board(State(host): State<Arc<Host>>, Owner(learner): Owner) -> Result<Response, Refusal> {
    let course = host.course(&learner.lab).ok_or_else(|| Refusal::not_found("the lab is not in this class"))?;
    let progress = host.progress(learner.seat, &learner.lab).map_err(|error| failed(&error))?;
    let client = host.client_of(learner.seat).map_err(|error| failed(&error))?;
    let stage = staged(course.lab(), &progress, progress.graded(course.lab().steps.len()));
    let seen = async {
        let mut snapshot = observe::look_at_all(&client).await?;
        observe::fetch(&client, &stage.checks, &mut snapshot).await?;
        Ok::<_, Error>(snapshot)
    };
    let snapshot = seen.await.map_err(|error| failed(&error))?;
    let mut report = verify::evaluate(&stage.checks, &snapshot, &verify::Context::of(&stage));
    if !report.ok() {
        verify::diagnose(&mut report, &stage.checks, &snapshot, &verify::Context::of(&stage));
    }
    let frame = klab_operations::board::Frame::of(stage, snapshot, report, progress);
    let saved = klab_operations::board::saved(&frame, Some(&course.written)).map_err(|error| failed(&error))?;
    let board = &*frame.board;
    Ok(json_answer(
        StatusCode::OK,
        &json!({
            "page": format!("{}/learn/{}/", host.url(), learner.lab), "saved": saved, "board": board,
            "svg": klab_lab::board::svg(board), "mermaid": klab_lab::board::mermaid(board),
        }),
    ))
}
