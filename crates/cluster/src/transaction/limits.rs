//! How much one cluster may hold: what a learner makes by mistake, or on purpose, must not take the machine from others.
//!
//! Clusters of one server share what it has: with more clusters each may hold less, down to what a lesson never needs.
//! Only growth is refused; nothing here is in the way of a delete.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Most of what one cluster holds when it is alone: pods, other objects without events, events, bytes of JSON.
const ALONE: [usize; 4] = [50_000, 200_000, 50_000, 1 << 30];
/// What each cluster may hold among any number of others.
const LEAST: [usize; 4] = [2_000, 10_000, 10_000, 64 << 20];
/// What each of the limits is of.
pub(crate) const NAMES: [&str; 4] = ["pods", "objects", "events", "bytes"];

/// The limits of all clusters of a server.
#[derive(Debug)]
pub struct Limits {
    pub(crate) alone: [usize; 4],
    pub(crate) least: [usize; 4],
    pub(crate) clusters: AtomicUsize,
    /// What none holds more of, however few they are.
    pub(crate) most: [AtomicUsize; 4],
    pub(crate) history: AtomicUsize,
}

/// Bytes of past versions that a cluster keeps for watches where nothing else is said.
const HISTORY: usize = 64 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            alone: ALONE,
            least: LEAST,
            clusters: AtomicUsize::new(1),
            most: std::array::from_fn(|_| AtomicUsize::new(usize::MAX)),
            history: AtomicUsize::new(HISTORY),
        }
    }
}

impl Limits {
    /// Says how many clusters there are.
    pub fn share_among(&self, clusters: usize) {
        self.clusters.store(clusters, Ordering::Relaxed);
    }

    /// Says what none holds more of (pods, other objects, events, bytes of JSON), and how many bytes of past versions.
    pub fn set_most(&self, most: [usize; 4], history: usize) {
        for (limit, most) in self.most.iter().zip(most) {
            limit.store(most, Ordering::Relaxed);
        }
        self.history.store(history, Ordering::Relaxed);
    }

    pub(crate) fn most(&self, of: usize) -> usize {
        let shared = (self.alone[of] / self.clusters.load(Ordering::Relaxed).max(1)).max(self.least[of]);
        shared.min(self.most[of].load(Ordering::Relaxed))
    }

    /// Bytes of past versions.
    pub(crate) fn history(&self) -> usize {
        self.history.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_clusters_the_less_each_may_hold() {
        let limits = Limits::default();
        assert_eq!([0, 1, 2, 3].map(|of| limits.most(of)), ALONE);
        limits.share_among(10);
        assert_eq!(limits.most(0), 5_000);
        limits.share_among(10_000);
        assert_eq!([0, 1, 2, 3].map(|of| limits.most(of)), LEAST);
        limits.set_most([10, 20, 30, 1 << 40], 7);
        assert_eq!(([0, 1, 2, 3].map(|of| limits.most(of)), limits.history()), ([10, 20, 30, LEAST[3]], 7));
    }
}
