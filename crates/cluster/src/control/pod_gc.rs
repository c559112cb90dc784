//! Pods that are deleted and that no kubelet will end, so that they have failed: those that no node has, and those of a node that
//! is said to be out of service.

// upstream: pkg/controller/podgc/gc_controller.go gcUnscheduledTerminating, gcTerminating, markFailedAndDeletePod (v1.36)

use jiff::SignedDuration;
use klab_api_machinery::resource::PODS;
use serde_json::json;

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::{NodeInfo, PodInfo};
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part};

/// How often pods are looked at (`gcCheckPeriod`).
const PERIOD: SignedDuration = SignedDuration::from_secs(20);

/// Taint of a node that has been shut down, as somebody says who knows.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Fails pods that are deleted and on no node that could end them.
#[derive(Default)]
pub(super) struct PodGarbageCollector;

/// Whether a pod is deleted, and no kubelet will end it.
fn is_nobodys(plane: &Plane, pod: &PodInfo) -> bool {
    if pod.node.is_empty() {
        return pod.object.deleting && !pod.finished();
    }
    pod.object.deleting && plane.view.node(&pod.node).is_some_and(|node| is_out_of_service(node))
}

fn is_out_of_service(node: &NodeInfo) -> bool {
    &*node.ready != "True" && node.taints().any(|taint| taint.key() == OUT_OF_SERVICE)
}

fn look_later(plane: &mut Plane, pod: ObjectName) {
    let due = later(plane.now(), PERIOD);
    plane.queue.add_at(Key::new(Controller::PodGarbageCollector, PODS, pod), due);
}

impl Reconciler for PodGarbageCollector {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if let Some(pod) = &change.pod.after {
            if is_nobodys(plane, pod) {
                look_later(plane, change.name());
            }
        } else if let Some(node) = change.node.after.as_ref().filter(|node| is_out_of_service(node)) {
            for pod in plane.view.pods_on(&node.object.name).iter().filter(|pod| pod.object.deleting) {
                look_later(plane, pod.name());
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let name = &key.name;
        let Some(pod) = plane.view.pod(name).filter(|pod| is_nobodys(plane, pod)).cloned() else { return };
        if !pod.finished() {
            let _failed = plane.cluster.modify(PODS, Part::Status, &name.namespace, &name.name, &writes(), |pod| {
                pod["status"]["phase"] = json!("Failed");
            });
        }
        let options =
            DeleteOptions { grace_seconds: Some(0), uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() };
        let _deleted = plane.cluster.delete(PODS, &name.namespace, &name.name, &options);
    }
}
