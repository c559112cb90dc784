//! How a server's clusters are; none is woken for it.

use std::sync::atomic::Ordering;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Shared;
use crate::hosted::Stage;

/// How a cluster of a server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    /// Whether it is in memory.
    pub active: bool,
    /// Whether nothing in it changes any more.
    pub frozen: bool,
    /// When it was last asked for anything.
    pub used: Option<Timestamp>,
    /// How many objects it holds.
    pub objects: usize,
    /// Bytes of their JSON.
    pub bytes: usize,
    /// When something is due in it, if it is parked.
    pub due: Option<Timestamp>,
    /// Why it cannot be served.
    pub broken: Option<String>,
}

/// How a server is. The counts are since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerFigures {
    /// How many clusters it serves.
    pub clusters: usize,
    /// How many of them are in memory.
    pub active: usize,
    /// Requests to clusters.
    pub requests: u64,
    /// Those of them that were refused: too many, or to a frozen cluster.
    pub refused: u64,
    /// How often a cluster was woken.
    pub woken: u64,
    /// How often one was parked.
    pub parked: u64,
}

impl Shared {
    /// How a cluster is.
    pub(crate) fn state(&self, name: &str) -> Option<ClusterState> {
        let broken = self.reason(name);
        let Some(hosted) = self.cluster(name) else {
            let (used, due) = (None, None);
            let lost = |broken| ClusterState { active: false, frozen: false, used, objects: 0, bytes: 0, due, broken };
            return broken.is_some().then(|| lost(broken));
        };
        let (active, objects, bytes, due) = match &*hosted.stage() {
            Stage::Active(active) => {
                let (objects, bytes) = active.api.cluster().size();
                (true, objects, bytes, None)
            }
            Stage::Parked(parked) => (false, parked.objects, parked.bytes, parked.due),
            Stage::Gone => return None,
        };
        Some(ClusterState { active, frozen: hosted.is_frozen(), used: hosted.used(), objects, bytes, due, broken })
    }

    /// How the server is.
    pub(crate) fn figures(&self) -> ServerFigures {
        let counts = &self.host.counts;
        ServerFigures {
            clusters: self.count(),
            active: self.host.activity.count_active(),
            requests: counts.requests.load(Ordering::Relaxed),
            refused: counts.refused.load(Ordering::Relaxed),
            woken: counts.woken.load(Ordering::Relaxed),
            parked: counts.parked.load(Ordering::Relaxed),
        }
    }
}
