//! Node pools: groups of equal nodes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use klab_scheduler::kubelet::platform_labels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::source::{Located, Location};
use super::upgrade::UpgradeSettings;
use super::version::KubernetesVersion;
use crate::names::{AKS_POOL_LABEL, MODE_LABEL, POOL_LABEL, SPOT_LABEL};

/// A group of equal nodes, `[pool.NAME]` in the lab file.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The name, as AKS allows it: `[a-z][a-z0-9]{0,11}` (six characters for Windows).
    pub name: Located<String>,
    /// Whether the pool is for the system's pods or for the user's.
    pub mode: PoolMode,
    /// How many nodes it starts with.
    pub nodes: Located<u32>,
    /// The VM size as Azure spells it; none where `cpu` and `memory` stand in its place.
    pub size: Option<Located<String>>,
    /// What one node offers, from the VM size or from `cpu` and `memory`.
    pub machine: Machine,
    /// The nodes of each size, by the size's name, where Azure makes single virtual machines (`VirtualMachines`); empty: a scale
    /// set. `nodes` is their sum, `size` and `machine` are those of the first.
    pub scale: Vec<ScaleProfile>,
    /// Labels of the author; not those that AKS or klab add.
    pub labels: BTreeMap<String, Located<String>>,
    /// Names of its first nodes, where the author gave some.
    pub names: Vec<Located<String>>,
    /// The names of its nodes in the cluster, where somebody has asked.
    pub present: Option<Vec<String>>,
    /// The labels that distinguish its nodes from those of others: the label that klab gives them, or the selector for a
    /// cluster that klab did not make.
    pub selector: BTreeMap<String, String>,
    /// Annotations of every node.
    pub annotations: BTreeMap<String, String>,
    /// Taints of the author; not those that AKS or klab add.
    pub taints: Vec<Located<Taint>>,
    /// Availability zones, `1` to `3`; empty: no zones.
    pub zones: Vec<u8>,
    /// Whether AKS chooses the zones; the embedded cluster takes all three.
    pub zones_auto: bool,
    /// Greatest number of pods on a node.
    pub max_pods: u32,
    /// Where `max_pods` was written, if it was (else it follows from the network).
    pub max_pods_given: Option<Location>,
    /// Spare capacity that can be taken away at any time.
    pub spot: Option<Spot>,
    /// Bounds of the cluster autoscaler.
    pub autoscale: Option<Located<Autoscale>>,
    /// Most machines that the cloud has for it, where klab stands for the cloud.
    pub capacity: Option<Located<u32>>,
    /// Operating system of the nodes.
    pub os: Os,
    /// Flavour of the operating system, such as `AzureLinux`.
    pub os_sku: Option<String>,
    /// Kubernetes version of the nodes, where it is not the cluster's.
    pub kubernetes: Option<Located<KubernetesVersion>>,
    /// Version of the node image of its nodes on the embedded cluster, where it is not the newest.
    pub node_image: Option<Located<String>>,
    /// How it is upgraded.
    pub upgrade: UpgradeSettings,
    /// Extended resources of a node beyond those of its size, such as `nvidia.com/gpu`.
    pub resources: BTreeMap<String, Located<Quantity>>,
    /// Bytes of each image that the nodes of the embedded cluster have from the start.
    pub images: BTreeMap<String, u64>,
    /// Devices of a node that resource claims can ask for.
    pub devices: Vec<Located<Devices>>,
    /// Further arguments for `az aks nodepool add`.
    pub extra_args: Vec<String>,
    /// Not made by `up`: a step makes it (`add_pool`).
    pub deferred: bool,
    /// Where the pool's table begins.
    pub at: Location,
}

/// The nodes of one size in a pool of type VirtualMachines, as AKS's `ManualScaleProfile`.
#[derive(Clone, Debug)]
pub struct ScaleProfile {
    /// The VM size as Azure spells it.
    pub size: Located<String>,
    /// What a node of it offers.
    pub machine: Machine,
    /// How many there are.
    pub nodes: u32,
}

/// What a pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PoolMode {
    /// May hold the cluster's own pods.
    System,
    /// For your pods.
    User,
}

impl PoolMode {
    /// The name in the lab file and in the label `kubernetes.azure.com/mode`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
        }
    }
}

/// Operating system of a pool's nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Os {
    /// Linux.
    #[default]
    Linux,
    /// Windows Server (AKS and sim).
    Windows,
}

impl Os {
    /// The name in the lab file and in the label `kubernetes.io/os`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Windows => "windows",
        }
    }
}

/// Devices that are alike and that a node has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Devices {
    /// Their class.
    pub class: String,
    /// Their driver; defaults to the class's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// How many.
    pub count: u32,
    /// What they are like; amounts are their capacity.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, DeviceAttribute>,
}

impl Devices {
    /// The driver's name.
    pub fn driver(&self) -> &str {
        self.driver.as_deref().unwrap_or(&self.class)
    }
}

