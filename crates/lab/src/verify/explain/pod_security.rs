//! What the standards of pod security ask of a pod that breaks one.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::{Map, Value, json};

/// What only the standard `restricted` forbids.
// upstream: staging/src/k8s.io/pod-security-admission/policy/ (v1.36), checks of the level restricted
const RESTRICTED: [&str; 5] = [
    "allowPrivilegeEscalation != false",
    "unrestricted capabilities",
    "runAsNonRoot != true",
    "seccompProfile",
    "restricted volume types",
];

/// The violations one by one: they are separated by commas outside parentheses.
fn each(violations: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (at, letter) in violations.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.extend(violations.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(violations.get(start..));
    parts.into_iter().map(str::trim).collect()
}

/// Whether the standard `baseline` allows all of them.
pub(super) fn within_baseline(violations: &str) -> bool {
    each(violations).iter().all(|one| RESTRICTED.iter().any(|known| one.starts_with(known)))
}

/// A change of a pod's spec that does away with all the violations; none where that would take more than security settings.
pub(super) fn secured(spec: &PodSpec, violations: &str) -> Option<Value> {
    let mut change = json!({});
    let mut of_containers = Map::new();
    for violation in each(violations) {
        let name = violation.split(" (").next().unwrap_or(violation);
        match name {
            "allowPrivilegeEscalation != false" => {
                of_containers.insert("allowPrivilegeEscalation".to_owned(), json!(false));
            }
            "unrestricted capabilities" => {
                of_containers.insert("capabilities".to_owned(), json!({ "drop": ["ALL"], "add": null }));
            }
            "non-default capabilities" => {
                of_containers.entry("capabilities").or_insert_with(|| json!({ "add": null }));
            }
            "runAsNonRoot != true" => {
                change["securityContext"]["runAsNonRoot"] = json!(true);
                of_containers.insert("runAsNonRoot".to_owned(), Value::Null);
            }
            "seccompProfile" => {
                change["securityContext"]["seccompProfile"] = json!({ "type": "RuntimeDefault" });
                of_containers.insert("seccompProfile".to_owned(), Value::Null);
            }
            "privileged" => {
                of_containers.insert("privileged".to_owned(), json!(false));
            }
            "host namespaces" => {
                for field in ["hostNetwork", "hostPID", "hostIPC"] {
                    change[field] = Value::Null;
                }
            }
            _ => return None,
        }
    }
    if !of_containers.is_empty() {
        let list = |containers: &[Container]| -> Vec<Value> {
            let one = |container: &Container| json!({ "name": container.name, "securityContext": of_containers });
            containers.iter().map(one).collect()
        };
        change["containers"] = json!(list(&spec.containers));
        if let Some(init) = spec.init_containers.as_deref().filter(|init| !init.is_empty()) {
            change["initContainers"] = json!(list(init));
        }
    }
    Some(change)
}
