//! One cluster of a server in this process, as a provider: a seat of a hosted class, or the template of its seats.

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::beginning::seed;
use super::{pools, upgrades};
use crate::error::{Code, Error, Result};
use crate::provider::{Options, Provider, Work};
use klab_cluster::Status;
use klab_lab::plan::{Action, Observed};
use klab_lab::spec::Lab;
use klab_server::Server;

/// A cluster of a server. Not to be used from within a runtime: it waits for what it does.
pub struct Seat {
    server: Arc<Server>,
    cluster: String,
    runtime: Runtime,
    client: Client,
}

fn failed(status: Status) -> Error {
    Error::message(Code::Server, status.message)
}

impl Seat {
    /// The cluster of this name.
    ///
    /// # Errors
    /// When there is none, or the system refuses a runtime.
    pub fn new(server: &Arc<Server>, cluster: &str) -> Result<Self> {
        let runtime = crate::client::runtime()?;
        let gone = || Error::message(Code::ClusterGone, format!("there is no cluster `{cluster}`"));
        let api = server.api(cluster).ok_or_else(gone)?;
        let client = runtime.block_on(async { api.client() });
        Ok(Self { server: Arc::clone(server), cluster: cluster.to_owned(), runtime, client })
    }

    /// A new cluster of this name that begins as one of the lab's does; its pools are still to be made.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn begin(server: &Arc<Server>, cluster: &str, lab: &Lab) -> Result<Self> {
        server.add(cluster, seed(lab, lab.sim.seed.unwrap_or_default())).map_err(failed)?;
        let seat = Self::new(server, cluster)?;
        let version = lab.kubernetes.as_ref().map(|version| version.value);
        seat.runtime.block_on(pools::answer_as(&seat.client, version))?;
        Ok(seat)
    }

    /// It, reached by a client that is made of the one it has.
    pub fn reached_by(self, client: impl FnOnce(Client) -> Client) -> Self {
        let client = self.runtime.block_on(async { client(self.client.clone()) });
        Self { client, ..self }
    }

    /// Runs requests of [`Seat::client`].
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The cluster's API.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl Provider for Seat {
    fn preflight(&self, _: &Lab) -> Vec<Error> {
        Vec::new()
    }

    fn observe(&self, _: &str, file: Option<&Lab>) -> Result<Observed> {
        self.runtime.block_on(pools::observe(&self.client, file))
    }

    fn perform_all(&self, lab: &Lab, actions: &[Action], _: &Options, work: &mut Work<'_>) -> Result<()> {
        let make = async |nodes: Vec<Value>| self.server.add_objects(&self.cluster, &nodes).map_err(failed);
        let pass = async |time| tokio::time::sleep(time).await;
        let perform =
            |action| self.runtime.block_on(pools::perform(&self.client, make, pass, lab, action, work.events));
        actions.iter().try_for_each(perform)
    }

    fn abort_upgrade(&self, _: &Lab, pool: &str) -> Result<()> {
        self.runtime.block_on(upgrades::abort(&self.client, pool))
    }

    fn kubeconfig(&self, lab: &str) -> Result<PathBuf> {
        let message = format!("the cluster of lab `{lab}` is inside this process; no kubeconfig leads to it");
        Err(Error::message(Code::KlabFault, message))
    }

    fn remove(&self, _: &str, _: &mut Work<'_>) -> Result<()> {
        self.server.remove(&self.cluster).map(drop).map_err(failed)
    }

    fn remains(&self, lab: &str) -> Result<Vec<String>> {
        let is_there = self.server.api(&self.cluster).is_some();
        Ok(is_there.then(|| format!("the cluster of lab `{lab}`")).into_iter().collect())
    }
}