/// What a device is like in one respect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DeviceAttribute {
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(i64),
    /// A text, or an amount.
    Text(String),
}

/// Spot capacity of Azure.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// Greatest price per hour in US dollars; none: up to the regular price.
    pub max_price: Option<f64>,
    /// What happens to an evicted node.
    pub eviction: Eviction,
}

/// What happens to an evicted spot node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Eviction {
    /// The node is deleted.
    #[default]
    Delete,
    /// The node is stopped and kept.
    Deallocate,
}

impl Eviction {
    /// The name az expects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::Deallocate => "Deallocate",
        }
    }
}

/// Bounds of the cluster autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Autoscale {
    /// Fewest nodes.
    #[schemars(range(max = 1000))]
    pub min: u32,
    /// Most nodes.
    #[schemars(range(max = 1000))]
    pub max: u32,
}

impl Pool {
    /// Whether Azure makes single virtual machines for it, and no scale set.
    pub fn is_virtual_machines(&self) -> bool {
        !self.scale.is_empty()
    }

    /// The pool once for each size of its nodes, each with the nodes of that size alone; a scale set as it is.
    pub fn parts(&self) -> Vec<Cow<'_, Self>> {
        if self.scale.len() <= 1 {
            return vec![Cow::Borrowed(self)];
        }
        let part = |profile: &ScaleProfile| {
            Cow::Owned(Self {
                nodes: Located::new(profile.nodes, self.nodes.at.clone()),
                size: Some(profile.size.clone()),
                machine: profile.machine.clone(),
                scale: vec![profile.clone()],
                ..self.clone()
            })
        };
        self.scale.iter().map(part).collect()
    }

    /// The nodes of each size of a pool of type VirtualMachines.
    pub fn sizes(&self) -> BTreeMap<String, u32> {
        self.scale.iter().map(|profile| (profile.size.value.clone(), profile.nodes)).collect()
    }

    /// Gives the pool this many nodes; one of several sizes has no way to say of which.
    pub fn set_nodes(&mut self, nodes: Located<u32>) {
        match self.scale.as_mut_slice() {
            [] => self.nodes = nodes,
            [only] => {
                only.nodes = nodes.value;
                self.nodes = nodes;
            }
            _ => {}
        }
    }

    /// Why the embedded cluster cannot upgrade the pool with surge nodes; none where it can.
    // See https://learn.microsoft.com/azure/aks/virtual-machines-node-pools (says nothing of surge nodes)
    pub fn surge_refusal(&self) -> Option<&'static str> {
        let is_unsaid = self.scale.len() > 1 && !self.upgrade.surge().is_none();
        is_unsaid.then_some("AKS does not say which size surge nodes have in a pool of several sizes")
    }

    /// The labels of the pool's nodes on every provider: the author's, and those that AKS sets (kind and sim follow it).
    /// The host name is left out, for it is different on every node.
    pub fn node_labels(&self, location: &str, zone: Option<u8>) -> BTreeMap<String, String> {
        let mut labels: BTreeMap<_, _> =
            self.labels.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect();
        let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
        for key in [POOL_LABEL, AKS_POOL_LABEL] {
            set(key, &self.name);
        }
        set(MODE_LABEL, self.mode.as_str());
        set("kubernetes.azure.com/role", "agent");
        for (key, value) in platform_labels(self.os.as_str(), self.machine.arch()) {
            set(key, value);
        }
        if let Some(size) = &self.size {
            for key in ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"] {
                set(key, size);
            }
        }
        // AKS writes zone `0` on the nodes of a pool without zones.
        let zone = zone.map_or_else(|| "0".to_owned(), |zone| format!("{location}-{zone}"));
        for (key, value) in [
            ("topology.kubernetes.io/region", location),
            ("failure-domain.beta.kubernetes.io/region", location),
            ("topology.kubernetes.io/zone", &zone),
            ("failure-domain.beta.kubernetes.io/zone", &zone),
        ] {
            set(key, value);
        }
        if self.spot.is_some() {
            set(SPOT_LABEL, "spot");
        }
        labels
    }

    /// The taints of the pool's nodes on every provider: the author's, and that of spot nodes.
    pub fn node_taints(&self) -> Vec<Taint> {
        let mut taints: Vec<_> = self.taints.iter().map(|taint| taint.value.clone()).collect();
        if self.spot.is_some() && !taints.iter().any(|taint| taint.key == SPOT_LABEL) {
            taints.push(Taint {
                key: SPOT_LABEL.to_owned(),
                value: Some("spot".to_owned()),
                effect: "NoSchedule".to_owned(),
                time_added: None,
            });
        }
        taints
    }

    /// The zone of the pool's node with this index: zones take turns.
    pub fn zone_of(&self, index: usize) -> Option<u8> {
        self.zones.get(index.checked_rem(self.zones.len())?).copied()
    }
}
