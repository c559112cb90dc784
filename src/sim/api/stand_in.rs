//! Patches and protobuf until the cluster's own.

use serde_json::{Value, json};

use super::super::cluster::{Cluster, Part, WriteOptions, Written};
use super::super::resource::ResourceId;
use super::super::status::Status;

#[derive(Debug, Clone)]
pub(super) enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply { value: Value, force: bool },
}

impl Patch {
    pub(super) fn apply_plainly(self, mut target: Value) -> Result<Value, Status> {
        match self {
            Self::Json(patch) => {
                let patch: json_patch::Patch = serde_json::from_value(patch)
                    .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
                json_patch::patch(&mut target, &patch).map_err(|_| Status {
                    details: json!({}),
                    ..Status::new(422, "Invalid", "the server rejected our request due to an error in our request")
                })?;
            }
            Self::Merge(patch) | Self::Strategic(patch) | Self::Apply { value: patch, .. } => {
                json_patch::merge(&mut target, &patch);
            }
        }
        Ok(target)
    }
}

pub(super) fn patch(
    cluster: &Cluster,
    resource: ResourceId,
    part: Part,
    namespace: &str,
    name: &str,
    patch: Patch,
    options: &WriteOptions<'_>,
) -> Result<Written, Status> {
    let Some(current) = cluster.get(resource, namespace, name) else {
        return match patch {
            Patch::Apply { value, .. } => cluster.create_reporting(resource, namespace, value, options),
            _ => Err(Status::not_found(resource.row(), name)),
        };
    };
    let value = patch.apply_plainly(current.value())?;
    cluster.update_reporting(resource, part, namespace, name, value, options)
}

pub(super) mod protobuf {
    pub(in super::super) fn decode(_: &[u8]) -> Result<serde_json::Value, String> {
        Err("protobuf is not read yet".to_owned())
    }
}
