//! How an ephemeral cluster is made.

use crate::webhooks::Webhooks;
use klab_cluster::control::Controller;

/// What the kubeconfig calls cluster, user and context.
pub const CONTEXT: &str = "klab-ephemeral";

/// How an ephemeral cluster is made.
#[derive(Debug, Clone, Default)]
pub struct EphemeralOptions {
    /// The number of nodes, `node-0` and on, as [`ClusterBuilder::nodes`](klab_cluster::ClusterBuilder::nodes) makes them.
    pub nodes: usize,
    /// Names, uids and the scheduler's choice among equal nodes follow from it.
    pub seed: u64,
    /// Where it takes its time from.
    pub time: Time,
    /// Controllers that do not act in it.
    pub switched_off: Vec<Controller>,
    /// Port on 127.0.0.1; any that is free where nothing is said.
    pub port: Option<u16>,
    /// Which webhooks it may call.
    pub webhooks: Webhooks,
}

/// Where an ephemeral cluster takes its time from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Time {
    /// From the machine's clock.
    #[default]
    Machine,
    /// From a clock that stands still until somebody moves it through the API: every request is answered when all that
    /// follows from it has been done.
    Stepped,
}
