//! Whether a cluster has room for an object, or for a larger one.

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{EVENTS, PODS, ResourceId};
use klab_api_machinery::status::Status;
use serde_json::Value;

use crate::transaction::NAMES;
use crate::transaction::Transaction;

/// Refuses a new object beyond the limits.
pub(crate) fn has_room(transaction: &Transaction<'_>, resource: ResourceId, name: &str) -> Result<(), Status> {
    let store = &transaction.state.store;
    let (of, used) = match resource {
        PODS => (0, store.count(PODS)),
        EVENTS => (2, store.count(EVENTS)),
        _ => (1, store.len() - store.count(EVENTS) - store.count(PODS)),
    };
    refuse_beyond(transaction, of, used, resource, name)?;
    refuse_beyond(transaction, 3, store.bytes(), resource, name)
}

/// Refuses a change that makes an object larger in a cluster that holds too much already.
pub(crate) fn has_room_to_grow(transaction: &Transaction<'_>, current: &Object, new: &Value) -> Result<(), Status> {
    let bytes = transaction.state.store.bytes();
    if bytes < transaction.state.limits.most(3) || current.deleting {
        return Ok(());
    }
    // Only the object counts; its managers follow from it.
    let length = serde_json::to_vec(new).map_or(0, |text| text.len());
    if length <= current.json.len() {
        return Ok(());
    }
    refuse_beyond(transaction, 3, bytes, current.resource, &current.name)
}

fn refuse_beyond(
    transaction: &Transaction<'_>,
    of: usize,
    used: usize,
    resource: ResourceId,
    name: &str,
) -> Result<(), Status> {
    let most = transaction.state.limits.most(of);
    if used < most {
        return Ok(());
    }
    let what = NAMES[of];
    let because = format!("exceeded the limits of an embedded cluster: used: {what}={used}, limited: {what}={most}");
    Err(Status::forbidden(resource.row(), name, &because))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::clock::SteppedClock;
    use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions};
    use crate::transaction::Limits;
    use klab_api_machinery::resource::CONFIG_MAPS;

    fn cluster(most: [usize; 4]) -> Cluster {
        let cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7);
        cluster.set_limits(Arc::new(Limits { alone: most, least: [0; 4], ..Limits::default() }));
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
        let limits = Limits { alone: [1_000, 1_000, 1_000, 1], least: [0; 4], ..Limits::default() };
        cluster.set_limits(Arc::new(limits));
        let update = |text: &str| cluster.update(CONFIG_MAPS, Part::Main, "default", "a", of(text), &write);
        assert_eq!(update("some more text").unwrap_err().code, 403);
        update("less").unwrap();
        cluster.delete(CONFIG_MAPS, "default", "a", &DeleteOptions::default()).unwrap();
    }
}
