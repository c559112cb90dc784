//! Pods on their way off a node: which of them a drain moves, and one eviction through the Kubernetes API.
//!
//! See <https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/>.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, EvictParams};
use kube::{Client, ResourceExt};

/// Whether a drain moves a pod: not those of DaemonSets, whose controller ignores cordons, and not those of the node itself.
pub fn is_moved(pod: &Pod) -> bool {
    let of_daemon_set =
        pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true));
    !of_daemon_set && !pod.annotations().contains_key("kubernetes.io/config.mirror")
}

/// Whether all that a pod was for is over.
pub fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// `namespace/name`.
pub fn path(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

/// What an eviction came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eviction {
    /// The pod goes, or is gone.
    Accepted,
    /// A disruption budget does not allow it now, in the server's words; it may allow it later.
    Refused(String),
}

/// Evicts a pod; one that is being deleted already is left to it.
///
/// # Errors
/// When the server refuses for another reason than a budget, or does not answer.
pub async fn evict(client: &Client, pod: &Pod) -> Result<Eviction, kube::Error> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Ok(Eviction::Accepted);
    }
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    match api.evict(&pod.name_any(), &EvictParams::default()).await {
        Ok(_) => Ok(Eviction::Accepted),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Eviction::Accepted),
        Err(kube::Error::Api(status)) if status.code == 429 => Ok(Eviction::Refused(status.message.clone())),
        Err(error) => Err(error),
    }
}
