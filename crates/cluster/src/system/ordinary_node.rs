//! The nodes that a cluster has where no others are given.

use std::collections::BTreeMap;

use klab_scheduler::kubelet::{HOSTNAME, platform_labels};
use serde_json::{Value, json};

/// An ordinary node, `node-0` and on.
pub fn ordinary_node(number: usize) -> Value {
    let name = format!("node-{number}");
    let mut labels: BTreeMap<&str, &str> = platform_labels("linux", "amd64").into();
    labels.insert(HOSTNAME, &name);
    let resources = json!({ "cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110" });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels },
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [
                { "type": "InternalIP", "address": format!("10.224.{}.{}", number / 250 % 250, number % 250 + 4) },
                { "type": "Hostname", "address": name },
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": { "kubeletVersion": "v1.36.2", "operatingSystem": "linux", "architecture": "amd64" },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_labels_that_kubelets_set() {
        for node in [ordinary_node(0), crate::system::control_plane_node("lab")] {
            let (name, labels) = (&node["metadata"]["name"], &node["metadata"]["labels"]);
            assert_eq!(labels[HOSTNAME], *name);
            for (key, value) in platform_labels("linux", "amd64") {
                assert_eq!(labels[key], value, "{name}: {key}");
            }
        }
    }
}
