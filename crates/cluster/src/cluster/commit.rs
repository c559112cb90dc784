//! What becomes of a version that is accepted: stored with who manages its fields, counted by quotas, written down.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Part;
use super::transaction::Transaction;
use crate::admission::Bookkeeping;
use crate::managed_fields::ManagedFields;
use crate::object::Object;
use crate::patch::{Managed, track};
use crate::resource::{self as kinds, ResourceId};

impl Transaction<'_> {
    /// Lets those see who manages an object's fields who are asked about it.
    pub(super) fn show_managers(&self, resource: ResourceId, value: &mut Value, managed: Option<&ManagedFields>) {
        if let Some(managed) = managed.filter(|_| self.is_asked(resource)) {
            // It is text that was written as JSON.
            value["metadata"]["managedFields"] = serde_json::from_str(&managed.text()).unwrap_or_default();
        }
    }

    /// Who manages an object's fields after those have changed it who were asked: they may say so, and what they say that
    /// is none is taken back. What they change belongs to nobody unless they say to whom.
    // upstream: apiserver pkg/endpoints/handlers/fieldmanager/admission.go (v1.36)
    pub(super) fn managers_left(
        &mut self,
        resource: ResourceId,
        value: &mut Value,
        managed: Option<ManagedFields>,
    ) -> Option<ManagedFields> {
        if !self.is_asked(resource) {
            return managed;
        }
        let left = value["metadata"].get("managedFields").cloned().unwrap_or_default();
        let shown = managed.as_ref().and_then(|managed| serde_json::from_str::<Value>(&managed.text()).ok());
        if left == shown.unwrap_or_default() {
            return managed;
        }
        match Managed::checked(&left) {
            Ok(left) => left.kept(resource),
            Err(because) => {
                let warning = format!(
                    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {because}"
                );
                if !self.warnings.contains(&warning) {
                    self.warnings.push(warning);
                }
                hide_managers(value);
                self.show_managers(resource, value, managed.as_ref());
                managed
            }
        }
    }

    /// Who manages an object, as it is stored.
    fn managers(&self, resource: ResourceId, value: &Value) -> Option<ManagedFields> {
        let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
        let current = self.state.store.get(resource, text("namespace"), text("name"))?;
        current.managed().filter(|_| *current.uid == *text("uid")).cloned()
    }

    /// Stores a version that does not change who manages it, and what follows from it.
    pub(super) fn commit(&mut self, resource: ResourceId, value: Value) -> Arc<Object> {
        let managed = self.managers(resource, &value);
        self.commit_managed(resource, value, managed)
    }

    /// Stores a version and what follows from it: the use of quotas.
    pub(super) fn commit_managed(
        &mut self,
        resource: ResourceId,
        value: Value,
        managed: Option<ManagedFields>,
    ) -> Arc<Object> {
        if self.options.dry_run {
            let version = value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            return Arc::new(Object::with_tree(resource, version.unwrap_or_default(), value, managed));
        }
        let (plan, recount) = self.quota_effects(resource, &value, true);
        let object = self.commit_version(resource, value, managed);
        self.book(plan);
        if recount {
            self.recount_quota(&object);
        }
        object
    }

    /// What storing (or removing) an object means for the quotas of its namespace, and whether it is a quota to count.
    fn quota_effects(&self, resource: ResourceId, value: &Value, stays: bool) -> (Bookkeeping, bool) {
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
        let quotas = resource.row().namespaced
            && self.state.store.list(kinds::RESOURCE_QUOTAS, Some(namespace)).next().is_some();
        if resource == kinds::RESOURCE_QUOTAS && stays {
            return (Bookkeeping::default(), value["status"]["hard"] != value["spec"]["hard"]);
        }
        if !quotas {
            return (Bookkeeping::default(), false);
        }
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        let old = self.state.store.get(resource, namespace, name).map(|object| object.value());
        (self.plan_quota(resource, namespace, old.as_deref(), stays.then_some(value)), false)
    }

    /// Stores the status of a quota as it is, written by `manager`.
    pub(crate) fn commit_quota(&mut self, current: &Object, value: Value, manager: &str) -> Arc<Object> {
        let resource = current.resource;
        let mut value = value;
        let mut writer = self.writer(resource, Part::Status);
        writer.manager = manager;
        let managed = track(Some((current, &current.value())), &mut value, &writer);
        let managed = managed.map_or_else(|| current.managed().cloned(), |managed| managed.kept(resource));
        self.commit_version(resource, value, managed)
    }

    /// Stores a version as it is: the next resourceVersion, history, log.
    fn commit_version(
        &mut self,
        resource: ResourceId,
        mut value: Value,
        managed: Option<ManagedFields>,
    ) -> Arc<Object> {
        let version = self.state.store.next_version();
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let object = self.store(Arc::new(Object::with_tree(resource, version, value, managed)));
        self.state.trees.keep(&object);
        object
    }

    /// Puts a version into history and log.
    pub(super) fn store(&mut self, object: Arc<Object>) -> Arc<Object> {
        let object = self.state.store.put(object, self.now);
        let random = self.state.random_state();
        if let Some(log) = &mut self.state.log {
            log.put(&object, random);
        }
        object
    }

    /// Removes an object whose last state is `value`.
    pub(super) fn remove(&mut self, resource: ResourceId, mut value: Value) -> Arc<Object> {
        let managed = self.managers(resource, &value);
        if self.options.dry_run {
            return Arc::new(Object::new(resource, 0, &value).managed_by(managed));
        }
        if resource == kinds::SERVICES {
            self.state.addresses = None;
        }
        let (plan, _) = self.quota_effects(resource, &value, false);
        let version = self.state.store.next_version();
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let last = self.state.store.remove(Object::new(resource, version, &value).managed_by(managed), self.now);
        let random = self.state.random_state();
        if let Some(log) = &mut self.state.log {
            log.remove(&last, random);
        }
        self.book(plan);
        last
    }
}

/// Who manages an object's fields stands beside it.
pub(super) fn hide_managers(value: &mut Value) {
    value["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
}
