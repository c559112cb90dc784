//! Connections: TLS, HTTP/1.1 and HTTP/2, who it is, and which cluster or face of klab answers.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SetOnce, watch};

use super::super::api::{Body, User, receive, status_response};
use super::super::cluster::Cluster;
use super::super::status::Status;
use super::credentials::Digest;
use super::handshake::Handshakes;
use super::host_name::HostNames;
use super::hosted::Hosted;
use super::refusal::{panicked, too_many_connections, unauthorised};
use super::shared::Shared;
use super::{admin, tls};

/// Time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for the head of a request; also how long an idle connection is kept.
const HEAD: Duration = Duration::from_mins(2);
/// Time for the body of a request to arrive and be worked on. Bodies of answers, which watches keep open, are not meant.
const REQUEST: Duration = Duration::from_mins(1);
/// How often the other end of an HTTP/2 connection is asked whether it is there, and how long it may take to answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// Requests under way at once on one HTTP/2 connection, watches among them (what Go's servers allow).
const MAX_STREAMS: u32 = 250;
/// Bytes of headers that are read.
const MAX_HEADERS: u32 = 64 * 1024;
/// Time until a connection has sent a request with credentials: whoever has none does not keep others out.
const PROBATION: Duration = Duration::from_secs(10);
/// How long connections may take to end when the server stops.
pub(super) const FAREWELL: Duration = Duration::from_millis(100);
/// Connections served at the same time, where the process may have this many files open.
const MAX_CONNECTIONS: u64 = 8192;
/// Files that are left for logs and all else.
const OTHER_FILES: u64 = 128;

/// How many connections can be served at the same time. Raises the process's limit of open files as far as it goes.
pub(super) fn most() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    // `None` is no limit.
    let most = files.map_or(MAX_CONNECTIONS, |files| files.saturating_sub(OTHER_FILES).clamp(16, MAX_CONNECTIONS));
    usize::try_from(most).unwrap_or(16)
}

/// Accepts connections until the server stops.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let handshakes = Arc::new(Handshakes::new(HostNames::new(&shared.host.admin)));
    let turns = tokio::spawn({
        let handshakes = Arc::clone(&handshakes);
        async move { handshakes.run().await }
    });
    let free = Arc::new(Semaphore::new(shared.host.connections));
    let mut stop = shared.stop.subscribe();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stopped(&mut stop) => break,
            // Finished connections are taken out as they come.
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, most likely: let some connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&free).try_acquire_owned() else { continue };
        let (handshakes, shared) = (Arc::clone(&handshakes), Arc::clone(&shared));
        connections.spawn(async move {
            connection(stream, &handshakes, shared).await;
            drop(permit);
        });
    }
    drop(listener);
    turns.abort();
    while connections.join_next().await.is_some() {}
}

/// Returns when the server is told to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the server is gone.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(stream: TcpStream, handshakes: &Handshakes, shared: Arc<Shared>) {
    // Answers are written whole; waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let shaken = handshakes.shake(stream, Arc::clone(&shared.host.identity.config));
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, shaken).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(|der| Digest::of(der));
    let peer = Arc::new(Peer { certificate, seat: SetOnce::new() });
    let http_2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2);
    let mut stop = shared.stop.subscribe();
    let other_end = Arc::clone(&peer);
    let service = service_fn(move |request: Request<Incoming>| {
        let (shared, peer) = (Arc::clone(&shared), Arc::clone(&other_end));
        async move { Ok::<_, Infallible>(guarded(answer(&shared, request, &peer)).await) }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut builder = if http_2 { builder.http2_only() } else { builder.http1_only() };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(MAX_HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS);
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut served = std::pin::pin!(served);
    tokio::select! {
        // An error ends the connection; there is nobody left to tell.
        _ = served.as_mut() => {}
        () = probation(&peer) => {}
        // As if nobody were there: without a word.
        () = peer.silenced() => {}
        () = stopped(&mut stop) => {
            // Whoever waits for an answer gets it; watches, which never end, are cut off.
            served.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(FAREWELL / 2, served).await;
        }
    }
}

/// The answer to a request, within its time. A panic is the request's, not the connection's, on which others may be under
/// way.
async fn guarded(answer: impl Future<Output = Response<Body>>) -> Response<Body> {
    match tokio::time::timeout(REQUEST, AssertUnwindSafe(answer).catch_unwind()).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => status_response(&panicked()),
        Err(_) => status_response(&Status::new(504, "Timeout", "the request took too long")),
    }
}

