//! The one path every create and update takes, under the cluster's lock: for each operation the list of its stages.
//!
//! An admission step is a function in `stages.rs` and an entry in a list; one for a single kind is an arm in `kind_stages.rs`.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::{self as kinds, ResourceId};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::commit::commit_managed;
use super::decode::{decode, decode_changed};
use super::draft::Draft;
use super::metadata;
use super::root_certificate::root_certificate;
use super::stages::{
    admit_change, admit_claim_status, admit_dynamically, admit_new, ask_guard, assign_fields, carry_over, charge_quota,
    check_parents, check_pod_security, check_room, check_room_to_grow, choose_name, complete, convert_for_storage,
    count_generation, finish_deletion, fit_managers, judge_dynamically, keep_annotations, keep_asked, keep_unchanged,
    limit_kinds, prepare, refuse_existing, refuse_invalid, restrict_change, restrict_new, select_part, set_defaults,
    set_initial_status, stamp, validate, validate_ephemeral_containers, validate_resize, validate_status,
    validate_version, warn,
};
use crate::custom_versions::live;
use crate::patch::Managed;
use crate::transaction::{Transaction, WriteOptions};

/// A step of a write: it changes the new version, or refuses the write.
type Stage = fn(&mut Transaction<'_>, &mut Draft<'_>) -> Result<(), Status>;

/// A new object: `POST`, and server-side apply where there is none.
const CREATE: &[Stage] = &[
    choose_name,
    check_parents,
    stamp,
    set_initial_status,
    set_defaults,
    ask_guard,
    prepare,
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
        consultation: None,
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

/// Makes a body one of the object its path names.
pub(crate) fn address(resource: ResourceId, namespace: &str, name: &str, value: &mut Value) -> Result<(), Status> {
    metadata::address(resource.row(), namespace, value)?;
    metadata::check_name(name, value)?;
    value["metadata"]["name"] = json!(name);
    Ok(())
}

/// Stores an object that a patch has changed and that is decoded.
pub(crate) fn store_patched(
    transaction: &mut Transaction<'_>,
    current: &Arc<Object>,
    part: Part,
    namespace: &str,
    old: &Value,
    mut new: Value,
) -> Result<Arc<Object>, Status> {
    address(current.resource, namespace, &current.name, &mut new)?;
    write_over(transaction, current, part, old, new, None)
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
