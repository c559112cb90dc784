//! `[pool.NAME]` as written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{At, NodesText, QuantityText, Table, ZonesText};
use crate::spec::pool::{Autoscale, DeviceAttribute, Eviction, Os, PoolMode};
use crate::spec::upgrade::{UndrainableNodeBehavior, UpgradeStrategy};

/// A group of equal nodes; those of type VirtualMachines differ in their size.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Pool {
    /// system: may hold the cluster's own pods; user: for yours. Default: system for the first pool, user for the others.
    pub mode: Option<At<PoolMode>>,
    /// What Azure makes the nodes of: a scale set of machines alike, or single virtual machines of one to five sizes. AKS, and the embedded cluster like AKS. Default: VirtualMachineScaleSets.
    #[serde(rename = "type")]
    pub kind: Option<At<PoolType>>,
    /// Nodes of each size in a pool of type VirtualMachines, in place of `nodes` and `size`: { "Standard_D4s_v5" = 2, "Standard_D8s_v5" = 1 }.
    #[serde(default)]
    pub sizes: Table<At<u32>>,
    /// Number of nodes. Default: 1.
    #[schemars(range(max = 1000))]
    pub nodes: Option<At<u32>>,
    /// Azure VM size, such as "Standard_B2ms"; sim and kind emulate its CPUs, memory and pod limit. Default: Standard_B2ms, unless `cpu` and `memory` are given.
    pub size: Option<At<String>>,
    /// CPUs of a node, in place of a VM size; needs `memory`. Not for AKS.
    pub cpu: Option<At<QuantityText>>,
    /// Memory of a node, in place of a VM size; needs `cpu`. Not for AKS.
    pub memory: Option<At<QuantityText>>,
    /// Further resources of a node that pods can request, such as { "nvidia.com/gpu" = 1 }. AKS has those of the VM size only.
    #[serde(default)]
    pub resources: Table<At<QuantityText>>,
    /// Images that the nodes have from the start, with their size: { "docker.io/library/python:3.13" = "400Mi" }. Embedded cluster; elsewhere nodes have what they pulled.
    #[serde(default)]
    pub images: Table<At<QuantityText>>,
    /// Devices of a node that resource claims can ask for: [{ class = "gpu.example.com", count = 4, attributes = { memory = "40Gi" } }]. Embedded cluster; elsewhere drivers say what nodes have.
    #[serde(default)]
    pub devices: Vec<At<Devices>>,
    /// Labels of the nodes, besides those that the provider sets.
    #[serde(default)]
    pub labels: Table<At<String>>,
    /// Names of the nodes, in their order; further nodes are named as the provider does. Embedded cluster and kind; AKS names nodes itself.
    #[serde(default)]
    pub names: Vec<At<String>>,
    /// Labels by which the pool's nodes are found on a cluster that klab did not make. Default: the label `pool_label` of `[existing]` with the pool's name.
    #[serde(default, rename = "match")]
    pub matches: Option<Table<At<String>>>,
    /// Annotations of the nodes (sim and kind).
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Taints of the nodes: "key=value:Effect" or "key:Effect"; effects are NoSchedule, PreferNoSchedule and NoExecute.
    #[serde(default)]
    pub taints: Vec<At<String>>,
    /// Availability zones, 1 to 3; "auto": AKS chooses (preview), and sim takes all three. Default: none.
    pub zones: Option<At<ZonesText>>,
    /// Most pods on a node, 10 to 250. Default: 250 (30 or 110 with other AKS networks).
    pub max_pods: Option<At<u32>>,
    /// Spare capacity that can be taken away at any time; the nodes get the label and the taint that AKS gives them. Default: false.
    pub spot: Option<At<bool>>,
    /// Greatest price of a spot node per hour, in US dollars. Default: up to the regular price.
    pub max_price: Option<At<f64>>,
    /// What happens to an evicted spot node. Default: delete.
    pub eviction: Option<At<Eviction>>,
    /// Bounds of the cluster autoscaler.
    pub autoscale: Option<At<Autoscale>>,
    /// Most machines that the cloud has for this pool: those that the cluster autoscaler starts beyond never become nodes. Default: as many as it wants. Embedded cluster; Azure has its own.
    #[schemars(range(max = 1000))]
    pub capacity: Option<At<u32>>,
    /// Operating system. Default: linux.
    pub os: Option<At<Os>>,
    /// Flavour of the operating system on AKS, such as "AzureLinux".
    pub os_sku: Option<String>,
    /// The operating system's disk on AKS.
    pub os_disk: Option<At<OsDisk>>,
    /// Kubernetes version of the nodes, where it is to differ from the cluster's (two minor versions older at most).
    pub kubernetes: Option<At<String>>,
    /// Node image that the nodes of the embedded cluster begin with, such as "202607.20.0"; an upgrade brings them to the newest. AKS begins with the newest. Default: the newest.
    pub node_image: Option<At<String>>,
    /// How AKS upgrades the pool: { max_surge = "33%", drain_timeout = "30m" }. AKS and the embedded cluster; kind replaces its workers.
    pub upgrade: Option<At<Upgrade>>,
    /// Further arguments for `az aks nodepool add`, for what klab does not model.
    #[serde(default)]
    pub extra_args: Vec<String>,
    /// The pool is not created by `up`; a step creates it with `add_pool`. Default: false.
    #[serde(default)]
    pub deferred: bool,
}

