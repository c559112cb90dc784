//! What the standards of pod security ask of a pod: a table of checks, each from a version of Kubernetes on.

// upstream: staging/src/k8s.io/pod-security-admission/policy/check_*.go, registry.go (v1.36)

use std::collections::BTreeSet;

use serde_json::Value;

use super::level::{Level, Standard};

/// A pod, or what one will be made of.
pub struct Template<'a> {
    pub annotations: &'a Value,
    pub spec: &'a Value,
}

/// What a pod does that a standard forbids.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub reason: String,
    pub detail: String,
}

/// Looks at a pod by the rules of a minor version.
type Look = fn(&Template<'_>, u32) -> Option<Finding>;

pub(super) struct Check {
    pub(super) id: &'static str,
    pub(super) level: Level,
    /// The first minor version that has it.
    pub(super) since: u32,
    /// The check of a lower level that it makes needless.
    pub(super) instead_of: &'static str,
    look: Look,
}

/// From this version on nothing has changed.
pub(super) const LATEST: u32 = 35;

/// In the order in which findings are named.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    baseline("appArmorProfile", 0, app_armor),
    baseline("capabilities_baseline", 0, added_capabilities),
    baseline("hostNamespaces", 0, host_namespaces),
    baseline("hostPathVolumes", 0, host_paths),
    baseline("hostPorts", 0, host_ports),
    baseline("hostProbesAndHostLifecycle", 34, probe_hosts),
    baseline("privileged", 0, privileged),
    baseline("procMount", 0, |pod, minor| if in_user_namespace(pod, minor) { None } else { proc_mounts(pod, minor) }),
    baseline("seLinuxOptions", 0, se_linux),
    baseline("seccompProfile_baseline", 0, given_seccomp),
    baseline("sysctls", 0, sysctls),
    baseline("windowsHostProcess", 0, host_process),
    restricted("allowPrivilegeEscalation", 8, "", escalation),
    restricted("capabilities_restricted", 22, "capabilities_baseline", dropped_capabilities),
    restricted("procMount_restricted", 35, "procMount", proc_mounts),
    restricted("restrictedVolumes", 0, "hostPathVolumes", volumes),
    restricted("runAsNonRoot", 0, "", non_root),
    restricted("runAsUser", 23, "", root),
    restricted("seccompProfile_restricted", 19, "seccompProfile_baseline", seccomp),
];

const fn baseline(id: &'static str, since: u32, look: Look) -> Check {
    Check { id, level: Level::Baseline, since, instead_of: "", look }
}

const fn restricted(id: &'static str, since: u32, instead_of: &'static str, look: Look) -> Check {
    Check { id, level: Level::Restricted, since, instead_of, look }
}

/// What a pod does that a standard forbids, in upstream's order.
pub fn evaluate(standard: Standard, pod: &Template<'_>) -> Vec<Finding> {
    let minor = standard.version.unwrap_or(LATEST).min(LATEST);
    let applies = |check: &&Check| check.level <= standard.level && check.since <= minor;
    let needless = |id: &str| CHECKS.iter().filter(applies).any(|check| check.instead_of == id);
    let checks = CHECKS.iter().filter(applies).filter(|check| !needless(check.id));
    checks.filter_map(|check| (check.look)(pod, minor)).collect()
}

impl Template<'_> {
    fn containers(&self) -> impl Iterator<Item = &Value> {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(|list| self.spec[list].as_array().into_iter().flatten())
    }

    /// The names of the containers of which something is true.
    fn containers_that(&self, mut is: impl FnMut(&Value) -> bool) -> Vec<String> {
        let bad = self.containers().filter(|container| is(container));
        bad.map(|container| text(&container["name"]).to_owned()).collect()
    }

    fn is_of_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn quoted<'a>(items: impl IntoIterator<Item = &'a String>) -> String {
    items.into_iter().map(|item| format!("\"{item}\"")).collect::<Vec<_>>().join(", ")
}

/// `container "a"`, `containers "a", "b"`.
fn named(containers: &[String]) -> String {
    format!("{} {}", if containers.len() == 1 { "container" } else { "containers" }, quoted(containers))
}

/// `pod and container "a"`; `None` where none is to blame.
fn blamed(pod: bool, containers: &[String]) -> Option<String> {
    let containers = (!containers.is_empty()).then(|| named(containers));
    match (pod, containers) {
        (true, Some(containers)) => Some(format!("pod and {containers}")),
        (true, None) => Some("pod".to_owned()),
        (false, containers) => containers,
    }
}

fn number<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

#[expect(clippy::unnecessary_wraps, reason = "what each check ends with")]
fn finding(reason: &str, detail: String) -> Option<Finding> {
    Some(Finding { reason: reason.to_owned(), detail })
}

