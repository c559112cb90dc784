//! What a step is performed with: the cluster, its provider, a clock, and whether programs may run.

use std::path::Path;

use kube::Client;
use tokio::runtime::Runtime;

use super::time::Time;
use crate::provider::Provider;

/// Performs steps on one cluster. Everything outside comes in through it, so that a test can give it a cluster in process
/// and a clock that is stepped. Not to be called from within a runtime: providers wait for what they do.
pub struct Performer<'a> {
    /// Runs requests; the client was made on it.
    pub runtime: &'a Runtime,
    /// The cluster.
    pub client: &'a Client,
    /// Who makes pools, and stops and starts nodes.
    pub provider: &'a dyn Provider,
    /// What waiting goes through.
    pub time: &'a dyn Time,
    /// How programs of `run` are started; none: they are refused.
    pub run: Option<Run<'a>>,
}

/// How programs of `run` are started.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Their `KUBECONFIG`.
    pub kubeconfig: &'a Path,
    /// The folder they start in: that of the lab file.
    pub folder: &'a Path,
}
