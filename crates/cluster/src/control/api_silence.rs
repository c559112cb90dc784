//! What is left of a control plane: an API server that gives no answers for a while, and components that are stopped, as
//! annotations ask.
//!
//! Kubernetes has no such controller. Here control plane and API are one process, and a user who wants to see what is left of
//! a cluster without a part of it (all that runs goes on) asks for it by annotations of the namespace `kube-system`.

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::NAMESPACES;
use klab_api_machinery::views::metadata;
use serde_json::Value;

use super::component::stopped;
use super::controller::Controller;
use super::plane::Plane;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use crate::clock::later;
use crate::cluster::{Part, WriteOptions};

/// Annotation of the namespace `kube-system` with how long the API server gives no answers, such as `20s`; it is gone
/// when the time is over.
pub const SILENCE_ANNOTATION: &str = "klab.dev/api-silent";

/// The longest silence, so that no user is locked out for good.
const MAX_SILENCE: SignedDuration = SignedDuration::from_mins(5);

/// From the annotation to the silence: the client that wrote it has its answer by then.
const FAREWELL: SignedDuration = SignedDuration::from_millis(250);

/// The namespace whose annotation it is.
const NAMESPACE: &str = "kube-system";

/// Keeps the API silent for as long as it was asked to be.
#[derive(Default)]
pub(super) struct ApiSilence {
    /// From when until when, while it is asked for.
    span: Option<(Timestamp, Timestamp)>,
}

/// How long the API is to be silent; none where the annotation is not there or says nothing that can be read.
fn asked(namespace: &Value) -> Option<SignedDuration> {
    let duration: SignedDuration = metadata(namespace).annotations().get(SILENCE_ANNOTATION)?.parse().ok()?;
    duration.is_positive().then(|| duration.min(MAX_SILENCE))
}

fn key() -> Key {
    Key::at_large(Controller::ApiSilence)
}

impl Reconciler for ApiSilence {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.object.name.as_ref() != NAMESPACE {
            return;
        }
        let namespace = change.object.value();
        plane.set_stopped(stopped(&namespace));
        match asked(&namespace) {
            Some(duration) if self.span.is_none() => {
                let from = later(plane.now(), FAREWELL);
                self.span = Some((from, later(from, duration)));
                plane.queue.add_at(key(), from);
            }
            Some(_) => {}
            None => {
                self.span = None;
                plane.cluster.set_silent(false);
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, _: &Key) {
        let Some((from, until)) = self.span else { return };
        let now = plane.now();
        if now < until {
            plane.cluster.set_silent(now >= from);
            plane.queue.add_at(key(), until);
            return;
        }
        self.span = None;
        plane.cluster.set_silent(false);
        let without = |namespace: &mut Value| {
            if let Some(annotations) = namespace["metadata"]["annotations"].as_object_mut() {
                annotations.remove(SILENCE_ANNOTATION);
            }
        };
        let options = WriteOptions::by("kube-apiserver");
        let _taken_off = plane.cluster.modify(NAMESPACES, Part::Main, "", NAMESPACE, &options, without);
    }

    fn forget(&mut self) {
        self.span = None;
    }
}
