//! How klab reaches a cluster's API: a kubeconfig's configuration, without the proxy where none belongs, with a deadline
//! for every answer.

pub mod bearer;
mod deadline;
pub mod objects;

use std::any::Any;
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{ClientBuilder, ConfigExt};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::runtime::Runtime;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use self::deadline::Deadlines;
pub use self::deadline::{NoAnswer, tell_of_silence};
use crate::environment;
use crate::error::{Code, Context, Error, Result};
use crate::kubeconfig;

/// How long a request to a cluster may take until its answer begins: to klab's own server on this machine, and to others.
const ANSWER: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(30));
/// How often klab's own server is asked whether it is there while a watch waits, and how long it may take to say so.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(15));

/// A runtime for requests over the network, in the thread that waits for them.
///
/// # Errors
/// When the system refuses one.
pub fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.code(Code::MachineRefused, || "could not start the runtime for network requests".to_owned())
}

/// A client of the cluster that a kubeconfig file names.
///
/// # Errors
/// When the kubeconfig cannot be used, or klab's own server does not answer.
pub async fn connect(path: &Path) -> Result<Client> {
    connect_within(path, Duration::MAX).await
}

/// As [`connect`], for a caller who waits no longer than `patience` for any answer.
///
/// # Errors
/// As [`connect`].
pub async fn connect_within(path: &Path, patience: Duration) -> Result<Client> {
    let config = configuration_of(path).await?;
    let own = is_own(&config);
    let client = client_within(config, patience).code(Code::Kubeconfig, || unusable(path))?;
    if own {
        // A server that was killed a moment ago accepts connections that it will never serve: better seen before there is half
        // of something. The connection is used for what follows.
        client.apiserver_version().await.map_err(unreached)?;
    }
    Ok(client)
}

/// The cause of a failed request: the server's own sentence where it gave one, and nothing of kube's own wrapping.
pub fn cause(error: &kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => ApiRefusal { message: status.message.clone(), code: status.code }.into(),
        kube::Error::Service(inner) => match inner.downcast_ref::<NoAnswer>() {
            Some(silent) => anyhow::Error::new(silent.clone()),
            None => anyhow::Error::msg(chain(inner.as_ref())),
        },
        other => anyhow::Error::msg(other.to_string()),
    }
}

/// What an API server refuses, in its words.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct ApiRefusal {
    message: String,
    code: u16,
}

/// Whether a cluster does not accept the credentials it was asked with.
pub fn are_credentials_refused(error: &Error) -> bool {
    error.source.chain().any(|cause| {
        let code = match cause.downcast_ref() {
            Some(kube::Error::Api(status)) => Some(status.code),
            _ => cause.downcast_ref().map(|refusal: &ApiRefusal| refusal.code),
        };
        code == Some(401)
    })
}

/// An error with its causes, as one sentence.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

/// An error of klab's own server, as one that [`NoAnswer::in_error`] and [`is_cut_off`] understand.
pub fn unreached(error: kube::Error) -> Error {
    let source = match error {
        kube::Error::Service(inner) => match inner.downcast::<hyper_util::client::legacy::Error>() {
            Ok(broken) => anyhow::Error::new(*broken),
            Err(inner) => cause(&kube::Error::Service(inner)),
        },
        kube::Error::HyperError(broken) => anyhow::Error::new(broken),
        error => cause(&error),
    };
    Error::new(Code::NoAnswer, source.context("could not reach the embedded cluster"))
}

/// Whether an error says that there was no connection, or that it ended before the answer: no server is there, as when klab's
/// own was killed a moment ago.
pub fn is_cut_off(error: &Error) -> bool {
    deadline::find::<hyper_util::client::legacy::Error>(&error.source).is_some()
        || deadline::find::<hyper::Error>(&error.source).is_some()
}

/// Several requests to a cluster, with one deadline for all of them: a little later than that of a single one, which says
/// better who is silent.
///
/// # Errors
/// Those of the requests, and when they are not answered by then.
pub async fn answered_within<T>(patience: Duration, requests: impl Future<Output = Result<T>>) -> Result<T> {
    let after = patience.saturating_add(Duration::from_secs(1));
    let answered = tokio::time::timeout(after, requests).await;
    let silent = |_| NoAnswer { who: "the cluster".to_owned(), own: false, after };
    answered.map_err(silent).code(Code::NoAnswer, || "could not read the cluster".to_owned())?
}

/// Whether a configuration is of klab's own server.
fn is_own(config: &Config) -> bool {
    ["/clusters/", "/klab/"].iter().any(|face| config.cluster_url.path().starts_with(face))
}

