//! The stages of a write, in the order in which most operations have them.

#![expect(
    clippy::unnecessary_wraps,
    reason = "the stages of a list have one type, whether they refuse anything or not"
)]

use std::sync::Arc;

use klab_api_machinery::part::Part;
use klab_api_machinery::registry;
use klab_api_machinery::resource::{self as kinds, ResourceId};
use klab_api_machinery::schema::schema;
use klab_api_machinery::status::Status;
use klab_api_machinery::validation;
use klab_api_machinery::validation::warnings::Warnings;
use klab_api_machinery::views::{self, Namespace};
use serde_json::{Value, json};

use super::commit::{hide_managers, managers_left, remove, show_managers};
use super::draft::Draft;
use super::elsewhere::{look_elsewhere, track_in_version};
use super::kinds::check_kinds;
use super::size_limit::kept_managers;
use super::{capacity, kind_stages, metadata, parts};
use crate::admission::{self, AdmissionRequest, Candidate, devices, quota};
use crate::custom_versions::{for_storage, is_stored};
use crate::dynamic_admission::Operation;
use crate::transaction::{Intent, Transaction};
use klab_fields::Managed;

/// How often a generated name that is taken is drawn again.
const NAME_ATTEMPTS: usize = 8;

type Outcome = Result<(), Status>;

/// Gives a new object its name.
pub(super) fn choose_name(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    draft.is_name_generated = views::metadata(&draft.new).name().is_empty();
    let state = &mut *transaction.state;
    for _ in 0..NAME_ATTEMPTS {
        draft.name = metadata::name_for(&mut draft.new, || state.random.suffix(metadata::SUFFIX_LENGTH));
        if !draft.is_name_generated || state.store.get(draft.resource, draft.namespace, &draft.name).is_none() {
            break;
        }
        draft.new["metadata"]["name"] = Value::Null;
    }
    Ok(())
}

/// Refuses a new object whose namespace is missing, or whose namespace or definition is being deleted.
pub(super) fn check_parents(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    definition_accepts(transaction, draft.resource, &draft.name)?;
    namespace_accepts(transaction, draft.resource, draft.namespace, &draft.name)
}

/// Refuses new objects of a definition that is on its way out.
///
/// // upstream: apiextensions-apiserver pkg/apiserver/customresource_handler.go ServeHTTP
fn definition_accepts(transaction: &Transaction<'_>, resource: ResourceId, name: &str) -> Result<(), Status> {
    let row = resource.row();
    let definition = transaction.state.store.get(kinds::CUSTOM_RESOURCE_DEFINITIONS, "", &row.qualified());
    if row.custom && definition.is_some_and(|definition| definition.deleting) {
        let because = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(row, name, because));
    }
    Ok(())
}

