//! Clients that hold connections and say nothing, or a byte now and then.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::running::Running;

/// How long such a client may stay: the time for a handshake and that for the first request, and some for a busy machine.
const STAY: Duration = Duration::from_secs(60);
/// How long anybody else waits at most: a busy machine's time, not klab's.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between a byte and the next.
const BYTE: Duration = Duration::from_millis(400);
/// Clients of each kind.
const MANY: usize = 30;

/// What a client does before it becomes slow, and what it says then, byte by byte.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Silent,
    SlowHello,
    SilentAfterHandshake,
    SlowHead,
    SlowBody,
}

const KINDS: [Kind; 5] = [Kind::Silent, Kind::SlowHello, Kind::SilentAfterHandshake, Kind::SlowHead, Kind::SlowBody];

async fn connector(host: &Running) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(host.text("/ca.pem").await.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

async fn secured(address: SocketAddr, connector: &TlsConnector) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::from(address.ip());
    connector.connect(name, stream).await.unwrap()
}

/// Says bytes now and then until the other end has had enough. What it says to that does not matter.
async fn linger(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, bytes: &[u8]) {
    let mut bytes = bytes.iter().cycle();
    let mut heard = [0; 256];
    loop {
        match tokio::time::timeout(BYTE, stream.read(&mut heard)).await {
            Ok(Ok(0) | Err(_)) => return,
            Ok(Ok(_)) => {}
            Err(_) => {
                if let Some(byte) = bytes.next()
                    && (stream.write_all(&[*byte]).await.is_err() || stream.flush().await.is_err())
                {
                    return;
                }
            }
        }
    }
}

async fn stay(kind: Kind, address: SocketAddr, connector: TlsConnector) {
    match kind {
        Kind::Silent => linger(TcpStream::connect(address).await.unwrap(), b"").await,
        // A hello of 500 bytes is announced.
        Kind::SlowHello => {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"\x16\x03\x01\x01\xf4\x01\x00\x01\xf0\x03\x03").await.unwrap();
            linger(stream, b"\x07").await;
        }
        Kind::SilentAfterHandshake => linger(secured(address, &connector).await, b"").await,
        Kind::SlowHead => {
            let mut stream = secured(address, &connector).await;
            stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n").await.unwrap();
            linger(stream, b"x: y\r\n").await;
        }
        Kind::SlowBody => {
            let mut stream = secured(address, &connector).await;
            let head = b"POST /api/join HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\ncode=";
            stream.write_all(head).await.unwrap();
            linger(stream, b"a").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_says_little_or_nothing_is_cut_off_and_others_are_served() {
    let host = Running::start(&["scheduling"]);
    let address: SocketAddr = host.url.strip_prefix("https://").unwrap().parse().unwrap();
    let connector = connector(&host).await;
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..MANY {
        for kind in KINDS {
            let connector = connector.clone();
            slow.spawn(
                async move { tokio::time::timeout(STAY, stay(kind, address, connector)).await.map_err(|_| kind) },
            );
        }
    }
    // The whole time others come, each on a connection of their own, and get their seat.
    let mut number = 0;
    while !slow.is_empty() {
        let began = Instant::now();
        let name = format!("L{number}");
        let joined = async {
            let mut stream = secured(address, &connector).await;
            let body = format!("code={}&name={name}&pin=2468", host.code);
            let head = format!(
                "POST /api/join HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/x-www-form-urlencoded\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            let mut text = String::new();
            // A server that ends a connection without TLS's own end has answered before.
            let _ = stream.read_to_string(&mut text).await;
            text
        };
        let text =
            tokio::time::timeout(PATIENCE, joined).await.unwrap_or_else(|_| panic!("{name} waits for an answer"));
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("kind: Config"), "{name}: {text}");
        number += 1;
        let pause = Duration::from_millis(500).saturating_sub(began.elapsed());
        tokio::time::sleep(pause).await;
        while let Some(ended) = slow.try_join_next() {
            ended.unwrap().unwrap_or_else(|kind| panic!("a client that is {kind:?} is not cut off"));
        }
    }
    assert!(number > 5, "the others came while the slow ones were there: {number}");
}
