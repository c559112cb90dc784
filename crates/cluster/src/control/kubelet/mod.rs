//! Hollow nodes: what a kubelet tells the API server of a pod's life, without running anything.
//!
//! What a pod has come to follows from its status, its spec and the time alone, so that a kubelet that has forgotten
//! everything goes on where it was. `crate::process` says what the containers do, `probe` what their probes find, `life` brings
//! them up to the present; `admit`, `resize`, `pressure` and `stop` are what else befalls a pod.

mod admit;
mod claims;
mod container;
mod fields;
mod images;
mod killing;
mod life;
mod memory;
mod mounting;
mod pressure;
mod probe;
mod requests;
mod resize;
mod restart;
mod static_pods;
mod status;
mod stop;
mod volumes;
mod work;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{
    CONFIG_MAPS, CONTAINER_FILES, ENDPOINT_SLICES, NODES, RESOURCE_CLAIMS, RUNTIME_CLASSES, SECRETS, SERVICES,
};
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::{Node, Pod, PodStatus, ResourceClaim, RuntimeClass};
use klab_cel::names::is_extended_resource;
use serde_json::json;

use self::container::{Role, State};
pub use self::killing::{Killing, kill};
use self::life::Look;
use self::memory::{Memories, Memory, Step};
use self::pressure::Pressures;
pub use self::static_pods::REMOVED_STATIC_POD_ANNOTATION;
use self::status::container_reference;
use self::volumes::Volumes;
use self::work::{key, node_key};
use self::write::Report;
use super::events::reference;
use super::plane::Plane;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::{NodeInfo, Phase, PodInfo};
use crate::clock::later;
use crate::cluster::{Part, WriteOptions};

/// Ways to run containers that every node has; more are in its status.
const HANDLERS: [&str; 2] = ["", "runc"];

/// Runs the pods that are bound to a node, and ends those that are deleted.
#[derive(Default)]
pub(super) struct Kubelet {
    memories: Memories,
    volumes: Volumes,
    /// Pods that wait for room on their node to be resized.
    deferred: BTreeSet<ObjectName>,
    /// Pods that wait for a ConfigMap or Secret that is not there.
    lacking: BTreeSet<ObjectName>,
    /// Pods whose init containers wait for a name or a port.
    awaiting: BTreeSet<ObjectName>,
    pressures: Pressures,
}

impl Reconciler for Kubelet {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == NODES {
            node_changed(plane, change);
            return;
        }
        if change.resource() == CONTAINER_FILES {
            plane.queue.add(key(change.name()));
            return;
        }
        if change.resource() == RESOURCE_CLAIMS {
            // Pods may wait for their devices.
            for consumer in ResourceClaim(&change.object.value()).status().reserved_for() {
                let name = ObjectName::new(&change.object.namespace, consumer.name());
                if plane.view.pod(&name).is_some_and(|pod| pod.phase == Phase::Pending && !pod.node.is_empty()) {
                    plane.queue.add(key(name));
                }
            }
            return;
        }
        if matches!(change.resource(), CONFIG_MAPS | SECRETS) {
            let namespace = &change.object.namespace;
            for name in self.lacking.iter().filter(|name| !change.gone && name.namespace == *namespace) {
                plane.queue.add(key(name.clone()));
            }
            return;
        }
        if matches!(change.resource(), SERVICES | ENDPOINT_SLICES) {
            self.awaiting.iter().for_each(|name| plane.queue.add(key(name.clone())));
            return;
        }
        let (before, after) = (change.pod.before.as_deref(), change.pod.after.as_deref());
        if change.gone {
            self.lacking.remove(&change.name());
            self.awaiting.remove(&change.name());
            self.memories.forget(&change.name());
            self.volumes.forget(&change.object.uid);
            self.deferred.remove(&change.name());
            static_pods::mirror_again(plane, change.object);
        }
        if !self.deferred.is_empty() && before.is_some() && (change.gone || requests_changed(before, after)) {
            let node = before.map(|pod| pod.node.clone()).unwrap_or_default();
            let waiting = self.deferred.iter().filter(|name| plane.view.pod(name).is_some_and(|pod| pod.node == node));
            for name in waiting.cloned().collect::<Vec<_>>() {
                plane.queue.add(key(name));
            }
        }
        let Some(pod) = after.filter(|pod| !pod.node.is_empty()) else { return };
        // What the kubelet itself has written is nothing new to it.
        let news = before.is_none_or(|before| {
            before.node != pod.node
                || before.phase != pod.phase
                || before.ready != pod.ready
                || before.generation != pod.generation
                || before.started.is_some() != pod.started.is_some()
                || before.object.deleting != pod.object.deleting
                || pod.object.deleting
                || pod.gated
                // What its containers are to have may be said in its annotations.
                || self.lacking.contains(&change.name())
        });
        if news {
            plane.queue.add(key(change.name()));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        match key.object() {
            Some((NODES, name)) => {
                advertise(plane, &name.name);
                self.pressures.sync(plane, &name.name);
            }
            _ => self.sync_pod(plane, &key.name),
        }
    }

