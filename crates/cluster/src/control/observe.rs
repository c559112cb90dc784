//! Reading the cluster's changes: each updates the view and enqueues only the work it concerns.

use std::sync::Arc;

use super::ControlPlane;
use super::events::LIFETIME;
use super::fault::Subject;
use super::queue::{Key, ObjectName};
use super::value::{service_selector, time_of};
use super::view::{NodeInfo, PodInfo};
use crate::clock::later;
use crate::object::Object;
use crate::resource::{
    CLUSTER_ROLES, CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, ENDPOINT_SLICES, ENDPOINTS, EVENTS, HORIZONTAL_POD_AUTOSCALERS,
    JOBS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS,
    RESOURCE_QUOTAS, ResourceId, SERVICES, STATEFUL_SETS,
};
use crate::store::Change;
use klab_scheduler::selector::Selector;

impl ControlPlane {
    /// Reads all changes since the last time.
    pub(super) fn observe(&mut self) {
        match self.cluster.since(self.seen) {
            Ok((changes, version)) => {
                self.seen = version;
                for event in changes {
                    self.take_in(event.change, &event.object, event.previous.as_deref());
                }
            }
            Err(_) => self.relist(),
        }
    }

    /// Forgets what is known and reads everything again: at the start, and when the history no longer reaches back.
    pub(super) fn relist(&mut self) {
        self.view = super::view::View::default();
        self.scheduler.forget();
        // Changes made during the lists are seen again by `since`, which does no harm.
        let mut oldest = None;
        for id in self.cluster.kinds() {
            let (objects, version) = self.cluster.list(id, None);
            oldest.get_or_insert(version);
            for object in objects {
                self.take_in(Change::Added, &object, None);
            }
        }
        self.seen = oldest.unwrap_or_default();
    }

    fn take_in(&mut self, change: Change, object: &Arc<Object>, previous: Option<&Object>) {
        let gone = change == Change::Deleted;
        if !self.faults.is_empty() {
            if self.faults.lift(object, gone) {
                self.cluster.set_control_faults(self.faults.told());
            }
            if self.faults.bar_change(object) {
                // Its dependents are not to be taken for orphans.
                self.view.link(object, previous);
                return;
            }
        }
        self.begin(Subject::Change(Arc::clone(object)));
        let resource = object.resource;
        let name = ObjectName::new(&object.namespace, &object.name);
        if resource == EVENTS {
            if change != Change::Deleted {
                self.queue.add_at(Key::ExpireEvents, later(self.now(), LIFETIME));
            }
            return;
        }
        if gone {
            self.view.unlink(object);
            for (resource, name) in self.view.dependents_of(&object.uid) {
                self.queue.add(Key::Collect(*resource, name.clone()));
            }
            for owner in &object.owners {
                if let Some((resource, name)) = self.view.find(&owner.uid) {
                    self.queue.add(Key::Collect(*resource, name.clone()));
                }
            }
        } else {
            self.view.link(object, previous);
            let owners_changed = previous.is_none_or(|previous| previous.owners != object.owners);
            if object.deleting || (owners_changed && !object.owners.is_empty()) {
                self.queue.add(Key::Collect(resource, name.clone()));
            }
        }
        if self.view.terminating.contains(&object.namespace) {
            self.queue.add(Key::NamespaceEnd(object.namespace.clone()));
        }
        if let Some(owner) = object.controller() {
            self.enqueue_owner(&owner.kind, &object.namespace, &owner.name);
        }
        if resource != PODS {
            self.object_changed_for_scheduler(gone, object, previous);
        }
        match resource {
            PODS => self.take_in_pod(gone, object, previous),
            NODES => self.take_in_node(gone, object),
            NAMESPACES => self.take_in_namespace(gone, object),
            DEPLOYMENTS => {
                self.enqueue_budgets(&object.namespace);
                self.queue.add(Key::Deployment(name));
            }
            REPLICA_SETS => {
                self.enqueue_budgets(&object.namespace);
                self.set_selector(gone, object, &name);
                self.queue.add(Key::ReplicaSet(name));
                if object.controller().is_none() && !gone {
                    for deployment in self.names_in(DEPLOYMENTS, &object.namespace) {
                        self.queue.add(Key::Deployment(deployment));
                    }
                }
            }
            DAEMON_SETS => {
                self.set_selector(gone, object, &name);
                self.queue.add(Key::DaemonSet(name));
            }
            STATEFUL_SETS => {
                self.enqueue_budgets(&object.namespace);
                self.set_selector(gone, object, &name);
                self.queue.add(Key::StatefulSet(name));
            }
            JOBS => {
                self.set_selector(gone, object, &name);
                self.queue.add(Key::Job(name));
            }
            CRON_JOBS => self.queue.add(Key::CronJob(name)),
            SERVICES => {
                self.set_selector(gone, object, &name);
                self.queue.add(Key::Service(name));
            }
            ENDPOINTS | ENDPOINT_SLICES => {
                let service = object.label("kubernetes.io/service-name").unwrap_or(&object.name);
                self.queue.add(Key::Service(ObjectName::new(&object.namespace, service)));
            }
            POD_DISRUPTION_BUDGETS => {
                self.set_selector(gone, object, &name);
                self.queue.add(Key::DisruptionBudget(name));
            }
            HORIZONTAL_POD_AUTOSCALERS => self.queue.add(Key::Autoscaler(name)),
            PERSISTENT_VOLUME_CLAIMS => {
                self.view.set_selector(resource, name.clone(), (!gone).then_some(Selector::Nothing));
                self.queue.add(Key::Claim(name));
            }
            PERSISTENT_VOLUMES => {
                if let Some(claim) = object.value()["spec"]["claimRef"].as_object() {
                    let text = |field: &str| claim.get(field).and_then(|value| value.as_str()).unwrap_or_default();
                    self.queue.add(Key::Claim(ObjectName::new(text("namespace"), text("name"))));
                }
            }
            CLUSTER_ROLES => self.queue.add(Key::ClusterRoles),
            RESOURCE_QUOTAS => self.enqueue_refused(&object.namespace),
            _ => {}
        }
    }

