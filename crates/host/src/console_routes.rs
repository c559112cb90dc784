//! The console of a learner's page, over HTTP: a line comes, and what kubectl says goes back piece by piece.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::{FutureExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::json_answer;
use super::asset;
use super::refusal::Refusal;
use super::seat::SeatId;
use super::state::{Host, SEATS};
use super::typed;
use crate::barring;
use crate::console::{Piece, Refusal as Refused, Request, Run, lesson, policy};
use klab_operations::error::Error;

/// Largest line with its files.
const MAX_LINE: usize = 2 << 20;

/// What the page sends.
#[derive(Deserialize)]
struct Typed {
    line: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Where the page finds it.
pub(super) fn routes() -> Router<Arc<Host>> {
    Router::new()
        .route("/learn/{lab}/console/run", post(run).layer(DefaultBodyLimit::max(MAX_LINE)))
        .route("/learn/{lab}/console/words", get(words))
        .route("/console.js", get(|headers: HeaderMap| async move { asset::CONSOLE.answer(&headers) }))
}

async fn words() -> Response {
    let mut words = policy::words();
    words["klab"] = json!(typed::words());
    json_answer(StatusCode::OK, &words)
}

/// Runs a line for the learner whose browser it is. A refusal is an answer like any: the page shows it where output would be.
async fn run(State(host): State<Arc<Host>>, Path(lab): Path<String>, headers: HeaderMap, body: Bytes) -> Response {
    // A form of another place cannot send this type.
    let is_json =
        headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return Refusal::new(415, "UnsupportedMediaType", "the console takes JSON").into_response();
    }
    let Ok(typed) = serde_json::from_slice::<Typed>(&body) else {
        return Refusal::bad_request("this is not what the page sends").into_response();
    };
    let Some(console) = host.console() else {
        return Refusal::new(404, "NotFound", "this class has no console: use kubectl with your kubeconfig")
            .into_response();
    };
    let Some(learner) = host.learner(&headers, &lab) else {
        return Refusal::unauthorised().into_response();
    };
    let (Some(course), Some(kubeconfig)) = (host.course(&learner.lab), local_kubeconfig(&host, learner.seat)) else {
        return Refusal::new(503, "ServiceUnavailable", "the class is being made: try again in a moment")
            .into_response();
    };
    let lab = &course.written.lab;
    // What the learner has in the editor comes before what the lab has under the same name.
    let mut files = lesson::files_of(lab);
    files.extend(typed.files);
    let request = Request { seat: learner.seat.to_string(), kubeconfig, line: typed.line, files };
    let (class, owner) = (&host, &learner);
    let klab = |words: Vec<String>| {
        let run = async move { typed::run(class, owner, &words).await.map_err(|error| Refused(said(&error))) };
        run.boxed()
    };
    match console.run(request, klab).await {
        Ok(run) => {
            // A command ends with its learner's seat.
            let pieces = Box::pin(pieces(run)).take_until(Box::pin(barring::is_barred(&host, learner.person)));
            answer(Body::from_stream(pieces))
        }
        Err(refusal) => answer(Body::from(line(&json!({ "refused": refusal.to_string() })))),
    }
}

/// An error and its hints, for people.
fn said(error: &Error) -> String {
    let hints = error.hints.iter().map(|hint| format!("\n{hint}"));
    [format!("{error}")].into_iter().chain(hints).collect()
}

/// The kubeconfig of a seat for this machine: to the port that klab itself listens at, which shows klab's certificate or the one that
/// was given, and is believed with no other.
fn local_kubeconfig(host: &Host, seat: SeatId) -> Option<String> {
    let server = host.server()?;
    let at = server.address();
    let here: IpAddr = if at.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    let at = SocketAddr::new(if at.ip().is_unspecified() { here } else { at.ip() }, at.port());
    let path = seat.to_string().replacen('-', "/", 1);
    let cluster = if host.settings.is_proxied {
        json!({ "server": format!("http://{at}/{SEATS}/{path}") })
    } else {
        // A certificate that was given is for the name by which people call the host, klab's own for this one, too.
        let (authority, name) = match &host.settings.certificate {
            Some(given) => (given.as_str(), name_in(&server.url())?),
            None => (server.authority()?, "localhost".to_owned()),
        };
        json!({
            "server": format!("https://{at}/{SEATS}/{path}"), "tls-server-name": name,
            "certificate-authority-data": STANDARD.encode(authority),
        })
    };
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "seat",
        "clusters": [{ "name": "seat", "cluster": cluster }],
        "users": [{ "name": "seat", "user": { "token": server.token(&seat.to_string())? } }],
        "contexts": [{ "name": "seat", "context": { "cluster": "seat", "user": "seat" } }],
    });
    Some(document.to_string())
}

/// The host in a URL.
fn name_in(url: &str) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    Some(uri.host()?.trim_matches(['[', ']']).to_owned())
}

fn answer(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

fn line(document: &Value) -> String {
    format!("{document}\n")
}

/// What a command says, a line of JSON for each piece. When the page goes, the command is ended.
fn pieces(run: Run) -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    futures::stream::unfold(run, |mut run| async {
        let document = match run.next().await? {
            Piece::Output(text) => json!({ "output": text }),
            Piece::Talk(text) => json!({ "talk": text }),
            Piece::End { code, note } => json!({ "code": code, "note": note }),
        };
        Some((Ok(Bytes::from(line(&document))), run))
    })
}
