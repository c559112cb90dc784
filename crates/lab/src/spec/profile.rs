//! What a provider is like: one row each, which the rules, the plan, the verdict and klab's commands ask in place of its name.

use std::time::Duration;

use super::lab::Lab;
use super::provider::{Provider, SimLike};
use super::source::Located;
use super::version::KubernetesVersion;
use crate::names::POOL_LABEL;

/// What a node of a provider is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeForm {
    /// An object of the cluster's API with nothing behind it, which obeys annotations in place of a power switch.
    Object,
    /// A container on this machine, which can be stopped and started.
    Container,
    /// A machine that the provider alone controls.
    Machine,
}

/// A row: what distinguishes one provider from the others, as far as more than its own files must know.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The provider.
    pub provider: Provider,
    /// What people call it in a sentence.
    pub title: &'static str,
    /// Whose nodes and system pods its clusters have; `None` where `sim.like` of the lab file decides.
    pub like: Option<SimLike>,
    /// What a node is.
    pub nodes: NodeForm,
    /// Whether the clusters are klab's own: one server on this machine holds all, and their scheduler takes a seed.
    pub is_embedded: bool,
    /// Whether klab makes the nodes. Else cluster and nodes are somebody else's: klab finds them, and changes nothing there but
    /// what it made itself.
    pub makes_nodes: bool,
    /// Whether the lab file can configure the scheduler.
    pub configures_scheduler: bool,
    /// Whether the lab file can switch feature gates.
    pub switches_features: bool,
    /// Whether what runs costs money.
    pub is_billed: bool,
    /// Whether pools are a service's, with rules of its own: it refuses custom machine sizes, reserved labels and taints without
    /// a value, keeps a pool's labels and taints apart from those of its nodes, and never goes back to an older version.
    pub has_managed_pools: bool,
    /// Whether a cluster autoscaler acts on pools with bounds.
    pub has_autoscaler: bool,
    /// Whether the control plane can be brought to another version while the nodes stay as they are.
    pub upgrades_control_plane: bool,
    /// Whether a node can run Windows.
    pub has_windows: bool,
    /// Whether a pool of the lab file can name its nodes.
    pub takes_node_names: bool,
    /// Whether the lab file can mount folders of this machine into nodes.
    pub mounts_folders: bool,
    /// The Kubernetes version that the provider's own table of the lab file asks for.
    pub own_version: fn(&Lab) -> Option<&Located<KubernetesVersion>>,
    /// How long nothing may change before a check counts as impossible: an embedded cluster acts within milliseconds, real
    /// ones take seconds between a cause and its effect.
    pub settle: Duration,
    /// How long pods must stay Pending where the check does not say (`hold`).
    pub pending: Duration,
    /// How many labs of a class klab works on at a time by default.
    pub labs_at_once: usize,
    /// How many labs `klab test` makes at a time by default; `None`: one for each processor.
    pub tests_at_once: Option<usize>,
}

/// The rows.
const PROFILES: [Profile; 4] = [
    Profile {
        provider: Provider::Sim,
        title: "the embedded cluster",
        like: None,
        nodes: NodeForm::Object,
        is_embedded: true,
        makes_nodes: true,
        configures_scheduler: true,
        switches_features: true,
        is_billed: false,
        has_managed_pools: false,
        has_autoscaler: true,
        upgrades_control_plane: true,
        has_windows: true,
        takes_node_names: true,
        mounts_folders: false,
        own_version: |_| None,
        settle: Duration::from_millis(500),
        pending: Duration::from_millis(250),
        // More than there are processors: making one is to a good part waiting for the disk.
        labs_at_once: 8,
        tests_at_once: None,
    },
    Profile {
        provider: Provider::Kind,
        title: "kind",
        like: Some(SimLike::Kind),
        nodes: NodeForm::Container,
        is_embedded: false,
        makes_nodes: true,
        configures_scheduler: true,
        switches_features: true,
        is_billed: false,
        has_managed_pools: false,
        has_autoscaler: false,
        upgrades_control_plane: false,
        has_windows: false,
        takes_node_names: true,
        mounts_folders: true,
        own_version: |_| None,
        settle: Duration::from_secs(5),
        pending: Duration::from_secs(3),
        // All containers are on this machine.
        labs_at_once: 2,
        tests_at_once: Some(1),
    },
    Profile {
        provider: Provider::Aks,
        title: "AKS",
        like: Some(SimLike::Aks),
        nodes: NodeForm::Machine,
        is_embedded: false,
        makes_nodes: true,
        configures_scheduler: true,
        switches_features: false,
        is_billed: true,
        has_managed_pools: true,
        has_autoscaler: true,
        upgrades_control_plane: true,
        has_windows: true,
        takes_node_names: false,
        mounts_folders: false,
        own_version: |lab| lab.aks.kubernetes.as_ref(),
        settle: Duration::from_secs(10),
        pending: Duration::from_secs(3),
        labs_at_once: 8,
        tests_at_once: Some(4),
    },
    Profile {
        provider: Provider::Existing,
        title: "a cluster that klab did not make",
        like: None,
        nodes: NodeForm::Machine,
        is_embedded: false,
        makes_nodes: false,
        configures_scheduler: false,
        switches_features: false,
        is_billed: false,
        has_managed_pools: false,
        upgrades_control_plane: false,
        has_windows: true,
        takes_node_names: false,
        has_autoscaler: false,
        mounts_folders: false,
        own_version: |_| None,
        settle: Duration::from_secs(10),
        pending: Duration::from_secs(3),
        labs_at_once: 1,
        tests_at_once: Some(1),
    },
];

impl Profile {
    /// Whether klab answers for Azure where az is asked of a cluster: its pools are klab's, and no service has them.
    pub const fn stands_in_for_azure(&self) -> bool {
        self.makes_nodes && !self.has_managed_pools
    }
}

impl Provider {
    /// The provider's row.
    pub const fn profile(self) -> &'static Profile {
        &PROFILES[self as usize]
    }
}

impl Lab {
    /// Whose nodes and system pods the lab's cluster has.
    pub fn like(&self) -> SimLike {
        self.provider.profile().like.unwrap_or(self.sim.like)
    }

    /// The lab as it is for an embedded cluster that stands in for its own: one that names nodes as its provider does.
    #[must_use]
    pub fn embedded(mut self) -> Self {
        self.sim.like = self.like();
        self.provider = Provider::Sim;
        for pool in &mut self.pools {
            pool.selector = [(POOL_LABEL.to_owned(), pool.name.value.clone())].into();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_its_own_row() {
        for provider in Provider::ALL {
            assert_eq!(provider.profile().provider, provider);
        }
        assert_eq!(PROFILES.len(), Provider::ALL.len());
    }
}
