//! The one path every create and update takes, under the cluster's lock.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::commit::hide_managers;
use super::part::{select_part, set_or_remove};
use super::transaction::Transaction;
use super::{FieldValidation, Intent, Part, bootstrap, metadata};
use crate::admission::{Deed, Newcomer, Operation};
use crate::custom;
use crate::managed_fields::ManagedFields;
use crate::object::Object;
use crate::patch::{Managed, Writer, is_deeper, track_in_version};
use crate::registry;
use crate::resource::{self as kinds, Resource, ResourceId};
use crate::schema::{Mismatch, schema};
use crate::status::Status;
use crate::validation::warnings::Warnings;
use crate::validation::{self, Errors};

/// How deep objects may be nested. Every reader of JSON has a limit; what is stored must stay below this one's, together
/// with the ownership of its fields, which is kept a few levels deeper.
const DEEPEST: usize = 100;

/// How often a generated name that is taken is drawn again.
const NAME_ATTEMPTS: usize = 8;

impl<'a> Transaction<'a> {
    /// Creates an object.
    pub(crate) fn create(
        &mut self,
        resource: ResourceId,
        namespace: &str,
        mut value: Value,
    ) -> Result<Arc<Object>, Status> {
        let row = resource.row();
        self.decode(resource, &mut value).map_err(|fault| fault.of_body(row))?;
        metadata::address(row, namespace, &mut value)?;
        self.insert(resource, namespace, value, None)
    }

    /// Makes a body one of the object its path names.
    pub(crate) fn address(resource: ResourceId, namespace: &str, name: &str, value: &mut Value) -> Result<(), Status> {
        metadata::address(resource.row(), namespace, value)?;
        metadata::check_name(name, value)?;
        value["metadata"]["name"] = json!(name);
        Ok(())
    }

    /// Stores an object that a patch has changed and that is decoded.
    pub(crate) fn store_patched(
        &mut self,
        current: &Arc<Object>,
        part: Part,
        namespace: &str,
        old: &Value,
        mut new: Value,
    ) -> Result<Arc<Object>, Status> {
        Self::address(current.resource, namespace, &current.name, &mut new)?;
        self.write_over(current, part, old, new, None)
    }

    /// Creates an object from a decoded value. `managed` are its field managers if it comes from server-side apply.
    pub(crate) fn insert(
        &mut self,
        resource: ResourceId,
        namespace: &str,
        mut value: Value,
        managed: Option<Managed>,
    ) -> Result<Arc<Object>, Status> {
        let row = resource.row();
        let generated = value["metadata"]["name"].as_str().unwrap_or_default().is_empty();
        let name = self.choose_name(resource, namespace, &mut value);
        self.definition_accepts(resource, &name)?;
        self.namespace_accepts(resource, namespace, &name)?;
        let uid = self.state.random.uid();
        let aspects = registry::of(resource);
        metadata::stamp(&mut value, &uid, self.now, aspects.generation.is_some());
        if let Some(status) = aspects.initial_status.value().filter(|_| self.has_status(resource)) {
            if status.is_null() {
                value.as_object_mut().map(|object| object.remove("status"));
            } else {
                value["status"] = status;
                tidy_status(resource, &mut value);
            }
        }
        if let Some(fill) = aspects.defaults {
            fill(&mut value);
        }
        self.guarded(&Intent { resource, namespace, name: &name, old: None, new: &value })?;
        if let Some(prepare) = aspects.prepare {
            prepare(None, &mut value);
        }
        let applies = managed.is_some();
        let managed = managed.or_else(|| track_in_version(None, &mut value, &self.writer(resource, Part::Main)));
        let managed = managed.and_then(|managed| managed.kept(resource));
        if let Some(admit) = aspects.admission {
            admit(self, namespace, &mut value)?;
        }
        let deed = Deed {
            operation: Operation::Create,
            resource,
            subresource: "",
            namespace,
            name: if generated { "" } else { &name },
            kind: None,
            old: None,
        };
        self.show_managers(resource, &mut value, managed.as_ref());
        self.mutate(&deed, Some(&mut value))?;
        let managed = self.managers_left(resource, &mut value, managed);
        let mut errors = Errors::default();
        let addresses = aspects.complete.and_then(|complete| complete(self, None, &mut value, &mut errors));
        aspects.check(names_finalizers_freely(resource), None, &value, &mut errors);
        self.check_version(resource, Part::Main, None, &value, &mut errors);
        errors.into_result(row, &name)?;
        self.look_at_kinds(resource, &name, None, &value)?;
        if let Some(restrict) = aspects.restriction {
            restrict(self, namespace, &value)?;
        }
        let newcomer = Newcomer { resource, part: Part::Main, namespace, name: &name, old: None, new: &value };
        self.check_pod_security(&newcomer)?;
        self.judge(&deed, Some(&value))?;
        hide_managers(&mut value);
        let (resource, value) = self.for_storage(resource, value)?;
        self.check_quota(resource, namespace, None, &value)?;
        self.has_room(resource, &name)?;
        if self.state.store.get(resource, namespace, &name).is_some() {
            return Err(Status::already_exists(row, &name));
        }
        let managed = self.kept_managers(resource, &value, managed, applies)?;
        let object = self.commit_managed(resource, value, managed);
        if !self.options.dry_run {
            if addresses.is_some() {
                self.state.addresses = addresses;
            }
            if resource == kinds::NAMESPACES {
                bootstrap::populate_namespace(self, &name);
            }
        }
        Ok(object)
    }

