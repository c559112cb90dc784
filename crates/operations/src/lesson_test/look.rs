//! Looks at a cluster of this process without its API: objects that did not change are not read again.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Code, Context, Result};
use klab_api_machinery::resource::{
    CSI_NODES, DAEMON_SETS, DEPLOYMENTS, DEVICE_CLASSES, HORIZONTAL_POD_AUTOSCALERS, JOBS, NAMESPACES, NODES,
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES, REPLICA_SETS,
    REPLICATION_CONTROLLERS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, ResourceId, SERVICES,
    STATEFUL_SETS, STORAGE_CLASSES,
};
use klab_cluster::cluster::Cluster;
use klab_lab::verify::{DeviceObjects, Snapshot};
use klab_scheduler::typed::Typed;

/// Objects of one kind as they were last seen, by uid.
struct ObjectCache<K>(HashMap<Box<str>, (u64, Arc<K>)>);

impl<K> Default for ObjectCache<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Typed> ObjectCache<K> {
    fn look(&mut self, cluster: &Cluster, resource: ResourceId) -> Result<Vec<Arc<K>>> {
        let mut last = std::mem::take(&mut self.0);
        let mut all = Vec::new();
        for object in cluster.list(resource, None).0 {
            let known = last.remove(&object.uid).filter(|(version, _)| *version == object.resource_version);
            let (version, typed) = if let Some(known) = known {
                known
            } else {
                let typed = K::from_json(&object.json).code(Code::KlabFault, || {
                    format!("could not read {} `{}` of the embedded cluster", resource.row().kind, object.name)
                })?;
                (object.resource_version, Arc::new(typed))
            };
            all.push(Arc::clone(&typed));
            self.0.insert(object.uid.clone(), (version, typed));
        }
        Ok(all)
    }
}

/// What was seen of a cluster so far.
#[derive(Default)]
pub(super) struct ObservedCluster {
    nodes: ObjectCache<k8s_openapi::api::core::v1::Node>,
    pods: ObjectCache<k8s_openapi::api::core::v1::Pod>,
    deployments: ObjectCache<k8s_openapi::api::apps::v1::Deployment>,
    replica_sets: ObjectCache<k8s_openapi::api::apps::v1::ReplicaSet>,
    daemon_sets: ObjectCache<k8s_openapi::api::apps::v1::DaemonSet>,
    stateful_sets: ObjectCache<k8s_openapi::api::apps::v1::StatefulSet>,
    jobs: ObjectCache<k8s_openapi::api::batch::v1::Job>,
}

impl ObservedCluster {
    /// What checks see.
    pub(super) fn look(&mut self, cluster: &Cluster) -> Result<Snapshot> {
        Ok(Snapshot {
            taken_at: Some(cluster.now()),
            nodes: self.nodes.look(cluster, NODES)?,
            pods: self.pods.look(cluster, PODS)?,
            deployments: self.deployments.look(cluster, DEPLOYMENTS)?,
            replica_sets: self.replica_sets.look(cluster, REPLICA_SETS)?,
            daemon_sets: self.daemon_sets.look(cluster, DAEMON_SETS)?,
            stateful_sets: self.stateful_sets.look(cluster, STATEFUL_SETS)?,
            jobs: self.jobs.look(cluster, JOBS)?,
            ..Snapshot::default()
        })
    }
}

/// Adds what explanations need beyond what checks do.
pub(super) fn complete(cluster: &Cluster, snapshot: &mut Snapshot) -> Result<()> {
    snapshot.namespaces = ObjectCache::default().look(cluster, NAMESPACES)?;
    snapshot.services = ObjectCache::default().look(cluster, SERVICES)?;
    snapshot.replication_controllers = ObjectCache::default().look(cluster, REPLICATION_CONTROLLERS)?;
    snapshot.pod_disruption_budgets = ObjectCache::default().look(cluster, POD_DISRUPTION_BUDGETS)?;
    snapshot.priority_classes = ObjectCache::default().look(cluster, PRIORITY_CLASSES)?;
    snapshot.autoscalers = ObjectCache::default().look(cluster, HORIZONTAL_POD_AUTOSCALERS)?;
    snapshot.persistent_volume_claims = ObjectCache::default().look(cluster, PERSISTENT_VOLUME_CLAIMS)?;
    snapshot.persistent_volumes = ObjectCache::default().look(cluster, PERSISTENT_VOLUMES)?;
    snapshot.storage_classes = ObjectCache::default().look(cluster, STORAGE_CLASSES)?;
    snapshot.csi_nodes = ObjectCache::default().look(cluster, CSI_NODES)?;
    let mut devices = DeviceObjects { language: Some(klab_cluster::device_selectors()), ..DeviceObjects::default() };
    if DeviceObjects::are_asked_for(&snapshot.pods) {
        devices.classes = ObjectCache::default().look(cluster, DEVICE_CLASSES)?;
        devices.slices = ObjectCache::default().look(cluster, RESOURCE_SLICES)?;
        devices.claims = ObjectCache::default().look(cluster, RESOURCE_CLAIMS)?;
        devices.templates = ObjectCache::default().look(cluster, RESOURCE_CLAIM_TEMPLATES)?;
    }
    snapshot.devices = Some(devices);
    Ok(())
}
