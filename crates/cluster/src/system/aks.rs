//! kube-system of an AKS cluster with Azure CNI Overlay.

use serde_json::{Value, json};

use super::workload::{Container, Workload, dns_ports, service, storage_class};

/// Everything a new AKS cluster has.
pub(super) fn objects() -> Vec<Value> {
    let mut objects = Vec::new();
    objects.extend(core_dns());
    objects.extend(core_dns_autoscaler());
    objects.extend(konnectivity_agent());
    objects.extend(metrics_server());
    for daemon in daemons() {
        objects.extend(daemon.daemon_set());
    }
    objects.push(service("kube-dns", ("k8s-app", "kube-dns"), "10.0.0.10", dns_ports()));
    objects.push(service(
        "metrics-server",
        ("k8s-app", "metrics-server"),
        "10.0.0.11",
        json!([{ "port": 443, "protocol": "TCP", "targetPort": 4443 }]),
    ));
    objects.push(budget("coredns-pdb", "kube-dns"));
    objects.push(budget("metrics-server-pdb", "metrics-server"));
    objects.push(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "konnectivity-agent", "namespace": "kube-system" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "konnectivity-agent" } } },
    }));
    objects.extend(storage_classes());
    objects
}

/// System pods prefer pools of mode `system` and must be on an AKS node with Linux: when their pool goes they move to
/// another one, to a user pool only when no system pool takes them. Replicas are spread over nodes by the scheduler's
/// own defaults, which weigh less than this preference.
fn prefers_system_pool() -> Value {
    let mut affinity = on_linux();
    affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([{
        "weight": 100,
        "preference": { "matchExpressions": [
            { "key": "kubernetes.azure.com/mode", "operator": "In", "values": ["system"] },
        ]},
    }]);
    affinity
}

fn on_linux() -> Value {
    json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
        "matchExpressions": [
            { "key": "kubernetes.azure.com/cluster", "operator": "Exists" },
            { "key": "type", "operator": "NotIn", "values": ["virtual-kubelet"] },
            { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
        ],
    }]}}})
}

/// Critical add-ons may be on tainted system pools, and leave a silent node after half a minute.
fn addon_tolerations() -> Value {
    json!([
        { "key": "CriticalAddonsOnly", "operator": "Exists" },
        { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30 },
        { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30 },
    ])
}

fn everywhere() -> Value {
    json!([
        { "key": "CriticalAddonsOnly", "operator": "Exists" },
        { "effect": "NoExecute", "operator": "Exists" },
        { "effect": "NoSchedule", "operator": "Exists" },
    ])
}

fn core_dns() -> Vec<Value> {
    Workload {
        name: "coredns",
        selector: ("k8s-app", "kube-dns"),
        containers: vec![Container {
            name: "coredns",
            image: "mcr.microsoft.com/oss/kubernetes/coredns:v1.12.1",
            requests: ("100m", "70Mi"),
            limits: ("3", "500Mi"),
        }],
        priority_class: "system-node-critical",
        tolerations: addon_tolerations(),
        affinity: prefers_system_pool(),
        ..Workload::default()
    }
    .deployment(2)
}

fn core_dns_autoscaler() -> Vec<Value> {
    Workload {
        name: "coredns-autoscaler",
        selector: ("k8s-app", "coredns-autoscaler"),
        containers: vec![Container {
            name: "autoscaler",
            image: "mcr.microsoft.com/oss/kubernetes/autoscaler/cluster-proportional-autoscaler:v1.9.0",
            requests: ("20m", "10Mi"),
            limits: ("200m", "500Mi"),
        }],
        priority_class: "system-node-critical",
        tolerations: addon_tolerations(),
        affinity: prefers_system_pool(),
        ..Workload::default()
    }
    .deployment(1)
}

fn konnectivity_agent() -> Vec<Value> {
    Workload {
        name: "konnectivity-agent",
        selector: ("app", "konnectivity-agent"),
        containers: vec![Container {
            name: "konnectivity-agent",
            image: "mcr.microsoft.com/oss/kubernetes/apiserver-network-proxy/agent:v0.31.2",
            requests: ("20m", "20Mi"),
            limits: ("1", "1Gi"),
        }],
        priority_class: "system-node-critical",
        tolerations: addon_tolerations(),
        affinity: prefers_system_pool(),
        ..Workload::default()
    }
    .deployment(2)
}

