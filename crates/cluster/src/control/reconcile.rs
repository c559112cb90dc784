//! What a controller does: it sees changes, asks for work, and does it.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;

use super::plane::Plane;
use super::queue::{Key, ObjectName};
use super::view::{NodeInfo, PodInfo};

/// One controller, with what it alone remembers between its turns.
pub(super) trait Reconciler: Send {
    /// An object of a kind that it watches has changed: asks for the work that follows.
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>);

    /// Does a piece of its work.
    fn sync(&mut self, plane: &mut Plane, key: &Key);

    /// All objects are about to be read again, each as a change.
    fn forget(&mut self) {}

    /// Whether a piece of its work that is due at a later time would change nothing that anybody could see before he
    /// asks, as long as nothing else changes: it may wait until then.
    fn may_wait(&self, _: &Plane, _: &Key) -> bool {
        false
    }
}

/// A change of an object, after the view has taken it in.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) object: &'a Arc<Object>,
    pub(super) previous: Option<&'a Object>,
    /// Whether the object exists no more.
    pub(super) gone: bool,
    /// What the view knew and knows of it, if it is a pod.
    pub(super) pod: Seen<PodInfo>,
    /// The same of a node.
    pub(super) node: Seen<NodeInfo>,
}

/// What is known of an object before and after a change.
#[derive(Debug)]
pub(super) struct Seen<T> {
    pub(super) before: Option<Arc<T>>,
    pub(super) after: Option<Arc<T>>,
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self { before: None, after: None }
    }
}

impl Change<'_> {
    /// The kind of the object.
    pub(super) fn resource(&self) -> ResourceId {
        self.object.resource
    }

    /// The name of the object.
    pub(super) fn name(&self) -> ObjectName {
        ObjectName::of(self.object)
    }

    /// The object as it is now, and as it was.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Object> {
        [Some(self.object.as_ref()), self.previous].into_iter().flatten()
    }

    /// Whether no controller owns the object, so that one may adopt it.
    pub(super) fn is_of_orphan(&self) -> bool {
        !self.gone && self.object.controller().is_none()
    }

    /// Whether what Services and PodDisruptionBudgets see of a pod has changed.
    pub(super) fn concerns_selectors_of_pods(&self) -> bool {
        let (Some(before), Some(after)) = (&self.pod.before, &self.pod.after) else { return true };
        before.ready != after.ready
            || before.ip != after.ip
            || before.finished() != after.finished()
            || before.object.deleting != after.object.deleting
            || before.object.labels != after.object.labels
            || before.node != after.node
    }
}
