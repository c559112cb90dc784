//! kube-system of an AKS cluster with Azure CNI Overlay.

use serde_json::{Value, json};

use super::workload::{Container, Workload, container, dns_ports, service, storage_class};

/// Everything a new AKS cluster has.
pub(super) fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> = addons().iter().flat_map(|(addon, replicas)| addon.deployment(*replicas)).collect();
    objects.extend(daemons().iter().flat_map(Workload::daemon_set));
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

/// The custom resource by which users configure the scheduler of AKS.
// See https://learn.microsoft.com/azure/aks/configure-aks-scheduler
pub const SCHEDULER_CONFIGURATIONS: &str = "schedulerconfigurations.aks.azure.com";
/// The one object of it that counts.
pub(crate) const SCHEDULER_CONFIGURATION: &str = "upstream";

/// The definition of that resource, as far as Azure's documentation shows it; the fields of the status are klab's.
pub fn scheduler_configurations() -> Value {
    let text = || json!({ "type": "string" });
    let status = json!({ "configuration": text(), "message": text(), "acceptedConfig": text() });
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "rawConfig": text() } },
        "status": { "type": "object", "properties": status },
    } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": SCHEDULER_CONFIGURATIONS },
        "spec": {
            "group": "aks.azure.com", "scope": "Cluster",
            "names": {
                "kind": "SchedulerConfiguration", "listKind": "SchedulerConfigurationList",
                "plural": "schedulerconfigurations", "singular": "schedulerconfiguration",
            },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
                "additionalPrinterColumns": [
                    { "name": "Configuration", "type": "string", "jsonPath": ".status.configuration" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
            }],
        },
    })
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

/// Deployments, and how many replicas each has.
#[rustfmt::skip]
fn addons() -> Vec<(Workload, u32)> {
    let addon = |name, selector, containers| Workload {
        name, selector, containers, priority_class: "system-node-critical", tolerations: addon_tolerations(),
        affinity: prefers_system_pool(), ..Workload::default()
    };
    vec![
        (addon("coredns", ("k8s-app", "kube-dns"), vec![
            container("coredns", "mcr.microsoft.com/oss/kubernetes/coredns:v1.12.1", ("100m", "70Mi"), ("3", "500Mi")),
        ]), 2),
        (addon("coredns-autoscaler", ("k8s-app", "coredns-autoscaler"), vec![
            container("autoscaler", "mcr.microsoft.com/oss/kubernetes/autoscaler/cluster-proportional-autoscaler:v1.9.0", ("20m", "10Mi"), ("200m", "500Mi")),
        ]), 1),
        (addon("konnectivity-agent", ("app", "konnectivity-agent"), vec![
            container("konnectivity-agent", "mcr.microsoft.com/oss/kubernetes/apiserver-network-proxy/agent:v0.31.2", ("20m", "20Mi"), ("1", "1Gi")),
        ]), 2),
        (addon("metrics-server", ("k8s-app", "metrics-server"), vec![
            container("metrics-server-vpa", "mcr.microsoft.com/oss/kubernetes/autoscaler/addon-resizer:v1.8.23", ("5m", "30Mi"), ("100m", "300Mi")),
            container("metrics-server", "mcr.microsoft.com/oss/kubernetes/metrics-server:v0.7.2", ("151m", "104Mi"), ("151m", "104Mi")),
        ]), 2),
    ]
}

#[rustfmt::skip]
fn daemons() -> Vec<Workload> {
    let daemon = |name, selector, containers| Workload {
        name, selector, containers, priority_class: "system-node-critical", tolerations: everywhere(), affinity: on_linux(),
        host_network: true, ..Workload::default()
    };
    let csi = |driver: Container| vec![
        container("liveness-probe", "mcr.microsoft.com/oss/kubernetes-csi/livenessprobe:v2.15.0", ("10m", "20Mi"), ("", "100Mi")),
        container("node-driver-registrar", "mcr.microsoft.com/oss/kubernetes-csi/csi-node-driver-registrar:v2.13.0", ("10m", "20Mi"), ("", "100Mi")),
        driver,
    ];
    vec![
        daemon("azure-cns", ("k8s-app", "azure-cns"), vec![
            container("cns-container", "mcr.microsoft.com/containernetworking/azure-cns:v1.6.21", ("40m", "250Mi"), ("40m", "250Mi")),
        ]),
        daemon("azure-ip-masq-agent", ("k8s-app", "azure-ip-masq-agent"), vec![
            container("azure-ip-masq-agent", "mcr.microsoft.com/aks/ip-masq-agent-v2:v0.1.15", ("100m", "50Mi"), ("500m", "250Mi")),
        ]),
        daemon("cloud-node-manager", ("k8s-app", "cloud-node-manager"), vec![
            container("cloud-node-manager", "mcr.microsoft.com/oss/kubernetes/azure-cloud-node-manager:v1.33.0", ("50m", "50Mi"), ("", "512Mi")),
        ]),
        daemon("csi-azuredisk-node", ("app", "csi-azuredisk-node"), csi(
            container("azuredisk", "mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi:v1.33.0", ("10m", "20Mi"), ("", "200Mi")),
        )),
        daemon("csi-azurefile-node", ("app", "csi-azurefile-node"), csi(
            container("azurefile", "mcr.microsoft.com/oss/kubernetes-csi/azurefile-csi:v1.33.0", ("10m", "20Mi"), ("", "400Mi")),
        )),
        daemon("kube-proxy", ("component", "kube-proxy"), vec![
            container("kube-proxy", "mcr.microsoft.com/oss/kubernetes/kube-proxy:v1.36.2", ("100m", ""), ("", "")),
        ]),
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
