//! Connections: TLS, HTTP/1.1 and HTTP/2, who it is, and which cluster or face of klab answers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Either};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use klab_api_machinery::status::Status;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SetOnce, watch};

use super::credentials::Digest;
use super::front::{Asker, FrontBody};
use super::handshake::Handshakes;
use super::host::Outside;
use super::host_name::HostNames;
use super::hosted::{Hosted, OfKlab};
use super::public::{inside, named, path_of, path_to, without};
use super::quota::Slot;
use super::refusal::{too_many_connections, unauthorised};
use super::shared::Shared;
use super::write_timeout::WriteTimeout;
use super::{admin, exchange, tls};
use klab_api_machinery::certificates::Holder;
use klab_cluster::api::{Body, PathBefore, User, keeping, status_response};

/// How long a connection to a silent cluster is kept; kubectl gives up after ten seconds.
const UNHEARD: Duration = Duration::from_secs(30);
/// As [`exchange::HEAD`], where others than this machine's own reach the server.
const OUTSIDE_HEAD: Duration = Duration::from_secs(30);
/// How long the other end of a connection from outside may take nothing of what is written to it.
const WRITE: Duration = Duration::from_secs(30);
/// Answers that the other end of a connection may leave unread before it has shown credentials of a cluster: more than a page
/// has files. Further requests wait until it has read one.
const MAX_UNREAD: usize = 32;
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
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors, most likely: let some connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&free).try_acquire_owned() else { continue };
        let (handshakes, shared) = (Arc::clone(&handshakes), Arc::clone(&shared));
        connections.spawn(async move {
            connection(stream, from, &handshakes, shared).await;
            drop(permit);
        });
    }
    drop(listener);
    turns.abort();
    while connections.join_next().await.is_some() {}
}

/// Returns when the server has to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the server is gone.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(stream: TcpStream, from: SocketAddr, handshakes: &Handshakes, shared: Arc<Shared>) {
    // Answers are written whole; waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let config = match &shared.host.public {
        Some(Outside { config: None, .. }) => {
            let peer = Peer::new(from, None, None);
            return serve_stream(peer.with_write_timeout(stream), false, peer, shared).await;
        }
        Some(Outside { config: Some(config), .. }) => config,
        None => &shared.host.identity.config,
    };
    let Ok(Ok(heard)) = tokio::time::timeout(exchange::HANDSHAKE, handshakes.hear(stream)).await else { return };
    if let Some(silent) = heard.name.as_deref().and_then(|name| shared.silent(name)) {
        if silent.is_stopped() {
            return heard.refuse().await;
        }
        // As if the machine stood still: a client that has no more patience says that it is not able to connect.
        let Ok(()) = tokio::time::timeout(UNHEARD, silent.speaking()).await else { return };
    }
    let shaken = handshakes.shake(heard, Arc::clone(config));
    let Ok(Ok(stream)) = tokio::time::timeout(exchange::HANDSHAKE, shaken).await else { return };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = shown.map(|der| Digest::of(der));
    let holder = shown.and_then(|der| shared.holder(der));
    let peer = Peer::new(from, certificate, holder);
    let http_2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2);
    if shared.host.public.is_some() {
        serve_stream(peer.with_write_timeout(stream), http_2, peer, shared).await;
    } else {
        serve_stream(stream, http_2, peer, shared).await;
    }
}

/// Serves what was accepted and secured.
async fn serve_stream<S>(stream: S, http_2: bool, peer: Arc<Peer>, shared: Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let head = if shared.host.public.is_some() { OUTSIDE_HEAD } else { exchange::HEAD };
    let mut stop = shared.stop.subscribe();
    let other_end = Arc::clone(&peer);
    let service = service_fn(move |request: Request<Incoming>| {
        let (shared, peer) = (Arc::clone(&shared), Arc::clone(&other_end));
        async move {
            let answered = exchange::in_time(answer(&shared, request, &peer)).await;
            Ok::<_, Infallible>(answered.unwrap_or_else(|status| own(status_response(&status))))
        }
    });
    let builder = exchange::builder(http_2, head);
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut served = std::pin::pin!(served);
    tokio::select! {
        // An error ends the connection: no other end is left that could read it.
        _ = served.as_mut() => {}
        () = probation(&peer) => {}
        // Without a word, as if the server were gone.
        () = peer.silenced() => {}
        () = stopped(&mut stop) => {
            // Requests under way are answered; watches, which never end, are cut off.
            served.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(FAREWELL / 2, served).await;
        }
    }
}

