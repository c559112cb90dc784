//! The scheduler's interface: tell it what is in the cluster, ask it where a pod goes and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::StorageClass;

use super::class_cache::ClassCaches;
use super::decision::{Attempt, Decision};
use super::devices::{ClaimChange, SelectorLanguage};
use super::error::ObjectError;
use super::evaluation;
use super::features::{Features, Gate};
use super::ids::{ClassId, LabelsId};
use super::node_info::NodeSpec;
use super::pod_info::namespace_of;
use super::pod_key::PodKey;
use super::profile::{Profile, Profiles, default_profile};
use super::queue::{Event, PodFacts};
use super::reason::Reason;
use super::resources::Resources;
use super::schedule::{self, Subject};
use super::selector::Labels;
use super::state::{Place, PodEntry, State};
use super::tie::TieBreak;
use super::volumes::ClassChange;

/// The cluster as the scheduler knows it. Objects are handed in as they are in the API, after admission (see
/// [`super::admission`]); what does not matter to scheduling is not kept.
///
/// A clone costs little (nodes are shared until they change) and starts with empty caches, so that what-if questions
/// are asked of a clone.
#[derive(Debug, Default)]
pub struct Cluster {
    state: State,
    caches: ClassCaches,
    profiles: Arc<Profiles>,
    tie_break: TieBreak,
}

impl Clone for Cluster {
    fn clone(&self) -> Self {
        let (state, profiles) = (self.state.clone(), Arc::clone(&self.profiles));
        Self { state, caches: ClassCaches::default(), profiles, tie_break: self.tie_break }
    }
}

/// What a node offers and what of it is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeUsage {
    /// What the node offers.
    pub allocatable: Resources,
    /// What its pods request.
    pub requested: Resources,
    /// How many pods it may hold.
    pub allowed_pods: i64,
    /// How many it holds.
    pub pods: i64,
}

