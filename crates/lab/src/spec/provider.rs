//! Which provider makes the cluster, and the settings of each.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use klab_scheduler::features::Features;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::source::Located;
use super::version::KubernetesVersion;
use crate::names::POOL_LABEL;

/// Who makes the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The embedded cluster: no Docker, no cloud, milliseconds.
    #[default]
    Sim,
    /// Kubernetes in containers, through the `kind` command.
    Kind,
    /// Azure Kubernetes Service, through the `az` command.
    Aks,
    /// A cluster that somebody else made; klab changes nothing in it but what it made there itself.
    Existing,
}

impl Provider {
    /// All providers.
    pub const ALL: [Self; 4] = [Self::Sim, Self::Kind, Self::Aks, Self::Existing];

    /// The name in the lab file and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Kind => "kind",
            Self::Aks => "aks",
            Self::Existing => "existing",
        }
    }

    /// The word for people: what the cluster is.
    pub const fn spoken(self) -> &'static str {
        match self {
            Self::Sim => "embedded",
            Self::Kind | Self::Aks | Self::Existing => self.as_str(),
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Provider {
    type Err = String;
    /// By its name; the embedded cluster also by what it is.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = if text == "embedded" { Self::Sim.as_str() } else { text };
        Self::ALL
            .into_iter()
            .find(|provider| provider.as_str() == name)
            .ok_or_else(|| format!("there is no provider `{text}`; there are sim, kind, aks and existing"))
    }
}

/// `[sim]`: the embedded cluster.
#[derive(Clone, Debug)]
pub struct SimSettings {
    /// Whose nodes and system pods the cluster has.
    pub like: SimLike,
    /// Seed of the choice among equal nodes.
    pub seed: Option<u64>,
    /// How long a machine that the cluster autoscaler starts takes until its node is there.
    pub node_start: SignedDuration,
    /// Images that cannot be pulled, beside those whose names say so.
    pub missing_images: Vec<String>,
    /// Its feature gates, and the versions of the API that it does not serve.
    pub features: Features,
}

impl Default for SimSettings {
    fn default() -> Self {
        // Long enough to see the machine come, short enough to wait for it.
        Self {
            like: SimLike::default(),
            seed: None,
            node_start: SignedDuration::from_secs(5),
            missing_images: Vec::new(),
            features: Features::default(),
        }
    }
}

/// Whose look the embedded cluster takes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SimLike {
    /// Node names, labels and system pods of AKS; the control plane is not to be seen.
    #[default]
    Aks,
    /// A control-plane node with its taint, and workers, as on kind.
    Kind,
}

/// `[kind]`.
#[derive(Clone, Debug)]
pub struct KindSettings {
    /// Number of control-plane nodes.
    pub control_planes: u32,
    /// Ports of this machine that lead to the control-plane node.
    pub ports: Vec<PortMapping>,
    /// Directories of this machine in every worker.
    pub mounts: Vec<Mount>,
    /// Mirrors by registry, such as `docker.io`.
    pub registry_mirrors: BTreeMap<String, String>,
    /// Feature gates of Kubernetes.
    pub feature_gates: BTreeMap<String, bool>,
    /// APIs by group and version, and whether the API server serves them.
    pub runtime_config: BTreeMap<String, bool>,
    /// Patches of kubeadm's configuration, as YAML.
    pub kubeadm_patches: Vec<String>,
    /// Pod network in CIDR notation.
    pub pod_subnet: Option<String>,
    /// Service network in CIDR notation.
    pub service_subnet: Option<String>,
    /// Address of the API server on this machine.
    pub api_server_address: Option<String>,
    /// Port of the API server on this machine.
    pub api_server_port: Option<u16>,
    /// Node image, in place of the one for the Kubernetes version.
    pub image: Option<String>,
    /// Local images to load into all nodes.
    pub load: Vec<Located<String>>,
}

