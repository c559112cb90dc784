//! How a server's clusters are; none is woken for it.

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

impl Shared {
    /// How a cluster is.
    pub(crate) fn state(&self, name: &str) -> Option<ClusterState> {
        let broken = self.reason(name);
        let Some(hosted) = self.cluster(name) else {
            let (used, due) = (None, None);
            let lost = |broken| ClusterState { active: false, used, objects: 0, bytes: 0, due, broken };
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
        Some(ClusterState { active, used: hosted.used(), objects, bytes, due, broken })
    }
}
