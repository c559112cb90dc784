//! Server-side apply: a manager states all fields it wants; others keep theirs; disagreement is a conflict.

#![expect(
    clippy::unnecessary_wraps,
    reason = "the stages of a list have one type, whether they refuse anything or not"
)]

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/merge/update.go Updater.Apply (v1.36)

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::registry;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::metadata;
use klab_fields::{
    Difference, Fields, KUBECTL, LAST_APPLIED, Managed, Writer, check_types, difference, fields_of, no_manager, prune,
    strip, take_from_others, taken_over, untyped, wrong_kind,
};
use serde_json::{Value, json};

use super::decode::{Fault, decode};
use super::elsewhere::look_elsewhere;
use super::metadata::address_object;
use crate::custom_versions::in_own_version;
use crate::transaction::Transaction;

/// A configuration that a manager applies.
pub(crate) struct Configuration<'a> {
    pub(crate) resource: ResourceId,
    pub(crate) part: Part,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) config: Value,
    /// Whether it takes fields from other managers.
    pub(crate) force: bool,
}

/// Refuses a request that names no manager.
pub(crate) fn check_manager(transaction: &mut Transaction<'_>, _: &mut Configuration<'_>) -> Result<(), Status> {
    if transaction.options.manager.is_empty() { Err(no_manager()) } else { Ok(()) }
}

/// Refuses a configuration of another kind, or with managers of its own.
pub(crate) fn check_configured_kind(
    transaction: &mut Transaction<'_>,
    applied: &mut Configuration<'_>,
) -> Result<(), Status> {
    let (row, config) = (transaction.served(applied.resource).row(), &applied.config);
    if config["apiVersion"] != row.api_version() || config["kind"] != row.kind {
        return Err(wrong_kind(config));
    }
    if config["metadata"]["managedFields"].is_array() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// Refuses fields that the kind does not have, and values of other types; of a custom resource by its definition.
pub(crate) fn check_configured_fields(
    transaction: &mut Transaction<'_>,
    applied: &mut Configuration<'_>,
) -> Result<(), Status> {
    let row = applied.resource.row();
    if row.custom {
        let served = transaction.served(applied.resource);
        let definition = transaction.state.definitions.of(&transaction.state.store, applied.resource);
        if let Some(version) = definition.as_ref().and_then(|definition| definition.version(served)) {
            let row = served.row();
            check_types(&row.api_version(), row.kind, Some(version.schema()), &applied.config)?;
        }
        applied.config["apiVersion"] = json!(row.api_version());
    }
    let shown = transaction.second(applied.resource).unwrap_or(applied.resource).row();
    check_types(&shown.api_version(), shown.kind, None, &applied.config)
}

/// Makes it a configuration of the object that the path names.
pub(crate) fn address_configured(
    transaction: &mut Transaction<'_>,
    applied: &mut Configuration<'_>,
) -> Result<(), Status> {
    let (name, config) = (applied.name, &mut applied.config);
    let given = config["metadata"]["name"].as_str().unwrap_or(name);
    if given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    let shown = transaction.second(applied.resource).unwrap_or(applied.resource);
    address_object(shown, applied.namespace, name, config)
}

impl Configuration<'_> {
    /// The object that it is applied to, if there is one.
    pub(crate) fn current(&self, transaction: &Transaction<'_>) -> Result<Option<Arc<Object>>, Status> {
        let stored = transaction.state.store.get(self.resource, self.namespace, self.name).cloned();
        stored.map(|stored| in_own_version(transaction, self.resource, stored)).transpose()
    }

    /// The fields that the manager wants.
    fn wanted(&self, writer: &Writer<'_>) -> Fields {
        let root = writer.root();
        let mut wanted = fields_of(&self.config, root.place());
        strip(&mut wanted, writer);
        wanted
    }

    fn unusable(&self, fault: &Fault) -> Status {
        let row = self.resource.row();
        untyped(&row.api_version(), row.kind, &self.config, &fault.to_string())
    }

    /// The object that it makes where there is none, and the managers of its fields.
    ///
    /// # Errors
    /// 404 for a part of an object, 409 for one that the manager takes for another.
    pub(crate) fn into_new(mut self, transaction: &mut Transaction<'_>) -> Result<(Value, Managed), Status> {
        let row = self.resource.row();
        if self.part != Part::Main {
            return Err(Status::not_found(row, self.name));
        }
        let uid = metadata(&self.config).uid();
        if !uid.is_empty() {
            return Err(Status::conflict_because(
                row,
                self.name,
                &format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found"),
            ));
        }
        let writer = transaction.writer(self.resource, self.part);
        let mut managed = Managed::default();
        let entry = managed.entry(&writer, true);
        entry.fields = self.wanted(&writer);
        entry.time = Some(time_text(transaction.now));
        let mut value = self.config.take();
        decode_in_both(transaction, self.resource, &mut value)
            .map_err(|fault| untyped(&row.api_version(), row.kind, &value, &fault.to_string()))?;
        Ok((value, managed))
    }
}

/// A configuration on its way into the object that it is applied to.
pub(crate) struct Merge<'a, 'w> {
    applied: Configuration<'a>,
    pub(crate) current: Arc<Object>,
    /// The current JSON.
    pub(crate) live: Arc<Value>,
    /// The same in the version that the configuration is written in.
    seen: Arc<Value>,
    writer: Writer<'w>,
    /// The fields that the manager wants.
    wanted: Fields,
    /// The fields that it wanted last time.
    last: Fields,
    pub(crate) managed: Managed,
    pub(crate) merged: Value,
    /// How the merged version differs from the current one.
    changes: Difference,
}

