//! kube-system of a kind cluster, with the static pods of its control-plane node.

use std::collections::BTreeMap;

use klab_api_machinery::object::Object;
use klab_scheduler::hash::fnv64_closed;
use klab_scheduler::kubelet::{HOSTNAME, platform_labels};
use serde_json::{Value, json};

use super::workload::{Workload, container, dns_ports, service, storage_class};

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

use crate::KUBERNETES_VERSION as VERSION;

/// The node kind runs the control plane on; it is there besides the pools, and tainted.
pub fn control_plane_node(lab: &str) -> Value {
    let name = format!("{lab}-control-plane");
    let resources = json!({
        "cpu": "4", "memory": "16384000Ki", "ephemeral-storage": "129886128Ki", "pods": "110",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    let machine = fnv64_closed(&[lab, "control-plane"], 0xff);
    let mut labels: BTreeMap<&str, &str> = platform_labels("linux", "amd64").into();
    labels.extend([
        (HOSTNAME, name.as_str()),
        (CONTROL_PLANE, ""),
        ("node.kubernetes.io/exclude-from-external-load-balancers", ""),
    ]);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "providerID": format!("kind://docker/{lab}/{name}"),
            "taints": [{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }],
        },
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [
                { "type": "InternalIP", "address": "172.18.0.2" },
                { "type": "Hostname", "address": name },
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": {
                "architecture": "amd64", "bootID": format!("{machine:016x}"),
                "containerRuntimeVersion": "containerd://2.1.1", "kernelVersion": "6.8.0-1052-azure",
                "kubeProxyVersion": "", "kubeletVersion": VERSION,
                "machineID": format!("{machine:016x}"), "operatingSystem": "linux",
                "osImage": "Debian GNU/Linux 12 (bookworm)", "systemUUID": format!("{machine:016x}"),
            },
        },
    })
}

/// Whether a manifest is that of a control plane's node.
pub fn is_control_plane(object: &Value) -> bool {
    object["kind"] == "Node" && object["metadata"]["labels"][CONTROL_PLANE].is_string()
}

/// Everything a new kind cluster has.
pub(super) fn objects() -> Vec<Value> {
    let mut objects = core_dns();
    let anywhere = json!([{ "operator": "Exists" }]);
    let linux = json!({ "kubernetes.io/os": "linux" });
    objects.extend(
        Workload {
            name: "kube-proxy",
            selector: ("k8s-app", "kube-proxy"),
            containers: vec![container("kube-proxy", "registry.k8s.io/kube-proxy:v1.36.2", ("", ""), ("", ""))],
            priority_class: "system-node-critical",
            tolerations: anywhere.clone(),
            node_selector: linux.clone(),
            host_network: true,
            ..Workload::default()
        }
        .daemon_set(),
    );
    objects.extend(
        Workload {
            name: "kindnet",
            selector: ("app", "kindnet"),
            containers: vec![container(
                "kindnet-cni",
                "docker.io/kindest/kindnetd:v20250512-df8de77b",
                ("100m", "50Mi"),
                ("100m", "50Mi"),
            )],
            tolerations: anywhere,
            node_selector: linux.clone(),
            host_network: true,
            ..Workload::default()
        }
        .daemon_set(),
    );
    objects.push(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "local-path-storage" },
    }));
    objects.extend(
        Workload {
            namespace: "local-path-storage",
            name: "local-path-provisioner",
            selector: ("app", "local-path-provisioner"),
            containers: vec![container(
                "local-path-provisioner",
                "docker.io/kindest/local-path-provisioner:v20250214-acbabc1a",
                ("", ""),
                ("", ""),
            )],
            tolerations: json!([{ "key": CONTROL_PLANE, "operator": "Equal", "effect": "NoSchedule" }]),
            node_selector: linux,
            ..Workload::default()
        }
        .deployment(1),
    );
    objects.push(service("kube-dns", ("k8s-app", "kube-dns"), "10.96.0.10", dns_ports()));
    objects.push(storage_class("standard", "rancher.io/local-path", "WaitForFirstConsumer", json!({}), true));
    objects
}

/// The metrics server as klab adds it to a kind cluster: on the control-plane node.
pub(super) fn metrics_server() -> Vec<Value> {
    let mut objects = Workload {
        name: "metrics-server",
        selector: ("k8s-app", "metrics-server"),
        containers: vec![container(
            "metrics-server",
            "registry.k8s.io/metrics-server/metrics-server:v0.8.0",
            ("100m", "200Mi"),
            ("", ""),
        )],
        priority_class: "system-cluster-critical",
        tolerations: json!([{ "key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule" }]),
        node_selector: json!({ "kubernetes.io/os": "linux", CONTROL_PLANE: "" }),
        ..Workload::default()
    }
    .deployment(1);
    objects.push(service(
        "metrics-server",
        ("k8s-app", "metrics-server"),
        "10.96.0.11",
        json!([{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 10250 }]),
    ));
    objects
}

fn core_dns() -> Vec<Value> {
    Workload {
        name: "coredns",
        selector: ("k8s-app", "kube-dns"),
        containers: vec![container(
            "coredns",
            "registry.k8s.io/coredns/coredns:v1.12.1",
            ("100m", "70Mi"),
            ("", "170Mi"),
        )],
        priority_class: "system-cluster-critical",
        tolerations: json!([
            { "key": "CriticalAddonsOnly", "operator": "Exists" },
            { "key": CONTROL_PLANE, "effect": "NoSchedule" },
        ]),
        affinity: json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "labelSelector": { "matchExpressions": [
                    { "key": "k8s-app", "operator": "In", "values": ["kube-dns"] },
                ]},
                "topologyKey": "kubernetes.io/hostname",
            },
        }]}}),
        node_selector: json!({ "kubernetes.io/os": "linux" }),
        ..Workload::default()
    }
    .deployment(2)
}

/// Mirror pods of what a control-plane node's kubelet starts from its manifest directory.
pub(super) fn static_pods(node: &Object) -> Vec<Value> {
    [
        ("etcd", "registry.k8s.io/etcd:3.6.4-0", ("100m", "100Mi")),
        ("kube-apiserver", "registry.k8s.io/kube-apiserver:v1.36.2", ("250m", "")),
        ("kube-controller-manager", "registry.k8s.io/kube-controller-manager:v1.36.2", ("200m", "")),
        ("kube-scheduler", "registry.k8s.io/kube-scheduler:v1.36.2", ("100m", "")),
    ]
    .into_iter()
    .map(|(component, image, (cpu, memory))| {
        let mut requests = json!({ "cpu": cpu });
        if !memory.is_empty() {
            requests["memory"] = json!(memory);
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{component}-{}", node.name), "namespace": "kube-system",
                "labels": { "component": component, "tier": "control-plane" },
                "annotations": { "kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": node.uid },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": true,
                }],
            },
            "spec": {
                "nodeName": node.name, "hostNetwork": true, "priorityClassName": "system-node-critical",
                "tolerations": [{ "effect": "NoExecute", "operator": "Exists" }],
                "containers": [{ "name": component, "image": image, "resources": { "requests": requests } }],
                "terminationGracePeriodSeconds": 30,
            },
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_plane_has_a_tainted_node() {
        let node = control_plane_node("demo");
        assert_eq!(node["metadata"]["name"], "demo-control-plane");
        assert_eq!(node["spec"]["taints"][0]["key"], "node-role.kubernetes.io/control-plane");
    }
}
