//! Pods and pod templates.

// upstream: pkg/apis/core/validation/validation.go ValidatePodSpec (v1.36)

use std::collections::HashSet;

use serde_json::Value;

use super::field::{entries, supported, text};
use super::{Errors, container, metadata, names, placement, pod_claims, sysctl};
use crate::schema::Path;

/// Whether a pod only shows one that a kubelet runs from a file.
pub(crate) fn is_mirror(pod: &Value) -> bool {
    !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null()
}

/// A new pod.
pub(crate) fn create(pod: &Value, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    spec(&pod["spec"], &path, errors);
    if entries(&pod["spec"], "ephemeralContainers").next().is_some() {
        errors.forbidden(path.field("ephemeralContainers"), "cannot be set on create");
    }
}

/// The template of a workload: labels, annotations, spec.
pub(crate) fn template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    let meta = path.field("metadata");
    metadata::labels(&template["metadata"]["labels"], &path.field("labels"), errors);
    metadata::annotations(&template["metadata"]["annotations"], &meta.field("annotations"), errors);
    spec(&template["spec"], &path.field("spec"), errors);
}

/// A pod's spec.
pub(crate) fn spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let volumes = volumes(spec, &path.field("volumes"), errors);
    pod_claims::pod(spec, &path.field("resourceClaims"), errors);
    let mut seen: HashSet<&str> = HashSet::new();
    let list = path.field("containers");
    if entries(spec, "containers").next().is_none() {
        errors.required(list, "");
    }
    for (at, one) in entries(spec, "containers") {
        container::check(one, &list.index(at), &mut seen, &volumes, errors);
        pod_claims::container(spec, one, &list.index(at), errors);
        if !one["restartPolicy"].is_null() && one["restartPolicy"] != "Always" && one["restartPolicyRules"].is_null() {
            supported(
                &one["restartPolicy"],
                &list.index(at).field("restartPolicy"),
                &["Always", "Never", "OnFailure"],
                errors,
            );
        }
    }
    let list = path.field("initContainers");
    for (at, one) in entries(spec, "initContainers") {
        container::check(one, &list.index(at), &mut seen, &volumes, errors);
        pod_claims::container(spec, one, &list.index(at), errors);
    }
    container::resources(&spec["resources"], &path.field("resources"), errors);
    supported(&spec["restartPolicy"], &path.field("restartPolicy"), &["Always", "OnFailure", "Never"], errors);
    supported(
        &spec["dnsPolicy"],
        &path.field("dnsPolicy"),
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        errors,
    );
    for field in ["serviceAccountName", "nodeName", "priorityClassName"] {
        let name = text(spec, field);
        if !name.is_empty() {
            for fault in names::subdomain(name) {
                errors.invalid(path.field(field), &spec[field], fault);
            }
        }
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        errors.invalid(
            path.field("activeDeadlineSeconds"),
            &spec["activeDeadlineSeconds"],
            "must be between 1 and 2147483647, inclusive",
        );
    }
    supported(&spec["preemptionPolicy"], &path.field("preemptionPolicy"), &["Never", "PreemptLowerPriority"], errors);
    sysctl::check(spec, &path.field("securityContext"), errors);
    placement::check(spec, path, errors);
}

/// Checks the volumes; returns their names.
fn volumes<'a>(spec: &'a Value, list: &Path<'_>, errors: &mut Errors) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    for (at, volume) in entries(spec, "volumes") {
        let path = list.index(at);
        let name = text(volume, "name");
        if name.is_empty() {
            errors.required(path.field("name"), "");
        } else {
            for fault in names::label(name) {
                errors.invalid(path.field("name"), &volume["name"], fault);
            }
            if !seen.insert(name) {
                errors.duplicate(path.field("name"), &volume["name"]);
            }
        }
        let sources = volume.as_object().map_or(0, |volume| volume.keys().filter(|key| *key != "name").count());
        if sources > 1 {
            let second = volume.as_object().into_iter().flatten().filter(|(key, _)| *key != "name").nth(1);
            if let Some((source, _)) = second {
                errors.forbidden(path.field(source), "may not specify more than 1 volume type");
            }
        }
        for (source, field) in [("persistentVolumeClaim", "claimName"), ("secret", "secretName"), ("configMap", "name")]
        {
            if volume[source].is_object() && text(&volume[source], field).is_empty() {
                errors.required(path.field(source).field(field), "");
            }
        }
    }
    seen
}
