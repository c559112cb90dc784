//! The cluster as the scheduler sees it: nodes, placed and nominated pods, and everything selectors refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use k8s_openapi::api::core::v1::Pod;

use super::devices::{Devices, Felt};
use super::disruption::Budgets;
use super::error::ObjectError;
use super::features::{Features, Gate};
use super::hash::fnv64_mixed;
use super::ids::{ClassId, LabelsId, NodeId, PodId};
use super::node_info::{NodeInfo, NodeSpec};
use super::pod_info::PodInfo;
use super::pod_key::PodKey;
use super::resources::{NonZero, Resources};
use super::selector::Labels;
use super::topology::{ColumnId, HeldId, HeldKind, Topology, held_terms};
use super::volumes::Volumes;
use super::workloads::Workloads;

/// What is known of a pod that is placed or nominated.
#[derive(Debug, Clone)]
pub(crate) struct PodEntry {
    pub(crate) key: PodKey,
    pub(crate) class: ClassId,
    pub(crate) labels: LabelsId,
    pub(crate) place: Place,
    /// Microseconds since 1970; `None` before the kubelet reports it, which counts as now.
    pub(crate) started: Option<i64>,
    pub(crate) terminating: bool,
    /// Terminating because the scheduler evicted it.
    pub(crate) preempted: bool,
}

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Bound to the node of that name, which need not exist.
    Bound(Arc<str>),
    /// Pending, with the node of that name kept for it.
    Nominated(Arc<str>),
}

/// A namespace and labels that pods share, with the existing terms known to match them.
#[derive(Debug, Clone)]
pub(crate) struct LabelSet {
    pub(crate) namespace: Arc<str>,
    pub(crate) labels: Labels,
    matching: Vec<HeldId>,
    /// How many of all held terms have been looked at.
    looked_at: usize,
}

/// A class of pods with equal information.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) info: Arc<PodInfo>,
    pub(crate) held: Vec<HeldId>,
}

#[derive(Debug, Clone)]
pub(crate) struct ImageState {
    pub(crate) size: i64,
    pub(crate) nodes: BTreeSet<NodeId>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) features: Features,
    pub(crate) nodes: Vec<Option<Arc<NodeInfo>>>,
    /// Hashes of the nodes' names, for ties; dense, because many nodes can tie.
    pub(crate) name_hashes: Vec<u64>,
    node_ids: HashMap<Arc<str>, NodeId>,
    free_nodes: Vec<NodeId>,
    pods: Vec<Option<PodEntry>>,
    pod_ids: HashMap<Arc<str>, HashMap<Arc<str>, PodId>>,
    free_pods: Vec<PodId>,
    label_sets: Vec<LabelSet>,
    label_ids: HashMap<(Arc<str>, Labels), LabelsId>,
    classes: Vec<Class>,
    class_ids: HashMap<Arc<PodInfo>, ClassId>,
    pub(crate) topology: Topology,
    pub(crate) images: HashMap<String, ImageState>,
    namespaces: BTreeMap<String, Labels>,
    pub(crate) workloads: Workloads,
    pub(crate) budgets: Budgets,
    pub(crate) volumes: Volumes,
    pub(crate) devices: Arc<Devices>,
    /// Nominated pods by node name.
    nominated: BTreeMap<Arc<str>, Vec<PodId>>,
    /// Bound pods whose node does not exist, by node name.
    homeless: BTreeMap<Arc<str>, Vec<PodId>>,
    /// Nodes in the order in which something about them changed, from `log_start` on.
    log: Vec<NodeId>,
    log_start: u64,
    generation: u64,
    /// Changes when cached verdicts of all nodes may be out of date.
    pub(crate) epoch: u64,
    /// Changes when image scores of all nodes may be out of date.
    pub(crate) image_epoch: u64,
}

impl State {
    /// What matters of a pod.
    pub(crate) fn read(&self, pod: &Pod) -> Result<PodInfo, ObjectError> {
        let mut info = PodInfo::from_api(pod)?;
        if !self.features.has(Gate::TaintTolerationComparisonOperators) {
            info.tolerations.retain(|toleration| !toleration.compares());
        }
        Ok(info)
    }

    // Nodes.

    pub(crate) fn node_count(&self) -> usize {
        self.node_ids.len()
    }

