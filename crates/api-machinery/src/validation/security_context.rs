//! As whom containers run, and what they may do: of a pod, and of one container.

// upstream: pkg/apis/core/validation/validation.go ValidateSecurityContext, validatePodSpecSecurityContext (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{containers, entries, supported, text};
use super::{Errors, file_paths, sysctl};
use crate::schema::Path;

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const MAX_PROFILE_LENGTH: usize = 4095;

/// The `securityContext` of a pod.
pub(super) fn pod(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let context = &spec["securityContext"];
    let path = path.field("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context[field], &path.field(field), errors);
    }
    let list = path.field("supplementalGroups");
    for (at, group) in entries(context, "supplementalGroups") {
        id(group, &list.index(at), errors);
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let fault = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(path.field("shareProcessNamespace"), &json!(true), fault);
    }
    sysctl::check(spec, &path, errors);
    let choice = |field: &str, choices: &[&str], errors: &mut Errors| {
        supported(&context[field], &path.field(field), choices, errors);
    };
    choice("fsGroupChangePolicy", &["Always", "OnRootMismatch"], errors);
    seccomp(&context["seccompProfile"], &path.field("seccompProfile"), errors);
    windows(&context["windowsOptions"], &path.field("windowsOptions"), errors);
    app_armor(&context["appArmorProfile"], &path.field("appArmorProfile"), errors);
    choice("supplementalGroupsPolicy", &["Merge", "Strict"], errors);
    choice("seLinuxChangePolicy", &["MountOption", "Recursive"], errors);
}

/// The `securityContext` of a container, in a pod whose users are those of its machine, or are not.
pub(super) fn container(container: &Value, host_users: bool, path: &Path<'_>, errors: &mut Errors) {
    let context = &container["securityContext"];
    if !context.is_object() {
        return;
    }
    let path = path.field("securityContext");
    for field in ["runAsUser", "runAsGroup"] {
        id(&context[field], &path.field(field), errors);
    }
    let mount = &context["procMount"];
    let mount_path = path.field("procMount");
    supported(mount, &mount_path, &["Default", "Unmasked"], errors);
    if host_users && *mount == "Unmasked" {
        errors.invalid(mount_path, mount, "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp(&context["seccompProfile"], &path.field("seccompProfile"), errors);
    if context["allowPrivilegeEscalation"] == false {
        if context["privileged"] == true {
            let fault = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid_as(path, &shown(context), fault);
        }
        let added = entries(&context["capabilities"], "add").filter(|(_, one)| *one == "CAP_SYS_ADMIN");
        for _ in added {
            let fault = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid_as(path, &shown(context), fault);
        }
    }
    windows(&context["windowsOptions"], &path.field("windowsOptions"), errors);
    app_armor(&context["appArmorProfile"], &path.field("appArmorProfile"), errors);
}

/// Whether the users of a pod are those of its machine.
pub(super) fn has_host_users(spec: &Value) -> bool {
    spec["hostUsers"] != false
}

/// What pods with users of their own do without.
// upstream: pkg/apis/core/validation/validation.go validateHostUsers (v1.36)
pub(super) fn own_users(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if has_host_users(spec) {
        return;
    }
    let words = "when `hostUsers` is false";
    for (field, place) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[field] == true {
            errors.forbidden(path.field(place), words);
        }
    }
    containers(spec, path, |container, path| {
        if entries(container, "volumeDevices").next().is_some() {
            errors.forbidden(path.field("volumeDevices"), words);
        }
    });
}

/// The number of a user or a group.
fn id(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if value.as_i64().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        errors.invalid(path, value, "must be between 0 and 2147483647, inclusive");
    }
}

fn seccomp(profile: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !profile.is_object() {
        return;
    }
    let kind = path.field("type");
    match text(profile, "type") {
        "" => errors.required(kind, "type is required when seccompProfile is set"),
        _ => supported(&profile["type"], &kind, &["Localhost", "RuntimeDefault", "Unconfined"], errors),
    }
    let local = &profile["localhostProfile"];
    let place = path.field("localhostProfile");
    if profile["type"] != "Localhost" {
        if !local.is_null() {
            let shown = format!("{{\"Type\":{},\"LocalhostProfile\":{local}}}", json!(text(profile, "type")));
            errors.invalid_as(place, &shown, "can only be set when seccomp type is Localhost");
        }
    } else if local.is_null() {
        errors.required(place, "must be set when seccomp type is Localhost");
    } else {
        file_paths::descending(local, &place, errors);
    }
}

