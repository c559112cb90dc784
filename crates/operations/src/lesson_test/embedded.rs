//! A lesson on a cluster inside this process, whose time passes as fast as there is something to do.

use std::cell::RefCell;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::ResourceId;
use kube::Client;
use serde_json::Value;

use super::look::{ObservedCluster, complete};
use super::run::TestCluster;
use crate::apply::Applier;
use crate::error::{Code, Error, Result};
use crate::event::Events;
use crate::lesson::session::Act;
use crate::lesson::{self, Performer, Time};
use crate::observe;
use crate::provider::sim::in_process::InProcess;
use crate::provider::{Options, Provider, Work};
use crate::render;
use crate::state::Journal;
use crate::until_decided::{self, Until, look_until};
use klab_cluster::clock::later;
use klab_lab::plan::plan;
use klab_lab::spec::Lab;
use klab_lab::verify::{Report, Snapshot};

/// A world of its own for one trial.
pub struct EmbeddedTestCluster {
    provider: InProcess,
    look: RefCell<ObservedCluster>,
}

impl EmbeddedTestCluster {
    /// A world without a cluster yet. Programs cannot reach it, so steps may not run any.
    ///
    /// # Errors
    /// When the system refuses a runtime.
    pub fn new(seed: u64) -> Result<Self> {
        Ok(Self { provider: InProcess::new(seed)?, look: RefCell::default() })
    }

    /// Brings a lesson back to its set-up, however far it has come, as `klab up` does.
    ///
    /// # Errors
    /// Whatever keeps it from coming back.
    pub fn back(&self, lab: &Lab, timeout: Duration) -> Result<Report> {
        self.up(lab)?;
        let report = self.wait(lab, timeout)?;
        if report.ok() {
            return Ok(report);
        }
        let (mut journal, events) = (Journal::nowhere(), Events::nowhere());
        let mut work = Work { journal: &mut journal, events: &events };
        let client = self.provider.client()?;
        let restarted = lesson::restart_misplaced(&self.performer(&client), lab, &report, &mut work)?;
        if restarted { self.wait(lab, timeout) } else { Ok(report) }
    }

    /// A client of the cluster, for futures that [`EmbeddedTestCluster::block_on`] runs.
    ///
    /// # Errors
    /// When it was not made yet.
    pub fn client(&self) -> Result<Client> {
        self.provider.client()
    }

    /// The objects of these kinds, each with its own kind.
    ///
    /// # Errors
    /// When the cluster was not made yet.
    pub fn objects(&self, kinds: impl Iterator<Item = ResourceId>) -> Result<Vec<Value>> {
        let embedded = self.provider.cluster()?;
        Ok(kinds.flat_map(|kind| embedded.inner().list(kind, None).0).map(|object| object.to_value()).collect())
    }

    /// Runs a future that talks to the cluster.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.provider.runtime().block_on(future)
    }

    fn performer<'w>(&'w self, client: &'w Client) -> Performer<'w> {
        let provider = &self.provider;
        Performer { runtime: provider.runtime(), client, provider, time: provider, run: None }
    }

    async fn seen(&self, lab: &Lab) -> Result<Snapshot> {
        let mut snapshot = self.look.borrow_mut().look(self.provider.cluster()?.inner())?;
        let client = self.provider.client()?;
        observe::fetch(&client, &lab.checks, &mut snapshot).await?;
        Ok(snapshot)
    }
}

/// The cluster of a world, whose time is passed to the moments at which it or a verdict may change.
struct Stepped<'w> {
    world: &'w EmbeddedTestCluster,
    lab: &'w Lab,
    begun: Timestamp,
    /// When the cluster changes next by itself.
    due: Option<Timestamp>,
}

impl Stepped<'_> {
    async fn settled(&mut self) -> Result<Snapshot> {
        self.due = self.world.provider.cluster()?.settle();
        self.world.seen(self.lab).await
    }
}

impl until_decided::PolledCluster for Stepped<'_> {
    fn elapsed(&self) -> Duration {
        let now = self.world.provider.cluster().map_or(self.begun, |cluster| cluster.now());
        now.duration_since(self.begun).unsigned_abs()
    }

    fn first(&mut self) -> impl Future<Output = Result<Snapshot>> {
        self.settled()
    }

    async fn again(&mut self, _: Snapshot, until: Duration) -> Result<Snapshot> {
        let embedded = self.world.provider.cluster()?;
        let until = later(self.begun, SignedDuration::try_from(until).unwrap_or(SignedDuration::MAX));
        // Nothing is left to do at this instant: on to the moment at which the cluster or a verdict may change.
        let due = self.due.filter(|due| *due > embedded.now());
        embedded.pass_until(due.map_or(until, |due| due.min(until)));
        self.settled().await
    }

    async fn complete(&mut self, snapshot: &mut Snapshot) -> Result<()> {
        complete(self.world.provider.cluster()?.inner(), snapshot)
    }
}

impl TestCluster for EmbeddedTestCluster {
    fn up(&self, lab: &Lab) -> Result<()> {
        let (mut journal, events) = (Journal::nowhere(), Events::nowhere());
        let mut work = Work { journal: &mut journal, events: &events };
        let observed = self.provider.observe(&lab.name.value, Some(lab))?;
        let actions = plan(lab, &observed);
        self.provider.perform_all(lab, &actions, &Options::default(), &mut work)?;
        let client = self.provider.client()?;
        let lab = &*self.provider.block_on(observe::nodes_named(&client, lab))?;
        let manifests = render::render(lab).map_err(|diagnostics| Error {
            diagnostics: diagnostics.render(true),
            ..Error::message(Code::InvalidLab, "the lab's objects could not be rendered")
        })?;
        if observed.exists {
            self.provider.restore_system(lab)?;
            self.provider.block_on(lesson::reset(&client, lab, &mut work))?;
        }
        let known = (0..lab.steps.len()).flat_map(|step| lesson::step_kinds(lab, step)).collect();
        let mut applier = Applier::new(client, &lab.name.value);
        self.provider.block_on(applier.apply(&manifests, &known, false))?;
        Ok(())
    }

    fn wait(&self, lab: &Lab, timeout: Duration) -> Result<Report> {
        let mut stepped = Stepped { world: self, lab, begun: self.provider.cluster()?.now(), due: None };
        let looked = self.provider.block_on(look_until(&mut stepped, lab, Until::Decided(timeout), |_| {}));
        looked.map(|(report, _)| report)
    }

    fn snapshot(&self, lab: &Lab) -> Result<Snapshot> {
        self.provider.cluster()?.settle();
        self.provider.block_on(self.seen(lab))
    }

    fn act(&self, act: &mut Act<'_>) -> Result<()> {
        let (mut journal, events) = (Journal::nowhere(), Events::nowhere());
        let mut work = Work { journal: &mut journal, events: &events };
        let client = self.provider.client()?;
        act(&self.performer(&client), &mut work)
    }

    fn down(&self, lab: &Lab) -> Result<()> {
        let (mut journal, events) = (Journal::nowhere(), Events::nowhere());
        self.provider.remove(&lab.name.value, &mut Work { journal: &mut journal, events: &events })
    }

    fn cluster_time(&self) -> Duration {
        self.provider.age()
    }
}

impl Time for InProcess {
    fn now(&self) -> Duration {
        self.age()
    }

    fn pass(&self, duration: Duration) {
        self.pass(duration);
    }
}
