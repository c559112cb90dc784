//! Ephemeral containers: what they may say, and that none goes or changes once it is there.

// upstream: pkg/apis/core/validation/validation.go ValidatePodEphemeralContainersUpdate, validateEphemeralContainers (v1.36)

use std::collections::HashSet;

use serde_json::Value;

use super::container::Named;
use super::field::{entries, text};
use super::{Errors, container};
use crate::schema::Path;
use crate::views::Pod;

/// What belongs to services, which ephemeral containers are none of.
const FORBIDDEN: [&str; 6] = ["ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];

/// A pod whose ephemeral containers are written.
pub fn check(old: &Value, new: &Value, errors: &mut Errors) {
    let list = Path::Root.field("spec");
    let list = list.field("ephemeralContainers");
    let is_mirror = Pod(old).is_mirror();
    let (old, new) = (&old["spec"], &new["spec"]);
    let volumes = entries(new, "volumes").map(|(_, volume)| (text(volume, "name"), volume)).collect();
    let named = Named::of(new, volumes);
    let others: HashSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| entries(new, list).map(|(_, other)| text(other, "name")))
        .collect();
    let mut seen = others.clone();
    for (at, one) in entries(new, "ephemeralContainers") {
        let path = list.index(at);
        container::check(new, one, &path, &named, errors);
        container::image(one, &path, errors);
        container::unique(one, &path, &mut seen, errors);
        let target = text(one, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(path.field("targetContainerName"), &one["targetContainerName"]);
        }
        let words = "cannot be set for an Ephemeral Container";
        for field in FORBIDDEN.into_iter().filter(|field| is_set(&one[*field])) {
            errors.forbidden(path.field(field), words);
        }
        for (number, mount) in entries(one, "volumeMounts") {
            for field in ["subPath", "subPathExpr"].into_iter().filter(|field| !text(mount, field).is_empty()) {
                errors.forbidden(path.field("volumeMounts").index(number).field(field), words);
            }
        }
    }
    if is_mirror {
        return errors.forbidden("", "static pods do not support ephemeral containers");
    }
    for (_, had) in entries(old, "ephemeralContainers") {
        let name = text(had, "name");
        match entries(new, "ephemeralContainers").find(|(_, one)| text(one, "name") == name) {
            None => errors.forbidden(list, format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some((_, has)) if has != had => {
                errors.forbidden(list, format!("existing ephemeral containers {name:?} may not be changed\n"));
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
