//! A snapshot with its threads joined: pods with their state, node, owners and generation, in one fixed order.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use klab_cel::Budget;
use kube_core::ResourceExt;
use serde_json::Value;

use super::context::Context;
use super::mounting::{FAILED_MOUNT, Unmounted, Volumes};
use super::pod::{self, PodState};
use super::snapshot::Snapshot;
use crate::expression::MAX_COST;
use crate::membership::{labelled_pool, pool_of};
use crate::names::{POOL_LABEL, WORKLOAD_LABEL};
use crate::spec::{NodeSet, Workload, WorkloadKind};
use klab_scheduler::owner::controller;
use klab_scheduler::{Profiles, SCHEDULERS_ANNOTATION};

/// Annotation of Deployments and their ReplicaSets that counts revisions.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// A snapshot, ready to be asked.
pub(crate) struct View<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) context: &'a Context<'a>,
    /// By name.
    pub(crate) nodes: BTreeMap<&'a str, &'a Node>,
    /// By namespace and name.
    pub(crate) pods: Vec<PodView<'a>>,
    /// The profiles of the cluster's schedulers: those of the lab, unless the embedded cluster says that there are others.
    pub(crate) profiles: Arc<Profiles>,
    /// What the expressions of all checks may still cost.
    pub(crate) expressions: RefCell<Budget>,
}

/// A pod and what it belongs to.
pub(crate) struct PodView<'a> {
    /// Place in the snapshot.
    pub(crate) index: usize,
    pub(crate) pod: &'a Pod,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) node: Option<&'a str>,
    pub(crate) state: PodState,
    pub(crate) owner: Owner<'a>,
    /// Made from the owner's present template.
    pub(crate) current: bool,
    /// What its kubelet says of a volume that it waits for.
    pub(crate) unmounted: Option<Volumes<'a>>,
}

/// The object at the end of a pod's chain of owners.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'a> {
    /// None, or none that the snapshot shows.
    None,
    /// A kind that klab knows nothing about.
    Other(&'a OwnerReference),
    Deployment(&'a Deployment),
    ReplicaSet(&'a ReplicaSet),
    DaemonSet(&'a DaemonSet),
    StatefulSet(&'a StatefulSet),
    Job(&'a Job),
}

impl<'a> Owner<'a> {
    pub(crate) fn meta(&self) -> Option<&'a ObjectMeta> {
        match self {
            Self::None | Self::Other(_) => None,
            Self::Deployment(owner) => Some(&owner.metadata),
            Self::ReplicaSet(owner) => Some(&owner.metadata),
            Self::DaemonSet(owner) => Some(&owner.metadata),
            Self::StatefulSet(owner) => Some(&owner.metadata),
            Self::Job(owner) => Some(&owner.metadata),
        }
    }

    pub(crate) fn kind(&self) -> &'a str {
        match self {
            Self::None => "",
            Self::Other(reference) => &reference.kind,
            Self::Deployment(_) => "Deployment",
            Self::ReplicaSet(_) => "ReplicaSet",
            Self::DaemonSet(_) => "DaemonSet",
            Self::StatefulSet(_) => "StatefulSet",
            Self::Job(_) => "Job",
        }
    }

    pub(crate) fn name(&self) -> &'a str {
        match self {
            Self::Other(reference) => &reference.name,
            _ => self.meta().and_then(|meta| meta.name.as_deref()).unwrap_or_default(),
        }
    }

    /// Whether the owner makes a new pod for one that failed.
    pub(crate) fn replaces(&self) -> bool {
        !matches!(self, Self::None | Self::Other(_) | Self::Job(_))
    }

    /// The same object.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self.meta(), other.meta()) {
            (Some(one), Some(two)) => {
                self.kind() == other.kind() && (&one.namespace, &one.name) == (&two.namespace, &two.name)
            }
            _ => false,
        }
    }
}