    fn take_in_pod(&mut self, gone: bool, object: &Arc<Object>, previous: Option<&Object>) {
        let name = ObjectName::new(&object.namespace, &object.name);
        let (before, pod) = if gone {
            let before = self.view.remove_pod(&name);
            self.steps.forget(&name);
            self.evictions.forget(&name);
            (before, None)
        } else {
            let (before, pod) = self.view.put_pod(object);
            (before, Some(pod))
        };
        // A change of owner concerns the former owner too.
        if let Some(former) = previous.and_then(Object::controller)
            && object.controller().is_none_or(|owner| owner.uid != former.uid)
        {
            self.enqueue_owner(&former.kind, &object.namespace, &former.name);
        }
        if object.controller().is_none() && !gone {
            for resource in [REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS] {
                for owner in self.view.selecting(resource, object) {
                    self.enqueue_owner(resource.row().kind, &owner.namespace.clone(), &owner.name.clone());
                }
            }
        }
        let counts = |pod: &PodInfo| (pod.ready, pod.ip.clone(), pod.finished(), pod.object.deleting);
        let same_to_services = match (&before, &pod) {
            (Some(before), Some(pod)) => {
                counts(before) == counts(pod) && before.object.labels == pod.object.labels && before.node == pod.node
            }
            _ => false,
        };
        if !same_to_services {
            for version in [Some(object.as_ref()), previous].into_iter().flatten() {
                for service in self.view.selecting(SERVICES, version) {
                    self.queue.add(Key::Service(service));
                }
                for budget in self.view.selecting(POD_DISRUPTION_BUDGETS, version) {
                    self.queue.add(Key::DisruptionBudget(budget));
                }
            }
        }
        if let Some(pod) = &pod
            && !pod.node.is_empty()
        {
            self.queue.add(Key::Kubelet(name.clone()));
            match self.view.node(&pod.node) {
                None => self.queue.add(Key::Node(pod.node.clone())),
                // Tolerations can be added to a bound pod, so every change counts while there is a taint.
                Some(node) if node.taints.iter().any(|taint| taint["effect"] == "NoExecute") => {
                    self.queue.add(Key::Evict(name.clone()));
                }
                Some(_) => {}
            }
        }
        let bound = pod.as_ref().is_some_and(|pod| !pod.node.is_empty());
        if gone || (bound && before.as_ref().is_none_or(|before| before.node.is_empty())) {
            self.enqueue_claims(object);
        }
        self.pod_changed_for_scheduler(object, before.as_deref(), pod.as_deref());
    }

