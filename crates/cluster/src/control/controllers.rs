//! The controllers by name: which of them does a piece of work, so that each can be switched off.

use std::str::FromStr;

use super::queue::Key;

/// A part of the control plane that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Makes the rules of aggregated ClusterRoles.
    ClusterRoleAggregation,
    /// Makes Jobs.
    CronJob,
    /// Makes pods of DaemonSets.
    DaemonSet,
    /// Makes ReplicaSets of Deployments.
    Deployment,
    /// Counts for PodDisruptionBudgets.
    Disruption,
    /// Fills EndpointSlices and Endpoints of Services.
    EndpointSlice,
    /// Deletes objects whose owners are gone.
    GarbageCollector,
    /// Scales for HorizontalPodAutoscalers.
    HorizontalPodAutoscaler,
    /// Makes pods of Jobs.
    Job,
    /// Runs the pods that are bound to a node, and ends those that are deleted.
    Kubelet,
    /// Empties namespaces that are deleted.
    Namespace,
    /// Binds PersistentVolumeClaims.
    PersistentVolumeBinder,
    /// Makes pods of ReplicaSets.
    ReplicaSet,
    /// Binds pods to nodes.
    Scheduler,
    /// Makes pods of StatefulSets.
    StatefulSet,
    /// Evicts pods that do not tolerate a taint of their node.
    TaintEviction,
}

impl Controller {
    /// All of them, by name.
    pub const ALL: [Self; 16] = [
        Self::ClusterRoleAggregation,
        Self::CronJob,
        Self::DaemonSet,
        Self::Deployment,
        Self::Disruption,
        Self::EndpointSlice,
        Self::GarbageCollector,
        Self::HorizontalPodAutoscaler,
        Self::Job,
        Self::Scheduler,
        Self::Kubelet,
        Self::Namespace,
        Self::PersistentVolumeBinder,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::TaintEviction,
    ];

    /// Its name, as `--controllers` of kube-controller-manager has it, without the ending `-controller`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterRoleAggregation => "clusterrole-aggregation",
            Self::CronJob => "cronjob",
            Self::DaemonSet => "daemonset",
            Self::Deployment => "deployment",
            Self::Disruption => "disruption",
            Self::EndpointSlice => "endpointslice",
            Self::GarbageCollector => "garbage-collector",
            Self::HorizontalPodAutoscaler => "horizontal-pod-autoscaler",
            Self::Job => "job",
            Self::Kubelet => "kubelet",
            Self::Namespace => "namespace",
            Self::PersistentVolumeBinder => "persistentvolume-binder",
            Self::ReplicaSet => "replicaset",
            Self::Scheduler => "kube-scheduler",
            Self::StatefulSet => "statefulset",
            Self::TaintEviction => "taint-eviction",
        }
    }

    /// Which of them does a piece of work; `None` for what cannot be switched off.
    pub(super) fn of(key: &Key) -> Option<Self> {
        match key {
            Key::Collect(..) => Some(Self::GarbageCollector),
            Key::ClusterRoles => Some(Self::ClusterRoleAggregation),
            Key::NamespaceEnd(_) => Some(Self::Namespace),
            Key::Claim(_) => Some(Self::PersistentVolumeBinder),
            Key::Evict(_) => Some(Self::TaintEviction),
            Key::Schedule => Some(Self::Scheduler),
            Key::Kubelet(_) => Some(Self::Kubelet),
            Key::DaemonSet(_) | Key::DaemonSetRest(_) => Some(Self::DaemonSet),
            Key::StatefulSet(_) => Some(Self::StatefulSet),
            Key::Job(_) => Some(Self::Job),
            Key::CronJob(_) => Some(Self::CronJob),
            Key::ReplicaSet(_) => Some(Self::ReplicaSet),
            Key::Deployment(_) => Some(Self::Deployment),
            Key::Service(_) => Some(Self::EndpointSlice),
            Key::DisruptionBudget(_) => Some(Self::Disruption),
            Key::Autoscaler(_) => Some(Self::HorizontalPodAutoscaler),
            // What makes a namespace and a node what they are, and the lifetime of events.
            Key::Namespace(_) | Key::Node(_) | Key::ExpireEvents => None,
        }
    }
}

/// A name that is no controller's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller `{name}`; there are: {}", Controller::ALL.map(Controller::name).join(", "))]
pub struct UnknownController {
    /// The name that was given.
    pub name: String,
}

impl FromStr for Controller {
    type Err = UnknownController;

    /// Takes the name with or without the ending `-controller`.
    fn from_str(name: &str) -> Result<Self, UnknownController> {
        let short = name.strip_suffix("-controller").unwrap_or(name);
        let found = Self::ALL.into_iter().find(|controller| controller.name() == short);
        found.ok_or_else(|| UnknownController { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::SteppedClock;
    use crate::cluster::{Cluster, WriteOptions};
    use crate::control::{ControlPlane, Settings};
    use crate::resource::{DEPLOYMENTS, PODS, REPLICA_SETS};

    #[test]
    fn each_has_a_name_of_its_own() {
        for controller in Controller::ALL {
            assert_eq!(controller.name().parse(), Ok(controller));
            assert_eq!(format!("{}-controller", controller.name()).parse(), Ok(controller));
        }
        assert!(Controller::ALL.map(Controller::name).is_sorted());
        let unknown = "deploymnet".parse::<Controller>().unwrap_err();
        assert!(unknown.to_string().starts_with("there is no controller `deploymnet`; there are: clusterrole"));
    }

    /// How many ReplicaSets and pods a Deployment comes to.
    fn made_without(controller: Option<Controller>) -> (usize, usize) {
        let cluster = Arc::new(Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7));
        let settings = Settings { switched_off: controller.into_iter().collect(), ..Settings::default() };
        let mut plane = ControlPlane::new(Arc::clone(&cluster), settings);
        let labels = json!({ "app": "web" });
        let deployment: Value = json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 2, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
                },
            },
        });
        cluster.create(DEPLOYMENTS, "default", deployment, &WriteOptions::client("test")).unwrap();
        plane.run();
        (cluster.count(REPLICA_SETS), cluster.count(PODS))
    }

    #[test]
    fn what_is_switched_off_does_nothing() {
        assert_eq!(made_without(None), (1, 2));
        assert_eq!(made_without(Some(Controller::Deployment)), (0, 0));
        assert_eq!(made_without(Some(Controller::ReplicaSet)), (1, 0));
    }
}
