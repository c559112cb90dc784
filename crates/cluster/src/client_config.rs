//! Where a webhook is, by the `clientConfig` of what configures it: at a URL, or at a Service that is outside of the cluster,
//! at its ExternalName or at endpoints that are no pods.

// upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/client.go hookClientConfig,
// staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go ResolveEndpoint (v1.36)

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use klab_api_machinery::resource::{ENDPOINT_SLICES, SERVICES};
use klab_api_machinery::views::{EndpointPort, EndpointSlice, Service, WebhookClientConfig};
use serde_json::Value;

use crate::store::Store;
use crate::webhook::Call;

/// The label of a slice that names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Where a webhook is, and who vouches for it.
#[derive(Debug, Clone)]
pub(crate) struct ClientConfig {
    place: Place,
    authorities: Bytes,
}

/// Where a call is to go.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// To the host of its URL.
    Host,
    /// To another address: `192.0.2.7:8443`.
    Address(String),
}

impl Destination {
    /// What a call says of it.
    pub(crate) fn address(&self) -> Option<String> {
        match self {
            Self::Address(address) => Some(address.clone()),
            Self::Host => None,
        }
    }
}

#[derive(Debug, Clone)]
enum Place {
    Url(String),
    Service { namespace: String, name: String, path: String, port: i64 },
}

impl ClientConfig {
    /// Reads a `clientConfig`.
    pub(crate) fn read(client: WebhookClientConfig<'_>) -> Self {
        let service = client.service();
        let place = match client.url() {
            Some(url) => Place::Url(url.to_owned()),
            None => Place::Service {
                namespace: service.namespace().to_owned(),
                name: service.name().to_owned(),
                path: service.path().unwrap_or_default().to_owned(),
                port: service.port().unwrap_or(443),
            },
        };
        let bundle = STANDARD.decode(client.ca_bundle()).unwrap_or_default();
        let bundle = if bundle.trim_ascii().is_empty() { Vec::new() } else { bundle };
        Self { place, authorities: Bytes::from(bundle) }
    }

    /// Where to go.
    ///
    /// # Errors
    /// Why the Service leads nowhere, in the words of API servers where they have some.
    pub(crate) fn destination(&self, store: &Store) -> Result<Destination, String> {
        match &self.place {
            Place::Url(_) => Ok(Destination::Host),
            Place::Service { namespace, name, port, .. } => destination(store, (namespace, name), *port),
        }
    }

    /// A call with this body.
    pub(crate) fn call(&self, address: Option<String>, timeout: Duration, body: Bytes) -> Call {
        let seconds = timeout.as_secs();
        let (url, server_name) = match &self.place {
            Place::Url(url) => {
                let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                (format!("{url}?timeout={seconds}s"), host.split('/').next().unwrap_or_default().to_owned())
            }
            Place::Service { namespace, name, path, port } => {
                let host = format!("{name}.{namespace}.svc");
                let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
                (format!("https://{host}:{port}{slash}{path}?timeout={seconds}s"), host)
            }
        };
        Call { url, address, server_name, authorities: self.authorities.clone(), timeout, body }
    }
}

/// Where a port of a Service leads.
///
/// # Errors
/// Why it leads nowhere, in the words of API servers where they have some.
fn destination(store: &Store, (namespace, name): (&str, &str), port: i64) -> Result<Destination, String> {
    let Some(service) = store.get(SERVICES, namespace, name) else {
        return Err(format!("service \"{name}\" not found"));
    };
    let service = service.value();
    let service = Service(&service).spec();
    if service.type_() == "ExternalName" {
        return Ok(Destination::Address(join(service.external_name().trim_end_matches('.'), port)));
    }
    let Some(entry) = service.ports().find(|entry| entry.port() == port) else {
        return Err(format!("no service port {port} found for service \"{name}\""));
    };
    let mut has_pods = false;
    for slice in slices(store, namespace, name) {
        let slice = EndpointSlice(&slice);
        let of_entry = slice.ports().find(|one| one.name().unwrap_or_default() == entry.name());
        let Some(number) = of_entry.and_then(EndpointPort::port) else { continue };
        for endpoint in slice.endpoints() {
            let is_ready = endpoint.conditions().ready() != Some(false);
            if endpoint.target_ref().kind() == "Pod" {
                has_pods = true;
            } else if is_ready && let Some(address) = endpoint.addresses().next() {
                return Ok(Destination::Address(join(address, number)));
            }
        }
    }
    if has_pods {
        return Err(format!(
            "the endpoints of service \"{name}\" are pods, whose containers the embedded cluster does not run"
        ));
    }
    Err(format!("no endpoints available for service \"{name}\""))
}

/// The slices of a Service.
fn slices(store: &Store, namespace: &str, service: &str) -> Vec<Arc<Value>> {
    let own = store.list(ENDPOINT_SLICES, Some(namespace)).filter(|slice| slice.label(SERVICE_LABEL) == Some(service));
    own.map(|slice| slice.value()).collect()
}

fn join(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
