//! What stands before the clusters of a hosted class: joining, pages, the API of lessons, and what operators look at.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use jiff::Timestamp;
use tower::ServiceExt;

use super::address::From;
use super::answer::{refused, secured, typed};
use super::asset;
use super::metrics::Gauges;
use super::refusal::Refusal;
use super::register::Phase;
use super::state::Host;
use super::{
    address, aggregate, api, console_routes, forwarding, instructor, join_page, learner, owner, replication,
    shard_routing, shards, sign_in,
};
use klab_cluster::Status;
use klab_cluster::api::changes;
use klab_server::{Asker, BodyError, Digest, Front, FrontBody};

/// What scripts are called.
const SCRIPT: &str = "text/javascript; charset=utf-8";
/// Largest body of a request.
const MAX_BODY: usize = 64 * 1024;

/// The front of a class.
pub struct ClassServer {
    host: Arc<Host>,
    router: OnceLock<Router>,
}

impl ClassServer {
    /// Of a class.
    pub fn new(host: Arc<Host>) -> Self {
        Self { host, router: OnceLock::new() }
    }
}

impl Front for ClassServer {
    fn answer(
        &self,
        request: http::Request<Incoming>,
        from: SocketAddr,
    ) -> BoxFuture<'static, http::Response<FrontBody>> {
        let router = self.router.get_or_init(|| router(&self.host)).clone();
        let client = self.host.client(from.ip(), request.headers());
        let base = self.host.base();
        let refused = self.host.settings.is_proxied && !is_proxy_or_here(&self.host, from.ip());
        Box::pin(async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(From(client));
            note_asked_host(&mut request);
            let answer = match inner_path(request.uri(), &base) {
                _ if refused => not_through_the_proxy(),
                Some(uri) => {
                    *request.uri_mut() = uri;
                    // A router refuses nothing by itself.
                    router.oneshot(request).await.unwrap_or_else(|never| match never {})
                }
                None => Refusal::bad_request("the request path is not valid").into_response(),
            };
            answer.map(|body| body.map_err(|error| BodyError(error.to_string())).boxed_unsync())
        })
    }

    fn admits(&self, cluster: &str, token: &Digest) -> bool {
        // What the instructor's kubeconfig of a seat carries.
        Digest::of(self.host.secret.proof("look", cluster).as_bytes()).equals(token)
    }

    fn refusal(&self, cluster: &str, asker: Asker, request: &http::request::Parts) -> Option<Status> {
        let reads = !changes(&request.method, request.uri.path());
        let forbidden = |words: &str| Some(Status::new(403, "Forbidden", words));
        match self.host.phase() {
            Phase::Over => return forbidden("the class is over"),
            Phase::Closed if !reads => return forbidden(&Refusal::closed().message),
            _ => {}
        }
        if !reads && let Ok(seat) = cluster.parse() {
            // There may be no viewer.
            let _ = self.host.moves.send(seat);
        }
        if asker == Asker::Owner
            && let Some(refusal) = self.refused_owner(cluster, reads)
        {
            return forbidden(&refusal.message);
        }
        let agreed = || cluster.parse().is_ok_and(|seat| self.host.register().agreed(seat));
        if asker == Asker::Guest && !reads && !agreed() {
            return forbidden("you are looking only: you can change things once the learner allows it");
        }
        None
    }
}

impl ClassServer {
    /// Why the owner of a seat is refused: their seat has ended, or they change something after their time.
    fn refused_owner(&self, cluster: &str, reads: bool) -> Option<Refusal> {
        let register = self.host.register();
        let seat = cluster.parse().ok().and_then(|seat| register.seat(seat))?;
        if register.is_barred(seat.person) {
            return Some(Refusal::barred());
        }
        register.refuse_late(seat.person, Timestamp::now()).err().filter(|_| !reads)
    }
}

/// Notes the host that was asked for where all requests have it: browsers speak HTTP/2, which says it in place of a header.
fn note_asked_host(request: &mut http::Request<Body>) {
    let asked = request.uri().authority().and_then(|asked| HeaderValue::try_from(asked.as_str()).ok());
    if let Some(asked) = asked {
        request.headers_mut().entry(header::HOST).or_insert(asked);
    }
}

