//! What the scheduler knows of the cluster, and which pods wait for it.

use foldhash::{HashMap, HashMapExt};
use k8s_openapi::api::core::v1::Pod;
use klab_scheduler::queue::Queue;
use klab_scheduler::{Cluster as Picture, PodKey, TieBreak};

/// What the scheduler knows, and which pods wait for it.
#[derive(Debug)]
pub(super) struct Scheduler {
    pub(super) picture: Picture,
    pub(super) waiting: Queue,
    /// Pods that wait, as read from this version of theirs.
    pub(super) read: HashMap<PodKey, (u64, Pod)>,
    seed: u64,
}

impl Scheduler {
    pub(super) fn new(seed: u64) -> Self {
        Self { picture: Picture::new(TieBreak::Seeded(seed)), waiting: Queue::new(), read: HashMap::new(), seed }
    }

    pub(super) fn no_longer_waits(&mut self, key: &PodKey) {
        self.waiting.remove(key);
        self.read.remove(key);
    }

    /// Forgets everything, before all objects are read again.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.seed);
    }
}