/// Devices that are alike.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Devices {
    /// Their class, a DNS name such as "gpu.example.com". Where the lab makes none of this name, it is all devices of their driver.
    pub class: At<String>,
    /// Their driver, a DNS name. Default: the name of the class.
    pub driver: Option<At<String>>,
    /// How many a node has, 1 to 128. Default: 1.
    #[schemars(range(min = 1, max = 128))]
    pub count: Option<At<u32>>,
    /// What they are like: texts, whole numbers, booleans; amounts such as "40Gi" are their capacity.
    #[serde(default)]
    pub attributes: Table<DeviceAttribute>,
}

/// What Azure makes the nodes of a pool of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(in crate::spec) enum PoolType {
    /// A scale set, whose machines are alike.
    VirtualMachineScaleSets,
    /// Single virtual machines, of one to five sizes.
    VirtualMachines,
}

/// How a pool is upgraded.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Upgrade {
    /// In which order nodes come and go: a few at a time, or each with a new one beside it and the old ones last. Default: rolling.
    pub strategy: Option<At<UpgradeStrategy>>,
    /// Nodes that are added for the time of the upgrade: a number, or a share such as "33%". Default: "10%".
    pub max_surge: Option<At<NodesText>>,
    /// Nodes of a user pool that are drained at the same time where `max_surge` is 0: a number, or a share. Default: 0.
    pub max_unavailable: Option<At<NodesText>>,
    /// How long the drain of a node may take, "5m" to "24h", from "1m" in a blue-green upgrade. Default: "30m".
    pub drain_timeout: Option<At<String>>,
    /// How long a drained node is left alone before it is reimaged, at most "30m". Default: not at all.
    pub node_soak: Option<At<String>>,
    /// What becomes of a node that cannot be drained in time: it takes pods again and the upgrade ends, or it stays cordoned and the upgrade goes on. Default: Schedule.
    pub undrainable_node_behavior: Option<At<UndrainableNodeBehavior>>,
    /// Blue-green: old nodes that are drained at the same time, a number or a share. Default: "10%".
    pub drain_batch_size: Option<At<NodesText>>,
    /// Blue-green: the pause between two batches, at most "24h". Default: "15m".
    pub batch_soak: Option<At<String>>,
    /// Blue-green: how long the drained nodes stay in the end, at most "168h". Default: "60m".
    pub final_soak: Option<At<String>>,
}

/// The disk of a node's operating system.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct OsDisk {
    /// Size in GiB, at least 30. Default: by the number of CPUs, 128 for up to 7.
    #[schemars(range(min = 30, max = 2048))]
    pub size: Option<u32>,
    /// true: the machine's own disk, which is fast and lost with the machine; false: a managed disk. Default: false.
    #[serde(default)]
    pub ephemeral: bool,
}
