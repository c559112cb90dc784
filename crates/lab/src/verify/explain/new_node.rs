//! A node as the cluster autoscaler, or a user, adds it to a pool.

use k8s_openapi::api::core::v1::Node;

/// Taints that Kubernetes puts on nodes for their condition; a new node comes without them.
fn is_condition(key: &str) -> bool {
    key.starts_with("node.kubernetes.io/") || key.starts_with("node.cloudprovider.kubernetes.io/")
}

/// A node as the pool would get it: like the others, with a name of its own, ready and empty.
pub(crate) fn new_node(template: &Node, pool: &str, number: usize, zones: &[String]) -> Node {
    const HOSTNAME: &str = "kubernetes.io/hostname";
    const ZONE: &str = "topology.kubernetes.io/zone";
    let mut node = template.clone();
    let name = format!("{}-new-{number}", if pool.is_empty() { "node" } else { pool });
    if let Some(spec) = node.spec.as_mut() {
        spec.unschedulable = None;
        if let Some(taints) = spec.taints.as_mut() {
            taints.retain(|taint| !is_condition(&taint.key));
        }
    }
    let labels = node.metadata.labels.get_or_insert_default();
    labels.insert(HOSTNAME.to_owned(), name.clone());
    if !zones.is_empty() && labels.contains_key(ZONE) {
        labels.insert(ZONE.to_owned(), zones[number % zones.len()].clone());
    }
    node.metadata.name = Some(name);
    node.metadata.uid = None;
    if let Some(status) = node.status.as_mut() {
        status.images = None;
    }
    node
}
