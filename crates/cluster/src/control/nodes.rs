//! The life of nodes: registration, heartbeats, taints by condition, and the end of pods whose node is gone.

// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go monitorNodeHealth (v1.36)
// upstream: pkg/controller/podgc/gc_controller.go gcOrphaned (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{LEASES, NODES, PODS};
use klab_api_machinery::value::{list_mut, map_mut, micro_time_text, set_condition, time_text};
use klab_api_machinery::views::{Lease, Node, NodeCondition, PodCondition, Taint};
use klab_scheduler::hash::{fnv64, mix};
use serde_json::{Value, json};

use super::component::Component;
use super::controller::Controller;
use super::events::{Note, reference};
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::NodeInfo;
use super::zones::{Eviction, Zones};
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part, WriteOptions};
use crate::system::static_pods;

const COMPONENT: &str = "node-controller";
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// A node that has not renewed its lease for so long is Unknown (`--node-monitor-grace-period`).
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// Pods of a node that does not exist are deleted after so long.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// Conditions the kubelet posts, with what it says of a healthy node.
const HEALTHY: [(&str, &str, &str, &str); 4] = [
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

/// Taints that follow from conditions: condition, status, key.
const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Registers nodes, watches their heartbeats and taints them by condition.
#[derive(Default)]
pub(super) struct NodeLifecycle {
    zones: Zones,
    /// Nodes that pods name and that do not exist, and until when they may appear.
    absent: BTreeMap<Box<str>, Timestamp>,
}

fn key(name: &str) -> Key {
    Key::new(Controller::NodeLifecycle, NODES, ObjectName::new("", name))
}

impl Reconciler for NodeLifecycle {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == PODS {
            if let Some(pod) = &change.pod.after
                && !pod.node.is_empty()
                && plane.view.node(&pod.node).is_none()
            {
                plane.queue.add(key(&pod.node));
            }
            return;
        }
        let (before, after) = (change.node.before.as_deref(), change.node.after.as_deref());
        let ready = |node: Option<&NodeInfo>| node.is_some_and(|node| node.ready.as_ref() == "True");
        if ready(before) != ready(after) {
            // What the others that are not ready wait for may have changed.
            for node in plane.view.nodes_not_ready() {
                plane.queue.add(key(node));
            }
        }
        if before.is_some_and(|node| !node.stopped) && after.is_some_and(|node| node.stopped) {
            renew_lease(plane, &change.object.name);
        }
        plane.queue.add(key(&change.object.name));
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        self.sync_node(plane, &key.name.name);
    }
}

impl NodeLifecycle {
    fn sync_node(&mut self, plane: &mut Plane, name: &str) {
        let Some(object) = plane.cluster.get(NODES, "", name) else {
            self.zones.forget(name);
            if !plane.is_stopped(Component::ControllerManager) {
                self.collect_pods_of_absent_node(plane, name);
            }
            return;
        };
        self.absent.remove(name);
        let Some(stopped) = plane.view.node(name).map(|node| node.stopped) else { return };
        let mut value = object.value();
        plane.register(&object, &mut value);
        if plane.is_stopped(Component::ControllerManager) {
            return;
        }
        if stopped {
            plane.watch_silent_node(&object, &mut value);
        } else if is_in(&value, "Ready", "Unknown") {
            plane.revive(&object, &mut value);
        }
        self.taint_by_condition(plane, &object, &value);
        if !is_in(&value, "Ready", "True") {
            plane.mark_pods_not_ready(name);
        }
    }