fn metrics_server() -> Vec<Value> {
    Workload {
        name: "metrics-server",
        selector: ("k8s-app", "metrics-server"),
        containers: vec![
            Container {
                name: "metrics-server-vpa",
                image: "mcr.microsoft.com/oss/kubernetes/autoscaler/addon-resizer:v1.8.23",
                requests: ("5m", "30Mi"),
                limits: ("100m", "300Mi"),
            },
            Container {
                name: "metrics-server",
                image: "mcr.microsoft.com/oss/kubernetes/metrics-server:v0.7.2",
                requests: ("151m", "104Mi"),
                limits: ("151m", "104Mi"),
            },
        ],
        priority_class: "system-node-critical",
        tolerations: addon_tolerations(),
        affinity: prefers_system_pool(),
        ..Workload::default()
    }
    .deployment(2)
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn daemons() -> Vec<Workload> {
    let daemon = |name, selector, containers| Workload {
        name,
        selector,
        containers,
        priority_class: "system-node-critical",
        tolerations: everywhere(),
        affinity: on_linux(),
        host_network: true,
        ..Workload::default()
    };
    let one = |name, image, requests, limits| vec![Container { name, image, requests, limits }];
    let csi = |driver: Container| {
        vec![
            Container {
                name: "liveness-probe",
                image: "mcr.microsoft.com/oss/kubernetes-csi/livenessprobe:v2.15.0",
                requests: ("10m", "20Mi"),
                limits: ("", "100Mi"),
            },
            Container {
                name: "node-driver-registrar",
                image: "mcr.microsoft.com/oss/kubernetes-csi/csi-node-driver-registrar:v2.13.0",
                requests: ("10m", "20Mi"),
                limits: ("", "100Mi"),
            },
            driver,
        ]
    };
    vec![
        daemon(
            "azure-cns",
            ("k8s-app", "azure-cns"),
            one(
                "cns-container",
                "mcr.microsoft.com/containernetworking/azure-cns:v1.6.21",
                ("40m", "250Mi"),
                ("40m", "250Mi"),
            ),
        ),
        daemon(
            "azure-ip-masq-agent",
            ("k8s-app", "azure-ip-masq-agent"),
            one(
                "azure-ip-masq-agent",
                "mcr.microsoft.com/aks/ip-masq-agent-v2:v0.1.15",
                ("100m", "50Mi"),
                ("500m", "250Mi"),
            ),
        ),
        daemon(
            "cloud-node-manager",
            ("k8s-app", "cloud-node-manager"),
            one(
                "cloud-node-manager",
                "mcr.microsoft.com/oss/kubernetes/azure-cloud-node-manager:v1.33.0",
                ("50m", "50Mi"),
                ("", "512Mi"),
            ),
        ),
        daemon(
            "csi-azuredisk-node",
            ("app", "csi-azuredisk-node"),
            csi(Container {
                name: "azuredisk",
                image: "mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi:v1.33.0",
                requests: ("10m", "20Mi"),
                limits: ("", "200Mi"),
            }),
        ),
        daemon(
            "csi-azurefile-node",
            ("app", "csi-azurefile-node"),
            csi(Container {
                name: "azurefile",
                image: "mcr.microsoft.com/oss/kubernetes-csi/azurefile-csi:v1.33.0",
                requests: ("10m", "20Mi"),
                limits: ("", "400Mi"),
            }),
        ),
        daemon(
            "kube-proxy",
            ("component", "kube-proxy"),
            one("kube-proxy", "mcr.microsoft.com/oss/kubernetes/kube-proxy:v1.36.2", ("100m", ""), ("", "")),
        ),
    ]
}

fn budget(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": name, "namespace": "kube-system" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "k8s-app": app } } },
    })
}

fn storage_classes() -> Vec<Value> {
    let disk = |name, sku, default| {
        storage_class(name, "disk.csi.azure.com", "WaitForFirstConsumer", json!({ "skuname": sku }), default)
    };
    let file = |name, sku| storage_class(name, "file.csi.azure.com", "Immediate", json!({ "skuName": sku }), false);
    vec![
        disk("default", "StandardSSD_LRS", true),
        disk("managed", "StandardSSD_LRS", false),
        disk("managed-csi", "StandardSSD_LRS", false),
        disk("managed-csi-premium", "Premium_LRS", false),
        disk("managed-premium", "Premium_LRS", false),
        file("azurefile", "Standard_LRS"),
        file("azurefile-csi", "Standard_LRS"),
        file("azurefile-csi-premium", "Premium_LRS"),
        file("azurefile-premium", "Premium_LRS"),
    ]
}
