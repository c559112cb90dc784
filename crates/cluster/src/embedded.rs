//! A cluster inside this process whose time stands still: it acts while a client talks to it, and waits otherwise.
//!
//! Nothing runs in the background. When no request is under way any more, the control plane does all that is due at this
//! instant, in the thread that asked; time passes only when the test steps it, from one due moment to the next. So equal
//! requests give equal clusters, and an eviction after five minutes takes microseconds.

mod builder;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod fault;
mod snapshot;

#[cfg(feature = "client")]
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::status::Status;
use serde_json::Value;

pub use self::builder::{BuildError, ClusterBuilder};
#[cfg(feature = "client")]
pub use self::fault::{Fault, Injected, Verb};
pub use self::snapshot::{KeptObjects, Snapshot};
use super::api::{Api, Metrics};
use super::clock::{SteppedClock, later};
use super::cluster;
use super::control::{ControlPlane, Progress, Settings};
use super::flavour::Flavour;
use super::seed::{Seed, add_objects};
use super::webhook::{NoWay, Transport};

/// How often the control plane is run again at one instant; each run does a million pieces of work.
const MAX_RUNS: usize = 4;

/// A Kubernetes cluster inside this process, on a clock that stands still until it is stepped.
///
/// Made by [`Cluster::builder`]. Cheap to clone; all clones are the same cluster.
#[derive(Clone)]
pub struct Cluster(Arc<Shared>);

struct Shared {
    api: Api,
    clock: Arc<SteppedClock>,
    /// What its clock showed when it was made.
    began: Timestamp,
    plane: Mutex<ControlPlane>,
    conduct: Conduct,
    /// Requests that have come and are not answered.
    #[cfg(feature = "client")]
    under_way: AtomicUsize,
    #[cfg(feature = "client")]
    faults: fault::Faults,
}

/// How a cluster acts, whatever it holds.
#[derive(Debug, Clone)]
struct Conduct {
    flavour: Flavour,
    settings: Settings,
    metrics: Metrics,
    /// Who carries calls to webhooks.
    webhooks: Arc<dyn Transport>,
}

impl Cluster {
    /// A cluster of this name as its seed says. Experimental; [`Cluster::builder`] is for tests.
    ///
    /// # Errors
    /// When the seed holds an object that is refused.
    pub fn new(name: &str, seed: &Seed) -> Result<Self, Status> {
        Self::planted(name, seed, seed.settings(), Arc::default(), Arc::new(NoWay))
    }

    /// A cluster on this clock that holds what a seed says.
    fn planted(
        name: &str,
        seed: &Seed,
        settings: Settings,
        clock: Arc<SteppedClock>,
        webhooks: Arc<dyn Transport>,
    ) -> Result<Self, Status> {
        let inner = cluster::Cluster::new(Arc::<SteppedClock>::clone(&clock), seed.seed);
        seed.fill(&inner, name)?;
        let conduct = Conduct { flavour: seed.flavour, settings, metrics: seed.metrics.metrics(), webhooks };
        Ok(Self::assembled(inner, conduct, clock))
    }

    /// A cluster of objects that are there, with all done that is due.
    fn assembled(inner: cluster::Cluster, conduct: Conduct, clock: Arc<SteppedClock>) -> Self {
        let inner = Arc::new(inner);
        inner.set_webhooks(Arc::clone(&conduct.webhooks));
        inner.set_flavour(conduct.flavour);
        inner.set_features(conduct.settings.features);
        let api = Api::new(inner);
        api.set_metrics(conduct.metrics);
        Self::behind(api, conduct, clock)
    }

    /// The cluster behind this API, with all done that is due.
    fn behind(api: Api, conduct: Conduct, clock: Arc<SteppedClock>) -> Self {
        let inner = Arc::clone(api.cluster());
        let began = inner.now();
        let plane = Mutex::new(ControlPlane::new(inner, conduct.settings.clone()));
        let cluster = Self(Arc::new(Shared {
            api,
            clock,
            began,
            plane,
            conduct,
            #[cfg(feature = "client")]
            under_way: AtomicUsize::new(0),
            #[cfg(feature = "client")]
            faults: fault::Faults::default(),
        }));
        cluster.settle();
        cluster
    }

    /// The cluster behind an API that somebody else serves, on this clock, which it reads, too. Experimental.
    pub fn served(
        api: Api,
        settings: Settings,
        metrics: Metrics,
        webhooks: Arc<dyn Transport>,
        clock: Arc<SteppedClock>,
    ) -> Self {
        Self::behind(api, Conduct { flavour: Flavour::default(), settings, metrics, webhooks }, clock)
    }

    /// Whether its control plane has seen all that has changed, as far as is known without waiting. Experimental.
    pub fn is_settled(&self) -> bool {
        self.0.plane.try_lock().is_ok_and(|plane| plane.seen() >= self.inner().version())
    }

    /// Makes what the cluster of this seed began with and has no more; gives what that was. Experimental.
    ///
    /// # Errors
    /// When an object is refused.
    pub fn replenish(&self, name: &str, seed: &Seed) -> Result<Vec<String>, Status> {
        seed.fill(self.inner(), name)
    }

    /// Makes objects, in this order; those that are there already stay as they are.
    ///
    /// # Errors
    /// When one is refused.
    pub fn add_objects(&self, objects: &[Value]) -> Result<(), Status> {
        add_objects(self.inner(), objects)?;
        self.settle();
        Ok(())
    }

    /// Its objects, without the API in front of them. Experimental.
    pub fn inner(&self) -> &Arc<cluster::Cluster> {
        self.0.api.cluster()
    }

    /// Its present.
    pub fn now(&self) -> Timestamp {
        self.inner().now()
    }

    /// How long it has existed.
    pub fn age(&self) -> SignedDuration {
        self.now().duration_since(self.0.began)
    }

    /// Has the control plane do all that is due now, which every answered request does, too; says when something is due
    /// next. It is of use where somebody else has stepped the clock.
    pub fn settle(&self) -> Option<Timestamp> {
        let mut plane = self.plane();
        let mut due = plane.run();
        for _ in 1..MAX_RUNS {
            if due.is_none_or(|due| due > self.now()) {
                break;
            }
            due = plane.run();
        }
        due
    }

    /// Lets so much time pass, from one due moment to the next: what takes Kubernetes five minutes takes microseconds.
    pub fn advance(&self, by: Duration) {
        let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        self.pass_until(later(self.now(), by));
    }

    /// Lets time pass until `instant`, from one due moment to the next.
    pub fn pass_until(&self, instant: Timestamp) {
        while let Some(due) = self.settle().filter(|due| *due > self.now() && *due <= instant) {
            self.0.clock.step_to(due);
        }
        self.0.clock.step_to(instant);
        self.settle();
    }

    /// [`Cluster::pass_until`] as long as `go_on` says so, which is asked between two pieces of work. Returns whether it came
    /// to the end. Experimental.
    pub fn pass_while(&self, instant: Timestamp, go_on: &mut dyn FnMut() -> bool) -> bool {
        loop {
            let Progress::Settled(due) = self.plane().run_while(go_on) else { return false };
            if self.now() < instant && !go_on() {
                return false;
            }
            match due.filter(|due| *due > self.now() && *due <= instant) {
                Some(due) => self.0.clock.step_to(due),
                None if self.now() < instant => self.0.clock.step_to(instant),
                None => return true,
            }
        }
    }

    fn plane(&self) -> MutexGuard<'_, ControlPlane> {
        self.0.plane.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cluster").field("now", &self.now()).finish_non_exhaustive()
    }
}