    fn forget(&mut self) {
        self.deferred.clear();
        self.lacking.clear();
        self.awaiting.clear();
    }
}

fn node_changed(plane: &mut Plane, change: &Change<'_>) {
    let (before, after) = (change.node.before.as_deref(), change.node.after.as_deref());
    let awake = |node: Option<&NodeInfo>| node.is_some_and(|node| !node.stopped);
    let ready = |node: Option<&NodeInfo>| node.is_some_and(|node| node.ready.as_ref() == "True");
    if (awake(after) && !awake(before)) || (ready(after) && !ready(before)) {
        for pod in plane.view.pods_on(&change.object.name) {
            plane.queue.add(key(pod.name()));
        }
    }
    let pressed = |node: Option<&NodeInfo>| node.is_some_and(|node| !node.pressure.is_empty());
    if pressed(before) || pressed(after) || after.is_some_and(|node| node.under_pressure || node.is_ahead) {
        plane.queue.add(node_key(&change.object.name));
    }
}

/// Pods can have what somebody says the node has of extended resources, by its capacity.
// upstream: pkg/kubelet/nodestatus/setters.go MachineInfo (v1.36)
fn advertise(plane: &Plane, name: &str) {
    let ahead = plane.view.node(name).is_some_and(|node| node.is_ahead && !node.stopped);
    if !ahead || plane.settings.hollow.as_recorded {
        return;
    }
    let _written = plane.cluster.modify(NODES, Part::Status, "", name, &WriteOptions::by("kubelet"), |node| {
        let capacity = node["status"]["capacity"].as_object().cloned().unwrap_or_default();
        let Some(allocatable) = node["status"]["allocatable"].as_object_mut() else { return };
        allocatable.retain(|name, _| !is_extended_resource(name));
        allocatable.extend(capacity.into_iter().filter(|(name, _)| is_extended_resource(name)));
    });
}

/// Whether a pod may hold less of its node than before.
fn requests_changed(before: Option<&PodInfo>, after: Option<&PodInfo>) -> bool {
    let Some((before, after)) = before.zip(after) else { return false };
    before.generation != after.generation || before.finished() != after.finished()
}

impl Kubelet {
    /// Takes a bound pod one step further, when that step is due.
    fn sync_pod(&mut self, plane: &mut Plane, name: &ObjectName) {
        let Some(pod) = plane.view.pod(name).map(Arc::clone) else { return };
        let Some(node) = plane.view.node(&pod.node).map(Arc::clone) else { return };
        if node.stopped {
            return;
        }
        let now = plane.now();
        let mut memory = self.memories.take(&pod);
        if pod.object.deleting {
            plane.stop_pod(&mut memory, &mut self.volumes, &pod, &node, now);
        } else if !pod.finished() {
            self.run_pod(plane, &mut memory, &pod, &node, now);
        }
        self.memories.put(&pod, memory);
    }

