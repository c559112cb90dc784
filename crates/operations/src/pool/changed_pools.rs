//! What klab keeps of pools that were changed by hand, until `up` brings the lab back to its file: a cluster does not say all
//! that a pool is, and of a pool without nodes it says nothing.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Table;

use crate::error::Result;
use crate::state::home::state_error;
use klab_lab::spec::KubernetesVersion;
use klab_server::files::write_private;

/// Pools that were added, changed or removed by hand, in the order of their first change: the nodes of a pool have their
/// addresses by its place among the others, so that none ever leaves the list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangedPools {
    /// The version of the cluster, where it was upgraded by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kubernetes: Option<String>,
    #[serde(default, rename = "pool")]
    pools: Vec<KeptPool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct KeptPool {
    name: String,
    keys: Table,
}

const FILE: &str = "pools.toml";

impl ChangedPools {
    /// What is kept in a lab's folder. A file that says nothing is none: what a pool is can be asked of its nodes.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(state_error(error, "read", &path)),
            Ok(text) => Ok(toml::from_str(&text).unwrap_or_default()),
        }
    }

    /// Writes it into a lab's folder.
    ///
    /// # Errors
    /// When the file system refuses; what was kept before is then still there.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let failed = |error| state_error(error, "write", &path);
        let text = toml::to_string(self).map_err(io::Error::other).map_err(failed)?;
        write_private(&path, text.as_bytes()).map_err(failed)
    }

    /// Forgets everything.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn clear(folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(state_error(error, "remove", &path)),
            _ => Ok(()),
        }
    }

    /// Forgets one pool, because a step has made of it what the lab file says.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn forget(folder: &Path, pool: &str) -> Result<()> {
        let mut kept = Self::read(folder)?;
        let before = kept.pools.len();
        kept.pools.retain(|known| known.name != pool);
        if kept.pools.len() == before { Ok(()) } else { kept.write(folder) }
    }

    /// The version of the cluster, where it was upgraded by hand.
    pub fn kubernetes(&self) -> Option<KubernetesVersion> {
        self.kubernetes.as_ref()?.parse().ok()
    }

    /// Keeps the version of the cluster.
    pub fn set_kubernetes(&mut self, version: KubernetesVersion) {
        self.kubernetes = Some(version.to_string());
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.pools.iter().map(|pool| &pool.name)
    }

    /// The keys of a pool.
    pub fn get(&self, name: &str) -> Option<&Table> {
        self.pools.iter().find(|pool| pool.name == name).map(|pool| &pool.keys)
    }

    /// Keeps a pool.
    pub fn put(&mut self, name: &str, keys: Table) {
        match self.pools.iter_mut().find(|pool| pool.name == name) {
            Some(pool) => pool.keys = keys,
            None => self.pools.push(KeptPool { name: name.to_owned(), keys }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_in_its_order_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(ChangedPools::read(folder.path()).unwrap(), ChangedPools::default());
        let keys = |nodes: i64| Table::from_iter([("nodes".to_owned(), nodes.into())]);
        let mut kept = ChangedPools::default();
        for (name, nodes) in [("zebra", 1), ("ant", 2), ("zebra", 3)] {
            kept.put(name, keys(nodes));
        }
        kept.write(folder.path()).unwrap();
        let read = ChangedPools::read(folder.path()).unwrap();
        assert_eq!(read.names().collect::<Vec<_>>(), ["zebra", "ant"]);
        assert_eq!(read.get("zebra"), Some(&keys(3)));
        ChangedPools::forget(folder.path(), "zebra").unwrap();
        assert_eq!(ChangedPools::read(folder.path()).unwrap().get("zebra"), None);
        std::fs::write(folder.path().join(FILE), "torn [").unwrap();
        assert_eq!(ChangedPools::read(folder.path()).unwrap(), ChangedPools::default());
        ChangedPools::clear(folder.path()).unwrap();
        ChangedPools::clear(folder.path()).unwrap();
    }
}
