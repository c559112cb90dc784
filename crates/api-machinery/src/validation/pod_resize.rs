//! What the `resize` subresource may change in a pod: amounts of cpu and memory, and no class of service.

// upstream: pkg/apis/core/validation/validation.go ValidatePodResize (v1.36)

use serde_json::Value;

use super::{Errors, Place, pod};
use crate::pod_resources::quality_of_service;
use crate::views::{Container, Pod, PodSpec, Views};

const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// A pod about to be resized; `new` is its next version, and `asked` what the client sent, with other containers perhaps.
pub fn check(old: &Value, new: &Value, asked: &Value, errors: &mut Errors) {
    let (pod, new_pod) = (Place::<Pod<'_>>::root(old), Place::<Pod<'_>>::root(new));
    let (before, spec) = (pod.spec(), new_pod.spec());
    pod::spec(&spec, Some(*new_pod.metadata()), errors);
    if pod.is_mirror() {
        return errors.forbidden("", "static pods cannot be resized");
    }
    if *before.os().name() == "windows" {
        return errors.forbidden("", "windows pods cannot be resized");
    }
    let status = pod.status();
    if quality_of_service(old) != quality_of_service(new) {
        let fault = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(spec, status.qos_class().json, fault);
    }
    let running = Views::clone(&status.container_statuses()).find(|status| status.state().running().is_set());
    if running.is_some_and(|status| !status.resources().is_set()) {
        errors.forbidden(spec, "Pod running on node without support for resize");
    }
    let asked = Pod(asked).spec();
    let main = same_order("containers", &before.containers(), asked.containers(), errors);
    let init = same_order("initContainers", &before.init_containers(), asked.init_containers(), errors);
    if main && init {
        for (before, after) in before.init_containers().each().zip(Views::clone(&spec.init_containers())) {
            container(false, &before, after, &spec, errors);
        }
        for (before, after) in before.containers().each().zip(Views::clone(&spec.containers())) {
            container(true, &before, after, &spec, errors);
        }
    }
}

fn same_order<'a>(
    list: &str,
    old: &Place<'_, Views<'a, Container<'a>>>,
    asked: Views<'_, Container<'_>>,
    errors: &mut Errors,
) -> bool {
    let before = errors.len();
    if old.len() == asked.len() {
        for (container, _) in old.each().zip(asked).filter(|(had, has)| *had.name() != has.name()) {
            errors.forbidden(container.name(), format!("{list} may not be renamed or reordered on resize"));
        }
    } else {
        errors.forbidden(old, format!("{list} may not be added or removed on resize"));
    }
    errors.len() == before
}

fn container(
    is_main: bool,
    before: &Place<'_, Container<'_>>,
    after: Container<'_>,
    spec: &Place<'_, PodSpec<'_>>,
    errors: &mut Errors,
) {
    let is_done = !is_main && *before.restart_policy() != Some("Always");
    let resources = before.resources();
    for field in ["requests", "limits"] {
        let (had, has) = (resources.field(field), &after.resources().0[field]);
        if had.as_object().into_iter().flatten().any(|(name, _)| has.get(name).is_none()) {
            errors.forbidden(had, format!("resource {field} cannot be removed"));
        }
    }
    let (had, mut rest) = (before.json, after.0.clone());
    for field in ["requests", "limits"] {
        for name in RESIZABLE {
            let had = had["resources"][field].get(name);
            match (had, rest["resources"].get_mut(field).and_then(Value::as_object_mut)) {
                (Some(had), Some(map)) => drop(map.insert(name.to_owned(), had.clone())),
                (None, Some(map)) => drop(map.remove(name)),
                (_, None) => {}
            }
        }
        let is_empty = |map: &Value| map.as_object().is_none_or(serde_json::Map::is_empty);
        if is_empty(&rest["resources"][field])
            && is_empty(&had["resources"][field])
            && let Some(resources) = rest["resources"].as_object_mut()
        {
            match had["resources"].get(field) {
                Some(had) => drop(resources.insert(field.to_owned(), had.clone())),
                None => drop(resources.remove(field)),
            }
        }
    }
    if rest != *had {
        if is_main {
            errors.forbidden(spec, "only cpu and memory resources are mutable");
        } else {
            errors.forbidden(before, "only cpu and memory resources for init or sidecar containers are mutable");
        }
    }
    // A container that has ended does not start again.
    let mut policies = after.resize_policy();
    if is_done && **before != after && policies.any(|policy| policy.restart_policy() == "RestartContainer") {
        errors.forbidden(
            before,
            "non-sidecar init containers with a resize policy of RestartContainer cannot be resized",
        );
    }
}
