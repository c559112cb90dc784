//! What becomes of a version that is accepted: stored with who manages its fields, counted by quotas, written down.

use std::sync::Arc;

use klab_api_machinery::managed_fields::ManagedFields;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{self as kinds, ResourceId};
use klab_api_machinery::views::{ResourceQuota, metadata};
use serde_json::Value;

use crate::admission::is_asked;
use crate::admission::quota::{Bookkeeping, book, plan_quota, recount_quota};
use crate::transaction::Transaction;
use klab_fields::Managed;

/// Lets those see who manages an object's fields who are asked about it.
pub(crate) fn show_managers(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    value: &mut Value,
    managed: Option<&ManagedFields>,
) {
    if let Some(managed) = managed.filter(|_| is_asked(transaction, resource)) {
        // It is text that was written as JSON.
        value["metadata"]["managedFields"] = serde_json::from_str(&managed.text()).unwrap_or_default();
    }
}

/// Who manages an object's fields after those have changed it who were asked: they may say so, and what they say that
/// is none is taken back. What they change has no manager unless they name one.
// upstream: apiserver pkg/endpoints/handlers/fieldmanager/admission.go (v1.36)
pub(crate) fn managers_left(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    value: &mut Value,
    managed: Option<ManagedFields>,
) -> Option<ManagedFields> {
    if !is_asked(transaction, resource) {
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
            if !transaction.warnings.contains(&warning) {
                transaction.warnings.push(warning);
            }
            hide_managers(value);
            show_managers(transaction, resource, value, managed.as_ref());
            managed
        }
    }
}

/// Stores a version that does not change who manages it, and what follows from it.
pub(crate) fn commit(transaction: &mut Transaction<'_>, resource: ResourceId, value: Value) -> Arc<Object> {
    let managed = transaction.managers(resource, &value);
    commit_managed(transaction, resource, value, managed)
}

/// Stores a version and what follows from it: the use of quotas.
pub(crate) fn commit_managed(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    value: Value,
    managed: Option<ManagedFields>,
) -> Arc<Object> {
    if transaction.options.dry_run {
        let version = metadata(&value).resource_version().parse().ok();
        return Arc::new(Object::with_tree(resource, version.unwrap_or_default(), value, managed));
    }
    let (plan, recount) = quota_effects(transaction, resource, &value, true);
    let object = transaction.put(resource, value, managed);
    book(transaction, plan);
    if recount {
        recount_quota(transaction, &object);
    }
    object
}

/// What storing (or removing) an object means for the quotas of its namespace, and whether it is a quota to count.
fn quota_effects(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    value: &Value,
    stays: bool,
) -> (Bookkeeping, bool) {
    let (namespace, name) = (metadata(value).namespace(), metadata(value).name());
    let quotas = resource.row().namespaced
        && transaction.state.store.list(kinds::RESOURCE_QUOTAS, Some(namespace)).next().is_some();
    if resource == kinds::RESOURCE_QUOTAS && stays {
        let quota = ResourceQuota(value);
        return (Bookkeeping::default(), !quota.status().hard().iter().eq(quota.spec().hard().iter()));
    }
    if !quotas {
        return (Bookkeeping::default(), false);
    }
    let old = transaction.state.store.get(resource, namespace, name).map(|object| object.value());
    (plan_quota(transaction, resource, namespace, old.as_deref(), stays.then_some(value)), false)
}

/// Removes an object whose last state is `value`, and what follows from it.
pub(crate) fn remove(transaction: &mut Transaction<'_>, resource: ResourceId, value: Value) -> Arc<Object> {
    let managed = transaction.managers(resource, &value);
    if transaction.options.dry_run {
        return Arc::new(Object::new(resource, 0, &value).managed_by(managed));
    }
    if resource == kinds::SERVICES {
        transaction.state.addresses = None;
    }
    let (plan, _) = quota_effects(transaction, resource, &value, false);
    let last = transaction.take_out(resource, value, managed);
    book(transaction, plan);
    last
}

/// Who manages an object's fields stands beside it.
pub(crate) fn hide_managers(value: &mut Value) {
    value["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
}