/// KEP-127: from 1.35 on, who is root in a user namespace only is not root.
fn in_user_namespace(pod: &Template<'_>, minor: u32) -> bool {
    minor >= 35 && pod.spec["hostUsers"] == false
}

/// From 1.25 on, fields that a Windows pod cannot have are not asked of it.
fn is_exempt(pod: &Template<'_>, minor: u32) -> bool {
    minor >= 25 && pod.is_of_windows()
}

/// Whether the pod gives a profile that is none of the good ones, which of its containers do, and which profiles.
fn bad_profiles(pod: &Template<'_>, field: &str) -> (bool, Vec<String>, BTreeSet<String>) {
    let mut values = BTreeSet::new();
    let mut bad = |context: &Value| {
        let profile = &context[field];
        let good = !profile.is_object() || matches!(text(&profile["type"]), "RuntimeDefault" | "Localhost");
        if !good {
            values.insert(text(&profile["type"]).to_owned());
        }
        !good
    };
    let of_pod = bad(&pod.spec["securityContext"]);
    let containers = pod.containers_that(|container| bad(&container["securityContext"]));
    (of_pod, containers, values)
}

fn app_armor(pod: &Template<'_>, _: u32) -> Option<Finding> {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let (of_pod, containers, values) = bad_profiles(pod, "appArmorProfile");
    let mut setters: Vec<String> = blamed(of_pod, &containers).into_iter().collect();
    let allowed = |profile: &str| matches!(profile, "" | "runtime/default") || profile.starts_with("localhost/");
    let annotations = pod.annotations.as_object().into_iter().flatten();
    let mut annotations: Vec<String> = annotations
        .filter(|(key, value)| key.starts_with(PREFIX) && !allowed(text(value)))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    annotations.sort();
    if !annotations.is_empty() {
        setters.push(number("annotation", "annotations", annotations.len()).to_owned());
    }
    let values: Vec<String> = values.into_iter().chain(annotations).collect();
    let reason = number("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    let detail = format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(&values));
    if setters.is_empty() { None } else { finding(reason, detail) }
}

/// Containers that add capabilities beside those allowed, and which.
fn adding(pod: &Template<'_>, allowed: &[&str]) -> Option<String> {
    let mut forbidden = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let added = container["securityContext"]["capabilities"]["add"].as_array().into_iter().flatten();
        let bad: Vec<String> = added.map(|one| text(one).to_owned()).filter(|one| !allowed.contains(&&**one)).collect();
        let any = !bad.is_empty();
        forbidden.extend(bad);
        any
    });
    let said = || {
        format!("{} must not include {} in securityContext.capabilities.add", named(&containers), quoted(&forbidden))
    };
    (!containers.is_empty()).then(said)
}

fn added_capabilities(pod: &Template<'_>, _: u32) -> Option<Finding> {
    const ALLOWED: &[&str] = &[
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    finding("non-default capabilities", adding(pod, ALLOWED)?)
}

fn dropped_capabilities(pod: &Template<'_>, minor: u32) -> Option<Finding> {
    if is_exempt(pod, minor) {
        return None;
    }
    let keeping = pod.containers_that(|container| {
        let dropped = container["securityContext"]["capabilities"]["drop"].as_array();
        !dropped.into_iter().flatten().any(|one| one == "ALL")
    });
    let keeping = (!keeping.is_empty())
        .then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", named(&keeping)));
    let details: Vec<String> = keeping.into_iter().chain(adding(pod, &["NET_BIND_SERVICE"])).collect();
    if details.is_empty() { None } else { finding("unrestricted capabilities", details.join("; ")) }
}

fn host_namespaces(pod: &Template<'_>, _: u32) -> Option<Finding> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod.spec[*field] == true);
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() { None } else { finding("host namespaces", shared.join(", ")) }
}

fn host_paths(pod: &Template<'_>, _: u32) -> Option<Finding> {
    let volumes = pod.spec["volumes"].as_array().into_iter().flatten();
    let volumes = volumes.filter(|volume| volume["hostPath"].is_object());
    let volumes: Vec<String> = volumes.map(|volume| text(&volume["name"]).to_owned()).collect();
    if volumes.is_empty() {
        return None;
    }
    finding("hostPath volumes", format!("{} {}", number("volume", "volumes", volumes.len()), quoted(&volumes)))
}

fn host_ports(pod: &Template<'_>, _: u32) -> Option<Finding> {
    let mut ports = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let before = ports.len();
        let given = container["ports"].as_array().into_iter().flatten();
        let given: Vec<u64> = given.filter_map(|port| port["hostPort"].as_u64()).filter(|port| *port != 0).collect();
        let any = !given.is_empty();
        ports.extend(given.iter().map(ToString::to_string));
        any || ports.len() > before
    });
    if containers.is_empty() {
        return None;
    }
    let uses = number("uses", "use", containers.len());
    let what = number("hostPort", "hostPorts", ports.len());
    let ports: Vec<String> = ports.into_iter().collect();
    finding("hostPort", format!("{} {uses} {what} {}", named(&containers), ports.join(", ")))
}

