//! What the scheduler reads from a node, and the running totals of the pods on it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::error::ObjectError;
use super::ids::PodId;
use super::pod_info::{HostPort, PodInfo};
use super::resources::{NonZero, Resources};
use super::selector::Labels;
use super::taint::Taint;

/// All of a node that scheduling depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// The node's name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// What its pods may request in all.
    pub allocatable: Resources,
    /// How many pods it may hold.
    pub allowed_pods: i64,
    /// Image names with their size in bytes.
    pub images: Vec<(String, i64)>,
}

impl NodeSpec {
    /// Reads a node.
    pub fn from_api(node: &Node) -> Result<Self, ObjectError> {
        let name = node.metadata.name.as_deref().ok_or(ObjectError::Missing { field: "metadata.name" })?;
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        let allocatable = status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
        let (allocatable, allowed_pods) = Resources::of_node(allocatable)?;
        let images = status.and_then(|status| status.images.as_ref()).into_iter().flatten().flat_map(|image| {
            let size = image.size_bytes.unwrap_or(0);
            image.names.iter().flatten().map(move |name| (name.clone(), size))
        });
        Ok(Self {
            name: Arc::from(name),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten().map(Taint::from).collect(),
            unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
            allocatable,
            allowed_pods,
            images: images.collect(),
        })
    }
}

/// A node with what its pods hold.
#[derive(Debug, Clone)]
pub(crate) struct NodeInfo {
    pub(crate) spec: Arc<NodeSpec>,
    /// Changes whenever `spec` does; never repeats.
    pub(crate) generation: u64,
    pub(crate) pods: Vec<PodId>,
    pub(crate) requested: Resources,
    pub(crate) non_zero: NonZero,
    pub(crate) ports: Vec<(HostPort, PodId)>,
}

impl NodeInfo {
    pub(crate) fn add_pod(&mut self, id: PodId, info: &PodInfo) {
        self.pods.push(id);
        self.requested.add(&info.resources.requests);
        self.non_zero.cpu += info.resources.placed.cpu;
        self.non_zero.memory += info.resources.placed.memory;
        self.ports.extend(info.host_ports.iter().map(|port| (port.clone(), id)));
    }

    pub(crate) fn remove_pod(&mut self, id: PodId, info: &PodInfo) {
        let Some(position) = self.pods.iter().position(|&pod| pod == id) else { return };
        self.pods.swap_remove(position);
        self.requested.subtract(&info.resources.requests);
        self.non_zero.cpu -= info.resources.placed.cpu;
        self.non_zero.memory -= info.resources.placed.memory;
        self.ports.retain(|(_, holder)| *holder != id);
    }
}
