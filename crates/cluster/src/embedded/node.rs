//! The nodes that a cluster has where no others are given.

use serde_json::{Value, json};

/// An ordinary node, `node-0` and on.
pub(crate) fn node(number: usize) -> Value {
    let name = format!("node-{number}");
    let resources = json!({ "cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110" });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        }},
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
