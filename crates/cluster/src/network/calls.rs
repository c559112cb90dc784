//! Calls of the API server to servers in pods that are known: to webhooks, and for whoever asks by `proxy`.

use std::time::Duration;

use bytes::Bytes;

use jiff::Timestamp;
use klab_scheduler::hash::fnv64;
use serde_json::Value;

use super::answers::{Asked, answer};
use super::conversion;
use super::reviews::review;
use super::routes::{Landed, Missed, pod_port, service_port};
use crate::process::{Heard, Protocol, Request, Sent, Server, status_of};
use crate::store::Store;
use crate::value::items;
use crate::webhook::{Call, CallError, PodServers};

/// The servers in pods that are known.
pub(crate) struct KnownServers;

impl PodServers for KnownServers {
    fn is_known(&self, pod: &Value, port: u16) -> bool {
        items(&pod["spec"]["containers"]).iter().any(|one| Server::at(one, port, Protocol::Tcp).is_some())
    }

    fn send(&self, pod: &Value, port: u16, call: &Call) -> Result<Bytes, CallError> {
        call_pod(pod, port, call)
    }
}

/// What a webhook in a pod answers. Nobody shows a certificate: it is taken to be one that the authorities of the call vouch
/// for. Without any there is none that the machine would trust.
///
/// # Errors
/// As a webhook that is called over the network: nobody listens, it takes longer than the call may, it knows no such path.
fn call_pod(pod: &Value, port: u16, call: &Call) -> Result<Bytes, CallError> {
    let unreachable = |because: String| Err(CallError::Unreachable(because));
    let running = items(&pod["spec"]["containers"]).iter();
    let mut running = running.filter(|one| status_of(pod, one)["state"]["running"].is_object());
    let Some(server) = running.find_map(|one| Server::at(one, port, Protocol::Tcp)) else {
        let address = pod["status"]["podIP"].as_str().unwrap_or_default();
        return unreachable(format!("dial tcp {address}:{port}: connect: connection refused"));
    };
    let path = call.url.split_once("://").and_then(|(_, rest)| rest.find('/').and_then(|at| rest.get(at..)));
    let path = path.unwrap_or("/").split('?').next().unwrap_or("/");
    let answered = match &server {
        Server::Webhook { sidecar, .. } => {
            review(path, &call.body, sidecar).map(|reviewed| (reviewed.value, reviewed.after))
        }
        Server::ConversionWebhook(_) if path == "/crdconvert" => {
            conversion::convert(&call.body).map(|value| (value, Some(Duration::ZERO)))
        }
        Server::ConversionWebhook(_) => None,
        _ => return unreachable("http: server gave HTTP response to HTTPS client".to_owned()),
    };
    if call.authorities.is_empty() {
        let because = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
        return unreachable(because.to_owned());
    }
    match answered {
        Some((value, Some(after))) if after < call.timeout => Ok(Bytes::from(value.to_string())),
        Some(_) => unreachable("context deadline exceeded".to_owned()),
        None => Err(CallError::Unreadable("the server could not find the requested resource".to_owned())),
    }
}

/// What a request by `proxy` comes to, at a port of a pod or, where it has no such thing, of a Service.
///
/// # Errors
/// Why it leads nowhere: of a Service, in the words of API servers.
pub(crate) fn proxied(
    store: &Store,
    now: Timestamp,
    object: &Value,
    port: &str,
    request: &Request,
) -> Result<(Heard, String), String> {
    let chance = fnv64(&[&now.as_nanosecond().to_be_bytes(), request.target.as_bytes()]);
    let landed = if object["kind"] == "Service" {
        service_port(store, chance, object, port)?
    } else {
        let port = pod_port(object, port).ok_or("the pod names no port")?;
        Ok(Landed { pod: object.clone().into(), port })
    };
    let asked = Asked { store, client: None, chance, is_passed_on: false };
    Ok(match landed {
        Ok(landed) => {
            let address = landed.pod["status"]["podIP"].as_str().unwrap_or_default();
            let at = format!("{address}:{}", landed.port);
            (answer(asked, &landed, Protocol::Tcp, Sent::Http(request)), at)
        }
        Err(Missed::Unknown(why)) => (Heard::Unknown(why), String::new()),
        Err(Missed::Refused) => (Heard::Refused, String::new()),
        Err(Missed::Silence) => (Heard::Silence, String::new()),
    })
}