fn app_armor(profile: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !profile.is_object() {
        return;
    }
    let place = path.field("localhostProfile");
    let local = &profile["localhostProfile"];
    match text(profile, "type") {
        "" => errors.required(path.field("type"), "type is required when appArmorProfile is set"),
        "Localhost" => {
            let name = local.as_str().unwrap_or_default();
            if name != name.trim() {
                errors.invalid(place, local, "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(place, "must be set when AppArmor type is Localhost");
            }
            if name.len() > MAX_PROFILE_LENGTH {
                errors.too_long(place, MAX_PROFILE_LENGTH, "bytes");
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if !local.is_null() {
                errors.invalid(place, local, "can only be set when AppArmor type is Localhost");
            }
        }
        _ => errors.unsupported(path.field("type"), &profile["type"], &PROFILES),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateWindowsSecurityContextOptions (v1.36)
fn windows(options: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = &options["gmsaCredentialSpecName"];
    if let Some(text) = name.as_str() {
        for fault in names::subdomain(text) {
            errors.invalid(path.field("gmsaCredentialSpecName"), name, fault);
        }
    }
    let spec = &options["gmsaCredentialSpec"];
    let fault = match spec.as_str().map(str::len) {
        Some(0) => Some("gmsaCredentialSpec cannot be an empty string"),
        Some(65_537..) => Some("gmsaCredentialSpec size must be under 64 KiB"),
        _ => None,
    };
    if let Some(fault) = fault {
        errors.invalid(path.field("gmsaCredentialSpec"), spec, fault);
    }
    let user = &options["runAsUserName"];
    for fault in user.as_str().map(user_faults).unwrap_or_default() {
        errors.invalid(path.field("runAsUserName"), user, fault);
    }
}

/// What is wrong with the name of a user of Windows.
fn user_faults(name: &str) -> Vec<&'static str> {
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match parts.as_slice() {
        _ if name.is_empty() => return vec!["runAsUserName cannot be an empty string"],
        _ if name.contains(|one: char| one.is_ascii_control()) => {
            return vec!["runAsUserName cannot contain control characters"];
        }
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return vec!["runAsUserName cannot contain more than one backslash"],
    };
    let mut faults = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= 256) {
        faults.push("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_domain(domain)) {
        faults.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    match user.len() {
        0 => faults.push("runAsUserName's User cannot be empty"),
        105.. => faults.push("runAsUserName's User length must not be longer than 104 characters"),
        _ => {}
    }
    if !user.is_empty() && user.chars().all(|one| matches!(one, '.' | ' ')) {
        faults.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|one| "\"/\\:;|=,+*?<>@[]".contains(one)) {
        faults.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    faults
}

/// Whether a text is a domain of NetBIOS or of DNS.
fn is_domain(text: &str) -> bool {
    let netbios = (1..=15).contains(&text.chars().count())
        && !text.starts_with('.')
        && !text.contains(|one| "\\/:*?\"<>|".contains(one));
    netbios || text.split('.').all(|part| names::label(&part.to_lowercase()).is_empty())
}

/// A container's context as Go prints it.
fn shown(context: &Value) -> String {
    const FIELDS: [(&str, &str); 12] = [
        ("Capabilities", "capabilities"),
        ("Privileged", "privileged"),
        ("SELinuxOptions", "seLinuxOptions"),
        ("WindowsOptions", "windowsOptions"),
        ("RunAsUser", "runAsUser"),
        ("RunAsGroup", "runAsGroup"),
        ("RunAsNonRoot", "runAsNonRoot"),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
        ("ProcMount", "procMount"),
        ("SeccompProfile", "seccompProfile"),
        ("AppArmorProfile", "appArmorProfile"),
    ];
    const INNER: [(&str, &[(&str, &str)]); 5] = [
        ("capabilities", &[("Add", "add"), ("Drop", "drop")]),
        ("seLinuxOptions", &[("User", "user"), ("Role", "role"), ("Type", "type"), ("Level", "level")]),
        (
            "windowsOptions",
            &[
                ("GMSACredentialSpecName", "gmsaCredentialSpecName"),
                ("GMSACredentialSpec", "gmsaCredentialSpec"),
                ("RunAsUserName", "runAsUserName"),
                ("HostProcess", "hostProcess"),
            ],
        ),
        ("seccompProfile", &[("Type", "type"), ("LocalhostProfile", "localhostProfile")]),
        ("appArmorProfile", &[("Type", "type"), ("LocalhostProfile", "localhostProfile")]),
    ];
    let list = |value: &Value, fields: &[(&str, &str)], inner: &dyn Fn(&str, &Value) -> String| {
        let shown: Vec<String> =
            fields.iter().map(|(name, field)| format!("\"{name}\":{}", inner(field, &value[*field]))).collect();
        format!("{{{}}}", shown.join(","))
    };
    list(context, &FIELDS, &|field, value| match INNER.iter().find(|(name, _)| *name == field) {
        Some((_, fields)) if value.is_object() => list(value, fields, &|inner, value| {
            // Texts that Go keeps without a pointer are empty where they are not set.
            let plain = field == "seLinuxOptions" || inner == "type";
            if value.is_null() && plain { "\"\"".to_owned() } else { value.to_string() }
        }),
        _ => value.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pod(spec: Value) -> Vec<String> {
        let mut errors = Errors::default();
        pod(&spec, &Path::Root.field("spec"), &mut errors);
        errors.texts().into_iter().map(|text| text.replace("spec.securityContext.", "")).collect()
    }

    fn of_container(context: Value) -> Vec<String> {
        Errors::found(|errors| container(&json!({ "securityContext": context }), true, &Path::Root.field("c"), errors))
    }

    #[test]
    fn pods_run_as_somebody() {
        for (context, wanted) in [
            (
                json!({ "runAsUser": 0, "fsGroup": 2_147_483_647_i64, "supplementalGroups": [1], "seccompProfile": { "type": "RuntimeDefault" } }),
                vec![],
            ),
            (
                json!({ "runAsUser": -1 }),
                vec!["runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"],
            ),
            (
                json!({ "supplementalGroups": [2_147_483_648_i64] }),
                vec!["supplementalGroups[0]: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive"],
            ),
            (
                json!({ "fsGroupChangePolicy": "x" }),
                vec!["fsGroupChangePolicy: Unsupported value: \"x\": supported values: \"Always\", \"OnRootMismatch\""],
            ),
            (
                json!({ "seccompProfile": { "type": "Localhost" } }),
                vec!["seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost"],
            ),
            (
                json!({ "seccompProfile": { "type": "Unconfined", "localhostProfile": "a" } }),
                vec![
                    "seccompProfile.localhostProfile: Invalid value: {\"Type\":\"Unconfined\",\"LocalhostProfile\":\"a\"}: can only be set when seccomp type is Localhost",
                ],
            ),
            (
                json!({ "seccompProfile": { "type": "x" } }),
                vec![
                    "seccompProfile.type: Unsupported value: \"x\": supported values: \"Localhost\", \"RuntimeDefault\", \"Unconfined\"",
                ],
            ),
            (
                json!({ "appArmorProfile": { "type": "Localhost", "localhostProfile": " a" } }),
                vec!["appArmorProfile.localhostProfile: Invalid value: \" a\": must not be padded with whitespace"],
            ),
            (
                json!({ "windowsOptions": { "runAsUserName": "a\\b\\c" } }),
                vec![
                    "windowsOptions.runAsUserName: Invalid value: \"a\\\\b\\\\c\": runAsUserName cannot contain more than one backslash",
                ],
            ),
            (json!({ "windowsOptions": { "runAsUserName": "NT AUTHORITY\\NETWORK SERVICE" } }), vec![]),
        ] {
            assert_eq!(of_pod(json!({ "securityContext": context })), wanted, "{context}");
        }
        assert_eq!(
            of_pod(json!({ "shareProcessNamespace": true, "hostPID": true })),
            ["shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"]
        );
    }

    #[test]
    fn containers_do_not_escalate_in_secret() {
        assert_eq!(
            of_container(json!({ "privileged": true, "runAsUser": 5, "capabilities": { "add": ["NET_ADMIN"] } })),
            [""; 0]
        );
        let shown = concat!(
            "{\"Capabilities\":{\"Add\":[\"CAP_SYS_ADMIN\"],\"Drop\":null},\"Privileged\":true,\"SELinuxOptions\":null,",
            "\"WindowsOptions\":null,\"RunAsUser\":null,\"RunAsGroup\":null,\"RunAsNonRoot\":null,",
            "\"ReadOnlyRootFilesystem\":null,\"AllowPrivilegeEscalation\":false,\"ProcMount\":null,",
            "\"SeccompProfile\":null,\"AppArmorProfile\":null}",
        );
        let context = json!({ "allowPrivilegeEscalation": false, "privileged": true, "capabilities": { "add": ["CAP_SYS_ADMIN"] } });
        assert_eq!(
            of_container(context),
            [
                format!(
                    "c.securityContext: Invalid value: {shown}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
                ),
                format!(
                    "c.securityContext: Invalid value: {shown}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
                ),
            ]
        );
        assert_eq!(
            of_container(json!({ "procMount": "Unmasked" })),
            ["c.securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`"]
        );
    }
}