    fn take_in_node(&mut self, gone: bool, object: &Arc<Object>) {
        let before = if gone {
            self.view.remove_node(&object.name)
        } else {
            self.view.put_node(object, &self.settings.heartbeat_annotation)
        };
        let awake = |node: Option<&Arc<NodeInfo>>| node.is_some_and(|node| !node.stopped);
        let woken = awake(self.view.node(&object.name)) && !awake(before.as_ref());
        let ready = |node: Option<&Arc<NodeInfo>>| node.is_some_and(|node| node.ready.as_ref() == "True");
        let recovered = ready(self.view.node(&object.name)) && !ready(before.as_ref());
        if ready(self.view.node(&object.name)) != ready(before.as_ref()) {
            self.readiness_changed();
        }
        if awake(before.as_ref()) && self.view.node(&object.name).is_some_and(|node| node.stopped) {
            self.note_last_heartbeat(&object.name);
        }
        let taints = |node: Option<&Arc<NodeInfo>>| node.map(|node| node.taints.clone()).unwrap_or_default();
        if taints(before.as_ref()) != taints(self.view.node(&object.name)) {
            for pod in self.view.pods_on(&object.name) {
                self.queue.add(Key::Evict(pod.name()));
            }
        }
        self.queue.add(Key::Node(object.name.clone()));
        if woken || recovered {
            for pod in self.view.pods_on(&object.name) {
                self.queue.add(Key::Kubelet(pod.name()));
            }
        }
    }

    fn take_in_namespace(&mut self, gone: bool, object: &Object) {
        if gone || !object.deleting {
            self.view.terminating.remove(&object.name);
        } else {
            self.view.terminating.insert(object.name.clone());
        }
        if !gone {
            self.queue.add(Key::Namespace(object.name.clone()));
        }
    }

    /// The scale of a workload decides what its budgets expect.
    fn enqueue_budgets(&mut self, namespace: &str) {
        let names: Vec<ObjectName> =
            self.view.selectors_in(POD_DISRUPTION_BUDGETS, namespace).map(|(name, _)| name.clone()).collect();
        for name in names {
            self.queue.add(Key::DisruptionBudget(name));
        }
    }

    /// Owners whose pods were refused may have room now.
    fn enqueue_refused(&mut self, namespace: &str) {
        for key in self.refused.keys() {
            if key.namespace() == Some(namespace) {
                self.queue.add(key.clone());
            }
        }
    }

    fn set_selector(&mut self, gone: bool, object: &Object, name: &ObjectName) {
        let selector = (!gone).then(|| {
            let value = object.value();
            if object.resource == SERVICES {
                service_selector(&value["spec"]["selector"])
            } else {
                Selector::from_json(&value["spec"]["selector"])
            }
        });
        self.view.set_selector(object.resource, name.clone(), selector);
    }

    fn enqueue_owner(&mut self, kind: &str, namespace: &str, name: &str) {
        let name = ObjectName::new(namespace, name);
        let key = match kind {
            "ReplicaSet" => Key::ReplicaSet(name),
            "Deployment" => Key::Deployment(name),
            "DaemonSet" => Key::DaemonSet(name),
            "StatefulSet" => Key::StatefulSet(name),
            "Job" => Key::Job(name),
            "CronJob" => Key::CronJob(name),
            _ => return,
        };
        self.queue.add(key);
    }

    /// Names of the objects of a kind in a namespace.
    pub(super) fn names_in(&self, resource: ResourceId, namespace: &str) -> Vec<ObjectName> {
        let (objects, _) = self.cluster.list(resource, Some(namespace));
        objects.iter().map(|object| ObjectName::new(&object.namespace, &object.name)).collect()
    }

    /// Names of all objects of a kind.
    pub(super) fn names_in_all(&self, resource: ResourceId) -> Vec<ObjectName> {
        let (objects, _) = self.cluster.list(resource, None);
        objects.iter().map(|object| ObjectName::new(&object.namespace, &object.name)).collect()
    }

    /// Deletes events whose lifetime is over.
    pub(super) fn expire_events(&mut self) {
        let now = self.now();
        let mut next = None;
        for event in self.cluster.list(EVENTS, None).0 {
            let value = event.value();
            let last = [
                &value["series"]["lastObservedTime"],
                &value["lastTimestamp"],
                &value["eventTime"],
                &value["metadata"]["creationTimestamp"],
            ]
            .into_iter()
            .find_map(time_of);
            let Some(end) = last.map(|last| later(last, LIFETIME)) else { continue };
            if end <= now {
                let _gone = self.cluster.delete(
                    EVENTS,
                    &event.namespace,
                    &event.name,
                    &crate::cluster::DeleteOptions::default(),
                );
            } else {
                next = Some(next.map_or(end, |next: jiff::Timestamp| next.min(end)));
            }
        }
        // Not one sweep for each event: those that end within a minute go together.
        if let Some(next) = next {
            self.queue.add_at(Key::ExpireEvents, next.max(later(now, jiff::SignedDuration::from_mins(1))));
        }
    }
}
