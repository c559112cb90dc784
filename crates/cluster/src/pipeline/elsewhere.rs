//! How a write looks in the versions in which other managers own fields of an object.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/versionconverter.go; structured-merge-diff
// merge/update.go update: what was changed is compared in each manager's version (v1.36)

use std::sync::LazyLock;

use klab_api_machinery::object::Object;
use klab_api_machinery::registry;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use serde_json::Value;

use crate::custom_versions::convert;
use crate::transaction::Transaction;
use klab_fields::{Managed, Writer, difference, track};

/// What becomes of the managers in a write that is no server-side apply: [`track`], in the version that is written.
pub(crate) fn track_in_version(
    current: Option<(&Object, &Value)>,
    new: &mut Value,
    writer: &Writer<'_>,
) -> Option<Managed> {
    let Some(second) = Some(writer.resource).filter(|served| served.row().stored_as.is_some()) else {
        return track(current, new, writer);
    };
    let mut shown = registry::served(second, new.clone());
    new["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
    let old = current.map(|(_, old)| registry::served(second, old.clone()));
    track(current.map(|(current, _)| current).zip(old.as_ref()), &mut shown, writer)
}

/// Notes for a writer how the write looks in other versions: of kinds that have two, and where a webhook converts
/// objects.
///
/// # Errors
/// What the webhook or its answer lacks, or that it has to be asked first.
pub(crate) fn look_elsewhere(
    transaction: &Transaction<'_>,
    writer: &mut Writer<'_>,
    current: &Object,
    old: &Value,
    new: &Value,
) -> Result<(), Status> {
    if !current.resource.row().custom {
        look_at_both(writer, current, old, new);
        return Ok(());
    }
    let Some(definition) = writer.definition.clone().filter(|definition| definition.conversion.is_some()) else {
        return Ok(());
    };
    if transaction.options.pending_webhooks.is_none() {
        return Ok(());
    }
    for version in other_versions(writer, current) {
        let known = definition.versions.iter().find(|known| known.id.row().api_version() == version);
        let Some(known) = known else { continue };
        let there = Writer { resource: known.id, ..writer.clone() };
        let (old, new) = (convert(transaction, known.id, old.clone())?, convert(transaction, known.id, new.clone())?);
        writer.elsewhere.push((version, difference(&old, &new, &there)));
    }
    Ok(())
}

/// The versions in which others own fields.
fn other_versions(writer: &Writer<'_>, current: &Object) -> Vec<String> {
    let own = writer.resource.row().api_version();
    let mut versions: Vec<String> = Managed::of(current).0.into_iter().map(|entry| entry.api_version).collect();
    versions.sort();
    versions.dedup();
    versions.retain(|version| *version != own);
    versions
}

/// Kinds that are served in a second version or group.
static SECOND: LazyLock<Vec<ResourceId>> =
    LazyLock::new(|| ResourceId::fixed().filter(|id| id.row().stored_as.is_some()).collect());

/// Notes how a write of a kind with a second version looks in the other one.
fn look_at_both(writer: &mut Writer<'_>, current: &Object, old: &Value, new: &Value) {
    let stored = current.resource;
    let Some(second) = SECOND.iter().copied().find(|id| id.row().stored_as == Some(stored)) else { return };
    for version in other_versions(writer, current) {
        let known = [stored, second].into_iter().find(|id| id.row().api_version() == version);
        let Some(known) = known else { continue };
        let there = Writer { resource: known, ..writer.clone() };
        let (old, new) = (registry::served(known, old.clone()), registry::served(known, new.clone()));
        writer.elsewhere.push((version, difference(&old, &new, &there)));
    }
}