/// What a cluster answers, or the front.
type Answer = Response<Either<Body, FrontBody>>;

fn own(response: Response<Body>) -> Answer {
    response.map(Either::Left)
}

/// The other end of a connection.
struct Peer {
    certificate: Option<Digest>,
    /// Who holds the certificate, where one of the server's clusters signed it.
    holder: Option<Holder>,
    /// Set by the first request with credentials: what the connection counts for, if it is a cluster's.
    seat: SetOnce<Option<Seat>>,
    from: SocketAddr,
    /// A place for each answer that it has not read to its end.
    unread: Arc<Semaphore>,
    /// How many answers of the front are under way.
    fronts: watch::Sender<usize>,
}

/// One of a cluster's connections. It does not keep the cluster awake.
struct Seat {
    hosted: Arc<Hosted>,
    /// Hears when the cluster's credentials are other ones.
    renewed: watch::Receiver<()>,
    _held: Slot,
}

/// An answer of the front that is under way, until it is dropped.
struct OfFront(Arc<Peer>);

impl Drop for OfFront {
    fn drop(&mut self) {
        self.0.fronts.send_modify(|fronts| *fronts = fronts.saturating_sub(1));
    }
}

impl Peer {
    fn new(from: SocketAddr, certificate: Option<Digest>, holder: Option<Holder>) -> Arc<Self> {
        let unread = Arc::new(Semaphore::new(MAX_UNREAD));
        Arc::new(Self { certificate, holder, seat: SetOnce::new(), from, unread, fronts: watch::Sender::default() })
    }

    /// Notes that the front answers.
    fn with_front(self: &Arc<Self>) -> OfFront {
        self.fronts.send_modify(|fronts| *fronts = fronts.saturating_add(1));
        OfFront(Arc::clone(self))
    }

    /// Whether it has shown the credentials of a cluster.
    fn is_known(&self) -> bool {
        matches!(self.seat.get(), Some(Some(_)))
    }

    /// Counts the connection as one of the cluster. Whether the cluster may have it.
    fn belongs_to(&self, hosted: &Arc<Hosted>) -> bool {
        if self.seat.get().is_some() {
            return true;
        }
        let renewed = hosted.renewed.subscribe();
        let Some(held) = hosted.quota().connection(hosted.host.connections_of_one()) else { return false };
        // Another request of this connection may have been faster.
        let _ = self.seat.set(Some(Seat { hosted: Arc::clone(hosted), renewed, _held: held }));
        true
    }

    /// Returns when the connection's cluster stops answering and the front has nothing more to say on it, or when the cluster no
    /// longer takes the credentials that were shown.
    async fn silenced(&self) {
        let Some(seat) = self.seat.wait().await else { return std::future::pending().await };
        let mut renewed = seat.renewed.clone();
        let silenced = async {
            loop {
                seat.hosted.silenced().await;
                // An error means that this is gone, which is asked.
                let _ = self.fronts.subscribe().wait_for(|fronts| *fronts == 0).await;
                if seat.hosted.is_silent() {
                    return;
                }
            }
        };
        tokio::select! {
            () = silenced => {}
            _ = renewed.changed() => {}
        }
    }

    /// A stream of this other end, which does not outlive its credentials.
    fn with_write_timeout<S>(self: &Arc<Self>, stream: S) -> WriteTimeout<S> {
        let peer = Arc::clone(self);
        WriteTimeout::new(stream, WRITE, async move { peer.silenced().await })
    }
}

