//! Upgrades of node pools on the embedded cluster, as a ConfigMap of the cluster says them: what was asked for, and how far it is.
//!
//! Who upgrades a pool writes an entry; the upgrader notes its progress there and, in the end, what came of it. Experimental.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::node_pools::NodePool;

/// The ConfigMap with the upgrades, each under the name of its pool, as JSON. It is in [`NAMESPACE`](crate::node_pools::NAMESPACE).
pub const POOL_UPGRADES: &str = "node-pool-upgrades";
/// The label of a node that an upgrade could not drain and left cordoned.
pub const UPGRADE_STATUS_LABEL: &str = "kubernetes.azure.com/upgrade-status";
/// The value of that label.
pub const QUARANTINED: &str = "Quarantined";

/// The upgrade of one pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolUpgrade {
    /// What upgraded nodes are. Its bounds do not matter.
    pub pool: NodePool,
    /// How many nodes are added for the time of the upgrade; 0: nodes are upgraded in place.
    pub surge: u32,
    /// Most existing nodes that are cordoned and drained at the same time.
    pub at_once: u32,
    /// How long the drain of a node may take, in seconds.
    pub drain_timeout: u32,
    /// How long a node that is drained is left alone before it is reimaged, in seconds.
    pub soak: u32,
    /// Whether a node that cannot be drained stays cordoned and the upgrade goes on; else the upgrade ends there.
    pub quarantines: bool,
    /// Whether surge nodes take the place of the nodes, which are deleted: what machines are changes.
    #[serde(default)]
    pub replaces: bool,
    /// Set where every node gets a new one beside it before any is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blue_green: Option<BlueGreen>,
    /// What the pool can be rolled back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<UsedVersion>,
    /// The nodes to upgrade, in order.
    pub nodes: Vec<Member>,
    /// The nodes that were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub surge_nodes: Vec<Member>,
    /// What came of it, when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// The end of a blue-green upgrade: old nodes stay, drained, until it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlueGreen {
    /// How long all old nodes are left alone once they are drained, in seconds.
    pub final_soak: u32,
    /// When that is over; none while nodes are drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether it goes back: old nodes take pods again, and the new ones are drained and deleted.
    #[serde(default)]
    pub is_undone: bool,
}

/// The versions that a pool had before an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsedVersion {
    /// Of Kubernetes, `1.35.0`.
    pub kubernetes: String,
    /// Of the node image, in full.
    pub node_image: String,
    /// When the upgrade succeeded; none while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Timestamp>,
}

/// A node of an upgrade.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its number in the pool, counted from 0.
    pub number: u32,
    /// The place of its template among those of the pool, where its number does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<u32>,
    /// How far it is.
    pub phase: Phase,
}

/// How far a node is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Nothing has happened to it.
    Waiting,
    /// Its machine starts, or is reimaged, until then.
    Starting(Timestamp),
    /// Its pods are evicted.
    Draining {
        /// Since when.
        since: Timestamp,
        /// When evictions were tried last.
        tried: Timestamp,
    },
    /// It is empty and left alone, until then.
    Soaking(Timestamp),
    /// It is empty, and stays until all are.
    Drained,
    /// It could not be drained, for this reason.
    Blocked(String),
    /// It is a node of the new version.
    Upgraded,
    /// It is gone.
    Removed,
}

/// What came of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// Every node is upgraded.
    Succeeded,
    /// Nodes could not be drained, as AKS says it.
    Failed(String),
    /// The same, and there were fewer surge nodes than such nodes.
    Canceled(String),
}

impl PoolUpgrade {
    /// The upgrades of the ConfigMap. An entry that says nothing is none.
    pub fn read(config_map: &Value) -> BTreeMap<String, Self> {
        let entries = config_map["data"].as_object().into_iter().flatten();
        let read = |text: &Value| serde_json::from_str(text.as_str()?).ok();
        entries.filter_map(|(name, text)| Some((name.clone(), read(text)?))).collect()
    }

    /// A node that is to be upgraded, by its name and its internal address; none where the pool has no such address.
    pub fn member(pool: &NodePool, name: &str, address: &str) -> Option<Member> {
        let address: Ipv4Addr = address.parse().ok()?;
        let number = u32::from(address).checked_sub(u32::from(pool.first_address))?;
        Some(Member { name: name.to_owned(), number, template: None, phase: Phase::Waiting })
    }

