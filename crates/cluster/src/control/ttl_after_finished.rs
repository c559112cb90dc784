//! Finished Jobs are deleted when their `ttlSecondsAfterFinished` are over.

// upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go processJob (v1.36)

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::JOBS;
use klab_api_machinery::views::Job;

use super::controller::Controller;
use super::plane::Plane;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use crate::clock::later;
use crate::cluster::{DeleteOptions, Propagation};

/// Deletes finished Jobs whose time to live is over.
#[derive(Default)]
pub(super) struct TtlAfterFinished;

impl Reconciler for TtlAfterFinished {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.gone || change.object.deleting {
            return;
        }
        if let Some(end) = end_of(Job(&change.object.value())) {
            plane.queue.add_at(Key::new(Controller::TtlAfterFinished, JOBS, change.name()), end);
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let name = &key.name;
        let Some(job) = plane.cluster.get(JOBS, &name.namespace, &name.name) else { return };
        let Some(end) = end_of(Job(&job.value())).filter(|_| !job.deleting) else { return };
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
fn end_of(job: Job<'_>) -> Option<Timestamp> {
    let seconds = job.spec().ttl_seconds_after_finished()?;
    let mut conditions = job.status().conditions().filter(|condition| condition.status() == "True");
    let finished = conditions.find(|condition| matches!(condition.type_(), "Complete" | "Failed"))?;
    let finished = finished.last_transition_time()?;
    Some(later(finished, SignedDuration::from_secs(seconds)))
}
