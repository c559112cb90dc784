//! Pods and pod templates.

// upstream: pkg/apis/core/validation/validation.go ValidatePodSpec (v1.36)

use std::collections::{HashMap, HashSet};

use klab_cel::names;
use klab_scheduler::features::Gate;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::{container_limits, container_requests};
use serde_json::{Value, json};

use super::container::Named;
use super::field::{entries, supported, text};
use super::{
    Errors, container, handlers, metadata, placement, pod_claims, pod_network, pod_system, security_context, volumes,
};
use crate::pod_resources::container_amounts;
use crate::schema::Path;
use crate::views::Pod;

/// The annotation that says which pods controllers delete first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A new pod.
pub fn create(pod: &Value, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    if Pod(pod).is_mirror() && Pod(pod).spec().node_name().is_empty() {
        let key = "kubernetes.io/config.mirror";
        let fault = "must set spec.nodeName if mirror pod annotation is set";
        let annotations = Path::Root.field("metadata");
        errors.invalid(annotations.field("annotations").key(key), &pod["metadata"]["annotations"][key], fault);
    }
    let meta = Path::Root.field("metadata");
    deletion_cost(&pod["metadata"]["annotations"], &meta.field("annotations"), errors);
    spec(&pod["spec"], Some(&pod["metadata"]), &path, errors);
    if text(&pod["spec"], "serviceAccountName").is_empty() {
        tokens_without_account(&pod["spec"], &path.field("volumes"), errors);
    }
    for list in ["containers", "initContainers"] {
        let place = path.field(list);
        for (at, one) in entries(&pod["spec"], list) {
            container::image(one, &place.index(at), errors);
        }
    }
    if entries(&pod["spec"], "ephemeralContainers").next().is_some() {
        errors.forbidden(path.field("ephemeralContainers"), "cannot be set on create");
    }
    placement::gated(&pod["spec"], &path, errors);
}

fn tokens_without_account(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    for (at, volume) in entries(spec, "volumes") {
        let path = list.index(at);
        let sources = path.field("projected");
        let sources = sources.field("sources");
        for (at, source) in entries(&volume["projected"], "sources") {
            if source["serviceAccountToken"].is_object() {
                let fault = "must not be specified when serviceAccountName is not set";
                errors.forbidden(sources.index(at).field("serviceAccountToken"), fault);
            }
        }
    }
}

