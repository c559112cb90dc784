//! Pods that a node is judged with or without, in thought only.

use super::ids::PodId;

/// Pods added to and removed from a node in thought: nominated pods, victims of preemption.
#[derive(Debug, Clone, Default)]
pub(crate) struct Delta {
    pub(crate) added: Vec<PodId>,
    pub(crate) removed: Vec<PodId>,
}

impl Delta {
    pub(crate) const NONE: &'static Self = &Self { added: Vec::new(), removed: Vec::new() };

    pub(crate) const fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}
