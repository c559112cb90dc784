//! Which pool a node belongs to, on the clouds and tools that label their nodes.

use klab_lab::membership::POOL_LABELS;
use serde_json::Value;

/// The label of a control plane's node, as kind and kubeadm set it.
const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";
/// The pool of such nodes.
pub(crate) const CONTROL_PLANE: &str = "control-plane";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// The name of a node's pool. Nodes without a label that names one are together by their size.
pub fn pool_of(node: &Value) -> String {
    let labels = &node["metadata"]["labels"];
    let named = POOL_LABELS.iter().find_map(|label| labels[*label].as_str().filter(|name| !name.is_empty()));
    let size = || labels[INSTANCE_TYPE].as_str().filter(|size| !size.is_empty());
    match named {
        Some(name) => name.to_owned(),
        None if labels[CONTROL_PLANE_LABEL].is_string() => CONTROL_PLANE.to_owned(),
        None => size().map_or_else(|| shape(node), str::to_owned),
    }
}

/// `8cpu-32Gi`, of what the node has.
fn shape(node: &Value) -> String {
    let capacity = &node["status"]["capacity"];
    let text = |resource: &str| capacity[resource].as_str().unwrap_or("0");
    format!("{}cpu-{}", text("cpu"), text("memory"))
}

/// A node's zone, where it has one. On AKS `0` is none.
pub(crate) fn zone_of(node: &Value) -> Option<&str> {
    node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().filter(|zone| !matches!(*zone, "" | "0"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pools_are_those_of_the_provider_or_of_equal_size() {
        let node = |labels: Value| json!({ "metadata": { "labels": labels }, "status": { "capacity": { "cpu": "8", "memory": "32Gi" } } });
        for (labels, pool) in [
            (json!({ "agentpool": "general", "node.kubernetes.io/instance-type": "Standard_D4s_v5" }), "general"),
            (json!({ "eks.amazonaws.com/nodegroup": "workers" }), "workers"),
            (json!({ "cloud.google.com/gke-nodepool": "default-pool" }), "default-pool"),
            (json!({ "karpenter.sh/nodepool": "spot" }), "spot"),
            (json!({ "node-role.kubernetes.io/control-plane": "" }), "control-plane"),
            (json!({ "node.kubernetes.io/instance-type": "m7i.large" }), "m7i.large"),
            (json!({}), "8cpu-32Gi"),
            (Value::Null, "8cpu-32Gi"),
        ] {
            assert_eq!(pool_of(&node(labels)), pool);
        }
    }
}
