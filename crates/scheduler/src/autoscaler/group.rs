//! Pools as the autoscaler sees them: their bounds, their size, and what a new node of theirs would be.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::admission;
use crate::cycle::HOSTNAME;
use crate::error::ObjectError;
use crate::node_info::NodeSpec;
use crate::node_selector::RequiredNodeAffinity;
use crate::resources::Resources;
use crate::taint::{Toleration, untolerated};

/// A pool that the autoscaler may change.
#[derive(Debug, Clone)]
pub struct NodeGroup {
    /// Its name in events and in the status: on AKS that of its scale set.
    pub name: Arc<str>,
    /// Fewest nodes.
    pub min: u32,
    /// Most nodes.
    pub max: u32,
    /// How many it is to have; some of them may still be on their way.
    pub target: u32,
    /// How many of those are on their way.
    pub upcoming: u32,
    /// Whether it is left alone, because it failed to grow.
    pub is_backed_off: bool,
    /// What a new node would be.
    pub template: Template,
}

/// What a new node of a pool would be, and the pods it would have from the start.
#[derive(Debug, Clone)]
pub struct Template {
    pub(super) spec: NodeSpec,
    pub(super) capacity: Resources,
    pub(super) daemons: Vec<Pod>,
}

impl Template {
    /// A node of the pool, which gets the pods of the DaemonSets that would run on it.
    ///
    /// # Errors
    /// When an object is not what its kind says.
    pub fn new(node: &Node, daemon_sets: &[DaemonSet]) -> Result<Self, ObjectError> {
        let spec = NodeSpec::from_api(node)?;
        let capacity = node.status.as_ref().and_then(|status| status.capacity.as_ref());
        let (capacity, _) = Resources::of_node(capacity)?;
        let mut daemons = Vec::new();
        for set in daemon_sets {
            daemons.extend(daemon(set, &spec)?);
        }
        Ok(Self { spec, capacity, daemons })
    }

    /// The node under another name.
    pub(super) fn named(&self, name: &str) -> NodeSpec {
        let mut spec = self.spec.clone();
        spec.name = Arc::from(name);
        spec.labels.insert(HOSTNAME.to_owned(), name.to_owned());
        spec
    }
}

/// The pod that a DaemonSet would have on a node, if it would have one.
///
/// upstream: pkg/controller/daemon/daemon_controller.go `NodeShouldRunDaemonPod` (v1.36)
fn daemon(set: &DaemonSet, node: &NodeSpec) -> Result<Option<Pod>, ObjectError> {
    let Some(template) = set.spec.as_ref().map(|spec| &spec.template) else { return Ok(None) };
    let Some(spec) = &template.spec else { return Ok(None) };
    let requires = RequiredNodeAffinity::from_api(spec).map_err(ObjectError::selector("spec.affinity"))?;
    // Those that the controller adds are for conditions that a new node does not have.
    let tolerations: Vec<Toleration> = spec.tolerations.iter().flatten().map(Toleration::from).collect();
    if !requires.matches(&node.labels, &node.name) || untolerated(&node.taints, &tolerations).next().is_some() {
        return Ok(None);
    }
    let owner = OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "DaemonSet".to_owned(),
        name: set.metadata.name.clone().unwrap_or_default(),
        uid: set.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        name: set.metadata.name.clone(),
        namespace: set.metadata.namespace.clone(),
        labels: template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let mut pod = Pod { metadata, spec: Some(spec.clone()), status: None };
    admission::admit(&mut pod)?;
    Ok(Some(pod))
}
