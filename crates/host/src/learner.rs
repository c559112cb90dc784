//! The learner's page: the board of the seat, the lesson beside it, and lines for the learner's own terminal.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;

use super::answer::{failed, page as page_of, refused, typed};
use super::board_cache::Viewer;
use super::event_stream::EventStream;
use super::refusal::{Refusal, without_places};
use super::register::Entry;
use super::state::{Host, Learner};
use super::typed::shell_functions;
use super::{board_view, grading, practice, renderer, steps};
use crate::admission;
use klab_operations::board::page;
use klab_operations::error::Kind;
use klab_operations::exec::quoted;
use klab_operations::lesson::session::Goal;

/// How long the page waits for checks before it says which do not hold.
const PATIENCE: Duration = Duration::from_secs(10);

fn of(host: &Host, lab: &str, headers: &HeaderMap) -> Result<Learner, Refusal> {
    host.learner(headers, lab).ok_or_else(Refusal::unauthorised)
}

fn active_learner(host: &Host, lab: &str, headers: &HeaderMap) -> Result<Learner, Refusal> {
    let learner = of(host, lab, headers)?;
    host.refuse_late(learner.person)?;
    Ok(learner)
}

/// The page itself.
pub async fn whole(State(host): State<Arc<Host>>, Path(lab): Path<String>, headers: HeaderMap) -> Response {
    match of(&host, &lab, &headers) {
        Ok(learner) => {
            let seat = (learner.seat, lab.as_str(), Viewer::Learner);
            let answer = board_view::answer(&host, seat, ("", ""), &headers).await;
            answer.unwrap_or_else(|refusal| refused(refusal, &headers, &host.base()))
        }
        // An unknown visitor is led to the join page.
        Err(_) => Redirect::to(&format!("{}/", host.base())).into_response(),
    }
}

