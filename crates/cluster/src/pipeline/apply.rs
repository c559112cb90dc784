//! Server-side apply: a manager states all fields it wants; others keep theirs; disagreement is a conflict.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/merge/update.go Updater.Apply (v1.36)

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::registry;
use klab_api_machinery::resource::{Resource, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::texts::MOST;
use serde_json::{Value, json};

use super::decode::{Fault, decode};
use super::elsewhere::look_elsewhere;
use super::write::{address, insert, write_over};
use crate::custom_versions::in_own_version;
use crate::patch::apply::{check_types, checked, conflict, no_manager, untyped, wrong_kind};
use crate::patch::faults::faults;
use crate::patch::fields::Fields;
use crate::patch::managed::{Managed, Writer, difference, strip};
use crate::patch::place::{Place, Root};
use crate::patch::typed::{Difference, fields_of, merge, prune};
use crate::transaction::Transaction;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager that may take over what it set by client-side apply before.
const KUBECTL: &str = "kubectl";

/// Applies a configuration; creates the object if there is none. Also says whether it did.
pub(crate) fn apply(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    part: Part,
    namespace: &str,
    name: &str,
    mut config: Value,
    force: bool,
) -> Result<(Arc<Object>, bool), Status> {
    let row = resource.row();
    let second = check_config(transaction, resource, namespace, name, &mut config)?;
    let shown = second.unwrap_or(resource);
    let mut writer = transaction.writer(resource, part);
    let own = writer.clone();
    let root = own.root();
    let place = root.place();
    let mut wanted = fields_of(&config, place);
    strip(&mut wanted, &writer);
    let stored = transaction.state.store.get(resource, namespace, name).cloned();
    let Some(current) = stored.map(|stored| in_own_version(transaction, resource, stored)).transpose()? else {
        if part != Part::Main {
            return Err(Status::not_found(row, name));
        }
        if let Some(uid) = config["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
            return Err(Status::conflict_because(
                row,
                name,
                &format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found"),
            ));
        }
        let mut managed = Managed::default();
        let entry = managed.entry(&writer, true);
        entry.fields = wanted;
        entry.time = Some(klab_api_machinery::value::time_text(transaction.now));
        decode_in_both(transaction, resource, second, &mut config).map_err(|fault| unusable(row, &config, &fault))?;
        return Ok((insert(transaction, resource, namespace, config, Some(managed))?, true));
    };
    let live = current.value();
    let seen = second.map(|second| seen_in(transaction, second, &live)).transpose();
    let seen = seen.map_err(|fault| unusable(row, &config, &fault))?;
    let seen = seen.as_ref().unwrap_or(&live);
    let mut managed = Managed::before_apply(&current, seen, &writer);
    let last = managed.entry(&writer, true).fields.clone();
    managed.entry(&writer, true).fields = wanted.clone();
    let mut merged = seen.clone();
    if part == Part::Main {
        // The status is written through its own subresource only.
        if writer.has_status
            && let Some(config) = config.as_object_mut()
        {
            config.remove("status");
        }
    }
    merge(&mut merged, &config, place);
    if !last.is_empty() {
        let mut kept = Fields::default();
        managed.0.iter().for_each(|entry| kept.add(&entry.fields));
        kept.keep_identity();
        prune(&mut merged, &last, &kept, place);
    }
    decode(transaction, shown, &mut merged).map_err(|fault| unusable(row, &config, &fault))?;
    let changes = difference(seen, &merged, &writer);
    if second.is_some() {
        decode_in_both(transaction, resource, second, &mut merged).map_err(|fault| unusable(row, &config, &fault))?;
    }
    look_elsewhere(transaction, &mut writer, &current, &live, &merged)?;
    let version = config["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !version.is_empty() && version != current.resource_version.to_string() {
        return Err(Status::conflict(row, name));
    }
    let allowed = if force { None } else { Some(taken_over(seen, &writer, place)) };
    take_from_others(&mut managed, &writer, &changes, allowed.as_ref())?;
    let entry = managed.entry(&writer, true);
    entry.fields = wanted;
    if !changes.is_empty() {
        entry.time = Some(klab_api_machinery::value::time_text(transaction.now));
    }
    if writer.manager == KUBECTL && live["metadata"]["annotations"][LAST_APPLIED].is_string() {
        merged["metadata"]["annotations"][LAST_APPLIED] = json!(format!("{config}\n"));
    }
    let object = write_over(transaction, &current, part, &live, merged, Some(managed))?;
    Ok((object, false))
}

/// Refuses what is no configuration of the object that it is sent to. Gives the second version in which it is written,
/// and in which its manager owns its fields.
fn check_config(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    name: &str,
    config: &mut Value,
) -> Result<Option<ResourceId>, Status> {
    let row = resource.row();
    if transaction.options.manager.is_empty() {
        return Err(no_manager());
    }
    check_kind(transaction.served(resource).row(), config)?;
    if row.custom {
        check_fields(transaction, resource, config)?;
        config["apiVersion"] = json!(row.api_version());
    }
    let second = transaction.second(resource);
    let shown = second.unwrap_or(resource);
    check_declared(shown.row(), config)?;
    let given = config["metadata"]["name"].as_str().unwrap_or(name);
    if given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    address(shown, namespace, name, config)?;
    Ok(second)
}

/// Makes what is written in a second version what is stored.
fn decode_in_both(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    second: Option<ResourceId>,
    value: &mut Value,
) -> Result<(), Fault> {
    if let Some(second) = second {
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

/// Refuses fields that the definition of a custom resource does not know, as typed kinds do.
fn check_fields(transaction: &Transaction<'_>, resource: ResourceId, config: &Value) -> Result<(), Status> {
    let served = transaction.served(resource);
    let definition = transaction.state.definitions.of(&transaction.state.store, resource);
    let Some(version) = definition.as_ref().and_then(|definition| definition.version(served)) else {
        return Ok(());
    };
    let row = served.row();
    let root = Root::new(&row.api_version(), row.kind, Some(version.schema()));
    check_types(&row.api_version(), row.kind, config, &faults(config, root.place()))
}

/// Takes what a manager changes and removes from the fields of the others; refused where that is not allowed.
fn take_from_others(
    managed: &mut Managed,
    writer: &Writer<'_>,
    changes: &Difference,
    allowed: Option<&Fields>,
) -> Result<(), Status> {
    let own = managed.entry(writer, true).clone();
    let mut conflicts: Vec<(String, Vec<String>)> = Vec::new();
    let mut told = 0;
    for entry in managed.0.iter_mut().filter(|entry| **entry != own) {
        let seen = writer.seen_in(&entry.api_version, changes);
        let mut disputed = entry.fields.common(&seen.changed);
        entry.fields.subtract(&seen.changed);
        entry.fields.subtract(&seen.removed);
        if let Some(allowed) = allowed {
            disputed.subtract(allowed);
            if !disputed.is_empty() {
                // Each manager's fields may have long paths.
                let paths = if told < MOST { disputed.paths() } else { Vec::new() };
                told += paths.iter().map(String::len).sum::<usize>();
                conflicts.push((entry.title(), paths));
            }
        }
    }
    if conflicts.is_empty() { Ok(()) } else { Err(conflict(conflicts)) }
}

/// What kubectl owns by an earlier client-side apply: fields of the annotation that the object still has so.
fn taken_over(live: &Value, writer: &Writer<'_>, place: Place<'_>) -> Fields {
    let annotation = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let Some(text) = annotation.filter(|_| writer.manager == KUBECTL) else { return Fields::default() };
    let Ok(before) = serde_json::from_str::<Value>(text) else { return Fields::default() };
    let mut fields = fields_of(&before, place);
    let mut merged = (*live).clone();
    merge(&mut merged, &before, place);
    let changed = difference(live, &merged, writer);
    fields.subtract(&changed.changed);
    fields
}

fn check_kind(row: &Resource, config: &Value) -> Result<(), Status> {
    if config["apiVersion"] != row.api_version() || config["kind"] != row.kind {
        return Err(wrong_kind(config));
    }
    if config["metadata"]["managedFields"].is_array() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// Refuses fields that a kind of Kubernetes does not have, and values of other types.
fn check_declared(row: &Resource, config: &Value) -> Result<(), Status> {
    checked(&row.api_version(), row.kind, config)
}

fn unusable(row: &Resource, config: &Value, fault: &Fault) -> Status {
    untyped(&row.api_version(), row.kind, config, &fault.to_string())
}
