//! Containers: names, images, ports, resources, and when they start again.

// upstream: pkg/apis/core/validation/validation.go validateContainerCommon (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use klab_scheduler::features::Gate;
use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use super::volumes::Volumes;
use super::{Errors, Place, environment, mounts, pod_claims, quota, security_context};
use crate::schema::Path;
use crate::views::{Container, ContainerResizePolicy, PodSpec, ResourceRequirements, Views};

/// Resources of containers that need no domain in front.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
pub(super) const HUGE: &str = "hugepages-";
/// Most rules of a container, and most exit codes of a rule.
const MAX_RULES: usize = 20;
const MAX_CODES: usize = 255;

/// What the containers of a pod refer to by name.
pub(super) struct Named<'a> {
    volumes: Volumes<'a>,
    claims: HashSet<&'a str>,
}

impl<'a> Named<'a> {
    /// The claims of a pod, and these volumes of it.
    pub(super) fn of(spec: PodSpec<'a>, volumes: Volumes<'a>) -> Self {
        Self { volumes, claims: spec.resource_claims().map(super::super::views::PodResourceClaim::name).collect() }
    }
}

/// What every container has, in a pod with these volumes. A template may name its image between blanks.
pub(super) fn check(spec: PodSpec<'_>, container: &Place<'_, Container<'_>>, named: &Named<'_>, errors: &mut Errors) {
    container.name().needed_as(names::label, errors);
    container.image().needed(errors);
    container.termination_message_policy().supported(&["File", "FallbackToLogsOnError"], errors);
    ports(container, errors);
    environment::variables(&container.env(), errors);
    environment::sources(&container.env_from(), errors);
    mounts::mounts(container, &named.volumes, errors);
    mounts::devices(container, &named.volumes, errors);
    container.image_pull_policy().supported(&["Always", "IfNotPresent", "Never"], errors);
    resources(&container.resources(), errors);
    pod_claims::container(&named.claims, container, errors);
    resize_policies(spec, &container.resize_policy(), errors);
    security_context::container(&container.security_context(), security_context::has_host_users(spec), errors);
}

/// The image of a container that is to run, and is no template.
pub(super) fn image(container: &Place<'_, Container<'_>>, errors: &mut Errors) {
    let image = container.image();
    if *image != image.trim() {
        errors.invalid_at(&image, "must not have leading or trailing whitespace");
    }
}

/// A name that containers before this one have already.
pub(super) fn unique<'a>(container: &Place<'_, Container<'a>>, seen: &mut HashSet<&'a str>, errors: &mut Errors) {
    let name = container.name();
    if !seen.insert(*name) && !name.is_empty() {
        errors.duplicate_at(&name);
    }
}

/// When a container starts again, other than its pod says.
// upstream: pkg/apis/core/validation/validation.go validateContainerRestartPolicy (v1.36)
pub(super) fn restart_policy(container: &Place<'_, Container<'_>>, errors: &mut Errors) {
    let (policy, rules) = (container.restart_policy(), container.restart_policy_rules());
    if !policy.is_set() {
        if rules.is_empty() {
            return;
        }
        errors.required(policy, "must specify restartPolicy when restart rules are used");
    }
    policy.supported(&["Always", "Never", "OnFailure"], errors);
    rules.at_most(MAX_RULES, errors);
    for rule in rules.each() {
        let all = errors.has(Gate::RestartAllContainersOnContainerExits);
        rule.action().one_of(&["Restart", "RestartAllContainers"][..if all { 2 } else { 1 }], errors);
        let codes = rule.exit_codes();
        if codes.is_set() {
            codes.operator().one_of(&["In", "NotIn"], errors);
            codes.values().at_most(MAX_CODES, errors);
        } else {
            errors.required(codes, "must be specified");
        }
    }
}

/// What a new size does to a container. What is wrong is said of the list.
// upstream: pkg/apis/core/validation/validation.go validateResizePolicy (v1.36)
fn resize_policies<'a>(spec: PodSpec<'_>, list: &Place<'_, Views<'a, ContainerResizePolicy<'a>>>, errors: &mut Errors) {
    let mut seen: HashSet<&str> = HashSet::new();
    for policy in list.each() {
        let (resource, restart) = (policy.resource_name(), policy.restart_policy());
        if !seen.insert(*resource) {
            errors.duplicate(policy, resource.json);
        }
        for (field, choices) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            let of_list = field.called(list.path);
            of_list.needed(errors);
            if !field.is_empty() {
                of_list.supported(&choices, errors);
            }
        }
        if spec.restart_policy() == "Never" && *restart != "NotRequired" {
            let fault = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid_text(&restart.called(list.path), fault);
        }
    }
}