/// klab's own server is spoken to in HTTP/2: requests that are under way at once share a connection, where kube's own
/// client makes one for each, and a TLS handshake takes longer than most requests there.
///
/// # Errors
/// When the configuration's certificates cannot be read.
pub fn client_of(config: Config) -> Result<Client, kube::Error> {
    client_within(config, Duration::MAX)
}

/// As [`client_of`], for a caller who waits no longer than `patience` for any answer.
///
/// # Errors
/// As [`client_of`].
pub fn client_within(config: Config, patience: Duration) -> Result<Client, kube::Error> {
    let own = is_own(&config);
    let url = config.cluster_url.clone();
    let answer = patience.min(if own { ANSWER.0 } else { ANSWER.1 });
    if config.proxy_url.is_some() || !own {
        let layer = tower::layer::layer_fn(|inner| Deadlines { inner, own, url: url.clone(), answer });
        return Ok(without_panic(|| ClientBuilder::try_from(config))?.with_layer(&layer).build());
    }
    without_retries(config, own, answer)
}

/// A client that takes every answer as it is: kube's own repeats what is refused for now, and says nothing meanwhile.
fn without_retries(config: Config, own: bool, answer: Duration) -> Result<Client, kube::Error> {
    let url = config.cluster_url.clone();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout);
    let tls = tls_of(&config)?;
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let https = match config.tls_server_name.clone().map(ServerName::try_from) {
        Some(name) => {
            let name = name.map_err(|error| kube::Error::Service(error.into()))?;
            https.with_server_name_resolver(FixedServerNameResolver::new(name)).enable_all_versions()
        }
        None => https.enable_all_versions(),
    };
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING.0)
        .http2_keep_alive_timeout(PING.1)
        .build(https.wrap_connector(tcp));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(without_panic(|| config.auth_layer())?)
        .layer(config.extra_headers_layer()?)
        .service(http.map_err(BoxError::from));
    Ok(Client::new(Deadlines { inner: service, own, url, answer }, config.default_namespace))
}

/// What shows who asks. A program that a kubeconfig names runs here, and kube panics where its token cannot stand in a header.
fn without_panic<T>(build: impl FnOnce() -> Result<T, kube::Error>) -> Result<T, kube::Error> {
    static HOOK: Once = Once::new();
    // klab reports such a token itself: the words of the panic stay out.
    HOOK.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !is_of_token(panic.payload()) {
                tell(panic);
            }
        }));
    });
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(build)).unwrap_or_else(|panic| {
        if is_of_token(panic.as_ref()) { Err(kube::Error::Service(NO_TOKEN.into())) } else { resume_unwind(panic) }
    })
}

/// Whether a panic is the one of tower-http over such a token.
fn is_of_token(panic: &(dyn Any + Send)) -> bool {
    panic.downcast_ref::<String>().is_some_and(|words| words.starts_with("token is not valid header"))
}

/// The TLS side of a configuration: one for all that trust the same authority and show no certificate, so that a handshake
/// with a server that is known takes up the session of the one before.
fn tls_of(config: &Config) -> Result<ClientConfig, kube::Error> {
    static LAST: Mutex<Option<(Vec<Vec<u8>>, ClientConfig)>> = Mutex::new(None);
    let Some(authority) = config.root_cert.as_ref().filter(|_| bears_a_token_alone(config)) else {
        return config.rustls_client_config();
    };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, tls)) = last.as_ref()
        && known == authority
    {
        return Ok(tls.clone());
    }
    let tls = config.rustls_client_config()?;
    *last = Some((authority.clone(), tls.clone()));
    Ok(tls)
}

fn bears_a_token_alone(config: &Config) -> bool {
    let proof = &config.auth_info;
    let shows_a_certificate = proof.client_certificate.is_some() || proof.client_certificate_data.is_some();
    !shows_a_certificate && !config.accept_invalid_certs
}

/// The configuration of a kubeconfig file, for a caller who changes it.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub async fn configuration_of(path: &Path) -> Result<Config> {
    let kubeconfig = kubeconfig::file::read(path).code(Code::Kubeconfig, || unusable(path))?;
    configuration(kubeconfig).await.code(Code::Kubeconfig, || unusable(path))
}

fn unusable(path: &Path) -> String {
    format!("could not use the kubeconfig `{}`", path.display())
}

