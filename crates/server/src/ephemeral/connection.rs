//! Connections to an ephemeral server: who it is, and what answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use klab_api_machinery::status::Status;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::clock;
use super::world::World;
use crate::refusal::{panicked, unauthorised};
use crate::{exchange, tls};
use klab_cluster::api::{Body, receive, status_response};

/// Connections at the same time.
const MAX_CONNECTIONS: usize = 1000;

/// Accepts connections for ever.
pub(super) async fn serve(listener: TcpListener, world: Arc<World>) {
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: let some connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&free).try_acquire_owned() else { continue };
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            connection(stream, world).await;
            drop(permit);
        });
    }
}

async fn connection(stream: TcpStream, world: Arc<World>) {
    // Answers are written whole; waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let shaken = TlsAcceptor::from(Arc::clone(&world.identity().config)).accept(stream);
    let Ok(Ok(stream)) = tokio::time::timeout(exchange::HANDSHAKE, shaken).await else { return };
    let http_2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2);
    let certificate: Option<Arc<[u8]>> =
        stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(|der| der.as_ref().into());
    let known = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&known);
    let service = service_fn(move |request: Request<Incoming>| {
        let (world, known, certificate) = (Arc::clone(&world), Arc::clone(&seen), certificate.clone());
        async move {
            let answered = exchange::in_time(answer(world, request, certificate.as_deref(), &known)).await;
            Ok::<_, Infallible>(answered.unwrap_or_else(|status| status_response(&status)))
        }
    });
    let builder = exchange::builder(http_2, exchange::HEAD);
    tokio::select! {
        // An error ends the connection: no other end is left that could read it.
        _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service) => {}
        () = probation(&known) => {}
    }
}

/// Returns when the other end has had its time and has shown no credentials; else never.
async fn probation(known: &AtomicBool) {
    tokio::time::sleep(exchange::PROBATION).await;
    if known.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

async fn answer(
    world: Arc<World>,
    mut request: Request<Incoming>,
    certificate: Option<&[u8]>,
    known: &AtomicBool,
) -> Response<Body> {
    let token = exchange::bearer(request.headers()).map(str::to_owned);
    let holder = || certificate.and_then(|certificate| world.holder(certificate));
    // A certificate that is good counts before a token, as upstream.
    let Some(user) = holder().or_else(|| world.user(token.as_deref()?)) else {
        return unauthorised();
    };
    known.store(true, Ordering::Relaxed);
    request.headers_mut().remove(AUTHORIZATION);
    let of_clock = request.uri().path() == clock::PATH;
    if of_clock && !token.is_some_and(|token| world.is_administrator(&token)) {
        return status_response(&Status::new(403, "Forbidden", "the clock is the administrator's"));
    }
    request.extensions_mut().insert(user);
    let (parts, body) = match receive(request).await {
        Ok(received) => received,
        Err(status) => return status_response(&status),
    };
    // In a task of its own: a client that goes away meanwhile leaves nothing half done.
    let answered = tokio::spawn(async move {
        if of_clock { clock::answer(&world, &parts.method, &body).await } else { world.answer(parts, body).await }
    });
    answered.await.unwrap_or_else(|_| status_response(&panicked()))
}
