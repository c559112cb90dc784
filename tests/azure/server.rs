//! The stand-in on loopback over TLS, with its own certificate authority and token endpoint, for the real az.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::api::{Answer, Model, Request};

/// The stand-in while it serves.
pub struct Server {
    pub model: Arc<Mutex<Model>>,
    pub address: SocketAddr,
    /// Certificate authority as PEM.
    pub authority: String,
}

impl Server {
    /// Serves a model on a free port of the loopback; the thread ends with the process.
    pub fn start(model: Model) -> Self {
        let (certificate, key, authority) = certificates();
        let config =
            ServerConfig::builder_with_provider(Arc::new(tokio_rustls::rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("the provider has TLS 1.2 and 1.3")
                .with_no_client_auth()
                .with_single_cert(vec![certificate], key)
                .expect("the certificate was made for this key");
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("the loopback has a free port");
        listener.set_nonblocking(true).expect("a listener can be non-blocking");
        let address = listener.local_addr().expect("a bound listener has an address");
        let model = Arc::new(Mutex::new(model));
        model.lock().unwrap_or_else(PoisonError::into_inner).base = format!("https://{address}");
        let shared = Arc::clone(&model);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
            runtime.block_on(serve(listener, TlsAcceptor::from(Arc::new(config)), shared));
        });
        Self { model, address, authority }
    }

    /// The model.
    pub fn model(&self) -> std::sync::MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address as a URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Writes the certificate authority into a folder.
    pub fn write_authority(&self, folder: &Path) -> PathBuf {
        let path = folder.join("ca.pem");
        std::fs::write(&path, &self.authority).expect("the folder can be written");
        path
    }
}

fn certificates() -> (CertificateDer<'static>, PrivateKeyDer<'static>, String) {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
    let mut authority = CertificateParams::new(Vec::new()).expect("no names are fine");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, "stand-in for Azure");
    let authority_key = KeyPair::generate().expect("keys can be made");
    let authority_certificate = authority.self_signed(&authority_key).expect("it signs itself");
    let issuer = Issuer::new(authority, authority_key);
    let mut leaf =
        CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).expect("names are valid");
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().expect("keys can be made");
    let certificate = leaf.signed_by(&key, &issuer).expect("the authority signs");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    (certificate.der().clone(), key, authority_certificate.pem())
}

async fn serve(listener: std::net::TcpListener, acceptor: TlsAcceptor, model: Arc<Mutex<Model>>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("the listener is non-blocking");
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, model) = (acceptor.clone(), Arc::clone(&model));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| answer(Arc::clone(&model), request));
            // A connection that is cut on purpose ends here with an error.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// An error that makes the connection end without an answer.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("cut on purpose")
    }
}

impl std::error::Error for Cut {}

async fn answer(
    model: Arc<Mutex<Model>>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Cut> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let mut model = model.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = if path.contains("/oauth2/") || path.contains("/.well-known/") || path.contains("/discovery/") {
        authority_answer(&mut model, &path, &body)
    } else {
        let authorised = parts
            .headers
            .get("authorization")
            .is_some_and(|value| value.to_str().is_ok_and(|value| value.starts_with("Bearer ")));
        let request = Request {
            method: parts.method.to_string(),
            path,
            query: parts.uri.query().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        };
        if authorised {
            model.handle(&request)
        } else {
            Answer::refused(
                401,
                "AuthenticationFailed",
                "Authentication failed. The 'Authorization' header is missing.",
            )
        }
    };
    if answer.lost {
        return Err(Cut);
    }
    let mut response = hyper::Response::builder().status(answer.status).header("content-type", "application/json");
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let text = if answer.body.is_null() { String::new() } else { answer.body.to_string() };
    response.body(Full::new(Bytes::from(text))).map_err(|_| Cut)
}

/// What stands in for Entra: discovery and tokens of service principals.
fn authority_answer(model: &mut Model, path: &str, body: &[u8]) -> Answer {
    let (base, tenant) = (model.base.clone(), model.tenant.clone());
    if path.contains("/.well-known/") {
        let document = json!({ "issuer": format!("{base}/{tenant}/v2.0"), "token_endpoint": format!("{base}/{tenant}/oauth2/v2.0/token"),
            "authorization_endpoint": format!("{base}/{tenant}/oauth2/v2.0/authorize"), "device_authorization_endpoint": format!("{base}/{tenant}/oauth2/v2.0/devicecode"),
            "jwks_uri": format!("{base}/{tenant}/discovery/v2.0/keys"), "response_types_supported": ["code"], "subject_types_supported": ["pairwise"],
            "id_token_signing_alg_values_supported": ["RS256"] });
        return Answer { status: 200, body: document, headers: Vec::new(), lost: false };
    }
    model.requests.push(format!("POST {path}"));
    if model.gives_no_tokens {
        return Answer { status: 500, body: json!({ "error": "server_error" }), headers: Vec::new(), lost: false };
    }
    let form: Vec<(String, String)> = form_urlencoded::parse(body).into_owned().collect();
    let field = |name: &str| form.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
    if field("client_secret") != super::SECRET {
        let message = "AADSTS7000215: Invalid client secret provided. Ensure the secret being sent in the request is the client secret value.";
        let body = json!({ "error": "invalid_client", "error_description": message, "error_codes": [7_000_215] });
        return Answer { status: 401, body, headers: Vec::new(), lost: false };
    }
    // Not signed: az only reads who it is for.
    let part =
        |value: Value| base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, value.to_string());
    let token = format!(
        "{}.{}.c2ln",
        part(json!({ "alg": "none", "typ": "JWT" })),
        part(json!({ "tid": tenant, "appid": super::CLIENT, "oid": super::CLIENT, "aud": base }))
    );
    let body = json!({ "token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": token });
    Answer { status: 200, body, headers: Vec::new(), lost: false }
}
