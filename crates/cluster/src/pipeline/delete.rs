//! Deletion: preconditions, grace periods, finalizers, propagation.

#![expect(
    clippy::unnecessary_wraps,
    reason = "the stages of a list have one type, whether they refuse anything or not"
)]

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::object::Object;
use klab_api_machinery::registry;
use klab_api_machinery::resource::{self as kinds, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::{Namespace, ObjectMeta, Pod, metadata};
use serde_json::{Value, json};

use super::commit::{commit, remove};
use crate::admission::AdmissionRequest;
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

/// An object that is deleted, as the stages of its deletion change it.
pub(crate) struct Removal<'a> {
    /// The kind, as the request names it.
    resource: ResourceId,
    options: &'a DeleteOptions,
    current: Arc<Object>,
    /// Its JSON, which becomes that of a last version or of one that waits.
    value: Value,
    /// The finalizers that it has from now on.
    finalizers: Value,
    /// How the deletion ends, once a stage says so.
    pub(crate) ended: Option<Deleted>,
}

impl<'a> Removal<'a> {
    /// Finds the object.
    ///
    /// # Errors
    /// 404 where there is none.
    pub(crate) fn of(
        transaction: &Transaction<'_>,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        options: &'a DeleteOptions,
    ) -> Result<Self, Status> {
        let current = transaction.existing(resource, namespace, name)?;
        let value = current.to_value();
        Ok(Self { resource, options, current, value, finalizers: Value::Null, ended: None })
    }

    /// Whether finalizers keep the object.
    fn waits(&self) -> bool {
        self.finalizers.as_array().is_some_and(|list| !list.is_empty())
    }
}