    /// Keeps the taints that follow from conditions and from cordoning; leaves all others alone.
    fn taint_by_condition(&mut self, plane: &mut Plane, object: &Object, value: &Value) {
        let spec = Node(value).spec();
        let mut wanted: Vec<(&str, &str)> = Vec::new();
        let mut leaving = None;
        for (kind, status, key) in CONDITION_TAINTS {
            if is_in(value, kind, status) {
                wanted.push((key, "NoSchedule"));
                if kind == "Ready" {
                    leaving = Some(key);
                }
            }
        }
        if spec.unschedulable() {
            wanted.push((UNSCHEDULABLE, "NoSchedule"));
        }
        let ours = |taint: Taint<'_>| {
            let key = taint.key();
            let follows = key == UNSCHEDULABLE || CONDITION_TAINTS.iter().any(|(_, _, own)| *own == key);
            follows && taint.effect() != "PreferNoSchedule"
        };
        let have: Vec<Taint<'_>> = spec.taints().collect();
        if let Some(taint) = leaving {
            let begun = have.iter().any(|taint| ours(*taint) && taint.effect() == "NoExecute");
            match self.zones.eviction(&plane.view, &object.name, begun, plane.now()) {
                Eviction::Begins => wanted.push((taint, "NoExecute")),
                Eviction::Waits(_) if begun => wanted.push((taint, "NoExecute")),
                Eviction::Waits(Some(next)) => plane.queue.add_at(key(&object.name), next),
                Eviction::Waits(None) | Eviction::Withdrawn => {}
            }
        } else {
            self.zones.forget(&object.name);
        }
        let kept: Vec<_> =
            have.iter().filter(|taint| !ours(**taint) || wanted.contains(&(taint.key(), taint.effect()))).collect();
        let missing: Vec<_> = wanted
            .iter()
            .filter(|wanted| !have.iter().any(|taint| (taint.key(), taint.effect()) == **wanted))
            .collect();
        if missing.is_empty() && kept.len() == have.len() {
            return;
        }
        let time = time_text(plane.now());
        let taints: Vec<Value> = kept
            .into_iter()
            .map(|taint| taint.0.clone())
            .chain(missing.iter().map(|(key, effect)| json!({ "key": key, "effect": effect, "timeAdded": time })))
            .collect();
        let _tainted = plane.cluster.modify(NODES, Part::Main, "", &object.name, &writes(), |node| {
            node["spec"]["taints"] = Value::Array(taints);
        });
    }

    /// Pods bound to a node that does not exist are failed and deleted by force, after a time in which it may appear.
    fn collect_pods_of_absent_node(&mut self, plane: &mut Plane, name: &str) {
        let mut pods = plane.view.pods_on(name);
        if pods.is_empty() {
            self.absent.remove(name);
            return;
        }
        let now = plane.now();
        let end = *self.absent.entry(name.into()).or_insert(later(now, QUARANTINE));
        if end > now {
            plane.queue.add_at(key(name), end);
            return;
        }
        if plane.settings.shuffled {
            // They go in no order, and other controllers do not wait until all are gone.
            pods.sort_by_cached_key(|pod| mix(plane.settings.seed ^ fnv64(&[pod.object.uid.as_bytes()])));
            pods.truncate(1);
            plane.queue.add(key(name));
        }
        for pod in pods {
            let (namespace, pod_name) = (&pod.object.namespace, &pod.object.name);
            if !pod.finished() {
                let condition = json!({
                    "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": time_text(now), "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                });
                let _marked = plane.cluster.modify(PODS, Part::Status, namespace, pod_name, &writes(), |value| {
                    value["status"]["phase"] = json!("Failed");
                    set_condition(&mut value["status"]["conditions"], condition);
                });
            }
            let options = DeleteOptions {
                grace_seconds: Some(0),
                uid: Some(pod.object.uid.to_string()),
                ..DeleteOptions::default()
            };
            let _deleted = plane.cluster.delete(PODS, namespace, pod_name, &options);
        }
    }
}

impl Plane {
    /// What a new node gets: a lease, an address range for its pods, times in its conditions.
    fn register(&mut self, object: &Object, value: &mut Arc<Value>) {
        let name = object.name.to_string();
        let now = self.now();
        let lacks_range = Node(value).spec().pod_cidr().is_empty();
        let lacks_ttl = Node(value).metadata().annotations().get("node.alpha.kubernetes.io/ttl").is_none();
        if lacks_range || lacks_ttl {
            let range = lacks_range.then(|| self.view.free_pod_range());
            let written = self.cluster.modify(NODES, Part::Main, "", &name, &writes(), |node| {
                map_mut(&mut node["metadata"]["annotations"])
                    .entry("node.alpha.kubernetes.io/ttl")
                    .or_insert_with(|| json!("0"));
                if let Some(range) = range {
                    node["spec"]["podCIDR"] = json!(range);
                    node["spec"]["podCIDRs"] = json!([range]);
                }
            });
            if let Ok(written) = written {
                *value = written.value();
            }
        }
        let mut conditions = Node(value).status().conditions();
        if conditions.is_empty() || conditions.any(|have| have.last_heartbeat_time().is_none()) {
            let time = time_text(now);
            let written = self.cluster.modify(NODES, Part::Status, "", &name, &WriteOptions::by("kubelet"), |node| {
                let conditions = list_mut(&mut node["status"]["conditions"]);
                if conditions.is_empty() {
                    conditions.extend(healthy_conditions(&time));
                }
                for have in conditions {
                    for field in ["lastHeartbeatTime", "lastTransitionTime"] {
                        if have[field].is_null() {
                            have[field] = json!(time);
                        }
                    }
                }
            });
            if let Ok(written) = written {
                *value = written.value();
            }
        }
        if self.cluster.get(LEASES, LEASE_NAMESPACE, &name).is_none() {
            let lease = json!({
                "metadata": { "name": name, "ownerReferences": [
                    { "apiVersion": "v1", "kind": "Node", "name": name, "uid": object.uid },
                ]},
                "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_time_text(now) },
            });
            let made = self.cluster.create(LEASES, LEASE_NAMESPACE, lease, &WriteOptions::by("kubelet"));
            if made.is_ok() {
                for pod in static_pods(object) {
                    let _mirrored = self.cluster.create(PODS, "kube-system", pod, &WriteOptions::by("kubelet"));
                }
                let message = format!("Node {name} event: Registered Node {name} in Controller");
                let mut about = reference(object);
                if let Some(about) = about.as_object_mut() {
                    about.remove("resourceVersion");
                }
                self.note_about(&about, COMPONENT, false, "RegisteredNode", &message);
            }
        }
    }

    fn watch_silent_node(&mut self, object: &Object, value: &mut Arc<Value>) {
        let lease = self.cluster.get(LEASES, LEASE_NAMESPACE, &object.name);
        let renewed = lease.and_then(|lease| Lease(&lease.value()).spec().renew_time());
        let now = self.now();
        let end = renewed.map_or(now, |renewed| later(renewed, GRACE));
        if end > now {
            self.queue.add_at(key(&object.name), end);
            return;
        }
        if HEALTHY.iter().all(|(kind, ..)| is_in(value, kind, "Unknown")) {
            return;
        }
        let was_ready = is_in(value, "Ready", "True");
        let time = time_text(now);
        let written = self.cluster.modify(NODES, Part::Status, "", &object.name, &writes(), |node| {
            for (kind, ..) in HEALTHY {
                let have = Node(node).status().conditions().of_type(kind);
                let heartbeat = have.map_or(Some(now), NodeCondition::last_heartbeat_time).map(time_text);
                let silent = json!({
                    "type": kind, "status": "Unknown", "lastHeartbeatTime": heartbeat, "lastTransitionTime": time,
                    "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.",
                });
                set_condition(&mut node["status"]["conditions"], silent);
            }
        });
        if let Ok(written) = written {
            *value = written.value();
        }
        if was_ready {
            let message = format!("Node {} status is now: NodeNotReady", object.name);
            self.note(object, COMPONENT, false, "NodeNotReady", &message);
        }
    }

    /// A node whose kubelet posts again.
    fn revive(&mut self, object: &Object, value: &mut Arc<Value>) {
        let time = time_text(self.now());
        renew_lease(self, &object.name);
        let written =
            self.cluster.modify(NODES, Part::Status, "", &object.name, &WriteOptions::by("kubelet"), |node| {
                for have in healthy_conditions(&time) {
                    set_condition(&mut node["status"]["conditions"], have);
                }
            });
        if let Ok(written) = written {
            *value = written.value();
        }
        let host = object.name.to_string();
        let message = format!("Node {host} status is now: NodeReady");
        let note = Note { component: "kubelet", host: &host, warning: false, reason: "NodeReady", message: &message };
        self.recorder.record(&self.cluster, &reference(object), note);
    }

    fn mark_pods_not_ready(&mut self, node: &str) {
        let time = time_text(self.now());
        for pod in self.view.pods_on(node) {
            if !pod.ready {
                continue;
            }
            let marked =
                self.cluster.modify(PODS, Part::Status, &pod.object.namespace, &pod.object.name, &writes(), |value| {
                    for have in list_mut(&mut value["status"]["conditions"]) {
                        if PodCondition(have).type_() == "Ready" {
                            have["status"] = json!("False");
                            have["lastTransitionTime"] = json!(time);
                        }
                    }
                });
            if marked.is_ok() {
                self.note(&pod.object.clone(), COMPONENT, true, "NodeNotReady", "Node is not ready");
            }
        }
    }
}

/// The kubelet of a node renews its lease: for the last time when it falls silent, or again.
fn renew_lease(plane: &Plane, name: &str) {
    let time = micro_time_text(plane.now());
    let _renewed =
        plane.cluster.modify(LEASES, Part::Main, LEASE_NAMESPACE, name, &WriteOptions::by("kubelet"), |lease| {
            lease["spec"]["renewTime"] = json!(time);
        });
}

/// Whether a condition of a node has that status.
fn is_in(node: &Value, condition: &str, status: &str) -> bool {
    Node(node).status().conditions().of_type(condition).is_some_and(|have| have.status() == status)
}

fn healthy_conditions(time: &str) -> Vec<Value> {
    HEALTHY
        .iter()
        .map(|(kind, status, reason, message)| {
            json!({
                "type": kind, "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time,
                "reason": reason, "message": message,
            })
        })
        .collect()
}
