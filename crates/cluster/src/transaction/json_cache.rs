//! The JSON trees of the objects that were written last: what acts on a write need not read its text again.

use std::collections::VecDeque;
use std::sync::Arc;

use klab_api_machinery::object::Object;

/// How many trees are kept at most: what a control plane looks at between two of its own writes.
const MAX_TREES: usize = 256;

/// Which objects have their trees.
#[derive(Debug, Default)]
pub(crate) struct JsonCache(VecDeque<Arc<Object>>);

impl JsonCache {
    /// Keeps the tree of an object that was just written, in place of the oldest when there are too many.
    pub(crate) fn keep(&mut self, object: &Arc<Object>) {
        self.0.push_back(Arc::clone(object));
        if self.0.len() > MAX_TREES
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.forget_tree();
        }
    }

    /// Gives up all of them.
    pub(crate) fn forget(&mut self) {
        for object in self.0.drain(..) {
            object.forget_tree();
        }
        self.0.shrink_to_fit();
    }
}