fn probe_hosts(pod: &Template<'_>, _: u32) -> Option<Finding> {
    let mut hosts = BTreeSet::new();
    let mut containers = pod.containers_that(|container| {
        let lifecycle = &container["lifecycle"];
        let handlers = [
            &container["livenessProbe"],
            &container["readinessProbe"],
            &container["startupProbe"],
            &lifecycle["postStart"],
            &lifecycle["preStop"],
        ];
        let given =
            handlers.into_iter().flat_map(|handler| ["httpGet", "tcpSocket"].map(|kind| text(&handler[kind]["host"])));
        let given: Vec<String> = given.filter(|host| !host.is_empty()).map(str::to_owned).collect();
        let any = !given.is_empty();
        hosts.extend(given);
        any
    });
    if containers.is_empty() {
        return None;
    }
    containers.sort();
    containers.dedup();
    let uses = number("uses", "use", containers.len());
    let what = number("probe or lifecycle host", "probe or lifecycle hosts", hosts.len());
    finding("probe or lifecycle host", format!("{} {uses} {what} {}", named(&containers), quoted(&hosts)))
}

fn privileged(pod: &Template<'_>, _: u32) -> Option<Finding> {
    let containers = pod.containers_that(|container| container["securityContext"]["privileged"] == true);
    let blamed = blamed(false, &containers)?;
    finding("privileged", format!("{blamed} must not set securityContext.privileged=true"))
}

fn proc_mounts(pod: &Template<'_>, _: u32) -> Option<Finding> {
    let mut kinds = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let kind = container["securityContext"]["procMount"].as_str().filter(|kind| *kind != "Default");
        kinds.extend(kind.map(str::to_owned));
        kind.is_some()
    });
    let blamed = blamed(false, &containers)?;
    finding("procMount", format!("{blamed} must not set securityContext.procMount to {}", quoted(&kinds)))
}

fn se_linux(pod: &Template<'_>, minor: u32) -> Option<Finding> {
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut bad = |context: &Value| {
        let options = &context["seLinuxOptions"];
        let kind = text(&options["type"]);
        let good = matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (minor >= 31 && kind == "container_engine_t");
        if !good {
            types.insert(kind.to_owned());
        }
        let (has_user, has_role) = (!text(&options["user"]).is_empty(), !text(&options["role"]).is_empty());
        user |= has_user;
        role |= has_role;
        !good || has_user || has_role
    };
    let of_pod = bad(&pod.spec["securityContext"]);
    let containers = pod.containers_that(|container| bad(&container["securityContext"]));
    let blamed = blamed(of_pod, &containers)?;
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", number("type", "types", types.len()), quoted(&types)));
    }
    data.extend(user.then(|| "user may not be set".to_owned()));
    data.extend(role.then(|| "role may not be set".to_owned()));
    finding("seLinuxOptions", format!("{blamed} set forbidden securityContext.seLinuxOptions: {}", data.join("; ")))
}

/// Who gives a seccomp profile that is none of the good ones, and which.
fn bad_seccomp(pod: &Template<'_>) -> Option<Finding> {
    let (of_pod, containers, values) = bad_profiles(pod, "seccompProfile");
    let blamed = blamed(of_pod, &containers)?;
    finding(
        "seccompProfile",
        format!("{blamed} must not set securityContext.seccompProfile.type to {}", quoted(&values)),
    )
}

fn given_seccomp(pod: &Template<'_>, minor: u32) -> Option<Finding> {
    // Before there was a field for it.
    const POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
    if minor >= 19 {
        return bad_seccomp(pod);
    }
    let keys = pod
        .containers()
        .map(|container| format!("container.seccomp.security.alpha.kubernetes.io/{}", text(&container["name"])));
    let allowed =
        |profile: &str| matches!(profile, "runtime/default" | "docker/default") || profile.starts_with("localhost/");
    let forbidden: BTreeSet<String> = std::iter::once(POD.to_owned())
        .chain(keys)
        .filter_map(|key| {
            let value = pod.annotations.get(&key)?;
            (!allowed(text(value))).then(|| format!("{key}={value}"))
        })
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let what = number("annotation", "annotations", forbidden.len());
    let forbidden: Vec<String> = forbidden.into_iter().collect();
    finding("seccompProfile", format!("forbidden {what} {}", forbidden.join(", ")))
}

