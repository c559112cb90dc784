//! `[sim]`, `[kind]`, `[aks]` and `[existing]` as written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::At;
use crate::spec::provider::{AksNetwork, AksTier, Mount, SimLike};

/// Settings of the embedded cluster.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Sim {
    /// Whose nodes and system pods it has. Default: aks.
    pub like: Option<At<SimLike>>,
    /// Seed of the choice among equally good nodes. Default: from the lab's name.
    pub seed: Option<u64>,
    /// Images that cannot be pulled there, such as "acme/web:2.0", "acme/web" (all tags), "acme/*".
    #[serde(default)]
    pub missing_images: Vec<String>,
    /// How long a machine that the cluster autoscaler starts takes until its node is there, such as "2m". Default: 5s.
    pub node_start: Option<At<String>>,
    /// Feature gates of Kubernetes: { MaxUnavailableStatefulSet = true }.
    #[serde(default)]
    pub feature_gates: BTreeMap<String, At<bool>>,
    /// APIs that the API server serves or does not: { "batch/v1" = false }.
    #[serde(default)]
    pub runtime_config: BTreeMap<String, At<bool>>,
}

/// Settings of kind.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Kind {
    /// Number of control-plane nodes. Default: 1.
    #[schemars(range(min = 1, max = 9))]
    pub control_planes: Option<At<u32>>,
    /// Ports of this machine that lead into the cluster.
    #[serde(default)]
    pub ports: Vec<At<PortMapping>>,
    /// Directories of this machine in every worker.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Mirrors by registry: { "docker.io" = "https://mirror.example.com" }.
    #[serde(default)]
    pub registry_mirrors: BTreeMap<String, String>,
    /// Feature gates of Kubernetes.
    #[serde(default)]
    pub feature_gates: BTreeMap<String, bool>,
    /// APIs that the API server serves or does not: { "api/all" = true, "scheduling.k8s.io/v1alpha2" = true }.
    #[serde(default)]
    pub runtime_config: BTreeMap<String, bool>,
    /// Patches of kubeadm's configuration, each a YAML text with its `kind`, after those of klab.
    #[serde(default)]
    pub kubeadm_patches: Vec<String>,
    /// Pod network, such as "10.244.0.0/16".
    pub pod_subnet: Option<At<String>>,
    /// Service network, such as "10.96.0.0/16".
    pub service_subnet: Option<At<String>>,
    /// Address of the API server on this machine. Default: 127.0.0.1.
    pub api_server_address: Option<At<String>>,
    /// Port of the API server on this machine. Default: a free one.
    pub api_server_port: Option<u16>,
    /// Node image in place of the one for the Kubernetes version, with its digest.
    pub image: Option<At<String>>,
    /// Local images to load into all nodes.
    #[serde(default)]
    pub load: Vec<At<String>>,
}

/// A port of this machine that leads into the cluster.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct PortMapping {
    /// Port of this machine.
    pub host: u16,
    /// Port of the node.
    pub container: u16,
    /// TCP, UDP or SCTP. Default: TCP.
    pub protocol: Option<At<String>>,
    /// Address of this machine to listen on. Default: 127.0.0.1.
    pub address: Option<At<String>>,
}

/// A cluster that somebody else made.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Existing {
    /// Context of the kubeconfig. Default: the current one when the lab is first brought up.
    pub context: Option<At<String>>,
    /// The kubeconfig: a path, absolute, from `~/`, or relative to the lab file. Default: that of KUBECONFIG, else ~/.kube/config.
    pub kubeconfig: Option<At<String>>,
    /// Label of the nodes whose value is the name of their pool, for pools without `match`: "agentpool" on AKS, "eks.amazonaws.com/nodegroup" on EKS, "cloud.google.com/gke-nodepool" on GKE. Default: agentpool.
    pub pool_label: Option<At<String>>,
}

/// Settings of Azure Kubernetes Service.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Aks {
    /// Azure region. Default: westeurope.
    pub location: Option<At<String>>,
    /// Subscription by name or id. Default: the one that az has selected.
    pub subscription: Option<String>,
    /// A resource group of yours; `down` then removes the cluster and leaves the group. Default: a group for the lab alone.
    pub resource_group: Option<At<String>>,
    /// Group for the cluster's machines. Default: as Azure names it, MC_….
    pub node_resource_group: Option<String>,
    /// Price tier of the control plane. Default: free.
    pub tier: Option<At<AksTier>>,
    /// How pods get their addresses. Default: overlay.
    pub network: Option<At<AksNetwork>>,
    /// Id of a subnet of yours; pools are then created one after the other.
    pub subnet: Option<String>,
    /// Kubernetes version on AKS, in place of the lab's, such as "1.34.2".
    pub kubernetes: Option<At<String>>,
    /// Tags of the resource group and the cluster.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Container registry to attach.
    pub registry: Option<String>,
    /// Further arguments for `az aks create`, for what klab does not model.
    #[serde(default)]
    pub extra_args: Vec<String>,
}
