//! One stored object: the metadata the machinery asks for all the time, and the JSON as served.

mod text;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut, Bytes};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::text::{MANAGED, encode, managed_text, metadata_of, place_of_managed, taken_apart};
use super::managed_fields::ManagedFields;
use super::resource::ResourceId;

/// An immutable version of an object. Kept as JSON text; a tree takes ten times the memory, so the one it was written
/// from stays only while the cluster works with it. Its `metadata.managedFields` stand beside the text, as no code of
/// this process reads the two together but for clients: [`Object::served`] has the two together.
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
    /// The object as JSON text, resourceVersion included, without `metadata.managedFields`.
    pub json: Bytes,
    managed: Option<ManagedFields>,
    /// Where they stand in the whole text: at the end of the metadata; of custom resources, whose fields are sorted, before
    /// the name.
    managed_at: u32,
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

/// What a value says of its managers.
fn managed(resource: ResourceId, value: &Value) -> Option<ManagedFields> {
    managed_text(resource, &value["metadata"]["managedFields"]).map(|text| ManagedFields::of(&text))
}

impl Object {
    /// Makes an object of a complete JSON value (with uid, name and resourceVersion in its metadata).
    pub fn new(resource: ResourceId, resource_version: u64, value: &Value) -> Self {
        Self::of_parts(resource, resource_version, value, managed(resource, value))
    }

    /// [`Object::new`], which keeps the value.
    pub fn keeping(resource: ResourceId, resource_version: u64, value: Value) -> Self {
        let managed = managed(resource, &value);
        Self::with_tree(resource, resource_version, value, managed)
    }

    /// An object of a value, whatever this says of its managers, and of its managers.
    fn of_parts(resource: ResourceId, resource_version: u64, value: &Value, managed: Option<ManagedFields>) -> Self {
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
        let (json, managed_at) = encode(resource, value);
        Self {
            resource,
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version,
            labels: labels.into(),
            owners,
            deleting: !metadata["deletionTimestamp"].is_null(),
            json,
            managed,
            managed_at,
            tree: Tree::default(),
        }
    }

    /// An object without labels and owners, of its own text.
    pub fn of_text(
        resource: ResourceId,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: u64,
        text: &[u8],
        managed: Option<ManagedFields>,
    ) -> Self {
        let json = Bytes::copy_from_slice(text);
        let managed_at = place_of_managed(resource, &json);
        Self {
            resource,
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
            resource_version,
            labels: Box::default(),
            owners: Box::default(),
            deleting: false,
            json,
            managed,
            managed_at,
            tree: Tree::default(),
        }
    }

