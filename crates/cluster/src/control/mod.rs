//! Everything that acts on its own in the embedded cluster: controllers, the scheduler's loop, hollow nodes.
//!
//! One thread, no sleeping: changes are read from the cluster's history, each enqueues only the keys it concerns, and
//! whatever waits for time is a timer on the cluster's clock. Nothing is kept that the objects do not tell again, so a
//! new plane on a restored cluster carries on where the old one was stopped.

mod autoscaler;
mod cluster_roles;
mod controllers;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoints;
mod events;
mod fault;
mod garbage;
mod hash;
mod hollow;
mod job;
mod memory;
mod namespace;
mod nodes;
mod observe;
mod plane;
mod pod_failure;
mod pod_ranges;
mod pods;
mod queue;
mod replica_set;
mod revisions;
mod run;
mod scheduler;
mod scheduler_state;
mod settings;
mod stateful_set;
mod taint_eviction;
mod value;
mod view;
mod volumes;
mod zones;

pub use controllers::{Controller, UnknownController};
pub use plane::ControlPlane;
pub use run::Progress;
pub use settings::{HEARTBEAT_ANNOTATION, HollowDelays, Settings};

use self::queue::Key;

impl ControlPlane {
    /// Has the controller that a key is for do its work.
    fn sync(&mut self, key: Key) {
        match key {
            Key::Collect(resource, name) => self.collect(resource, &name),
            Key::ClusterRoles => self.aggregate_cluster_roles(),
            Key::Namespace(name) => self.sync_namespace(&name),
            Key::Node(name) => self.sync_node(&name),
            Key::Evict(name) => self.sync_eviction(&name),
            Key::NamespaceEnd(name) => self.empty_namespace(&name),
            Key::Schedule => self.schedule(),
            Key::Kubelet(name) => self.sync_pod(&name),
            Key::DaemonSet(name) if self.queue.is_due(&Key::DaemonSetRest(name.clone())) => {}
            Key::DaemonSet(name) | Key::DaemonSetRest(name) => self.sync_daemon_set(&name),
            Key::StatefulSet(name) => self.sync_stateful_set(&name),
            Key::Job(name) => self.sync_job(&name),
            Key::ReplicaSet(name) => self.sync_replica_set(&name),
            Key::Deployment(name) => self.sync_deployment(&name),
            Key::ExpireEvents => self.expire_events(),
            Key::CronJob(name) => self.sync_cron_job(&name),
            Key::Claim(name) => self.sync_claim(&name),
            Key::Service(name) => self.sync_service(&name),
            Key::DisruptionBudget(name) => self.sync_disruption_budget(&name),
            Key::Autoscaler(name) => self.sync_autoscaler(&name),
        }
    }
}
