//! Refusals of server-side apply: configurations of another kind, unknown fields, conflicts.

use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::faults::faults;
use super::place::Root;

/// 400: a configuration of another kind than the path's.
pub fn wrong_kind(config: &Value) -> Status {
    let text = |field: &str| config[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let shown = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
    Status::bad_request(format!("invalid object type: {shown}, Kind={kind}"))
}

/// Refuses fields that a kind does not have, and values of other types. `schema` is that of a custom resource.
///
/// # Errors
/// 500, as server-side apply answers it.
pub fn check_types(api_version: &str, kind: &str, schema: Option<&Value>, config: &Value) -> Result<(), Status> {
    let root = Root::new(api_version, kind, schema);
    let text = match faults(config, root.place()).as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    Err(untyped(api_version, kind, config, &text))
}

/// 500: a configuration that does not fit its kind, for the reason `text`.
pub fn untyped(api_version: &str, kind: &str, config: &Value, text: &str) -> Status {
    let metadata = |field: &str| config["metadata"][field].as_str().unwrap_or_default();
    let before = if api_version.contains('/') { "" } else { "/" };
    Status::new(
        500,
        "",
        format!(
            "failed to create typed patch object ({}/{}; {before}{api_version}, Kind={kind}): {text}",
            metadata("namespace"),
            metadata("name"),
        ),
    )
}

/// 422: a configuration whose request names no manager.
pub fn no_manager() -> Status {
    let message = "Required value: is required for apply patch";
    let mut status =
        Status::new(422, "Invalid", format!("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: {message}"));
    status.details = json!({
        "group": "meta.k8s.io", "kind": "PatchOptions",
        "causes": [{ "reason": "FieldValueRequired", "message": message, "field": "fieldManager" }],
    });
    status
}

/// 409: each manager that has disputed fields, with their paths.
pub(crate) fn conflict(mut conflicts: Vec<(String, Vec<String>)>) -> Status {
    conflicts.sort();
    let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
    let message = match conflicts.as_slice() {
        [(manager, paths)] if paths.len() == 1 => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths[0])
        }
        many => {
            let parts: Vec<String> = many
                .iter()
                .map(|(manager, paths)| {
                    let list: Vec<String> = paths.iter().map(|path| format!("- {path}")).collect();
                    format!("conflicts with {manager}:\n{}", list.join("\n"))
                })
                .collect();
            format!("Apply failed with {count} conflicts: {}", parts.join("\n"))
        }
    };
    let causes: Vec<Value> = conflicts
        .iter()
        .flat_map(|(manager, paths)| {
            paths.iter().map(move |path| {
                json!({ "reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": path })
            })
        })
        .collect();
    let mut status = Status::new(409, "Conflict", message);
    status.details = json!({ "causes": causes });
    status
}
