//! What-if questions: changes to the scheduler's model that are taken back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use klab_scheduler::{Cluster, Outcome, Reason};

/// A model of the cluster that remembers how to undo what was done to it.
pub(crate) struct Sandbox<'a> {
    cluster: &'a mut Cluster,
    nodes: &'a HashMap<&'a str, &'a Arc<Node>>,
    undo: Vec<Undo>,
}

enum Undo {
    RemoveNode(String),
    SetNode(String),
    RemovePod(String, String),
    SetPod(Arc<Pod>),
}

impl<'a> Sandbox<'a> {
    pub(crate) fn new(cluster: &'a mut Cluster, nodes: &'a HashMap<&'a str, &'a Arc<Node>>) -> Self {
        Self { cluster, nodes, undo: Vec::new() }
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

    /// Takes a pod away.
    pub(crate) fn remove_pod(&mut self, pod: &Arc<Pod>) {
        let (namespace, name) = key(pod);
        if self.cluster.remove_pod(namespace, name).is_some() {
            self.undo.push(Undo::SetPod(Arc::clone(pod)));
        }
    }

    /// Lets the scheduler place a pod, and binds it. The node it went to.
    pub(crate) fn place(&mut self, pod: &Pod) -> Option<String> {
        let decision = self.cluster.schedule(pod).ok()?;
        let Outcome::Scheduled { node } = decision.outcome else { return None };
        self.cluster.bind(pod, &node).ok()?;
        let (namespace, name) = key(pod);
        self.undo.push(Undo::RemovePod(namespace.to_owned(), name.to_owned()));
        Some(node.as_ref().to_owned())
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
            }
        }
    }
}

fn key(pod: &Pod) -> (&str, &str) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    (namespace, pod.metadata.name.as_deref().unwrap_or_default())
}