    fn run_pod(&mut self, plane: &mut Plane, memory: &mut Memory, pod: &PodInfo, node: &NodeInfo, now: Timestamp) {
        let hollow = plane.settings.hollow;
        if pod.phase == Phase::Running {
            let of_job = pod.object.controller().is_some_and(|owner| &*owner.kind == "Job");
            // The node controller has marked the pods of a node that is not ready.
            if node.ready.as_ref() != "True" || (hollow.as_recorded && pod.ready && !of_job) {
                return;
            }
        }
        let value = pod.object.value();
        let value = Pod(&value);
        if pod.started.is_none()
            && let Some(refused) = plane.rejection(pod, value, node)
        {
            plane.say(&pod.node, &reference(&pod.object), true, &refused.reason, &refused.message);
            let status = json!({
                "phase": "Failed", "reason": refused.reason, "startTime": time_text(now),
                "observedGeneration": pod.generation, "message": format!("Pod was rejected: {}", refused.message),
            });
            plane.write_pod_status(pod, Report { status, ..Report::default() });
            return;
        }
        if pod.phase == Phase::Pending && !hollow.start.is_zero() {
            let (due, _) = memory.due(pod, Step::Start, now, hollow.start);
            if due > now {
                if pod.started.is_none() {
                    let look = plane.look(pod, value, memory, &mut self.volumes);
                    let report = plane.report(&look, node, false);
                    plane.write_pod_status(pod, report);
                }
                plane.queue.add_at(key(pod.name()), due);
                return;
            }
        }
        if pod.has_claims
            && pod.phase == Phase::Pending
            && let Some(fault) = claims::unprepared(plane, pod, value)
        {
            let message = format!("Failed to prepare dynamic resources: prepare dynamic resources: {fault}");
            self.wait_for_sandbox(plane, memory, pod, node, "FailedPrepareDynamicResources", &message);
            return;
        }
        if let Some(handler) = unknown_handler(plane, value, node) {
            let message = format!(
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \
                 \"{handler}\" is configured"
            );
            self.wait_for_sandbox(plane, memory, pod, node, "FailedCreatePodSandBox", &message);
            return;
        }
        self.look_after(plane, memory, pod, node, value);
    }

