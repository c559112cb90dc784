//! Pods and pod templates.

// upstream: pkg/api/pod/warnings.go (v1.36)

use std::collections::HashSet;

use serde_json::Value;

use super::super::Place;
use super::super::place::Texts;
use super::collected::{Warnings, annotations, fractional, host_name};
use super::{addresses, labels, paths, ports, storage};
use crate::views::{Container, EnvVar, LabelSelector, ObjectMeta, Pod, PodAffinity, PodSpec, PodTemplateSpec, Views};

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
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

/// A new pod. Changes bring no warnings.
pub fn pod(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none() {
        let pod = Place::<Pod<'_>>::root(new);
        host_name(new, "the Pod's hostname", warnings);
        spec_and_metadata(&pod.spec(), &pod.metadata(), false, warnings);
    }
}

/// The template of a workload.
pub(super) fn template(template: &Place<'_, PodTemplateSpec<'_>>, warnings: &mut Warnings) {
    spec_and_metadata(&template.spec(), &template.metadata(), true, warnings);
}

fn spec_and_metadata(
    spec: &Place<'_, PodSpec<'_>>,
    metadata: &Place<'_, ObjectMeta<'_>>,
    is_template: bool,
    warnings: &mut Warnings,
) {
    let written = metadata.annotations();
    placement(spec, warnings);
    annotations(&written, &ANNOTATIONS, warnings);
    for volume in spec.volumes().each() {
        storage::sources(&volume, &VOLUMES, warnings);
        storage::claim_spec(&volume.ephemeral().volume_claim_template().spec(), warnings);
    }
    paths::check(spec, warnings);
    names(spec, warnings);
    for name in ["memory", "ephemeral-storage"] {
        fractional(&spec.overhead().entry(name), warnings);
    }
    if !spec.security_context().seccomp_profile().is_set() {
        annotations(&written, &[(SECCOMP_POD, SECCOMP)], warnings);
    }
    spec.each_container(|container| {
        if !container.security_context().seccomp_profile().is_set() {
            let key = format!("{SECCOMP_CONTAINER}{}", *container.name());
            annotations(&written, &[(&key, SECCOMP)], warnings);
        }
        if is_template {
            app_armor(**spec, **container, &written, warnings);
        }
        for name in ["memory", "ephemeral-storage"] {
            fractional(&container.resources().limits().entry(name), warnings);
            fractional(&container.resources().requests().entry(name), warnings);
        }
        variables(&container.env(), warnings);
    });
    ports::check(spec, warnings);
    if spec.termination_grace_period_seconds().is_some_and(|seconds| seconds < 0) {
        let text = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.at(spec.termination_grace_period_seconds(), text);
    }
    let affinity = spec.affinity();
    for pods in [affinity.pod_affinity(), affinity.pod_anti_affinity().cast::<PodAffinity<'_>>()] {
        for term in pods.required_during_scheduling_ignored_during_execution().each() {
            selector_of_none(&term.label_selector(), warnings);
        }
        for preference in pods.preferred_during_scheduling_ignored_during_execution().each() {
            selector_of_none(&preference.pod_affinity_term().label_selector(), warnings);
        }
    }
    spec.dns_config().nameservers().each().for_each(|server| addresses::ip(&server, warnings));
    spec.host_aliases().each().for_each(|alias| addresses::ip(&alias.ip(), warnings));
}

fn placement(spec: &Place<'_, PodSpec<'_>>, warnings: &mut Warnings) {
    let selector = spec.node_selector();
    for (key, old) in labels::map(*selector) {
        warnings.at(selector.entry(key), old);
    }
    let affinity = spec.affinity();
    let nodes = affinity.node_affinity();
    for term in nodes.required_during_scheduling_ignored_during_execution().node_selector_terms().each() {
        labels::expressions(&term, false, warnings);
    }
    for preference in nodes.preferred_during_scheduling_ignored_during_execution().each() {
        labels::expressions(&preference.preference(), true, warnings);
    }
    for constraint in spec.topology_spread_constraints().each() {
        let key = constraint.topology_key();
        if let Some(old) = labels::of(*key) {
            warnings.at(key, format_args!("{} is {old}", *key));
        }
        selector_of_none(&constraint.label_selector(), warnings);
    }
}

/// Without a selector nothing is selected.
fn selector_of_none(selector: &Place<'_, LabelSelector<'_>>, warnings: &mut Warnings) {
    if !selector.is_set() {
        warnings.at(selector, "a null labelSelector results in matching no pod");
    }
}

/// Entries of lists that are called alike, or not at all.
fn names(spec: &Place<'_, PodSpec<'_>>, warnings: &mut Warnings) {
    let mut seen = HashSet::new();
    for alias in spec.host_aliases().each().filter(|alias| !seen.insert(*alias.ip())) {
        warnings.at(alias.ip(), format_args!("duplicate ip {:?}", *alias.ip()));
    }
    let (secrets, mut seen) = (spec.image_pull_secrets(), HashSet::new());
    for secret in secrets.each().filter(|secret| !seen.insert(*secret.name())) {
        warnings.at(secret.name(), format_args!("duplicate name {:?}", *secret.name()));
    }
    for secret in secrets.each().filter(|secret| secret.name().is_empty()) {
        warnings.at(secret.name(), "invalid empty name \"\"");
    }
}

fn app_armor(spec: PodSpec<'_>, container: Container<'_>, written: &Place<'_, Texts<'_>>, warnings: &mut Warnings) {
    let key = format!("{APP_ARMOR}{}", container.name());
    let Some(annotation) = written.get(&key) else { return };
    if container.security_context().app_armor_profile().is_set() {
        return;
    }
    let profile = match annotation.strip_prefix("localhost/") {
        Some(name) => Some(("Localhost", Some(name))),
        None if annotation == "runtime/default" => Some(("RuntimeDefault", None)),
        None if annotation == "unconfined" => Some(("Unconfined", None)),
        None => None,
    };
    let of_pod = spec.security_context().app_armor_profile();
    if !of_pod.is_set() || profile != Some((of_pod.type_(), of_pod.localhost_profile())) {
        warnings.at(written.entry(&key), "deprecated since v1.30; use the \"appArmorProfile\" field instead");
    }
}

/// Variables that hide others of the same name, other than by taking their value in.
fn variables<'a>(list: &Place<'_, Views<'a, EnvVar<'a>>>, warnings: &mut Warnings) {
    let mut seen: HashSet<&str> = HashSet::new();
    for variable in list.each() {
        let (name, value) = (*variable.name(), *variable.value());
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        if variable.value_from().is_set() || value == reference || !value.contains(&reference) {
            let text = format_args!("hides previous definition of {name:?}, which may be dropped when using apply");
            warnings.at(variable, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
                json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "beta.kubernetes.io/arch" }] }] } } } }),
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
                json!({ "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "podAffinityTerm": { "topologyKey": "a" } }] } } }),
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
