//! A copy at one moment, as far as an answer speaks of it: nodes by pool, pods by workload, and what there is too little of.

use std::collections::BTreeMap;
use std::sync::Arc;

use klab_api_machinery::resource::{
    DAEMON_SETS, DEPLOYMENTS, EVENTS, JOBS, NODES, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, ResourceId,
    STATEFUL_SETS,
};
use klab_api_machinery::value::text;
use klab_api_machinery::views::{Pod, PodCondition};
use klab_cluster::Cluster;
use klab_lab::cost;
use klab_scheduler::typed::Typed;
use klab_scheduler::{PodResources, Resources};
use serde_json::Value;

use crate::pool::pool_of;
use crate::sanitise::has_ended;
use crate::twin::owner;

/// A workload: what makes pods again, or a pod of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Workload {
    /// Its namespace.
    pub namespace: String,
    /// Its kind, as in `kind`; `Pod` where nothing makes the pod again.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Workload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}/{}", self.kind.to_lowercase(), self.namespace, self.name)
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeFacts {
    /// Its pool.
    pub(crate) pool: String,
    /// Dollars an hour, where klab knows the size's price in its region.
    pub(crate) price: Option<f64>,
    /// What it offers.
    pub(crate) allocatable: Resources,
    /// What the pods on it request.
    pub(crate) requested: Resources,
    /// How many pods it has.
    pub(crate) pods: usize,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodFacts {
    /// Whose it is.
    pub(crate) workload: Workload,
    /// Where it is.
    pub(crate) node: Option<String>,
    /// What the scheduler says of it, where it has no node.
    pub(crate) waits: String,
}

/// What there was at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    /// The nodes by name.
    pub(crate) nodes: BTreeMap<String, NodeFacts>,
    /// The pods by uid.
    pub(crate) pods: BTreeMap<String, PodFacts>,
    /// How many pods each workload is to have.
    pub(crate) desired: BTreeMap<Workload, usize>,
    /// Why the cluster refuses pods of a workload, in the API server's words.
    pub(crate) refused: BTreeMap<Workload, String>,
}

impl World {
    /// Looks at a cluster.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let objects = |resource: ResourceId| cluster.inner().list(resource, None).0;
        let mut world = Self::default();
        for node in objects(NODES) {
            world.nodes.insert(node.name.to_string(), NodeFacts::of(&node.value()));
        }
        let mut owners: BTreeMap<(Box<str>, Box<str>), Workload> = BTreeMap::new();
        for set in objects(REPLICA_SETS) {
            if let Some(owner) = set.controller() {
                let key = (set.namespace.clone(), set.name.clone());
                let (namespace, kind, name) =
                    (set.namespace.to_string(), owner.kind.to_string(), owner.name.to_string());
                owners.insert(key, Workload { namespace, kind, name });
            }
        }
        let resolved = |workload: Workload| match workload.kind.as_str() {
            "ReplicaSet" => {
                let key = (workload.namespace.as_str().into(), workload.name.as_str().into());
                owners.get(&key).cloned().unwrap_or(workload)
            }
            _ => workload,
        };
        let mut amounts: BTreeMap<String, Resources> = BTreeMap::new();
        for pod in objects(PODS) {
            let value = pod.value();
            if has_ended("Pod", &value) || pod.deleting {
                continue;
            }
            let (kind, name) = owner(&pod, &value).unwrap_or(("Pod", &pod.name));
            let (kind, name) = (kind.to_owned(), name.to_owned());
            let workload = resolved(Workload { namespace: pod.namespace.to_string(), kind, name });
            let (spec, status) = (Pod(&value).spec(), Pod(&value).status());
            let node = Some(spec.node_name()).filter(|node| !node.is_empty()).map(str::to_owned);
            if let Some(node) = node.as_ref().and_then(|node| world.nodes.get_mut(node)) {
                node.pods += 1;
                node.requested.add(requests(&value, &mut amounts));
            }
            let waits = status.conditions().of_type("PodScheduled").map_or("", PodCondition::message).to_owned();
            world.pods.insert(pod.uid.to_string(), PodFacts { workload, node, waits });
        }
        for resource in [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS, DAEMON_SETS] {
            for object in objects(resource).iter().filter(|object| object.controller().is_none()) {
                let value = object.value();
                let (namespace, name) = (object.namespace.to_string(), object.name.to_string());
                let workload = Workload { namespace, kind: resource.row().kind.to_owned(), name };
                world.desired.insert(workload, desired(&value));
            }
        }
        for event in refusals(cluster) {
            let about = &event["involvedObject"];
            let part = |field: &str| text(about, &[field]).to_owned();
            let workload = Workload { namespace: part("namespace"), kind: part("kind"), name: part("name") };
            world.refused.insert(resolved(workload), text(&event, &["message"]).to_owned());
        }
        world
    }

    /// How many pods of a workload have a node.
    pub(crate) fn placed(&self) -> BTreeMap<&Workload, usize> {
        let mut placed = BTreeMap::new();
        for pod in self.pods.values() {
            *placed.entry(&pod.workload).or_default() += usize::from(pod.node.is_some());
        }
        placed
    }
}

