//! Pods and pod templates.

// upstream: pkg/apis/core/validation/validation.go ValidatePodSpec (v1.36)

use std::collections::{HashMap, HashSet};

use klab_cel::names;
use klab_scheduler::features::Gate;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::{container_limits, container_requests};
use serde_json::{Value, json};

use super::container::Named;
use super::place::Texts;
use super::{
    Errors, Place, container, handlers, metadata, placement, pod_claims, pod_network, pod_system, security_context,
    volumes,
};
use crate::pod_resources::container_amounts;
use crate::views::{ObjectMeta, Pod, PodSpec, PodTemplateSpec, Volume};

/// The annotation that says which pods controllers delete first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A new pod.
pub fn create(pod: &Value, errors: &mut Errors) {
    let pod = Place::<Pod<'_>>::root(pod);
    let (metadata, pod_spec) = (pod.metadata(), pod.spec());
    let annotations = metadata.annotations();
    if pod.is_mirror() && pod_spec.node_name().is_empty() {
        let fault = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid_at(&annotations.entry("kubernetes.io/config.mirror"), fault);
    }
    deletion_cost(&annotations, errors);
    spec(&pod_spec, Some(*metadata), errors);
    if pod_spec.service_account_name().is_empty() {
        tokens_without_account(&pod_spec, errors);
    }
    pod_spec.containers().each().for_each(|one| container::image(&one, errors));
    pod_spec.init_containers().each().for_each(|one| container::image(&one, errors));
    if !pod_spec.ephemeral_containers().is_empty() {
        errors.forbidden(pod_spec.ephemeral_containers(), "cannot be set on create");
    }
    placement::gated(&pod_spec, errors);
}

fn tokens_without_account(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    for volume in spec.volumes().each() {
        for source in volume.projected().sources().each() {
            if source.service_account_token().is_set() {
                let fault = "must not be specified when serviceAccountName is not set";
                errors.forbidden(source.service_account_token(), fault);
            }
        }
    }
}

/// The template of a workload: labels, annotations, spec.
pub fn template(template: &Place<'_, PodTemplateSpec<'_>>, errors: &mut Errors) {
    // Upstream leaves `metadata` out of their place.
    let metadata = template.metadata().called(template.path);
    metadata::labels(&metadata.labels(), errors);
    metadata::annotations(&metadata.annotations(), errors);
    deletion_cost(&metadata.annotations(), errors);
    spec(&template.spec(), None, errors);
    if !template.spec().ephemeral_containers().is_empty() {
        let fault = "ephemeral containers not allowed in pod template";
        errors.forbidden(template.spec().ephemeral_containers(), fault);
    }
}

fn deletion_cost(annotations: &Place<'_, Texts<'_>>, errors: &mut Errors) {
    let Some(text) = annotations.get(DELETION_COST).filter(|_| errors.has(Gate::PodDeletionCost)) else { return };
    // Numbers with a plus or with zeros in front are refused, too.
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !text.starts_with('+') && (digits == "0" || !digits.starts_with('0'));
    if !is_plain || text == "-0" || text.parse::<i32>().is_err() {
        errors.invalid_at(&annotations.entry(DELETION_COST), "must be a 32bit integer");
    }
}

/// A pod's spec, of a pod with this metadata or of a template.
pub fn spec(spec: &Place<'_, PodSpec<'_>>, pod: Option<ObjectMeta<'_>>, errors: &mut Errors) {
    let volumes = volumes::check(&spec.volumes(), pod, errors);
    pod_claims::pod(&spec.resource_claims(), errors);
    containers(spec, &Named::of(**spec, volumes), errors);
    all_resources(spec, errors);
    pod_network::host_network(spec, pod.is_some(), errors);
    spec.restart_policy().supported(&["Always", "OnFailure", "Never"], errors);
    spec.dns_policy().supported(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], errors);
    metadata::labels(&spec.node_selector(), errors);
    security_context::pod(spec, errors);
    placement::affinity(&spec.affinity(), errors);
    pod_network::dns(spec, errors);
    spec.readiness_gates().each().for_each(|gate| gate.condition_type().check(names::qualified, errors));
    placement::gates(&spec.scheduling_gates(), errors);
    placement::spreading(&spec.topology_spread_constraints(), errors);
    pod_system::host_processes(spec, errors);
    security_context::own_users(spec, errors);
    pod_network::host_name(spec, errors);
    spec.service_account_name().check_if_set(names::subdomain, errors);
    spec.node_name().check_if_set(names::subdomain, errors);
    let fault = "must be between 1 and 2147483647, inclusive";
    spec.active_deadline_seconds().within(1..=i64::from(i32::MAX), fault, errors);
    spec.hostname().check_if_set(names::label, errors);
    spec.subdomain().check_if_set(names::label, errors);
    placement::tolerations(&spec.tolerations(), errors);
    pod_network::aliases(&spec.host_aliases(), errors);
    spec.priority_class_name().check_if_set(names::subdomain, errors);
    spec.runtime_class_name().check_if_set(names::subdomain, errors);
    spec.preemption_policy().supported(&["PreemptLowerPriority", "Never"], errors);
    let overhead = json!({ "limits": spec.overhead().json });
    container::resources(&Place::new(spec.overhead().path, &overhead), errors);
    pod_system::check(spec, errors);
    file_volumes(spec, errors);
}

