//! The operating system of a pod, and what pods of Windows or Linux do without.

// upstream: pkg/apis/core/validation/validation.go validateOS, validateLinux, validateWindows (v1.36)

use serde_json::Value;

use super::Errors;
use super::field::{containers, text};
use crate::schema::Path;

/// Fields of a pod that Windows does not have, with their places.
const OF_PODS: [(bool, &str); 15] = [
    (true, "appArmorProfile"),
    (true, "seLinuxOptions"),
    (false, "hostUsers"),
    (false, "hostPID"),
    (false, "hostIPC"),
    (true, "seccompProfile"),
    (true, "fsGroup"),
    (true, "fsGroupChangePolicy"),
    (true, "sysctls"),
    (false, "shareProcessNamespace"),
    (true, "runAsUser"),
    (true, "runAsGroup"),
    (true, "supplementalGroups"),
    (true, "supplementalGroupsPolicy"),
    (true, "seLinuxChangePolicy"),
];
/// Fields of a container's security context that Windows does not have.
const OF_CONTAINERS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// What does not go with the system that a pod names.
pub(super) fn check(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !spec["os"].is_object() {
        return;
    }
    let place = path.field("os");
    match text(&spec["os"], "name") {
        "" => errors.required(place.field("name"), ""),
        "linux" => linux(spec, path, errors),
        "windows" => windows(spec, path, errors),
        _ => errors.unsupported(place, &spec["os"]["name"], &["linux", "windows"]),
    }
}

fn linux(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let words = "windows options cannot be set for a linux pod";
    let mut of = |owner: &Value, path: &Path<'_>| {
        if owner["securityContext"]["windowsOptions"].is_object() {
            errors.forbidden(path.field("securityContext").field("windowsOptions"), words);
        }
    };
    of(spec, path);
    containers(spec, path, of);
}

fn windows(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let words = "cannot be set for a windows pod";
    let context_path = path.field("securityContext");
    for (in_context, field) in OF_PODS {
        let (owner, path) = if in_context { (&spec["securityContext"], &context_path) } else { (spec, path) };
        // Whether these are set or not, Go cannot tell from false.
        let is_plain = matches!(field, "hostPID" | "hostIPC");
        let given = &owner[field];
        if !given.is_null() && (!is_plain || *given == true) && given.as_array().is_none_or(|list| !list.is_empty()) {
            errors.forbidden(path.field(field), words);
        }
    }
    containers(spec, path, |container, path| {
        let path = path.field("securityContext");
        for field in OF_CONTAINERS {
            if !container["securityContext"][field].is_null() {
                errors.forbidden(path.field(field), words);
            }
        }
    });
}

/// Containers that are processes of their Windows machine: all of a pod, or none.
// upstream: pkg/apis/core/validation/validation.go validateWindowsHostProcessPod (v1.36)
pub(super) fn host_processes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let of = |owner: &Value| owner["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
    let of_pod = of(spec);
    let (mut count, mut processes) = (0, 0);
    containers(spec, path, |container, path| {
        count += 1;
        let own = of(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let fault = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            let context = path.field("securityContext");
            errors.invalid(context.field("windowsOptions").field("hostProcess"), &Value::Bool(own), fault);
        }
        processes += usize::from(own.or(of_pod) == Some(true));
    });
    if processes == 0 {
        return;
    }
    if processes != count {
        let fault = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, &Value::String(String::new()), fault);
    }
    if spec["hostNetwork"] != true {
        let fault = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(path.field("hostNetwork"), &Value::Bool(false), fault);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(spec: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check(spec, &Path::Root.field("spec"), &mut errors);
        host_processes(spec, &Path::Root.field("spec"), &mut errors);
        errors.texts()
    }

    #[test]
    fn systems_have_contexts_of_their_own() {
        let of = |system: &str, of_pod: Value, of_container: Value| {
            faults(
                &json!({ "os": { "name": system }, "securityContext": of_pod, "hostPID": false, "containers": [{ "securityContext": of_container }] }),
            )
        };
        assert_eq!(of("linux", json!({ "runAsUser": 1 }), json!({ "privileged": true })), [""; 0]);
        assert_eq!(of("windows", json!({ "windowsOptions": {} }), json!({})), [""; 0]);
        assert_eq!(
            of("linux", json!({ "windowsOptions": {} }), json!({ "windowsOptions": {} })),
            [
                "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
                "spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
            ]
        );
        assert_eq!(
            of("windows", json!({ "runAsUser": 1 }), json!({ "privileged": false })),
            [
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
                "spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
            ]
        );
        assert_eq!(
            of("x", json!({}), json!({})),
            ["spec.os: Unsupported value: \"x\": supported values: \"linux\", \"windows\""]
        );
        assert_eq!(of("", json!({}), json!({})), ["spec.os.name: Required value"]);
    }

    #[test]
    fn processes_of_the_machine_are_among_themselves() {
        let process = json!({ "securityContext": { "windowsOptions": { "hostProcess": true } } });
        assert_eq!(faults(&json!({ "hostNetwork": true, "containers": [process] })), [""; 0]);
        assert_eq!(
            faults(&json!({ "containers": [process, {}] })),
            [
                "spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers",
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
            ]
        );
    }
}