/// The other end of a connection.
struct Peer {
    certificate: Option<Digest>,
    /// Set by the first request with credentials: what the connection counts for, if it is a cluster's.
    seat: SetOnce<Option<Seat>>,
}

/// One of a cluster's connections.
struct Seat {
    cluster: Arc<Cluster>,
    _permit: OwnedSemaphorePermit,
}

impl Peer {
    /// Counts the connection as one of the cluster. Whether the cluster may have it.
    fn belongs_to(&self, hosted: &Hosted) -> bool {
        if self.seat.get().is_some() {
            return true;
        }
        let Some(permit) = hosted.lane().connection() else { return false };
        // Another request of this connection may have been faster.
        let _ = self.seat.set(Some(Seat { cluster: Arc::clone(hosted.api().cluster()), _permit: permit }));
        true
    }

    /// Returns when the cluster whose connection it is answers nobody.
    async fn silenced(&self) {
        match self.seat.wait().await {
            Some(seat) => seat.cluster.silenced().await,
            None => std::future::pending().await,
        }
    }
}

/// Returns when the other end has had its time and has shown no credentials; else never.
async fn probation(peer: &Peer) {
    tokio::time::sleep(PROBATION).await;
    if peer.seat.get().is_some() {
        std::future::pending::<()>().await;
    }
}

fn bearer(request: &Request<Incoming>) -> Option<Digest> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Digest::of(token.trim().as_bytes()))
}

async fn answer(shared: &Arc<Shared>, mut request: Request<Incoming>, peer: &Peer) -> Response<Body> {
    let token = bearer(&request);
    let path = request.uri().path();
    if let Some(rest) = path.strip_prefix("/klab/v1").filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        return match token {
            Some(token) if shared.host.admin.is(&token) => {
                let _ = peer.seat.set(None);
                let rest = rest.to_owned();
                admin::answer(shared, &rest, request).await
            }
            _ => unauthorised(),
        };
    }
    let known = |hosted: &Hosted| -> Option<User> {
        token
            .as_ref()
            .and_then(|token| hosted.user_of_token(token))
            .or_else(|| peer.certificate.as_ref().and_then(|certificate| hosted.user_of_certificate(certificate)))
    };
    let found = if let Some(rest) = path.strip_prefix("/clusters/") {
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let hosted = shared.cluster(name);
        // A cluster that is not there and credentials that are not its look the same.
        let Some((hosted, user)) = hosted.and_then(|hosted| known(&hosted).map(|user| (hosted, user))) else {
            return shared.refusal(name, token.as_ref()).map_or_else(unauthorised, |status| status_response(&status));
        };
        let Some(uri) = with_path(request.uri(), rest) else {
            return status_response(&Status::bad_request("the request path is not valid"));
        };
        *request.uri_mut() = uri;
        (hosted, user)
    } else {
        // Without a cluster in the path the credentials say which one is meant.
        let Some(found) = shared.all().into_iter().find_map(|hosted| known(&hosted).map(|user| (hosted, user))) else {
            return unauthorised();
        };
        found
    };
    let (hosted, user) = found;
    request.headers_mut().remove(AUTHORIZATION);
    request.extensions_mut().insert(user);
    if !peer.belongs_to(&hosted) {
        return too_many_connections();
    }
    if hosted.api().cluster().is_silent() {
        // The connection is about to end.
        std::future::pending::<()>().await;
    }
    match receive(request).await {
        Ok((parts, body)) => hosted.lane().answer(hosted.api(), parts, body).await,
        Err(status) => status_response(&status),
    }
}

/// The URI with another path and the same query.
fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let text = match uri.query() {
        Some(query) => format!("/{path}?{query}"),
        None => format!("/{path}"),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn ends(answer: impl Future<Output = Response<Body>>) -> StatusCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(guarded(answer)).status()
    }

    #[test]
    fn a_request_that_panics_or_never_ends_is_answered() {
        assert_eq!(ends(async { unauthorised() }), StatusCode::UNAUTHORIZED);
        assert_eq!(ends(async { panic!("a fault of klab's own") }), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(ends(std::future::pending()), StatusCode::GATEWAY_TIMEOUT);
    }
}