    /// How many nodes are upgraded, and how many are to be.
    pub fn progress(&self) -> (usize, usize) {
        let done = self
            .nodes
            .iter()
            .filter(|node| matches!(node.phase, Phase::Upgraded | Phase::Removed | Phase::Drained))
            .count();
        (done, self.nodes.len())
    }

    /// What a pool has whose upgrade is under way: nodes that are there by the upgrade alone are none of it, and nodes that are
    /// being reimaged are.
    pub fn settle(&self, nodes: &mut Vec<Value>) {
        let is = |node: &Value, member: &Member| node["metadata"]["name"] == member.name;
        // Where surge nodes stay, each that is there stands for a node that has gone.
        let gone = self.nodes.iter().filter(|member| member.phase == Phase::Removed).count();
        let surplus: Vec<&Member> = self.surge_nodes.iter().skip(gone).collect();
        nodes.retain(|node| !surplus.iter().any(|member| is(node, member)));
        let reimaged = self.nodes.iter().filter(|member| matches!(member.phase, Phase::Starting(_)));
        nodes.extend(reimaged.filter_map(|member| self.pool.node(member.number, &member.name, member.template)));
    }

    /// Whether it goes back to the old nodes.
    pub fn is_undone(&self) -> bool {
        self.blue_green.is_some_and(|blue_green| blue_green.is_undone)
    }

    /// Whether it is blue-green and stopped halfway: old and new nodes stay until it goes on.
    pub fn is_halfway(&self) -> bool {
        self.blue_green.is_some() && matches!(self.end, Some(End::Failed(_) | End::Canceled(_)))
    }

    /// The same, to go on where it stopped: with this drain timeout, this pause between batches of this size, and this final soak, all
    /// in seconds.
    #[must_use]
    pub fn resumed(mut self, drain_timeout: u32, soak: u32, at_once: u32, final_soak: u32) -> Self {
        for node in self.nodes.iter_mut().filter(|node| matches!(node.phase, Phase::Blocked(_))) {
            node.phase = Phase::Waiting;
        }
        let blue_green = Some(BlueGreen { final_soak, until: None, is_undone: false });
        if let Some(rollback) = &mut self.rollback {
            rollback.used = None;
        }
        Self { drain_timeout, soak, at_once, blue_green, end: None, ..self }
    }

    /// The same, canceled where it is: nodes stay as they are. In the final soak, the pool can be rolled back from then on. None where it
    /// is over, or is not blue-green.
    // See https://learn.microsoft.com/azure/aks/blue-green-node-pool-upgrade ("Pause or cancel a blue-green upgrade")
    pub fn aborted(mut self, now: Timestamp) -> Option<Self> {
        let is_soaking = self.blue_green.filter(|_| self.end.is_none())?.until.is_some();
        for node in &mut self.nodes {
            match node.phase {
                Phase::Draining { .. } => node.phase = Phase::Waiting,
                Phase::Soaking(_) => node.phase = Phase::Drained,
                _ => {}
            }
        }
        if let Some(rollback) = self.rollback.as_mut().filter(|_| is_soaking) {
            rollback.used = Some(now);
        }
        let end = End::Canceled("The operation was aborted.".to_owned());
        Some(Self { end: Some(end), ..self })
    }

    /// The same, to go back to the old nodes, which are such machines: where it was aborted in its final soak, or went back before and
    /// was blocked.
    // See https://learn.microsoft.com/azure/aks/blue-green-node-pool-upgrade ("Roll back a blue-green upgrade")
    pub fn undone(mut self, pool: NodePool) -> Option<Self> {
        let blue_green = self.blue_green.filter(|_| self.is_halfway())?;
        self.rollback.as_ref()?.used?;
        for node in self.surge_nodes.iter_mut().filter(|node| matches!(node.phase, Phase::Blocked(_))) {
            node.phase = Phase::Upgraded;
        }
        let blue_green = Some(BlueGreen { is_undone: true, ..blue_green });
        Some(Self { pool, blue_green, end: None, ..self })
    }

    /// The nodes that are being drained, in order.
    pub fn drained_nodes(&self) -> impl Iterator<Item = &str> {
        let all = self.nodes.iter().chain(&self.surge_nodes);
        all.filter(|node| matches!(node.phase, Phase::Draining { .. })).map(|node| node.name.as_str())
    }
}
