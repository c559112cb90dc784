//! What-if questions: changes to the scheduler's model that are taken back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference};

use crate::verify::devices::DeviceObjects;
use crate::verify::snapshot::Snapshot;
use klab_scheduler::{Cluster, Outcome, Reason};

/// Nodes of the snapshot by name.
pub(crate) type Nodes<'a> = HashMap<&'a str, &'a Arc<Node>>;

/// A model of the cluster that remembers how to undo what was done to it.
pub(crate) struct Sandbox<'a> {
    cluster: &'a mut Cluster,
    nodes: &'a Nodes<'a>,
    snapshot: &'a Snapshot,
    /// Claims that are not as the snapshot has them, by namespace and name; `None` for those that are gone.
    claims: BTreeMap<(String, String), Option<ResourceClaim>>,
    undo: Vec<Undo>,
}

enum Undo {
    RemoveNode(String),
    SetNode(String),
    RemovePod(String, String),
    SetPod(Arc<Pod>),
    RemoveSlice(String),
    SetVolume(String),
    SetVolumeClaim(String, String),
}

impl<'a> Sandbox<'a> {
    pub(crate) fn new(cluster: &'a mut Cluster, nodes: &'a Nodes<'a>, snapshot: &'a Snapshot) -> Self {
        Self { cluster, nodes, snapshot, claims: BTreeMap::new(), undo: Vec::new() }
    }

