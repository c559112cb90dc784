//! Fields that a configuration takes from other managers, and those that it may not take.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/merge/update.go Updater.Apply (v1.36)

use klab_api_machinery::status::Status;
use klab_api_machinery::texts::MAX_BYTES;
use serde_json::Value;

use super::apply::conflict;
use super::fields::Fields;
use super::managed::{Managed, Writer, difference};
use super::place::Place;
use super::typed::{Difference, fields_of, merge};

/// The annotation in which kubectl notes what it applied by itself.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager that may take over what it set by client-side apply before.
pub const KUBECTL: &str = "kubectl";

/// Takes what a manager changes and removes from the fields of the others; refused where that is not allowed.
///
/// # Errors
/// 409 where another manager has a field that is not `allowed` to be taken.
pub fn take_from_others(
    managed: &mut Managed,
    writer: &Writer<'_>,
    changes: &Difference,
    allowed: Option<&Fields>,
) -> Result<(), Status> {
    let own = managed.entry(writer, true).clone();
    let mut conflicts: Vec<(String, Vec<String>)> = Vec::new();
    let mut listed = 0;
    for entry in managed.0.iter_mut().filter(|entry| **entry != own) {
        let seen = writer.seen_in(&entry.api_version, changes);
        let mut disputed = entry.fields.common(&seen.changed);
        entry.fields.subtract(&seen.changed);
        entry.fields.subtract(&seen.removed);
        if let Some(allowed) = allowed {
            disputed.subtract(allowed);
            if !disputed.is_empty() {
                // Each manager's fields may have long paths.
                let paths = if listed < MAX_BYTES { disputed.paths() } else { Vec::new() };
                listed += paths.iter().map(String::len).sum::<usize>();
                conflicts.push((entry.title(), paths));
            }
        }
    }
    if conflicts.is_empty() { Ok(()) } else { Err(conflict(conflicts)) }
}

/// What kubectl owns by an earlier client-side apply: fields of the annotation that the object still has so.
pub fn taken_over(live: &Value, writer: &Writer<'_>, place: Place<'_>) -> Fields {
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
