//! A lab's site in Azure, as it is handed to whatever works on it: the az of its subscription, and where the lab is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::arguments::{self, Arguments};
use super::az::Az;
use super::azure_site::AzureSite;
use super::requested_pools::RequestedPools;
use klab_lab::spec::{Lab, Pool};

/// Where a lab is, with the az that reaches it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) az: &'a Az,
    pub(super) place: &'a AzureSite,
}

/// A site and the lab that is made there.
#[derive(Debug)]
pub(super) struct LabSite<'a> {
    pub(super) site: Site<'a>,
    pub(super) lab: &'a Lab,
    /// The tags of everything that is made.
    pub(super) tags: BTreeMap<String, String>,
    /// What klab has asked for there.
    pub(super) asked: RequestedPools,
    /// Where the lab's kubeconfig is, or is to be.
    pub(super) kubeconfig: PathBuf,
}

impl LabSite<'_> {
    /// What asks for the cluster with its first pool.
    pub(super) fn cluster_create(&self, first: &Pool) -> Arguments {
        arguments::cluster_create(self.lab, self.site.place, first, &self.tags)
    }

    /// What asks for a pool, under its own name or under that of its stand-in.
    pub(super) fn pool_add(&self, pool: &Pool, name: &str) -> Arguments {
        arguments::pool_add(self.lab, self.site.place, pool, name, &self.tags)
    }

    /// The same with what brings it to all of its sizes.
    pub(super) fn pool_lines(&self, pool: &Pool, name: &str) -> Vec<Arguments> {
        let further = arguments::pool_further_sizes(self.site.place, pool, name);
        std::iter::once(self.pool_add(pool, name)).chain(further).collect()
    }
}
