//! What a cluster looked like at one moment: the typed objects that checks and explanations read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use klab_scheduler::autoscaler::FIRST_BACKOFF;
use kube_core::ResourceExt;
use serde_json::Value;

use super::devices::DeviceObjects;
use crate::spec::{ObjectRef, singular};
use crate::words::duration;

/// Objects of a cluster at one moment, in any order. Shared pointers, so that a watch cache can hand out the same objects
/// again and again.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When it was taken; gives pods their age.
    pub taken_at: Option<Timestamp>,
    /// All nodes.
    pub nodes: Vec<Arc<Node>>,
    /// All pods of all namespaces: those of others take room too.
    pub pods: Vec<Arc<Pod>>,
    /// Deployments.
    pub deployments: Vec<Arc<Deployment>>,
    /// ReplicaSets.
    pub replica_sets: Vec<Arc<ReplicaSet>>,
    /// ReplicationControllers, for the scheduler's default spreading.
    pub replication_controllers: Vec<Arc<ReplicationController>>,
    /// DaemonSets.
    pub daemon_sets: Vec<Arc<DaemonSet>>,
    /// StatefulSets.
    pub stateful_sets: Vec<Arc<StatefulSet>>,
    /// Jobs.
    pub jobs: Vec<Arc<Job>>,
    /// Namespaces, whose labels affinity terms may select by.
    pub namespaces: Vec<Arc<Namespace>>,
    /// Services, for the scheduler's default spreading.
    pub services: Vec<Arc<Service>>,
    /// Disruption budgets, for preemption.
    pub pod_disruption_budgets: Vec<Arc<PodDisruptionBudget>>,
    /// Priority classes.
    pub priority_classes: Vec<Arc<PriorityClass>>,
    /// Autoscalers of workloads, as far as they may be read; they only explain more.
    pub autoscalers: Vec<Arc<HorizontalPodAutoscaler>>,
    /// Volume claims.
    pub persistent_volume_claims: Vec<Arc<PersistentVolumeClaim>>,
    /// Volumes.
    pub persistent_volumes: Vec<Arc<PersistentVolume>>,
    /// Storage classes.
    pub storage_classes: Vec<Arc<StorageClass>>,
    /// Volume limits of nodes.
    pub csi_nodes: Vec<Arc<CSINode>>,
    /// Devices and claims, if they were read; without them claims of pods are left aside.
    pub devices: Option<DeviceObjects>,
    /// Events about pods that are not made, mounted or healthy, if they were read; they only explain more.
    pub events: Vec<Arc<Event>>,
    /// Why the API server refuses to evict pods of cordoned nodes, in its words, by namespace and name; budgets aside. As far as it
    /// was asked.
    pub refused_evictions: BTreeMap<(String, String), String>,
    /// Pools that the cluster autoscaler leaves alone after they failed to grow, by its names for them: as far as its status was
    /// read.
    pub backed_off: BTreeMap<String, BackOff>,
    /// The objects that checks name and that are not among the kinds above.
    pub objects: Vec<FetchedObject>,
}

/// A pool that is left alone for a while, as it failed to grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackOff {
    /// Why it failed, in the autoscaler's words.
    pub why: String,
    /// Since when the autoscaler leaves it alone, if the snapshot shows that.
    pub since: Option<Timestamp>,
}

impl BackOff {
    /// When the autoscaler tries again, in words: it does not publish how often the pool has failed, and each failure lengthens
    /// the pause.
    pub(crate) fn end(&self, now: Option<Timestamp>) -> String {
        let until = self.since.and_then(|since| since.checked_add(FIRST_BACKOFF).ok());
        let left = until.zip(now).and_then(|(until, now)| Duration::try_from(until.duration_since(now)).ok());
        match left.map(|left| Duration::from_secs(left.as_secs())).filter(|left| !left.is_zero()) {
            Some(left) => format!("the autoscaler tries again in {} at the earliest", duration(left)),
            None => "the autoscaler tries again after a while, half an hour at most".to_owned(),
        }
    }
}