fn ports(container: &Place<'_, Container<'_>>, errors: &mut Errors) {
    let mut seen: HashSet<&str> = HashSet::new();
    for port in container.ports().each() {
        let (name, before) = (port.name(), errors.len());
        name.check_if_set(names::port, errors);
        if !name.is_empty() && errors.len() == before && !seen.insert(*name) {
            errors.duplicate_at(&name);
        }
        match *port.container_port() {
            0 => errors.required(port.container_port(), ""),
            _ => number(&port.container_port(), errors),
        }
        if *port.host_port() != 0 {
            number(&port.host_port(), errors);
        }
        port.protocol().supported(&["SCTP", "TCP", "UDP"], errors);
    }
}

/// A port number.
pub(super) fn number<T>(port: &Place<'_, T>, errors: &mut Errors) {
    if !port.json.as_i64().is_some_and(|port| (1..=65_535).contains(&port)) {
        errors.invalid_at(port, "must be between 1 and 65535, inclusive");
    }
}

/// `requests` and `limits` of a container, or of what containers have beside them.
pub(super) fn resources(resources: &Place<'_, ResourceRequirements<'_>>, errors: &mut Errors) {
    amounts(resources, resource_name, errors);
}

/// `requests` and `limits` of all containers together.
pub(super) fn pod_resources(resources: &Place<'_, ResourceRequirements<'_>>, errors: &mut Errors) {
    amounts(resources, pod_resource, errors);
}

