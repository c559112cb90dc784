//! What `klab az` remembers that a lab has no place for: groups, tags, configured defaults of klab's Azure, and of each lab what
//! its cluster and pools are called and marked with there.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::home::state_error;
use crate::error::Result;
use klab_cluster::server::files::write_private;

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
    /// How it is upgraded, by the keys of az's document.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub upgrade: BTreeMap<String, String>,
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

const FILE: &str = "azure.json";

impl Account {
    /// Where it is remembered.
    pub fn path(home: &Path) -> PathBuf {
        home.join(FILE)
    }

    /// Reads what is remembered in klab's home.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(home: &Path) -> Result<Self> {
        read(home)
    }

    /// Writes it; where there is nothing to remember, no file stays.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, home: &Path) -> Result<()> {
        write(self, home)
    }
}

impl ClusterNote {
    /// Reads what is remembered in a lab's folder.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(folder: &Path) -> Result<Self> {
        read(folder)
    }

    /// Writes it; where there is nothing to remember, no file stays.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write(self, folder)
    }

    /// The note of a pool.
    pub fn pool(&mut self, name: &str) -> &mut PoolNote {
        self.pools.entry(name.to_owned()).or_default()
    }
}

/// A file that says nothing is none: only what az was told beyond the lab is lost with it.
fn read<T: Default + DeserializeOwned>(folder: &Path) -> Result<T> {
    let path = folder.join(FILE);
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(state_error(error, "read", &path)),
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
    }
}

fn write<T: Default + PartialEq + Serialize>(value: &T, folder: &Path) -> Result<()> {
    let path = folder.join(FILE);
    if *value == T::default() {
        return match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(state_error(error, "remove", &path)),
            _ => Ok(()),
        };
    }
    let failed = |error| state_error(error, "write", &path);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let text = serde_json::to_vec_pretty(value).map_err(io::Error::other).map_err(failed)?;
    write_private(&path, &text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_comes_back_and_nothing_needs_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Account::read(folder.path()).unwrap(), Account::default());
        let mut account = Account::default();
        account.settings.insert("defaults.group".to_owned(), "rg".to_owned());
        account.write(folder.path()).unwrap();
        assert_eq!(Account::read(folder.path()).unwrap(), account);
        Account::default().write(folder.path()).unwrap();
        assert!(!folder.path().join(FILE).exists());
        std::fs::write(folder.path().join(FILE), "{ torn").unwrap();
        assert_eq!(ClusterNote::read(folder.path()).unwrap(), ClusterNote::default());
    }

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