/// Returns when the other end has had its time and has shown no credentials; else never.
async fn probation(peer: &Peer) {
    tokio::time::sleep(exchange::PROBATION).await;
    if peer.seat.get().is_some() {
        std::future::pending::<()>().await;
    }
}

fn bearer(request: &Request<Incoming>) -> Option<Digest> {
    exchange::bearer(request.headers()).map(|token| Digest::of(token.as_bytes()))
}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>, peer: &Arc<Peer>) -> Answer {
    let held = if peer.is_known() { None } else { Arc::clone(&peer.unread).acquire_owned().await.ok() };
    let answered = match &shared.host.public {
        Some(outside) => answer_outside(shared, outside, request, peer).await,
        None => own(answer_here(shared, request, peer).await),
    };
    if peer.is_known() {
        return answered;
    }
    answered.map(|body| match body {
        Either::Left(body) => Either::Left(body.holding(held)),
        Either::Right(body) => {
            // A stream of events may never end: a client that waits for its next one has read those before.
            let (mut held, is_stream) = (held.map(Arc::new), body.size_hint().exact().is_none());
            let body = body.map_frame(move |frame| {
                if is_stream {
                    held.take();
                }
                match held.clone() {
                    Some(held) => frame.map_data(|bytes| keeping(bytes, held)),
                    None => frame,
                }
            });
            Either::Right(body.boxed_unsync())
        }
    })
}

/// Answers a client that may be anywhere: the cluster that the path names answers one with its token, the front all others.
async fn answer_outside(shared: &Shared, outside: &Outside, request: Request<Incoming>, peer: &Arc<Peer>) -> Answer {
    let path = without(request.uri().path(), path_of(&outside.url));
    let Some((name, rest)) = inside(path, &outside.folder).map(named) else {
        let under_way = peer.with_front();
        // Who has asked a whole question is not on probation any longer, however long the answer takes; an idle connection ends
        // soon.
        if request.body().is_end_stream() {
            let _ = peer.seat.set(None);
        }
        let answered = outside.front.answer(request, peer.from).await;
        let _ = peer.seat.set(None);
        return answered.map(|body| {
            let body = body.map_frame(move |frame| {
                let _until_it_ends = &under_way;
                frame
            });
            Either::Right(body.boxed_unsync())
        });
    };
    let (name, rest) = (&*name, rest.to_owned());
    let token = bearer(&request);
    let known = token.as_ref().zip(shared.cluster(name)).and_then(|(token, hosted)| {
        let asker = match hosted.user_of_token(token) {
            Some(_) => Asker::Owner,
            None if outside.front.admits(name, token) => Asker::Guest,
            None => return None,
        };
        Some((hosted, asker))
    });
    let Some((hosted, asker)) = known else {
        let refusal = shared.refusal(name, token.as_ref());
        return own(refusal.map_or_else(unauthorised, |status| status_response(&status)));
    };
    let Some(uri) = with_path(request.uri(), &rest) else {
        return own(status_response(&Status::bad_request("the request path is not valid")));
    };
    let (mut parts, body) = request.into_parts();
    parts.uri = uri;
    if names_paths(&rest) {
        let before = format!("{}/{}/{}", path_of(&outside.url), outside.folder, path_to(name));
        parts.extensions.insert(PathBefore(before));
    }
    if let Some(status) = outside.front.refusal(name, asker, &parts) {
        let _ = peer.seat.set(None);
        return own(status_response(&status));
    }
    own(of_cluster(&hosted, User::admin(), Request::from_parts(parts, body), peer).await)
}

