//! As whom containers run, and what they may do: of a pod, and of one container.

// upstream: pkg/apis/core/validation/validation.go ValidateSecurityContext, validatePodSpecSecurityContext (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::{Errors, Place, file_paths, sysctl};
use crate::views::{AppArmorProfile, PodSpec, SeccompProfile, SecurityContext, WindowsSecurityContextOptions};

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const MAX_PROFILE_LENGTH: usize = 4095;

/// The `securityContext` of a pod.
pub(super) fn pod(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let context = spec.security_context();
    id(&context.fs_group(), errors);
    id(&context.run_as_user(), errors);
    id(&context.run_as_group(), errors);
    context.supplemental_groups().each().for_each(|group| id(&group, errors));
    if *spec.share_process_namespace() == Some(true) && *spec.host_pid() {
        let fault = "ShareProcessNamespace and HostPID cannot both be enabled";
        let place = spec.share_process_namespace();
        errors.invalid_at(&place.called(context.field("shareProcessNamespace").path), fault);
    }
    sysctl::check(spec, errors);
    context.fs_group_change_policy().supported(&["Always", "OnRootMismatch"], errors);
    seccomp(&context.seccomp_profile(), errors);
    windows(&context.windows_options(), errors);
    app_armor(&context.app_armor_profile(), errors);
    context.supplemental_groups_policy().supported(&["Merge", "Strict"], errors);
    context.se_linux_change_policy().supported(&["MountOption", "Recursive"], errors);
}

/// The `securityContext` of a container, in a pod whose users are those of its machine, or are not.
pub(super) fn container(context: &Place<'_, SecurityContext<'_>>, host_users: bool, errors: &mut Errors) {
    if !context.is_set() {
        return;
    }
    id(&context.run_as_user(), errors);
    id(&context.run_as_group(), errors);
    let mount = context.proc_mount();
    mount.supported(&["Default", "Unmasked"], errors);
    if host_users && *mount == Some("Unmasked") {
        errors.invalid_at(&mount, "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp(&context.seccomp_profile(), errors);
    if *context.allow_privilege_escalation() == Some(false) {
        if *context.privileged() == Some(true) {
            let fault = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid_as(context, &shown(context.json), fault);
        }
        for _ in context.capabilities().add().each().filter(|one| **one == "CAP_SYS_ADMIN") {
            let fault = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid_as(context, &shown(context.json), fault);
        }
    }
    windows(&context.windows_options(), errors);
    app_armor(&context.app_armor_profile(), errors);
}

/// Whether the users of a pod are those of its machine.
pub(super) fn has_host_users(spec: PodSpec<'_>) -> bool {
    spec.host_users() != Some(false)
}

/// What pods with users of their own do without.
// upstream: pkg/apis/core/validation/validation.go validateHostUsers (v1.36)
pub(super) fn own_users(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    if has_host_users(**spec) {
        return;
    }
    let words = "when `hostUsers` is false";
    // Upstream writes two of them otherwise.
    let places = ["hostNetwork", "HostPID", "HostIPC"].map(|place| spec.path.field(place));
    for (field, place) in [spec.host_network(), spec.host_pid(), spec.host_ipc()].into_iter().zip(places) {
        if *field {
            errors.forbidden(place, words);
        }
    }
    spec.each_container(|container| {
        if !container.volume_devices().is_empty() {
            errors.forbidden(container.volume_devices(), words);
        }
    });
}

/// The number of a user or a group.
fn id<T>(id: &Place<'_, T>, errors: &mut Errors) {
    id.within(0..=i64::from(i32::MAX), "must be between 0 and 2147483647, inclusive", errors);
}

fn seccomp(profile: &Place<'_, SeccompProfile<'_>>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.type_(), profile.localhost_profile());
    match *kind {
        "" => errors.required(kind, "type is required when seccompProfile is set"),
        _ => kind.supported(&PROFILES, errors),
    }
    if *kind != "Localhost" {
        if local.is_set() {
            let shown = format!("{{\"Type\":{},\"LocalhostProfile\":{}}}", json!(*kind), local.json);
            errors.invalid_as(local, &shown, "can only be set when seccomp type is Localhost");
        }
    } else if local.is_set() {
        file_paths::descending(&local, errors);
    } else {
        errors.required(local, "must be set when seccomp type is Localhost");
    }
}

fn app_armor(profile: &Place<'_, AppArmorProfile<'_>>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let local = profile.localhost_profile();
    match *profile.type_() {
        "" => errors.required(profile.type_(), "type is required when appArmorProfile is set"),
        "Localhost" => {
            let name = local.text();
            if name != name.trim() {
                errors.invalid_at(&local, "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(local, "must be set when AppArmor type is Localhost");
            }
            local.no_longer_than(MAX_PROFILE_LENGTH, errors);
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.is_set() {
                errors.invalid_at(&local, "can only be set when AppArmor type is Localhost");
            }
        }
        _ => errors.unsupported_at(&profile.type_(), &PROFILES),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateWindowsSecurityContextOptions (v1.36)
fn windows(options: &Place<'_, WindowsSecurityContextOptions<'_>>, errors: &mut Errors) {
    let (name, spec, user) =
        (options.gmsa_credential_spec_name(), options.gmsa_credential_spec(), options.run_as_user_name());
    name.check_given(names::subdomain, errors);
    match spec.map(str::len) {
        Some(0) => errors.invalid_at(&spec, "gmsaCredentialSpec cannot be an empty string"),
        Some(65_537..) => errors.invalid_at(&spec, "gmsaCredentialSpec size must be under 64 KiB"),
        _ => {}
    }
    for fault in user.map(user_faults).unwrap_or_default() {
        errors.invalid_at(&user, fault);
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
    use crate::schema::Path;

    fn of_pod(spec: Value) -> Vec<String> {
        let mut errors = Errors::default();
        pod(&Place::new(Path::Root.field("spec"), &spec), &mut errors);
        errors.texts().into_iter().map(|text| text.replace("spec.securityContext.", "")).collect()
    }

    fn of_container(context: Value) -> Vec<String> {
        let place = Path::Root.field("c");
        Errors::found(|errors| container(&Place::new(place.field("securityContext"), &context), true, errors))
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
