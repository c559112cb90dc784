//! A client of one URL that shows a bearer token, for what is no cluster: klab's own server, and hosts of classes.

use std::time::Duration;

use base64::Engine;
use kube::Client;
use kube::config::{AuthInfo, Cluster, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

use super::{ANSWER, client_within, configuration, is_own, without_retries};
use crate::error::{Code, Error, Result};

/// Whom a client believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust<'a> {
    /// Every server that the machine trusts.
    Machine,
    /// Whom this authority (PEM) vouches for.
    Authority(&'a str),
    /// Anybody: for what is compared with something else.
    Anybody,
}

/// A client of a URL; it waits no longer than `patience` for any answer.
///
/// # Errors
/// When the URL or the authority is none.
pub async fn client(url: &str, trust: Trust<'_>, token: Option<&str>, patience: Duration) -> Result<Client> {
    let name = "klab".to_owned();
    let encoded = |authority: &str| base64::engine::general_purpose::STANDARD.encode(authority);
    let cluster = Cluster {
        server: Some(url.to_owned()),
        certificate_authority_data: match trust {
            Trust::Authority(authority) => Some(encoded(authority)),
            Trust::Machine | Trust::Anybody => None,
        },
        insecure_skip_tls_verify: (trust == Trust::Anybody).then_some(true),
        ..Cluster::default()
    };
    let proof = AuthInfo { token: token.map(|token| token.to_owned().into()), ..AuthInfo::default() };
    let context = kube::config::Context { cluster: name.clone(), user: Some(name.clone()), ..Default::default() };
    let kubeconfig = Kubeconfig {
        clusters: vec![NamedCluster { name: name.clone(), cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { name: name.clone(), auth_info: Some(proof), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext { name: name.clone(), context: Some(context), ..NamedContext::default() }],
        current_context: Some(name),
        ..Kubeconfig::default()
    };
    let config = configuration(kubeconfig).await.map_err(|error| Error::new(Code::NoAnswer, error))?;
    let client = if config.proxy_url.is_some() || is_own(&config) {
        client_within(config, patience)
    } else {
        without_retries(config, false, patience.min(ANSWER.1))
    };
    client.map_err(|error| Error::new(Code::NoAnswer, error))
}