impl Cluster {
    /// An empty cluster with the namespaces that always exist.
    pub fn new(tie_break: TieBreak) -> Self {
        let mut cluster = Self { tie_break, ..Self::default() };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            cluster.set_namespace_labels(name, Labels::new());
        }
        cluster
    }

    /// Takes over the profiles of a configured scheduler.
    pub fn set_profiles(&mut self, profiles: Arc<Profiles>) {
        self.profiles = profiles;
        self.caches = ClassCaches::default();
    }

    /// Has the features of a configured cluster; before it hears of objects.
    pub fn set_features(&mut self, features: Features) {
        self.state.features = features;
        Arc::make_mut(&mut self.state.devices).has_extended = features.has(Gate::DRAExtendedResource);
    }

    /// The profiles of the scheduler.
    pub fn profiles(&self) -> &Arc<Profiles> {
        &self.profiles
    }

    /// What is known, to go on from in thought.
    pub(crate) fn fork(&self) -> State {
        self.state.clone()
    }

    /// Adds a node or takes over its changes. Returns the event if anything changed that matters to scheduling.
    pub fn set_node(&mut self, node: &Node) -> Result<Option<Event>, ObjectError> {
        let spec = NodeSpec::from_api(node)?;
        let name = Arc::clone(&spec.name);
        let old = self.node(&name);
        if !self.state.set_node(spec) {
            return Ok(None);
        }
        Ok(self.node(&name).map(|new| match old {
            Some(old) => Event::NodeChanged { old, new },
            None => Event::NodeAdded(new),
        }))
    }

    /// Removes a node. Pods bound to it stay known until they are removed, but count nowhere.
    pub fn remove_node(&mut self, name: &str) -> Option<Event> {
        let old = self.node(name)?;
        self.state.remove_node(name).then_some(Event::NodeRemoved(old))
    }

    /// Adds a pod or takes over its changes. Knows what counts: bound pods that have not finished hold resources,
    /// pending ones with `status.nominatedNodeName` keep a node; others are forgotten. Returns the event if something
    /// changed that may help pending pods.
    pub fn set_pod(&mut self, pod: &Pod) -> Result<Option<Event>, ObjectError> {
        let name = pod.metadata.name.as_deref().ok_or(ObjectError::Missing { field: "metadata.name" })?;
        let text =
            |value: Option<&String>| value.filter(|value| !value.is_empty()).map(|value| Arc::from(value.as_str()));
        let status = pod.status.as_ref();
        let finished = matches!(status.and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"));
        let terminating = pod.metadata.deletion_timestamp.is_some();
        let bound = text(pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()));
        let nominated = text(status.and_then(|status| status.nominated_node_name.as_ref()));
        let place = match (bound, nominated) {
            (Some(node), _) if !finished => Place::Bound(node),
            (None, Some(node)) if !finished && !terminating => Place::Nominated(node),
            _ => {
                return Ok(self.remove_pod(namespace_of(pod), name));
            }
        };
        let info = self.state.read(pod)?;
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let preempted = conditions.into_iter().any(|condition| {
            condition.type_ == "DisruptionTarget" && condition.reason.as_deref() == Some("PreemptionByScheduler")
        });
        let namespace = Arc::clone(&info.namespace);
        let no_labels = Labels::new();
        let labels = self.state.intern_labels(&namespace, pod.metadata.labels.as_ref().unwrap_or(&no_labels));
        let started = status.and_then(|status| status.start_time.as_ref()).map(|time| time.0.as_microsecond());
        let entry = PodEntry {
            key: PodKey { namespace, name: Arc::from(name) },
            class: self.state.intern_class(info),
            labels,
            place,
            started,
            terminating,
            preempted,
        };
        Ok(self.take_over(entry))
    }

    fn take_over(&mut self, entry: PodEntry) -> Option<Event> {
        let old = self.state.pod_id(&entry.key.namespace, &entry.key.name).and_then(|id| self.state.pod(id));
        let before = old.map(|old| (old.place.clone(), old.class, old.labels));
        let (place, class, labels) = (entry.place.clone(), entry.class, entry.labels);
        self.state.set_pod(entry);
        match (before, place) {
            (Some((Place::Bound(_), old_class, old_labels)), Place::Bound(_)) => {
                let changed = (old_class, old_labels) != (class, labels);
                changed.then(|| Event::PodChanged {
                    old: self.facts(old_class, old_labels),
                    new: self.facts(class, labels),
                })
            }
            (_, Place::Bound(_)) => Some(Event::PodAssigned(self.facts(class, labels))),
            (Some((Place::Nominated(was), old_class, old_labels)), Place::Nominated(is)) if was != is => {
                Some(Event::NominationWithdrawn(self.facts(old_class, old_labels)))
            }
            (_, Place::Nominated(_)) => None,
        }
    }

    fn facts(&self, class: ClassId, labels: LabelsId) -> PodFacts {
        PodFacts {
            info: Arc::clone(&self.state.class(class).info),
            labels: self.state.label_set(labels).labels.clone(),
            resource_claims: Vec::new(),
        }
    }

    /// Places a pending pod on a node, as binding does, without building a pod object for it.
    pub fn bind(&mut self, pod: &Pod, node: &str) -> Result<Option<Event>, ObjectError> {
        let name = pod.metadata.name.as_deref().ok_or(ObjectError::Missing { field: "metadata.name" })?;
        let subject = Subject::of(&mut self.state, pod, name)?;
        Ok(self.take_over(PodEntry {
            key: subject.key,
            class: subject.class,
            labels: subject.labels,
            place: Place::Bound(Arc::from(node)),
            started: None,
            terminating: false,
            preempted: false,
        }))
    }

    /// Notes when the kubelet took a bound pod (`status.startTime`, in microseconds since the epoch), by which preemption
    /// chooses among equals.
    pub fn set_started(&mut self, namespace: &str, name: &str, started: Option<i64>) {
        if let Some(id) = self.state.pod_id(namespace, name) {
            self.state.set_started(id, started);
        }
    }

    /// Forgets a pod.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) -> Option<Event> {
        let entry = self.state.remove_pod(namespace, name)?;
        let facts = self.facts(entry.class, entry.labels);
        Some(match entry.place {
            Place::Bound(_) => Event::PodRemoved(facts),
            Place::Nominated(_) => Event::NominationWithdrawn(facts),
        })
    }

    /// Adds a namespace or takes over its labels.
    pub fn set_namespace(&mut self, namespace: &Namespace) {
        let name = namespace.metadata.name.clone().unwrap_or_default();
        self.set_namespace_labels(&name, namespace.metadata.labels.clone().unwrap_or_default());
    }

    fn set_namespace_labels(&mut self, name: &str, mut labels: Labels) {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        self.state.set_namespace(name, Some(labels));
    }

    /// Removes a namespace.
    pub fn remove_namespace(&mut self, name: &str) {
        self.state.set_namespace(name, None);
    }

    /// Adds or replaces a Service: its selector gives pods their default spreading.
    pub fn set_service(&mut self, service: &Service) {
        self.state.workloads.set_service(service);
    }

    /// Adds or replaces a ReplicaSet.
    pub fn set_replica_set(&mut self, set: &ReplicaSet) -> Result<(), ObjectError> {
        self.state.workloads.set_replica_set(set)
    }

    /// Adds or replaces a StatefulSet.
    pub fn set_stateful_set(&mut self, set: &StatefulSet) -> Result<(), ObjectError> {
        self.state.workloads.set_stateful_set(set)
    }

    /// Adds or replaces a ReplicationController.
    pub fn set_replication_controller(&mut self, controller: &ReplicationController) {
        self.state.workloads.set_replication_controller(controller);
    }

    /// Removes a `Service`, `ReplicaSet`, `StatefulSet` or `ReplicationController`.
    pub fn remove_workload(&mut self, kind: &str, namespace: &str, name: &str) {
        self.state.workloads.remove(kind, namespace, name);
    }

    /// Adds or replaces a disruption budget.
    pub fn set_disruption_budget(&mut self, budget: &PodDisruptionBudget) -> Result<(), ObjectError> {
        self.state.budgets.set(budget)
    }

    /// Removes a disruption budget.
    pub fn remove_disruption_budget(&mut self, namespace: &str, name: &str) {
        self.state.budgets.remove(namespace, name);
    }

    /// Adds or replaces a claim.
    pub fn set_claim(&mut self, claim: &PersistentVolumeClaim) -> Event {
        let namespace = claim.metadata.namespace.as_deref().unwrap_or("default");
        let name = claim.metadata.name.clone().unwrap_or_default();
        let added = self.state.volumes.claim(namespace, &name).is_none();
        self.state.volumes.set_claim(claim);
        Event::VolumeClaim { namespace: namespace.to_owned(), name, added }
    }

    /// Removes a claim, which helps no pod.
    pub fn remove_claim(&mut self, namespace: &str, name: &str) {
        self.state.volumes.remove_claim(namespace, name);
    }

    /// Adds or replaces a volume.
    pub fn set_volume(&mut self, volume: &PersistentVolume) -> Result<Event, ObjectError> {
        let moved = self.state.volumes.set_volume(volume)?;
        Ok(Event::Volume { moved })
    }

    /// Removes a volume, which helps no pod.
    pub fn remove_volume(&mut self, name: &str) {
        self.state.volumes.remove_volume(name);
    }

    /// Adds or replaces a storage class.
    pub fn set_storage_class(&mut self, class: &StorageClass) -> Event {
        let ClassChange { added, late, moved } = self.state.volumes.set_storage_class(class);
        Event::StorageClass { added, late, moved }
    }

    /// Removes a storage class, which helps no pod.
    pub fn remove_storage_class(&mut self, name: &str) {
        self.state.volumes.remove_storage_class(name);
    }

    /// Takes over the language of device selectors; without it, no device is selected by an expression.
    pub fn set_selector_language(&mut self, language: Arc<dyn SelectorLanguage>) {
        self.state.with_devices(|devices| (super::devices::Felt::Nowhere, devices.set_language(language)));
    }

    /// Adds or replaces a class of devices.
    pub fn set_device_class(&mut self, class: &DeviceClass) -> Event {
        let change = self.state.with_devices(|devices| (super::devices::Felt::Nowhere, devices.set_class(class)));
        self.feel_resources(change.is_felt);
        Event::DeviceClass { resources: change.resources }
    }

    /// Removes a class of devices, which helps no pod.
    pub fn remove_device_class(&mut self, name: &str) {
        let changes = self.state.with_devices(|devices| (super::devices::Felt::Nowhere, devices.remove_class(name)));
        self.feel_resources(changes);
    }

    /// Whether an extended resource is the devices of a class.
    pub fn is_devices(&self, resource: &str) -> bool {
        self.state.devices.are_resource(resource)
    }

    /// Resources may be devices, or no longer: what was found out about nodes may be wrong.
    fn feel_resources(&mut self, changes: bool) {
        if changes {
            let nodes = self.node_names();
            self.state.with_devices(|_| (super::devices::Felt::On(nodes), ()));
        }
    }

    /// Adds or replaces a slice of a pool of devices.
    pub fn set_resource_slice(&mut self, slice: &ResourceSlice) -> Event {
        self.state.with_devices(|devices| (devices.set_slice(slice), ()));
        Event::ResourceSlice
    }

    /// Removes a slice, which helps no pod.
    pub fn remove_resource_slice(&mut self, name: &str) {
        self.state.with_devices(|devices| (devices.remove_slice(name), ()));
    }

    /// Adds or replaces a resource claim with what it was given.
    pub fn set_resource_claim(&mut self, claim: &ResourceClaim) -> Option<Event> {
        let change = self.state.with_devices(|devices| {
            let change = devices.set_claim(claim);
            (change.felt.clone(), change)
        });
        let namespace = claim.metadata.namespace.as_deref().unwrap_or("default");
        claim_event(namespace, claim.metadata.name.as_deref().unwrap_or_default(), &change)
    }

    /// Removes a resource claim. What it had is free then.
    pub fn remove_resource_claim(&mut self, namespace: &str, name: &str) -> Option<Event> {
        let change = self.state.with_devices(|devices| match devices.remove_claim(namespace, name) {
            Some(change) => (change.felt.clone(), Some(change)),
            None => (super::devices::Felt::Nowhere, None),
        });
        change.and_then(|change| claim_event(namespace, name, &change))
    }

    /// Notes that the devices of a claim did not get ready in time: a pod that has it finds other devices for it, if it is the
    /// only one. That is forgotten once the claim is given other devices.
    pub fn give_up_resource_claim(&mut self, namespace: &str, name: &str) {
        self.state.with_devices(|devices| (super::devices::Felt::Nowhere, devices.give_up_claim(namespace, name)));
    }

    /// Where a pending pod goes. Nothing changes: bind it with [`Self::bind`] or [`Self::set_pod`].
    pub fn schedule(&mut self, pod: &Pod) -> Result<Decision, ObjectError> {
        let profiles = Arc::clone(&self.profiles);
        schedule::schedule(&mut self.state, &mut self.caches, profiles.of(pod), self.tie_break, pod)
    }

    /// Where a pending pod goes, with the verdict on and the scores of every node. Agrees with [`Self::schedule`].
    pub fn attempt(&mut self, pod: &Pod) -> Result<Attempt, ObjectError> {
        let profiles = Arc::clone(&self.profiles);
        schedule::attempt(&mut self.state, &mut self.caches, profiles.of(pod), self.tie_break, pod)
    }

    /// Where a pod that is already placed would go now if it were new: its own place counts as free.
    pub fn reconsider(&self, pod: &Pod) -> Result<Attempt, ObjectError> {
        let mut other = self.clone();
        let mut pod = pod.clone();
        if let Some(name) = pod.metadata.name.as_deref() {
            other.remove_pod(namespace_of(&pod), name);
        }
        if let Some(spec) = pod.spec.as_mut() {
            spec.node_name = None;
        }
        if let Some(status) = pod.status.as_mut() {
            status.nominated_node_name = None;
        }
        other.attempt(&pod)
    }

    /// Every reason why a node cannot take a pod, over all filters; empty if it can. `None` if there is no such node.
    ///
    /// Pods for which the node is kept (nominated, same or higher priority) count as present.
    pub fn evaluate(&mut self, pod: &Pod, node: &str) -> Result<Option<Vec<Reason>>, ObjectError> {
        let profiles = Arc::clone(&self.profiles);
        evaluation::evaluate(&mut self.state, &mut self.caches, asked(&profiles, pod), pod, node)
    }

    /// [`Self::evaluate`] for all nodes, by name.
    pub fn evaluate_all(&mut self, pod: &Pod) -> Result<BTreeMap<Arc<str>, Vec<Reason>>, ObjectError> {
        let profiles = Arc::clone(&self.profiles);
        evaluation::evaluate_all(&mut self.state, &mut self.caches, asked(&profiles, pod), pod)
    }

    /// Names of all nodes, sorted.
    pub fn node_names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self.state.live_nodes().map(|(_, node)| Arc::clone(&node.spec.name)).collect();
        names.sort_unstable();
        names
    }

    /// A node's labels, taints and allocatable.
    pub fn node(&self, name: &str) -> Option<Arc<NodeSpec>> {
        let node = self.state.node(self.state.node_id(name)?)?;
        Some(Arc::clone(&node.spec))
    }

    /// What a node offers and what of it is taken.
    pub fn usage(&self, name: &str) -> Option<NodeUsage> {
        let node = self.state.node(self.state.node_id(name)?)?;
        Some(NodeUsage {
            allocatable: node.spec.allocatable.clone(),
            requested: node.requested.clone(),
            allowed_pods: node.spec.allowed_pods,
            pods: node.pods.len() as i64,
        })
    }

    /// The node a pod is bound to.
    pub fn node_of(&self, namespace: &str, name: &str) -> Option<Arc<str>> {
        let entry = self.state.pod(self.state.pod_id(namespace, name)?)?;
        match &entry.place {
            Place::Bound(node) => Some(Arc::clone(node)),
            Place::Nominated(_) => None,
        }
    }
}

/// The profile by which a question about a pod is answered: the default one where the pod asks for another scheduler.
fn asked<'p>(profiles: &'p Profiles, pod: &Pod) -> &'p Profile {
    profiles.of(pod).unwrap_or_else(|| default_profile())
}

fn claim_event(namespace: &str, name: &str, change: &ClaimChange) -> Option<Event> {
    let any = change.added || change.deallocated || change.status;
    any.then(|| Event::ResourceClaimChanged {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        deallocated: change.deallocated,
    })
}