/// Whether a request came from a proxy that is known, or from this machine itself.
fn is_proxy_or_here(host: &Host, from: IpAddr) -> bool {
    from.to_canonical().is_loopback() || address::is_proxy(from.to_canonical(), &host.settings.proxies)
}

fn not_through_the_proxy() -> Response {
    Refusal::forbidden("this class is reached through its proxy only: TLS ends there").into_response()
}

/// The URI without the part of the path that the class's own address has.
fn inner_path(uri: &http::Uri, base: &str) -> Option<http::Uri> {
    let path = match uri.path().strip_prefix(base) {
        Some("") => "/",
        Some(rest) if rest.starts_with('/') => rest,
        _ => uri.path(),
    };
    let text = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    text.parse().ok()
}

fn router(host: &Arc<Host>) -> Router {
    let lead = middleware::from_fn_with_state(Arc::clone(host), shard_routing::lead);
    let of_learners = Router::new()
        .route("/api/seats/{seat}", get(api::seat))
        .route("/api/seats/{seat}/guide", get(api::guide))
        .route("/api/seats/{seat}/explain", get(api::explain))
        .route("/api/seats/{seat}/board", get(api::board))
        .route("/api/seats/{seat}/render", get(api::render))
        .route("/api/seats/{seat}/diff", get(api::diff))
        .route("/api/seats/{seat}/pool", get(api::pools).post(api::change_pool))
        .route("/api/seats/{seat}/klab", post(api::klab))
        .route("/api/seats/{seat}/verify", post(api::grade))
        .route("/api/seats/{seat}/step", post(api::step))
        .route("/api/seats/{seat}/reset", post(api::reset))
        .route_layer(middleware::from_fn_with_state(Arc::clone(host), owner::until_barred));
    let of_seats = of_learners
        .route("/teach/seats/{seat}/", get(instructor::look))
        .route("/teach/seats/{seat}/{what}", get(instructor::part).post(instructor::act))
        .route_layer(middleware::from_fn_with_state(Arc::clone(host), forwarding::to_its_shard));
    let internal = Router::new()
        .route(shards::ROOM, post(shard_routing::room))
        .route(replication::DECISIONS, get(replication::decisions))
        .route(replication::DECIDED, post(replication::decided))
        .route(aggregate::NEWS, get(aggregate::answer))
        .route_layer(middleware::from_fn_with_state(Arc::clone(host), from_a_shard));
    Router::new()
        .route("/", get(join_page::page))
        .route("/join", post(join_page::by_form).layer(lead.clone()))
        .route("/api/join", post(join_page::by_program).layer(lead))
        .route("/learn/{lab}/", get(learner::whole))
        .route("/learn/{lab}/next", post(learner::next))
        .route("/learn/{lab}/perform", post(learner::step))
        .route("/learn/{lab}/reset", post(learner::reset))
        .route("/learn/{lab}/agree", post(learner::agree))
        .route("/learn/{lab}/labs/{other}", post(learner::go))
        .route("/learn/{lab}/{what}", get(learner::part))
        .route("/teach/", get(instructor::whole))
        .route("/teach/open", post(instructor::open))
        .route("/teach/events", get(instructor::events))
        .route("/teach/class.json", get(instructor::document))
        .route("/teach/class.csv", get(instructor::sheet))
        .route("/teach/extend", post(instructor::extend))
        .route("/teach/close", post(instructor::close))
        .route("/teach/hint", post(instructor::hint))
        .route("/teach/open-next", post(instructor::open_next))
        .route("/teach/codes", post(instructor::codes))
        .route("/teach/revoke", post(instructor::revoke))
        .route("/learn.js", get(|headers: HeaderMap| async move { asset::LEARN.answer(&headers) }))
        .route("/look.js", get(|| async { typed(SCRIPT, "\"use strict\";\n") }))
        .route("/teach.js", get(|headers: HeaderMap| async move { asset::TEACH.answer(&headers) }))
        .route("/host.css", get(|headers: HeaderMap| async move { asset::STYLE.answer(&headers) }))
        .route("/ca.pem", get(authority))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .merge(console_routes::routes())
        .merge(sign_in::routes::routes())
        .merge(of_seats)
        .merge(internal)
        .fallback(nowhere)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(host), at_the_door))
        .with_state(Arc::clone(host))
}

