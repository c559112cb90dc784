//! Names that klab writes into clusters and reads there, and those it reads of others.

/// What begins every label and annotation of klab's own.
pub const PREFIX: &str = "klab.dev/";
/// Label of every object of a lab: the lab's name. What bears it and is not in the lab file any more is removed.
pub const LAB_LABEL: &str = "klab.dev/lab";
/// Label of a workload's objects and pods: the workload's name in the lab file.
pub const WORKLOAD_LABEL: &str = "klab.dev/workload";
/// Annotation of a node: what was declared for its pool when klab last touched the node, as JSON.
pub const DECLARED_ANNOTATION: &str = "klab.dev/declared";
/// klab's field manager, and its value of [`MANAGED_BY_LABEL`].
pub const MANAGER: &str = "klab";
/// Who keeps an object (<https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/>).
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Label by which AKS names a node's pool, and klab on every provider.
pub const POOL_LABEL: &str = "agentpool";
/// The same by AKS's newer name.
pub const AKS_POOL_LABEL: &str = "kubernetes.azure.com/agentpool";
/// Label by which AKS says what a pool is for: `system` or `user`.
pub const MODE_LABEL: &str = "kubernetes.azure.com/mode";
/// Label by which AKS says which node image a node has.
pub const NODE_IMAGE_LABEL: &str = "kubernetes.azure.com/node-image-version";
/// Machine type of the node.
pub const SIZE_LABEL: &str = "node.kubernetes.io/instance-type";

/// Annotation by which a node of the embedded cluster is said to have devices.
pub const DEVICES_ANNOTATION: &str = "klab.dev/devices";
/// Label and taint that AKS gives spot nodes.
pub const SPOT_LABEL: &str = "kubernetes.azure.com/scalesetpriority";
/// Label of a node's zone.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// Label of a node's own name.
pub const HOST_LABEL: &str = "kubernetes.io/hostname";
/// Namespaces of the cluster itself and of the add-ons that Azure installs, by their names.
const SYSTEM_NAMESPACES: [&str; 9] = [
    "local-path-storage",
    "gatekeeper-system",
    "app-routing-system",
    "tigera-operator",
    "dataprotection-microsoft",
    "flux-system",
    "dapr-system",
    "fleet-system",
    "acstor",
];
/// The same, by prefix: `kube-system`, `aks-istio-system`, `azure-arc`, `calico-system`.
const SYSTEM_PREFIXES: [&str; 4] = ["kube-", "aks-", "azure-", "calico-"];

/// Whether a namespace is the cluster's own, or that of an add-on which its cloud installs.
pub fn is_system_namespace(namespace: &str) -> bool {
    SYSTEM_NAMESPACES.contains(&namespace) || SYSTEM_PREFIXES.iter().any(|prefix| namespace.starts_with(prefix))
}

/// The label selector of everything that a lab made.
pub fn selector_of(lab: &str) -> String {
    format!("{LAB_LABEL}={lab},{MANAGED_BY_LABEL}={MANAGER}")
}
