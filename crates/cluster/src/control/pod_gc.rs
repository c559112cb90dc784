//! Pods that are deleted before any node has them, and that something holds: nobody will end them, so they have failed.

// upstream: pkg/controller/podgc/gc_controller.go gcUnscheduledTerminating, markFailedAndDeletePod (v1.36)

use jiff::SignedDuration;
use serde_json::json;

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use super::view::PodInfo;
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part};
use crate::resource::PODS;

/// How often pods are looked at (`gcCheckPeriod`).
const PERIOD: SignedDuration = SignedDuration::from_secs(20);

/// Fails pods that are deleted and on no node.
pub(super) struct PodGarbageCollector;

fn is_nobodys(pod: &PodInfo) -> bool {
    pod.object.deleting && pod.node.is_empty() && !pod.finished()
}

impl Reconciler for PodGarbageCollector {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.pod.after.as_deref().is_some_and(is_nobodys) {
            let due = later(plane.now(), PERIOD);
            plane.queue.add_at(Key::new(Controller::PodGarbageCollector, PODS, change.name()), due);
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let name = &key.name;
        let Some(pod) = plane.view.pod(name).filter(|pod| is_nobodys(pod)).cloned() else { return };
        let _failed = plane.cluster.modify(PODS, Part::Status, &name.namespace, &name.name, &writes(), |pod| {
            pod["status"]["phase"] = json!("Failed");
        });
        let options =
            DeleteOptions { grace_seconds: Some(0), uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() };
        let _deleted = plane.cluster.delete(PODS, &name.namespace, &name.name, &options);
    }
}
