//! Clients of HTTP/2 that ask for very much and read nothing of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use http::Request;
use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use klab::seat::Host;
use klab_operations::client::bearer::Trust;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{ATTACK, Class, MAPS, map, send};

const STREAMS: usize = 240;
/// Connections of strangers, a fixed number each second, and of a learner.
const STRANGERS: u32 = 400;
const EACH_SECOND: u32 = 40;
const OF_A_LEARNER: usize = 16;

struct Dialler {
    address: String,
    connector: TlsConnector,
}

impl Dialler {
    async fn of(class: &Class) -> Self {
        let host = Host::new(&class.url, Trust::Anybody, None).await.unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(host.text("/ca.pem").await.unwrap().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let address = class.url.strip_prefix("https://").unwrap().to_owned();
        Self { address, connector: TlsConnector::from(Arc::new(config)) }
    }

    /// Asks for all of these at once, reads no more than `window` bytes of each answer, and leaves the rest until the time is over.
    async fn ask(&self, paths: impl Iterator<Item = String>, token: Option<&str>, window: u32) {
        let Ok(stream) = TcpStream::connect(&self.address).await else { return };
        let name = ServerName::try_from(self.address.rsplit_once(':').unwrap().0.to_owned()).unwrap();
        let Ok(stream) = self.connector.connect(name, stream).await else { return };
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        let Ok((mut sender, connection)) = builder.handshake(TokioIo::new(stream)).await else { return };
        let connection = tokio::spawn(connection);
        let answers = paths.map(|path| {
            let mut request = Request::get(format!("https://{}{path}", self.address));
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            sender.send_request(request.body(Empty::<Bytes>::new()).unwrap())
        });
        let held = tokio::time::timeout(ATTACK, join_all(answers)).await;
        tokio::time::sleep(ATTACK).await;
        drop(held);
        connection.abort();
    }
}

pub(super) fn strangers(class: Arc<Class>) -> BoxFuture<'static, ()> {
    async move {
        let dialler = Arc::new(Dialler::of(&class).await);
        let one = |number: u32| {
            let dialler = Arc::clone(&dialler);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(1) * number / EACH_SECOND).await;
                dialler.ask((0..STREAMS).map(|_| "/teach.js".to_owned()), None, number % 2).await;
            })
        };
        join_all((0..STRANGERS).map(one)).await;
    }
    .boxed()
}

pub(super) fn learners(class: Arc<Class>) -> BoxFuture<'static, ()> {
    async move {
        let client = class.client(0).await;
        for number in 0..20 {
            send(&client, "POST", MAPS, &map(&format!("m{number}"), 1_000_000)).await;
        }
        let kubeconfig: serde_json::Value =
            serde_saphyr::from_str(class.seats[0]["kubeconfig"].as_str().unwrap()).unwrap();
        let server = kubeconfig["clusters"][0]["cluster"]["server"].as_str().unwrap();
        let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
        let path = &server[class.url.len()..];
        let dialler = Dialler::of(&class).await;
        let asking = (0..OF_A_LEARNER).map(|number| {
            let paths = (0..STREAMS).map(move |stream| format!("{path}{MAPS}/m{}", stream % 20));
            dialler.ask(paths, Some(token), (number % 2) as u32)
        });
        join_all(asking).await;
    }
    .boxed()
}