    fn devices(&self) -> Option<&'a DeviceObjects> {
        self.snapshot.devices.as_ref()
    }

    /// A node as the snapshot has it.
    pub(crate) fn node(&self, name: &str) -> Option<&'a Arc<Node>> {
        self.nodes.get(name).copied()
    }

    /// Changes a node, or adds one.
    pub(crate) fn set_node(&mut self, node: &Node) {
        let name = node.metadata.name.clone().unwrap_or_default();
        if self.cluster.set_node(node).is_ok() {
            let known = self.nodes.contains_key(name.as_str());
            self.undo.push(if known { Undo::SetNode(name) } else { Undo::RemoveNode(name) });
        }
    }

    /// Adds a node like another one: it brings devices like the other's.
    pub(crate) fn add_node(&mut self, node: &Node, template: &Node) {
        self.set_node(node);
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let like = template.metadata.name.as_deref();
        let slices = self.devices().into_iter().flat_map(|devices| &devices.slices);
        for slice in slices.filter(|slice| like.is_some() && slice.spec.node_name.as_deref() == like) {
            let mut slice = (**slice).clone();
            let old = slice.metadata.name.take().unwrap_or_default();
            let own = format!("{old}-{name}");
            slice.metadata.name = Some(own.clone());
            slice.spec.node_name = Some(name.to_owned());
            let pool = &mut slice.spec.pool.name;
            *pool = if Some(pool.as_str()) == like { name.to_owned() } else { format!("{pool}-{name}") };
            self.cluster.set_resource_slice(&slice);
            self.undo.push(Undo::RemoveSlice(own));
        }
    }

    /// Takes a pod away; what only it used of devices is free then.
    pub(crate) fn remove_pod(&mut self, pod: &Arc<Pod>) {
        let (namespace, name) = key(pod);
        if self.cluster.remove_pod(namespace, name).is_some() {
            self.undo.push(Undo::SetPod(Arc::clone(pod)));
        }
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        for claim in claim_names(pod) {
            let Some(mut claim) = self.claim(namespace, &claim) else { continue };
            let Some(status) = claim.status.as_mut() else { continue };
            let reserved = status.reserved_for.get_or_insert_default();
            let before = reserved.len();
            reserved.retain(|consumer| consumer.uid != uid);
            if reserved.len() < before {
                if reserved.is_empty() {
                    status.allocation = None;
                }
                self.set_claim(claim);
            }
        }
    }

    /// Changes a volume, or adds one.
    pub(crate) fn set_volume(&mut self, volume: &PersistentVolume) {
        if self.cluster.set_volume(volume).is_ok() {
            self.undo.push(Undo::SetVolume(volume.metadata.name.clone().unwrap_or_default()));
        }
    }

    /// Changes a volume claim, or adds one.
    pub(crate) fn set_volume_claim(&mut self, claim: &PersistentVolumeClaim) {
        self.cluster.set_claim(claim);
        let namespace = claim.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        self.undo.push(Undo::SetVolumeClaim(namespace, claim.metadata.name.clone().unwrap_or_default()));
    }

    fn claim(&self, namespace: &str, name: &str) -> Option<ResourceClaim> {
        match self.claims.get(&(namespace.to_owned(), name.to_owned())) {
            Some(changed) => changed.clone(),
            None => self.devices()?.claim(namespace, name).map(|claim| (**claim).clone()),
        }
    }

    /// Changes a claim.
    pub(crate) fn set_claim(&mut self, claim: ResourceClaim) {
        self.cluster.set_resource_claim(&claim);
        let namespace = claim.metadata.namespace.clone().unwrap_or_default();
        let name = claim.metadata.name.clone().unwrap_or_default();
        self.claims.insert((namespace, name), Some(claim));
    }

    /// Takes a claim away; its devices are free then.
    pub(crate) fn remove_claim(&mut self, claim: &ResourceClaim) {
        let namespace = claim.metadata.namespace.clone().unwrap_or_default();
        let name = claim.metadata.name.clone().unwrap_or_default();
        self.cluster.remove_resource_claim(&namespace, &name);
        self.claims.insert((namespace, name), None);
    }

    /// Lets the scheduler place a pod, and binds it; its claims have what they were given then. The node it went to.
    pub(crate) fn place(&mut self, pod: &Pod) -> Option<String> {
        let decision = self.cluster.schedule(pod).ok()?;
        let Outcome::Scheduled { node } = decision.outcome else { return None };
        self.cluster.bind(pod, &node).ok()?;
        let (namespace, name) = key(pod);
        self.undo.push(Undo::RemovePod(namespace.to_owned(), name.to_owned()));
        for given in decision.allocations {
            let Some(mut claim) = self.claim(&given.namespace, &given.name) else { continue };
            let status = claim.status.get_or_insert_default();
            if given.allocation.is_some() {
                status.allocation = given.allocation;
            }
            status.reserved_for.get_or_insert_default().push(ResourceClaimConsumerReference {
                api_group: None,
                name: name.to_owned(),
                resource: "pods".to_owned(),
                uid: pod.metadata.uid.clone().unwrap_or_default(),
            });
            self.set_claim(claim);
        }
        Some(node.as_ref().to_owned())
    }

    /// As [`Sandbox::place`], where less important pods may have to go.
    pub(crate) fn place_before_others(&mut self, pod: &Pod) -> Option<String> {
        let Outcome::Preempting(preemption) = self.cluster.schedule(pod).ok()?.outcome else { return self.place(pod) };
        for victim in &preemption.victims {
            let is_it = |pod: &&Arc<Pod>| key(pod) == (&*victim.namespace, &*victim.name);
            let found = self.snapshot.pods.iter().find(is_it)?;
            self.remove_pod(found);
        }
        self.place(pod)
    }

    /// Whether nothing keeps a pod from a node.
    pub(crate) fn takes(&mut self, node: &str, pod: &Pod) -> bool {
        self.cluster.evaluate(pod, node).is_ok_and(|reasons| reasons.is_some_and(|reasons| reasons.is_empty()))
    }

    /// Every reason of every node against a pod.
    pub(crate) fn reasons(&mut self, pod: &Pod) -> Option<BTreeMap<Arc<str>, Vec<Reason>>> {
        self.cluster.evaluate_all(pod).ok()
    }

    /// Takes back everything that was done.
    pub(crate) fn restore(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::RemoveNode(name) => {
                    self.cluster.remove_node(&name);
                }
                Undo::SetNode(name) => {
                    if let Some(node) = self.nodes.get(name.as_str()) {
                        let _ = self.cluster.set_node(node);
                    }
                }
                Undo::RemovePod(namespace, name) => {
                    self.cluster.remove_pod(&namespace, &name);
                }
                Undo::SetPod(pod) => {
                    let _ = self.cluster.set_pod(&pod);
                }
                Undo::RemoveSlice(name) => self.cluster.remove_resource_slice(&name),
                Undo::SetVolume(name) => match self.snapshot.volume(&name) {
                    Some(volume) => drop(self.cluster.set_volume(volume)),
                    None => self.cluster.remove_volume(&name),
                },
                Undo::SetVolumeClaim(namespace, name) => match self.snapshot.volume_claim(&namespace, &name) {
                    Some(claim) => drop(self.cluster.set_claim(claim)),
                    None => self.cluster.remove_claim(&namespace, &name),
                },
            }
        }
        for (namespace, name) in std::mem::take(&mut self.claims).into_keys() {
            match self.devices().and_then(|devices| devices.claim(&namespace, &name)) {
                Some(claim) => drop(self.cluster.set_resource_claim(claim)),
                None => drop(self.cluster.remove_resource_claim(&namespace, &name)),
            }
        }
    }
}

fn key(pod: &Pod) -> (&str, &str) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    (namespace, pod.metadata.name.as_deref().unwrap_or_default())
}

/// The names of a pod's claims, those that were made for it among them.
fn claim_names(pod: &Pod) -> Vec<String> {
    let named = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    let made = pod.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
    let named = named.filter_map(|claim| claim.resource_claim_name.clone());
    named.chain(made.filter_map(|status| status.resource_claim_name.clone())).collect()
}
