//! Reading the cluster's changes: each updates the view and enqueues only the work it concerns.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{EVENTS, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS};

use super::control_plane::ControlPlane;
use super::fault::Subject;
use super::queue::{Key, ObjectName};
use super::reconcile::{self, Seen};
use crate::store::Change;

impl ControlPlane {
    /// Reads all changes since the last time.
    pub(super) fn observe(&mut self) {
        match self.plane.cluster.since(self.seen) {
            Ok((changes, version)) => {
                self.seen = version;
                for event in changes {
                    self.take_in(event.change, &event.object, event.previous.as_deref());
                }
            }
            Err(_) => self.relist(),
        }
    }

    /// Forgets what is known and reads everything again: at the start, and when the history no longer reaches back.
    pub(super) fn relist(&mut self) {
        self.plane.forget();
        for controller in &mut self.controllers {
            controller.forget();
        }
        // Before it is asked which kinds there are: the first object of one may come at any time. Changes made during the lists
        // are seen again by `since`, which does no harm.
        self.seen = self.plane.cluster.version();
        for id in self.plane.cluster.kinds() {
            for object in self.plane.cluster.list(id, None).0 {
                if id == EVENTS {
                    self.plane.recorder.recall(&self.plane.cluster, &object);
                }
                self.take_in(Change::Added, &object, None);
            }
        }
    }

    fn take_in(&mut self, change: Change, object: &Arc<Object>, previous: Option<&Object>) {
        let plane = &mut self.plane;
        let gone = change == Change::Deleted;
        if !plane.faults.is_empty() {
            if plane.faults.lift(object, gone) {
                plane.cluster.set_control_faults(plane.faults.reported());
            }
            if plane.faults.bar_change(object) {
                // Its dependents are not to be taken for orphans.
                plane.view.link(object, previous);
                return;
            }
        }
        plane.begin(Subject::Change(Arc::clone(object)));
        let mut change = reconcile::Change { object, previous, gone, pod: Seen::default(), node: Seen::default() };
        if object.resource != EVENTS {
            self.update_view(&mut change);
            self.enqueue_owners(&change);
        }
        for &controller in self.concerned.by_kind(object.resource) {
            self.controllers[controller as usize].changed(&mut self.plane, &change);
        }
    }

    /// Brings the view up to date, and keeps in the change what it knew before.
    fn update_view(&mut self, change: &mut reconcile::Change<'_>) {
        let view = &mut self.plane.view;
        let object = change.object;
        if change.gone {
            view.unlink(object);
        } else {
            view.link(object, change.previous);
        }
        match object.resource {
            PODS if change.gone => change.pod.before = view.remove_pod(&change.name()),
            PODS => {
                let (before, after) = view.put_pod(object);
                change.pod = Seen { before, after: Some(after) };
            }
            NODES => {
                change.node.before = if change.gone {
                    view.remove_node(&object.name)
                } else {
                    view.put_node(object, &self.plane.settings.heartbeat_annotation)
                };
                change.node.after = view.node(&object.name).cloned();
            }
            NAMESPACES if object.deleting && !change.gone => {
                view.terminating.insert(object.name.clone());
            }
            NAMESPACES => {
                view.terminating.remove(&object.name);
            }
            _ => {}
        }
    }

    /// Has the controller that made an object look at its owner again, and those whose pods were refused try again when
    /// a quota has changed.
    fn enqueue_owners(&mut self, change: &reconcile::Change<'_>) {
        let object = change.object;
        let owner = object.controller();
        // A change of owner concerns the former owner of a pod too.
        let former = change.previous.filter(|_| object.resource == PODS).and_then(Object::controller);
        let former = former.filter(|former| owner.is_none_or(|owner| owner.uid != former.uid));
        for owner in owner.into_iter().chain(former) {
            if let Some((controller, kind)) = self.concerned.by_owner(&owner.kind) {
                let name = ObjectName::new(&object.namespace, &owner.name);
                self.plane.queue.add(Key::new(controller, kind, name));
            }
        }
        if object.resource == RESOURCE_QUOTAS {
            for key in self.plane.refused.keys().filter(|key| key.name.namespace == object.namespace) {
                self.plane.queue.add(key.clone());
            }
        }
    }
}
