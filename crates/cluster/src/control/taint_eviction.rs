//! NoExecute taints: pods that do not tolerate them go at once, others when their time of toleration is over.

// upstream: pkg/controller/tainteviction/taint_eviction.go processPodOnNode (v1.36)

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{NODES, PODS};
use klab_api_machinery::value::{set_condition, time_text};
use klab_api_machinery::views::{Pod, Taint};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::{NodeInfo, PodInfo};
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part};

const COMPONENT: &str = "taint-eviction-controller";

/// Evicts pods that do not tolerate a taint of their node.
#[derive(Default)]
pub(super) struct TaintEviction {
    /// Since when each pod, known by its uid, is counted against its tolerations.
    since: HashMap<ObjectName, (Box<str>, Timestamp)>,
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::TaintEviction, PODS, name)
}

fn taints(node: Option<&NodeInfo>) -> impl Iterator<Item = Taint<'_>> {
    node.into_iter().flat_map(NodeInfo::taints)
}

impl Reconciler for TaintEviction {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == NODES {
            if !taints(change.node.before.as_deref()).eq(taints(change.node.after.as_deref())) {
                for pod in plane.view.pods_on(&change.object.name) {
                    plane.queue.add(key(pod.name()));
                }
            }
            return;
        }
        if change.gone {
            self.since.remove(&change.name());
        }
        // Tolerations can be added to a bound pod, so every change counts while there is a taint.
        if let Some(pod) = &change.pod.after
            && let Some(node) = plane.view.node(&pod.node)
            && node.evicting_taints().next().is_some()
        {
            plane.queue.add(key(pod.name()));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        self.sync_pod(plane, &key.name);
    }
}

impl TaintEviction {
    fn sync_pod(&mut self, plane: &mut Plane, name: &ObjectName) {
        let Some(pod) = plane.view.pod(name).cloned() else { return };
        if pod.object.deleting {
            self.since.remove(name);
            return;
        }
        let Some(node) = plane.view.node(&pod.node).cloned() else { return };
        let taints = node.evicting_taints();
        if taints.clone().next().is_none() {
            if self.since.remove(name).is_some() {
                let message = format!("Cancelling deletion of Pod {}/{}", name.namespace, name.name);
                plane.note_about(&bare_reference(&pod), COMPONENT, false, "TaintManagerEviction", &message);
            }
            return;
        }
        let value = pod.object.value();
        let mut shortest: Option<i64> = None;
        for taint in taints.clone() {
            let Some(toleration) = Pod(&value).spec().tolerations().find(|toleration| toleration.tolerates(taint))
            else {
                self.evict(plane, &pod);
                return;
            };
            if let Some(seconds) = toleration.toleration_seconds() {
                shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)).max(0));
            }
        }
        let Some(seconds) = shortest else {
            self.since.remove(name);
            return;
        };
        let now = plane.now();
        let tainted = taints.filter_map(Taint::time_added).max();
        let since = match self.since.get(name) {
            Some((uid, since)) if *uid == pod.object.uid => *since,
            _ => tainted.map_or(now, |tainted| tainted.max(pod.created)),
        };
        let due = later(since, SignedDuration::from_secs(seconds));
        if due <= now {
            self.evict(plane, &pod);
            return;
        }
        self.since.insert(name.clone(), (pod.object.uid.clone(), since));
        plane.queue.add_at(key(name.clone()), due);
    }

    fn evict(&mut self, plane: &mut Plane, pod: &PodInfo) {
        self.since.remove(&pod.name());
        let (namespace, name) = (&pod.object.namespace, &pod.object.name);
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": time_text(plane.now()), "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        });
        let message = format!("Marking for deletion Pod {namespace}/{name}");
        plane.note_about(&bare_reference(pod), COMPONENT, false, "TaintManagerEviction", &message);
        let _marked = plane.cluster.modify(PODS, Part::Status, namespace, name, &writes(), |value| {
            set_condition(&mut value["status"]["conditions"], condition);
        });
        let options = DeleteOptions { uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() };
        let _deleted = plane.cluster.delete(PODS, namespace, name, &options);
    }
}

/// The eviction controller names the pod only, without uid and version.
fn bare_reference(pod: &PodInfo) -> Value {
    json!({ "kind": "Pod", "namespace": pod.object.namespace, "name": pod.object.name, "apiVersion": "v1" })
}
