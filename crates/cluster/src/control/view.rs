//! What the control plane remembers of the cluster between changes: small summaries and indexes, never copies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::value::selects;
use klab_api_machinery::views::{Pod, Taint};
use klab_cel::names::is_extended_resource;
use serde::Deserialize;
use serde_json::Value;

use super::pod_ranges::PodRanges;
use super::queue::ObjectName;
use super::settings::{DEVICES_ANNOTATION, PRESSURE_ANNOTATION, STOPPED};
use klab_scheduler::selector::Selector;

/// `status.phase` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(crate) enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// A pod, and the few things about it that controllers ask for all the time.
#[derive(Debug, Clone)]
pub(crate) struct PodInfo {
    pub(crate) object: Arc<Object>,
    /// `spec.nodeName`; empty while unbound.
    pub(crate) node: Box<str>,
    pub(crate) phase: Phase,
    /// Condition Ready is True.
    pub(crate) ready: bool,
    /// When Ready last changed.
    pub(crate) ready_changed: Option<Timestamp>,
    pub(crate) created: Timestamp,
    pub(crate) ip: Option<Box<str>>,
    /// `metadata.generation`.
    pub(crate) generation: i64,
    /// `status.startTime`: when the kubelet took it.
    pub(crate) started: Option<Timestamp>,
    /// Whether others decide with the kubelet when it is ready (`spec.readinessGates`).
    pub(crate) gated: bool,
    /// Whether it asks for resource claims.
    pub(crate) has_claims: bool,
}

impl PodInfo {
    pub(crate) fn name(&self) -> ObjectName {
        ObjectName::new(&self.object.namespace, &self.object.name)
    }

    /// Succeeded or Failed.
    pub(crate) fn finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Neither finished nor being deleted: what workload controllers count.
    pub(crate) fn active(&self) -> bool {
        !self.finished() && !self.object.deleting
    }

    /// Made by a DaemonSet.
    pub(crate) fn of_daemon_set(&self) -> bool {
        self.object.controller().is_some_and(|owner| &*owner.kind == "DaemonSet")
    }

    /// Ready for at least `min_ready` seconds.
    pub(crate) fn available(&self, min_ready: i64, now: Timestamp) -> bool {
        self.ready
            && (min_ready == 0
                || self.ready_changed.is_some_and(|since| now.duration_since(since).as_secs() >= min_ready))
    }
}

#[derive(Deserialize, Default)]
struct PodBrief<'a> {
    #[serde(default, borrow)]
    metadata: MetaBrief<'a>,
    #[serde(default, borrow)]
    spec: SpecBrief<'a>,
    #[serde(default, borrow)]
    status: StatusBrief<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct MetaBrief<'a> {
    #[serde(borrow)]
    creation_timestamp: Option<&'a str>,
    generation: i64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SpecBrief<'a> {
    #[serde(borrow)]
    node_name: Option<&'a str>,
    readiness_gates: Option<Vec<serde::de::IgnoredAny>>,
    resource_claims: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StatusBrief<'a> {
    phase: Option<Phase>,
    #[serde(borrow, rename = "podIP")]
    pod_ip: Option<&'a str>,
    #[serde(borrow)]
    start_time: Option<&'a str>,
    #[serde(borrow)]
    conditions: Option<Vec<ConditionBrief<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConditionBrief<'a> {
    #[serde(borrow, rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    status: &'a str,
    #[serde(borrow, default)]
    last_transition_time: Option<&'a str>,
}

fn pod_info(object: &Arc<Object>) -> PodInfo {
    let tree = object.kept();
    let brief =
        tree.as_ref().map_or_else(|| serde_json::from_slice(&object.json), |tree| PodBrief::deserialize(&**tree));
    let brief: PodBrief<'_> = brief.unwrap_or_default();
    let conditions = brief.status.conditions.unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.kind == "Ready");
    let time = |text: Option<&str>| text.and_then(|text| text.parse().ok());
    PodInfo {
        node: brief.spec.node_name.unwrap_or_default().into(),
        phase: brief.status.phase.unwrap_or_default(),
        ready: ready.is_some_and(|condition| condition.status == "True"),
        ready_changed: time(ready.and_then(|condition| condition.last_transition_time)),
        generation: brief.metadata.generation,
        created: time(brief.metadata.creation_timestamp).unwrap_or_default(),
        ip: brief.status.pod_ip.map(Into::into),
        started: time(brief.status.start_time),
        gated: brief.spec.readiness_gates.is_some_and(|gates| !gates.is_empty()),
        has_claims: brief.spec.resource_claims.is_some_and(|claims| !claims.is_empty()),
        object: Arc::clone(object),
    }
}

