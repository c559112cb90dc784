//! A cluster inside this process whose time stands still: it acts while somebody talks to it, and waits while nobody does.
//!
//! Nothing runs in the background. When no request is under way any more, the control plane does all that is due at this
//! instant, in the thread that asked; time passes only when it is told to, from one due moment to the next. So equal
//! requests give equal clusters, and an eviction after five minutes takes microseconds.

#[cfg(feature = "client")]
mod client;

#[cfg(feature = "client")]
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::api::Api;
use super::clock::SteppedClock;
use super::cluster::Cluster;
use super::control::ControlPlane;
use super::seed::{Seed, plant};
use super::status::Status;

/// When every embedded cluster begins: a Monday morning.
const BEGINNING: &str = "2026-06-01T08:00:00Z";
/// How often the control plane is run again at one instant; each run does a million pieces of work.
const MAX_RUNS: usize = 4;

/// An embedded cluster on a stepped clock. Cheap to clone; all clones are the same cluster.
#[derive(Clone)]
pub struct Embedded(Arc<Shared>);

struct Shared {
    api: Api,
    clock: Arc<SteppedClock>,
    plane: Mutex<ControlPlane>,
    #[cfg(feature = "client")]
    /// Requests that have come and are not answered.
    under_way: AtomicUsize,
}

impl Embedded {
    /// A cluster of this name as its seed says.
    ///
    /// # Errors
    /// When the seed holds an object that is refused.
    pub fn new(name: &str, seed: &Seed) -> Result<Self, Status> {
        let clock = Arc::new(SteppedClock::new(BEGINNING.parse().unwrap_or(Timestamp::UNIX_EPOCH)));
        let cluster = Arc::new(Cluster::new(Arc::<SteppedClock>::clone(&clock), seed.seed));
        seed.fill(&cluster, name)?;
        let api = Api::new(Arc::clone(&cluster));
        api.set_metrics(seed.metrics.metrics());
        let plane = Mutex::new(ControlPlane::new(cluster, seed.settings()));
        let embedded = Self(Arc::new(Shared {
            api,
            clock,
            plane,
            #[cfg(feature = "client")]
            under_way: AtomicUsize::new(0),
        }));
        embedded.settle();
        Ok(embedded)
    }

    /// Makes what the cluster of this seed began with and has no more; gives what that was.
    ///
    /// # Errors
    /// When an object is refused.
    pub fn restore(&self, name: &str, seed: &Seed) -> Result<Vec<String>, Status> {
        seed.fill(self.cluster(), name)
    }

    /// Makes objects, in this order; those that are there already stay as they are.
    ///
    /// # Errors
    /// When one is refused.
    pub fn plant(&self, objects: &[Value]) -> Result<(), Status> {
        plant(self.cluster(), objects)?;
        self.settle();
        Ok(())
    }

    /// The cluster itself, to look at.
    pub fn cluster(&self) -> &Arc<Cluster> {
        self.0.api.cluster()
    }

    /// Its present.
    pub fn now(&self) -> Timestamp {
        self.cluster().now()
    }

    /// How long it has existed.
    pub fn age(&self) -> SignedDuration {
        self.now().duration_since(BEGINNING.parse().unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// Does all that is due now; says when something is due next.
    pub fn settle(&self) -> Option<Timestamp> {
        let mut plane = self.0.plane.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = plane.run();
        for _ in 1..MAX_RUNS {
            if due.is_none_or(|due| due > self.now()) {
                break;
            }
            due = plane.run();
        }
        due
    }

    /// Lets time pass until `instant`, from one due moment to the next.
    pub fn pass_until(&self, instant: Timestamp) {
        while let Some(due) = self.settle().filter(|due| *due > self.now() && *due <= instant) {
            self.0.clock.step_to(due);
        }
        self.0.clock.step_to(instant);
        self.settle();
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Embedded").field("now", &self.now()).finish_non_exhaustive()
    }
}