impl PodView<'_> {
    /// `namespace/name`.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// What its kubelet says of what keeps it from starting.
    pub(crate) fn trouble_message(&self) -> Option<String> {
        if let Some(failure) = self.unmounted {
            return Some(failure.message.to_owned());
        }
        let status = self.pod.status.as_ref()?;
        let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
        let mut waiting = containers.filter_map(|container| container.state.as_ref()?.waiting.as_ref());
        waiting.find_map(|waiting| waiting.message.clone())
    }

    /// A pod that conditions count: of the present template, not being deleted, and not a failed one that its owner has
    /// replaced.
    pub(crate) fn counts(&self) -> bool {
        self.current && self.remains()
    }

    /// A pod of an earlier template that still has to go.
    pub(crate) fn is_old(&self) -> bool {
        !self.current && self.remains()
    }

    fn remains(&self) -> bool {
        match self.state {
            PodState::Terminating => false,
            PodState::Failed { .. } => !self.owner.replaces(),
            _ => true,
        }
    }
}

/// Owners by uid.
#[derive(Default)]
struct Owners<'a> {
    deployments: HashMap<&'a str, &'a Deployment>,
    replica_sets: HashMap<&'a str, &'a ReplicaSet>,
    daemon_sets: HashMap<&'a str, &'a DaemonSet>,
    stateful_sets: HashMap<&'a str, &'a StatefulSet>,
    jobs: HashMap<&'a str, &'a Job>,
    /// Uid of the ReplicaSet with the greatest revision, by uid of its Deployment.
    newest: HashMap<&'a str, (i64, &'a str)>,
    /// Hashes of the present template, by uid of the DaemonSet.
    daemon_hashes: HashMap<&'a str, &'a str>,
}

fn by_uid<T: ResourceExt>(objects: &[std::sync::Arc<T>]) -> HashMap<&str, &T> {
    objects.iter().filter_map(|object| Some((object.meta().uid.as_deref()?, &**object))).collect()
}

fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Which revision of its Deployment a ReplicaSet is.
pub(super) fn revision(set: &ObjectMeta) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl<'a> Owners<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let mut owners = Self {
            deployments: by_uid(&snapshot.deployments),
            replica_sets: by_uid(&snapshot.replica_sets),
            daemon_sets: by_uid(&snapshot.daemon_sets),
            stateful_sets: by_uid(&snapshot.stateful_sets),
            jobs: by_uid(&snapshot.jobs),
            ..Self::default()
        };
        for set in &snapshot.replica_sets {
            let Some((owner, uid)) = controller(&set.metadata).zip(set.metadata.uid.as_deref()) else { continue };
            let revision = revision(&set.metadata);
            let newest = owners.newest.entry(owner.uid.as_str()).or_insert((revision, uid));
            *newest = (*newest).max((revision, uid));
        }
        // A DaemonSet does not name the hash of its template; its pods carry the generation beside the hash.
        for pod in &snapshot.pods {
            let Some(owner) = controller(&pod.metadata) else { continue };
            let Some(set) = owners.daemon_sets.get(owner.uid.as_str()) else { continue };
            if template_generation(&pod.metadata, &set.metadata)
                && let Some(hash) = label(&pod.metadata, "controller-revision-hash")
            {
                owners.daemon_hashes.insert(owner.uid.as_str(), hash);
            }
        }
        owners
    }

    fn of_pod(&self, pod: &'a Pod) -> (Owner<'a>, bool) {
        let Some(reference) = controller(&pod.metadata) else { return (Owner::None, true) };
        let uid = reference.uid.as_str();
        if let Some(set) = self.replica_sets.get(uid) {
            let above = controller(&set.metadata).and_then(|owner| self.deployments.get(owner.uid.as_str()));
            let Some(deployment) = above else { return (Owner::ReplicaSet(set), true) };
            let newest = deployment.metadata.uid.as_deref().and_then(|uid| self.newest.get(uid));
            return (Owner::Deployment(deployment), newest.is_none_or(|(_, newest)| *newest == uid));
        }
        if let Some(set) = self.daemon_sets.get(uid) {
            return (Owner::DaemonSet(set), self.is_current_daemon(pod, set));
        }
        if let Some(set) = self.stateful_sets.get(uid) {
            return (Owner::StatefulSet(set), is_current_replica(pod, set));
        }
        match self.jobs.get(uid) {
            Some(job) => (Owner::Job(job), true),
            None => (Owner::Other(reference), true),
        }
    }

    fn is_current_daemon(&self, pod: &Pod, set: &DaemonSet) -> bool {
        let all_updated = set.status.as_ref().is_some_and(|status| {
            status.observed_generation == set.metadata.generation
                && status.updated_number_scheduled == Some(status.desired_number_scheduled)
        });
        let hash = label(&pod.metadata, "controller-revision-hash");
        let present = set.metadata.uid.as_deref().and_then(|uid| self.daemon_hashes.get(uid));
        match (hash, present) {
            // With a surge the old pod stays beside the new one, and both are on one node.
            (Some(hash), Some(present)) => hash == *present,
            // Nothing tells the generations apart: a cluster that does not count them.
            _ => {
                all_updated
                    || template_generation(&pod.metadata, &set.metadata)
                    || annotation(&set.metadata, "deprecated.daemonset.template.generation").is_none()
            }
        }
    }
}

