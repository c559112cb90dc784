//! Objects that are being deleted, and wait for something else before they go.

use std::collections::BTreeSet;

use super::queue::ObjectName;
use super::reconcile::Change;

/// Their names, as changes tell of them.
#[derive(Default)]
pub(super) struct TerminatingObjects(BTreeSet<ObjectName>);

impl TerminatingObjects {
    /// Takes in a change of one of the kind. Says whether it is one of them now.
    pub(super) fn note(&mut self, change: &Change<'_>) -> bool {
        let leaves = change.object.deleting && !change.gone;
        if leaves {
            self.0.insert(change.name());
        } else {
            self.0.remove(&change.name());
        }
        leaves
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = ObjectName> + '_ {
        self.0.iter().cloned()
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}
