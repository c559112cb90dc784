//! What webhooks and policies have made of an object.

use klab_api_machinery::registry;
use klab_api_machinery::schema::schema;
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::forbidden::internal;
use crate::dynamic_admission::request::Request;

/// Takes over an object that somebody has changed: in canonical form, with its defaults, and with the identity it had.
pub(crate) fn take_changed(request: &Request<'_>, object: &mut Value, mut changed: Value) -> Result<(), Status> {
    if request.kind.is_some() {
        *object = changed;
        return Ok(());
    }
    let row = request.resource.row();
    let tidied = match schema().kind(&row.api_version(), row.kind) {
        Some(id) => schema().tidy(id, &mut changed),
        None => schema().tidy_custom(&mut changed),
    };
    tidied.map_err(|mismatch| internal(&mismatch.to_string()))?;
    for field in ["apiVersion", "kind"] {
        changed[field] = object[field].clone();
    }
    if !changed["metadata"].is_object() {
        changed["metadata"] = json!({});
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation"] {
        match (object["metadata"].get(field), changed["metadata"].as_object_mut()) {
            (Some(had), Some(metadata)) => drop(metadata.insert(field.to_owned(), had.clone())),
            (None, Some(metadata)) => drop(metadata.remove(field)),
            (_, None) => {}
        }
    }
    if let Some(fill) = registry::of(request.resource).defaults {
        fill(&mut changed);
    }
    *object = changed;
    Ok(())
}
