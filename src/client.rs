//! How klab reaches a cluster's API: a kubeconfig's configuration, without the proxy where none belongs.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tokio_rustls::rustls::ClientConfig;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use crate::error::{Context, Kind, Result};

/// A client of the cluster that a kubeconfig file names.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub async fn connect(path: &Path) -> Result<Client> {
    let config = configuration_of(path).await?;
    client_of(config).kind(Kind::Outside, || unusable(path))
}

/// klab's own server is spoken to in HTTP/2: requests that are under way at once share a connection, where kube's own
/// client makes one for each, and a TLS handshake takes longer than most requests there.
///
/// # Errors
/// When the configuration's certificates cannot be read.
pub fn client_of(config: Config) -> Result<Client, kube::Error> {
    let own = ["/clusters/", "/klab/"].iter().any(|face| config.cluster_url.path().starts_with(face));
    if config.proxy_url.is_some() || !own {
        return Client::try_from(config);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout);
    let tls = tls_of(&config)?;
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_all_versions();
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(https.wrap_connector(tcp));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(http.map_err(BoxError::from));
    Ok(Client::new(service, config.default_namespace))
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
    !shows_a_certificate && !config.accept_invalid_certs && config.tls_server_name.is_none()
}

/// The configuration of a kubeconfig file, for a caller who changes it.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub async fn configuration_of(path: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path).kind(Kind::Outside, || unusable(path))?;
    configuration(kubeconfig).await.kind(Kind::Outside, || unusable(path))
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
pub async fn configuration(kubeconfig: Kubeconfig) -> Result<Config, KubeconfigError> {
    let named = kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
    let has_proxy_of_its_own = named.into_iter().any(|cluster| cluster.proxy_url.is_some());
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let exceptions = variable("NO_PROXY").or_else(|| variable("no_proxy")).unwrap_or_default();
    if !has_proxy_of_its_own && is_direct(config.cluster_url.host().unwrap_or_default(), &exceptions) {
        config.proxy_url = None;
    }
    Ok(config)
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
    use super::*;

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
