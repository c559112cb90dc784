//! The lesson of a seat for programs, above all for `klab` on its learner's machine. Who asks shows the seat's own token.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{failed, json_answer};
use super::grading::{self, LONGEST};
use super::owner::{Owner, OwnerAtWork};
use super::performing::{self, Way};
use super::refusal::Refusal;
use super::register::Phase;
use super::state::{Host, Learner};
use super::talk::Talk;
use crate::error::{Error, Kind};
use crate::lesson::text::{self, Page};
use crate::lesson::words::{find, step_document};
use crate::lesson::{stage, staged};
use crate::observe;
use klab_lab::report::{self, Styles, explanation_json};
use klab_lab::verify;

/// Where the learner is.
pub async fn seat(State(host): State<Arc<Host>>, Owner(learner): Owner) -> Result<Response, Refusal> {
    let progress = host.progress(learner.seat, &learner.lab).map_err(|error| failed(&error))?;
    let course = host.course(&learner.lab).ok_or_else(|| Refusal::not_found("the lab is not in this class"))?;
    let steps = &course.lab().steps;
    let step = progress.next(steps.len()).and_then(|next| steps.get(next));
    let (hints, agreed) = {
        let register = host.register();
        (register.hints(learner.seat).into_iter().map(str::to_owned).collect::<Vec<_>>(), register.agreed(learner.seat))
    };
    Ok(json_answer(
        StatusCode::OK,
        &json!({
            "schema": "klab.seat-status/1", "class": host.settings.name, "seat": learner.seat, "lab": learner.lab,
            "name": learner.name, "title": course.lab().title, "done": progress.done, "steps": steps.len(),
            "opened": progress.is_opened(), "step": step.map(|step| &step.name.value), "closes": host.times().closes,
            "open": host.phase() == Phase::Open, "hints": hints, "agreed": agreed,
            "page": format!("{}/learn/{}/", host.url(), learner.lab),
        }),
    ))
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
    Query(asked): Query<Guided>,
) -> Result<Response, Refusal> {
    let course = host.course(&learner.lab).ok_or_else(|| Refusal::not_found("the lab is not in this class"))?;
    let (lab, azure) = (course.lab(), &course.written.azure);
    let progress = host.progress(learner.seat, &learner.lab).map_err(|error| failed(&error))?;
    let page = Page { width: asked.width.unwrap_or(80).clamp(20, 200), colours: asked.colours };
    let shown = match &asked.step {
        Some(name) => Some(find(lab, name).map_err(|error| unusable(&error))?),
        None => text::shown(lab, &progress),
    };
    let text = match shown {
        Some(step) => text::step_text(lab, step, azure, page),
        None => text::intro(lab, &progress, page),
    };
    if asked.step.is_none() && shown.is_some() && host.phase() == Phase::Open {
        grading::open(&host, learner.seat, &learner.lab).await.map_err(|error| failed(&error))?;
    }
    let steps: Vec<Value> = (0..lab.steps.len()).map(|step| step_document(lab, step, azure)).collect();
    Ok(json_answer(
        StatusCode::OK,
        &json!({
            "text": text,
            "document": {
                "schema": "klab.guide/1", "lab": lab.name.value, "title": lab.title, "description": lab.description,
                "shown": shown.and_then(|step| lab.steps.get(step)).map(|step| &step.name.value), "steps": steps,
                "lesson": { "steps": lab.steps.len(), "done": progress.done, "opened": progress.is_opened() },
            },
        }),
    ))
}

pub(super) fn unusable(error: &Error) -> Refusal {
    let hints: String = error.hints.iter().map(|hint| format!("; {hint}")).collect();
    Refusal::bad_request(format!("{error}{hints}"))
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
    Query(asked): Query<Graded>,
) -> Response {
    graded(host, learner, asked.step, asked.timeout)
}

