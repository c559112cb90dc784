//! The acting part of the embedded cluster, in process, on a clock that is stepped.

mod accounts;
mod api_silence;
mod autoscalers;
mod budgets;
mod claims;
mod cluster_autoscaler;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod failing;
mod garbage;
mod jobs;
mod killing;
mod nodes;
mod pool_upgrades;
mod programs;
mod quotas;
mod schedulers;
mod scheduling;
mod services;
mod spot;
mod stateful_sets;
mod system;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{
    CONFIG_MAPS, CONTROLLER_REVISIONS, CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, ENDPOINT_SLICES, ENDPOINTS, EVENTS,
    HORIZONTAL_POD_AUTOSCALERS, JOBS, LEASES, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, RESOURCE_QUOTAS, ResourceId, SERVICES, STATEFUL_SETS,
};
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, DeleteOptions, Part, Propagation, WriteOptions};
use klab_cluster::control::{ControlPlane, HollowDelays, Settings};
use klab_cluster::system::{Flavour, bootstrap};
use serde_json::{Value, json};

/// A cluster with nodes, a control plane and a clock.
struct Lab {
    clock: Arc<SteppedClock>,
    cluster: Arc<Cluster>,
    plane: ControlPlane,
}

impl Lab {
    fn new(nodes: usize) -> Self {
        Self::with(nodes, Settings::default())
    }

    fn with(nodes: usize, settings: Settings) -> Self {
        let start: Timestamp = "2026-06-01T08:00:00Z".parse().expect("a time");
        let clock = Arc::new(SteppedClock::new(start));
        let cluster = Arc::new(Cluster::new(Arc::<SteppedClock>::clone(&clock), 7));
        for number in 0..nodes {
            let name = format!("node-{number}");
            cluster.create(NODES, "", node(&name, number), &WriteOptions::by("test")).expect("node");
        }
        let plane = ControlPlane::new(Arc::clone(&cluster), settings);
        let mut lab = Self { clock, cluster, plane };
        lab.plane.run();
        lab
    }

    /// Silences a hollow node, as if its machine had stopped; null brings it back.
    fn heartbeat(&self, node: &str, annotation: Value) {
        let options = WriteOptions::by("klab");
        let change = |node: &mut Value| node["metadata"]["annotations"]["klab.dev/heartbeat"] = annotation;
        self.cluster.modify(NODES, Part::Main, "", node, &options, change).expect("a node");
    }

    fn apply(&mut self, value: Value) -> Arc<Object> {
        let api_version = value["apiVersion"].as_str().unwrap_or("v1").to_owned();
        let kind = value["kind"].as_str().expect("a kind").to_owned();
        let resource = ResourceId::by_kind(&api_version, &kind).expect("a kind of the table");
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        let namespace = if resource.row().namespaced { namespace } else { String::new() };
        let made = self.cluster.create(resource, &namespace, value, &WriteOptions::client("test")).expect("created");
        self.plane.run();
        made
    }

    fn change(&mut self, resource: ResourceId, name: &str, change: impl FnOnce(&mut Value)) {
        let namespace = if resource.row().namespaced { "default" } else { "" };
        self.cluster
            .modify(resource, Part::Main, namespace, name, &WriteOptions::client("test"), change)
            .expect("changed");
        self.plane.run();
    }

    fn delete(&mut self, resource: ResourceId, name: &str, propagation: Propagation) {
        let namespace = if resource.row().namespaced { "default" } else { "" };
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        self.cluster.delete(resource, namespace, name, &options).expect("deleted");
        self.plane.run();
    }

    /// Steps the clock from timer to timer until `duration` has passed.
    fn pass(&mut self, duration: SignedDuration) {
        let end = self.cluster.now() + duration;
        loop {
            match self.plane.run() {
                Some(next) if next <= end => self.clock.step_to(next),
                _ => break,
            }
        }
        self.clock.step_to(end);
        self.plane.run();
    }

    fn seconds(&mut self, seconds: i64) {
        self.pass(SignedDuration::from_secs(seconds));
    }

    fn get(&self, resource: ResourceId, name: &str) -> Value {
        let namespace = if resource.row().namespaced { "default" } else { "" };
        self.cluster.get(resource, namespace, name).map(|object| object.to_value()).unwrap_or_default()
    }

    fn list(&self, resource: ResourceId) -> Vec<Value> {
        self.cluster.list(resource, Some("default")).0.iter().map(|object| object.to_value()).collect()
    }

    fn pods(&self) -> Vec<Value> {
        self.list(PODS)
    }

    fn running(&self) -> usize {
        self.pods().iter().filter(|pod| is_ready(pod)).count()
    }

    fn messages(&self, reason: &str) -> Vec<String> {
        self.list(EVENTS)
            .iter()
            .filter(|event| event["reason"] == reason)
            .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    object["status"]["conditions"]
        .as_array()
        .and_then(|conditions| conditions.iter().find(|condition| condition["type"] == kind))
        .unwrap_or(&Value::Null)
}

fn node(name: &str, number: usize) -> Value {
    let resources = json!({ "cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi" });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/region": "westeurope",
            "topology.kubernetes.io/zone": format!("westeurope-{}", number % 3 + 1),
        }},
        "spec": { "podCIDR": format!("10.244.{number}.0/24") },
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [{ "type": "InternalIP", "address": format!("10.224.0.{}", number + 4) }],
            "conditions": [
                { "type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "kubelet has sufficient memory available" },
                { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status" },
            ],
        },
    })
}

fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{ "name": "main", "image": image }], "terminationGracePeriodSeconds": 30 },
    })
}

fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": template(name, "nginx:1.27"), "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } },
        },
    })
}

fn recorded() -> Settings {
    Settings { hollow: HollowDelays::recorded(), ..Settings::default() }
}
