//! One write, from reading the old version to storing the new one: what it looks at, and how it stores and removes objects. It
//! knows no rules; those are stages in the rooms above, which are given the transaction.

mod guard;
mod json_cache;
mod limits;
mod options;
mod random;
mod state;

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::managed_fields::ManagedFields;
use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;

use serde_json::{Value, json};

pub(crate) use guard::{Guard, Intent};
pub(crate) use json_cache::JsonCache;
use klab_fields::Writer;
pub use limits::Limits;
pub(crate) use limits::NAMES;
pub use options::{DeleteOptions, Deleted, FieldValidation, Propagation, WriteOptions, Written};
pub(crate) use random::Random;
pub use state::EverDefined;
pub(crate) use state::State;

/// One write, with the cluster's lock held.
pub(crate) struct Transaction<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) now: Timestamp,
    pub(crate) options: &'a WriteOptions<'a>,
    /// Texts for the client.
    pub(crate) warnings: Vec<String>,
    /// Whether all who may refuse it were asked already: about what was sent to a subresource.
    pub(crate) is_considered: bool,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(state: &'a mut State, now: Timestamp, options: &'a WriteOptions<'a>) -> Self {
        Self { state, now, options, warnings: Vec::new(), is_considered: false }
    }

    /// The outcome of this transaction for a client.
    pub(crate) fn written(&mut self, object: Arc<Object>, created: bool) -> Written {
        Written { object, created, warnings: std::mem::take(&mut self.warnings) }
    }

    /// The object, or 404.
    pub(crate) fn existing(&self, resource: ResourceId, namespace: &str, name: &str) -> Result<Arc<Object>, Status> {
        self.state.store.get(resource, namespace, name).cloned().ok_or_else(|| Status::not_found(resource.row(), name))
    }

    /// Asks the guard of this write, if there is one.
    pub(crate) fn guarded(&self, intent: &Intent<'_>) -> Result<(), Status> {
        self.options.guard.map_or(Ok(()), |guard| guard.check(&self.state.store, intent))
    }

    /// The version of a custom resource that this write is for, or the second version or group of a stored kind.
    pub(crate) fn served(&self, resource: ResourceId) -> ResourceId {
        let custom = self.options.served.filter(|served| served.row().qualified() == resource.row().qualified());
        self.second(resource).or(custom).unwrap_or(resource)
    }

    /// The second version or group of a stored kind, where this write is for that.
    pub(crate) fn second(&self, resource: ResourceId) -> Option<ResourceId> {
        self.options.served.filter(|served| served.row().stored_as == Some(resource))
    }

    /// Whether the kind has a `status` subresource in this cluster, so that its status is written only there.
    pub(crate) fn has_status(&self, resource: ResourceId) -> bool {
        self.state.store.has_status(resource)
    }

    /// The writer that becomes the manager of fields.
    pub(crate) fn writer(&self, resource: ResourceId, part: Part) -> Writer<'a> {
        let has_status = self.has_status(resource);
        let definition = self.state.definitions.of(&self.state.store, resource);
        let resource = self.served(resource);
        let mut writer = Writer::new(self.options.called(), resource, part, self.now);
        (writer.has_status, writer.definition) = (has_status, definition);
        writer
    }

    /// Who manages an object, as it is stored.
    pub(crate) fn managers(&self, resource: ResourceId, value: &Value) -> Option<ManagedFields> {
        let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
        let current = self.state.store.get(resource, text("namespace"), text("name"))?;
        current.managed().filter(|_| *current.uid == *text("uid")).cloned()
    }

    /// Gives a version of an object the next resourceVersion.
    fn number(&mut self, value: &mut Value) -> u64 {
        let version = self.state.store.next_version();
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        version
    }

    /// Stores a version as it is: the next resourceVersion, history, log.
    pub(crate) fn put(
        &mut self,
        resource: ResourceId,
        mut value: Value,
        managed: Option<ManagedFields>,
    ) -> Arc<Object> {
        let version = self.number(&mut value);
        let object = self.store(Arc::new(Object::with_tree(resource, version, value, managed)));
        self.state.json_cache.keep(&object);
        object
    }

    /// Puts a version into history and log.
    pub(crate) fn store(&mut self, object: Arc<Object>) -> Arc<Object> {
        let object = self.state.store.put(object, self.now);
        let random = self.state.random_state();
        if let Some(log) = &mut self.state.log {
            log.put(&object, random);
        }
        object
    }

    /// Removes an object whose last state is `value`: history, log.
    pub(crate) fn take_out(
        &mut self,
        resource: ResourceId,
        mut value: Value,
        managed: Option<ManagedFields>,
    ) -> Arc<Object> {
        let version = self.number(&mut value);
        let last = self.state.store.remove(Object::new(resource, version, &value).managed_by(managed), self.now);
        let random = self.state.random_state();
        if let Some(log) = &mut self.state.log {
            log.remove(&last, random);
        }
        last
    }
}