    pub(crate) fn node_id(&self, name: &str) -> Option<NodeId> {
        self.node_ids.get(name).copied()
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Arc<NodeInfo>> {
        self.nodes.get(id as usize).and_then(Option::as_ref)
    }

    pub(crate) fn live_nodes(&self) -> impl Iterator<Item = (NodeId, &Arc<NodeInfo>)> {
        self.nodes.iter().enumerate().filter_map(|(id, node)| node.as_ref().map(|node| (id as NodeId, node)))
    }

    /// Adds or replaces a node. Returns whether anything that scheduling depends on changed.
    pub(crate) fn set_node(&mut self, spec: NodeSpec) -> bool {
        self.generation += 1;
        let generation = self.generation;
        if let Some(id) = self.node_id(&spec.name) {
            let Some(old) = self.node(id).map(|node| Arc::clone(&node.spec)) else { return false };
            if *old == spec {
                return false;
            }
            if old.images != spec.images {
                self.remove_images(id, &old);
                self.add_images(id, &spec);
            }
            if old.labels != spec.labels {
                self.count_node_held(id, -1);
                self.topology.set_node(id, Some(&spec.labels));
                self.count_node_held(id, 1);
            }
            if let Some(node) = self.nodes[id as usize].as_mut() {
                let node = Arc::make_mut(node);
                node.spec = Arc::new(spec);
                node.generation = generation;
            }
            self.touch(id);
            return true;
        }
        let id = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.name_hashes.push(0);
            (self.nodes.len() - 1) as NodeId
        });
        self.topology.set_node(id, Some(&spec.labels));
        self.add_images(id, &spec);
        if !self.images.is_empty() {
            self.image_epoch += 1;
        }
        let name = Arc::clone(&spec.name);
        self.node_ids.insert(Arc::clone(&name), id);
        self.name_hashes[id as usize] = fnv64_mixed(&[&name]);
        self.nodes[id as usize] = Some(Arc::new(NodeInfo {
            generation,
            pods: Vec::new(),
            requested: Resources::default(),
            non_zero: NonZero::default(),
            ports: Vec::new(),
            spec: Arc::new(spec),
        }));
        for pod in self.homeless.remove(&name).unwrap_or_default() {
            self.settle(pod, id);
        }
        self.touch(id);
        true
    }

    /// Removes a node; pods bound to it stay known and come back with it.
    pub(crate) fn remove_node(&mut self, name: &str) -> bool {
        let Some(id) = self.node_ids.remove(name) else { return false };
        self.count_node_held(id, -1);
        if let Some(node) = self.nodes[id as usize].take() {
            self.remove_images(id, &node.spec);
            if !node.pods.is_empty() {
                self.homeless.insert(Arc::clone(&node.spec.name), node.pods.clone());
            }
        }
        if !self.images.is_empty() {
            self.image_epoch += 1;
        }
        self.topology.set_node(id, None);
        self.free_nodes.push(id);
        self.touch(id);
        true
    }

    fn count_node_held(&mut self, id: NodeId, sign: i64) {
        let Some(node) = self.node(id).map(Arc::clone) else { return };
        for &pod in &node.pods {
            if let Some(entry) = self.pods[pod as usize].as_ref() {
                self.topology.count_held(&self.classes[entry.class as usize].held, id, sign);
            }
        }
    }

    fn add_images(&mut self, id: NodeId, spec: &NodeSpec) {
        for (name, size) in &spec.images {
            self.images
                .entry(name.clone())
                .or_insert_with(|| ImageState { size: *size, nodes: BTreeSet::new() })
                .nodes
                .insert(id);
            self.image_epoch += 1;
        }
    }

    fn remove_images(&mut self, id: NodeId, spec: &NodeSpec) {
        for (name, _) in &spec.images {
            if let Some(image) = self.images.get_mut(name) {
                image.nodes.remove(&id);
                if image.nodes.is_empty() {
                    self.images.remove(name);
                }
            }
            self.image_epoch += 1;
        }
    }

    // Devices.

    /// Changes what is known of devices, and gives new verdicts on the nodes that feel it.
    pub(crate) fn with_devices<T>(&mut self, change: impl FnOnce(&mut Devices) -> (Felt, T)) -> T {
        let (felt, result) = change(Arc::make_mut(&mut self.devices));
        // What is felt everywhere shows in the epoch of the devices.
        if let Felt::On(nodes) = felt {
            for id in nodes.iter().filter_map(|node| self.node_ids.get(node).copied()).collect::<Vec<_>>() {
                self.touch(id);
            }
        }
        result
    }

    // The log of changed nodes.

    fn touch(&mut self, id: NodeId) {
        if self.log.len() > 4 * self.nodes.len() + 1024 {
            self.log_start += self.log.len() as u64;
            self.log.clear();
        }
        self.log.push(id);
    }

    /// The position to remember for the next call of [`Self::changed_since`].
    pub(crate) fn log_end(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// Nodes changed since a position; `None` if that is too long ago to know.
    pub(crate) fn changed_since(&self, position: u64) -> Option<&[NodeId]> {
        let from = position.checked_sub(self.log_start)?;
        self.log.get(from as usize..)
    }

    // Pods.

    pub(crate) fn pod(&self, id: PodId) -> Option<&PodEntry> {
        self.pods.get(id as usize).and_then(Option::as_ref)
    }

    pub(crate) fn pod_id(&self, namespace: &str, name: &str) -> Option<PodId> {
        self.pod_ids.get(namespace)?.get(name).copied()
    }

    /// When the kubelet took a pod that is there, in microseconds since the epoch.
    pub(crate) fn set_started(&mut self, id: PodId, started: Option<i64>) {
        if let Some(entry) = self.pods.get_mut(id as usize).and_then(Option::as_mut) {
            entry.started = started;
        }
    }

    pub(crate) fn class(&self, id: ClassId) -> &Class {
        &self.classes[id as usize]
    }

    pub(crate) fn label_set(&self, id: LabelsId) -> &LabelSet {
        &self.label_sets[id as usize]
    }

    /// Adds or replaces a placed or nominated pod.
    pub(crate) fn set_pod(&mut self, entry: PodEntry) {
        if let Some(id) = self.pod_id(&entry.key.namespace, &entry.key.name) {
            let same = self.pod(id).is_some_and(|old| {
                old.class == entry.class
                    && old.labels == entry.labels
                    && old.place == entry.place
                    && old.terminating == entry.terminating
            });
            if same {
                self.pods[id as usize] = Some(entry);
                return;
            }
            self.unsettle(id);
            self.pods[id as usize] = Some(entry);
            self.place(id);
            return;
        }
        let id = self.free_pods.pop().unwrap_or_else(|| {
            self.pods.push(None);
            (self.pods.len() - 1) as PodId
        });
        self.pod_ids.entry(Arc::clone(&entry.key.namespace)).or_default().insert(Arc::clone(&entry.key.name), id);
        self.pods[id as usize] = Some(entry);
        self.place(id);
    }

    pub(crate) fn remove_pod(&mut self, namespace: &str, name: &str) -> Option<PodEntry> {
        let names = self.pod_ids.get_mut(namespace)?;
        let id = names.remove(name)?;
        if names.is_empty() {
            self.pod_ids.remove(namespace);
        }
        self.unsettle(id);
        self.free_pods.push(id);
        self.pods[id as usize].take()
    }

    fn place(&mut self, id: PodId) {
        let Some(entry) = self.pods[id as usize].as_ref() else { return };
        match entry.place.clone() {
            Place::Nominated(name) => self.nominated.entry(name).or_default().push(id),
            Place::Bound(name) => match self.node_id(&name) {
                Some(node) => self.settle(id, node),
                None => self.homeless.entry(name).or_default().push(id),
            },
        }
    }

    fn settle(&mut self, id: PodId, node: NodeId) {
        let Some(entry) = self.pods[id as usize].as_ref() else { return };
        let class = &self.classes[entry.class as usize];
        if let Some(info) = self.nodes[node as usize].as_mut() {
            Arc::make_mut(info).add_pod(id, &class.info);
        }
        self.topology.count_held(&class.held, node, 1);
        self.touch(node);
    }

    fn unsettle(&mut self, id: PodId) {
        let Some(entry) = self.pods[id as usize].as_ref() else { return };
        let list = match &entry.place {
            Place::Nominated(name) => self.nominated.get_mut(name).map(|list| (list, name.clone(), true)),
            Place::Bound(name) => match self.node_ids.get(name).copied() {
                None => self.homeless.get_mut(name).map(|list| (list, name.clone(), false)),
                Some(node) => {
                    let class = &self.classes[entry.class as usize];
                    if let Some(info) = self.nodes[node as usize].as_mut() {
                        Arc::make_mut(info).remove_pod(id, &class.info);
                    }
                    self.topology.count_held(&class.held, node, -1);
                    self.touch(node);
                    return;
                }
            },
        };
        if let Some((list, name, nominated)) = list {
            list.retain(|&pod| pod != id);
            if list.is_empty() {
                if nominated {
                    self.nominated.remove(&name)
                } else {
                    self.homeless.remove(&name)
                };
            }
        }
    }

    /// Pods for which a node is kept.
    pub(crate) fn nominated_to(&self, node: &str) -> &[PodId] {
        self.nominated.get(node).map_or(&[], Vec::as_slice)
    }

    /// Names of nodes that are kept for pods.
    pub(crate) fn nominated_nodes(&self) -> impl Iterator<Item = (&Arc<str>, &[PodId])> {
        self.nominated.iter().map(|(name, pods)| (name, pods.as_slice()))
    }

    // Interning.

    pub(crate) fn intern_class(&mut self, info: PodInfo) -> ClassId {
        if let Some(&id) = self.class_ids.get(&info) {
            return id;
        }
        let info = Arc::new(info);
        let terms: Vec<_> = held_terms(&info).collect();
        let mut held = Vec::with_capacity(terms.len());
        for (kind, term) in terms {
            let column = self.column_for(&term.topology_key);
            held.push(self.topology.held_id(kind, term, column));
        }
        let id = self.classes.len() as ClassId;
        self.classes.push(Class { info: Arc::clone(&info), held });
        self.class_ids.insert(info, id);
        id
    }

    pub(crate) fn column_for(&mut self, key: &Arc<str>) -> ColumnId {
        let nodes = self.nodes.iter().enumerate();
        let labels = nodes.filter_map(|(id, node)| node.as_ref().map(|node| (id as NodeId, &node.spec.labels)));
        self.topology.column_for(key, labels)
    }

    pub(crate) fn intern_labels(&mut self, namespace: &Arc<str>, labels: &Labels) -> LabelsId {
        let key = (Arc::clone(namespace), labels.clone());
        if let Some(&id) = self.label_ids.get(&key) {
            return id;
        }
        let id = self.label_sets.len() as LabelsId;
        self.label_sets.push(LabelSet {
            namespace: Arc::clone(namespace),
            labels: labels.clone(),
            matching: Vec::new(),
            looked_at: 0,
        });
        self.label_ids.insert(key, id);
        id
    }

    // Existing pods' terms.

    /// Brings the list of existing terms that match a label set up to date.
    pub(crate) fn refresh_matching(&mut self, id: LabelsId) {
        let set = &mut self.label_sets[id as usize];
        if set.looked_at == self.topology.held.len() {
            return;
        }
        let none = Labels::new();
        let namespace_labels = self.namespaces.get(set.namespace.as_ref()).unwrap_or(&none);
        for (held, term) in self.topology.held.iter().enumerate().skip(set.looked_at) {
            if term.matches(&set.labels, &set.namespace, namespace_labels) {
                set.matching.push(held);
            }
        }
        set.looked_at = self.topology.held.len();
    }

    /// Existing terms that keep pods with these labels out of a domain; see [`Self::refresh_matching`].
    pub(crate) fn matching_anti_affinity(&self, id: LabelsId) -> impl Iterator<Item = HeldId> + '_ {
        let matching = self.label_sets[id as usize].matching.iter().copied();
        matching.filter(|&held| self.topology.held[held].kind == HeldKind::RequiredAntiAffinity)
    }

    /// Existing terms that score domains for pods with these labels, with their weight.
    pub(crate) fn matching_scores(&self, id: LabelsId) -> impl Iterator<Item = (HeldId, Option<i32>)> + '_ {
        let matching = self.label_sets[id as usize].matching.iter().copied();
        matching.filter_map(|held| match self.topology.held[held].kind {
            HeldKind::Scoring(weight) => Some((held, weight)),
            HeldKind::RequiredAntiAffinity => None,
        })
    }

    // Namespaces.

    pub(crate) fn namespace_labels(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name)
    }

    pub(crate) fn set_namespace(&mut self, name: &str, labels: Option<Labels>) {
        let changed = match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels.clone()).as_ref() != Some(&labels),
            None => self.namespaces.remove(name).is_some(),
        };
        if changed {
            self.epoch += 1;
            for set in &mut self.label_sets {
                set.matching.clear();
                set.looked_at = 0;
            }
        }
    }
}