async fn answer_here(shared: &Arc<Shared>, mut request: Request<Incoming>, peer: &Peer) -> Response<Body> {
    let presented = exchange::bearer(request.headers()).map(str::to_owned);
    let token = bearer(&request);
    let path = request.uri().path();
    if let Some(rest) = path.strip_prefix("/klab/v1").filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        return match token {
            Some(token) if shared.host.admin.is(&token) => {
                let _ = peer.seat.set(None);
                let rest = rest.to_owned();
                match rest.strip_prefix("/inside/") {
                    Some(rest) => inside_of(shared, rest, request, peer).await,
                    None => admin::answer(shared, &rest, request).await,
                }
            }
            _ => unauthorised(),
        };
    }
    let found = if let Some(rest) = path.strip_prefix("/clusters/") {
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let hosted = shared.cluster(name);
        let user = match &hosted {
            Some(hosted) => user_of(hosted, token.as_ref(), presented.as_deref(), peer).await,
            None => None,
        };
        // A cluster that is not there and credentials that are not its look the same.
        let Some((hosted, user)) = hosted.zip(user) else {
            return shared.refusal(name, token.as_ref()).map_or_else(unauthorised, |status| status_response(&status));
        };
        let Some(uri) = with_path(request.uri(), rest) else {
            return status_response(&Status::bad_request("the request path is not valid"));
        };
        let before = names_paths(rest).then(|| PathBefore(format!("/clusters/{name}")));
        *request.uri_mut() = uri;
        if let Some(before) = before {
            request.extensions_mut().insert(before);
        }
        (hosted, user)
    } else {
        // Without a cluster in the path the credentials say which one is meant.
        match shared.by_credentials(token.as_ref(), peer.certificate.as_ref()) {
            Some(found) => found,
            None => match of_holder(shared, peer).await {
                Some(found) => found,
                None => return unauthorised(),
            },
        }
    };
    let (hosted, user) = found;
    of_cluster(&hosted, user, request, peer).await
}

/// What a cluster answers to klab itself at `/klab/v1/inside/NAME/<path>`: as to its administrator, also where its API server is
/// stopped.
async fn inside_of(shared: &Shared, rest: &str, mut request: Request<Incoming>, peer: &Peer) -> Response<Body> {
    let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let hosted = match admin::found(shared, name) {
        Ok(hosted) => hosted,
        Err(status) => return status_response(&status),
    };
    let Some(uri) = with_path(request.uri(), rest) else {
        return status_response(&Status::bad_request("the request path is not valid"));
    };
    *request.uri_mut() = uri;
    request.extensions_mut().insert(OfKlab);
    of_cluster(&hosted, User::admin(), request, peer).await
}

/// Who somebody is to a cluster, by what he shows.
async fn user_of(hosted: &Arc<Hosted>, token: Option<&Digest>, presented: Option<&str>, peer: &Peer) -> Option<User> {
    // A certificate that is good counts before a token, as upstream.
    if let Some(holder) = &peer.holder
        && let Some(user) = hosted.holder(holder).await
    {
        return Some(user);
    }
    let own = token.and_then(|token| hosted.user_of_token(token));
    let own = own.or_else(|| hosted.user_of_certificate(peer.certificate.as_ref()?));
    match own {
        Some(user) => Some(user),
        None => hosted.service_account(presented?).await,
    }
}

/// The cluster that signed the certificate of the other end, and who that is.
async fn of_holder(shared: &Shared, peer: &Peer) -> Option<(Arc<Hosted>, User)> {
    let holder = peer.holder.as_ref()?;
    let hosted = shared.by_mark(&holder.mark)?;
    let user = hosted.holder(holder).await?;
    Some((hosted, user))
}

/// What a cluster answers to one of its users.
async fn of_cluster(hosted: &Arc<Hosted>, user: User, mut request: Request<Incoming>, peer: &Peer) -> Response<Body> {
    request.headers_mut().remove(AUTHORIZATION);
    request.extensions_mut().insert(user);
    if !peer.belongs_to(hosted) {
        return too_many_connections();
    }
    hosted.answer(request).await
}

/// Whether what stands at a path of a cluster names paths of it.
fn names_paths(path: &str) -> bool {
    path == "openapi/v3"
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