/// Refuses to delete a namespace that a cluster cannot do without.
pub(crate) fn protect_namespaces(_: &mut Transaction<'_>, removal: &mut Removal<'_>) -> Result<(), Status> {
    let name = &removal.current.name;
    if removal.resource == kinds::NAMESPACES && IMMORTAL.contains(&name.as_ref()) {
        return Err(Status::forbidden(removal.resource.row(), name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Refuses where the object is not the one that the client means.
pub(crate) fn check_preconditions(_: &mut Transaction<'_>, removal: &mut Removal<'_>) -> Result<(), Status> {
    let (current, options) = (&removal.current, removal.options);
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

/// Asks webhooks and policies.
pub(crate) fn ask_about_removal(transaction: &mut Transaction<'_>, removal: &mut Removal<'_>) -> Result<(), Status> {
    if !is_asked(transaction, removal.resource) {
        return Ok(());
    }
    let current = in_own_version(transaction, removal.resource, Arc::clone(&removal.current))?;
    let old = current.whole();
    let admission_request = AdmissionRequest {
        operation: Operation::Delete,
        resource: current.resource,
        subresource: "",
        namespace: &current.namespace,
        name: &current.name,
        kind: None,
        old: Some(&old),
    };
    consider(transaction, &admission_request, None)
}

/// A namespace turns Terminating; the namespace controller empties it and then clears its finalizers.
pub(crate) fn end_namespace(transaction: &mut Transaction<'_>, removal: &mut Removal<'_>) -> Result<(), Status> {
    let current = &removal.current;
    if current.resource != kinds::NAMESPACES {
        return Ok(());
    }
    let mut value = removal.value.take();
    if Namespace(&value).spec().finalizers().is_empty() && metadata(&value).finalizers().is_empty() {
        removal.ended = Some(Deleted::Gone(remove(transaction, current.resource, value)));
        return Ok(());
    }
    if current.deleting {
        return Err(Status::conflict_because(
            current.resource.row(),
            &current.name,
            "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace will automatically be purged by the system.",
        ));
    }
    value["metadata"]["deletionTimestamp"] = json!(time_text(transaction.now));
    value["status"]["phase"] = json!("Terminating");
    removal.ended = Some(Deleted::Terminating(commit(transaction, current.resource, value)));
    Ok(())
}

/// Chooses the finalizers by what the request says of dependents.
pub(crate) fn choose_finalizers(_: &mut Transaction<'_>, removal: &mut Removal<'_>) -> Result<(), Status> {
    let own = metadata(&removal.value);
    removal.finalizers = finalizers_after(removal.current.resource, own, removal.options.propagation);
    Ok(())
}

/// A pod has a grace period, which a later request may shorten.
pub(crate) fn end_pod(transaction: &mut Transaction<'_>, removal: &mut Removal<'_>) -> Result<(), Status> {
    if removal.current.resource != kinds::PODS {
        return Ok(());
    }
    let grace = pod_grace(Pod(&removal.value), removal.options);
    let mut gone_at = later(transaction.now, SignedDuration::from_secs(grace.seconds));
    if removal.current.deleting {
        let own = metadata(&removal.value);
        let had = own.deletion_grace_period_seconds().unwrap_or_default();
        if !grace.asked || grace.seconds >= had {
            let is_over = had == 0 && !removal.waits();
            removal.ended = Some(if is_over { removed(transaction, removal) } else { kept(transaction, removal) });
            return Ok(());
        }
        let deadline = own.deletion_timestamp().unwrap_or(transaction.now);
        let began = earlier(deadline, SignedDuration::from_secs(had));
        gone_at = later(began, SignedDuration::from_secs(grace.seconds));
    }
    mark(kinds::PODS, &mut removal.value, gone_at, grace.seconds);
    if grace.seconds == 0 && !removal.waits() {
        removal.ended = Some(removed(transaction, removal));
        return Ok(());
    }
    if !removal.current.deleting {
        set_finalizers(&mut removal.value, removal.finalizers.take());
    }
    removal.ended = Some(Deleted::Terminating(commit(transaction, kinds::PODS, removal.value.take())));
    Ok(())
}

/// Any other object that no finalizer keeps is gone.
pub(crate) fn end_object(transaction: &mut Transaction<'_>, removal: &mut Removal<'_>) -> Result<(), Status> {
    if !removal.waits() {
        removal.ended = Some(removed(transaction, removal));
    }
    Ok(())
}

/// Has an object wait for its finalizers.
pub(crate) fn wait_for_finalizers(transaction: &mut Transaction<'_>, mut removal: Removal<'_>) -> Deleted {
    if removal.current.deleting {
        return kept(transaction, &mut removal);
    }
    let resource = removal.current.resource;
    mark(resource, &mut removal.value, transaction.now, 0);
    set_finalizers(&mut removal.value, removal.finalizers);
    Deleted::Terminating(commit(transaction, resource, removal.value))
}

fn removed(transaction: &mut Transaction<'_>, removal: &mut Removal<'_>) -> Deleted {
    Deleted::Gone(remove(transaction, removal.current.resource, removal.value.take()))
}

/// An object that is already being deleted: only its garbage collection finalizers may change.
fn kept(transaction: &mut Transaction<'_>, removal: &mut Removal<'_>) -> Deleted {
    let (current, mut value, finalizers) = (&removal.current, removal.value.take(), removal.finalizers.take());
    let had = &value["metadata"]["finalizers"];
    if *had == finalizers || (had.is_null() && finalizers == json!([])) {
        return Deleted::Terminating(Arc::clone(current));
    }
    set_finalizers(&mut value, finalizers);
    Deleted::Terminating(commit(transaction, current.resource, value))
}

struct Grace {
    seconds: i64,
    /// Whether the request named the period.
    asked: bool,
}

/// How long a pod gets: what was asked for, else its own period; nothing if no kubelet has it or it has ended.
fn pod_grace(pod: Pod<'_>, options: &DeleteOptions) -> Grace {
    let own = pod.spec().termination_grace_period_seconds().unwrap_or(30);
    let unbound = pod.spec().node_name().is_empty();
    let finished = matches!(pod.status().phase(), "Succeeded" | "Failed");
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
fn finalizers_after(resource: ResourceId, metadata: ObjectMeta<'_>, policy: Option<Propagation>) -> Value {
    let had: Vec<&str> = metadata.finalizers().collect();
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
