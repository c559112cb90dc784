//! Spot machines that Azure takes back: the notice on the node, the drain by AKS, the end of the machine and of its node.
//!
//! Kubernetes has no such controller. It stands for those around a spot node of AKS: the node problem detector, node
//! auto-drain, Azure, and the cloud controller manager. No machine replaces the one that went: that is up to an autoscaler.

// See https://learn.microsoft.com/azure/aks/node-auto-drain (the taint; Preempt: cordon and drain, best effort)
// See https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (Preempt: at least 30 seconds of notice)
// upstream: staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go MonitorNodes (v1.36)

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::NODES;
use klab_api_machinery::value::{list_mut, map_mut, set_condition, time_text};
use klab_api_machinery::views::{Node, NodeCondition, Taint};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::settings::{HEARTBEAT_ANNOTATION, STOPPED};
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part, WriteOptions};

/// Annotation of a node that has Azure take its machine back, as a spot machine, when set to [`PREEMPT`].
pub const SPOT_ANNOTATION: &str = "klab.dev/spot";
/// The value of that annotation, after the type of Azure's scheduled event.
pub const PREEMPT: &str = "preempt";

/// The condition by which the node problem detector of AKS says that Azure will do something to the machine.
const NOTICE: &str = "VMEventScheduled";
/// The taint of AKS for nodes that are drained.
const TAINT: &str = "remediator.kubernetes.azure.com/unschedulable";
/// From the notice until AKS drains: 6 seconds were measured.
const DRAIN_AFTER: SignedDuration = SignedDuration::from_secs(6);
/// From the notice until the machine is gone: what Azure promises at least.
const MACHINE_ENDS_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// How often an eviction that a budget refused is tried again, as `kubectl drain` does.
const EVICTION_RETRY: SignedDuration = SignedDuration::from_secs(5);
/// How often the cloud controller manager looks at nodes that are not ready (`--node-monitor-period`).
const MONITOR_PERIOD: SignedDuration = SignedDuration::from_secs(5);

/// Takes machines back where annotations of their nodes ask for that.
#[derive(Default)]
pub(super) struct SpotEviction;

fn key(name: &str) -> Key {
    Key::new(Controller::SpotEviction, NODES, ObjectName::new("", name))
}

fn is_asked(node: Node<'_>) -> bool {
    node.metadata().annotations().get(SPOT_ANNOTATION) == Some(PREEMPT)
}

/// Since when the node says that its machine will be taken.
fn noticed(node: Node<'_>) -> Option<Timestamp> {
    let notice = node.status().conditions().of_type(NOTICE)?;
    notice.last_transition_time().filter(|_| notice.status() == "True")
}

impl Reconciler for SpotEviction {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.versions().any(|node| is_asked(Node(&node.value()))) {
            plane.queue.add(key(&change.object.name));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let Some(node) = plane.cluster.get(NODES, "", &key.name.name) else { return };
        let value = node.value();
        match (is_asked(Node(&value)), noticed(Node(&value))) {
            (true, Some(since)) => proceed(plane, &node, since),
            (true, None) => announce(plane, &node),
            (false, Some(_)) => withdraw(plane, &node),
            (false, None) => {}
        }
    }
}

/// The node problem detector passes Azure's notice on.
fn announce(plane: &mut Plane, node: &Object) {
    let ends = later(plane.now(), MACHINE_ENDS_AFTER).strftime("%a, %d %b %Y %H:%M:%S GMT");
    let message = format!(
        "Preempt Scheduled: {ends}. DurationInSeconds: -1.  For more information, see https://aka.ms/aks/scheduledevents."
    );
    post(plane, node, true, NOTICE, &message);
    let component = "custom-scheduledevents-consolidated-preempt-plugin-monitor";
    plane.note(node, component, true, "PreemptScheduled", &message);
    plane.queue.add_at(key(&node.name), later(plane.now(), DRAIN_AFTER));
}