/// The events of workloads that were refused pods.
pub(crate) fn refusals(cluster: &Cluster) -> impl Iterator<Item = Arc<Value>> {
    let events = cluster.inner().list(EVENTS, None).0;
    events.into_iter().map(|event| event.value()).filter(|event| text(event, &["reason"]) == "FailedCreate")
}

impl NodeFacts {
    fn of(node: &Value) -> Self {
        let typed = k8s_node(node);
        let allocatable = typed.as_ref().and_then(|node| node.status.as_ref()?.allocatable.as_ref());
        let (allocatable, _) = Resources::of_node(allocatable).unwrap_or_default();
        Self { pool: pool_of(node), price: node_price(node), allocatable, requested: Resources::default(), pods: 0 }
    }
}

/// Dollars an hour, where klab knows the price of a node's size in its region.
pub(crate) fn node_price(node: &Value) -> Option<f64> {
    let labels = &node["metadata"]["labels"];
    let (size, region) = (&labels["node.kubernetes.io/instance-type"], &labels["topology.kubernetes.io/region"]);
    cost::hourly(size.as_str()?, region.as_str()?)
}

fn k8s_node(node: &Value) -> Option<k8s_openapi::api::core::v1::Node> {
    Typed::from_value(&serde_json::json!({ "status": { "allocatable": node["status"]["allocatable"] } })).ok()
}

/// What a pod requests. Equal containers are counted once.
fn requests<'a>(pod: &Value, known: &'a mut BTreeMap<String, Resources>) -> &'a Resources {
    let spec = &pod["spec"];
    let parts = ["containers", "initContainers", "overhead", "resources"];
    let asked = |container: &Value| {
        serde_json::json!({
            "name": "x", "resources": container["resources"], "restartPolicy": container["restartPolicy"],
        })
    };
    let reduced: serde_json::Map<String, Value> = parts
        .iter()
        .filter(|part| !spec[**part].is_null())
        .map(|part| {
            let value = match &spec[*part] {
                Value::Array(containers) => containers.iter().map(asked).collect(),
                other => other.clone(),
            };
            ((*part).to_owned(), value)
        })
        .collect();
    let spec = serde_json::json!({ "spec": reduced });
    known.entry(spec.to_string()).or_insert_with(|| {
        let pod = Typed::from_value(&spec).ok();
        pod.and_then(|pod| PodResources::of(&pod).ok()).map(|resources| resources.requests).unwrap_or_default()
    })
}

/// How many pods a workload is to have.
fn desired(workload: &Value) -> usize {
    let spec = &workload["spec"];
    let count = match text(workload, &["kind"]) {
        "DaemonSet" => workload["status"]["desiredNumberScheduled"].as_u64().unwrap_or_default(),
        "Job" => {
            let is_still = has_ended("Job", workload) || spec["suspend"] == true;
            if is_still { 0 } else { workload["status"]["active"].as_u64().unwrap_or_default() }
        }
        _ => spec["replicas"].as_u64().unwrap_or(1),
    };
    usize::try_from(count).unwrap_or(usize::MAX)
}
