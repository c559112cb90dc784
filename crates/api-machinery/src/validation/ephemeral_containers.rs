//! Ephemeral containers: what they may say, and that none goes or changes once it is there.

// upstream: pkg/apis/core/validation/validation.go ValidatePodEphemeralContainersUpdate, validateEphemeralContainers (v1.36)

use std::collections::HashSet;

use serde_json::Value;

use super::container::{self, Named};
use super::{Errors, Place};
use crate::views::{Container, Pod, PodSpec};

/// What belongs to services, which ephemeral containers are none of.
const FORBIDDEN: [&str; 6] = ["ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];

/// A pod whose ephemeral containers are written.
pub fn check(old: &Value, new: &Value, errors: &mut Errors) {
    let spec = Place::<PodSpec<'_>>::of_spec(new);
    let (plain, list) = (*spec, spec.ephemeral_containers());
    let named = Named::of(plain, plain.volumes().map(|volume| (volume.name(), volume)).collect());
    let others: HashSet<&str> =
        plain.containers().chain(plain.init_containers()).map(super::super::views::Container::name).collect();
    let mut seen = others.clone();
    for one in list.each() {
        let container: Place<'_, Container<'_>> = one.cast();
        container::check(plain, &container, &named, errors);
        container::image(&container, errors);
        container::unique(&container, &mut seen, errors);
        let target = one.target_container_name();
        if !target.is_empty() && !others.contains(*target) {
            errors.not_found_text(&target);
        }
        let words = "cannot be set for an Ephemeral Container";
        for field in FORBIDDEN.iter().map(|field| one.field(field)).filter(|field| is_set(field.json)) {
            errors.forbidden(field, words);
        }
        for mount in one.volume_mounts().each() {
            for field in [mount.sub_path(), mount.sub_path_expr()].iter().filter(|field| !field.is_empty()) {
                errors.forbidden(field, words);
            }
        }
    }
    if Pod(old).is_mirror() {
        return errors.forbidden("", "static pods do not support ephemeral containers");
    }
    for had in Pod(old).spec().ephemeral_containers() {
        let name = had.name();
        match plain.ephemeral_containers().named(name) {
            None => errors.forbidden(&list, format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(has) if has != had => {
                errors.forbidden(&list, format!("existing ephemeral containers {name:?} may not be changed\n"));
            }
            Some(_) => {}
        }
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => map.values().any(is_set),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(old: &Value, new: &Value) -> Vec<String> {
        let pod = |ephemeral: &Value| json!({ "spec": { "containers": [{ "name": "main", "image": "i" }], "ephemeralContainers": ephemeral } });
        Errors::found(|errors| check(&pod(old), &pod(new), errors))
    }

    #[test]
    fn they_are_added_and_neither_taken_away_nor_changed() {
        let one = json!({ "name": "look", "image": "busybox", "targetContainerName": "main", "resources": {} });
        assert_eq!(faults(&json!([]), &json!([one])), Vec::<String>::new());
        let removed = faults(&json!([one]), &json!([]));
        assert_eq!(
            removed,
            ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"look\" may not be removed\n"]
        );
        let mut other = one.clone();
        other["image"] = json!("alpine");
        let changed = faults(&json!([one]), &json!([other]));
        assert_eq!(
            changed,
            ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"look\" may not be changed\n"]
        );
    }

    #[test]
    fn they_are_no_services() {
        let wrong = json!([{
            "name": "main", "image": "", "targetContainerName": "nobody", "ports": [{ "containerPort": 80 }],
            "resources": { "requests": { "cpu": "1" } }, "volumeMounts": [{ "name": "v", "mountPath": "/v", "subPath": "a" }],
        }]);
        let found = faults(&json!([]), &wrong);
        for field in ["name", "image", "targetContainerName", "ports", "resources", "volumeMounts[0].subPath"] {
            let start = format!("spec.ephemeralContainers[0].{field}: ");
            assert!(found.iter().any(|fault| fault.starts_with(&start)), "{field}: {found:?}");
        }
    }
}
