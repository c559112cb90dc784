//! The one path every create and update takes, under the cluster's lock.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::strategy::{self, has_generation, has_status};
use super::{Part, State, WriteOptions, Written, bootstrap, metadata};
use crate::sim::object::Object;
use crate::sim::resource::{self as kinds, ResourceId};
use crate::sim::status::Status;
use crate::sim::validation::Errors;

/// How often a generated name that is taken is drawn again.
const NAME_ATTEMPTS: usize = 8;

/// One write, with the cluster's lock held.
pub(in crate::sim) struct Transaction<'a> {
    pub(in crate::sim) state: &'a mut State,
    pub(in crate::sim) now: Timestamp,
    pub(in crate::sim) options: &'a WriteOptions<'a>,
    /// Texts for the client.
    pub(in crate::sim) warnings: Vec<String>,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(state: &'a mut State, now: Timestamp, options: &'a WriteOptions<'a>) -> Self {
        Self { state, now, options, warnings: Vec::new() }
    }

    /// The outcome of this transaction for a client.
    pub(super) fn written(&mut self, object: Arc<Object>, created: bool) -> Written {
        Written { object, created, warnings: std::mem::take(&mut self.warnings) }
    }

    /// The object, or 404.
    pub(in crate::sim) fn existing(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Object>, Status> {
        self.state.store.get(resource, namespace, name).cloned().ok_or_else(|| Status::not_found(resource.row(), name))
    }

    /// Creates an object.
    pub(in crate::sim) fn create(
        &mut self,
        resource: ResourceId,
        namespace: &str,
        mut value: Value,
    ) -> Result<Arc<Object>, Status> {
        let row = resource.row();
        metadata::address(row, namespace, &mut value)?;
        let name = self.choose_name(resource, namespace, &mut value);
        self.namespace_accepts(resource, namespace, &name)?;
        let uid = self.state.random.uid();
        metadata::stamp(&mut value, &uid, self.now, has_generation(resource));
        if let Some(status) = strategy::initial_status(resource) {
            value["status"] = status;
        }
        if resource == kinds::NAMESPACES {
            value["spec"]["finalizers"] = json!(["kubernetes"]);
            value["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
        }
        if name.is_empty() {
            let mut errors = Errors::default();
            errors.required("metadata.name", "name or generateName is required");
            return Err(errors.into_result(row, &name).err().unwrap_or_else(|| Status::bad_request("no name")));
        }
        if self.state.store.get(resource, namespace, &name).is_some() {
            return Err(Status::already_exists(row, &name));
        }
        let object = self.commit(resource, value);
        if resource == kinds::NAMESPACES && !self.options.dry_run {
            bootstrap::furnish_namespace(self, &name);
        }
        Ok(object)
    }

    /// Replaces an object by what a client sent.
    pub(in crate::sim) fn replace(
        &mut self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        mut value: Value,
    ) -> Result<Arc<Object>, Status> {
        metadata::address(resource.row(), namespace, &mut value)?;
        let given = value["metadata"]["name"].as_str().unwrap_or_default();
        if !given.is_empty() && given != name {
            return Err(Status::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        let current = self.existing(resource, namespace, name)?;
        let old = current.value();
        self.write_over(&current, part, old, value)
    }

    /// Changes an object in place.
    pub(in crate::sim) fn modify(
        &mut self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Object>, Status> {
        let current = self.existing(resource, namespace, name)?;
        let old = current.value();
        let mut value = old.clone();
        change(&mut value);
        metadata::address(resource.row(), namespace, &mut value)?;
        self.write_over(&current, part, old, value)
    }

    /// Stores `new` as the next version of `current` (whose JSON is `old`), after all rules.
    pub(in crate::sim) fn write_over(
        &mut self,
        current: &Arc<Object>,
        part: Part,
        old: Value,
        mut new: Value,
    ) -> Result<Arc<Object>, Status> {
        let resource = current.resource;
        metadata::carry_over(resource.row(), &current.name, &old, &mut new)?;
        let mut new = select_part(resource, part, &old, new);
        if has_generation(resource) && part != Part::Status && strategy::spec_differs(resource, &old, &new) {
            new["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
        }
        if new == old {
            return Ok(Arc::clone(current));
        }
        if deletion_is_complete(resource, &new) {
            return Ok(self.remove(resource, new));
        }
        Ok(self.commit(resource, new))
    }

    /// Stores a version as it is: the next resourceVersion, history, log.
    pub(super) fn commit(&mut self, resource: ResourceId, mut value: Value) -> Arc<Object> {
        if self.options.dry_run {
            let version = value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            return Arc::new(Object::new(resource, version.unwrap_or_default(), &value));
        }
        let version = self.state.store.next_version();
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        self.state.store.put(Object::new(resource, version, &value))
    }

    /// Removes an object whose last state is `value`.
    pub(super) fn remove(&mut self, resource: ResourceId, mut value: Value) -> Arc<Object> {
        if self.options.dry_run {
            return Arc::new(Object::new(resource, 0, &value));
        }
        let version = self.state.store.next_version();
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        self.state.store.remove(Object::new(resource, version, &value))
    }

    fn choose_name(&mut self, resource: ResourceId, namespace: &str, value: &mut Value) -> String {
        let generated = value["metadata"]["name"].as_str().unwrap_or_default().is_empty();
        let mut name = String::new();
        for _ in 0..NAME_ATTEMPTS {
            name = metadata::name_for(value, || self.state.random.suffix(metadata::SUFFIX_LENGTH));
            if !generated || self.state.store.get(resource, namespace, &name).is_none() {
                break;
            }
            value["metadata"]["name"] = Value::Null;
        }
        name
    }

    /// Namespace lifecycle: new objects need a namespace that is not on its way out.
    fn namespace_accepts(&self, resource: ResourceId, namespace: &str, name: &str) -> Result<(), Status> {
        let row = resource.row();
        if !row.namespaced {
            return Ok(());
        }
        let holder = self.existing(kinds::NAMESPACES, "", namespace)?;
        if !holder.deleting {
            return Ok(());
        }
        let because = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(row, name, &because);
        status.details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        Err(status)
    }
}

/// The next version: of `new` what the part covers, of `old` the rest.
fn select_part(resource: ResourceId, part: Part, old: &Value, mut new: Value) -> Value {
    match part {
        Part::Main => {
            if has_status(resource) {
                set_or_remove(&mut new, "status", old.get("status"));
            }
            if resource == kinds::NAMESPACES {
                set_or_remove(&mut new, "spec", old.get("spec"));
            }
            new
        }
        Part::Status => {
            set_or_remove(&mut new, "spec", old.get("spec"));
            if resource == kinds::DEPLOYMENTS {
                let labels = old["metadata"].get("labels");
                set_or_remove(&mut new["metadata"], "labels", labels);
            }
            let owners = old["metadata"].get("ownerReferences");
            set_or_remove(&mut new["metadata"], "ownerReferences", owners);
            if resource == kinds::PODS
                && let Some(class) = old["status"].get("qosClass")
                && new["status"].is_object()
            {
                new["status"]["qosClass"] = class.clone();
            }
            new
        }
        Part::Finalize => {
            let mut merged = old.clone();
            merged["spec"] = new["spec"].take();
            merged["metadata"] = new["metadata"].take();
            merged
        }
        Part::EphemeralContainers => {
            let mut merged = old.clone();
            merged["spec"]["ephemeralContainers"] = new["spec"]["ephemeralContainers"].take();
            merged
        }
        Part::Resize => {
            let mut merged = old.clone();
            for list in ["containers", "initContainers"] {
                let count = merged["spec"][list].as_array().map_or(0, Vec::len);
                for at in 0..count {
                    if merged["spec"][list][at]["name"] == new["spec"][list][at]["name"] {
                        for field in ["resources", "resizePolicy"] {
                            let value = new["spec"][list].get(at).and_then(|container| container.get(field)).cloned();
                            set_or_remove(&mut merged["spec"][list][at], field, value.as_ref());
                        }
                    }
                }
            }
            merged
        }
    }
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<&Value>) {
    let Some(object) = object.as_object_mut() else { return };
    match value {
        Some(value) => object.insert(field.to_owned(), value.clone()),
        None => object.remove(field),
    };
}

/// Whether an object that is being deleted has nothing left to wait for.
fn deletion_is_complete(resource: ResourceId, value: &Value) -> bool {
    let metadata = &value["metadata"];
    let waits = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    if metadata["deletionTimestamp"].is_null() || waits(&metadata["finalizers"]) {
        return false;
    }
    match resource {
        kinds::NAMESPACES => !waits(&value["spec"]["finalizers"]),
        _ => metadata["deletionGracePeriodSeconds"].as_i64() == Some(0),
    }
}