/// Namespace lifecycle: new objects need a namespace that is not on its way out.
pub(super) fn namespace_accepts(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    let row = resource.row();
    if !row.namespaced {
        return Ok(());
    }
    let holder = transaction.existing(kinds::NAMESPACES, "", namespace)?;
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

/// Gives a new object uid, creation time and generation.
pub(super) fn stamp(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let uid = transaction.state.random_uid();
    let has_generation = registry::of(draft.resource).generation.is_some();
    metadata::stamp(&mut draft.new, &uid, transaction.now, has_generation);
    Ok(())
}

/// Gives a new object the status that its kind begins with.
pub(super) fn set_initial_status(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let status = registry::of(draft.resource).initial_status.value();
    if let Some(status) = status.filter(|_| transaction.has_status(draft.resource)) {
        if status.is_null() {
            draft.new.as_object_mut().map(|object| object.remove("status"));
        } else {
            draft.new["status"] = status;
            tidy_status(draft.resource, &mut draft.new);
        }
    }
    Ok(())
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

/// Carries immutable metadata over from the replaced version, and refuses a change of it.
pub(super) fn carry_over(_: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let Some(old) = draft.old() else { return Ok(()) };
    metadata::carry_over(draft.resource.row(), &draft.name, old, &mut draft.new)
}

/// Keeps what a resize asks for, to look at it later.
pub(super) fn keep_asked(_: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    draft.asked = Some(draft.new.clone());
    Ok(())
}

/// Takes of the new version only the part that is written.
pub(super) fn select_part(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some(old) = draft.old() {
        let has_status = transaction.has_status(draft.resource);
        draft.new = parts::select_part(draft.resource, draft.part, has_status, old, draft.new.take());
    }
    Ok(())
}

/// Fills in what the object does not say.
pub(super) fn set_defaults(_: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some(fill) = registry::of(draft.resource).defaults {
        fill(&mut draft.new);
    }
    Ok(())
}

/// Asks the guard of the request, if it has one.
pub(super) fn ask_guard(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let Draft { resource, namespace, ref name, ref new, .. } = *draft;
    transaction.guarded(&Intent { resource, namespace, name, old: draft.old(), new })
}

/// Changes the version before its fields are assigned to managers.
pub(super) fn prepare(_: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some(prepare) = registry::of(draft.resource).prepare {
        prepare(draft.old(), &mut draft.new);
    }
    Ok(())
}

/// Drops fields of features that the cluster does not have.
pub(super) fn drop_disabled(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    registry::gated::settle(transaction.state.features, draft.resource, draft.old(), &mut draft.new);
    Ok(())
}

/// Assigns the fields to managers, unless server-side apply has done so.
pub(super) fn assign_fields(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let managed = match draft.applied.take() {
        None => tracked(transaction, draft)?,
        applied => applied,
    };
    draft.managed = match managed {
        Some(managed) => managed.kept(draft.resource),
        None => draft.replaced.and_then(|(current, _)| current.managed().cloned()),
    };
    Ok(())
}

/// The managers after a write that is no server-side apply.
fn tracked(transaction: &Transaction<'_>, draft: &mut Draft<'_>) -> Result<Option<Managed>, Status> {
    let mut writer = transaction.writer(draft.resource, draft.part);
    if let Some((current, old)) = draft.replaced {
        look_elsewhere(transaction, &mut writer, current, old, &draft.new)?;
    }
    let replaced = draft.replaced.map(|(current, old)| (&**current, old));
    Ok(match draft.asked.clone() {
        // upstream: fields are the writer's before the strategy drops what a resize may not change.
        Some(mut asked) => track_in_version(replaced, &mut asked, &writer),
        None => track_in_version(replaced, &mut draft.new, &writer),
    })
}

/// Fills in what depends on other objects, or refuses the new object.
pub(super) fn admit_new(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    kind_stages::admit(transaction, draft.resource, draft.namespace, &mut draft.new)
}

/// Fills in what the next version of an object does not say, because of other objects.
pub(super) fn admit_change(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some((current, _)) = draft.replaced {
        admission::admit_update(transaction, draft.part, current, &mut draft.new);
    }
    Ok(())
}

/// Puts the annotations back: of a resize only the resources stay.
// upstream: pkg/registry/core/pod/strategy.go dropNonResizeUpdates (v1.36)
pub(super) fn keep_annotations(_: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some(old) = draft.old() {
        parts::set_or_remove(&mut draft.new["metadata"], "annotations", old["metadata"].get("annotations"));
    }
    Ok(())
}

/// Describes the write to webhooks and policies.
fn admission_request<'a>(draft: &'a Draft<'_>) -> AdmissionRequest<'a> {
    AdmissionRequest {
        operation: if draft.is_new() { Operation::Create } else { Operation::Update },
        resource: draft.resource,
        subresource: draft.part.subresource(),
        namespace: draft.namespace,
        name: if draft.is_name_generated { "" } else { &draft.name },
        kind: None,
        old: draft.shown.as_ref().or(draft.old()),
    }
}

/// Has webhooks and policies change the version.
pub(super) fn admit_dynamically(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let mut new = draft.new.take();
    show_managers(transaction, draft.resource, &mut new, draft.managed.as_ref());
    if let Some((current, _)) = draft.replaced.filter(|_| admission::is_asked(transaction, draft.resource)) {
        draft.shown = Some(current.whole());
    }
    admission::mutate(transaction, &admission_request(draft), Some(&mut new))?;
    draft.managed = managers_left(transaction, draft.resource, &mut new, draft.managed.take());
    draft.new = new;
    Ok(())
}

/// Changes the version once its fields are assigned to managers, so that no manager owns what this sets.
pub(super) fn complete(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some(complete) = kind_stages::complete(draft.resource) {
        complete(transaction, draft);
    }
    Ok(())
}

/// Looks for what is wrong with an object and with a change of it.
pub(super) fn validate(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if draft.is_changed() {
        draft.errors.judge_by(transaction.state.features);
        let is_free = names_finalizers_freely(draft.resource);
        registry::of(draft.resource).check(is_free, draft.old(), &draft.new, &mut draft.errors);
    }
    Ok(())
}

/// Whether finalizers need no domain: of custom resources and of what defines them.
fn names_finalizers_freely(resource: ResourceId) -> bool {
    resource.row().custom || resource == kinds::CUSTOM_RESOURCE_DEFINITIONS
}

/// Looks for what is wrong with an object in the version that it is sent in: with an Event of the group events.k8s.io, and
/// with a custom resource by its definition.
pub(super) fn validate_version(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let (resource, old) = (draft.resource, draft.old());
    let is_grouped_event = draft.part == Part::Main && transaction.second(resource) == Some(kinds::GROUPED_EVENTS);
    if !(is_grouped_event || resource.row().custom) || !draft.is_changed() {
        return Ok(());
    }
    if is_grouped_event {
        validation::records::grouped_event(old, &draft.new, &mut draft.errors);
    }
    let definition = transaction.state.definitions.of(&transaction.state.store, resource);
    if let Some(version) = definition.as_ref().and_then(|definition| definition.version(transaction.served(resource))) {
        version.check(old, &draft.new, &mut draft.errors);
    }
    Ok(())
}

/// Looks for what the status of a ResourceClaim may not say, and completes it.
pub(super) fn admit_claim_status(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some(old) = draft.old().filter(|_| draft.resource == kinds::RESOURCE_CLAIMS) {
        devices::admit_claim_status(transaction, old, &mut draft.new, &mut draft.errors);
    }
    Ok(())
}

/// Looks for what is wrong with a status.
pub(super) fn validate_status(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some(old) = draft.old().filter(|_| draft.is_changed()) {
        draft.errors.judge_by(transaction.state.features);
        let is_free = names_finalizers_freely(draft.resource);
        registry::of(draft.resource).check_metadata(is_free, false, &draft.new, &mut draft.errors);
        validation::status(draft.resource, old, &draft.new, &mut draft.errors);
    }
    Ok(())
}

/// Looks for what is wrong with ephemeral containers.
pub(super) fn validate_ephemeral_containers(_: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some(old) = draft.old().filter(|_| draft.is_changed()) {
        validation::ephemeral_containers::check(old, &draft.new, &mut draft.errors);
    }
    Ok(())
}

/// Looks for what is wrong with a resize.
pub(super) fn validate_resize(_: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let (Some(old), Some(asked)) = (draft.old(), &draft.asked) {
        validation::pod_resize::check(old, &draft.new, asked, &mut draft.errors);
    }
    Ok(())
}

/// Refuses an object with which something is wrong.
pub(super) fn refuse_invalid(_: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    std::mem::take(&mut draft.errors).into_result(draft.resource.row(), &draft.name)
}

/// Sends a client the warnings of the kind.
pub(super) fn warn(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some(warn) = registry::of(draft.resource).warnings.filter(|_| transaction.options.client) {
        let mut warnings = Warnings::default();
        warn(draft.old(), &draft.new, &mut warnings);
        transaction.warnings.append(&mut warnings.texts());
    }
    Ok(())
}

/// Refuses a definition that brings in more kinds than the cluster may have.
pub(super) fn limit_kinds(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    check_kinds(transaction, draft.resource, &draft.name, &draft.new)
}

/// Counts a new generation.
pub(super) fn count_generation(_: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let (Some(old), Some(differs)) = (draft.old(), registry::of(draft.resource).generation)
        && differs(old, &draft.new)
    {
        draft.new["metadata"]["generation"] = json!(views::metadata(old).generation() + 1);
    }
    Ok(())
}

/// Refuses a valid new object because of other objects.
pub(super) fn restrict_new(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    kind_stages::restrict(transaction, draft.resource, draft.namespace, &draft.new)
}

/// Refuses a valid change because of other objects.
pub(super) fn restrict_change(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let Some((current, _)) = draft.replaced else { return Ok(()) };
    admission::restrict_update(transaction, draft.part, current, &draft.new)
}

/// Holds pods, and what makes pods, against the Pod Security Standards of their namespace.
pub(super) fn check_pod_security(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let Draft { resource, part, namespace, ref name, ref new, .. } = *draft;
    let candidate = Candidate { resource, part, namespace, name, old: draft.old(), new };
    admission::check_pod_security(transaction, &candidate)
}

/// Holds pods against the node selectors and tolerations that their namespace allows, on clusters that look at those.
pub(super) fn check_pod_of_namespace(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if draft.resource != kinds::PODS {
        return Ok(());
    }
    admission::check_pod(transaction, draft.namespace, draft.is_new(), &draft.new)
}

/// Has webhooks and policies judge the version.
pub(super) fn judge_dynamically(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    admission::judge(transaction, &admission_request(draft), Some(&draft.new))
}

/// Brings the object into the version that it is stored in.
pub(super) fn convert_for_storage(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    hide_managers(&mut draft.new);
    (draft.stored_as, draft.new) = for_storage(transaction, draft.resource, draft.new.take())?;
    Ok(())
}

/// Stores nothing where nothing changes.
pub(super) fn keep_unchanged(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if let Some((current, old)) = draft.replaced
        && is_stored(transaction, current, old, draft.stored_as, &draft.new)
        && Managed::are_alike(draft.managed.as_ref(), current.managed())
    {
        draft.settled = Some(Arc::clone(current));
    }
    Ok(())
}

/// Removes an object that is being deleted and has nothing left to wait for.
pub(super) fn finish_deletion(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if deletion_is_complete(draft.stored_as, &draft.new) {
        draft.settled = Some(remove(transaction, draft.stored_as, draft.new.take()));
    }
    Ok(())
}

/// Whether an object that is being deleted has nothing left to wait for.
fn deletion_is_complete(resource: ResourceId, value: &Value) -> bool {
    let metadata = views::metadata(value);
    if metadata.deletion_timestamp().is_none() || !metadata.finalizers().is_empty() {
        return false;
    }
    match resource {
        kinds::NAMESPACES => Namespace(value).spec().finalizers().is_empty(),
        _ => metadata.deletion_grace_period_seconds() == Some(0),
    }
}

/// Refuses a new object for which the cluster has no room.
pub(super) fn check_room(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    capacity::has_room(transaction, draft.stored_as, &draft.name)
}

/// Refuses a larger version for which the cluster has no room.
pub(super) fn check_room_to_grow(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let Some((current, _)) = draft.replaced else { return Ok(()) };
    capacity::has_room_to_grow(transaction, current, &draft.new)
}

/// Refuses what a ResourceQuota of the namespace does not allow.
pub(super) fn charge_quota(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if !draft.resource.row().namespaced {
        return Ok(());
    }
    quota::check_quota(transaction, draft.stored_as, draft.namespace, draft.old(), &draft.new)
}

/// Refuses a new object where there is one of its name.
pub(super) fn refuse_existing(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    if transaction.state.store.get(draft.stored_as, draft.namespace, &draft.name).is_some() {
        return Err(Status::already_exists(draft.resource.row(), &draft.name));
    }
    Ok(())
}

/// Refuses an object of a client that is too large to be stored.
pub(super) fn fit_managers(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) -> Outcome {
    let managed = draft.managed.take();
    draft.managed = kept_managers(transaction, draft.stored_as, &draft.new, managed, draft.is_applied)?;
    Ok(())
}
