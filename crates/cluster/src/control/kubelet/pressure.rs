//! Nodes that run short of memory, disk or process ids, because a lab says so: what their kubelets report, whom they
//! evict, whom they do not take.

// upstream: pkg/kubelet/eviction/eviction_manager.go synchronize, Admit, evictPod (v1.36)
// upstream: pkg/kubelet/eviction/helpers.go rankMemoryPressure, evictionMessage (v1.36)
// upstream: pkg/kubelet/nodestatus/setters.go MemoryPressureCondition (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::NODES;
use klab_api_machinery::value::{set_condition, time_text};
use klab_api_machinery::views::{Node, Pod, Taint};
use klab_scheduler::quantity::Quantity;
use serde_json::json;

use super::super::events::{Note, reference};
use super::super::plane::Plane;
use super::super::view::{NodeInfo, PodInfo};
use super::work::{COMPONENT, node_key};
use super::write::evicted;
use crate::clock::later;
use crate::cluster::{Part, WriteOptions};

/// At most one pod is evicted in this time.
const INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// How long a condition is kept after its cause is gone (`--eviction-pressure-transition-period`).
const TRANSITION: SignedDuration = SignedDuration::from_mins(5);
/// Pods of this priority and above are never evicted.
const CRITICAL: i64 = 2_000_000_000;
/// What a container without a memory request is said to use, as `kubectl top` says.
const UNREQUESTED_MEMORY: i64 = 8 * 1024 * 1024;

/// What a node may run short of.
struct Kind {
    /// As the annotation has it.
    word: &'static str,
    condition: &'static str,
    /// Reason and message while there is too little, and while there is enough.
    short: (&'static str, &'static str),
    enough: (&'static str, &'static str),
    /// Reason of the event.
    event: &'static str,
    /// The resource that is to be reclaimed.
    resource: &'static str,
    taint: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        word: "memory",
        condition: "MemoryPressure",
        short: ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        enough: ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        event: "NodeHasInsufficientMemory",
        resource: "memory",
        taint: "node.kubernetes.io/memory-pressure",
    },
    Kind {
        word: "disk",
        condition: "DiskPressure",
        short: ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        enough: ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        event: "NodeHasDiskPressure",
        resource: "ephemeral-storage",
        taint: "node.kubernetes.io/disk-pressure",
    },
    Kind {
        word: "pid",
        condition: "PIDPressure",
        short: ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        enough: ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        event: "NodeHasInsufficientPID",
        resource: "pids",
        taint: "node.kubernetes.io/pid-pressure",
    },
];

/// What is remembered of a node under pressure. Lost at a restart, after which the times run again.
#[derive(Debug, Default)]
pub(super) struct Pressures {
    /// When a node may evict its next pod.
    next: BTreeMap<Box<str>, Timestamp>,
    /// When a condition whose cause is gone is taken back.
    relief: BTreeMap<(Box<str>, &'static str), Timestamp>,
}

/// What a lab says a node runs short of: the words of its annotation, `memory,disk`.
fn short_of(node: &NodeInfo) -> impl Iterator<Item = &'static Kind> + '_ {
    KINDS.iter().filter(|kind| node.pressure.split(',').any(|word| word.trim() == kind.word))
}

/// Whether the pod's priority keeps it from being evicted.
fn is_critical(pod: Pod<'_>) -> bool {
    pod.is_mirror() || pod.spec().priority().is_some_and(|priority| priority >= CRITICAL)
}

/// Why a node under pressure does not take a pod, if it does not.
pub(super) fn rejects(pod: Pod<'_>, node: &NodeInfo) -> Option<String> {
    let kinds: Vec<&Kind> = short_of(node).collect();
    if kinds.is_empty() || is_critical(pod) {
        return None;
    }
    if kinds.iter().all(|kind| kind.word == "memory") {
        let taint = json!({ "key": KINDS[0].taint, "effect": "NoSchedule" });
        let tolerated = pod.spec().tolerations().any(|toleration| toleration.tolerates(Taint(&taint)));
        if pod.status().qos_class() != "BestEffort" || tolerated {
            return None;
        }
    }
    let names: Vec<&str> = kinds.iter().map(|kind| kind.condition).collect();
    Some(format!("The node had condition: [{}]. ", names.join(" ")))
}

impl Pressures {
    /// Reports what a node runs short of, and evicts one pod if it is time.
    pub(super) fn sync(&mut self, plane: &mut Plane, name: &str) {
        let Some(node) = plane.view.node(name).map(Arc::clone) else {
            self.next.remove(name);
            self.relief.retain(|(node, _), _| **node != *name);
            return;
        };
        if node.stopped {
            return;
        }
        self.report(plane, &node);
        let Some(kind) = short_of(&node).next() else {
            self.next.remove(name);
            return;
        };
        let now = plane.now();
        if let Some(next) = self.next.get(name).filter(|next| **next > now) {
            plane.queue.add_at(node_key(name), *next);
            return;
        }
        if let Some((pod, message)) = victim(plane, &node, kind) {
            evict(plane, &pod, &message, true);
            self.next.insert(name.into(), later(now, INTERVAL));
            plane.queue.add_at(node_key(name), later(now, INTERVAL));
        }
    }