/// Azure does not take the machine after all.
fn withdraw(plane: &mut Plane, node: &Object) {
    post(plane, node, false, "NoVMEventScheduled", "VM has no scheduled event");
    let _opened =
        plane.cluster.modify(NODES, Part::Main, "", &node.name, &WriteOptions::by("aks-remediator"), |node| {
            let taints = list_mut(&mut node["spec"]["taints"]);
            let have = taints.len();
            taints.retain(|taint| Taint(taint).key() != TAINT);
            if taints.len() < have {
                map_mut(&mut node["spec"]).remove("unschedulable");
            }
        });
}

/// What the node problem detector says: on the node, and as an event.
fn post(plane: &mut Plane, node: &Object, scheduled: bool, reason: &str, message: &str) {
    let time = time_text(plane.now());
    let status = if scheduled { "True" } else { "False" };
    let condition = json!({
        "type": NOTICE, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": time, "lastTransitionTime": time,
    });
    let options = WriteOptions::by("node-problem-detector");
    let _posted = plane.cluster.modify(NODES, Part::Status, "", &node.name, &options, |node| {
        set_condition(&mut node["status"]["conditions"], condition);
    });
    let event = format!("Node condition {NOTICE} is now: {status}, reason: {reason}, message: {message:?}");
    plane.note(node, "custom-scheduledevents-consolidated-condition-plugin-monitor", scheduled, reason, &event);
}

/// What follows the notice, at the times at which it does.
fn proceed(plane: &mut Plane, node: &Object, since: Timestamp) {
    let (now, value) = (plane.now(), node.value());
    let (drains, ends) = (later(since, DRAIN_AFTER), later(since, MACHINE_ENDS_AFTER));
    if Node(&value).metadata().annotations().get(HEARTBEAT_ANNOTATION) == Some(STOPPED) {
        take_away(plane, node);
    } else if now < drains {
        plane.queue.add_at(key(&node.name), drains);
    } else if now < ends {
        drain(plane, node);
        plane.queue.add_at(key(&node.name), later(now, EVICTION_RETRY).min(ends));
    } else {
        let stop = |node: &mut Value| node["metadata"]["annotations"][HEARTBEAT_ANNOTATION] = json!(STOPPED);
        let _stopped = plane.cluster.modify(NODES, Part::Main, "", &node.name, &WriteOptions::by("azure"), stop);
    }
}

/// AKS keeps pods off the node and evicts those that are there, as far as budgets allow it.
fn drain(plane: &Plane, node: &Object) {
    let taint = json!({ "key": TAINT, "effect": "NoSchedule" });
    if !Node(&node.value()).spec().taints().any(|have| have.key() == TAINT) {
        let options = WriteOptions::by("aks-remediator");
        let _closed = plane.cluster.modify(NODES, Part::Main, "", &node.name, &options, |node| {
            node["spec"]["unschedulable"] = json!(true);
            list_mut(&mut node["spec"]["taints"]).push(taint);
        });
    }
    for pod in plane.view.pods_to_drain(&node.name).iter().filter(|pod| !pod.object.deleting) {
        let options = DeleteOptions { uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() };
        let _evicted = plane.cluster.evict(&pod.object.namespace, &pod.object.name, &options);
    }
}

/// The cloud controller manager deletes a node that is not ready and has no machine.
fn take_away(plane: &mut Plane, node: &Object) {
    let value = node.value();
    let ready = Node(&value).status().conditions().of_type("Ready").filter(|ready| ready.status() != "True");
    let Some(since) = ready.and_then(NodeCondition::last_transition_time) else { return };
    let seen = later(since, MONITOR_PERIOD);
    if plane.now() < seen {
        plane.queue.add_at(key(&node.name), seen);
        return;
    }
    let message = format!("Deleting node {} because it does not exist in the cloud provider", node.name);
    plane.note(node, "cloud-node-lifecycle-controller", false, "DeletingNode", &message);
    let _deleted = plane.cluster.delete(NODES, "", &node.name, &DeleteOptions::default());
}
