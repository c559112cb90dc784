//! The one path every write takes, under the cluster's lock: for each operation the list of its stages.
//!
//! An admission step is a function in `stages.rs` and an entry in a list; one for a single kind is an arm in `kind_stages.rs`.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::{self as kinds, ResourceId};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::apply::{
    Configuration, Merge, address_configured, check_configured_fields, check_configured_kind, check_configured_version,
    check_manager, compare_versions, decode_merged, drop_unwanted, merge_configuration, note_last_applied, take_fields,
};
use super::commit::commit_managed;
use super::decode::{decode, decode_changed};
use super::delete::{
    Removal, ask_about_removal, check_preconditions, choose_finalizers, end_namespace, end_object, end_pod,
    protect_namespaces, wait_for_finalizers,
};
use super::draft::Draft;
use super::metadata;
use super::patch::{Patched, address_patched, carry_out, check_media_type, check_patched_kind, decode_patched};
use super::root_certificate::root_certificate;
use super::scale::{
    ScaleChange, Scaling, ask_about_scale, change_scale, check_replicas, check_scaled_object, scale_of,
};
use super::stages::{
    admit_change, admit_claim_status, admit_dynamically, admit_new, ask_guard, assign_fields, carry_over, charge_quota,
    check_parents, check_pod_of_namespace, check_pod_security, check_room, check_room_to_grow, choose_name, complete,
    convert_for_storage, count_generation, drop_disabled, finish_deletion, fit_managers, judge_dynamically,
    keep_annotations, keep_asked, keep_unchanged, limit_kinds, prepare, refuse_existing, refuse_invalid,
    restrict_change, restrict_new, select_part, set_defaults, set_initial_status, stamp, validate,
    validate_ephemeral_containers, validate_resize, validate_status, validate_version, warn,
};
use crate::custom_versions::{in_own_version, live};
use crate::transaction::{DeleteOptions, Deleted, Transaction, WriteOptions};
use klab_fields::{Managed, Patch};

