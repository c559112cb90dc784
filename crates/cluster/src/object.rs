//! One stored object: the metadata the machinery asks for all the time, and the JSON as served.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::resource::ResourceId;

/// An immutable version of an object. Kept as JSON text; a tree takes ten times the memory, so the one it was written
/// from stays only while the cluster works with it.
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
    tree: Tree,
}

/// The tree an object was written from, while it is kept. A copy of the object starts without.
#[derive(Debug, Default)]
struct Tree(Mutex<Option<Arc<Value>>>);

impl Clone for Tree {
    fn clone(&self) -> Self {
        Self::default()
    }
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
            json: encode(resource, value),
            tree: Tree::default(),
        }
    }

    /// An object without labels and owners, of its own text.
    pub(crate) fn of_text(
        resource: ResourceId,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: u64,
        text: &[u8],
    ) -> Self {
        Self {
            resource,
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
            resource_version,
            labels: Box::default(),
            owners: Box::default(),
            deleting: false,
            json: Bytes::copy_from_slice(text),
            tree: Tree::default(),
        }
    }

    /// [`Object::new`], which keeps the value.
    pub(crate) fn with_tree(resource: ResourceId, resource_version: u64, value: Value) -> Self {
        let object = Self::new(resource, resource_version, &value);
        Self { tree: Tree(Mutex::new(Some(Arc::new(value)))), ..object }
    }

    /// The same version with other texts, such as names: `json` is the whole object, `other` says what becomes of a text
    /// of its metadata, if anything.
    #[cfg(feature = "server")]
    pub(crate) fn with_text(&self, json: Bytes, other: impl Fn(&str) -> Option<String>) -> Self {
        let text = |text: &str| -> Box<str> { other(text).map_or_else(|| text.into(), Into::into) };
        let mut labels: Box<[_]> = self.labels.iter().map(|(key, value)| (text(key), text(value))).collect();
        labels.sort();
        let owner = |owner: &Owner| Owner {
            uid: text(&owner.uid),
            kind: text(&owner.kind),
            name: text(&owner.name),
            ..owner.clone()
        };
        Self {
            namespace: text(&self.namespace),
            name: text(&self.name),
            uid: text(&self.uid),
            labels,
            owners: self.owners.iter().map(owner).collect(),
            json,
            tree: Tree::default(),
            ..*self
        }
    }

    /// The metadata as it stands in the JSON text.
    pub(crate) fn metadata_text(&self) -> &str {
        #[derive(serde::Deserialize)]
        struct Outline<'a> {
            #[serde(borrow)]
            metadata: &'a RawValue,
        }
        serde_json::from_slice::<Outline<'_>>(&self.json).map_or("{}", |outline| outline.metadata.get())
    }

    /// Leaves the text alone to tell what the object is.
    pub(crate) fn forget_tree(&self) {
        *self.tree.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Makes an object of its own JSON text, as [`Object::json`] has it. `resource_of` knows the kinds, by `apiVersion`,
    /// `kind` and whether the object has a namespace. `None` if the text is no object.
    pub fn restore(json: Bytes, resource_of: impl Fn(&str, &str, bool) -> Option<ResourceId>) -> Option<Self> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Header<'a> {
            kind: &'a str,
            api_version: &'a str,
            metadata: Value,
        }
        let header: Header<'_> = serde_json::from_slice(&json).ok()?;
        let has_namespace = header.metadata["namespace"].is_string();
        let resource = resource_of(header.api_version, header.kind, has_namespace)?;
        let version = header.metadata["resourceVersion"].as_str()?.parse().ok()?;
        let small = Self::new(resource, version, &serde_json::json!({ "metadata": header.metadata }));
        Some(Self { json, ..small })
    }

    /// The object without its leading `kind` and `apiVersion`, as items of lists are: `{"metadata":…`.
    /// Given as two pieces of which the first is `{`, so that nothing is copied.
    pub fn without_type(&self) -> (&'static [u8], Bytes) {
        let row = self.resource.row();
        let typed = r#"{"kind":"","apiVersion":"","#.len() + row.kind.len() + row.version.len();
        let group = if row.group.is_empty() { 0 } else { row.group.len() + 1 };
        (b"{", self.json.slice((typed + group).min(self.json.len())..))
    }

    /// The object as a JSON tree to read.
    pub fn value(&self) -> Arc<Value> {
        self.kept().unwrap_or_else(|| Arc::new(self.parsed()))
    }

    /// The tree, while it is kept.
    pub(crate) fn kept(&self) -> Option<Arc<Value>> {
        self.tree.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The object as a JSON tree to change.
    pub fn to_value(&self) -> Value {
        self.kept().map_or_else(|| self.parsed(), Arc::unwrap_or_clone)
    }

    fn parsed(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The object as a typed one; [`klab_scheduler::typed`] reads those of Kubernetes with less code.
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

/// Fields of metadata in the order API servers write them; readers of raw answers see the same text.
const METADATA_ORDER: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

const MANAGED_FIELDS_ORDER: &[&str] =
    &["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// Writes `kind`, `apiVersion`, `metadata`, then the rest; [`Object::without_type`] relies on the first two.
fn encode(resource: ResourceId, value: &Value) -> Bytes {
    let row = resource.row();
    let mut text = Vec::with_capacity(4096);
    text.extend_from_slice(br#"{"kind":""#);
    text.extend_from_slice(row.kind.as_bytes());
    text.extend_from_slice(br#"","apiVersion":""#);
    if !row.group.is_empty() {
        text.extend_from_slice(row.group.as_bytes());
        text.push(b'/');
    }
    text.extend_from_slice(row.version.as_bytes());
    text.extend_from_slice(br#"","metadata":"#);
    ordered(&mut text, &value["metadata"], METADATA_ORDER, |text, field, value| {
        if field != "managedFields" {
            return write_value(text, value);
        }
        text.push(b'[');
        for (at, entry) in value.as_array().into_iter().flatten().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            ordered(text, entry, MANAGED_FIELDS_ORDER, |text, _, value| write_value(text, value));
        }
        text.push(b']');
    });
    for (field, value) in value.as_object().into_iter().flatten() {
        if !matches!(field.as_str(), "kind" | "apiVersion" | "metadata") {
            text.push(b',');
            write_value(&mut text, field);
            text.push(b':');
            write_value(&mut text, value);
        }
    }
    text.push(b'}');
    // Most objects are much smaller than the room that was made, and they stay for long.
    Bytes::copy_from_slice(&text)
}

/// Writes a JSON object with the fields of `order` first, then what else there is.
fn ordered(text: &mut Vec<u8>, value: &Value, order: &[&str], write: impl Fn(&mut Vec<u8>, &str, &Value)) {
    let Some(map) = value.as_object() else { return text.extend_from_slice(b"{}") };
    let first = order.iter().filter_map(|field| map.get_key_value(*field));
    let rest = map.iter().filter(|(field, _)| !order.contains(&field.as_str()));
    text.push(b'{');
    for (at, (field, value)) in first.chain(rest).enumerate() {
        if at > 0 {
            text.push(b',');
        }
        write_value(text, field);
        text.push(b':');
        write(text, field, value);
    }
    text.push(b'}');
}

fn write_value<T: serde::Serialize + ?Sized>(text: &mut Vec<u8>, value: &T) {
    let start = text.len();
    // Strings and trees of strings always serialise.
    if serde_json::to_writer(&mut *text, value).is_err() {
        text.truncate(start);
        text.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::resource::{DEPLOYMENTS, NAMESPACES};
    use super::*;

    #[test]
    fn text_has_the_order_of_api_servers() {
        let value = json!({
            "status": {"phase": "Active"}, "spec": {"finalizers": ["kubernetes"]}, "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"labels": {"a": "b"}, "uid": "u", "name": "x", "resourceVersion": "7",
                "managedFields": [{"time": "t", "operation": "Update", "manager": "m"}]},
        });
        let object = Object::new(NAMESPACES, 7, &value);
        assert_eq!(
            object.json,
            concat!(
                r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"x","uid":"u","resourceVersion":"7","labels":{"a":"b"},"#,
                r#""managedFields":[{"manager":"m","operation":"Update","time":"t"}]},"#,
                r#""spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#
            )
        );
        assert_eq!(*object.value(), value);
    }

    #[test]
    fn list_items_lose_only_their_type() {
        let object = Object::new(DEPLOYMENTS, 1, &json!({"metadata": {"name": "web"}, "spec": {}}));
        let (open, rest) = object.without_type();
        assert_eq!([open, &rest].concat(), br#"{"metadata":{"name":"web"},"spec":{}}"#);
    }
}
