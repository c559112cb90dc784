//! The server of a lab's page: on loopback, for one browser, over HTTP.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use futures::Stream;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::access::PageAccess;
use super::page::{self, Form, Page, Written};
use super::scene::{Number, Scene};
use super::{Frame, progress};
use crate::error::{Code, Context as _, Error, Result};

/// What a page may load and run: what this server gives, and nothing that is written into it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The part that says why nothing new comes.
const SILENCE: &str = "silence";
/// How often a stream says that it is there while nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Most pages that are open at a time.
const PAGES: usize = 1000;

/// A lab as it is shown to browsers.
pub struct Shown {
    /// The lab, and the folder of its state; none of a cluster that no lab describes.
    lesson: Option<(Written, PathBuf)>,
    door: PageAccess,
    /// Tells this run of klab from others: they number from 1, too.
    run: String,
    inner: Mutex<Inner>,
    newest: watch::Sender<Number>,
    pages: AtomicUsize,
}

struct Inner {
    scene: Scene,
    frame: Frame,
}

/// A server that is ready, and the link that lets a browser in.
pub struct Server {
    listener: TcpListener,
    /// Where the page is, with the word that opens it once.
    pub link: String,
    /// What is shown.
    pub shown: Arc<Shown>,
}

impl Server {
    /// Takes a port on loopback, `0` for a free one, and shows the first frame, after those of the past.
    ///
    /// # Errors
    /// When the port is not to be had.
    pub async fn new(port: u16, lesson: Option<(Written, PathBuf)>, past: Vec<Frame>, frame: Frame) -> Result<Self> {
        let listening = || format!("could not listen on 127.0.0.1:{port}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.code(Code::PortInUse, listening)?;
        let port = listener.local_addr().code(Code::PortInUse, listening)?.port();
        let (door, word) = PageAccess::new(port).code(Code::MachineRefused, || "could not make a link".to_owned())?;
        let run = format!("{:x}", jiff::Timestamp::now().as_millisecond());
        let shown = Shown {
            lesson,
            door,
            run,
            inner: Mutex::new(Inner { scene: Scene::default(), frame: frame.clone() }),
            newest: watch::Sender::new(0),
            pages: AtomicUsize::new(0),
        };
        for frame in past {
            shown.show(frame)?;
        }
        shown.show(frame)?;
        Ok(Self { listener, link: format!("http://127.0.0.1:{port}/?open={word}"), shown: Arc::new(shown) })
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// When the system takes the port away.
    pub async fn serve(self) -> Result<()> {
        let served = axum::serve(self.listener, router(self.shown)).await;
        served.code(Code::MachineRefused, || "could not serve the page any longer".to_owned())
    }
}

fn router(shown: Arc<Shown>) -> Router {
    Router::new()
        .route("/", get(whole))
        .route("/board.css", get(|| async { typed("text/css; charset=utf-8", page::STYLE) }))
        .route("/board.js", get(|| async { typed("text/javascript; charset=utf-8", page::SCRIPT) }))
        .route("/events", get(events))
        .route("/moments", get(moments))
        .route("/at", get(at))
        .route("/pod", get(pod))
        .route("/node", get(node))
        .route("/step", get(step))
        .route("/next", post(next))
        .layer(middleware::from_fn_with_state(Arc::clone(&shown), at_the_door))
        .with_state(shown)
}

impl Shown {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> Option<&Written> {
        self.lesson.as_ref().map(|(written, _)| written)
    }

    /// Shows a frame to all who look.
    ///
    /// # Errors
    /// When a template fails.
    pub fn show(&self, frame: Frame) -> Result<()> {
        let mut parts = page::all_parts(&frame, self.written(), Form::Live)?;
        parts.push((SILENCE.to_owned(), String::new()));
        let taken = frame.board.taken_at.as_ref().and_then(|at| at.parse::<jiff::Timestamp>().ok());
        let mut inner = self.lock();
        inner.scene.show(parts, &frame.board.moves, taken.unwrap_or_else(jiff::Timestamp::now).as_millisecond());
        inner.frame = frame;
        self.tell(&inner);
        Ok(())
    }

    /// Says that the cluster is silent; what was seen last stays.
    pub fn silent(&self, words: &str) {
        let mut inner = self.lock();
        inner.scene.show_part(SILENCE, page::escaped(words), jiff::Timestamp::now().as_millisecond());
        self.tell(&inner);
    }

    /// Wakes the streams, where there is something new.
    fn tell(&self, inner: &Inner) {
        let last = inner.scene.last();
        self.newest.send_if_modified(|newest| std::mem::replace(newest, last) != last);
    }
}

/// Lets in who may come, and says of every answer what a browser may do with it.
async fn at_the_door(State(shown): State<Arc<Shown>>, request: Request, next: Next) -> Response {
    let mut answer = match refusal(&shown, &request) {
        Some(answer) => answer,
        None => next.run(request).await,
    };
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in
        [("cross-origin-opener-policy", "same-origin"), ("cross-origin-resource-policy", "same-origin")]
    {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The answer to who may not come in, or comes in just now.
fn refusal(shown: &Shown, request: &Request) -> Option<Response> {
    let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    if !text(header::HOST).is_some_and(|host| shown.door.is_here(host)) {
        return Some((StatusCode::MISDIRECTED_REQUEST, "this page is served to this machine only\n").into_response());
    }
    // A page from elsewhere may send a form here, with the cookie of an old browser.
    let from = |origin: &str| origin.strip_prefix("http://").is_some_and(|host| shown.door.is_here(host));
    if request.method() != http::Method::GET && !text(header::ORIGIN).is_some_and(from) {
        return Some((StatusCode::FORBIDDEN, "only the page itself may ask for this\n").into_response());
    }
    if shown.door.knows(text(header::COOKIE).unwrap_or_default()) {
        return None;
    }
    let link = Query::<Link>::try_from_uri(request.uri()).ok().filter(|_| request.uri().path() == "/");
    if let Some(cookie) = link.and_then(|Query(link)| shown.door.enter(&link.open)) {
        return Some(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response());
    }
    let words = "this link has been used, or is not one; `klab board` prints another\n";
    Some((StatusCode::FORBIDDEN, words).into_response())
}

#[derive(Deserialize)]
struct Link {
    open: String,
}

fn typed(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind)], text)
}

/// What failed, for the one who looks.
fn failed(error: &Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
}

async fn whole(State(shown): State<Arc<Shown>>) -> Response {
    let inner = shown.lock();
    let number = inner.scene.last();
    let title = page::title(&inner.frame);
    let parts = inner.scene.at(number).into_iter().map(|(name, html)| (name, &**html)).collect();
    match (Page { title, number, run: &shown.run, parts }).live() {
        Ok(html) => Html(html).into_response(),
        Err(error) => failed(&error),
    }
}

#[derive(Deserialize)]
struct Since {
    #[serde(default)]
    since: Number,
}

/// The changes since the page was made, or since the stream broke, and all that come.
async fn events(State(shown): State<Arc<Shown>>, Query(Since { since }): Query<Since>, headers: HeaderMap) -> Response {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.split_once('-'));
    // Of another run all is new; the page sees the run and loads itself again.
    let of_this_run = last.map(|(run, number)| if run == shown.run { number.parse().unwrap_or(0) } else { 0 });
    let Some(place) = Visit::new(&shown) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n").into_response();
    };
    let stream = changes(place, of_this_run.unwrap_or(since));
    Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

