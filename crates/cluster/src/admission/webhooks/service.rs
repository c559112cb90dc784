//! Where a Service is outside of the cluster, where nothing listens: at its ExternalName, or at endpoints that are no pods.

// upstream: staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go ResolveEndpoint (v1.36)

use klab_scheduler::selector::Selector;
use serde_json::{Value, json};

use crate::resource::{ENDPOINT_SLICES, SERVICES};
use crate::store::Store;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// `192.0.2.7:8443` for a port of a Service.
///
/// # Errors
/// Why there is no such address, in the words of API servers where they have some.
pub(super) fn address(store: &Store, namespace: &str, name: &str, port: i64) -> Result<String, String> {
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