    /// Brings a pod that its node has taken up to the present, and reports what has changed.
    fn look_after(&mut self, plane: &mut Plane, memory: &mut Memory, pod: &PodInfo, node: &NodeInfo, value: Pod<'_>) {
        let mut look = plane.look(pod, value, memory, &mut self.volumes);
        let deadline = (value.spec().active_deadline_seconds())
            .map(|seconds| later(pod.started.unwrap_or(look.now), SignedDuration::from_secs(seconds)));
        let late = deadline.is_some_and(|deadline| deadline <= look.now);
        let mut over = false;
        if let Some(deadline) = deadline {
            if late {
                let grace = look.grace();
                let running: Vec<usize> =
                    (0..look.containers.len()).filter(|index| look.containers[*index].is_running()).collect();
                let ended: Vec<bool> = running.into_iter().map(|index| look.stop(index, deadline, grace)).collect();
                over = ended.into_iter().all(|ended| ended);
            } else {
                look.wake(deadline);
            }
        }
        let mut resized = resize::Resized::default();
        if !late {
            if look.has_volumes() {
                look.advance();
            }
            if !look.hollow.as_recorded {
                resized = plane.resize(&mut look, node);
            }
        }
        if let Some(message) = written_too_much(&mut look) {
            let said = std::mem::take(&mut look.said);
            tell(plane, pod, pod.ip.as_deref().unwrap_or_default(), said);
            pressure::evict(plane, pod, &message, false);
            return;
        }
        let mut report = plane.report(&look, node, over);
        if over {
            report.status["phase"] = json!("Failed");
            report.status["reason"] = json!("DeadlineExceeded");
            report.status["message"] = json!("Pod was active on the node longer than the specified deadline");
            report.conditions = status::conditions(value, &look.containers, Phase::Failed, true, look.now);
        }
        report.conditions.extend(resized.conditions);
        report.lifted = resized.lifted;
        for (names, is_one) in
            [(&mut self.deferred, resized.deferred), (&mut self.lacking, look.lacks), (&mut self.awaiting, look.awaits)]
        {
            if is_one {
                names.insert(pod.name());
            } else {
                names.remove(&pod.name());
            }
        }
        let (next, said) = (look.next, std::mem::take(&mut look.said));
        let said_of_pod = std::mem::take(&mut look.said_of_pod);
        let address = PodStatus(&report.status).pod_ip().to_owned();
        if report.is_news(value) && !plane.write_pod_status(pod, report) {
            return;
        }
        if over {
            let message = "Pod was active on the node longer than the specified deadline";
            plane.say(&pod.node, &reference(&pod.object), false, "DeadlineExceeded", message);
        }
        for (reason, message) in said_of_pod {
            plane.say(&pod.node, &reference(&pod.object), true, reason, &message);
        }
        tell(plane, pod, &address, said);
        for (warning, reason, message) in resized.said {
            plane.say(&pod.node, &reference(&pod.object), warning, reason, &message);
        }
        if let Some(next) = next {
            plane.queue.add_at(key(pod.name()), next);
        }
    }

    /// Nothing of the pod can be made: it waits for its sandbox.
    fn wait_for_sandbox(
        &mut self,
        plane: &mut Plane,
        memory: &mut Memory,
        pod: &PodInfo,
        node: &NodeInfo,
        reason: &'static str,
        message: &str,
    ) {
        let value = pod.object.value();
        let value = Pod(&value);
        let look = plane.look(pod, value, memory, &mut self.volumes);
        let report = plane.report(&look, node, false);
        if report.is_news(value) && plane.write_pod_status(pod, report) {
            plane.say(&pod.node, &reference(&pod.object), true, reason, message);
        }
    }
}

fn tell(plane: &mut Plane, pod: &PodInfo, address: &str, said: Vec<life::Said>) {
    for said in said {
        let about = container_reference(pod, said.role.field(), &said.container);
        plane.say(&pod.node, &about, said.warning, said.reason, &said.message.replace(life::ADDRESS, address));
    }
}

/// Why a pod is to be evicted for what its containers have written to the disk.
fn written_too_much(look: &mut Look<'_, '_>) -> Option<String> {
    let mut written = 0_i64;
    for index in 0..look.containers.len() {
        let container = &look.containers[index];
        let State::Running(since) = container.state() else { continue };
        if container.role != Role::Main || container.spec.resources().limits().get("ephemeral-storage").is_none() {
            continue;
        }
        for (at, bytes) in look.program(index).course.writes {
            let at = later(since, at);
            if at > look.now {
                look.wake(at);
            } else {
                written = written.saturating_add(bytes);
            }
        }
    }
    pressure::storage_excess(look.value, written)
}

/// The handler of the pod's RuntimeClass, if its node does not have it.
fn unknown_handler(plane: &Plane, pod: Pod<'_>, node: &NodeInfo) -> Option<String> {
    let class = pod.spec().runtime_class_name().filter(|class| !class.is_empty())?;
    if plane.settings.hollow.as_recorded {
        return None;
    }
    let class = plane.cluster.get(RUNTIME_CLASSES, "", class)?.value();
    let handler = RuntimeClass(&class).handler();
    let node = node.object.value();
    let offered = Node(&node).status().runtime_handlers().named(handler);
    (offered.is_none() && !HANDLERS.contains(&handler)).then(|| handler.to_owned())
}
