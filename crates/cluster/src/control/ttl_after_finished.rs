//! Finished Jobs are deleted when their `ttlSecondsAfterFinished` are over.

// upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go processJob (v1.36)

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::JOBS;
use klab_api_machinery::value::{integer, items, time_of};
use serde_json::Value;

use super::controller::Controller;
use super::plane::Plane;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use crate::clock::later;
use crate::cluster::{DeleteOptions, Propagation};

/// Deletes finished Jobs whose time to live is over.
pub(super) struct TtlAfterFinished;

impl Reconciler for TtlAfterFinished {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.gone || change.object.deleting {
            return;
        }
        if let Some(end) = end_of(&change.object.value()) {
            plane.queue.add_at(Key::new(Controller::TtlAfterFinished, JOBS, change.name()), end);
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let name = &key.name;
        let Some(job) = plane.cluster.get(JOBS, &name.namespace, &name.name) else { return };
        let Some(end) = end_of(&job.value()).filter(|_| !job.deleting) else { return };
        if end > plane.now() {
            plane.queue.add_at(key.clone(), end);
            return;
        }
        let options = DeleteOptions {
            propagation: Some(Propagation::Foreground),
            uid: Some(job.uid.to_string()),
            ..DeleteOptions::default()
        };
        let _deleted = plane.cluster.delete(JOBS, &name.namespace, &name.name, &options);
    }
}

/// When the Job's time is over: none while it is not finished, or when it may stay for ever.
fn end_of(job: &Value) -> Option<Timestamp> {
    let seconds = integer(job, &["spec", "ttlSecondsAfterFinished"])?;
    let finished = items(&job["status"]["conditions"])
        .iter()
        .filter(|condition| matches!(condition["type"].as_str(), Some("Complete" | "Failed")))
        .filter(|condition| condition["status"] == "True")
        .find_map(|condition| time_of(&condition["lastTransitionTime"]))?;
    Some(later(finished, SignedDuration::from_secs(seconds)))
}