/// Begins to grade a learner; the answer tells what comes of it.
fn graded(host: Arc<Host>, learner: Learner, step: Option<String>, timeout: Option<u64>) -> Response {
    let (talk, answer) = Talk::new();
    let timeout = timeout.map_or(Duration::from_mins(2), Duration::from_secs).min(LONGEST);
    tokio::spawn(async move {
        let grading = grading::grade(&host, learner.seat, &learner.lab, step.as_deref(), timeout, &talk);
        let outcome = tokio::select! {
            outcome = grading => outcome,
            // Who has gone needs no verdict.
            () = talk.unheard() => return,
        };
        host.audit.seat("verify", learner.seat, "learner");
        talk.end(outcome).await;
    });
    answer
}

/// How far to go.
#[derive(Debug, Deserialize)]
pub struct Stepped {
    to: Option<String>,
    #[serde(default)]
    all: bool,
    #[serde(default)]
    back: bool,
}

impl Stepped {
    fn way(self) -> Way {
        match (self.to, self.all, self.back) {
            (Some(step), ..) => Way::To(step),
            (None, true, _) => Way::All,
            (None, false, true) => Way::Back,
            (None, false, false) => Way::Next,
        }
    }
}

/// Performs steps for the learner.
pub async fn step(
    State(host): State<Arc<Host>>,
    OwnerAtWork(learner): OwnerAtWork,
    Query(asked): Query<Stepped>,
) -> Response {
    let way = asked.way();
    host.audit.seat("step", learner.seat, "learner");
    in_the_background(move |talk| performing::go(&host, learner.seat, &learner.lab, &way, talk))
}

/// Where the seat is brought.
#[derive(Debug, Deserialize)]
pub struct Reset {
    to: Option<String>,
}

/// Brings the seat back.
pub async fn reset(
    State(host): State<Arc<Host>>,
    OwnerAtWork(learner): OwnerAtWork,
    Query(asked): Query<Reset>,
) -> Response {
    let to = asked.to.map(Way::To);
    host.audit.seat("reset", learner.seat, "learner");
    in_the_background(move |talk| performing::reset(&host, learner.seat, &learner.lab, to.as_ref(), talk))
}

/// Begins work that waits for what it does; the answer tells what comes of it.
pub fn in_the_background(work: impl FnOnce(&Talk) -> crate::error::Result<()> + Send + 'static) -> Response {
    let (talk, answer) = Talk::new();
    tokio::spawn(async move {
        let said = talk.clone();
        let done = tokio::task::spawn_blocking(move || work(&said)).await;
        let outcome = done.unwrap_or_else(|_| Err(Error::message(Kind::Failed, "the host met a fault of its own")));
        talk.end(outcome).await;
    });
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
    Query(asked): Query<Explained>,
) -> Result<Response, Refusal> {
    let course = host.course(&learner.lab).ok_or_else(|| Refusal::not_found("the lab is not in this class"))?;
    let progress = host.progress(learner.seat, &learner.lab).map_err(|error| failed(&error))?;
    let client = host.client_of(learner.seat).map_err(|error| failed(&error))?;
    let snapshot = observe::look_at_all(&client).await.map_err(|error| failed(&error))?;
    let stage = stage(course.lab(), progress.done);
    let around = verify::Context::of(&stage);
    let found = verify::explain(&snapshot, &around, &asked.target, asked.namespace.as_deref());
    let explained = found.map_err(|nothing| {
        let similar = nothing.similar.as_ref().map_or(String::new(), |similar| format!("; did you mean `{similar}`?"));
        Refusal::not_found(format!("{nothing}{similar}"))
    })?;
    Ok(json_answer(
        StatusCode::OK,
        &json!({
            "text": report::explanation_text(&explained, Styles::coloured()),
            "document": explanation_json(&asked.target, &explained),
        }),
    ))
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
    let frame = crate::board::Frame::of(stage, snapshot, report, progress);
    let saved = crate::board::saved(&frame, Some(&course.written)).map_err(|error| failed(&error))?;
    let board = &*frame.board;
    Ok(json_answer(
        StatusCode::OK,
        &json!({
            "page": format!("{}/learn/{}/", host.url(), learner.lab), "saved": saved, "board": board,
            "svg": klab_lab::board::svg(board), "mermaid": klab_lab::board::mermaid(board),
        }),
    ))
}