/// Refuses what a page of another place sends with this browser's cookies, and says of every answer what a browser may do.
async fn at_the_door(State(host): State<Arc<Host>>, request: Request, next: Next) -> Response {
    let answer = match refused_origin(&host, request.method(), request.headers()) {
        Some(refusal) => {
            let (parts, body) = request.into_parts();
            // Over HTTP/2 an answer ahead of the body resets the stream, and curl reports that in place of the answer.
            drop(to_bytes(body, MAX_BODY).await);
            refused(refusal, &parts.headers, &host.base())
        }
        None => next.run(request).await,
    };
    secured(answer, host.is_secure())
}

fn refused_origin(host: &Host, method: &Method, headers: &HeaderMap) -> Option<Refusal> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_own = match text(header::ORIGIN) {
        Some(origin) => host.is_own_origin(origin, text(header::HOST)),
        // Programs send none; browsers that send cookies with what changes something always do.
        None => !headers.contains_key(header::COOKIE),
    };
    let message = || format!("only pages of the class itself may ask for this: open it at {}/", host.url());
    (!is_own).then(|| Refusal::forbidden(message()))
}

/// Admits other shards alone: for any other client there is nothing.
async fn from_a_shard(State(host): State<Arc<Host>>, request: Request, next: Next) -> Response {
    if host.shards().is_some_and(|shards| shards.is_one(request.headers())) {
        return next.run(request).await;
    }
    nowhere().await.into_response()
}

async fn nowhere() -> Refusal {
    Refusal::not_found("there is nothing at this address")
}

async fn authority(State(host): State<Arc<Host>>) -> Response {
    match host.server().and_then(|server| server.authority().map(str::to_owned)) {
        Some(text) => typed("application/x-pem-file", text),
        None => Refusal::not_found("this class needs no certificate authority of its own").into_response(),
    }
}

async fn ready(State(host): State<Arc<Host>>) -> Response {
    match (host.server(), host.phase()) {
        (None, _) => (StatusCode::SERVICE_UNAVAILABLE, "the class is being made\n").into_response(),
        (Some(_), Phase::Over) => (StatusCode::SERVICE_UNAVAILABLE, "the class is over\n").into_response(),
        (Some(_), _) => match host.trouble().await {
            Some(trouble) => {
                let words = format!("the class's journal cannot be written: {trouble}\n");
                (StatusCode::SERVICE_UNAVAILABLE, words).into_response()
            }
            None => "ok\n".into_response(),
        },
    }
}

async fn metrics(State(host): State<Arc<Host>>) -> Response {
    let gauges = {
        let is_open = host.phase() == Phase::Open;
        let register = host.register();
        Gauges { seats: register.seats().count(), most: host.settings.most, people: register.people(), is_open }
    };
    typed("application/openmetrics-text; version=1.0.0; charset=utf-8", host.metrics.text(&host.settings.name, gauges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_that_was_asked_for_is_known_in_both_versions_of_http() {
        for (uri, header, wanted) in [
            ("https://10.0.0.7:8443/join", None, Some("10.0.0.7:8443")),
            ("/join", Some("10.0.0.7:8443"), Some("10.0.0.7:8443")),
            ("https://10.0.0.7:8443/join", Some("h"), Some("h")),
            ("/join", None, None),
        ] {
            let mut request = http::Request::builder().uri(uri);
            if let Some(header) = header {
                request = request.header("host", header);
            }
            let mut request = request.body(Body::empty()).unwrap();
            note_asked_host(&mut request);
            let asked = request.headers().get("host").map(|asked| asked.to_str().unwrap());
            assert_eq!(asked, wanted, "{uri}");
        }
    }

    #[test]
    fn the_path_of_the_class_is_taken_away_once() {
        for (uri, base, inner) in [
            ("/join?x=1", "", "/join?x=1"),
            ("/labs", "/labs", "/"),
            ("/labs/join?x=1", "/labs", "/join?x=1"),
            ("/labs/labs/join", "/labs", "/labs/join"),
            ("/labsy", "/labs", "/labsy"),
        ] {
            let inner_uri = inner_path(&uri.parse().unwrap(), base).unwrap();
            assert_eq!(inner_uri.to_string(), inner, "{uri} {base}");
        }
    }
}
