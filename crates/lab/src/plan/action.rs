//! One thing to do to a cluster, and its words.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::spec::UpgradeKind;
use crate::words::{nodes_of_size, plural};

/// One thing to do to the cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Make the cluster.
    CreateCluster,
    /// Bring the control plane to a newer Kubernetes version.
    UpgradeCluster {
        /// The version it has.
        from: String,
        /// The version it is to have.
        to: String,
    },
    /// Give the cluster autoscaler these settings, by the names of AKS's profile; the others get their defaults.
    SetAutoscaler {
        /// What changes, in words.
        changes: Vec<String>,
    },
    /// Make a pool with all its nodes.
    AddPool {
        /// The pool.
        pool: String,
        /// How many nodes.
        nodes: u32,
        /// Of which size.
        size: String,
        /// The availability zones that its nodes are spread over.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        zones: Vec<u8>,
    },
    /// Add or remove nodes of a pool.
    ScalePool {
        /// The pool.
        pool: String,
        /// Nodes it has.
        from: u32,
        /// Nodes it is to have.
        to: u32,
        /// Of a pool whose nodes are single virtual machines: how many nodes of each size that changes there are, and will be.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        sizes: BTreeMap<String, (u32, u32)>,
    },
    /// Change mode, labels, taints or autoscaler of a pool in place.
    UpdatePool {
        /// The pool.
        pool: String,
        /// What changes, in words.
        changes: Vec<String>,
    },
    /// Recreate a pool, because something changed that nodes cannot change.
    ReplacePool {
        /// The pool.
        pool: String,
        /// How many nodes.
        nodes: u32,
        /// What changes, in words.
        changes: Vec<String>,
    },
    /// Upgrade the nodes of a pool as AKS does it, in place of their replacement.
    UpgradePool {
        /// The pool.
        pool: String,
        /// To what.
        #[serde(skip_serializing_if = "UpgradeKind::is_usual")]
        kind: UpgradeKind,
        /// How many nodes.
        nodes: u32,
        /// What changes, in words.
        changes: Vec<String>,
        /// Whether it is only begun.
        no_wait: bool,
    },
    /// Remove a pool with all its nodes.
    RemovePool {
        /// The pool.
        pool: String,
        /// Nodes it has.
        nodes: u32,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateCluster => write!(formatter, "create the cluster"),
            Self::UpgradeCluster { from, to } => {
                write!(formatter, "upgrade the control plane from Kubernetes {from} to {to}")
            }
            Self::SetAutoscaler { changes } => write!(formatter, "set the cluster autoscaler: {}", changes.join(", ")),
            Self::AddPool { pool, nodes, size, zones } => {
                let zones = match zones.as_slice() {
                    [] => String::new(),
                    [one] => format!(", zone {one}"),
                    all => format!(", zones {}", all.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")),
                };
                write!(formatter, "add pool {pool} ({}{zones})", nodes_of_size(*nodes, size))
            }
            Self::ScalePool { pool, from, to, sizes } => {
                write!(formatter, "scale pool {pool} {}", scale_text(*from, *to, sizes))
            }
            Self::UpdatePool { pool, changes } => write!(formatter, "change pool {pool}: {}", changes.join(", ")),
            Self::ReplacePool { pool, changes, .. } => {
                write!(formatter, "replace the nodes of pool {pool}: {}", changes.join(", "))
            }
            Self::UpgradePool { pool, kind: UpgradeKind::Rollback, changes, .. } => {
                write!(formatter, "roll back the nodes of pool {pool}: {}", changes.join(", "))
            }
            Self::UpgradePool { pool, changes, .. } => {
                write!(formatter, "upgrade the nodes of pool {pool}: {}", changes.join(", "))
            }
            Self::RemovePool { pool, nodes } => {
                write!(formatter, "remove pool {pool} and its {}", plural(*nodes as usize, "node"))
            }
        }
    }
}

/// How a pool is scaled, in words: `from 2 to 3 nodes`, with the sizes of single virtual machines.
pub fn scale_text(from: u32, to: u32, sizes: &BTreeMap<String, (u32, u32)>) -> String {
    let each: Vec<String> = sizes.iter().map(|(size, (from, to))| format!("{size} from {from} to {to}")).collect();
    let each = if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) };
    format!("from {from} to {}{each}", plural(to as usize, "node"))
}