    /// [`Object::keeping`] with its managers beside the value.
    pub fn with_tree(
        resource: ResourceId,
        resource_version: u64,
        mut value: Value,
        managed: Option<ManagedFields>,
    ) -> Self {
        value["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
        let object = Self::of_parts(resource, resource_version, &value, managed);
        Self { tree: Tree(Mutex::new(Some(Arc::new(value)))), ..object }
    }

    /// The same version with other managers.
    pub fn managed_by(self, managed: Option<ManagedFields>) -> Self {
        Self { managed, ..self }
    }

    /// The object as it would be had it been made at another time, as another version.
    pub fn made_at(&self, before: &str, time: &str, version: u64) -> Self {
        let text = String::from_utf8_lossy(&self.json);
        let stamp = |time: &str| format!("\"creationTimestamp\":\"{time}\"");
        let number = |version: u64| format!("\"resourceVersion\":\"{version}\"");
        let text = text.replacen(&stamp(before), &stamp(time), 1);
        let since = |time: &str| format!("\"lastTransitionTime\":\"{time}\"");
        let text = text.replace(&since(before), &since(time));
        let json = Bytes::from(text.replacen(&number(self.resource_version), &number(version), 1));
        let managed = self.managed.as_ref().map(|managed| ManagedFields::of(&managed.text().replace(before, time)));
        let managed_at = place_of_managed(self.resource, &json);
        Self { resource_version: version, json, managed, managed_at, ..self.clone() }
    }

    /// The same version with other texts, such as names: `json` is the object, `other` says what becomes of a text
    /// of its metadata, if anything. Its managers stay.
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
            managed_at: place_of_managed(self.resource, &json),
            json,
            managed: self.managed.clone(),
            tree: Tree::default(),
            ..*self
        }
    }

    /// Who manages which of its fields.
    pub fn managed(&self) -> Option<&ManagedFields> {
        self.managed.as_ref()
    }

    /// `metadata.managedFields`, null if there are none.
    pub fn managed_fields(&self) -> Value {
        // It is text that was written as JSON.
        self.managed.as_ref().and_then(|managed| serde_json::from_str(&managed.text()).ok()).unwrap_or_default()
    }

    /// Bytes of the object as it is served.
    pub fn size(&self) -> usize {
        let (before, behind) = self.around_managed();
        self.json.len() + self.managed.as_ref().map_or(0, |managed| before.len() + managed.size() + behind.len())
    }

    /// The whole object as API servers write it, `metadata.managedFields` included.
    pub fn served(&self) -> Bytes {
        if self.managed.is_none() {
            return self.json.clone();
        }
        let mut text = Vec::with_capacity(self.size());
        self.write_from(0, &mut text);
        text.into()
    }

    /// The whole object as a JSON tree, `metadata.managedFields` included.
    pub fn whole(&self) -> Value {
        let mut value = self.to_value();
        if self.managed.is_some() {
            value["metadata"]["managedFields"] = self.managed_fields();
        }
        value
    }

    /// The whole metadata as API servers write it.
    pub fn metadata_text(&self) -> String {
        if self.resource.row().custom {
            return metadata_of(&self.served()).unwrap_or("{}").to_owned();
        }
        let mut text = Vec::with_capacity(self.size().min(4096));
        let end = (self.managed_at as usize).min(self.json.len());
        let start = (self.start_without_type() + "\"metadata\":".len()).min(end);
        text.extend_from_slice(&self.json[start..end]);
        self.write_managed(&mut text);
        text.push(b'}');
        String::from_utf8(text).unwrap_or_default()
    }

    /// Adds the whole text from `start` on, which lies before the place of the managers.
    fn write_from(&self, start: usize, text: &mut impl BufMut) {
        let end = (self.managed_at as usize).clamp(start, self.json.len());
        text.put_slice(&self.json[start..end]);
        self.write_managed(text);
        text.put_slice(&self.json[end..]);
    }

    /// What stands before the list of managers in the whole text, and behind it: it is the last field, the only one, or
    /// there is a next one.
    fn around_managed(&self) -> (&'static str, &'static str) {
        let at = self.managed_at as usize;
        let alone = &MANAGED[1..];
        match (self.json.get(at.saturating_sub(1)), self.json.get(at)) {
            (_, Some(b'"')) => (alone, ","),
            (Some(b'{'), _) => (alone, ""),
            _ => (MANAGED, ""),
        }
    }

    fn write_managed(&self, text: &mut impl BufMut) {
        let Some(managed) = &self.managed else { return };
        let (before, behind) = self.around_managed();
        text.put_slice(before.as_bytes());
        managed.pieces().for_each(|piece| text.put_slice(piece.as_bytes()));
        text.put_slice(behind.as_bytes());
    }

    /// Leaves the text alone to tell what the object is.
    pub fn forget_tree(&self) {
        *self.tree.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Makes an object of its own JSON text, as [`Object::served`] has it. `resource_of` knows the kinds, by `apiVersion`,
    /// `kind` and whether the object has a namespace. `None` if the text is no object.
    pub fn restore(text: Bytes, resource_of: impl Fn(&str, &str, bool) -> Option<ResourceId>) -> Option<Self> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Header<'a> {
            kind: &'a str,
            api_version: &'a str,
            metadata: Value,
        }
        let (json, managed) = match taken_apart(&text) {
            Some((json, managed)) => (json, Some(managed)),
            None => (text, None),
        };
        let header: Header<'_> = serde_json::from_slice(&json).ok()?;
        let has_namespace = header.metadata["namespace"].is_string();
        let resource = resource_of(header.api_version, header.kind, has_namespace)?;
        let version = header.metadata["resourceVersion"].as_str()?.parse().ok()?;
        if header.metadata["managedFields"].is_array() {
            // Not as this program writes it.
            return Some(Self::new(resource, version, &serde_json::from_slice(&json).ok()?));
        }
        let small = Self::of_parts(resource, version, &serde_json::json!({ "metadata": header.metadata }), managed);
        Some(Self { managed_at: place_of_managed(resource, &json), json, ..small })
    }

    /// Bytes of what [`Object::write_without_type`] writes.
    pub fn size_without_type(&self) -> usize {
        1 + self.size() - self.start_without_type()
    }

    /// Adds the whole object without its leading `kind` and `apiVersion`, as items of lists are: `{"metadata":…`.
    pub fn write_without_type(&self, text: &mut impl BufMut) {
        text.put_u8(b'{');
        self.write_from(self.start_without_type(), text);
    }

    fn start_without_type(&self) -> usize {
        let row = self.resource.row();
        let typed = r#"{"kind":"","apiVersion":"","#.len() + row.kind.len() + row.version.len();
        let group = if row.group.is_empty() { 0 } else { row.group.len() + 1 };
        (typed + group).min(self.json.len())
    }

    /// The object as a JSON tree to read.
    pub fn value(&self) -> Arc<Value> {
        self.kept().unwrap_or_else(|| Arc::new(self.parsed()))
    }

    /// The tree, while it is kept.
    pub fn kept(&self) -> Option<Arc<Value>> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::resource::{CustomName, DEPLOYMENTS, NAMESPACES};
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
            object.served(),
            concat!(
                r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"x","uid":"u","resourceVersion":"7","labels":{"a":"b"},"#,
                r#""managedFields":[{"manager":"m","operation":"Update","time":"t"}]},"#,
                r#""spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#
            )
        );
        assert_eq!(object.whole(), value);
        assert_eq!(object.size(), object.served().len());
        assert_eq!(object.managed_fields(), value["metadata"]["managedFields"]);
        let metadata: Value = serde_json::from_str(&object.metadata_text()).unwrap();
        assert_eq!(metadata, value["metadata"]);
        // Its readers in this process do not see its managers.
        assert_eq!(object.value()["metadata"]["managedFields"], Value::Null);
        assert!(!String::from_utf8_lossy(&object.json).contains("managedFields"));
    }

    #[test]
    fn an_object_comes_back_from_its_text_however_that_is_ordered() {
        let of = |text: &'static str| {
            Object::restore(Bytes::from_static(text.as_bytes()), |_, _, _| Some(NAMESPACES)).unwrap()
        };
        let ordered = of(concat!(
            r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"7","#,
            r#""managedFields":[{"manager":"m","operation":"Update"}]},"spec":{"metadata":{"a":1}}}"#
        ));
        let other = of(concat!(
            r#"{"spec":{"metadata":{"a":1}},"kind":"Namespace","apiVersion":"v1","#,
            r#""metadata":{"managedFields":[{"manager":"m","operation":"Update"}],"name":"x","resourceVersion":"7"}}"#
        ));
        for object in [&ordered, &other] {
            assert_eq!(object.whole(), ordered.whole());
            assert_eq!(object.managed_fields()[0]["manager"], "m");
            let served: Value = serde_json::from_slice(&object.served()).unwrap();
            assert_eq!(served, ordered.whole());
        }
    }

    #[test]
    fn managers_are_the_only_thing_to_say_of_an_answer() {
        let value = json!({"metadata": {"managedFields": [{"manager": "m", "operation": "Update"}]}, "spec": {}});
        let object = Object::new(NAMESPACES, 0, &value);
        let text = object.served();
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap()["metadata"], value["metadata"]);
        assert_eq!(object.size(), text.len());
    }

    #[test]
    fn custom_resources_are_sorted() {
        let name = CustomName { group: "a.example", version: "v1", kind: "Thing", plural: "things", namespaced: true };
        let value = json!({
            "spec": {"b": 1, "a": 2}, "data": 1, "kind": "Thing", "apiVersion": "a.example/v1",
            "metadata": {"uid": "u", "name": "x", "annotations": {"name": "y"},
                "managedFields": [{"time": "t", "operation": "Update", "manager": "m"}]},
        });
        let object = Object::new(ResourceId::define(&name), 7, &value);
        assert_eq!(
            object.served(),
            concat!(
                r#"{"apiVersion":"a.example/v1","data":1,"kind":"Thing","metadata":{"annotations":{"name":"y"},"#,
                r#""managedFields":[{"manager":"m","operation":"Update","time":"t"}],"name":"x","uid":"u"},"#,
                r#""spec":{"a":2,"b":1}}"#
            )
        );
        assert_eq!((object.whole(), object.size()), (value.clone(), object.served().len()));
        let metadata: Value = serde_json::from_str(&object.metadata_text()).unwrap();
        assert_eq!(metadata, value["metadata"]);
    }

    #[test]
    fn list_items_lose_only_their_type() {
        let object = Object::new(DEPLOYMENTS, 1, &json!({"metadata": {"name": "web"}, "spec": {}}));
        let mut text = Vec::new();
        object.write_without_type(&mut text);
        assert_eq!(text, br#"{"metadata":{"name":"web"},"spec":{}}"#);
        assert_eq!(text.len(), object.size_without_type());
    }
}