/// The configuration of a kubeconfig's current context.
///
/// `HTTPS_PROXY` is for what is far away: a cluster on this machine, or one that `NO_PROXY` names, is asked directly, as
/// kubectl does. A proxy that the kubeconfig itself names is always taken.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub async fn configuration(kubeconfig: Kubeconfig) -> Result<Config, anyhow::Error> {
    let named = kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
    let has_proxy_of_its_own = named.into_iter().any(|cluster| cluster.proxy_url.is_some());
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    check_proof(&config.auth_info)?;
    let exceptions = environment::NO_PROXY.text_in_either_case().unwrap_or_default();
    if !has_proxy_of_its_own && is_direct(config.cluster_url.host().unwrap_or_default(), &exceptions) {
        config.proxy_url = None;
    }
    Ok(config)
}

const NO_TOKEN: &str = "its token has a line break or another character that no token has";

/// Refuses what cannot stand in a header of HTTP: kube ends the process over it.
fn check_proof(proof: &AuthInfo) -> Result<(), anyhow::Error> {
    let own = serde_json::to_value(proof)?;
    let provider = proof.auth_provider.iter().flat_map(|provider| &provider.config);
    let of_provider = provider.filter(|(name, _)| name.ends_with("-token")).map(|(_, token)| token.as_str());
    if own["token"].as_str().into_iter().chain(of_provider).any(|token| http::HeaderValue::from_str(token).is_err()) {
        anyhow::bail!(NO_TOKEN);
    }
    Ok(())
}

/// Whether a host is reached without a proxy: it is this machine, or among the exceptions.
fn is_direct(host: &str, exceptions: &str) -> bool {
    let host = host.trim_matches(['[', ']']).to_lowercase();
    if host == "localhost"
        || host.parse().is_ok_and(|address: IpAddr| address.is_loopback() || address.is_unspecified())
    {
        return true;
    }
    exceptions.split(',').map(str::trim).filter(|exception| !exception.is_empty()).any(|exception| {
        let domain = exception.trim_start_matches("*.").trim_start_matches('.').to_lowercase();
        exception == "*" || host == domain || host.ends_with(&format!(".{domain}"))
    })
}

#[cfg(test)]
mod tests {
    use super::bearer::Trust;
    use super::*;

    #[tokio::test]
    async fn a_token_that_is_none_is_refused_by_every_way_to_a_cluster() {
        let url = "https://127.0.0.1:1";
        let text = |user: &str| {
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n\
                 contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {user}}}]\n"
            )
        };
        for (token, is_good) in [
            ("abc.def-1", true),
            ("a\\r\\nX: y", false),
            ("a\\n", false),
            ("\\0", false),
            ("a\\u007f", false),
            ("\\u00e9", true),
        ] {
            let users = [
                format!("{{token: \"{token}\"}}"),
                format!(
                    "{{auth-provider: {{name: oidc, config: {{id-token: \"{token}\", idp-issuer-url: 'https://i'}}}}}}"
                ),
            ];
            for user in users {
                let kubeconfig = kubeconfig::file::parse(&text(&user)).unwrap();
                let config = configuration(kubeconfig).await;
                assert_eq!(config.is_ok(), is_good, "{user}");
                // What is built of it does not panic: that it works is not asked.
                drop(config.map(client_of));
            }
            let plain: String = serde_json::from_str(&format!("\"{}\"", token.replace("\\0", "\\u0000"))).unwrap();
            let client = bearer::client(url, Trust::Machine, Some(&plain), Duration::from_secs(1)).await;
            assert_eq!(client.is_ok(), is_good, "{plain:?}");
        }
    }

    #[tokio::test]
    async fn a_token_of_a_program_that_is_none_is_refused() {
        for (token, is_good) in [("abc", true), ("a\\r\\nX: y", false)] {
            let credential = format!(
                "{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"{token}\"}}}}"
            );
            let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
            config.auth_info.exec = serde_json::from_value(serde_json::json!({
                "apiVersion": "client.authentication.k8s.io/v1", "command": "printf", "args": ["%s", credential],
                "interactiveMode": "Never",
            }))
            .unwrap();
            let client = client_of(config);
            assert_eq!(client.is_ok(), is_good, "{token}: {:?}", client.err());
        }
    }

    #[test]
    fn this_machine_and_what_no_proxy_names_are_asked_directly() {
        for (host, exceptions, direct) in [
            ("127.0.0.1", "", true),
            ("localhost", "", true),
            ("[::1]", "", true),
            ("0.0.0.0", "", true),
            ("api.example.com", "", false),
            ("api.example.com", "other.org, .example.com", true),
            ("api.example.com", "*.example.com", true),
            ("api.example.com", "example.com", true),
            ("api.example.com", "ample.com", false),
            ("10.0.0.4", "10.0.0.4", true),
            ("10.0.0.4", "*", true),
        ] {
            assert_eq!(is_direct(host, exceptions), direct, "{host} with {exceptions}");
        }
    }
}
