//! The life of nodes: registration, heartbeats, taints by condition, and the end of pods whose node is gone.

// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go monitorNodeHealth (v1.36)
// upstream: pkg/controller/podgc/gc_controller.go gcOrphaned (v1.36)

use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;

use super::ControlPlane;
use super::events::{Note, reference};
use super::pods::writes;
use super::queue::Key;
use super::value::{condition, items, list_mut, map_mut, micro_time_text, set_condition, text, time_of, time_text};
use super::zones::Eviction;
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part, WriteOptions};
use crate::object::Object;
use crate::resource::{LEASES, NODES, PODS};
use crate::status::Status;
use crate::system::static_pods;

const COMPONENT: &str = "node-controller";
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// A node that has not renewed its lease for so long is Unknown (`--node-monitor-grace-period`).
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// Pods of a node that does not exist are deleted after so long.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
/// Value of the heartbeat annotation that silences a hollow node.
const STOPPED: &str = "stopped";

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

impl ControlPlane {
    /// Silences a hollow node, as if its machine had stopped. Kept as an annotation, so that a restart remembers.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn stop_node(&self, name: &str) -> Result<(), Status> {
        let key = self.settings.heartbeat_annotation.clone();
        self.cluster
            .modify(NODES, Part::Main, "", name, &WriteOptions::by("klab"), |node| {
                map_mut(&mut node["metadata"]["annotations"]).insert(key, json!(STOPPED));
            })
            .map(drop)
    }

    /// Brings a hollow node back.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn restore_node(&self, name: &str) -> Result<(), Status> {
        let key = self.settings.heartbeat_annotation.clone();
        self.cluster
            .modify(NODES, Part::Main, "", name, &WriteOptions::by("klab"), |node| {
                map_mut(&mut node["metadata"]["annotations"]).remove(&key);
            })
            .map(drop)
    }

    pub(super) fn sync_node(&mut self, name: &str) {
        let Some(object) = self.cluster.get(NODES, "", name) else {
            self.zones.forget(name);
            self.collect_pods_of_absent_node(name);
            return;
        };
        self.absent_nodes.remove(name);
        let Some(stopped) = self.view.node(name).map(|node| node.stopped) else { return };
        let mut value = object.value();
        self.register(&object, &mut value);
        if stopped {
            self.watch_silent_node(&object, &mut value);
        } else if condition(&value["status"]["conditions"], "Ready").is_some_and(|ready| ready["status"] == "Unknown") {
            self.revive(&object, &mut value);
        }
        self.taint_by_condition(&object, &value);
        let ready = condition(&value["status"]["conditions"], "Ready").is_some_and(|ready| ready["status"] == "True");
        if !ready {
            self.mark_pods_not_ready(name);
        }
    }

    /// What a new node gets: a lease, an address range for its pods, times in its conditions.
    fn register(&mut self, object: &Object, value: &mut Arc<Value>) {
        let name = object.name.to_string();
        let now = self.now();
        let lacks_range = text(value, &["spec", "podCIDR"]).is_empty();
        let lacks_ttl = value["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"].is_null();
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
        let untimed = items(&value["status"]["conditions"]).iter().any(|have| have["lastHeartbeatTime"].is_null());
        if untimed || items(&value["status"]["conditions"]).is_empty() {
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

    /// A node that has just been silenced renewed its lease for the last time now.
    pub(super) fn note_last_heartbeat(&mut self, name: &str) {
        let time = micro_time_text(self.now());
        let _renewed =
            self.cluster.modify(LEASES, Part::Main, LEASE_NAMESPACE, name, &WriteOptions::by("kubelet"), |lease| {
                lease["spec"]["renewTime"] = json!(time);
            });
    }

    fn watch_silent_node(&mut self, object: &Object, value: &mut Arc<Value>) {
        let renewed = self
            .cluster
            .get(LEASES, LEASE_NAMESPACE, &object.name)
            .and_then(|lease| time_of(&lease.value()["spec"]["renewTime"]));
        let now = self.now();
        let end = renewed.map_or(now, |renewed| later(renewed, GRACE));
        if end > now {
            self.queue.add_at(Key::Node(object.name.clone()), end);
            return;
        }
        let unknown = |kind: &str| {
            condition(&value["status"]["conditions"], kind).is_some_and(|have| have["status"] == "Unknown")
        };
        if HEALTHY.iter().all(|(kind, ..)| unknown(kind)) {
            return;
        }
        let was_ready = condition(&value["status"]["conditions"], "Ready").is_some_and(|have| have["status"] == "True");
        let time = time_text(now);
        let written = self.cluster.modify(NODES, Part::Status, "", &object.name, &writes(), |node| {
            let conditions = &mut node["status"]["conditions"];
            for (kind, ..) in HEALTHY {
                let heartbeat =
                    condition(conditions, kind).map_or_else(|| json!(time), |have| have["lastHeartbeatTime"].clone());
                set_condition(
                    conditions,
                    json!({
                        "type": kind, "status": "Unknown", "lastHeartbeatTime": heartbeat, "lastTransitionTime": time,
                        "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.",
                    }),
                );
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
        self.note_last_heartbeat(&object.name);
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

    /// Keeps the taints that follow from conditions and from cordoning; leaves all others alone.
    fn taint_by_condition(&mut self, object: &Object, value: &Value) {
        let conditions = &value["status"]["conditions"];
        let mut wanted: Vec<(&str, &str)> = Vec::new();
        let mut leaving = None;
        for (kind, status, key) in CONDITION_TAINTS {
            if condition(conditions, kind).is_some_and(|have| have["status"] == status) {
                wanted.push((key, "NoSchedule"));
                if kind == "Ready" {
                    leaving = Some(key);
                }
            }
        }
        if value["spec"]["unschedulable"] == true {
            wanted.push((UNSCHEDULABLE, "NoSchedule"));
        }
        let is = |taint: &Value, key: &str, effect: &str| taint["key"] == key && taint["effect"] == effect;
        let ours = |taint: &Value| {
            let key = text(taint, &["key"]);
            let follows = key == UNSCHEDULABLE || CONDITION_TAINTS.iter().any(|(_, _, own)| *own == key);
            follows && taint["effect"] != "PreferNoSchedule"
        };
        let have = items(&value["spec"]["taints"]);
        if let Some(key) = leaving {
            let begun = have.iter().any(|taint| ours(taint) && taint["effect"] == "NoExecute");
            match self.eviction(&object.name, begun) {
                Eviction::Begins => wanted.push((key, "NoExecute")),
                Eviction::Waits if begun => wanted.push((key, "NoExecute")),
                Eviction::Waits | Eviction::Withdrawn => {}
            }
        } else {
            self.zones.forget(&object.name);
        }
        let kept: Vec<&Value> = have
            .iter()
            .filter(|taint| !ours(taint) || wanted.iter().any(|(key, effect)| is(taint, key, effect)))
            .collect();
        let missing: Vec<&(&str, &str)> =
            wanted.iter().filter(|(key, effect)| !have.iter().any(|taint| is(taint, key, effect))).collect();
        if missing.is_empty() && kept.len() == have.len() {
            return;
        }
        let time = time_text(self.now());
        let taints: Vec<Value> = kept
            .into_iter()
            .cloned()
            .chain(missing.iter().map(|(key, effect)| json!({ "key": key, "effect": effect, "timeAdded": time })))
            .collect();
        let _tainted = self.cluster.modify(NODES, Part::Main, "", &object.name, &writes(), |node| {
            if taints.is_empty() {
                map_mut(&mut node["spec"]).remove("taints");
            } else {
                node["spec"]["taints"] = Value::Array(taints);
            }
        });
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
                        if have["type"] == "Ready" {
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

    /// Pods bound to a node that does not exist are failed and deleted by force, after a time in which it may appear.
    fn collect_pods_of_absent_node(&mut self, name: &str) {
        let pods = self.view.pods_on(name);
        if pods.is_empty() {
            self.absent_nodes.remove(name);
            return;
        }
        let now = self.now();
        let end = *self.absent_nodes.entry(name.into()).or_insert(later(now, QUARANTINE));
        if end > now {
            self.queue.add_at(Key::Node(name.into()), end);
            return;
        }
        for pod in pods {
            let (namespace, pod_name) = (&pod.object.namespace, &pod.object.name);
            if !pod.finished() {
                let condition = json!({
                    "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": time_text(now), "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                });
                let _marked = self.cluster.modify(PODS, Part::Status, namespace, pod_name, &writes(), |value| {
                    value["status"]["phase"] = json!("Failed");
                    set_condition(&mut value["status"]["conditions"], condition);
                });
            }
            let options = DeleteOptions {
                grace_seconds: Some(0),
                uid: Some(pod.object.uid.to_string()),
                ..DeleteOptions::default()
            };
            let _deleted = self.cluster.delete(PODS, namespace, pod_name, &options);
        }
    }
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
