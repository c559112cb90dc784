//! The pools that klab has asked for, as its journal says: they are the lab's where Azure does not tell their tags.

use std::collections::BTreeSet;
use std::path::Path;

use super::answer::AgentPool;
use super::azure_site::AzureSite;
use super::preflight::first_pool;
use crate::state::journal;
use klab_lab::spec::Lab;

/// Names of pools that klab has asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RequestedPools(BTreeSet<String>);

impl RequestedPools {
    /// Reads the journal in the lab's folder; nothing where it cannot be read. The first pool comes with the cluster.
    pub(super) fn read(folder: &Path, place: &AzureSite, lab: Option<&Lab>) -> Self {
        let entries = journal::read(folder).unwrap_or_default();
        let mut pools = BTreeSet::new();
        for entry in entries {
            let pool = entry.subject.strip_prefix(&place.cluster).and_then(|rest| rest.strip_prefix('/'));
            match (entry.action.as_str(), pool) {
                ("aks nodepool add", Some(pool)) => pools.extend([pool.to_owned()]),
                ("aks create", _) if entry.subject == place.cluster => {
                    pools.extend(lab.and_then(first_pool).map(|pool| pool.name.value.clone()));
                }
                _ => {}
            }
        }
        Self(pools)
    }

    /// Whether a pool, one of all in its cluster, is the lab's: its tags say so, or Azure tells no pool's tags and klab has asked for
    /// this one.
    pub(super) fn owns(&self, place: &AzureSite, pool: &AgentPool, all: &[AgentPool]) -> bool {
        match &pool.tags {
            Some(tags) => place.owns(tags),
            None => all.iter().all(|pool| pool.tags.is_none()) && self.0.contains(&pool.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::provider::aks::account::{Account, User};
    use crate::state::Journal;

    #[test]
    fn a_pool_is_klabs_where_azure_tells_no_tags_and_klab_asked_for_it() {
        let account = Account { id: "0000-1".to_owned(), user: User { name: "ann".to_owned() } };
        let (folder, place) = (tempfile::tempdir().unwrap(), AzureSite::of_name("taints", &account, "westeurope"));
        let mut journal = Journal::open(folder.path(), "up").unwrap();
        for (action, pool) in [("aks nodepool add", "extra"), ("aks nodepool delete", "theirs")] {
            journal.intend(action, &format!("{}/{pool}", place.cluster)).unwrap();
        }
        journal.intend("aks nodepool add", "another/pool").unwrap();
        let asked = RequestedPools::read(folder.path(), &place, None);
        let named = |name: &str, tags: Option<BTreeMap<String, String>>| AgentPool {
            name: name.to_owned(),
            tags,
            ..AgentPool::default()
        };
        let none = || Some(BTreeMap::new());
        for (name, tags, others, owned) in [
            ("extra", None, None, true),
            ("theirs", None, None, false),
            ("pool", None, None, false),
            // What Azure tells counts, and where it tells tags of any pool, one without has none.
            ("extra", none(), None, false),
            ("extra", None, none(), false),
        ] {
            let pool = named(name, tags.clone());
            let all = [pool.clone(), named("other", others)];
            assert_eq!(asked.owns(&place, &pool, &all), owned, "{name} {tags:?}");
        }
        assert_eq!(RequestedPools::read(&folder.path().join("none"), &place, None), RequestedPools::default());
    }
}
