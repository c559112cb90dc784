//! A lesson on a cluster inside this process, whose time passes as fast as there is something to do.

use std::cell::RefCell;
use std::time::Duration;

use jiff::SignedDuration;
use kube::Client;

use super::look::{Look, complete};
use super::run::World;
use crate::apply::Applier;
use crate::error::{Error, Kind, Result};
use crate::event::Events;
use crate::lesson::{self, Performer, Time};
use crate::observe;
use crate::provider::sim::in_process::InProcess;
use crate::provider::{Options, Provider, Work};
use crate::render;
use crate::state::Journal;
use klab_cluster::clock::later;
use klab_lab::plan::plan;
use klab_lab::spec::Lab;
use klab_lab::verify::{self, Report, Snapshot, Stability, Windows};

/// A world of its own for one trial.
pub struct EmbeddedWorld {
    provider: InProcess,
    look: RefCell<Look>,
}

impl EmbeddedWorld {
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

    /// A client of the cluster, for futures that [`EmbeddedWorld::block_on`] runs.
    ///
    /// # Errors
    /// When it was not made yet.
    pub fn client(&self) -> Result<Client> {
        self.provider.client()
    }

    /// Runs a future that talks to the cluster.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.provider.runtime().block_on(future)
    }

    fn performer<'w>(&'w self, client: &'w Client) -> Performer<'w> {
        let provider = &self.provider;
        Performer { runtime: provider.runtime(), client, provider, time: provider, run: None }
    }

    fn snapshot(&self, lab: &Lab) -> Result<Snapshot> {
        let mut snapshot = self.look.borrow_mut().look(self.provider.cluster()?.inner())?;
        let client = self.provider.client()?;
        self.provider.block_on(observe::fetch(&client, &lab.checks, &mut snapshot))?;
        Ok(snapshot)
    }
}

impl World for EmbeddedWorld {
    fn up(&self, lab: &Lab) -> Result<()> {
        let (mut journal, events) = (Journal::nowhere(), Events::nowhere());
        let mut work = Work { journal: &mut journal, events: &events };
        let observed = self.provider.observe_lab(lab)?;
        let actions = plan(lab, &observed);
        self.provider.perform_all(lab, &actions, &Options::default(), &mut work)?;
        let client = self.provider.client()?;
        let lab = &*self.provider.block_on(observe::nodes_named(&client, lab))?;
        let manifests = render::render(lab).map_err(|diagnostics| Error {
            diagnostics: diagnostics.render(true),
            ..Error::message(Kind::Usage, "the lab's objects could not be rendered")
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
        let embedded = self.provider.cluster()?;
        let begun = embedded.now();
        let at = |elapsed: Duration| later(begun, SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX));
        let judge = verify::Context::of(lab);
        let mut stability = Stability::new(Windows::of(Some(lab.provider)));
        loop {
            let due = embedded.settle();
            let elapsed = embedded.now().duration_since(begun).unsigned_abs();
            let mut snapshot = self.snapshot(lab)?;
            let mut seen = stability.observe(&lab.checks, &snapshot, &judge, elapsed);
            if seen.report.decided() || elapsed >= timeout {
                if !seen.report.ok() {
                    complete(embedded.inner(), &mut snapshot)?;
                    verify::diagnose(&mut seen.report, &lab.checks, &snapshot, &judge);
                }
                return Ok(seen.report);
            }
            // Nothing is left to do at this instant: on to the moment at which the cluster or a verdict may change.
            let again = at(seen.look_again_at.map_or(timeout, |at| at.min(timeout)));
            embedded.pass_until(due.filter(|due| *due > embedded.now()).map_or(again, |due| due.min(again)));
        }
    }

    fn look(&self, lab: &Lab) -> Result<Report> {
        self.provider.cluster()?.settle();
        Ok(verify::evaluate(&lab.checks, &self.snapshot(lab)?, &verify::Context::of(lab)))
    }

    fn perform(&self, lab: &Lab, step: usize) -> Result<()> {
        let (mut journal, events) = (Journal::nowhere(), Events::nowhere());
        let mut work = Work { journal: &mut journal, events: &events };
        let client = self.provider.client()?;
        self.performer(&client).perform(lab, step, &mut work)
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
