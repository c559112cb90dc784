//! A change of claims, volumes or nodes that volumes can be reached from, with its words and its command.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};

use super::sandbox::Sandbox;

/// See the file. The objects are as they would come to be, so that the scheduler can be asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StorageChange {
    pub(crate) code: &'static str,
    pub(crate) weight: u32,
    pub(crate) text: String,
    pub(crate) command: Option<String>,
    pub(crate) claims: Vec<Arc<PersistentVolumeClaim>>,
    pub(crate) volumes: Vec<Arc<PersistentVolume>>,
    /// New nodes, like one that is there.
    pub(crate) nodes: Vec<Arc<Node>>,
}

impl StorageChange {
    /// Makes the change.
    pub(super) fn make(&self, sandbox: &mut Sandbox<'_>) {
        self.volumes.iter().for_each(|volume| sandbox.set_volume(volume));
        self.claims.iter().for_each(|claim| sandbox.set_volume_claim(claim));
        self.nodes.iter().for_each(|node| sandbox.set_node(node));
    }
}
