//! A lab as az shows it: a cluster of Azure with its pools.

use klab_az::cluster::Cluster;
use klab_az::names::Site;
use klab_az::notes::ClusterNote;
use klab_az::pool::Shown;
use klab_az::versions;
use klab_lab::plan::wanted_version;
use klab_lab::spec::{KubernetesVersion, Pool, Provider};

use crate::pool::LivePools;
use crate::state::operation::{Operation, Task};

/// A lab as a cluster of Azure.
pub struct Known {
    /// The lab.
    pub lab: String,
    /// Its resource group.
    pub group: String,
    /// What it is called.
    pub cluster: String,
    /// What is remembered of it.
    pub note: ClusterNote,
    /// Who holds it.
    pub provider: Provider,
    /// Operations that are under way, or that failed without a command that waited for them.
    pub operations: Vec<Operation>,
}

impl Known {
    /// Where it is said to be.
    pub fn site(&self, live: &LivePools) -> Site {
        Site { group: self.group.clone(), cluster: self.cluster.clone(), location: live.lab.aks.location.value.clone() }
    }

    /// What goes on with a pool, or with the cluster, or failed: Azure's `provisioningState`.
    pub fn state(&self, pool: Option<&str>) -> &'static str {
        let is_about = |operation: &&Operation| {
            let own = operation.pool.as_deref() == pool;
            own || operation.pool.is_none() && pool.is_some_and(|pool| operation.changes(pool))
        };
        match self.operations.iter().find(is_about) {
            None => "Succeeded",
            Some(Operation { failed: Some(_), .. }) => "Failed",
            Some(operation) => operation.doing.as_str(),
        }
    }

    /// Whether an operation is making it, or failed to.
    pub fn is_being_made(&self) -> bool {
        self.operations.iter().any(|operation| operation.tasks.contains(&Task::Make))
    }

    /// Whether it is in the group of this name; Azure does not look at capitals.
    pub fn is_in(&self, group: &str) -> bool {
        self.group.eq_ignore_ascii_case(group)
    }

    /// Whether names mean this cluster; Azure does not look at capitals.
    pub fn is(&self, group: &str, cluster: &str) -> bool {
        self.is_in(group) && self.cluster.eq_ignore_ascii_case(cluster)
    }
}

/// The version of a cluster's API server.
pub fn version(live: &LivePools) -> KubernetesVersion {
    let wanted = wanted_version(&live.lab, None).and_then(|text| text.parse().ok());
    wanted.unwrap_or_else(versions::newest)
}

/// The pools that there are, for what is shown of them.
pub struct Pools<'l> {
    live: &'l LivePools,
    wanted: Vec<Option<String>>,
}

impl<'l> Pools<'l> {
    /// The pools of a cluster.
    pub fn of(live: &'l LivePools) -> Self {
        let wanted = there(live).map(|pool| wanted_version(&live.lab, Some(pool))).collect();
        Self { live, wanted }
    }

    /// Each as az shows it.
    pub fn shown<'s>(&'s self, known: &'s Known) -> Vec<Shown<'s>> {
        let each = there(self.live).zip(&self.wanted);
        each.map(|(pool, wanted)| {
            let name = &pool.name.value;
            let seen = self.live.observed.pools.get(name);
            let (note, state) = (known.note.pools.get(name), known.state(Some(name)));
            let state = match seen {
                Some(seen) if state == "Succeeded" && seen.upgrading => "Upgrading",
                Some(seen) if state == "Succeeded" && seen.failed => "Failed",
                _ => state,
            };
            let version = seen.and_then(|seen| seen.kubernetes.as_deref());
            let image = seen.and_then(|seen| seen.node_image.as_deref());
            Shown { pool, version, image, wanted: wanted.as_deref(), note, state }
        })
        .collect()
    }
}

fn there(live: &LivePools) -> impl Iterator<Item = &Pool> {
    live.lab.pools.iter().filter(|pool| !pool.deferred)
}

/// A cluster as az shows it.
pub fn shown<'s>(site: &'s Site, known: &'s Known, live: &'s LivePools, pools: &'s Pools<'_>) -> Cluster<'s> {
    let version = version(live);
    Cluster {
        site,
        version,
        patched: live.observed.kubernetes.clone().unwrap_or_else(|| versions::patched(version)),
        pools: pools.shown(known),
        note: &known.note,
        is_stopped: live.observed.stopped,
        state: known.state(None),
        autoscaler: &live.observed.autoscaler,
    }
}
