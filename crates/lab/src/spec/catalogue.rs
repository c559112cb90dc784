//! Where a lab stands in the list of lessons and tasks: its tracks, what it practises, how long it takes.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A way through the lessons and tasks that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Track {
    /// Where pods run, and why they do not.
    Scheduling,
    /// What the Certified Kubernetes Administrator exam asks about scheduling.
    Cka,
    /// Node pools of Azure Kubernetes Service.
    Aks,
    /// Running a cluster: drains, upgrades, devices, control plane.
    Operators,
}

impl Track {
    /// All tracks, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Scheduling, Self::Cka, Self::Aks, Self::Operators];
}

/// The word in the file and on the command line.
impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl std::str::FromStr for Track {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(|track| track.to_string()).join(", ");
        Self::ALL
            .into_iter()
            .find(|track| track.to_string() == word)
            .ok_or_else(|| format!("the tracks are {}", known()))
    }
}

/// What a lesson or task practises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// Labels of nodes and `nodeSelector`.
    Selectors,
    /// Node affinity, pod affinity and anti-affinity.
    Affinity,
    /// Taints and tolerations.
    Taints,
    /// Topology spread constraints.
    Spread,
    /// Requests and limits of pods.
    Requests,
    /// ResourceQuotas and LimitRanges.
    Quotas,
    /// PriorityClasses and preemption.
    Priority,
    /// Cordon, drain and disruption budgets.
    Drain,
    /// Volumes that tie a pod to nodes.
    Volumes,
    /// DaemonSets.
    Daemonsets,
    /// Replicas, rollouts, Jobs and autoscalers of pods.
    Workloads,
    /// Node pools and their autoscaler.
    Pools,
    /// Devices and claims for them.
    Devices,
    /// Pods that get no node by the usual way: `nodeName`, other schedulers, gates.
    Placement,
}

/// The word in the file.
impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Where a lab stands in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The tracks it belongs to.
    pub tracks: Vec<Track>,
    /// What it practises.
    pub topics: Vec<Topic>,
    /// How many minutes a learner needs.
    pub minutes: Option<u16>,
}
