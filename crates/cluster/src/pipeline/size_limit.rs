//! How large an object may be: what a request to etcd may take, where API servers keep theirs.

// upstream: go.etcd.io/etcd/server/v3 etcdserver/v3_server.go processInternalRaftRequestOnce; apiserver
// pkg/endpoints/handlers/create.go, update.go, patch.go isTooLargeError (v1.36)

use klab_api_machinery::managed_fields::ManagedFields;
use klab_api_machinery::protobuf;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use crate::transaction::Transaction;

/// What etcd takes (`--max-request-bytes`).
const MAX_SIZE: usize = 1536 << 10;
/// What the API server's client sends to it.
const MAX_SENT_SIZE: usize = 2 << 20;
/// Objects with less text than this are not measured: JSON writes none of it at more than six times its length.
const SMALL: usize = MAX_SIZE / 6;
/// About what a request has besides the object.
const AROUND: usize = 64;

/// Refuses an object of a client that is too large to be kept. Who manages it is forgotten before that, unless it is
/// applied.
pub(crate) fn kept_managers(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    value: &Value,
    managed: Option<ManagedFields>,
    applies: bool,
) -> Result<Option<ManagedFields>, Status> {
    let beside = managed.as_ref().map_or(0, ManagedFields::size);
    let mut left = SMALL.saturating_sub(beside);
    if !transaction.options.client || (beside < SMALL && is_within(value, &mut left)) {
        return Ok(managed);
    }
    let refused = match size(resource, value, managed.as_ref()) {
        size if size <= MAX_SIZE => return Ok(managed),
        size if size <= MAX_SENT_SIZE => "etcdserver: request is too large".to_owned(),
        size => format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({size} vs. {MAX_SENT_SIZE})"
        ),
    };
    if !applies && managed.is_some() && size(resource, value, None) <= MAX_SIZE {
        return Ok(None);
    }
    Err(Status::new(500, "", refused))
}

/// Whether a value has no more text than that.
fn is_within(value: &Value, left: &mut usize) -> bool {
    let length = match value {
        Value::String(text) => text.len(),
        Value::Array(list) => return list.iter().all(|value| is_within(value, left)),
        Value::Object(map) => {
            return map.iter().all(|(name, value)| take(name.len() + 4, left) && is_within(value, left));
        }
        _ => 8,
    };
    take(length, left)
}

fn take(length: usize, left: &mut usize) -> bool {
    let enough = *left >= length;
    *left = left.saturating_sub(length);
    enough
}

/// Bytes of the request that stores an object: kinds of Kubernetes as messages, others as JSON.
fn size(resource: ResourceId, value: &Value, managed: Option<&ManagedFields>) -> usize {
    let mut whole = value.clone();
    if let Some(managed) = managed {
        whole["metadata"]["managedFields"] = serde_json::from_str(&managed.text()).unwrap_or_default();
    }
    // It is not known until it is stored, and not kept with the object.
    whole["metadata"]["resourceVersion"] = json!("");
    let message = if resource.row().custom { None } else { protobuf::encode(&whole) };
    message.map_or_else(|| whole.to_string().len(), |message| message.len()) + AROUND
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::clock::SteppedClock;
    use crate::cluster::{Cluster, Part, WriteOptions};
    use klab_api_machinery::resource::{CONFIG_MAPS, NODES};
    use klab_fields::Patch;

    fn cluster() -> Cluster {
        Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7)
    }

    fn node(bytes: usize) -> Value {
        let images: Vec<Value> = (0..bytes / 1000).map(|_| json!({ "names": ["x".repeat(992)] })).collect();
        json!({ "metadata": { "name": "n" }, "status": { "images": images } })
    }

    #[test]
    fn what_etcd_does_not_take_is_refused() {
        for (bytes, wanted) in [
            (1_500_000, None),
            (1_700_000, Some("etcdserver: request is too large")),
            (2_200_000, Some("rpc error: code = ResourceExhausted desc = trying to send message larger than max (")),
        ] {
            let made = cluster().create(NODES, "", node(bytes), &WriteOptions::client("test"));
            match (made, wanted) {
                (Ok(_), None) => {}
                (Err(status), Some(words)) => {
                    assert!(status.code == 500 && status.message.starts_with(words), "{}", status.message);
                }
                (made, _) => panic!("{bytes}: {:?}", made.map(|object| object.json.len())),
            }
        }
    }

    #[test]
    fn managers_are_forgotten_where_the_object_fits_without_them() {
        let data: serde_json::Map<String, Value> = (0..4000).map(|at| (format!("{at:0>240}"), json!(""))).collect();
        let value = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": data });
        let cluster = cluster();
        let options = WriteOptions::client("test");
        let patch = Patch::Apply { value: value.clone(), force: false };
        let applied = cluster.patch(CONFIG_MAPS, Part::Main, "default", "m", patch, &options);
        assert_eq!(applied.map(|_| ()).unwrap_err().message, "etcdserver: request is too large");
        let made = cluster.create(CONFIG_MAPS, "default", value, &options).unwrap();
        assert_eq!(made.managed_fields(), Value::Null);
    }
}
