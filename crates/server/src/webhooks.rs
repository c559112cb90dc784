//! The way to webhooks: HTTPS, one connection a call, bounded in time and size, to where the server's owner allows it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use klab_cluster::webhook::{Call, CallError, Pending, Transport};

/// Largest answer.
const MAX_ANSWER: usize = 4 * 1024 * 1024;
/// Where systems keep the authorities that they trust.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Which webhooks clusters of a server may call: a client of a cluster names the address, and the server calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Webhooks {
    /// None: for clusters of people one does not know.
    Off,
    /// Those on this machine.
    Loopback,
    /// All.
    #[default]
    Any,
}

/// Calls webhooks over HTTPS.
#[derive(Debug, Clone)]
pub struct HttpsWebhooks {
    allowed: Webhooks,
    /// The runtime of the connections, apart from those that wait for them.
    runtime: tokio::runtime::Handle,
}

impl HttpsWebhooks {
    /// Must be made in the runtime that is to work on the connections.
    pub fn new(allowed: Webhooks) -> Self {
        Self { allowed, runtime: tokio::runtime::Handle::current() }
    }
}

impl Transport for HttpsWebhooks {
    fn send<'a>(&'a self, call: &'a Call) -> Pending<'a> {
        let (allowed, call) = (self.allowed, call.clone());
        let timeout = call.timeout;
        let answered = self.runtime.spawn(async move {
            let deadline = tokio::time::timeout(timeout, exchange(allowed, &call));
            deadline.await.unwrap_or_else(|_| Err(unreachable("context deadline exceeded")))
        });
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(unreachable("the server is about to end"))) })
    }
}

fn unreachable(because: impl Into<String>) -> CallError {
    CallError::Unreachable(because.into())
}

async fn exchange(allowed: Webhooks, call: &Call) -> Result<Bytes, CallError> {
    if allowed == Webhooks::Off {
        return Err(unreachable("this server calls no webhooks: they are switched off where it was started"));
    }
    let uri: Uri = call.url.parse().map_err(|_| unreachable("the URL cannot be read"))?;
    let authority = uri.authority().ok_or_else(|| unreachable("the URL has no host"))?;
    let place = match &call.address {
        Some(address) => address.clone(),
        None => format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(443)),
    };
    let stream = connect(allowed, &place).await?;
    let config = client_config(&call.authorities)?;
    let host = call.server_name.trim_start_matches('[').split(']').next().unwrap_or_default();
    let host = if host.parse::<IpAddr>().is_ok() { host } else { host.split(':').next().unwrap_or_default() };
    let name =
        ServerName::try_from(host.to_owned()).map_err(|_| unreachable("the host is no name for a certificate"))?;
    let stream = TlsConnector::from(config).connect(name, stream).await.map_err(|error| tls_error(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .method(Method::POST)
        .uri(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(HOST, authority.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(call.body.clone()))
        .map_err(|_| unreachable("the URL cannot be asked for"))?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let code = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    connection.abort();
    let body = body.map_err(|error| unreachable(format!("the answer cannot be read: {error}")))?.to_bytes();
    if code.is_success() { Ok(body) } else { Err(CallError::Unreadable(refused(code.as_u16(), &body))) }
}

/// What Go's client says of an answer with this code.
// upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go NewGenericServerResponse (v1.36)
fn refused(code: u16, body: &[u8]) -> String {
    match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => String::from_utf8_lossy(body).trim().chars().take(1000).collect(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        500..600 => {
            let text: String = String::from_utf8_lossy(body).trim().chars().take(1000).collect();
            format!("an error on the server ({text:?}) has prevented the request from succeeding")
        }
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// Connects to the first address of a place that is allowed.
async fn connect(allowed: Webhooks, place: &str) -> Result<TcpStream, CallError> {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let found = tokio::net::lookup_host(place).await;
    let addresses: Vec<SocketAddr> = found
        .map_err(|_| unreachable(format!("dial tcp: lookup {host}: no such host")))?
        .filter(|address| allowed == Webhooks::Any || address.ip().to_canonical().is_loopback())
        .collect();
    let mut failure = unreachable(format!("dial tcp: {host} is not on this machine, and this server calls no others"));
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = unreachable(format!("dial tcp {address}: connect: {}", said(&error))),
        }
    }
    Err(failure)
}

/// An error as Go writes it.
fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string().to_lowercase(),
    }
}