/// An object that a check names, as it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchedObject {
    /// As the check names it.
    pub reference: ObjectRef,
    /// The object as JSON; none where there is no such object, or the cluster does not know the kind.
    pub object: Option<Arc<Value>>,
}

impl Snapshot {
    /// An object by reference: one that was fetched for a check, or one of the typed kinds.
    pub fn object(&self, reference: &ObjectRef) -> Option<Arc<Value>> {
        if let Some(fetched) = self.objects.iter().find(|fetched| fetched.reference == *reference) {
            return fetched.object.clone();
        }
        let name = &reference.name;
        let namespace = Some(reference.namespace.as_str());
        match TypedKind::of(reference)? {
            TypedKind::Node => find(&self.nodes, name, None),
            TypedKind::Pod => find(&self.pods, name, namespace),
            TypedKind::Deployment => find(&self.deployments, name, namespace),
            TypedKind::ReplicaSet => find(&self.replica_sets, name, namespace),
            TypedKind::DaemonSet => find(&self.daemon_sets, name, namespace),
            TypedKind::StatefulSet => find(&self.stateful_sets, name, namespace),
            TypedKind::Job => find(&self.jobs, name, namespace),
            TypedKind::Namespace => find(&self.namespaces, name, None),
        }
    }

    /// A volume by its name.
    pub(crate) fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.persistent_volumes.iter().find(|volume| volume.metadata.name.as_deref() == Some(name))
    }

    /// A volume claim by its namespace and name.
    pub(crate) fn volume_claim(&self, namespace: &str, name: &str) -> Option<&Arc<PersistentVolumeClaim>> {
        self.persistent_volume_claims.iter().find(|claim| {
            let meta = &claim.metadata;
            meta.name.as_deref() == Some(name) && meta.namespace.as_deref().unwrap_or("default") == namespace
        })
    }

    /// Whether a snapshot answers for this object without its being fetched.
    pub fn answers(reference: &ObjectRef) -> bool {
        TypedKind::of(reference).is_some()
    }
}

/// Kinds that a snapshot always holds.
#[derive(Clone, Copy)]
enum TypedKind {
    Node,
    Pod,
    Deployment,
    ReplicaSet,
    DaemonSet,
    StatefulSet,
    Job,
    Namespace,
}

impl TypedKind {
    /// By kind, plural, singular or short name as kubectl knows them.
    fn of(reference: &ObjectRef) -> Option<Self> {
        let (kind, group) = match singular(&reference.kind).as_str() {
            "node" => (Self::Node, ""),
            "pod" => (Self::Pod, ""),
            "namespace" => (Self::Namespace, ""),
            "deployment" => (Self::Deployment, "apps"),
            "replicaset" => (Self::ReplicaSet, "apps"),
            "daemonset" => (Self::DaemonSet, "apps"),
            "statefulset" => (Self::StatefulSet, "apps"),
            "job" => (Self::Job, "batch"),
            _ => return None,
        };
        reference.group.as_deref().is_none_or(|wanted| wanted == group).then_some(kind)
    }
}

fn find<T: ResourceExt + serde::Serialize>(
    objects: &[Arc<T>],
    name: &str,
    namespace: Option<&str>,
) -> Option<Arc<Value>> {
    let object = objects.iter().find(|object| {
        object.meta().name.as_deref() == Some(name)
            && namespace.is_none_or(|namespace| object.meta().namespace.as_deref() == Some(namespace))
    })?;
    serde_json::to_value(&**object).ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_in_back_off_is_tried_again_after_five_minutes_at_the_earliest() {
        let time = |text: &str| text.parse::<Timestamp>().ok();
        let since = "2026-06-01T08:00:00Z";
        for (since, now, words) in [
            (time(since), time("2026-06-01T08:00:50Z"), "the autoscaler tries again in 4m 10s at the earliest"),
            // It has failed before.
            (
                time(since),
                time("2026-06-01T08:05:00Z"),
                "the autoscaler tries again after a while, half an hour at most",
            ),
            (time(since), None, "the autoscaler tries again after a while, half an hour at most"),
            (None, time(since), "the autoscaler tries again after a while, half an hour at most"),
        ] {
            assert_eq!(BackOff { why: String::new(), since }.end(now), words);
        }
    }
}
