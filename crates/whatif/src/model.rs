//! A captured cluster as its scheduler sees it: for questions that are asked a thousand times and need no controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use klab_lab::verify::{self, Context, DeviceObjects, Snapshot};
use klab_scheduler::typed::Typed;
use klab_scheduler::{Cluster, TieBreak};

use crate::capture::Capture;
use crate::captured::Captured;
use crate::pool::{pool_of, zone_of};
use crate::sanitise::{is_remade, stays};
use crate::twin::TwinError;
use crate::world::node_price;

/// Why a pod without an owner is lost with its node.
pub(crate) const NOTHING: &str = "nothing makes it again";
/// Why a pod is lost whose owner is no controller of the copy.
pub(crate) const UNKNOWN: &str = "klab does not know the controller that makes such pods again";

/// A captured cluster for its scheduler.
pub(crate) struct Model {
    scheduler: Cluster,
    /// The nodes by name.
    pub(crate) nodes: BTreeMap<String, ModelNode>,
}

/// A node, and the pods that need another one when it is gone.
pub(crate) struct ModelNode {
    pub(crate) pool: String,
    pub(crate) zone: Option<String>,
    /// Dollars an hour, where klab knows the price.
    pub(crate) price: Option<f64>,
    node: Arc<Node>,
    /// All that is on it.
    all: Vec<Arc<Pod>>,
    /// Those that something makes again elsewhere, the most important first.
    movable: Vec<Pod>,
    /// Those that nothing in a copy makes again.
    alone: Vec<LostPod>,
}

impl ModelNode {
    /// The pods that nothing in a copy makes again.
    pub(crate) fn alone(&self) -> impl Iterator<Item = &LostPod> {
        self.alone.iter()
    }

    /// Whether nothing on it is lost for good when it goes.
    pub(crate) fn can_go(&self) -> bool {
        self.alone.is_empty()
    }

    /// How many pods need another node when it is gone.
    pub(crate) fn moving(&self) -> usize {
        self.movable.len()
    }
}

/// A pod that has no node any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostPod {
    /// `namespace/name`.
    pub pod: String,
    /// What the scheduler says of it, or that nothing makes it again.
    pub why: String,
}

impl Model {
    /// The model of a capture.
    pub(crate) fn of(capture: &Capture) -> Result<Self, TwinError> {
        let snapshot = snapshot(capture)?;
        let scheduler = verify::scheduler(&snapshot, &Context::default(), TieBreak::Seeded(0));
        let mut nodes: BTreeMap<String, ModelNode> = BTreeMap::new();
        for (node, typed) in capture.values("Node").zip(&snapshot.nodes) {
            let model = ModelNode {
                node: Arc::clone(typed),
                pool: pool_of(&node),
                zone: zone_of(&node).map(str::to_owned),
                price: node_price(&node),
                all: Vec::new(),
                movable: Vec::new(),
                alone: Vec::new(),
            };
            nodes.insert(node["metadata"]["name"].as_str().unwrap_or_default().to_owned(), model);
        }
        let uids: BTreeSet<&str> = capture.objects.iter().filter_map(|object| object.uid.as_deref()).collect();
        for pod in &snapshot.pods {
            let Some(node) = pod.spec.as_ref().and_then(|spec| nodes.get_mut(spec.node_name.as_ref()?)) else {
                continue;
            };
            let (namespace, name) = names(pod);
            let lost = |why: &str| LostPod { pod: format!("{namespace}/{name}"), why: why.to_owned() };
            match klab_scheduler::owner::controller(&pod.metadata) {
                Some(owner) if stays(&owner.kind) => {}
                // As a copy does it, which has the captured owners of these kinds alone.
                Some(owner) if is_remade(&owner.kind) && uids.contains(owner.uid.as_str()) => {
                    node.movable.push(unplaced(pod));
                }
                Some(_) => node.alone.push(lost(UNKNOWN)),
                None => node.alone.push(lost(NOTHING)),
            }
            node.all.push(Arc::clone(pod));
        }
        for node in nodes.values_mut() {
            let priority = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
            node.movable.sort_by(|one, other| {
                priority(other).cmp(&priority(one)).then_with(|| one.metadata.name.cmp(&other.metadata.name))
            });
        }
        Ok(Self { scheduler, nodes })
    }

    /// Who is asked where pods go.
    pub(crate) fn scheduler(&self) -> Cluster {
        self.scheduler.clone()
    }

    /// Takes nodes out of a scheduler and looks for places for their pods; those that find none are lost.
    pub(crate) fn lose(&self, scheduler: &mut Cluster, names: &[&str]) -> Vec<LostPod> {
        let nodes: Vec<&ModelNode> = names.iter().filter_map(|name| self.nodes.get(*name)).collect();
        for pod in nodes.iter().flat_map(|node| &node.all) {
            remove(scheduler, pod);
        }
        for name in names {
            scheduler.remove_node(name);
        }
        let mut lost: Vec<LostPod> = nodes.iter().flat_map(|node| &node.alone).cloned().collect();
        for pod in nodes.iter().flat_map(|node| &node.movable) {
            lost.extend(place(scheduler, pod).err());
        }
        lost
    }