/// Whether a DaemonSet's pod carries the number of the set's present template.
fn template_generation(pod: &ObjectMeta, set: &ObjectMeta) -> bool {
    let present = annotation(set, "deprecated.daemonset.template.generation");
    present.is_some() && label(pod, "pod-template-generation") == present
}

/// Whether a StatefulSet's pod is of the update revision, or below the partition that keeps the old one.
fn is_current_replica(pod: &Pod, set: &StatefulSet) -> bool {
    let update = set.status.as_ref().and_then(|status| status.update_revision.as_deref());
    let revision = label(&pod.metadata, "controller-revision-hash");
    if update.is_none() || revision.is_none() || revision == update {
        return true;
    }
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    let partition = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.partition).unwrap_or(0);
    let ordinal = pod.metadata.name.as_deref().and_then(|name| name.rsplit_once('-')?.1.parse::<i32>().ok());
    ordinal.is_some_and(|ordinal| ordinal < partition)
}

/// Whether a pod's own `nodeName` names a node that is not there: no kubelet will ever start it.
fn is_pinned_to_none(pod: &Pod, nodes: &BTreeMap<&str, &Node>) -> bool {
    !pod::is_scheduled(pod) && pod::node(pod).is_some_and(|node| !nodes.contains_key(node))
}

/// The configurations of all schedulers, where an embedded cluster has others than it was made with.
fn configurations(snapshot: &Snapshot) -> Option<Vec<Value>> {
    let named = |namespace: &&Arc<Namespace>| namespace.metadata.name.as_deref() == Some("kube-system");
    let annotations = snapshot.namespaces.iter().find(named)?.metadata.annotations.as_ref()?;
    serde_json::from_str(annotations.get(SCHEDULERS_ANNOTATION)?).ok()
}

