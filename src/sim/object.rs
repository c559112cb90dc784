//! One stored object: the metadata the machinery asks for all the time, and the JSON as served.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::resource::ResourceId;

/// An immutable version of an object. Kept as JSON text, not as a tree: a tree takes ten times the memory.
#[derive(Debug, Clone)]
pub struct Object {
    /// Which row of the resource table.
    pub resource: ResourceId,
    /// Empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: u64,
    /// `metadata.labels`, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// `metadata.ownerReferences`.
    pub owners: Box<[Owner]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The whole object as JSON text, resourceVersion included.
    pub json: Bytes,
}

/// One owner reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `uid` of the owner.
    pub uid: Box<str>,
    /// `kind` of the owner.
    pub kind: Box<str>,
    /// `name` of the owner.
    pub name: Box<str>,
    /// Whether the owner is the managing controller.
    pub controller: bool,
    /// `blockOwnerDeletion`.
    pub blocks_deletion: bool,
}

impl Object {
    /// Makes an object of a complete JSON value (with uid, name and resourceVersion in its metadata).
    pub fn new(resource: ResourceId, resource_version: u64, value: &Value) -> Self {
        let metadata = &value["metadata"];
        let text = |field: &str| -> Box<str> { metadata[field].as_str().unwrap_or_default().into() };
        let mut labels: Vec<(Box<str>, Box<str>)> = metadata["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
            .collect();
        labels.sort();
        let owners = metadata["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|owner| Owner {
                uid: owner["uid"].as_str().unwrap_or_default().into(),
                kind: owner["kind"].as_str().unwrap_or_default().into(),
                name: owner["name"].as_str().unwrap_or_default().into(),
                controller: owner["controller"].as_bool().unwrap_or_default(),
                blocks_deletion: owner["blockOwnerDeletion"].as_bool().unwrap_or_default(),
            })
            .collect();
        Self {
            resource,
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version,
            labels: labels.into(),
            owners,
            deleting: !metadata["deletionTimestamp"].is_null(),
            json: Bytes::from(value.to_string()),
        }
    }

    /// The object as a JSON tree.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The object as a typed Kubernetes object.
    ///
    /// # Errors
    /// When the JSON does not fit the type, which admission keeps from happening for the kinds it knows.
    pub fn decode<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.json)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.binary_search_by(|(have, _)| have.as_ref().cmp(key)).ok().map(|at| self.labels[at].1.as_ref())
    }

    /// The owner that is this object's controller.
    pub fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller)
    }
}