/// A node, and the few things about it that controllers ask for all the time.
#[derive(Debug, Clone)]
pub(crate) struct NodeInfo {
    pub(crate) object: Arc<Object>,
    /// First `InternalIP`.
    pub(crate) address: Box<str>,
    /// `spec.podCIDR`.
    pub(crate) pod_range: Box<str>,
    taints: Vec<Value>,
    /// An annotation silences its kubelet.
    pub(crate) stopped: bool,
    /// Status of the condition Ready.
    pub(crate) ready: Box<str>,
    /// What a lab says it runs short of.
    pub(crate) pressure: Box<str>,
    /// What a lab says it has of devices.
    pub(crate) devices: Box<str>,
    /// Whether its capacity has other extended resources than pods can have.
    pub(crate) is_ahead: bool,
    /// Whether a condition says that it runs short of something.
    pub(crate) under_pressure: bool,
    /// Region and zone, as its labels say; empty for nodes without them, which are one zone together.
    pub(crate) zone: Box<str>,
}

impl NodeInfo {
    pub(crate) fn taints(&self) -> impl Iterator<Item = Taint<'_>> + Clone {
        self.taints.iter().map(Taint)
    }

    /// Its taints that evict pods.
    pub(crate) fn evicting_taints(&self) -> impl Iterator<Item = Taint<'_>> + Clone {
        self.taints().filter(|taint| taint.effect() == "NoExecute")
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeBrief {
    metadata: NodeMeta,
    spec: NodeSpecBrief,
    status: NodeStatusBrief,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeMeta {
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeSpecBrief {
    #[serde(rename = "podCIDR")]
    pod_cidr: String,
    taints: Vec<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeStatusBrief {
    addresses: Vec<AddressBrief>,
    conditions: Vec<NodeConditionBrief>,
    capacity: BTreeMap<String, Value>,
    allocatable: BTreeMap<String, Value>,
}

impl NodeStatusBrief {
    /// Whether its capacity says something of extended resources that pods do not get.
    fn is_ahead(&self) -> bool {
        let differs = |have: &BTreeMap<String, Value>, of: &BTreeMap<String, Value>| {
            have.iter().any(|(name, amount)| is_extended_resource(name) && of.get(name) != Some(amount))
        };
        differs(&self.capacity, &self.allocatable) || differs(&self.allocatable, &self.capacity)
    }
}

#[derive(Deserialize)]
struct AddressBrief {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Deserialize)]
struct NodeConditionBrief {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

fn node_info(object: &Arc<Object>, heartbeat: &str) -> NodeInfo {
    let brief: NodeBrief = object.decode().unwrap_or_default();
    let ready = brief.status.conditions.iter().find(|condition| condition.kind == "Ready");
    let address = brief.status.addresses.iter().find(|address| address.kind == "InternalIP");
    NodeInfo {
        address: address.map(|address| address.address.as_str()).unwrap_or_default().into(),
        pod_range: brief.spec.pod_cidr.into(),
        taints: brief.spec.taints,
        stopped: brief.metadata.annotations.get(heartbeat).is_some_and(|value| value == STOPPED),
        ready: ready.map(|condition| condition.status.as_str()).unwrap_or_default().into(),
        pressure: brief.metadata.annotations.get(PRESSURE_ANNOTATION).map(String::as_str).unwrap_or_default().into(),
        devices: brief.metadata.annotations.get(DEVICES_ANNOTATION).map(String::as_str).unwrap_or_default().into(),
        is_ahead: brief.status.is_ahead(),
        under_pressure: (brief.status.conditions.iter())
            .any(|condition| condition.kind.ends_with("Pressure") && condition.status == "True"),
        zone: ["region", "zone"]
            .map(|part| object.label(&format!("topology.kubernetes.io/{part}")).unwrap_or_default())
            .join("/")
            .into(),
        object: Arc::clone(object),
    }
}

/// Where an object is kept.
pub(crate) type ObjectKey = (ResourceId, ObjectName);

/// Summaries and indexes of the objects the control plane works with.
#[derive(Debug, Default)]
pub(crate) struct View {
    pods: BTreeMap<ObjectName, Arc<PodInfo>>,
    nodes: BTreeMap<Box<str>, Arc<NodeInfo>>,
    /// Those whose condition Ready is False or Unknown.
    not_ready: BTreeSet<Box<str>>,
    pod_ranges: PodRanges,
    by_node: HashMap<Box<str>, BTreeSet<ObjectName>>,
    /// Pods that no controller manages.
    orphans: BTreeSet<ObjectName>,
    /// uid of an owner → its dependents.
    dependents: HashMap<Box<str>, BTreeSet<ObjectKey>>,
    /// uid → where the object is.
    uids: HashMap<Box<str>, ObjectKey>,
    /// Selectors of Services, PodDisruptionBudgets and pod controllers.
    selectors: BTreeMap<ResourceId, BTreeMap<ObjectName, Selector>>,
    /// Namespaces that are being deleted.
    pub(crate) terminating: BTreeSet<Box<str>>,
}

impl View {
    /// The pod of that name.
    pub(crate) fn pod(&self, name: &ObjectName) -> Option<&Arc<PodInfo>> {
        self.pods.get(name)
    }

    /// The pods of a namespace.
    pub(crate) fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        let namespace: Box<str> = namespace.into();
        self.pods
            .range(ObjectName { namespace: namespace.clone(), name: "".into() }..)
            .take_while(move |(name, _)| name.namespace == namespace)
            .map(|(_, pod)| pod)
    }

    /// The pods of a namespace that no controller manages.
    pub(crate) fn orphans_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        let namespace: Box<str> = namespace.into();
        self.orphans
            .range(ObjectName { namespace: namespace.clone(), name: "".into() }..)
            .take_while(move |name| name.namespace == namespace)
            .filter_map(|name| self.pods.get(name))
    }

    /// The pods that are bound to no node.
    pub(crate) fn unbound(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.values().filter(|pod| pod.node.is_empty())
    }

    /// The pods bound to a node.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<PodInfo>> {
        let names = self.by_node.get(node);
        names.into_iter().flatten().filter_map(|name| self.pods.get(name)).map(Arc::clone).collect()
    }

    /// The pods of a node that have to go elsewhere before it goes: not finished ones, nor those of DaemonSets and of the node itself.
    pub(crate) fn pods_to_drain(&self, node: &str) -> Vec<Arc<PodInfo>> {
        let mut pods = self.pods_on(node);
        pods.retain(|pod| !pod.finished() && !pod.of_daemon_set() && !Pod(&pod.object.value()).is_mirror());
        pods
    }

    /// The pods whose managing controller has that uid, by name.
    pub(crate) fn pods_of(&self, uid: &str) -> Vec<Arc<PodInfo>> {
        self.dependents_of(uid)
            .filter_map(|(_, name)| self.pods.get(name))
            .filter(|pod| pod.object.controller().is_some_and(|owner| owner.uid.as_ref() == uid))
            .map(Arc::clone)
            .collect()
    }

    /// The objects that name that uid as an owner.
    pub(crate) fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &ObjectKey> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Where the object of that uid is, if it exists.
    pub(crate) fn find(&self, uid: &str) -> Option<&ObjectKey> {
        self.uids.get(uid)
    }

    /// The objects of a kind in the object's namespace whose selectors match its labels.
    pub(crate) fn selecting(&self, resource: ResourceId, object: &Object) -> Vec<ObjectName> {
        self.selectors_in(resource, &object.namespace)
            .filter(|(_, selector)| selects(selector, object))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// The selectors of a kind in a namespace.
    pub(crate) fn selectors_in(
        &self,
        resource: ResourceId,
        namespace: &str,
    ) -> impl Iterator<Item = (&ObjectName, &Selector)> {
        let namespace: Box<str> = namespace.into();
        self.selectors.get(&resource).into_iter().flat_map(move |kind| {
            let wanted = namespace.clone();
            kind.range(ObjectName { namespace: namespace.clone(), name: "".into() }..)
                .take_while(move |(name, _)| name.namespace == wanted)
        })
    }

    /// Remembers the selector of an object, or forgets it.
    pub(crate) fn set_selector(&mut self, resource: ResourceId, name: ObjectName, selector: Option<Selector>) {
        let kind = self.selectors.entry(resource).or_default();
        match selector {
            Some(selector) => kind.insert(name, selector),
            None => kind.remove(&name),
        };
    }

    /// The node of that name.
    pub(crate) fn node(&self, name: &str) -> Option<&Arc<NodeInfo>> {
        self.nodes.get(name)
    }

    /// All nodes, by name.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Arc<NodeInfo>> {
        self.nodes.values()
    }

    /// The nodes whose condition Ready is False or Unknown.
    pub(crate) fn nodes_not_ready(&self) -> impl Iterator<Item = &str> {
        self.not_ready.iter().map(AsRef::as_ref)
    }

    /// The first address range for pods that no node has.
    pub(crate) fn free_pod_range(&self) -> String {
        self.pod_ranges.first_free()
    }

    /// Takes in a node; gives back what was known before. `heartbeat` is the annotation that silences a node.
    pub(crate) fn put_node(&mut self, object: &Arc<Object>, heartbeat: &str) -> Option<Arc<NodeInfo>> {
        let node = Arc::new(node_info(object, heartbeat));
        self.pod_ranges.take(&node.pod_range);
        if matches!(node.ready.as_ref(), "False" | "Unknown") {
            self.not_ready.insert(object.name.clone());
        } else {
            self.not_ready.remove(&object.name);
        }
        let before = self.nodes.insert(object.name.clone(), node);
        if let Some(before) = &before {
            self.pod_ranges.give_back(&before.pod_range);
        }
        before
    }

    /// Forgets a node.
    pub(crate) fn remove_node(&mut self, name: &str) -> Option<Arc<NodeInfo>> {
        let before = self.nodes.remove(name);
        self.not_ready.remove(name);
        if let Some(before) = &before {
            self.pod_ranges.give_back(&before.pod_range);
        }
        before
    }

    /// Takes in a pod; gives back what was known before and the new summary.
    pub(crate) fn put_pod(&mut self, object: &Arc<Object>) -> (Option<Arc<PodInfo>>, Arc<PodInfo>) {
        let info = Arc::new(pod_info(object));
        let name = info.name();
        let before = self.pods.insert(name.clone(), Arc::clone(&info));
        if let Some(before) = &before
            && before.node != info.node
        {
            self.leave_node(&before.node, &name);
        }
        if info.object.controller().is_none() {
            self.orphans.insert(name.clone());
        } else if before.is_some() {
            self.orphans.remove(&name);
        }
        if !info.node.is_empty() {
            self.by_node.entry(info.node.clone()).or_default().insert(name);
        }
        (before, info)
    }

    /// Forgets a pod.
    pub(crate) fn remove_pod(&mut self, name: &ObjectName) -> Option<Arc<PodInfo>> {
        let pod = self.pods.remove(name)?;
        self.orphans.remove(name);
        self.leave_node(&pod.node, name);
        Some(pod)
    }

    fn leave_node(&mut self, node: &str, name: &ObjectName) {
        if let Some(names) = self.by_node.get_mut(node) {
            names.remove(name);
            if names.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    /// Takes in an object's uid and owners (`previous` is its last version).
    pub(crate) fn link(&mut self, object: &Object, previous: Option<&Object>) {
        let key = (object.resource.family(), ObjectName::new(&object.namespace, &object.name));
        if let Some(previous) = previous {
            if previous.owners == object.owners && previous.uid == object.uid {
                return;
            }
            self.unlink(previous);
        }
        for owner in &object.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        self.uids.insert(object.uid.clone(), key);
    }

    /// Forgets an object's uid and owners.
    pub(crate) fn unlink(&mut self, object: &Object) {
        let key = (object.resource.family(), ObjectName::new(&object.namespace, &object.name));
        for owner in &object.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&key);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        self.uids.remove(&object.uid);
    }
}