/// The template of a workload: labels, annotations, spec.
pub fn template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    metadata::labels(&template["metadata"]["labels"], &path.field("labels"), errors);
    // Upstream leaves `metadata` out of their place.
    let annotations = path.field("annotations");
    metadata::annotations(&template["metadata"]["annotations"], &annotations, errors);
    deletion_cost(&template["metadata"]["annotations"], &annotations, errors);
    let place = path.field("spec");
    spec(&template["spec"], None, &place, errors);
    if entries(&template["spec"], "ephemeralContainers").next().is_some() {
        errors.forbidden(place.field("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

fn deletion_cost(annotations: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(text) = annotations[DELETION_COST].as_str().filter(|_| errors.has(Gate::PodDeletionCost)) else { return };
    // Numbers with a plus or with zeros in front are refused, too.
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !text.starts_with('+') && (digits == "0" || !digits.starts_with('0'));
    if !is_plain || text == "-0" || text.parse::<i32>().is_err() {
        errors.invalid(path.key(DELETION_COST), &json!(text), "must be a 32bit integer");
    }
}

/// A pod's spec, of a pod with this metadata or of a template.
pub fn spec(spec: &Value, pod: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let volumes = volumes::check(spec, pod, &path.field("volumes"), errors);
    pod_claims::pod(spec, &path.field("resourceClaims"), errors);
    containers(spec, path, &Named::of(spec, volumes), errors);
    all_resources(spec, path, errors);
    pod_network::host_network(spec, pod.is_some(), path, errors);
    let choice = |field: &str, choices: &[&str], errors: &mut Errors| {
        supported(&spec[field], &path.field(field), choices, errors);
    };
    choice("restartPolicy", &["Always", "OnFailure", "Never"], errors);
    choice("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], errors);
    placement::node_selector_labels(spec, path, errors);
    security_context::pod(spec, path, errors);
    placement::affinity(&spec["affinity"], &path.field("affinity"), errors);
    pod_network::dns(spec, path, errors);
    readiness(spec, &path.field("readinessGates"), errors);
    placement::gates(spec, &path.field("schedulingGates"), errors);
    placement::spreading(spec, &path.field("topologySpreadConstraints"), errors);
    pod_system::host_processes(spec, path, errors);
    security_context::own_users(spec, path, errors);
    pod_network::host_name(spec, path, errors);
    name(spec, "serviceAccountName", names::subdomain, path, errors);
    name(spec, "nodeName", names::subdomain, path, errors);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        errors.invalid(
            path.field("activeDeadlineSeconds"),
            &spec["activeDeadlineSeconds"],
            "must be between 1 and 2147483647, inclusive",
        );
    }
    name(spec, "hostname", names::label, path, errors);
    name(spec, "subdomain", names::label, path, errors);
    placement::tolerations(spec, &path.field("tolerations"), errors);
    pod_network::aliases(spec, &path.field("hostAliases"), errors);
    name(spec, "priorityClassName", names::subdomain, path, errors);
    name(spec, "runtimeClassName", names::subdomain, path, errors);
    choice("preemptionPolicy", &["PreemptLowerPriority", "Never"], errors);
    container::resources(&json!({ "limits": spec["overhead"] }), &path.field("overhead"), errors);
    pod_system::check(spec, path, errors);
    file_volumes(spec, path, errors);
}

fn name(spec: &Value, field: &str, faults: fn(&str) -> Vec<String>, path: &Path<'_>, errors: &mut Errors) {
    let name = text(spec, field);
    if !name.is_empty() {
        for fault in faults(name) {
            errors.invalid(path.field(field), &spec[field], fault);
        }
    }
}

fn containers(spec: &Value, path: &Path<'_>, named: &Named<'_>, errors: &mut Errors) {
    let list = path.field("containers");
    if entries(spec, "containers").next().is_none() {
        errors.required(list, "");
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, one) in entries(spec, "containers") {
        let path = list.index(at);
        container::check(spec, one, &path, named, errors);
        container::unique(one, &path, &mut seen, errors);
        handlers::check(spec, one, &path, errors);
        container::restart_policy(one, &path, errors);
    }
    pod_network::host_ports(entries(spec, "containers"), &list, errors);
    let list = path.field("initContainers");
    for (at, one) in entries(spec, "initContainers") {
        let path = list.index(at);
        container::check(spec, one, &path, named, errors);
        container::restart_policy(one, &path, errors);
        container::unique(one, &path, &mut seen, errors);
        // They run one after another. Upstream counts each of them as the first.
        pod_network::host_ports(std::iter::once((0, one)), &list, errors);
        if one["restartPolicy"] == "Always" {
            handlers::check(spec, one, &path, errors);
            continue;
        }
        handlers::none(one, &path, errors);
        let list = path.field("resizePolicy");
        for (at, policy) in entries(one, "resizePolicy").filter(|(_, one)| one["restartPolicy"] == "RestartContainer") {
            let fault = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(list.index(at).field("restartPolicy"), &policy["restartPolicy"], fault);
        }
    }
}

/// What all containers have together.
fn all_resources(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let resources = &spec["resources"];
    let path = path.field("resources");
    if resources.is_null() {
        return;
    }
    if spec["os"]["name"] == "windows" {
        return errors.forbidden(path, "may not be set for a windows pod");
    }
    if !resources["claims"].is_null() {
        errors.forbidden(path.field("claims"), "claims may not be set for Resources at pod-level");
    }
    container::pod_resources(resources, &path, errors);
    consistent_resources(spec, &path, errors);
}

/// Containers must fit together into what the pod requests, and each of them into what the pod is limited to.
// upstream: pkg/apis/core/validation/validation.go validatePodResourceConsistency (v1.36)
fn consistent_resources(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(pod) = container_amounts(spec) else { return };
    let read = |amount: &Value| Quantity::parse(amount.as_str().unwrap_or_default()).ok();
    let own = |list: &str, name: &str| read(&spec["resources"][list][name]);
    for (list, of_containers) in [("requests", container_requests(&pod)), ("limits", container_limits(&pod))] {
        for (name, amount) in of_containers.into_iter().flatten() {
            let bound = own(list, &name).filter(|bound| amount > *bound);
            if let Some(bound) = bound.filter(|_| list == "requests" || name.starts_with(container::HUGE)) {
                let fault = format!("must be greater than or equal to aggregate container {list} of {amount}");
                errors.invalid(path.field(list).key(&name), &json!(bound.to_string()), fault);
            }
        }
    }
    let containers = path.field("containers");
    for (at, one) in entries(spec, "containers") {
        for (name, amount) in one["resources"]["limits"].as_object().into_iter().flatten() {
            let (Some(limit), Some(bound)) = (read(amount), own("limits", name)) else { continue };
            if limit > bound {
                let fault = format!("must be less than or equal to pod limits of {bound}");
                let place = containers.index(at);
                errors.invalid(place.key(name).field("limits"), &json!(limit.to_string()), fault);
            }
        }
    }
}

fn readiness(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    for (at, gate) in entries(spec, "readinessGates") {
        for fault in names::qualified(text(gate, "conditionType")) {
            errors.invalid(list.index(at).field("conditionType"), &json!(text(gate, "conditionType")), fault);
        }
    }
}

/// Variables of a file are in a directory of the pod itself.
// upstream: pkg/apis/core/validation/validation.go validateFileKeyRefVolumes (v1.36)
fn file_volumes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut volumes: HashMap<&str, &Value> = HashMap::new();
    for (_, volume) in entries(spec, "volumes") {
        volumes.entry(text(volume, "name")).or_insert(volume);
    }
    super::field::containers(spec, path, |container, path| {
        let list = path.field("env");
        for (at, variable) in entries(container, "env") {
            let source = &variable["valueFrom"]["fileKeyRef"];
            if !source.is_object() {
                continue;
            }
            let place = list.index(at);
            let place = place.field("valueFrom");
            let place = place.field("fileKeyRef");
            let wanted = text(source, "volumeName");
            match volumes.get(wanted) {
                None => errors.not_found(place.field("volumeName"), &json!(wanted)),
                Some(volume) if volume["emptyDir"].is_null() => {
                    errors.invalid(
                        place.field("volumeName"),
                        &json!(wanted),
                        "referenced volume must be of type emptyDir",
                    );
                }
                Some(_) => {}
            }
        }
    });
}