    /// Takes a node out of a scheduler that has lost others before, `gone`, and gives the pods that find no other place. Unless it
    /// is to stay away and there are none, it comes back with all that was on it.
    pub(crate) fn empty(&self, scheduler: &mut Cluster, name: &str, gone: &[&str], stays_away: bool) -> Vec<LostPod> {
        let Some(node) = self.nodes.get(name) else { return Vec::new() };
        let of_others = gone.iter().filter_map(|other| self.nodes.get(*other)).flat_map(|other| &other.movable);
        let is_here = |pod: &&Pod| {
            let (namespace, name_of_pod) = names(pod);
            scheduler.node_of(namespace, name_of_pod).is_some_and(|node| &*node == name)
        };
        let came: Vec<&Pod> = of_others.filter(is_here).collect();
        for pod in came.iter().copied().chain(node.all.iter().map(AsRef::as_ref)) {
            remove(scheduler, pod);
        }
        scheduler.remove_node(name);
        let moving = || came.iter().copied().chain(&node.movable);
        let lost: Vec<LostPod> = moving().filter_map(|pod| place(scheduler, pod).err()).collect();
        if lost.is_empty() && stays_away {
            return lost;
        }
        for pod in moving() {
            remove(scheduler, pod);
        }
        // They were taken before.
        let _back = scheduler.set_node(&node.node);
        for pod in &node.all {
            let _back = scheduler.set_pod(pod);
        }
        for pod in came {
            let _back = scheduler.bind(pod, name);
        }
        lost
    }
}

pub(crate) fn names(pod: &Pod) -> (&str, &str) {
    (pod.metadata.namespace.as_deref().unwrap_or_default(), pod.metadata.name.as_deref().unwrap_or_default())
}

fn remove(scheduler: &mut Cluster, pod: &Pod) {
    let (namespace, name) = names(pod);
    scheduler.remove_pod(namespace, name);
}

/// Places a pod, or says why there is no place.
pub(crate) fn place(scheduler: &mut Cluster, pod: &Pod) -> Result<(), LostPod> {
    let (namespace, name) = names(pod);
    let lost = |why: String| LostPod { pod: format!("{namespace}/{name}"), why };
    let decision = scheduler.schedule(pod).map_err(|error| lost(error.to_string()))?;
    match decision.outcome.node().cloned() {
        Some(node) => scheduler.bind(pod, &node).map(drop).map_err(|error| lost(error.to_string())),
        None => Err(lost(decision.message)),
    }
}

/// A pod as its controller makes it again.
pub(crate) fn unplaced(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    pod.status = None;
    if let Some(spec) = &mut pod.spec {
        spec.node_name = None;
    }
    pod
}

/// The objects of a capture by type.
pub(crate) fn snapshot(capture: &Capture) -> Result<Snapshot, TwinError> {
    let devices = DeviceObjects {
        classes: typed(capture, "DeviceClass")?,
        slices: typed(capture, "ResourceSlice")?,
        claims: typed(capture, "ResourceClaim")?,
        templates: typed(capture, "ResourceClaimTemplate")?,
        language: Some(klab_cluster::device_selectors()),
    };
    Ok(Snapshot {
        taken_at: capture.moment(),
        nodes: typed(capture, "Node")?,
        pods: typed(capture, "Pod")?,
        deployments: typed(capture, "Deployment")?,
        replica_sets: typed(capture, "ReplicaSet")?,
        replication_controllers: typed(capture, "ReplicationController")?,
        daemon_sets: typed(capture, "DaemonSet")?,
        stateful_sets: typed(capture, "StatefulSet")?,
        jobs: typed(capture, "Job")?,
        namespaces: typed(capture, "Namespace")?,
        services: typed(capture, "Service")?,
        pod_disruption_budgets: typed(capture, "PodDisruptionBudget")?,
        priority_classes: typed(capture, "PriorityClass")?,
        persistent_volume_claims: typed(capture, "PersistentVolumeClaim")?,
        persistent_volumes: typed(capture, "PersistentVolume")?,
        storage_classes: typed(capture, "StorageClass")?,
        csi_nodes: typed(capture, "CSINode")?,
        devices: Some(devices),
        ..Snapshot::default()
    })
}

fn typed<T: Typed>(capture: &Capture, kind: &str) -> Result<Vec<Arc<T>>, TwinError> {
    let one = |object: &Captured| {
        let wrong = |error: serde_json::Error| TwinError::Object(format!("{kind} {}: {error}", object.path()));
        T::from_json(object.text.as_bytes()).map(Arc::new).map_err(wrong)
    };
    capture.untorn().filter(|object| object.kind.kind == kind).map(one).collect()
}
