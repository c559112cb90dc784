//! What is to be done: keys of due work, each once, and timers on the cluster's clock.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::object::Object;
use crate::resource::{
    CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, JOBS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, ResourceId, SERVICES, STATEFUL_SETS,
};

/// Namespace (empty for cluster-scoped objects) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectName {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
}

impl ObjectName {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Whether it is an object's.
    pub(crate) fn is(&self, object: &Object) -> bool {
        self.name == object.name && self.namespace == object.namespace
    }
}

/// One piece of work. The order of the variants is the order in which due work is done: what pods need first, so that
/// their owners then count settled pods once instead of watching them settle one by one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Owners of the object may be gone, or it waits for its dependents.
    Collect(ResourceId, ObjectName),
    /// Of some, the rules may be gathered from others.
    ClusterRoles,
    Namespace(Box<str>),
    Node(Box<str>),
    Claim(ObjectName),
    /// Taints of the pod's node may evict it.
    Evict(ObjectName),
    /// A pod that waits for a node, or several.
    Schedule,
    /// A pod on a node.
    Kubelet(ObjectName),
    DaemonSet(ObjectName),
    StatefulSet(ObjectName),
    Job(ObjectName),
    CronJob(ObjectName),
    ReplicaSet(ObjectName),
    Deployment(ObjectName),
    Service(ObjectName),
    DisruptionBudget(ObjectName),
    Autoscaler(ObjectName),
    /// A namespace on its way out. Late, so that it is looked at once and not for each object that has gone.
    NamespaceEnd(Box<str>),
    /// Events have a lifetime of one hour.
    ExpireEvents,
    /// The pods of a DaemonSet beyond those of one burst: other controllers have their turn before.
    DaemonSetRest(ObjectName),
}

impl Key {
    /// The object it is about.
    pub(crate) fn object(&self) -> Option<(ResourceId, ObjectName)> {
        let cluster_scoped = |name: &str| ObjectName::new("", name);
        Some(match self {
            Self::Collect(resource, name) => (*resource, name.clone()),
            Self::Namespace(name) | Self::NamespaceEnd(name) => (NAMESPACES, cluster_scoped(name)),
            Self::Node(name) => (NODES, cluster_scoped(name)),
            Self::Claim(name) => (PERSISTENT_VOLUME_CLAIMS, name.clone()),
            Self::Evict(name) | Self::Kubelet(name) => (PODS, name.clone()),
            Self::DaemonSet(name) | Self::DaemonSetRest(name) => (DAEMON_SETS, name.clone()),
            Self::StatefulSet(name) => (STATEFUL_SETS, name.clone()),
            Self::Job(name) => (JOBS, name.clone()),
            Self::CronJob(name) => (CRON_JOBS, name.clone()),
            Self::ReplicaSet(name) => (REPLICA_SETS, name.clone()),
            Self::Deployment(name) => (DEPLOYMENTS, name.clone()),
            Self::Service(name) => (SERVICES, name.clone()),
            Self::DisruptionBudget(name) => (POD_DISRUPTION_BUDGETS, name.clone()),
            Self::Autoscaler(name) => (HORIZONTAL_POD_AUTOSCALERS, name.clone()),
            Self::Schedule | Self::ExpireEvents | Self::ClusterRoles => return None,
        })
    }

    /// The namespace of the object it is about.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Collect(_, name)
            | Self::Claim(name)
            | Self::Evict(name)
            | Self::Kubelet(name)
            | Self::DaemonSet(name)
            | Self::DaemonSetRest(name)
            | Self::StatefulSet(name)
            | Self::Job(name)
            | Self::CronJob(name)
            | Self::ReplicaSet(name)
            | Self::Deployment(name)
            | Self::Service(name)
            | Self::DisruptionBudget(name)
            | Self::Autoscaler(name) => Some(&name.namespace),
            Self::ClusterRoles
            | Self::Namespace(_)
            | Self::Node(_)
            | Self::Schedule
            | Self::NamespaceEnd(_)
            | Self::ExpireEvents => None,
        }
    }
}

/// Due work and timers. One timer per key: the earliest one asked for wins.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    due: BTreeSet<Key>,
    timers: BTreeSet<(Timestamp, Key)>,
    timer_of: BTreeMap<Key, Timestamp>,
}

impl Queue {
    /// Asks for `key` to be done now.
    pub(crate) fn add(&mut self, key: Key) {
        self.due.insert(key);
    }

    /// Asks for `key` to be done at `instant`.
    pub(crate) fn add_at(&mut self, key: Key, instant: Timestamp) {
        if let Some(&set) = self.timer_of.get(&key) {
            if set <= instant {
                return;
            }
            self.timers.remove(&(set, key.clone()));
        }
        self.timer_of.insert(key.clone(), instant);
        self.timers.insert((instant, key));
    }

    /// Whether `key` is to be done now.
    pub(crate) fn is_due(&self, key: &Key) -> bool {
        self.due.contains(key)
    }

    /// The next piece of work due at `now`.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Key> {
        while let Some((instant, _)) = self.timers.first()
            && *instant <= now
            && let Some((_, key)) = self.timers.pop_first()
        {
            self.timer_of.remove(&key);
            self.due.insert(key);
        }
        self.due.pop_first()
    }

    /// When the next timer fires.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(instant, _)| *instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_key_is_due_once_and_in_order() {
        let mut queue = Queue::default();
        let name = ObjectName::new("default", "web");
        queue.add(Key::Deployment(name.clone()));
        queue.add(Key::Deployment(name.clone()));
        queue.add(Key::Kubelet(name.clone()));
        assert_eq!(queue.pop(at(0)), Some(Key::Kubelet(name.clone())));
        assert_eq!(queue.pop(at(0)), Some(Key::Deployment(name)));
        assert_eq!(queue.pop(at(0)), None);
    }

    #[test]
    fn the_earliest_timer_of_a_key_wins() {
        let mut queue = Queue::default();
        let key = Key::Node("a".into());
        queue.add_at(key.clone(), at(50));
        queue.add_at(key.clone(), at(20));
        queue.add_at(key.clone(), at(70));
        assert_eq!(queue.next_due(), Some(at(20)));
        assert_eq!(queue.pop(at(19)), None);
        assert_eq!(queue.pop(at(20)), Some(key));
        assert_eq!(queue.next_due(), None);
    }
}
