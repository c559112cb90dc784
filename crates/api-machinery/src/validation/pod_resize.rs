//! What the `resize` subresource may change in a pod: amounts of cpu and memory, and no class of service.

// upstream: pkg/apis/core/validation/validation.go ValidatePodResize (v1.36)

use serde_json::Value;

use super::field::{entries, text};
use super::{Errors, pod};
use crate::pod_resources::quality_of_service;
use crate::schema::Path;
use crate::views::Pod;

const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// A pod about to be resized; `new` is its next version, and `asked` what the client sent, with other containers perhaps.
pub fn check(old: &Value, new: &Value, asked: &Value, errors: &mut Errors) {
    let spec = Path::Root.field("spec");
    pod::spec(&new["spec"], Some(&new["metadata"]), &spec, errors);
    if Pod(old).is_mirror() {
        return errors.forbidden("", "static pods cannot be resized");
    }
    if old["spec"]["os"]["name"] == "windows" {
        return errors.forbidden("", "windows pods cannot be resized");
    }
    if quality_of_service(old) != quality_of_service(new) {
        errors.invalid(spec, &old["status"]["qosClass"], "Pod QOS Class may not change as a result of resizing");
    }
    let statuses = &old["status"]["containerStatuses"];
    let running = statuses.as_array().into_iter().flatten().find(|status| status["state"]["running"].is_object());
    if running.is_some_and(|status| !status["resources"].is_object()) {
        errors.forbidden(spec, "Pod running on node without support for resize");
    }
    if !same_order(old, asked, &spec, errors) {
        return;
    }
    for list in ["initContainers", "containers"] {
        let path = spec.field(list);
        for (at, before) in entries(&old["spec"], list) {
            container(list, before, &new["spec"][list][at], &path.index(at), errors);
        }
    }
}

fn same_order(old: &Value, asked: &Value, spec: &Path<'_>, errors: &mut Errors) -> bool {
    let mut same = true;
    for list in ["containers", "initContainers"] {
        let path = spec.field(list);
        let (had, have) = (entries(&old["spec"], list).count(), entries(&asked["spec"], list).count());
        if had != have {
            errors.forbidden(path, format!("{list} may not be added or removed on resize"));
            same = false;
            continue;
        }
        for (at, container) in entries(&old["spec"], list) {
            if asked["spec"][list][at]["name"] != container["name"] {
                let message = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(path.index(at).field("name"), message);
                same = false;
            }
        }
    }
    same
}

fn container(list: &str, before: &Value, after: &Value, path: &Path<'_>, errors: &mut Errors) {
    let spec = Path::Root.field("spec");
    let is_done = list != "containers" && text(before, "restartPolicy") != "Always";
    let resources = path.field("resources");
    for field in ["requests", "limits"] {
        let (had, have) = (&before["resources"][field], &after["resources"][field]);
        let removed = had.as_object().into_iter().flatten().any(|(name, _)| have.get(name).is_none());
        if removed {
            errors.forbidden(resources.field(field), format!("resource {field} cannot be removed"));
        }
    }
    let mut rest = after.clone();
    for field in ["requests", "limits"] {
        for name in RESIZABLE {
            let had = before["resources"][field].get(name);
            match (had, rest["resources"].get_mut(field).and_then(Value::as_object_mut)) {
                (Some(had), Some(map)) => drop(map.insert(name.to_owned(), had.clone())),
                (None, Some(map)) => drop(map.remove(name)),
                (_, None) => {}
            }
        }
        let is_empty = |map: &Value| map.as_object().is_none_or(serde_json::Map::is_empty);
        if is_empty(&rest["resources"][field])
            && is_empty(&before["resources"][field])
            && let Some(resources) = rest["resources"].as_object_mut()
        {
            match before["resources"].get(field) {
                Some(had) => drop(resources.insert(field.to_owned(), had.clone())),
                None => drop(resources.remove(field)),
            }
        }
    }
    if rest != *before {
        if list == "containers" {
            errors.forbidden(spec, "only cpu and memory resources are mutable");
        } else {
            errors.forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable");
        }
    }
    // A container that has ended does not start again.
    let mut policies = after["resizePolicy"].as_array().into_iter().flatten();
    if is_done && before != after && policies.any(|policy| policy["restartPolicy"] == "RestartContainer") {
        errors
            .forbidden(path, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized");
    }
}