fn containers(spec: &Place<'_, PodSpec<'_>>, named: &Named<'_>, errors: &mut Errors) {
    let list = spec.containers();
    list.needed(errors);
    let mut seen: HashSet<&str> = HashSet::new();
    for one in list.each() {
        container::check(**spec, &one, named, errors);
        container::unique(&one, &mut seen, errors);
        handlers::check(**spec, &one, errors);
        container::restart_policy(&one, errors);
    }
    pod_network::host_ports(list.each(), errors);
    let list = spec.init_containers();
    for one in list.each() {
        container::check(**spec, &one, named, errors);
        container::restart_policy(&one, errors);
        container::unique(&one, &mut seen, errors);
        // They run one after another. Upstream counts each of them as the first.
        pod_network::host_ports(std::iter::once(one.called(list.path.index(0))), errors);
        if *one.restart_policy() == Some("Always") {
            handlers::check(**spec, &one, errors);
            continue;
        }
        handlers::none(&one, errors);
        for policy in one.resize_policy().each().filter(|policy| *policy.restart_policy() == "RestartContainer") {
            let fault = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid_at(&policy.restart_policy(), fault);
        }
    }
}

/// What all containers have together.
fn all_resources(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let resources = spec.resources();
    if !resources.is_set() {
        return;
    }
    if *spec.os().name() == "windows" {
        return errors.forbidden(resources, "may not be set for a windows pod");
    }
    resources.claims().absent("claims may not be set for Resources at pod-level", errors);
    container::pod_resources(&resources, errors);
    consistent_resources(spec, errors);
}

/// Containers must fit together into what the pod requests, and each of them into what the pod is limited to.
// upstream: pkg/apis/core/validation/validation.go validatePodResourceConsistency (v1.36)
fn consistent_resources(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let Some(pod) = container_amounts(spec.json) else { return };
    let read = |amount: &Value| Quantity::parse(amount.as_str().unwrap_or_default()).ok();
    let resources = spec.resources();
    let (requests, limits) = (resources.requests(), resources.limits());
    for (list, own, of_containers) in
        [("requests", requests, container_requests(&pod)), ("limits", limits, container_limits(&pod))]
    {
        for (name, amount) in of_containers.into_iter().flatten() {
            let bound = own.get(&name).and_then(read).filter(|bound| amount > *bound);
            if let Some(bound) = bound.filter(|_| list == "requests" || name.starts_with(container::HUGE)) {
                let fault = format!("must be greater than or equal to aggregate container {list} of {amount}");
                errors.invalid(own.path.key(&name), &json!(bound.to_string()), fault);
            }
        }
    }
    // Upstream looks for them below the resources, and says the name before `limits`.
    let of_pod = spec.called(resources.path);
    for container in of_pod.containers().each() {
        for (name, amount) in container.resources().limits().each() {
            let (Some(limit), Some(bound)) = (read(amount.json), limits.get(name).and_then(read)) else { continue };
            if limit > bound {
                let fault = format!("must be less than or equal to pod limits of {bound}");
                errors.invalid(container.path.key(name).field("limits"), &json!(limit.to_string()), fault);
            }
        }
    }
}

/// Variables of a file are in a directory of the pod itself.
// upstream: pkg/apis/core/validation/validation.go validateFileKeyRefVolumes (v1.36)
fn file_volumes(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let mut volumes: HashMap<&str, Volume<'_>> = HashMap::new();
    for volume in spec.volumes().each() {
        volumes.entry(*volume.name()).or_insert(*volume);
    }
    spec.each_container(|container| {
        for variable in container.env().each() {
            let source = variable.value_from();
            let source = source.file_key_ref();
            let wanted = source.volume_name();
            match volumes.get(*wanted) {
                _ if !source.is_set() => {}
                None => errors.not_found_text(&wanted),
                Some(volume) if !volume.empty_dir().is_set() => {
                    errors.invalid_text(&wanted, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}