/// An open page.
struct Visit(Arc<Shown>);

impl Visit {
    fn new(shown: &Arc<Shown>) -> Option<Self> {
        let visit = Self(Arc::clone(shown));
        // Counted down when it is dropped, also where it is one too many.
        (shown.pages.fetch_add(1, Ordering::Relaxed) < PAGES).then_some(visit)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.pages.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What changed since `from`, whenever something did. Who reads slowly gets several changes as one: nothing waits for him.
fn changes(visit: Visit, from: Number) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    let newest = visit.0.newest.subscribe();
    futures::stream::unfold((visit, newest, from), |(visit, mut newest, from)| async move {
        newest.wait_for(|newest| *newest > from).await.ok()?;
        let changes = visit.0.lock().scene.since(from);
        let number = changes.number;
        let data = serde_json::to_string(&changes).ok()?;
        let event = sse::Event::default().event("change").id(format!("{}-{number}", visit.0.run)).data(data);
        Some((Ok(event), (visit, newest, number)))
    })
}

async fn moments(State(shown): State<Arc<Shown>>) -> Response {
    let moments: Vec<_> = shown.lock().scene.moments().collect();
    json(&moments)
}

fn json(document: &impl serde::Serialize) -> Response {
    match serde_json::to_string(document) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct AtMoment {
    moment: Number,
}

/// All parts as they were at a moment.
async fn at(State(shown): State<Arc<Shown>>, Query(AtMoment { moment }): Query<AtMoment>) -> Response {
    json(&shown.lock().scene.whole_at(moment))
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

async fn pod(State(shown): State<Arc<Shown>>, Query(Named { name }): Query<Named>) -> Response {
    details(&shown, |frame| page::pod(frame, &name))
}

async fn node(State(shown): State<Arc<Shown>>, Query(Named { name }): Query<Named>) -> Response {
    details(&shown, |frame| page::node(frame, &name))
}

fn details(shown: &Shown, of: impl Fn(&Frame) -> Result<Option<String>>) -> Response {
    let frame = shown.lock().frame.clone();
    match of(&frame) {
        Ok(Some(html)) => Html(html).into_response(),
        Ok(None) => (StatusCode::NOT_FOUND, "it is not in the cluster any more\n").into_response(),
        Err(error) => failed(&error),
    }
}

#[derive(Deserialize)]
struct Numbered {
    number: String,
}

/// The text of a step, or of where the learner is.
async fn step(State(shown): State<Arc<Shown>>, Query(Numbered { number }): Query<Numbered>) -> Response {
    let frame = shown.lock().frame.clone();
    let Some(written) = shown.written() else { return no_lesson() };
    match page::lesson(&frame, written, number.parse().ok(), Form::Live) {
        Ok(html) => Html(html).into_response(),
        Err(error) => failed(&error),
    }
}

fn no_lesson() -> Response {
    (StatusCode::NOT_FOUND, "this cluster has no lesson\n").into_response()
}

/// Moves the learner on, where what is to be done is done.
async fn next(State(shown): State<Arc<Shown>>) -> Response {
    let frame = shown.lock().frame.clone();
    let Some((written, folder)) = &shown.lesson else { return no_lesson() };
    match progress::advance(&written.lab, folder, &frame) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => (StatusCode::CONFLICT, format!("{error}\n")).into_response(),
    }
}