fn amounts(
    resources: &Place<'_, ResourceRequirements<'_>>,
    name_check: fn(&str, &Path<'_>, &mut Errors),
    errors: &mut Errors,
) {
    let parse = |value: &Value| Quantity::parse(value.as_str().unwrap_or_default()).ok();
    let (limits, requests) = (resources.limits(), resources.requests());
    for (name, amount) in limits.each() {
        name_check(name, &amount.path, errors);
        amount_of(name, &amount, errors);
    }
    for (name, amount) in requests.each() {
        name_check(name, &amount.path, errors);
        amount_of(name, &amount, errors);
        match (parse(amount.json), limits.get(name).and_then(parse)) {
            (Some(request), Some(bound)) => {
                let amount = amount.called(requests.path);
                if !overcommits(name) && request != bound {
                    errors.invalid_at(&amount, format!("must be equal to {name} limit of {bound}"));
                } else if request > bound {
                    errors.invalid_at(&amount, format!("must be less than or equal to {name} limit of {bound}"));
                }
            }
            (Some(_), None) if !overcommits(name) => {
                errors.required(limits, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    let given = |wanted: fn(&str) -> bool| limits.iter().chain(requests.iter()).any(|(name, _)| wanted(name));
    if given(|name| name.starts_with(HUGE)) && !given(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(resources, "HugePages require cpu or memory");
    }
}

/// A name of a resource of containers.
// upstream: pkg/apis/core/validation/validation.go validateContainerResourceName, validateResourceName (v1.36)
pub(super) fn resource_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    plain_resource(name, path, errors);
    if !name.contains('/') {
        if !STANDARD.contains(&name) && !name.starts_with(HUGE) {
            errors.invalid(path, &json!(name), "must be a standard resource for containers");
        }
    } else if !name.contains("kubernetes.io/") && !names::is_extended_resource(name) {
        errors.invalid(path, &json!(name), "doesn't follow extended resource name standard");
    }
}

fn pod_resource(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let before = errors.len();
    plain_resource(name, path, errors);
    if errors.len() == before && !matches!(name, "cpu" | "memory") && !name.starts_with(HUGE) {
        errors.unsupported(path, &json!(name), &["cpu", HUGE, "memory"]);
    }
}

/// A name of a resource, wherever it stands.
pub(super) fn plain_resource(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let before = errors.len();
    errors.faults(path, name, names::qualified);
    let is_known = STANDARD.contains(&name)
        || quota::is_standard(name)
        || name == "storage"
        || name.strip_prefix("requests.").unwrap_or(name).starts_with(HUGE);
    if errors.len() == before && !name.contains('/') && !is_known {
        errors.invalid(path, &json!(name), "must be a standard resource type or fully qualified");
    }
}

fn amount_of(name: &str, amount: &Place<'_, &Value>, errors: &mut Errors) {
    let Ok(quantity) = Quantity::parse(amount.text()) else { return };
    if quantity.is_negative() {
        errors.invalid_at(amount, "must be greater than or equal to 0");
    }
    if names::is_extended_resource(name) && quantity.millis() % 1000 != 0 {
        errors.invalid_at(amount, "must be an integer");
    }
    if let Some(size) = name.strip_prefix(HUGE) {
        let size = Quantity::parse(size).ok().filter(|size| size.units() > 0 && size.millis() % 1000 == 0);
        if size.is_none_or(|size| quantity.units() % size.units() != 0) {
            errors.invalid_at(amount, format!("{quantity} is not positive integer multiple of {name}"));
        }
    }
}

/// Whether more of a resource may be promised than there is.
pub(super) fn overcommits(name: &str) -> bool {
    !name.starts_with(HUGE) && (!name.contains('/') || name.contains("kubernetes.io/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(container: Value) -> Vec<String> {
        let mut errors = Errors::default();
        let spec = json!({ "restartPolicy": "Never" });
        let mut container = container;
        container["name"] = json!("a");
        container["image"] = json!("b");
        let container = Place::new(Path::Root.field("c"), &container);
        check(PodSpec(&spec), &container, &Named::of(PodSpec(&spec), Volumes::new()), &mut errors);
        restart_policy(&container, &mut errors);
        errors.texts()
    }

    #[test]
    fn resources_have_names_and_amounts() {
        let of = |name: &str, amount: &str| faults(json!({ "resources": { "limits": { name: amount, "cpu": "1" } } }));
        for (name, amount, wanted) in [
            ("memory", "1Gi", vec![]),
            ("hugepages-2Mi", "4Mi", vec![]),
            ("example.com/gpu", "2", vec![]),
            ("kubernetes.io/batch", "1.5", vec![]),
            (
                "disk",
                "1",
                vec![
                    "\"disk\": must be a standard resource type or fully qualified",
                    "\"disk\": must be a standard resource for containers",
                ],
            ),
            ("pods", "1", vec!["\"pods\": must be a standard resource for containers"]),
            (
                "requests.example.com/gpu",
                "1",
                vec!["\"requests.example.com/gpu\": doesn't follow extended resource name standard"],
            ),
            ("example.com/gpu", "1500m", vec!["\"1500m\": must be an integer"]),
            ("hugepages-2Mi", "3Mi", vec!["\"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi"]),
        ] {
            let wanted: Vec<String> =
                wanted.iter().map(|fault| format!("c.resources.limits[{name}]: Invalid value: {fault}")).collect();
            assert_eq!(of(name, amount), wanted, "{name}");
        }
        assert_eq!(
            faults(json!({ "resources": { "limits": { "hugepages-2Mi": "4Mi" } } })),
            ["c.resources: Forbidden: HugePages require cpu or memory"]
        );
        let mut errors = Errors::default();
        let resources = json!({ "limits": { "ephemeral-storage": "1" } });
        pod_resources(&Place::new(Path::Root.field("r"), &resources), &mut errors);
        assert_eq!(
            errors.texts(),
            [
                "r.limits[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \"cpu\", \"hugepages-\", \"memory\""
            ]
        );
    }

    #[test]
    fn containers_start_again_by_rules() {
        let rule = json!({ "action": "Restart", "exitCodes": { "operator": "In", "values": [42] } });
        assert_eq!(faults(json!({ "restartPolicy": "Never", "restartPolicyRules": [rule] })), [""; 0]);
        assert_eq!(
            faults(json!({ "restartPolicyRules": [rule] })),
            ["c.restartPolicy: Required value: must specify restartPolicy when restart rules are used"]
        );
        assert_eq!(
            faults(json!({ "restartPolicy": "Never", "restartPolicyRules": [{ "action": "x" }] })),
            [
                "c.restartPolicyRules[0].action: Unsupported value: \"x\": supported values: \"Restart\", \"RestartAllContainers\"",
                "c.restartPolicyRules[0].exitCodes: Required value: must be specified",
            ]
        );
        let policy = json!({ "resourceName": "cpu", "restartPolicy": "RestartContainer" });
        assert_eq!(
            faults(json!({ "resizePolicy": [policy, policy] })),
            [
                "c.resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` is 'Never'",
                "c.resizePolicy[1]: Duplicate value: \"cpu\"",
                "c.resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            ]
        );
    }
}
