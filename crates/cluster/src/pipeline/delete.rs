//! Deletion: preconditions, grace periods, finalizers, propagation.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::object::Object;
use klab_api_machinery::registry;
use klab_api_machinery::resource::{self as kinds, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::time_text;
use serde_json::{Value, json};

use super::commit::{commit, remove};
use crate::admission::Deed;
use crate::admission::{consider, is_asked};
use crate::clock::{earlier, later};
use crate::custom_versions::in_own_version;
use crate::dynamic_admission::Operation;
use crate::transaction::{DeleteOptions, Deleted, Propagation, Transaction};

/// Keeps an object until its dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object until its dependents no longer name it.
const ORPHAN: &str = "orphan";
/// Namespaces a cluster cannot do without.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Deletes an object, or marks it for deletion, unless a webhook or a policy refuses.
pub(crate) fn delete(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    if is_asked(transaction, resource)
        && let Some(current) = transaction.state.store.get(resource, namespace, name).cloned()
    {
        check_preconditions(&current, options)?;
        let current = in_own_version(transaction, resource, current)?;
        let old = current.whole();
        let deed = Deed {
            operation: Operation::Delete,
            resource: current.resource,
            subresource: "",
            namespace,
            name,
            kind: None,
            old: Some(&old),
        };
        consider(transaction, &deed, None)?;
    }
    delete_considered(transaction, resource, namespace, name, options)
}

/// [`delete`] without webhooks and policies.
pub(crate) fn delete_considered(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    let row = resource.row();
    if resource == kinds::NAMESPACES && IMMORTAL.contains(&name) {
        return Err(Status::forbidden(row, name, "this namespace may not be deleted"));
    }
    let current = transaction.existing(resource, namespace, name)?;
    let resource = current.resource;
    check_preconditions(&current, options)?;
    let mut value = current.to_value();
    if resource == kinds::NAMESPACES {
        return delete_namespace(transaction, &current, value);
    }
    let finalizers = finalizers_after(resource, &value["metadata"], options.propagation);
    let waits = finalizers.as_array().is_some_and(|list| !list.is_empty());
    let already = current.deleting;
    if resource == kinds::PODS {
        let grace = pod_grace(&value, options);
        if already {
            let had = value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
            if grace.asked && grace.seconds < had {
                let deadline = value["metadata"]["deletionTimestamp"].as_str().and_then(|at| at.parse().ok());
                let began = earlier(deadline.unwrap_or(transaction.now), SignedDuration::from_secs(had));
                mark(resource, &mut value, later(began, SignedDuration::from_secs(grace.seconds)), grace.seconds);
                if grace.seconds == 0 && !waits {
                    return Ok(Deleted::Gone(remove(transaction, resource, value)));
                }
                return Ok(Deleted::Terminating(commit(transaction, resource, value)));
            }
            if had == 0 && !waits {
                return Ok(Deleted::Gone(remove(transaction, resource, value)));
            }
            return Ok(Deleted::Terminating(keep(transaction, &current, value, finalizers)));
        }
        mark(resource, &mut value, later(transaction.now, SignedDuration::from_secs(grace.seconds)), grace.seconds);
        if grace.seconds == 0 && !waits {
            return Ok(Deleted::Gone(remove(transaction, resource, value)));
        }
        set_finalizers(&mut value, finalizers);
        return Ok(Deleted::Terminating(commit(transaction, resource, value)));
    }
    if !waits {
        return Ok(Deleted::Gone(remove(transaction, resource, value)));
    }
    if already {
        return Ok(Deleted::Terminating(keep(transaction, &current, value, finalizers)));
    }
    mark(resource, &mut value, transaction.now, 0);
    set_finalizers(&mut value, finalizers);
    Ok(Deleted::Terminating(commit(transaction, resource, value)))
}

/// An object that is already being deleted: only its garbage collection finalizers may change.
fn keep(transaction: &mut Transaction<'_>, current: &Arc<Object>, mut value: Value, finalizers: Value) -> Arc<Object> {
    if value["metadata"]["finalizers"] == finalizers
        || (value["metadata"]["finalizers"].is_null() && finalizers == json!([]))
    {
        return Arc::clone(current);
    }
    set_finalizers(&mut value, finalizers);
    commit(transaction, current.resource, value)
}

/// A namespace turns Terminating; the namespace controller empties it and then clears its finalizers.
fn delete_namespace(
    transaction: &mut Transaction<'_>,
    current: &Arc<Object>,
    mut value: Value,
) -> Result<Deleted, Status> {
    let held = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    if !held(&value["spec"]["finalizers"]) && !held(&value["metadata"]["finalizers"]) {
        return Ok(Deleted::Gone(remove(transaction, current.resource, value)));
    }
    if current.deleting {
        return Err(Status::conflict_because(
            current.resource.row(),
            &current.name,
            "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace will automatically be purged by the system.",
        ));
    }
    value["metadata"]["deletionTimestamp"] = json!(time_text(transaction.now));
    if !value["status"].is_object() {
        value["status"] = json!({});
    }
    value["status"]["phase"] = json!("Terminating");
    Ok(Deleted::Terminating(commit(transaction, current.resource, value)))
}

fn check_preconditions(current: &Object, options: &DeleteOptions) -> Result<(), Status> {
    let row = current.resource.row();
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.uid.as_ref()) {
        let because = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            current.uid
        );
        return Err(Status::precondition(row, &current.name, &because));
    }
    let version = current.resource_version.to_string();
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let because = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        );
        return Err(Status::precondition(row, &current.name, &because));
    }
    Ok(())
}

struct Grace {
    seconds: i64,
    /// Whether the request named the period.
    asked: bool,
}

/// How long a pod gets: what was asked for, else its own period; nothing if no kubelet has it or it has ended.
fn pod_grace(pod: &Value, options: &DeleteOptions) -> Grace {
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let unbound = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let asked = options.grace_seconds.is_some();
    let seconds = if unbound || finished { 0 } else { options.grace_seconds.unwrap_or(own) };
    // A negative period is upstream's way of saying "as short as possible, but not at once".
    Grace { seconds: if seconds < 0 { 1 } else { seconds }, asked }
}

fn mark(resource: ResourceId, value: &mut Value, deadline: Timestamp, grace: i64) {
    value["metadata"]["deletionTimestamp"] = json!(time_text(deadline));
    value["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    if registry::of(resource).generation.is_some()
        && let Some(generation) = value["metadata"]["generation"].as_i64()
    {
        value["metadata"]["generation"] = json!(generation + 1);
    }
}

fn set_finalizers(value: &mut Value, finalizers: Value) {
    let Some(metadata) = value["metadata"].as_object_mut() else { return };
    if finalizers.as_array().is_some_and(Vec::is_empty) {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), finalizers);
    }
}

/// The finalizers of an object whose deletion was asked for with this policy.
fn finalizers_after(resource: ResourceId, metadata: &Value, policy: Option<Propagation>) -> Value {
    let had: Vec<&str> = metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let policy = policy.unwrap_or_else(|| {
        if had.contains(&ORPHAN) {
            Propagation::Orphan
        } else if had.contains(&FOREGROUND) {
            Propagation::Foreground
        } else if registry::of(resource).orphans_dependents {
            Propagation::Orphan
        } else {
            Propagation::Background
        }
    });
    let mut finalizers: Vec<&str> = had.iter().copied().filter(|name| *name != ORPHAN && *name != FOREGROUND).collect();
    match policy {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND),
        Propagation::Orphan => finalizers.push(ORPHAN),
    }
    json!(finalizers)
}