fn seccomp(pod: &Template<'_>, minor: u32) -> Option<Finding> {
    if is_exempt(pod, minor) {
        return None;
    }
    if let Some(bad) = bad_seccomp(pod) {
        return Some(bad);
    }
    if pod.spec["securityContext"]["seccompProfile"].is_object() {
        return None;
    }
    let silent = pod.containers_that(|container| !container["securityContext"]["seccompProfile"].is_object());
    let blamed = blamed(false, &silent)?;
    let detail =
        format!("pod or {blamed} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"");
    finding("seccompProfile", detail)
}

fn sysctls(pod: &Template<'_>, minor: u32) -> Option<Finding> {
    const ALLOWED: &[(&str, u32)] = &[
        ("kernel.shm_rmid_forced", 0),
        ("net.ipv4.ip_local_port_range", 0),
        ("net.ipv4.tcp_syncookies", 0),
        ("net.ipv4.ping_group_range", 0),
        ("net.ipv4.ip_unprivileged_port_start", 0),
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_keepalive_time", 29),
        ("net.ipv4.tcp_fin_timeout", 29),
        ("net.ipv4.tcp_keepalive_intvl", 29),
        ("net.ipv4.tcp_keepalive_probes", 29),
        ("net.ipv4.tcp_rmem", 32),
        ("net.ipv4.tcp_wmem", 32),
    ];
    let allowed = |name: &str| ALLOWED.iter().any(|(known, since)| *known == name && *since <= minor);
    let given = pod.spec["securityContext"]["sysctls"].as_array().into_iter().flatten();
    let forbidden: Vec<&str> = given.map(|one| text(&one["name"])).filter(|name| !allowed(name)).collect();
    if forbidden.is_empty() { None } else { finding("forbidden sysctls", forbidden.join(", ")) }
}

fn host_process(pod: &Template<'_>, _: u32) -> Option<Finding> {
    let is = |holder: &Value| holder["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let blamed = blamed(is(pod.spec), &pod.containers_that(is))?;
    finding("hostProcess", format!("{blamed} must not set securityContext.windowsOptions.hostProcess=true"))
}

fn escalation(pod: &Template<'_>, minor: u32) -> Option<Finding> {
    if is_exempt(pod, minor) {
        return None;
    }
    let may = |container: &Value| container["securityContext"]["allowPrivilegeEscalation"] != false;
    let blamed = blamed(false, &pod.containers_that(may))?;
    let detail = format!("{blamed} must set securityContext.allowPrivilegeEscalation=false");
    finding("allowPrivilegeEscalation != false", detail)
}

fn volumes(pod: &Template<'_>, _: u32) -> Option<Finding> {
    const ALLOWED: &[&str] = &[
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    const FORBIDDEN: &[&str] = &[
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "gitRepo",
        "nfs",
        "iscsi",
        "glusterfs",
        "rbd",
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "scaleIO",
        "storageos",
    ];
    let mut kinds = BTreeSet::new();
    let mut names = Vec::new();
    for volume in pod.spec["volumes"].as_array().into_iter().flatten() {
        if ALLOWED.iter().any(|kind| volume[*kind].is_object()) {
            continue;
        }
        names.push(text(&volume["name"]).to_owned());
        kinds.insert((*FORBIDDEN.iter().find(|kind| volume[**kind].is_object()).unwrap_or(&"unknown")).to_owned());
    }
    if names.is_empty() {
        return None;
    }
    let (volumes, uses) = (number("volume", "volumes", names.len()), number("uses", "use", names.len()));
    let what = number("restricted volume type", "restricted volume types", kinds.len());
    finding("restricted volume types", format!("{volumes} {} {uses} {what} {}", quoted(&names), quoted(&kinds)))
}

fn non_root(pod: &Template<'_>, minor: u32) -> Option<Finding> {
    if in_user_namespace(pod, minor) {
        return None;
    }
    let says = |holder: &Value| holder["securityContext"]["runAsNonRoot"].as_bool();
    let of_pod = says(pod.spec);
    let refusing = pod.containers_that(|container| says(container) == Some(false));
    if let Some(blamed) = blamed(of_pod == Some(false), &refusing) {
        return finding("runAsNonRoot != true", format!("{blamed} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = pod.containers_that(|container| of_pod != Some(true) && says(container).is_none());
    let blamed = blamed(false, &silent)?;
    finding("runAsNonRoot != true", format!("pod or {blamed} must set securityContext.runAsNonRoot=true"))
}

fn root(pod: &Template<'_>, minor: u32) -> Option<Finding> {
    if in_user_namespace(pod, minor) {
        return None;
    }
    let is = |holder: &Value| holder["securityContext"]["runAsUser"] == 0;
    let blamed = blamed(is(pod.spec), &pod.containers_that(is))?;
    finding("runAsUser=0", format!("{blamed} must not set runAsUser=0"))
}
