//! Pods and pod templates.

// upstream: pkg/api/pod/warnings.go (v1.36)

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::field::{containers, entries, text};
use super::collected::{Warnings, fractional, host_name};
use super::{addresses, labels, paths, ports, storage};
use crate::schema::Path;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
/// Kinds of volumes whose time is over, in the order in which upstream looks for them.
const VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// A new pod. Of changes nothing is said.
pub fn pod(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none() {
        host_name(new, "the Pod's hostname", warnings);
        spec_and_metadata(new, &Path::Root, false, warnings);
    }
}

/// The template of a workload.
pub(super) fn template(template: &Value, place: &Path<'_>, warnings: &mut Warnings) {
    spec_and_metadata(template, place, true, warnings);
}

fn spec_and_metadata(pod: &Value, place: &Path<'_>, is_template: bool, warnings: &mut Warnings) {
    let spec = &pod["spec"];
    let path = place.field("spec");
    let metadata = place.field("metadata");
    let annotations = metadata.field("annotations");
    placement(spec, &path, warnings);
    for (key, message) in ANNOTATIONS {
        if !pod["metadata"]["annotations"][key].is_null() {
            warnings.at(&annotations.key(key), message);
        }
    }
    volumes(spec, &path.field("volumes"), warnings);
    paths::check(spec, warnings);
    twice(spec, "hostAliases", "ip", &path, warnings);
    twice(spec, "imagePullSecrets", "name", &path, warnings);
    let secrets = path.field("imagePullSecrets");
    for (at, _) in entries(spec, "imagePullSecrets").filter(|(_, secret)| text(secret, "name").is_empty()) {
        warnings.at(&secrets.index(at).field("name"), "invalid empty name \"\"");
    }
    for name in ["memory", "ephemeral-storage"] {
        fractional(&spec["overhead"][name], &path.field("overhead").key(name), warnings);
    }
    let written = &pod["metadata"]["annotations"];
    let field = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    if spec["securityContext"]["seccompProfile"].is_null() && !written[SECCOMP_POD].is_null() {
        warnings.at(&annotations.key(SECCOMP_POD), field);
    }
    containers(spec, &path, |container, path| {
        let key = format!("{SECCOMP_CONTAINER}{}", text(container, "name"));
        if container["securityContext"]["seccompProfile"].is_null() && !written[&key].is_null() {
            warnings.at(&annotations.key(&key), field);
        }
        if is_template {
            app_armor(spec, container, written, &annotations, warnings);
        }
        for name in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                let resources = path.field("resources");
                fractional(&container["resources"][list][name], &resources.field(list).key(name), warnings);
            }
        }
        variables(container, &path.field("env"), warnings);
    });
    ports::check(spec, &path, warnings);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let text = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.at(&path.field("terminationGracePeriodSeconds"), text);
    }
    pod_affinity(spec, &path.field("affinity"), warnings);
    let config = path.field("dnsConfig");
    let servers = config.field("nameservers");
    for (at, server) in entries(&spec["dnsConfig"], "nameservers") {
        addresses::ip(server, &servers.index(at), warnings);
    }
    let aliases = path.field("hostAliases");
    for (at, alias) in entries(spec, "hostAliases") {
        addresses::ip(&alias["ip"], &aliases.index(at).field("ip"), warnings);
    }
}

fn placement(spec: &Value, path: &Path<'_>, warnings: &mut Warnings) {
    let selector = path.field("nodeSelector");
    for (key, old) in labels::map(&spec["nodeSelector"]) {
        warnings.at(&selector.key(key), old);
    }
    let affinity = path.field("affinity");
    let affinity = affinity.field("nodeAffinity");
    let required = affinity.field(REQUIRED);
    let terms = required.field("nodeSelectorTerms");
    let node = &spec["affinity"]["nodeAffinity"];
    for (at, term) in entries(&node[REQUIRED], "nodeSelectorTerms") {
        labels::expressions(term, false, &terms.index(at), warnings);
    }
    let preferred = affinity.field(PREFERRED);
    for (at, term) in entries(node, PREFERRED) {
        labels::expressions(&term["preference"], true, &preferred.index(at).field("preference"), warnings);
    }
    let list = path.field("topologySpreadConstraints");
    for (at, constraint) in entries(spec, "topologySpreadConstraints") {
        let path = list.index(at);
        let key = text(constraint, "topologyKey");
        if let Some(old) = labels::of(key) {
            warnings.at(&path.field("topologyKey"), &format!("{key} is {old}"));
        }
        selector_of_none(constraint, &path, warnings);
    }
}

