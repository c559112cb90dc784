//! The lifetime of events.

use jiff::SignedDuration;
use klab_api_machinery::resource::EVENTS;
use klab_api_machinery::views::Event;

use super::controller::Controller;
use super::events::LIFETIME;
use super::plane::Plane;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use crate::clock::later;
use crate::cluster::DeleteOptions;

/// Deletes events whose lifetime is over.
#[derive(Default)]
pub(super) struct EventTtl;

fn key() -> Key {
    Key::at_large(Controller::EventTtl)
}

impl Reconciler for EventTtl {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if !change.gone {
            let end = later(plane.now(), LIFETIME);
            plane.queue.add_at(key(), end);
        }
    }

    fn sync(&mut self, plane: &mut Plane, _: &Key) {
        let now = plane.now();
        let mut next = None;
        for event in plane.cluster.list(EVENTS, None).0 {
            let value = event.value();
            let value = Event(&value);
            let last = value.series().last_observed_time().or_else(|| value.last_timestamp());
            let last = last.or_else(|| value.event_time()).or_else(|| value.metadata().creation_timestamp());
            let Some(end) = last.map(|last| later(last, LIFETIME)) else { continue };
            if end <= now {
                let _gone = plane.cluster.delete(EVENTS, &event.namespace, &event.name, &DeleteOptions::default());
            } else {
                next = Some(next.map_or(end, |next: jiff::Timestamp| next.min(end)));
            }
        }
        // Not one sweep for each event: those that end within a minute go together.
        if let Some(next) = next {
            plane.queue.add_at(key(), next.max(later(now, SignedDuration::from_mins(1))));
        }
    }

    /// Who looks at a cluster after a while finds no event that is older than it may be: they are deleted first.
    fn may_wait(&self, _: &Plane, _: &Key) -> bool {
        true
    }
}