impl<'a, 'w> Merge<'a, 'w> {
    /// Notes what the manager wants now, and wanted before.
    pub(crate) fn of(
        transaction: &mut Transaction<'w>,
        applied: Configuration<'a>,
        current: Arc<Object>,
    ) -> Result<Self, Status> {
        let live = current.value();
        let seen = match transaction.second(applied.resource) {
            Some(second) => Arc::new(seen_in(transaction, second, &live).map_err(|fault| applied.unusable(&fault))?),
            None => Arc::clone(&live),
        };
        let writer = transaction.writer(applied.resource, applied.part);
        let wanted = applied.wanted(&writer);
        let mut managed = Managed::before_apply(&current, &seen, &writer);
        let last = std::mem::replace(&mut managed.entry(&writer, true).fields, wanted.clone());
        let merged = (*seen).clone();
        let changes = Difference::default();
        Ok(Self { applied, current, live, seen, writer, wanted, last, managed, merged, changes })
    }
}

/// Puts the configuration into the object. The status is written through its own subresource only.
pub(crate) fn merge_configuration(_: &mut Transaction<'_>, merge: &mut Merge<'_, '_>) -> Result<(), Status> {
    if merge.applied.part == Part::Main
        && merge.writer.has_status
        && let Some(config) = merge.applied.config.as_object_mut()
    {
        config.remove("status");
    }
    klab_fields::merge(&mut merge.merged, &merge.applied.config, merge.writer.root().place());
    Ok(())
}

/// Removes the fields that the manager wanted before, wants no longer, and that no other manager has.
pub(crate) fn drop_unwanted(_: &mut Transaction<'_>, merge: &mut Merge<'_, '_>) -> Result<(), Status> {
    if merge.last.is_empty() {
        return Ok(());
    }
    let mut kept = Fields::default();
    merge.managed.0.iter().for_each(|entry| kept.add(&entry.fields));
    kept.keep_identity();
    prune(&mut merge.merged, &merge.last, &kept, merge.writer.root().place());
    Ok(())
}

/// Decodes the merged version, and notes how it differs from the current one.
pub(crate) fn decode_merged(transaction: &mut Transaction<'_>, merge: &mut Merge<'_, '_>) -> Result<(), Status> {
    let resource = merge.applied.resource;
    let second = transaction.second(resource);
    let unusable = |fault: &Fault| merge.applied.unusable(fault);
    decode(transaction, second.unwrap_or(resource), &mut merge.merged).map_err(|fault| unusable(&fault))?;
    merge.changes = difference(&merge.seen, &merge.merged, &merge.writer);
    if second.is_some() {
        decode_in_both(transaction, resource, &mut merge.merged).map_err(|fault| unusable(&fault))?;
    }
    Ok(())
}

/// Notes how the write looks in the versions in which other managers have fields.
pub(crate) fn compare_versions(transaction: &mut Transaction<'_>, merge: &mut Merge<'_, '_>) -> Result<(), Status> {
    look_elsewhere(transaction, &mut merge.writer, &merge.current, &merge.live, &merge.merged)
}

/// Refuses a configuration of an older version of the object.
pub(crate) fn check_configured_version(_: &mut Transaction<'_>, merge: &mut Merge<'_, '_>) -> Result<(), Status> {
    let version = merge.applied.config["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !version.is_empty() && version != merge.current.resource_version.to_string() {
        return Err(Status::conflict(merge.applied.resource.row(), merge.applied.name));
    }
    Ok(())
}

/// Takes the fields that change from other managers, or says with whom the manager is in conflict.
pub(crate) fn take_fields(transaction: &mut Transaction<'_>, merge: &mut Merge<'_, '_>) -> Result<(), Status> {
    let root = merge.writer.root();
    let allowed = if merge.applied.force { None } else { Some(taken_over(&merge.seen, &merge.writer, root.place())) };
    take_from_others(&mut merge.managed, &merge.writer, &merge.changes, allowed.as_ref())?;
    let entry = merge.managed.entry(&merge.writer, true);
    entry.fields = std::mem::take(&mut merge.wanted);
    if !merge.changes.is_empty() {
        entry.time = Some(time_text(transaction.now));
    }
    Ok(())
}

/// Keeps the annotation of kubectl's client-side apply in step.
pub(crate) fn note_last_applied(_: &mut Transaction<'_>, merge: &mut Merge<'_, '_>) -> Result<(), Status> {
    if merge.writer.manager == KUBECTL && merge.live["metadata"]["annotations"][LAST_APPLIED].is_string() {
        merge.merged["metadata"]["annotations"][LAST_APPLIED] = json!(format!("{}\n", merge.applied.config));
    }
    Ok(())
}

/// Makes what is written in a second version what is stored.
fn decode_in_both(transaction: &mut Transaction<'_>, resource: ResourceId, value: &mut Value) -> Result<(), Fault> {
    if let Some(second) = transaction.second(resource) {
        decode(transaction, second, value)?;
        *value = registry::stored(second, value.take());
    }
    decode(transaction, resource, value)
}

/// A stored object in its second version.
fn seen_in(transaction: &mut Transaction<'_>, second: ResourceId, live: &Value) -> Result<Value, Fault> {
    let mut seen = registry::served(second, live.clone());
    decode(transaction, second, &mut seen)?;
    Ok(seen)
}