/// Without a selector nothing is selected.
fn selector_of_none(term: &Value, path: &Path<'_>, warnings: &mut Warnings) {
    if term["labelSelector"].is_null() {
        warnings.at(&path.field("labelSelector"), "a null labelSelector results in matching no pod");
    }
}

fn pod_affinity(spec: &Value, path: &Path<'_>, warnings: &mut Warnings) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = &spec["affinity"][kind];
        let path = path.field(kind);
        let list = path.field(REQUIRED);
        for (at, term) in entries(affinity, REQUIRED) {
            selector_of_none(term, &list.index(at), warnings);
        }
        let list = path.field(PREFERRED);
        for (at, term) in entries(affinity, PREFERRED) {
            selector_of_none(&term["podAffinityTerm"], &list.index(at).field("podAffinityTerm"), warnings);
        }
    }
}

fn volumes(spec: &Value, list: &Path<'_>, warnings: &mut Warnings) {
    for (at, volume) in entries(spec, "volumes") {
        let path = list.index(at);
        for (kind, message) in VOLUMES.into_iter().filter(|(kind, _)| volume[*kind].is_object()) {
            let place = if kind == "storageos" { "storageOS" } else { kind };
            warnings.at(&path.field(place), message);
        }
        let template = &volume["ephemeral"]["volumeClaimTemplate"];
        let ephemeral = path.field("ephemeral");
        let place = ephemeral.field("volumeClaimTemplate");
        storage::claim_spec(&template["spec"], &place.field("spec"), warnings);
    }
}

/// Entries of a list that are called alike.
fn twice(spec: &Value, list: &str, field: &str, path: &Path<'_>, warnings: &mut Warnings) {
    let path = path.field(list);
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, entry) in entries(spec, list) {
        let name = text(entry, field);
        if !seen.insert(name) {
            warnings.at(&path.index(at).field(field), &format!("duplicate {field} {name:?}"));
        }
    }
}

fn app_armor(spec: &Value, container: &Value, written: &Value, annotations: &Path<'_>, warnings: &mut Warnings) {
    let key = format!("{APP_ARMOR}{}", text(container, "name"));
    let Some(annotation) = written[&key].as_str() else { return };
    if !container["securityContext"]["appArmorProfile"].is_null() {
        return;
    }
    let profile = match annotation.strip_prefix("localhost/") {
        Some(name) => json!({ "type": "Localhost", "localhostProfile": name }),
        None if annotation == "runtime/default" => json!({ "type": "RuntimeDefault" }),
        None if annotation == "unconfined" => json!({ "type": "Unconfined" }),
        None => Value::Null,
    };
    let of_pod = &spec["securityContext"]["appArmorProfile"];
    if of_pod.is_null() || *of_pod != profile {
        warnings.at(&annotations.key(&key), "deprecated since v1.30; use the \"appArmorProfile\" field instead");
    }
}

