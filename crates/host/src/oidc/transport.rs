//! Requests to an identity provider: with a deadline, of bounded size, no redirect followed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::request::Builder;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use super::fault::Fault;
use crate::service_address::Address;
use klab_operations::client::bearer::{self, Trust};

/// Time for one answer, to its end.
const ANSWER: Duration = Duration::from_secs(5);
/// Largest document of a provider.
const MAX_DOCUMENT: usize = 256 * 1024;
/// Most places that connections are kept to: a provider has two or three.
const PLACES: usize = 8;

/// How a provider is reached.
pub(crate) struct Transport {
    /// The authority that vouches for it, where the machine does not know it.
    authority: Option<String>,
    clients: Mutex<BTreeMap<String, Client>>,
}

impl Transport {
    pub(crate) fn new(authority: Option<String>) -> Self {
        Self { authority, clients: Mutex::default() }
    }

    /// A document at an address.
    pub(crate) async fn document(&self, at: &Address, bearer: Option<&str>) -> Result<Value, Fault> {
        let mut request = Request::get(&at.path);
        if let Some(token) = bearer {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let (status, document) = self.send(at, request, Vec::new()).await?;
        match (status, document) {
            (StatusCode::OK, Some(document)) => Ok(document),
            (StatusCode::OK, None) => Err(Fault::wrong(format!("{} answers with no JSON", at.place()))),
            (status, _) => Err(unusual(at, status)),
        }
    }

    /// What is answered to a form: the status, and the document.
    pub(crate) async fn form(
        &self,
        at: &Address,
        fields: &[(&str, &str)],
        proof: Option<&str>,
    ) -> Result<(StatusCode, Option<Value>), Fault> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = Request::builder().method(Method::POST).uri(&at.path);
        request = request.header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(proof) = proof {
            request = request.header(http::header::AUTHORIZATION, format!("Basic {proof}"));
        }
        let (status, document) = self.send(at, request, body.into_bytes()).await?;
        if status.is_redirection() || status.is_server_error() {
            Err(unusual(at, status))
        } else {
            Ok((status, document))
        }
    }

    async fn send(&self, at: &Address, request: Builder, body: Vec<u8>) -> Result<(StatusCode, Option<Value>), Fault> {
        let request = request
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::USER_AGENT, concat!("klab/", env!("CARGO_PKG_VERSION")))
            .body(Body::from(body))
            .map_err(|_| Fault::wrong(format!("a request to {} cannot be written", at.place())))?;
        let whole = async {
            let client = self.client(at).await?;
            let answer = client.send(request).await.map_err(|error| unreached(at, &error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_DOCUMENT).collect().await.map_err(|error| {
                if error.is::<http_body_util::LengthLimitError>() {
                    Fault::wrong(format!("{} answers with more than {MAX_DOCUMENT} bytes", at.place()))
                } else {
                    Fault::away(format!("{} broke off", at.place()))
                }
            })?;
            Ok((status, serde_json::from_slice(&body.to_bytes()).ok()))
        };
        let late = || Fault::away(format!("{} did not answer within {} seconds", at.place(), ANSWER.as_secs()));
        tokio::time::timeout(ANSWER, whole).await.map_err(|_| late())?
    }

    async fn client(&self, at: &Address) -> Result<Client, Fault> {
        let known = || self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = known().get(&at.origin) {
            return Ok(client.clone());
        }
        let trust = self.authority.as_deref().map_or(Trust::Machine, Trust::Authority);
        // The sender has the shorter timeout, and the words for it.
        let made = bearer::client(&at.origin, trust, None, ANSWER.saturating_mul(2)).await;
        let client = made.map_err(|_| {
            Fault::wrong(format!(
                "no connection to {} can be made: does this machine know any authority? `--oidc-ca` names one",
                at.place()
            ))
        })?;
        let mut known = known();
        if known.len() < PLACES {
            known.insert(at.origin.clone(), client.clone());
        }
        Ok(client)
    }
}

/// Why there is no answer. The error's own words may have what was sent in them.
fn unreached(at: &Address, error: &(dyn std::error::Error + 'static)) -> Fault {
    let causes = std::iter::successors(Some(error), |error| error.source());
    if causes.map(ToString::to_string).any(|cause| cause.contains("peer certificate")) {
        let why = format!(
            "the certificate of {} is not one that this machine trusts: `--oidc-ca` names its authority",
            at.place()
        );
        return Fault::away(why);
    }
    Fault::away(format!("{} was not reached", at.place()))
}

/// Why an answer is not taken. Redirects are not followed: they would take secrets along.
fn unusual(at: &Address, status: StatusCode) -> Fault {
    let place = at.place();
    if status.is_redirection() {
        return Fault::wrong(format!("{place} leads elsewhere ({}), where klab does not follow", status.as_u16()));
    }
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Fault::away(format!("{place} answers with {}", status.as_u16()));
    }
    Fault::wrong(format!("{place} answers with {}", status.as_u16()))
}
