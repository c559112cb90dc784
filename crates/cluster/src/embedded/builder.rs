//! Making a cluster for a test: its nodes, its objects, its time, and what does not act in it.

use std::sync::Arc;

use jiff::SignedDuration;
use klab_api_machinery::status::Status;
use klab_scheduler::features::Features;
use serde::Serialize;
use serde_json::Value;

use super::{Cluster, KeptObjects};
use crate::clock::SteppedClock;
use crate::control::{Controller, UnknownController};
use crate::seed::Seed;
use crate::system::Flavour;
use crate::system::ordinary_node;
use crate::webhook::{NoWay, Transport};

/// What a new cluster holds and how it acts. Without further words: no nodes, no workloads, all controllers.
#[derive(Debug, Default)]
pub struct ClusterBuilder {
    seed: u64,
    flavour: Flavour,
    features: Features,
    nodes: usize,
    objects: Vec<Value>,
    kept: KeptObjects,
    clock: Option<Arc<SteppedClock>>,
    switched_off: Vec<Controller>,
    only_warnings: bool,
    shuffled: bool,
    stop: SignedDuration,
    webhooks: Option<Arc<dyn Transport>>,
    /// The first thing that was wrong.
    wrong: Option<BuildError>,
}

/// Why a cluster could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The API server would refuse one of the objects.
    #[error("an object of the new cluster is refused: {0}")]
    Refused(#[from] Status),
    /// One of the objects cannot be written as JSON.
    #[error("an object of the new cluster is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// No controller has the name of one that is to be switched off.
    #[error(transparent)]
    UnknownController(#[from] UnknownController),
}

impl Cluster {
    /// A cluster to be made.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }
}

impl ClusterBuilder {
    /// This number of nodes, `node-0` and on, each with 8 CPUs, 32 GiB of memory and room for 110 pods. Other nodes are given as
    /// [`ClusterBuilder::objects`].
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// Objects to begin with, after the nodes and in this order: of `k8s_openapi`, of `kube`'s `CustomResource`, or JSON
    /// with `apiVersion` and `kind`. What others refer to comes first: namespaces, CustomResourceDefinitions. An object
    /// keeps the status that it comes with until a controller writes another one.
    #[must_use]
    pub fn objects<T: Serialize>(mut self, objects: impl IntoIterator<Item = T>) -> Self {
        for object in objects {
            match serde_json::to_value(object) {
                Ok(object) => self.objects.push(object),
                Err(error) => self.refuse(error),
            }
        }
        self
    }

    /// Objects as another cluster keeps them, after all others. One that a new cluster has, too, takes its place. Experimental.
    #[must_use]
    pub fn kept(mut self, objects: &KeptObjects) -> Self {
        self.kept = objects.clone();
        self
    }

    /// The number from which names, uids and the scheduler's choice among equal nodes follow. Equal seeds and equal
    /// requests give equal clusters.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whose system workloads and roles it has; [`Flavour::Bare`], those of no provider, if nothing is said.
    #[must_use]
    pub fn flavour(mut self, flavour: Flavour) -> Self {
        self.flavour = flavour;
        self
    }

    /// Its feature gates, and the versions of the API that it does not serve; those of Kubernetes v1.36.2, if nothing is said.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.features = features;
        self
    }

    /// The clock it takes its time from, which code under test may read, too. [`Cluster::advance`] steps it; after others
    /// have, [`Cluster::settle`] does what is due.
    #[must_use]
    pub fn clock(mut self, clock: Arc<SteppedClock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Leaves out all events but warnings: half of what is written about a pod that comes or goes. Experimental.
    #[must_use]
    pub fn only_warnings(mut self) -> Self {
        self.only_warnings = true;
        self
    }

    /// The seed decides, too, which of equally important pods that come at the same instant is tried first: controllers of a real
    /// cluster work side by side. Experimental.
    #[must_use]
    pub fn shuffled(mut self) -> Self {
        self.shuffled = true;
        self
    }

    /// How long containers take to end that heed the signal to, if their pods give them as long; none, if nothing is said. Experimental.
    #[must_use]
    pub fn stopping_for(mut self, time: SignedDuration) -> Self {
        self.stop = time;
        self
    }

    /// Leaves a controller out, so that a test (or the operator under test) does its work: `deployment`, `kubelet` and
    /// the others of [`Controller`]. Names may end in `-controller`.
    #[must_use]
    pub fn without_controller(mut self, name: &str) -> Self {
        match name.parse() {
            Ok(controller) => self.switched_off.push(controller),
            Err(error) => self.refuse(error),
        }
        self
    }

    /// Who carries calls to the webhooks that the cluster's objects configure: a closure that answers an
    /// `AdmissionReview`, or what makes an HTTPS request of it. Without it webhooks cannot be reached, and their
    /// `failurePolicy` decides. Called without any lock; a closure is called in the thread that writes.
    #[must_use]
    pub fn webhooks(mut self, transport: impl Transport + 'static) -> Self {
        self.webhooks = Some(Arc::new(transport));
        self
    }

    /// Makes the cluster.
    ///
    /// # Errors
    /// When an object is refused, or a controller is not known.
    pub fn build(self) -> Result<Cluster, BuildError> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let objects = (0..self.nodes).map(ordinary_node).chain(self.objects).collect();
        let seed = Seed { seed: self.seed, flavour: self.flavour, features: self.features, objects, ..Seed::default() };
        let mut settings = seed.settings();
        settings.switched_off.extend(self.switched_off);
        settings.only_warnings = self.only_warnings;
        settings.shuffled = self.shuffled;
        settings.hollow.stop = self.stop;
        let webhooks = self.webhooks.unwrap_or_else(|| Arc::new(NoWay));
        let clock = self.clock.unwrap_or_default();
        let cluster = Cluster::planted("test", &seed, settings, Arc::clone(&clock), webhooks)?;
        Ok(if self.kept.is_empty() { cluster } else { cluster.holding(&self.kept, clock) })
    }

    fn refuse(&mut self, error: impl Into<BuildError>) {
        self.wrong.get_or_insert_with(|| error.into());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use klab_api_machinery::resource::{CONFIG_MAPS, NODES, PODS};

    fn pod() -> Value {
        let spec = json!({ "containers": [{ "name": "main", "image": "nginx" }] });
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" }, "spec": spec })
    }

    fn phase(cluster: &Cluster) -> (Value, Value) {
        let pod = cluster.inner().get(PODS, "default", "web").unwrap().value();
        (pod["spec"]["nodeName"].clone(), pod["status"]["phase"].clone())
    }

    #[test]
    fn nodes_are_ready_and_run_what_is_there() {
        let cluster = Cluster::builder().nodes(2).objects([pod()]).build().unwrap();
        for node in cluster.inner().list(NODES, None).0 {
            let node = node.value();
            let ready = node["status"]["conditions"].as_array().unwrap().iter().find(|have| have["type"] == "Ready");
            assert_eq!(ready.unwrap()["status"], "True");
            assert_eq!(node["spec"]["taints"], Value::Null);
        }
        assert_eq!(phase(&cluster).1, "Running");
    }

    #[test]
    fn a_control_plane_part_can_be_left_out() {
        let build = |without: &str| Cluster::builder().nodes(1).objects([pod()]).without_controller(without).build();
        assert_eq!(phase(&build("kube-scheduler").unwrap()), (Value::Null, json!("Pending")));
        assert_eq!(phase(&build("kubelet").unwrap()), (json!("node-0"), json!("Pending")));
    }

    #[test]
    fn typed_objects_are_objects() {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("settings".to_owned());
        let cluster = Cluster::builder().objects([map]).objects([pod()]).build().unwrap();
        assert!(cluster.inner().get(CONFIG_MAPS, "default", "settings").is_some());
    }

    #[test]
    fn time_is_that_of_the_clock_it_is_given() {
        let clock = Arc::new(SteppedClock::new("2030-01-01T00:00:00Z".parse().unwrap()));
        let cluster = Cluster::builder().clock(Arc::clone(&clock)).build().unwrap();
        cluster.advance(Duration::from_hours(1));
        assert_eq!(cluster.now().to_string(), "2030-01-01T01:00:00Z");
        clock.step(SignedDuration::from_mins(5));
        assert_eq!((cluster.age(), cluster.settle()), (SignedDuration::from_mins(65), None));
        cluster.advance(Duration::MAX);
    }

    #[test]
    fn what_is_wrong_is_said_when_it_is_made() {
        let unknown = Cluster::builder().without_controller("no-such").nodes(1).build().unwrap_err();
        assert!(unknown.to_string().starts_with("there is no controller `no-such`; there are: "), "{unknown}");
        let refused = Cluster::builder().objects([json!({ "apiVersion": "v1", "kind": "Pods" })]).build().unwrap_err();
        assert!(
            refused.to_string().starts_with("an object of the new cluster is refused: there is a Pods"),
            "{refused}"
        );
    }
}
