//! The operating system of a pod, and what pods of Windows or Linux do without.

// upstream: pkg/apis/core/validation/validation.go validateOS, validateLinux, validateWindows (v1.36)

use serde_json::{Value, json};

use super::{Errors, Place};
use crate::views::{PodSpec, WindowsSecurityContextOptions};

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
pub(super) fn check(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let system = spec.os();
    if !system.is_set() {
        return;
    }
    match *system.name() {
        "" => errors.required(system.name(), ""),
        "linux" => linux(spec, errors),
        "windows" => windows(spec, errors),
        _ => errors.unsupported(system, system.name().json, &["linux", "windows"]),
    }
}

fn linux(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let mut refuse = |options: Place<'_, WindowsSecurityContextOptions<'_>>| {
        options.absent("windows options cannot be set for a linux pod", errors);
    };
    refuse(spec.security_context().windows_options());
    spec.each_container(|container| refuse(container.security_context().windows_options()));
}

fn windows(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let words = "cannot be set for a windows pod";
    let (context, spec_json) = (spec.security_context().cast(), spec.cast());
    for (in_context, field) in OF_PODS {
        let owner: &Place<'_, &Value> = if in_context { &context } else { &spec_json };
        let given = owner.field(field);
        // Whether these are set or not, Go cannot tell from false.
        let is_plain = matches!(field, "hostPID" | "hostIPC");
        if given.is_set() && (!is_plain || **given == true) && given.as_array().is_none_or(|list| !list.is_empty()) {
            errors.forbidden(given, words);
        }
    }
    spec.each_container(|container| {
        let context = container.security_context();
        for field in OF_CONTAINERS.iter().map(|field| context.field(field)).filter(super::place::Place::is_set) {
            errors.forbidden(field, words);
        }
    });
}

/// Containers that are processes of their Windows machine: all of a pod, or none.
// upstream: pkg/apis/core/validation/validation.go validateWindowsHostProcessPod (v1.36)
pub(super) fn host_processes(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let of_pod = *spec.security_context().windows_options().host_process();
    let (mut count, mut processes) = (0, 0);
    spec.each_container(|container| {
        count += 1;
        let context = container.security_context();
        let options = context.windows_options();
        let own = options.host_process();
        if let (Some(pod), Some(_)) = (of_pod, *own)
            && of_pod != *own
        {
            let fault = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.invalid_at(&own, fault);
        }
        processes += usize::from(own.or(of_pod) == Some(true));
    });
    if processes == 0 {
        return;
    }
    if processes != count {
        let fault = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(spec, &json!(""), fault);
    }
    if !*spec.host_network() {
        let fault = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(spec.host_network(), &json!(false), fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Path;

    fn faults(spec: &Value) -> Vec<String> {
        let spec = Place::new(Path::Root.field("spec"), spec);
        Errors::found(|errors| {
            check(&spec, errors);
            host_processes(&spec, errors);
        })
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