fn tls_error(error: &io::Error) -> CallError {
    let text = error.to_string();
    unreachable(if text.contains("UnknownIssuer") {
        "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
    } else if text.contains("invalid peer certificate") || text.contains("InvalidCertificate") {
        format!("tls: failed to verify certificate: x509: {text}")
    } else if error.kind() == io::ErrorKind::UnexpectedEof {
        "EOF".to_owned()
    } else {
        text
    })
}

fn broken(error: hyper::Error) -> CallError {
    unreachable(if error.is_incomplete_message() { "EOF".to_owned() } else { error.to_string() })
}

pub(super) fn client_config(authorities: &Bytes) -> Result<Arc<ClientConfig>, CallError> {
    let mut roots = RootCertStore::empty();
    if authorities.is_empty() {
        let found = SYSTEM.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&found).flatten());
    } else {
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(authorities).flatten());
        if roots.is_empty() {
            return Err(unreachable("unable to load root certificates: unable to parse bytes as PEM block"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unreachable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::tls::Identity;

    /// A server that answers each connection with this text, or never when there is none.
    async fn answering(identity: &Identity, text: Option<&'static str>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::clone(&identity.config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut request = [0; 4096];
                    let _read = stream.read(&mut request).await;
                    match text {
                        Some(text) => drop(stream.write_all(text.as_bytes()).await),
                        None => std::future::pending().await,
                    }
                    let _ended = stream.shutdown().await;
                });
            }
        });
        address
    }

    fn call(address: SocketAddr, authority: &str) -> Call {
        Call {
            url: format!("https://{address}/validate?timeout=1s"),
            address: None,
            server_name: address.ip().to_string(),
            authorities: Bytes::from(authority.to_owned()),
            timeout: Duration::from_secs(1),
            body: Bytes::from_static(b"{}"),
        }
    }

    const GOOD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

    #[tokio::test]
    async fn only_a_good_answer_of_the_right_server_counts() {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::open(folder.path()).unwrap();
        let good = answering(&identity, Some(GOOD)).await;
        let any = HttpsWebhooks::new(Webhooks::Any);
        assert_eq!(any.send(&call(good, &identity.authority)).await, Ok(Bytes::from_static(b"{}")));
        let mut service = call(good, &identity.authority);
        (service.url, service.address) = ("https://hook.shop.svc:443/x".to_owned(), Some(good.to_string()));
        assert_eq!(any.send(&service).await, Ok(Bytes::from_static(b"{}")), "a Service leads to its address");

        let other = tempfile::tempdir().unwrap();
        let other = Identity::open(other.path()).unwrap();
        let refused = any.send(&call(good, &other.authority)).await.unwrap_err();
        assert!(refused.to_string().contains("certificate"), "{refused}");
        for (text, wanted) in [
            ("HTTP/1.1 302 Found\r\nlocation: https://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", "status code 302"),
            ("HTTP/1.1 500 Oh\r\ncontent-length: 4\r\n\r\noops", "an error on the server (\"oops\")"),
            ("nonsense", "invalid HTTP"),
        ] {
            let address = answering(&identity, Some(text)).await;
            let failed = any.send(&call(address, &identity.authority)).await.unwrap_err();
            assert!(failed.to_string().contains(wanted), "{failed}");
        }
        let silent = answering(&identity, None).await;
        let late = any.send(&call(silent, &identity.authority)).await.unwrap_err();
        assert_eq!(late, unreachable("context deadline exceeded"));
    }

    #[tokio::test]
    async fn only_allowed_places_are_called() {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::open(folder.path()).unwrap();
        let here = answering(&identity, Some(GOOD)).await;
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 443));
        for (allowed, address, wanted) in [
            (Webhooks::Off, here, Err("switched off")),
            (Webhooks::Loopback, here, Ok(())),
            (Webhooks::Loopback, elsewhere, Err("is not on this machine")),
        ] {
            let answer = HttpsWebhooks::new(allowed).send(&call(address, &identity.authority)).await;
            match (answer, wanted) {
                (Ok(_), Ok(())) => {}
                (Err(error), Err(wanted)) => assert!(error.to_string().contains(wanted), "{error}"),
                (answer, _) => panic!("{allowed:?} {address}: {answer:?}"),
            }
        }
    }
}
