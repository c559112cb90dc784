//! Where a webhook is, by the `clientConfig` of what configures it: at a URL, or at a Service that is outside of the cluster,
//! inside of which nothing listens: at its ExternalName, or at endpoints that are no pods.

// upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/client.go hookClientConfig,
// staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go ResolveEndpoint (v1.36)

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use klab_scheduler::selector::Selector;
use serde_json::{Value, json};

use crate::resource::{ENDPOINT_SLICES, SERVICES};
use crate::store::Store;
use crate::webhook::Call;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Where a webhook is, and who vouches for it.
#[derive(Debug, Clone)]
pub(crate) struct ClientConfig {
    place: Place,
    authorities: Bytes,
}

#[derive(Debug, Clone)]
enum Place {
    Url(String),
    Service { namespace: String, name: String, path: String, port: i64 },
}

impl ClientConfig {
    /// Reads a `clientConfig`.
    pub(crate) fn read(client: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = &client["service"];
        let place = match client["url"].as_str() {
            Some(url) => Place::Url(url.to_owned()),
            None => Place::Service {
                namespace: text(&service["namespace"]),
                name: text(&service["name"]),
                path: text(&service["path"]),
                port: service["port"].as_i64().unwrap_or(443),
            },
        };
        let bundle = client["caBundle"].as_str().and_then(|bundle| STANDARD.decode(bundle).ok()).unwrap_or_default();
        let bundle = if bundle.trim_ascii().is_empty() { Vec::new() } else { bundle };
        Self { place, authorities: Bytes::from(bundle) }
    }

    /// Where to connect to, where that is not the URL's host.
    ///
    /// # Errors
    /// Why the Service has no such address, in the words of API servers where they have some.
    pub(crate) fn address(&self, store: &Store) -> Result<Option<String>, String> {
        match &self.place {
            Place::Url(_) => Ok(None),
            Place::Service { namespace, name, port, .. } => address(store, namespace, name, *port).map(Some),
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

/// `192.0.2.7:8443` for a port of a Service.
///
/// # Errors
/// Why there is no such address, in the words of API servers where they have some.
fn address(store: &Store, namespace: &str, name: &str, port: i64) -> Result<String, String> {
    let Some(service) = store.get(SERVICES, namespace, name) else {
        return Err(format!("service \"{name}\" not found"));
    };
    let service = service.value();
    if service["spec"]["type"] == "ExternalName" {
        let host = service["spec"]["externalName"].as_str().unwrap_or_default();
        return Ok(join(host.trim_end_matches('.'), port));
    }
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let Some(entry) = ports.into_iter().find(|entry| entry["port"] == json!(port)) else {
        return Err(format!("no service port {port} found for service \"{name}\""));
    };
    let wanted = Selector::from_json(&json!({ "matchLabels": { SERVICE_LABEL: name } }));
    let mut has_pods = false;
    for slice in store.list(ENDPOINT_SLICES, Some(namespace)) {
        if !wanted.matches_by(|key| slice.label(key)) {
            continue;
        }
        let slice = slice.value();
        let ports = slice["ports"].as_array().into_iter().flatten();
        let text = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
        let Some(number) = ports.into_iter().find(|one| text(one) == text(entry)).and_then(|one| one["port"].as_i64())
        else {
            continue;
        };
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            if endpoint["targetRef"]["kind"] == "Pod" {
                has_pods = true;
            } else if endpoint["conditions"]["ready"] != false
                && let Some(address) = endpoint["addresses"][0].as_str()
            {
                return Ok(join(address, number));
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

fn join(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
