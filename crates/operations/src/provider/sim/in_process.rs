//! The embedded cluster inside this process, as a provider: no server, no network, time that is stepped.
//!
//! The cluster ends with this value. Pools are changed by the same code as on the server (`pools`).

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use kube::Client;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::beginning::seed;
use super::pools;
use crate::error::{Code, Context, Error, Result};
use crate::provider::{Options, Provider, Work};
use klab_cluster::Cluster;
use klab_cluster::seed::Seed;
use klab_lab::plan::{Action, Observed};
use klab_lab::spec::Lab;

/// One lab on a cluster of this process.
pub struct InProcess {
    runtime: Runtime,
    cluster: RefCell<Option<(Cluster, Client)>>,
    seed: u64,
    ties_by_name: bool,
}

impl InProcess {
    /// The provider for one lab; `seed` decides names and every choice between equal nodes.
    ///
    /// # Errors
    /// When the system refuses a runtime.
    pub fn new(seed: u64) -> Result<Self> {
        // Of its own: nothing here waits for a network or for the machine's clock.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .code(Code::MachineRefused, || "could not start the runtime of the embedded cluster".to_owned())?;
        Ok(Self { runtime, cluster: RefCell::default(), seed, ties_by_name: false })
    }

    /// The same, where the first by name of equal nodes is chosen: clusters whose nodes differ in their names alone are equal.
    #[must_use]
    pub fn with_ties_by_name(self) -> Self {
        Self { ties_by_name: true, ..self }
    }

    /// The cluster.
    ///
    /// # Errors
    /// When it was not made yet, or was removed.
    pub fn cluster(&self) -> Result<Cluster> {
        Ok(self.made()?.0)
    }

    /// A client of the cluster, for futures that [`InProcess::block_on`] runs.
    ///
    /// # Errors
    /// When it was not made yet, or was removed.
    pub fn client(&self) -> Result<Client> {
        Ok(self.made()?.1)
    }

    /// The runtime that drives the client.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Runs a future that talks to the cluster.
    ///
    /// # Errors
    /// Those of the future.
    pub fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(future)
    }

    /// How long the cluster has existed, on its own clock.
    pub fn age(&self) -> Duration {
        let age = self.cluster.borrow().as_ref().map(|(cluster, _)| cluster.age());
        age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default()
    }

    /// Lets so much of the cluster's time pass.
    pub fn pass(&self, duration: Duration) {
        let Ok((cluster, _)) = self.made() else { return };
        let by = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        if let Ok(until) = cluster.now().checked_add(by) {
            cluster.pass_until(until);
        }
    }

    fn made(&self) -> Result<(Cluster, Client)> {
        let made = self.cluster.borrow().clone();
        made.ok_or_else(|| Error::message(Code::KlabFault, "the embedded cluster was not made yet"))
    }

    fn create(&self, lab: &Lab) -> Result<()> {
        let seed = Seed { ties_by_name: self.ties_by_name, ..seed(lab, self.seed) };
        let cluster = Cluster::new(&lab.name.value, &seed)
            .map_err(|status| Error::message(Code::KlabFault, status.message))
            .map_err(|error| {
                Error::new(Code::KlabFault, error.source.context("could not make the embedded cluster"))
            })?;
        let client = self.runtime.block_on(async { cluster.client() });
        self.cluster.replace(Some((cluster, client)));
        self.answer_as_of(lab)
    }

    fn answer_as_of(&self, lab: &Lab) -> Result<()> {
        let version = lab.kubernetes.as_ref().map(|version| version.value);
        let (_, client) = self.made()?;
        self.block_on(pools::answer_as(&client, version))
    }

    fn perform(&self, lab: &Lab, action: &Action, work: &mut Work<'_>) -> Result<()> {
        if *action == Action::CreateCluster {
            return self.create(lab);
        }
        let (cluster, client) = self.made()?;
        let make = async |nodes: Vec<Value>| {
            cluster.add_objects(&nodes).map_err(|status| Error::message(Code::KlabFault, status.message))
        };
        let pass = async |time| self.pass(time);
        self.block_on(pools::perform(&client, make, pass, lab, action, work.events))
    }
}

impl Provider for InProcess {
    fn preflight(&self, _: &Lab) -> Vec<Error> {
        Vec::new()
    }

    fn observe(&self, _: &str, file: Option<&Lab>) -> Result<Observed> {
        let Ok((_, client)) = self.made() else { return Ok(Observed::default()) };
        self.block_on(async { pools::observe(&client, file).await })
    }

    fn perform_all(&self, lab: &Lab, actions: &[Action], _: &Options, work: &mut Work<'_>) -> Result<()> {
        actions.iter().try_for_each(|action| self.perform(lab, action, work))
    }

    fn restore_system(&self, lab: &Lab) -> Result<Vec<String>> {
        self.answer_as_of(lab)?;
        let made = self.cluster()?.replenish(&lab.name.value, &seed(lab, self.seed));
        made.map_err(|status| Error::message(Code::KlabFault, status.message))
    }

    fn kubeconfig(&self, lab: &str) -> Result<PathBuf> {
        let message = format!("the cluster of lab `{lab}` is inside this process; no kubeconfig leads to it");
        Err(Error::message(Code::KlabFault, message))
    }

    fn remove(&self, _: &str, _: &mut Work<'_>) -> Result<()> {
        self.cluster.replace(None);
        Ok(())
    }

    fn remains(&self, lab: &str) -> Result<Vec<String>> {
        let there = self.cluster.borrow().is_some();
        Ok(there.then(|| format!("the cluster of lab `{lab}`")).into_iter().collect())
    }
}