/// A step of a write: it changes the new version, or refuses the write.
type Stage = fn(&mut Transaction<'_>, &mut Draft<'_>) -> Result<(), Status>;
/// A step from a patch, a configuration or a Scale to a version, or of a deletion.
type PatchStage = fn(&mut Transaction<'_>, &mut Patched) -> Result<(), Status>;
type ConfigurationStage = fn(&mut Transaction<'_>, &mut Configuration<'_>) -> Result<(), Status>;
type MergeStage = fn(&mut Transaction<'_>, &mut Merge<'_, '_>) -> Result<(), Status>;
type ScaleStage = fn(&mut Transaction<'_>, &mut Scaling<'_, '_>) -> Result<(), Status>;
type RemovalStage = fn(&mut Transaction<'_>, &mut Removal<'_>) -> Result<(), Status>;

/// A new object: `POST`, and server-side apply where there is none.
const CREATE: &[Stage] = &[
    choose_name,
    check_parents,
    stamp,
    set_initial_status,
    set_defaults,
    ask_guard,
    prepare,
    drop_disabled,
    assign_fields,
    admit_new,
    admit_dynamically,
    complete,
    validate,
    validate_version,
    refuse_invalid,
    warn,
    limit_kinds,
    restrict_new,
    check_pod_security,
    check_pod_of_namespace,
    judge_dynamically,
    convert_for_storage,
    charge_quota,
    check_room,
    refuse_existing,
    fit_managers,
];

/// The next version of an object: `PUT`, patches and server-side apply, and a Scale, once they are carried out.
const UPDATE: &[Stage] = &[
    carry_over,
    select_part,
    set_defaults,
    ask_guard,
    prepare,
    drop_disabled,
    assign_fields,
    admit_change,
    admit_dynamically,
    complete,
    validate,
    validate_version,
    refuse_invalid,
    warn,
    limit_kinds,
    count_generation,
    restrict_change,
    check_pod_security,
    check_pod_of_namespace,
    judge_dynamically,
    convert_for_storage,
    keep_unchanged,
    finish_deletion,
    check_room_to_grow,
    charge_quota,
    fit_managers,
];

/// The status of an object.
const STATUS: &[Stage] = &[
    carry_over,
    select_part,
    set_defaults,
    ask_guard,
    assign_fields,
    admit_dynamically,
    validate_version,
    admit_claim_status,
    validate_status,
    refuse_invalid,
    restrict_change,
    judge_dynamically,
    convert_for_storage,
    keep_unchanged,
    finish_deletion,
    check_room_to_grow,
    fit_managers,
];

/// The finalizers of a namespace.
const FINALIZE: &[Stage] = &[
    carry_over,
    select_part,
    set_defaults,
    ask_guard,
    assign_fields,
    admit_dynamically,
    validate_version,
    refuse_invalid,
    count_generation,
    judge_dynamically,
    convert_for_storage,
    keep_unchanged,
    finish_deletion,
    check_room_to_grow,
    charge_quota,
    fit_managers,
];

/// The ephemeral containers of a pod.
const EPHEMERAL_CONTAINERS: &[Stage] = &[
    carry_over,
    select_part,
    set_defaults,
    ask_guard,
    drop_disabled,
    assign_fields,
    admit_dynamically,
    validate_version,
    validate_ephemeral_containers,
    refuse_invalid,
    count_generation,
    check_pod_security,
    judge_dynamically,
    convert_for_storage,
    keep_unchanged,
    finish_deletion,
    check_room_to_grow,
    charge_quota,
    fit_managers,
];

/// The resources of a pod's containers.
const RESIZE: &[Stage] = &[
    carry_over,
    keep_asked,
    select_part,
    set_defaults,
    ask_guard,
    assign_fields,
    admit_change,
    keep_annotations,
    admit_dynamically,
    validate_version,
    validate_resize,
    refuse_invalid,
    count_generation,
    restrict_change,
    check_pod_security,
    judge_dynamically,
    convert_for_storage,
    keep_unchanged,
    finish_deletion,
    check_room_to_grow,
    charge_quota,
    fit_managers,
];

/// What a patch makes of an object. The next version then passes the stages of its part.
const PATCH: &[PatchStage] = &[carry_out, check_media_type, check_patched_kind, decode_patched, address_patched];

/// A configuration of server-side apply. Where there is no object, it then passes the stages of a new one.
const CONFIGURE: &[ConfigurationStage] =
    &[check_manager, check_configured_kind, check_configured_fields, address_configured];

/// What a configuration makes of an object. The next version then passes the stages of its part.
const APPLY: &[MergeStage] = &[
    merge_configuration,
    drop_unwanted,
    decode_merged,
    compare_versions,
    check_configured_version,
    take_fields,
    note_last_applied,
];

/// What a Scale makes of a workload. The next version then passes the stages of an update.
const SCALE: &[ScaleStage] = &[change_scale, ask_about_scale, check_scaled_object, check_replicas];

/// A deletion. An object that no stage has ended waits for its finalizers.
const DELETE: &[RemovalStage] = &[
    protect_namespaces,
    check_preconditions,
    ask_about_removal,
    end_namespace,
    choose_finalizers,
    end_pod,
    end_object,
];

/// Takes a version through the stages, and stores it.
fn run(transaction: &mut Transaction<'_>, stages: &[Stage], mut draft: Draft<'_>) -> Result<Arc<Object>, Status> {
    for stage in stages {
        stage(transaction, &mut draft)?;
        if let Some(settled) = draft.settled.take() {
            return Ok(settled);
        }
    }
    let object = commit_managed(transaction, draft.stored_as, draft.new, draft.managed);
    if let Some(addresses) = draft.addresses.filter(|_| !transaction.options.dry_run) {
        transaction.state.addresses = Some(addresses);
    }
    Ok(object)
}

/// Creates an object from a decoded value. `applied` are the managers of its fields if it comes from server-side apply.
pub(crate) fn insert(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    value: Value,
    applied: Option<Managed>,
) -> Result<Arc<Object>, Status> {
    let object = run(transaction, CREATE, Draft::new(resource, namespace, value, applied))?;
    if resource == kinds::NAMESPACES && !transaction.options.dry_run {
        populate_namespace(transaction, &object.name);
    }
    Ok(object)
}

/// Stores `new` as the next version of `current` (whose JSON is `old`), after all rules.
pub(crate) fn write_over(
    transaction: &mut Transaction<'_>,
    current: &Arc<Object>,
    part: Part,
    old: &Value,
    new: Value,
    applied: Option<Managed>,
) -> Result<Arc<Object>, Status> {
    let stages = match part {
        Part::Main => UPDATE,
        Part::Status => STATUS,
        Part::Finalize => FINALIZE,
        Part::EphemeralContainers => EPHEMERAL_CONTAINERS,
        Part::Resize => RESIZE,
    };
    run(transaction, stages, Draft::over(current, part, old, new, applied))
}

/// What the controllers of a real cluster put into each new namespace: the account pods run as by default and the
/// certificate they trust. Made with the namespace, so that no pod has to wait for them.
fn populate_namespace(transaction: &mut Transaction<'_>, namespace: &str) {
    // Controllers may, even where the maker of the namespace may not.
    let options = WriteOptions {
        manager: "kube-controller-manager",
        client: false,
        guard: None,
        pending_webhooks: None,
        ..transaction.options.clone()
    };
    let mut own = Transaction::new(transaction.state, transaction.now, &options);
    let account = json!({ "metadata": { "name": "default" } });
    let config_map = root_certificate(&own.state.root_certificate);
    for (resource, value) in [(kinds::SERVICE_ACCOUNTS, account), (kinds::CONFIG_MAPS, config_map)] {
        let made = create(&mut own, resource, namespace, value);
        debug_assert!(made.is_ok(), "{made:?}");
    }
}

/// Creates an object.
pub(crate) fn create(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    mut value: Value,
) -> Result<Arc<Object>, Status> {
    let row = resource.row();
    decode(transaction, resource, &mut value).map_err(|fault| fault.of_body(row))?;
    metadata::address(row, namespace, &mut value)?;
    insert(transaction, resource, namespace, value, None)
}

/// Replaces an object by what a client sent.
pub(crate) fn replace(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    part: Part,
    namespace: &str,
    name: &str,
    mut value: Value,
) -> Result<Arc<Object>, Status> {
    let row = resource.row();
    decode(transaction, resource, &mut value).map_err(|fault| fault.of_body(row))?;
    metadata::address(row, namespace, &mut value)?;
    metadata::check_name(name, &value)?;
    let current = live(transaction, resource, namespace, name)?;
    let old = current.value();
    metadata::check_uid(row, &old, &value)?;
    write_over(transaction, &current, part, &old, value, None)
}

/// Changes an object in place.
pub(crate) fn modify(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    part: Part,
    namespace: &str,
    name: &str,
    change: impl FnOnce(&mut Value),
) -> Result<Arc<Object>, Status> {
    let current = transaction.existing(resource, namespace, name)?;
    let resource = current.resource;
    let old = current.value();
    let mut value = (*old).clone();
    change(&mut value);
    decode_changed(transaction, resource, part, &old, &mut value).map_err(|fault| fault.of_body(resource.row()))?;
    metadata::address(resource.row(), namespace, &mut value)?;
    write_over(transaction, &current, part, &old, value, None)
}

/// Changes an object by a patch other than server-side apply.
pub(crate) fn patch(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    part: Part,
    namespace: &str,
    name: &str,
    patch: Patch,
) -> Result<Arc<Object>, Status> {
    let mut patched = Patched::of(transaction, resource, namespace, name, patch)?;
    PATCH.iter().try_for_each(|stage| stage(transaction, &mut patched))?;
    write_over(transaction, &patched.current, part, &patched.old, patched.new, None)
}

/// Applies a configuration; creates the object if there is none. Also says whether it did.
pub(crate) fn apply(
    transaction: &mut Transaction<'_>,
    mut applied: Configuration<'_>,
) -> Result<(Arc<Object>, bool), Status> {
    CONFIGURE.iter().try_for_each(|stage| stage(transaction, &mut applied))?;
    let (resource, namespace, part) = (applied.resource, applied.namespace, applied.part);
    let Some(current) = applied.current(transaction)? else {
        let (value, managed) = applied.into_new(transaction)?;
        return Ok((insert(transaction, resource, namespace, value, Some(managed))?, true));
    };
    let mut merge = Merge::of(transaction, applied, current)?;
    APPLY.iter().try_for_each(|stage| stage(transaction, &mut merge))?;
    let Merge { current, live, merged, managed, .. } = merge;
    Ok((write_over(transaction, &current, part, &live, merged, Some(managed))?, false))
}

/// Changes the Scale of a workload, and returns the new one.
pub(crate) fn scale(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    name: &str,
    change: &ScaleChange<'_>,
) -> Result<Value, Status> {
    let mut scaling = Scaling::of(transaction, resource, namespace, name, change)?;
    SCALE.iter().try_for_each(|stage| stage(transaction, &mut scaling))?;
    let (current, old, paths) = (Arc::clone(&scaling.current), Arc::clone(&scaling.old), scaling.paths.clone());
    let (new, managed) = scaling.scaled();
    let written = write_over(transaction, &current, Part::Main, &old, new, Some(managed))?;
    let written = in_own_version(transaction, resource, written)?;
    Ok(scale_of(resource, &paths, &written.value()))
}

/// Deletes an object, or marks it for deletion.
pub(crate) fn delete(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    let mut removal = Removal::of(transaction, resource, namespace, name, options)?;
    for stage in DELETE {
        stage(transaction, &mut removal)?;
        if let Some(ended) = removal.ended.take() {
            return Ok(ended);
        }
    }
    Ok(wait_for_finalizers(transaction, removal))
}
