//! How much one cluster may hold: what a learner makes by mistake, or on purpose, must not take the machine from others.
//!
//! Clusters of one server share what it has: with more clusters each may hold less, down to what a lesson never needs.
//! Only growth is refused; nothing here is in the way of a delete.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::Transaction;
use crate::object::Object;
use crate::resource::{EVENTS, PODS, ResourceId};
use crate::status::Status;

/// Most of what one cluster holds when it is alone: pods, other objects without events, events, bytes of JSON.
const ALONE: [usize; 4] = [50_000, 200_000, 50_000, 1 << 30];
/// What each cluster may hold among any number of others.
const LEAST: [usize; 4] = [2_000, 10_000, 10_000, 64 << 20];
const NAMES: [&str; 4] = ["pods", "objects", "events", "bytes"];

/// The limits of all clusters of a server.
#[derive(Debug)]
pub(crate) struct Limits {
    alone: [usize; 4],
    least: [usize; 4],
    clusters: AtomicUsize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { alone: ALONE, least: LEAST, clusters: AtomicUsize::new(1) }
    }
}

impl Limits {
    /// Says how many clusters there are.
    #[cfg(feature = "server")]
    pub(crate) fn share_among(&self, clusters: usize) {
        self.clusters.store(clusters, Ordering::Relaxed);
    }

    fn most(&self, of: usize) -> usize {
        (self.alone[of] / self.clusters.load(Ordering::Relaxed).max(1)).max(self.least[of])
    }
}

impl Transaction<'_> {
    /// Refuses a new object beyond the limits.
    pub(super) fn has_room(&self, resource: ResourceId, name: &str) -> Result<(), Status> {
        let store = &self.state.store;
        let (of, used) = match resource {
            PODS => (0, store.count(PODS)),
            EVENTS => (2, store.count(EVENTS)),
            _ => (1, store.len() - store.count(EVENTS) - store.count(PODS)),
        };
        self.refuse_beyond(of, used, resource, name)?;
        self.refuse_beyond(3, store.bytes(), resource, name)
    }

    /// Refuses a change that makes an object larger in a cluster that holds too much already.
    pub(super) fn has_room_to_grow(&self, current: &Object, new: &Value) -> Result<(), Status> {
        let bytes = self.state.store.bytes();
        if bytes < self.state.limits.most(3) || current.deleting {
            return Ok(());
        }
        let length = serde_json::to_vec(new).map_or(0, |text| text.len());
        if length <= current.json.len() {
            return Ok(());
        }
        self.refuse_beyond(3, bytes, current.resource, &current.name)
    }

    fn refuse_beyond(&self, of: usize, used: usize, resource: ResourceId, name: &str) -> Result<(), Status> {
        let most = self.state.limits.most(of);
        if used < most {
            return Ok(());
        }
        let what = NAMES[of];
        let because =
            format!("exceeded the limits of an embedded cluster: used: {what}={used}, limited: {what}={most}");
        Err(Status::forbidden(resource.row(), name, &because))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::clock::SteppedClock;
    use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions};
    use crate::resource::CONFIG_MAPS;

    #[test]
    fn the_more_clusters_the_less_each_may_hold() {
        let limits = Limits::default();
        assert_eq!([0, 1, 2, 3].map(|of| limits.most(of)), ALONE);
        limits.share_among(10);
        assert_eq!(limits.most(0), 5_000);
        limits.share_among(10_000);
        assert_eq!([0, 1, 2, 3].map(|of| limits.most(of)), LEAST);
    }

    fn cluster(most: [usize; 4]) -> Cluster {
        let cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7);
        cluster.set_limits(Arc::new(Limits { alone: most, least: [0; 4], clusters: AtomicUsize::new(1) }));
        cluster
    }

    #[test]
    fn what_is_beyond_the_limit_is_refused_and_a_delete_makes_room() {
        let cluster = cluster([2, 1_000, 1_000, 1 << 30]);
        let create = |name: &str| {
            let pod =
                json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "a", "image": "x" }] } });
            cluster.create(PODS, "default", pod, &WriteOptions::client("test"))
        };
        create("one").unwrap();
        create("two").unwrap();
        let refused = create("three").unwrap_err();
        assert_eq!(refused.code, 403);
        assert_eq!(
            refused.message,
            "pods \"three\" is forbidden: exceeded the limits of an embedded cluster: used: pods=2, limited: pods=2"
        );
        cluster.delete(PODS, "default", "one", &DeleteOptions::default()).unwrap();
        create("three").unwrap();
    }

    #[test]
    fn a_full_cluster_lets_objects_shrink_and_go_but_not_grow() {
        let cluster = cluster([1_000, 1_000, 1_000, 1]);
        let write = WriteOptions::client("test");
        let of = |text: &str| json!({ "metadata": { "name": "a" }, "data": { "a": text } });
        assert_eq!(cluster.create(CONFIG_MAPS, "default", of("text"), &write).unwrap_err().code, 403);
        cluster.set_limits(Arc::default());
        cluster.create(CONFIG_MAPS, "default", of("some text"), &write).unwrap();
        cluster.set_limits(Arc::new(Limits {
            alone: [1_000, 1_000, 1_000, 1],
            least: [0; 4],
            clusters: AtomicUsize::new(1),
        }));
        let update = |text: &str| cluster.update(CONFIG_MAPS, Part::Main, "default", "a", of(text), &write);
        assert_eq!(update("some more text").unwrap_err().code, 403);
        update("less").unwrap();
        cluster.delete(CONFIG_MAPS, "default", "a", &DeleteOptions::default()).unwrap();
    }
}