    fn report(&mut self, plane: &mut Plane, node: &NodeInfo) {
        let (now, value) = (plane.now(), node.object.value());
        let name = &node.object.name;
        let mut wanted = Vec::new();
        for kind in &KINDS {
            let have = Node(&value).status().conditions().of_type(kind.condition);
            let is_short = have.is_some_and(|have| have.status() == "True");
            let relief = (name.clone(), kind.word);
            if short_of(node).any(|short| short.word == kind.word) {
                self.relief.remove(&relief);
                if !is_short {
                    wanted.push((kind, true));
                }
                continue;
            }
            // What somebody else wrote into the status stays as it is.
            if is_short && have.is_some_and(|have| have.message() == kind.short.1) {
                let end = *self.relief.entry(relief.clone()).or_insert(later(now, TRANSITION));
                if end > now {
                    plane.queue.add_at(node_key(name), end);
                } else {
                    self.relief.remove(&relief);
                    wanted.push((kind, false));
                }
            }
        }
        if wanted.is_empty() {
            return;
        }
        let time = time_text(now);
        let _reported = plane.cluster.modify(NODES, Part::Status, "", name, &WriteOptions::by(COMPONENT), |node| {
            for (kind, short) in &wanted {
                let (reason, message) = if *short { kind.short } else { kind.enough };
                let condition = json!({
                    "type": kind.condition, "status": if *short { "True" } else { "False" }, "reason": reason,
                    "message": message, "lastHeartbeatTime": time, "lastTransitionTime": time,
                });
                set_condition(&mut node["status"]["conditions"], condition);
            }
        });
        for (kind, short) in wanted {
            let reason = if short { kind.event } else { kind.enough.0.trim_start_matches("Kubelet") };
            let reason = if short { reason.to_owned() } else { format!("Node{reason}") };
            let message = format!("Node {name} status is now: {reason}");
            let note = Note { component: COMPONENT, host: name, warning: false, reason: &reason, message: &message };
            plane.recorder.record(&plane.cluster, &reference(&node.object), note);
        }
    }
}

/// The pod that a node evicts next, and why: of those that use more than they request the one of the lowest priority, and
/// of these the one that is farthest above. Pods that came after the pressure did find room.
fn victim(plane: &Plane, node: &NodeInfo, kind: &Kind) -> Option<(Arc<PodInfo>, String)> {
    let value = node.object.value();
    let since = Node(&value).status().conditions().of_type(kind.condition)?.last_transition_time()?;
    plane
        .view
        .pods_on(&node.object.name)
        .into_iter()
        .filter(|pod| pod.active() && pod.started.is_some_and(|started| started <= since))
        .filter_map(|pod| {
            let value = pod.object.value();
            let value = Pod(&value);
            let above = above_requests(value, kind);
            let priority = value.spec().priority().unwrap_or_default();
            let evictable = !is_critical(value) && !above.is_empty();
            let most: i64 = above.iter().map(|(_, used)| *used).sum();
            evictable.then_some(((priority, -most, pod.name()), pod, above))
        })
        .min_by(|(one, ..), (other, ..)| one.cmp(other))
        .map(|(_, pod, above)| {
            let mut message = format!("The node was low on resource: {}. ", kind.resource);
            for (container, used) in above.iter().filter(|_| kind.resource == "memory") {
                let used = Quantity::of_resource("memory", *used);
                message += &format!(
                    "Container {container} was using {used}, request is 0, has larger consumption of memory. "
                );
            }
            (pod, message)
        })
}

/// The containers that use more than they request, and how much they use. One that requests nothing does; the others are
/// said to stay below what they request. Process ids cannot be requested.
fn above_requests(pod: Pod<'_>, kind: &Kind) -> Vec<(String, i64)> {
    let above = pod.spec().containers().filter(|one| one.resources().requests().get(kind.resource).is_none());
    above.map(|container| (container.name().to_owned(), UNREQUESTED_MEMORY)).collect()
}

/// Evicts a pod: its containers are killed, it has failed.
pub(super) fn evict(plane: &mut Plane, pod: &PodInfo, message: &str, by_pressure: bool) {
    let host = pod.node.to_string();
    let note = Note { component: COMPONENT, host: &host, warning: true, reason: "Evicted", message };
    plane.recorder.record(&plane.cluster, &reference(&pod.object), note);
    let target = by_pressure.then(|| {
        json!({
            "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message,
            "observedGeneration": pod.generation, "lastProbeTime": null, "lastTransitionTime": time_text(plane.now()),
        })
    });
    let status = evicted(pod, message, plane.now(), target);
    plane.write_pod_status(pod, status);
}

/// Why a pod is evicted for what its containers have written, if they have written more than they may.
// upstream: pkg/kubelet/eviction/eviction_manager.go podEphemeralStorageLimitEviction (v1.36)
pub(super) fn storage_excess(pod: Pod<'_>, written: i64) -> Option<String> {
    let limits = pod.spec().containers().filter_map(|one| one.resources().limits().get("ephemeral-storage")?.as_str());
    let limits = limits.filter_map(|limit| Quantity::parse(limit).ok());
    let limits: Vec<i64> = limits.map(Quantity::units).collect();
    let limit = limits.iter().copied().fold(0, i64::saturating_add);
    let shown = Quantity::of_resource("ephemeral-storage", limit);
    (!limits.is_empty() && written > limit)
        .then(|| format!("Pod ephemeral local storage usage exceeds the total limit of containers {shown}. "))
}
