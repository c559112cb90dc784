//! A cluster inside this process whose time stands still: it acts while somebody talks to it, and waits while nobody does.
//!
//! Nothing runs in the background. When no request is under way any more, the control plane does all that is due at this
//! instant, in the thread that asked; time passes only when it is told to, from one due moment to the next. So equal
//! requests give equal clusters, and an eviction after five minutes takes microseconds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::api::{self, Api};
use super::clock::SteppedClock;
use super::cluster::Cluster;
use super::control::ControlPlane;
use super::seed::{Seed, plant};
use super::status::Status;

/// When every embedded cluster begins: a Monday morning.
const BEGINNING: &str = "2026-06-01T08:00:00Z";
/// How often the control plane is run again at one instant; each run does a million pieces of work.
const MOST_RUNS: usize = 4;

/// An embedded cluster on a stepped clock. Cheap to clone; all clones are the same cluster.
#[derive(Clone)]
pub struct Embedded(Arc<Shared>);

struct Shared {
    api: Api,
    clock: Arc<SteppedClock>,
    plane: Mutex<ControlPlane>,
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
        let embedded = Self(Arc::new(Shared { api, clock, plane, under_way: AtomicUsize::new(0) }));
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
        for _ in 1..MOST_RUNS {
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

    /// A client of its API: requests made side by side are answered before the cluster acts on any of them. Must be called
    /// in the runtime that will drive the client.
    pub fn client(&self) -> kube::Client {
        let embedded = self.clone();
        api::client(move |request| {
            embedded.0.under_way.fetch_add(1, Ordering::AcqRel);
            let under_way = UnderWay(embedded.clone());
            async move {
                let answer = under_way.0.0.api.answer(request).await;
                drop(under_way);
                answer
            }
        })
    }

    fn answered(&self) {
        if self.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.settle();
        }
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Embedded").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// Counts a request as under way until it is answered or given up.
struct UnderWay(Embedded);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.answered();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, ListParams, PostParams};
    use serde_json::json;

    use super::*;
    use crate::sim::system::Flavour;

    fn pod(name: &str) -> Pod {
        let spec = json!({ "containers": [{ "name": "main", "image": "nginx:1.27" }] });
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
    }

    fn node(name: &str) -> serde_json::Value {
        let resources = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
            "status": {
                "capacity": resources, "allocatable": resources,
                "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }],
            },
        })
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    async fn places(seed: u64) -> Vec<(String, String)> {
        let objects = (0..5).map(|number| node(&format!("node-{number}"))).collect();
        let seed = Seed { seed, flavour: Flavour::Bare, objects, ..Seed::default() };
        let embedded = Embedded::new("test", &seed).unwrap();
        let pods: Api<Pod> = Api::default_namespaced(embedded.client());
        let parameters = PostParams::default();
        let names: Vec<Pod> = (0..8).map(|number| pod(&format!("web-{number}"))).collect();
        for made in futures::future::join_all(names.iter().map(|pod| pods.create(&parameters, pod))).await {
            made.unwrap();
        }
        let list = pods.list(&ListParams::default()).await.unwrap();
        let place = |pod: Pod| (pod.metadata.name.unwrap(), pod.spec.unwrap().node_name.unwrap_or_default());
        list.items.into_iter().map(place).collect()
    }

    #[test]
    fn equal_seeds_give_equal_places_and_others_differ() {
        let first = block_on(places(1));
        assert!(first.iter().all(|(_, node)| node.starts_with("node-")), "{first:?}");
        assert_eq!(first, block_on(places(1)));
        assert!((2..8).any(|seed| block_on(places(seed)) != first), "the seed decides between equal nodes");
    }

    #[test]
    fn time_passes_from_one_due_moment_to_the_next() {
        let seed = Seed { objects: vec![node("a")], ..Seed::default() };
        let embedded = Embedded::new("test", &seed).unwrap();
        let before = embedded.now();
        embedded.pass_until(before + SignedDuration::from_mins(7));
        assert_eq!(embedded.now().duration_since(before), SignedDuration::from_mins(7));
        assert_eq!(embedded.age(), SignedDuration::from_mins(7));
    }
}