impl Default for KindSettings {
    fn default() -> Self {
        Self {
            control_planes: 1,
            ports: Vec::new(),
            mounts: Vec::new(),
            registry_mirrors: BTreeMap::new(),
            feature_gates: BTreeMap::new(),
            runtime_config: BTreeMap::new(),
            kubeadm_patches: Vec::new(),
            pod_subnet: None,
            service_subnet: None,
            api_server_address: None,
            api_server_port: None,
            image: None,
            load: Vec::new(),
        }
    }
}

/// A port of this machine that leads to a node's port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortMapping {
    /// Port of this machine.
    pub host: u16,
    /// Port of the node.
    pub container: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Address of this machine to listen on.
    pub address: Option<String>,
}

/// A directory of this machine in the workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Path on this machine, relative to the lab file.
    pub host: String,
    /// Path in the node.
    pub container: String,
    /// The node may only read it. Default: false.
    #[serde(default)]
    pub read_only: bool,
}

/// The default Azure region.
pub const DEFAULT_LOCATION: &str = "westeurope";

/// `[aks]`.
#[derive(Clone, Debug)]
pub struct AksSettings {
    /// Azure region.
    pub location: Located<String>,
    /// Subscription by name or id; none: the one az has selected.
    pub subscription: Option<String>,
    /// A resource group of the user's, in place of the lab's own.
    pub resource_group: Option<Located<String>>,
    /// Group for the cluster's machines, in place of `MC_…`.
    pub node_resource_group: Option<String>,
    /// `free`, `standard` or `premium`.
    pub tier: AksTier,
    /// How pods get their addresses.
    pub network: AksNetwork,
    /// Id of a subnet of the user's.
    pub subnet: Option<String>,
    /// Kubernetes version down to the patch, in place of the lab's.
    pub kubernetes: Option<Located<KubernetesVersion>>,
    /// Tags of the resource group and the cluster.
    pub tags: BTreeMap<String, String>,
    /// Container registry to attach.
    pub registry: Option<String>,
    /// Further arguments for `az aks create`.
    pub extra_args: Vec<String>,
}

/// Price tier of the control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AksTier {
    /// No charge, no guarantee.
    #[default]
    Free,
    /// With an uptime guarantee.
    Standard,
    /// With long-term support.
    Premium,
}

impl AksTier {
    /// The name az expects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Standard => "standard",
            Self::Premium => "premium",
        }
    }
}

/// How pods on AKS get their addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AksNetwork {
    /// Azure CNI Overlay; 250 pods on a node by default.
    #[default]
    Overlay,
    /// Azure CNI with addresses of the nodes' subnet; 30 pods on a node by default.
    NodeSubnet,
    /// kubenet, which ends in March 2028; 110 pods on a node by default.
    Kubenet,
}

impl AksNetwork {
    /// Most pods on a node where the pool does not say.
    pub fn default_max_pods(self) -> u32 {
        match self {
            Self::Overlay => 250,
            Self::NodeSubnet => 30,
            Self::Kubenet => 110,
        }
    }
}

/// `[existing]`: which cluster that klab did not make, and what distinguishes its pools.
#[derive(Clone, Debug)]
pub struct ExistingSettings {
    /// Context of the kubeconfig; none: the current one.
    pub context: Option<Located<String>>,
    /// The kubeconfig; none: the one that kubectl would read.
    pub kubeconfig: Option<Located<String>>,
    /// The label whose value is the name of a node's pool, where the pool has no `match`.
    pub pool_label: String,
}

impl Default for ExistingSettings {
    fn default() -> Self {
        Self { context: None, kubeconfig: None, pool_label: POOL_LABEL.to_owned() }
    }
}

/// A part that klab can add to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Addon {
    /// metrics-server, for `kubectl top`.
    MetricsServer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_for_a_provider_is_read() {
        for provider in Provider::ALL {
            assert_eq!(provider.as_str().parse(), Ok(provider));
            assert_eq!(provider.spoken().parse(), Ok(provider));
        }
        assert!("minikube".parse::<Provider>().is_err());
    }
}