impl<'a> View<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, context: &'a Context<'a>) -> Self {
        let owners = Owners::of(snapshot);
        let nodes: BTreeMap<&str, &Node> =
            snapshot.nodes.iter().map(|node| (node.metadata.name.as_deref().unwrap_or_default(), &**node)).collect();
        let unmounted = Unmounted::of(snapshot);
        let mut pods: Vec<PodView<'a>> = snapshot
            .pods
            .iter()
            .enumerate()
            .map(|(index, pod)| {
                let (owner, current) = owners.of_pod(pod);
                let unmounted = unmounted.of_pod(pod);
                PodView {
                    index,
                    pod,
                    namespace: pod.metadata.namespace.as_deref().unwrap_or("default"),
                    name: pod.metadata.name.as_deref().unwrap_or_default(),
                    node: pod::node(pod),
                    state: match PodState::of(pod) {
                        PodState::Starting { trouble: None } if unmounted.is_some_and(|failure| failure.is_lasting) => {
                            PodState::Starting { trouble: Some(FAILED_MOUNT.to_owned()) }
                        }
                        PodState::Starting { trouble: None } if is_pinned_to_none(pod, &nodes) => {
                            PodState::Starting { trouble: Some("NodeNotFound".to_owned()) }
                        }
                        PodState::Unscheduled => {
                            match snapshot.devices.as_ref().and_then(|devices| devices.lacking(pod)) {
                                Some(message) => PodState::Unschedulable { message, nominated: None },
                                None => PodState::Unscheduled,
                            }
                        }
                        state => state,
                    },
                    unmounted,
                    owner,
                    current,
                }
            })
            .collect();
        pods.sort_by_key(|pod| (pod.namespace, pod.name));
        let profiles = match configurations(snapshot) {
            Some(all) => Arc::new(Profiles::of_all(&all, &context.profiles())),
            None => context.profiles(),
        };
        Self { snapshot, context, nodes, pods, profiles, expressions: RefCell::new(Budget::of(MAX_COST)) }
    }

    /// The pool a node belongs to.
    pub(crate) fn pool_of(&self, node: &str) -> Option<&'a str> {
        self.pool_of_node(self.nodes.get(node)?)
    }

    /// The pool a node belongs to, by its labels.
    pub(crate) fn pool_of_node(&self, node: &'a Node) -> Option<&'a str> {
        pool_of(self.context.provider(), self.context.pools(), node)
    }

    /// The nodes of a pool that are there.
    pub(crate) fn members<'s>(&'s self, pool: &'s str) -> impl Iterator<Item = (&'a str, &'a Node)> + 's {
        let nodes = self.nodes.iter().map(|(name, node)| (*name, *node));
        nodes.filter(move |(_, node)| self.pool_of_node(node) == Some(pool))
    }

    /// The label selector by which kubectl finds the nodes of a pool.
    pub(crate) fn pool_selector(&self, pool: &str) -> String {
        if let Some(known) = self.context.pool(pool) {
            return known.selector_text();
        }
        let of_all = |key: &str| self.members(pool).all(|(_, node)| label(&node.metadata, key) == Some(pool));
        let named = || self.members(pool).find_map(|(_, node)| labelled_pool(node)).map(|(key, _)| key);
        let key = if of_all(POOL_LABEL) { POOL_LABEL } else { named().unwrap_or(POOL_LABEL) };
        format!("{key}={pool}")
    }

    /// Whether a node is one of the set. A node that is not in the snapshot is in a set only by its name.
    pub(crate) fn contains(&self, set: &NodeSet, name: &str) -> bool {
        match set {
            NodeSet::Node(wanted) => wanted == name,
            NodeSet::Pool(pool) => self.pool_of(name) == Some(pool),
            NodeSet::Selector(selector) => self.nodes.get(name).is_some_and(|node| selector.matches(node.labels())),
        }
    }

    /// The nodes of a set that are there, by name.
    pub(crate) fn nodes_in<'s>(&'s self, set: &'s NodeSet) -> impl Iterator<Item = (&'a str, &'a Node)> + 's {
        self.nodes.iter().map(|(name, node)| (*name, *node)).filter(|(name, _)| self.contains(set, name))
    }

    /// The pods of a workload of the lab, those that are being deleted among them.
    pub(crate) fn pods_of_workload<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s PodView<'a>> + 's {
        let workload = self.context.workload(name);
        self.pods.iter().filter(move |pod| {
            workload.is_none_or(|workload| workload.namespace == pod.namespace)
                && (label(&pod.pod.metadata, WORKLOAD_LABEL) == Some(name) || belongs(pod, name, workload))
        })
    }

    /// All objects that own pods, but for ReplicaSets that a Deployment has.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Owner<'a>> + use<'a> {
        let snapshot = self.snapshot;
        let own = snapshot.replica_sets.iter().filter(|set| controller(&set.metadata).is_none());
        (snapshot.deployments.iter().map(|owner| Owner::Deployment(owner)))
            .chain(own.map(|owner| Owner::ReplicaSet(owner)))
            .chain(snapshot.daemon_sets.iter().map(|owner| Owner::DaemonSet(owner)))
            .chain(snapshot.stateful_sets.iter().map(|owner| Owner::StatefulSet(owner)))
            .chain(snapshot.jobs.iter().map(|owner| Owner::Job(owner)))
    }

    /// The names of what makes the pods of a Deployment: its ReplicaSets, of earlier templates as well.
    pub(crate) fn makers(&self, deployment: &Owner<'_>) -> Vec<&'a str> {
        let uid = deployment.meta().and_then(|meta| meta.uid.as_deref());
        let is_its = |meta: &ObjectMeta| controller(meta).map(|owner| owner.uid.as_str()) == uid;
        let sets = self.snapshot.replica_sets.iter().filter(|set| is_its(&set.metadata));
        sets.filter_map(|set| set.metadata.name.as_deref()).collect()
    }

    /// The object of a workload, if it is there.
    pub(crate) fn owner_of_workload(&self, name: &str) -> Option<Owner<'a>> {
        let workload = self.context.workload(name);
        let here = |meta: &ObjectMeta| {
            meta.name.as_deref() == Some(name)
                && workload.is_none_or(|workload| meta.namespace.as_deref() == Some(&workload.namespace))
        };
        let wanted = |kind| workload.is_none_or(|workload| workload.kind == kind);
        let snapshot = self.snapshot;
        let deployment = || snapshot.deployments.iter().find(|owner| here(&owner.metadata));
        let daemon_set = || snapshot.daemon_sets.iter().find(|owner| here(&owner.metadata));
        let stateful_set = || snapshot.stateful_sets.iter().find(|owner| here(&owner.metadata));
        let job = || snapshot.jobs.iter().find(|owner| here(&owner.metadata));
        None.or_else(|| deployment().filter(|_| wanted(WorkloadKind::Deployment)).map(|owner| Owner::Deployment(owner)))
            .or_else(|| daemon_set().filter(|_| wanted(WorkloadKind::DaemonSet)).map(|owner| Owner::DaemonSet(owner)))
            .or_else(|| {
                stateful_set().filter(|_| wanted(WorkloadKind::StatefulSet)).map(|owner| Owner::StatefulSet(owner))
            })
            .or_else(|| job().filter(|_| wanted(WorkloadKind::Job)).map(|owner| Owner::Job(owner)))
    }
}

/// Whether the chain of owners of a pod ends at the object of a workload, or the pod is itself that object.
fn belongs(pod: &PodView<'_>, name: &str, workload: Option<&Workload>) -> bool {
    match (&pod.owner, workload) {
        (Owner::None, None) => pod.name == name,
        (Owner::None, Some(workload)) => workload.kind == WorkloadKind::Pod && pod.name == name,
        (owner, None) => owner.name() == name,
        (owner, Some(workload)) => owner.name() == name && owner.kind() == workload.kind.kind(),
    }
}

impl Snapshot {
    /// The pods of a workload of the lab, by name: those that carry the label `klab.dev/workload` and those whose chain
    /// of owners ends at an object of this name and of the workload's kind, in its namespace.
    /// Sorted by name; pods that are being deleted are among them.
    pub fn pods_of(&self, workload: &str, context: &Context<'_>) -> Vec<Arc<Pod>> {
        let view = View::new(self, context);
        let wanted: Vec<usize> = view.pods_of_workload(workload).map(|pod| pod.index).collect();
        wanted.into_iter().filter_map(|index| self.pods.get(index).cloned()).collect()
    }
}
