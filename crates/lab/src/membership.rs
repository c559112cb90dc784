//! Which pool a node belongs to: the labels by which those who make nodes say so.

use k8s_openapi::api::core::v1::Node;

use crate::names::{AKS_POOL_LABEL, POOL_LABEL};

/// Labels that name a node's pool: AKS' own and the older one that every provider of klab sets, then those of EKS, GKE and
/// Karpenter.
pub const POOL_LABELS: [&str; 5] = [
    AKS_POOL_LABEL,
    POOL_LABEL,
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "karpenter.sh/nodepool",
];

/// The label by which a node's maker names its pool, and the pool.
pub fn labelled_pool(node: &Node) -> Option<(&'static str, &str)> {
    let labels = node.metadata.labels.as_ref()?;
    POOL_LABELS.into_iter().find_map(|key| Some((key, labels.get(key)?.as_str())))
}