    /// Brings a body into canonical form, and collects what it has too much.
    pub(crate) fn decode(&mut self, resource: ResourceId, value: &mut Value) -> Result<(), Fault> {
        let row = resource.row();
        if is_deeper(value, DEEPEST) {
            return Err(Fault::Mismatch(Mismatch("json: exceeded max depth".to_owned())));
        }
        let resets_managers = value["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
        let unknown = match schema().kind(&row.api_version(), row.kind) {
            Some(id) => schema().tidy(id, value).map_err(Fault::Mismatch)?.unknown,
            None => self.decode_custom(resource, value)?,
        };
        if resets_managers {
            // The one list that says something when it is empty.
            value["metadata"]["managedFields"] = json!([]);
        }
        self.tell(&unknown, row.custom)
    }

    /// Tells of what a body has too much, as the client wants to know it.
    fn tell(&mut self, unknown: &[String], is_custom: bool) -> Result<(), Fault> {
        let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
        let twice = self.options.problems.iter().cloned();
        // Custom resources, YAML and patches are read as they come, and looked through afterwards.
        let problems: Vec<String> = if is_custom || self.options.twice_first {
            twice.chain(unknown).collect()
        } else {
            unknown.chain(twice).collect()
        };
        match self.options.validation {
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Warn => {
                // A patch of a kind with a second version is read in both.
                let known: HashSet<&String> = self.warnings.iter().collect();
                let new: Vec<String> = problems.into_iter().filter(|problem| !known.contains(problem)).collect();
                self.warnings.extend(new);
                Ok(())
            }
            FieldValidation::Strict if problems.is_empty() => Ok(()),
            FieldValidation::Strict => Err(Fault::Strict(problems)),
        }
    }

    /// [`Transaction::decode`] of a Scale, whatever it is of.
    pub(crate) fn decode_scale(&mut self, scale: &mut Value) -> Result<(), Fault> {
        let Some(id) = schema().kind("autoscaling/v1", "Scale") else { return Ok(()) };
        let unknown = schema().tidy(id, scale).map_err(Fault::Mismatch)?.unknown;
        self.tell(&unknown, false)
    }

    /// Makes a body a custom resource of its version: without what its definition does not know, and with defaults. Gives
    /// the paths of what was taken out.
    fn decode_custom(&mut self, resource: ResourceId, value: &mut Value) -> Result<Vec<String>, Fault> {
        let mut unknown = schema().tidy_custom(value).map_err(Fault::Mismatch)?.unknown;
        let definition = self.state.definitions.of(&self.state.store, resource);
        if let Some(version) = definition.as_ref().and_then(|definition| definition.version(self.served(resource))) {
            if version.schema().is_object() {
                unknown.extend(custom::prune(version.schema(), value));
                custom::default(version.schema(), value);
            }
            let row = resource.row();
            value["apiVersion"] = json!(row.api_version());
            value["kind"] = json!(row.kind);
        }
        Ok(unknown)
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

    /// What is wrong with an object by the version that it is sent in: with a custom resource by its definition, with an Event
    /// of the group events.k8s.io.
    fn check_version(&self, resource: ResourceId, part: Part, old: Option<&Value>, new: &Value, errors: &mut Errors) {
        if part == Part::Main && self.second(resource) == Some(kinds::GROUPED_EVENTS) {
            validation::records::grouped_event(old, new, errors);
        }
        if !resource.row().custom {
            return;
        }
        let definition = self.state.definitions.of(&self.state.store, resource);
        if let Some(version) = definition.as_ref().and_then(|definition| definition.version(self.served(resource))) {
            version.check(old, new, errors);
        }
    }

    /// Tells a client what is not wrong with an object, and not right either, and refuses what its kind does not go with.
    fn look_at_kinds(
        &mut self,
        resource: ResourceId,
        name: &str,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), Status> {
        if let Some(warn) = registry::of(resource).warnings.filter(|_| self.options.client) {
            let mut warnings = Warnings::default();
            warn(old, new, &mut warnings);
            self.warnings.append(&mut warnings.texts());
        }
        self.check_kinds(resource, name, new)
    }

    /// Refuses new objects of a definition that is on its way out.
    ///
    /// // upstream: apiextensions-apiserver pkg/apiserver/customresource_handler.go ServeHTTP
    fn definition_accepts(&self, resource: ResourceId, name: &str) -> Result<(), Status> {
        let row = resource.row();
        let definition = self.state.store.get(kinds::CUSTOM_RESOURCE_DEFINITIONS, "", &row.qualified());
        if row.custom && definition.is_some_and(|definition| definition.deleting) {
            let because = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(row, name, because));
        }
        Ok(())
    }

    /// [`Transaction::decode`] of a stored object, which is in canonical form, after a change: of a status that was
    /// changed alone only the status need be looked at.
    fn decode_changed(
        &mut self,
        resource: ResourceId,
        part: Part,
        old: &Value,
        value: &mut Value,
    ) -> Result<(), Fault> {
        let row = resource.row();
        let only_status = part == Part::Status
            && self.options.validation == FieldValidation::Ignore
            && value["status"].is_object()
            && old["metadata"] == value["metadata"];
        match schema().kind(&row.api_version(), row.kind).filter(|_| only_status) {
            Some(id) => schema().tidy_field(id, "status", &mut value["status"]).map_err(Fault::Mismatch).map(drop),
            None => self.decode(resource, value),
        }
    }

    /// Replaces an object by what a client sent.
    pub(crate) fn replace(
        &mut self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        mut value: Value,
    ) -> Result<Arc<Object>, Status> {
        let row = resource.row();
        self.decode(resource, &mut value).map_err(|fault| fault.of_body(row))?;
        metadata::address(row, namespace, &mut value)?;
        metadata::check_name(name, &value)?;
        let current = self.live(resource, namespace, name)?;
        let old = current.value();
        metadata::check_uid(row, &old, &value)?;
        self.write_over(&current, part, &old, value, None)
    }

    /// Changes an object in place.
    pub(crate) fn modify(
        &mut self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Object>, Status> {
        let current = self.existing(resource, namespace, name)?;
        let resource = current.resource;
        let old = current.value();
        let mut value = (*old).clone();
        change(&mut value);
        self.decode_changed(resource, part, &old, &mut value).map_err(|fault| fault.of_body(resource.row()))?;
        metadata::address(resource.row(), namespace, &mut value)?;
        self.write_over(&current, part, &old, value, None)
    }

    /// Whether the kind has a `status` subresource in this cluster, so that its status is written only there.
    pub(crate) fn has_status(&self, resource: ResourceId) -> bool {
        self.state.store.has_status(resource)
    }

    pub(crate) fn writer(&self, resource: ResourceId, part: Part) -> Writer<'a> {
        let has_status = self.has_status(resource);
        let definition = self.state.definitions.of(&self.state.store, resource);
        let resource = self.served(resource);
        let mut writer = Writer::new(self.options.called(), resource, part, self.now);
        (writer.has_status, writer.definition) = (has_status, definition);
        writer
    }

    /// Who owns what after a write that is no server-side apply.
    fn tracked(
        &self,
        current: &Object,
        part: Part,
        old: &Value,
        new: &mut Value,
        asked: Option<Value>,
    ) -> Result<Option<Managed>, Status> {
        let mut writer = self.writer(current.resource, part);
        self.look_elsewhere(&mut writer, current, old, new)?;
        Ok(match asked {
            // upstream: fields are the writer's before the strategy drops what a resize may not change.
            Some(mut asked) => track_in_version(Some((current, old)), &mut asked, &writer),
            None => track_in_version(Some((current, old)), new, &writer),
        })
    }

    /// [`Transaction::tracked`], or what server-side apply has made of the managers, as it is kept.
    fn managers_after(
        &self,
        current: &Object,
        part: Part,
        (old, new): (&Value, &mut Value),
        asked: Option<&Value>,
        applied: Option<Managed>,
    ) -> Result<Option<ManagedFields>, Status> {
        let managed = match applied {
            None => self.tracked(current, part, old, new, asked.cloned())?,
            applied => applied,
        };
        Ok(managed.map_or_else(|| current.managed().cloned(), |managed| managed.kept(current.resource)))
    }

    /// Stores `new` as the next version of `current` (whose JSON is `old`), after all rules.
    pub(crate) fn write_over(
        &mut self,
        current: &Arc<Object>,
        part: Part,
        old: &Value,
        mut new: Value,
        managed: Option<Managed>,
    ) -> Result<Arc<Object>, Status> {
        let resource = current.resource;
        metadata::carry_over(resource.row(), &current.name, old, &mut new)?;
        let asked = (part == Part::Resize).then(|| new.clone());
        let mut new = select_part(resource, part, self.has_status(resource), old, new);
        let aspects = registry::of(resource);
        if let Some(fill) = aspects.defaults {
            fill(&mut new);
        }
        let (namespace, name) = (&*current.namespace, &*current.name);
        self.guarded(&Intent { resource, namespace, name, old: Some(old), new: &new })?;
        if let Some(prepare) = aspects.prepare.filter(|_| part == Part::Main) {
            prepare(Some(old), &mut new);
        }
        let applies = managed.is_some();
        let managed = self.managers_after(current, part, (old, &mut new), asked.as_ref(), managed)?;
        self.admit_update(part, current, &mut new);
        if part == Part::Resize {
            // upstream: pkg/registry/core/pod/strategy.go dropNonResizeUpdates: only the resources stay.
            set_or_remove(&mut new["metadata"], "annotations", old["metadata"].get("annotations"));
        }
        let shown = self.is_asked(resource).then(|| current.whole());
        let deed = Deed {
            operation: Operation::Update,
            resource,
            subresource: part.subresource(),
            namespace,
            name,
            kind: None,
            old: Some(shown.as_ref().unwrap_or(old)),
        };
        self.show_managers(resource, &mut new, managed.as_ref());
        self.mutate(&deed, Some(&mut new))?;
        let managed = self.managers_left(resource, &mut new, managed);
        let mut errors = Errors::default();
        if let Some(complete) = aspects.complete.filter(|_| part == Part::Main) {
            complete(self, Some((current, old)), &mut new, &mut errors);
        }
        if part == Part::Main && *old != new {
            aspects.check(names_finalizers_freely(resource), Some(old), &new, &mut errors);
        }
        if *old != new {
            self.check_version(resource, part, Some(old), &new, &mut errors);
        }
        if part == Part::Status && resource == kinds::RESOURCE_CLAIMS {
            self.admit_claim_status(old, &mut new, &mut errors);
        }
        if part == Part::Status && *old != new {
            aspects.check_metadata(names_finalizers_freely(resource), false, &new, &mut errors);
            validation::status(resource, old, &new, &mut errors);
        }
        if part == Part::EphemeralContainers && *old != new {
            validation::ephemeral_containers::check(old, &new, &mut errors);
        }
        if let Some(asked) = &asked {
            validation::pod_resize::check(old, &new, asked, &mut errors);
        }
        errors.into_result(resource.row(), &current.name)?;
        if part == Part::Main {
            self.look_at_kinds(resource, name, Some(old), &new)?;
        }
        if part != Part::Status && aspects.generation.is_some_and(|differs| differs(old, &new)) {
            new["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
        }
        self.restrict_update(part, current, &new)?;
        self.check_pod_security(&Newcomer { resource, part, namespace, name, old: Some(old), new: &new })?;
        self.judge(&deed, Some(&new))?;
        hide_managers(&mut new);
        let (resource, new) = self.for_storage(resource, new)?;
        if self.is_stored(current, old, resource, &new) && Managed::are_alike(managed.as_ref(), current.managed()) {
            return Ok(Arc::clone(current));
        }
        if deletion_is_complete(resource, &new) {
            return Ok(self.remove(resource, new));
        }
        self.has_room_to_grow(current, &new)?;
        if part != Part::Status && current.resource.row().namespaced {
            self.check_quota(resource, &current.namespace, Some(old), &new)?;
        }
        let managed = self.kept_managers(resource, &new, managed, applies)?;
        Ok(self.commit_managed(resource, new, managed))
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
    pub(super) fn namespace_accepts(&self, resource: ResourceId, namespace: &str, name: &str) -> Result<(), Status> {
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

/// Why a body is not an object of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A value has the wrong type.
    Mismatch(Mismatch),
    /// Fields that the kind does not have, or that occur twice, when the client wants none.
    Strict(Vec<String>),
}

impl Fault {
    /// The answer to a request with such a body.
    pub(crate) fn of_body(self, row: &Resource) -> Status {
        self.of(row.kind, row.version)
    }

    /// The same for a body that is no object of a resource.
    pub(crate) fn of(&self, kind: &str, version: &str) -> Status {
        Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {self}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch(mismatch) => mismatch.fmt(formatter),
            Self::Strict(problems) => write!(formatter, "strict decoding error: {}", problems.join(", ")),
        }
    }
}

/// Whether finalizers need no domain: of custom resources and of what defines them.
fn names_finalizers_freely(resource: ResourceId) -> bool {
    resource.row().custom || resource == kinds::CUSTOM_RESOURCE_DEFINITIONS
}

/// Adds to a status the fields its kind always writes.
fn tidy_status(resource: ResourceId, value: &mut Value) {
    let row = resource.row();
    if let Some(id) = schema().kind(&row.api_version(), row.kind) {
        // The status is the server's own, so it has the right types.
        let tidied = schema().tidy_field(id, "status", &mut value["status"]);
        debug_assert!(tidied.is_ok(), "{tidied:?}");
    }
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
