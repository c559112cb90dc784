//! What az knows that a lab file has no key for: resource groups, configured defaults, tags, and the names of clusters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is remembered beside the labs: in klab's home.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Resource groups that were made, by name in lower case.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Group>,
    /// What `az config set` said, by section and key: `defaults.group`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// A resource group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name as it was typed.
    pub name: String,
    /// Its region.
    pub location: String,
    /// Its tags; none were given where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
}

/// What is remembered of a lab's cluster: in the lab's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterNote {
    /// Its resource group, where it is not the one that klab would give it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What it is called, where it is not what klab would call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Its tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// `Free`, `Standard` or `Premium`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Its pools, as far as something is remembered of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, PoolNote>,
}

/// What is remembered of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolNote {
    /// Its tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// How many nodes it had when it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<u32>,
    /// The bounds of its autoscaler then.
    #[serde(skip_serializing_if = "Option::is_none")]
    autoscale: Option<(u32, u32)>,
}

/// How a pool was when it was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// How many nodes it had.
    pub nodes: u32,
    /// The bounds of its autoscaler.
    pub autoscale: Option<(u32, u32)>,
}

impl Group {
    /// Whether the group has a tag, written `KEY` or `KEY=VALUE`.
    pub fn has_tag(&self, tag: &str) -> bool {
        let (key, value) = tag.split_once('=').map_or((tag, None), |(key, value)| (key, Some(value)));
        let own = self.tags.as_ref().and_then(|tags| tags.get(key));
        own.is_some_and(|own| value.is_none_or(|value| own == value))
    }
}

impl ClusterNote {
    /// The note of a pool.
    pub fn pool(&mut self, name: &str) -> &mut PoolNote {
        self.pools.entry(name.to_owned()).or_default()
    }
}

impl PoolNote {
    /// How a pool was when it was stopped; none where it is not, as one that has nodes: somebody started it without az.
    pub fn stopped(&self, nodes: u32) -> Option<Stopped> {
        let before = self.stopped.filter(|_| nodes == 0)?;
        Some(Stopped { nodes: before, autoscale: self.autoscale })
    }

    /// Remembers that the pool is stopped, or that it is not.
    pub fn set_stopped(&mut self, stopped: Option<Stopped>) {
        self.stopped = stopped.map(|stopped| stopped.nodes);
        self.autoscale = stopped.and_then(|stopped| stopped.autoscale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_is_stopped_only_while_it_has_no_nodes() {
        let mut note = PoolNote::default();
        assert_eq!(note.stopped(0), None);
        let stopped = Stopped { nodes: 3, autoscale: Some((1, 5)) };
        note.set_stopped(Some(stopped));
        assert_eq!((note.stopped(0), note.stopped(1)), (Some(stopped), None));
        note.set_stopped(None);
        assert_eq!(note, PoolNote::default());
    }
}