/// What the page asks for.
pub async fn part(
    State(host): State<Arc<Host>>,
    Path((lab, what)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let learner = of(&host, &lab, &headers)?;
    match what.as_str() {
        "kubeconfig" => {
            let text = host.kubeconfig(learner.seat, &lab).ok_or_else(|| Refusal::not_found("the seat is gone"))?;
            let name = format!("attachment; filename=\"klab-{lab}.yaml\"");
            Ok(([(header::CONTENT_DISPOSITION, name)], typed("application/yaml", text)).into_response())
        }
        "lines" => lines(&host, &learner),
        "summary" => summary(&host, &learner).await,
        what => {
            let seat = (learner.seat, lab.as_str(), Viewer::Learner);
            board_view::answer(&host, seat, (what, uri.query().unwrap_or_default()), &headers).await
        }
    }
}

/// Lines for the learner's own terminal. Who has signed in has no code and no PIN to type: a code is made for them, for once.
fn lines(host: &Host, learner: &Learner) -> Result<Response, Refusal> {
    let lab = &learner.lab;
    let file = format!("klab-{lab}.yaml");
    let url = host.url();
    let shells = [
        ("bash, zsh", format!("chmod 600 {file}\nexport KUBECONFIG=\"$PWD/{file}\"\nkubectl get nodes")),
        ("PowerShell", format!("$env:KUBECONFIG = \"$PWD\\{file}\"\nkubectl get nodes")),
    ];
    let print = host.fingerprint();
    let address = print.as_ref().map_or_else(|| format!("{url}/"), |print| format!("{url}/#ca={print}"));
    let authority = if print.is_some() { " --cacert klab-ca.pem" } else { "" };
    let pass = admission::new_pass(host, learner.person)?;
    let several = host.courses().count() > 1;
    // klab asks for a name where none is said.
    let name = quoted(&learner.name);
    let (fields, words) = match &pass {
        Some(pass) if several => (format!("-d code={pass} -d lab={lab}"), format!("{pass} --lab {lab} --name={name}")),
        Some(pass) => (format!("-d code={pass}"), format!("{pass} --name={name}")),
        None => ("-d code=CODE -d name=NAME -d pin=PIN".to_owned(), "CODE --name NAME".to_owned()),
    };
    let document = json!({
        "base": host.base(), "title": "Your own terminal", "lab": lab, "has_pass": pass.is_some(),
        "shells": shells.map(|(name, lines)| json!({ "name": name, "lines": lines })),
        "curl": format!(
            "curl -fsS{authority} {fields} {url}/api/join > {file}\nexport KUBECONFIG=\"$PWD/{file}\""
        ),
        "klab": format!("klab join {} {words}", quoted(&address)),
        "functions": shell_functions(host, learner.seat).map(|(name, line)| json!({ "name": name, "line": line })),
    });
    Ok(page_of("lines.html", &document))
}

/// The lesson and the cluster as one file, for the learner to keep.
async fn summary(host: &Host, learner: &Learner) -> Result<Response, Refusal> {
    let course = host.course(&learner.lab).ok_or_else(|| Refusal::not_found("the lab is not in this class"))?;
    let frame = renderer::frame(host, learner.seat, &learner.lab).await.map_err(|error| failed(&error))?;
    let seat = learner.seat.to_string();
    let shown = course.shown(&frame.progress, renderer::form(host, learner.seat, Viewer::Learner));
    let html = page::summary(&frame, shown, &learner.name, &seat).map_err(|error| failed(&error))?;
    let name = format!("attachment; filename=\"klab-{}.html\"", learner.lab);
    Ok(([(header::CONTENT_DISPOSITION, name)], typed("text/html; charset=utf-8", html)).into_response())
}

/// Goes on to the next step, where what is to be done is done.
pub async fn next(
    State(host): State<Arc<Host>>,
    Path(lab): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let learner = active_learner(&host, &lab, &headers)?;
    let progress = host.progress(learner.seat, &lab).map_err(|error| failed(&error))?;
    if progress.is_opened() || !progress.started {
        let stream = EventStream::nowhere();
        let graded = grading::grade(&host, &learner, None, PATIENCE, &stream).await;
        if let Err(error) = graded {
            let code =
                if error.kind() == Kind::Failed { StatusCode::CONFLICT } else { StatusCode::PRECONDITION_FAILED };
            return Ok((code, format!("not yet: {}\n", error.source)).into_response());
        }
    }
    grading::open(&host, learner.seat, &lab).await.map_err(|error| failed(&error))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Does the next step for the learner.
pub async fn step(
    State(host): State<Arc<Host>>,
    Path(lab): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let learner = active_learner(&host, &lab, &headers)?;
    host.audit.seat("step", learner.seat, "learner");
    let work = move || steps::go(&host, &learner, &Goal::Next, &EventStream::nowhere());
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| Refusal::internal(error.to_string()))?;
    Ok(match done {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => (StatusCode::CONFLICT, format!("{error}\n")).into_response(),
    })
}

/// Goes to another lab of the class, where the learner has a seat from then on.
pub async fn go(
    State(host): State<Arc<Host>>,
    Path((lab, other)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    practice::go(&host, &of(&host, &lab, &headers)?, &other).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Brings the seat back to its set-up.
pub async fn reset(
    State(host): State<Arc<Host>>,
    Path(lab): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let learner = active_learner(&host, &lab, &headers)?;
    host.audit.seat("reset", learner.seat, "learner");
    bring_back(&host, &learner, None).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Brings a seat back, and on to where a number of steps are done.
///
/// # Errors
/// When it could not be brought there.
pub async fn bring_back(host: &Arc<Host>, learner: &Learner, steps: Option<usize>) -> Result<(), Refusal> {
    let (host, learner) = (Arc::clone(host), learner.clone());
    let work = move || {
        let goal = steps.map(Goal::Steps);
        steps::reset(&host, &learner, goal.as_ref(), &EventStream::nowhere())
    };
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| Refusal::internal(error.to_string()))?;
    done.map_err(|error| Refusal::conflict(without_places(&error.to_string())))
}

/// Whether the instructor may change something in the seat.
#[derive(Debug, Deserialize)]
pub struct Agreed {
    writes: bool,
}

/// Lets the instructor change things in the seat, or not any more.
pub async fn agree(
    State(host): State<Arc<Host>>,
    Path(lab): Path<String>,
    Query(Agreed { writes }): Query<Agreed>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let learner = active_learner(&host, &lab, &headers)?;
    let entry = Entry::Agreed { seat: learner.seat, writes };
    host.record(vec![entry]).await.map_err(|error| failed(&error))?;
    host.audit.seat(if writes { "agree" } else { "disagree" }, learner.seat, "learner");
    let _ = host.moves.send(learner.seat);
    Ok(StatusCode::NO_CONTENT.into_response())
}