/// Variables that hide others of the same name, other than by taking their value in.
fn variables(container: &Value, list: &Path<'_>, warnings: &mut Warnings) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, variable) in entries(container, "env") {
        let name = text(variable, "name");
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let value = text(variable, "value");
        if !variable["valueFrom"].is_null() || value == reference || !value.contains(&reference) {
            let text = format!("hides previous definition of {name:?}, which may be dropped when using apply");
            warnings.at(&list.index(at), &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::collected::warnings_of;
    use super::*;

    fn of(spec: Value) -> Vec<String> {
        warnings_of(pod, &json!({ "metadata": { "name": "web" }, "spec": spec }))
    }

    #[test]
    fn containers_share_what_they_should_not() {
        let port = |host_ip: &str, host_port: i64| json!({ "containerPort": 80, "protocol": "TCP", "hostIP": host_ip, "hostPort": host_port });
        for (spec, wanted) in [
            (
                json!({ "containers": [{ "env": [{ "name": "A", "value": "x" }, { "name": "A", "value": "$(A)y" }] }] }),
                vec![],
            ),
            (
                json!({ "containers": [{ "env": [{ "name": "A", "value": "x" }, { "name": "A", "value": "y" }] }] }),
                vec![
                    "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
                ],
            ),
            (
                json!({ "containers": [{ "ports": [{ "containerPort": 80, "protocol": "TCP" }, { "containerPort": 80, "protocol": "UDP" }] }] }),
                vec![],
            ),
            (
                json!({ "containers": [{ "ports": [port("", 0), port("", 0)] }] }),
                vec!["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"],
            ),
            (
                json!({ "containers": [{ "ports": [port("", 0)] }, { "ports": [port("", 81)] }] }),
                vec!["spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]"],
            ),
            (
                json!({ "containers": [{ "ports": [port("1.1.1.1", 81), port("", 81)] }] }),
                vec![
                    "spec.containers[0].ports[1]: dangerously ambiguous port definition with spec.containers[0].ports[0]",
                ],
            ),
            (
                json!({ "containers": [{ "ports": [port("1.1.1.1", 0)] }] }),
                vec![
                    "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.1.1.1}",
                ],
            ),
            (
                json!({ "containers": [{ "ports": [{ "name": "web", "containerPort": 1 }] }, { "ports": [{ "name": "web", "containerPort": 2 }] }] }),
                vec![
                    "spec.containers[1].ports[0]: duplicate port name \"web\" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]",
                ],
            ),
            (
                json!({ "containers": [{ "resources": { "limits": { "memory": "1.5" }, "requests": { "memory": "400m", "cpu": "100m" } } }] }),
                vec![
                    "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, must be an integer",
                    "spec.containers[0].resources.requests[memory]: fractional byte value \"400m\" is invalid, must be an integer",
                ],
            ),
        ] {
            assert_eq!(of(spec.clone()), wanted, "{spec}");
        }
    }

    #[test]
    fn what_is_old_or_does_nothing_is_told() {
        let long_name = warnings_of(pod, &json!({ "metadata": { "name": "a.b" }, "spec": {} }));
        assert_eq!(
            long_name,
            [
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
            ]
        );
        for (spec, wanted) in [
            (
                json!({ "nodeSelector": { "beta.kubernetes.io/os": "linux", "kubernetes.io/os": "linux" } }),
                vec![
                    "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                ],
            ),
            (
                json!({ "affinity": { "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "beta.kubernetes.io/arch" }] }] } } } }),
                vec![
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use \"kubernetes.io/arch\" instead",
                ],
            ),
            (
                json!({ "topologySpreadConstraints": [{ "topologyKey": "kubernetes.io/hostname" }] }),
                vec![
                    "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
                ],
            ),
            (
                json!({ "affinity": { "podAntiAffinity": { PREFERRED: [{ "podAffinityTerm": { "topologyKey": "a" } }] } } }),
                vec![
                    "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod",
                ],
            ),
            (
                json!({ "volumes": [{ "name": "a", "gitRepo": {} }] }),
                vec!["spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"],
            ),
            (
                json!({ "volumes": [{ "name": "foo", "configMap": { "name": "m", "items": [{ "path": "path" }, { "path": "path/path2" }] } }] }),
                vec!["volume \"foo\" (ConfigMap \"m\"): overlapping paths: \"path/path2\" with \"path\""],
            ),
            (
                json!({ "volumes": [{ "name": "foo", "projected": { "sources": [{}, { "secret": { "name": "s", "items": [{ "path": "a" }] } }, { "serviceAccountToken": { "path": "a" } }] } }] }),
                vec![
                    "volume \"foo\" (Projected) has no sources provided",
                    "volume \"foo\" (Projected): overlapping paths: \"a\" (ServiceAccountToken) with \"a\" (Secret \"s\")",
                ],
            ),
            (
                json!({ "hostAliases": [{ "ip": "1.1.1.1" }, { "ip": "1.1.1.1" }] }),
                vec!["spec.hostAliases[1].ip: duplicate ip \"1.1.1.1\""],
            ),
            (
                json!({ "imagePullSecrets": [{ "name": "a" }, { "name": "a" }, {}] }),
                vec![
                    "spec.imagePullSecrets[1].name: duplicate name \"a\"",
                    "spec.imagePullSecrets[2].name: invalid empty name \"\"",
                ],
            ),
            (
                json!({ "terminationGracePeriodSeconds": -1 }),
                vec![
                    "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
                ],
            ),
        ] {
            assert_eq!(of(spec.clone()), wanted, "{spec}");
        }
        let annotated = json!({ "metadata": { "name": "a", "annotations": { SECCOMP_POD: "x", "container.seccomp.security.alpha.kubernetes.io/c": "y", ANNOTATIONS[0].0: "" } }, "spec": { "containers": [{ "name": "c" }] } });
        assert_eq!(
            warnings_of(pod, &annotated),
            [
                "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \"priorityClassName\" field instead",
                "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
                "metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
            ]
        );
    }
}
