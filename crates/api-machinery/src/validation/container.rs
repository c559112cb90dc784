//! Containers: names, images, ports, resources, and when they start again.

// upstream: pkg/apis/core/validation/validation.go validateContainerCommon (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, supported, text};
use super::volumes::Volumes;
use super::{Errors, environment, mounts, pod_claims, quota, security_context};
use crate::schema::Path;
use klab_scheduler::features::Gate;
use klab_scheduler::quantity::Quantity;

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
    pub(super) fn of(spec: &'a Value, volumes: Volumes<'a>) -> Self {
        Self { volumes, claims: pod_claims::names(spec) }
    }
}

/// What every container has, in a pod with these volumes. A template may name its image between blanks.
pub(super) fn check(spec: &Value, container: &Value, path: &Path<'_>, named: &Named<'_>, errors: &mut Errors) {
    let volumes = &named.volumes;
    let name = text(container, "name");
    if name.is_empty() {
        errors.required(path.field("name"), "");
    } else {
        for fault in names::label(name) {
            errors.invalid(path.field("name"), &container["name"], fault);
        }
    }
    if text(container, "image").is_empty() {
        errors.required(path.field("image"), "");
    }
    let place = path.field("terminationMessagePolicy");
    supported(&container["terminationMessagePolicy"], &place, &["File", "FallbackToLogsOnError"], errors);
    ports(container, path, errors);
    environment::variables(container, &path.field("env"), errors);
    environment::sources(container, &path.field("envFrom"), errors);
    mounts::mounts(container, &path.field("volumeMounts"), volumes, errors);
    mounts::devices(container, &path.field("volumeDevices"), volumes, errors);
    let place = path.field("imagePullPolicy");
    supported(&container["imagePullPolicy"], &place, &["Always", "IfNotPresent", "Never"], errors);
    resources(&container["resources"], &path.field("resources"), errors);
    pod_claims::container(&named.claims, container, path, errors);
    resize_policies(spec, container, &path.field("resizePolicy"), errors);
    security_context::container(container, security_context::has_host_users(spec), path, errors);
}

/// The image of a container that is to run, and is no template.
pub(super) fn image(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let image = text(container, "image");
    if image != image.trim() {
        errors.invalid(path.field("image"), &container["image"], "must not have leading or trailing whitespace");
    }
}

/// A name that containers before this one have already.
pub(super) fn unique<'a>(container: &'a Value, path: &Path<'_>, seen: &mut HashSet<&'a str>, errors: &mut Errors) {
    let name = text(container, "name");
    if !seen.insert(name) && !name.is_empty() {
        errors.duplicate(path.field("name"), &container["name"]);
    }
}

/// When a container starts again, other than its pod says.
// upstream: pkg/apis/core/validation/validation.go validateContainerRestartPolicy (v1.36)
pub(super) fn restart_policy(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = &container["restartPolicy"];
    let place = path.field("restartPolicy");
    let rules = entries(container, "restartPolicyRules").count();
    if policy.is_null() {
        if rules == 0 {
            return;
        }
        errors.required(place, "must specify restartPolicy when restart rules are used");
    }
    supported(policy, &place, &["Always", "Never", "OnFailure"], errors);
    let list = path.field("restartPolicyRules");
    if rules > MAX_RULES {
        errors.too_many(list, rules, MAX_RULES);
    }
    for (at, rule) in entries(container, "restartPolicyRules") {
        let path = list.index(at);
        let action = json!(text(rule, "action"));
        let all = errors.has(Gate::RestartAllContainersOnContainerExits);
        let actions = &["Restart", "RestartAllContainers"][..if all { 2 } else { 1 }];
        supported(&action, &path.field("action"), actions, errors);
        let codes = &rule["exitCodes"];
        let path = path.field("exitCodes");
        if codes.is_object() {
            supported(&json!(text(codes, "operator")), &path.field("operator"), &["In", "NotIn"], errors);
            let count = entries(codes, "values").count();
            if count > MAX_CODES {
                errors.too_many(path.field("values"), count, MAX_CODES);
            }
        } else {
            errors.required(path, "must be specified");
        }
    }
}

/// What a new size does to a container. What is wrong is said of the list.
// upstream: pkg/apis/core/validation/validation.go validateResizePolicy (v1.36)
fn resize_policies(spec: &Value, container: &Value, list: &Path<'_>, errors: &mut Errors) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, policy) in entries(container, "resizePolicy") {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !seen.insert(resource) {
            errors.duplicate(list.index(at), &policy["resourceName"]);
        }
        for (value, field, choices) in [
            (resource, "resourceName", ["cpu", "memory"]),
            (restart, "restartPolicy", ["NotRequired", "RestartContainer"]),
        ] {
            if value.is_empty() {
                errors.required(list, "");
            } else {
                supported(&policy[field], list, &choices, errors);
            }
        }
        if spec["restartPolicy"] == "Never" && restart != "NotRequired" {
            let fault = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(list, &json!(restart), fault);
        }
    }
}

fn ports(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("ports");
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, port) in entries(container, "ports") {
        let path = list.index(at);
        let name = text(port, "name");
        if !name.is_empty() {
            let faults = names::port(name);
            let good = faults.is_empty();
            for fault in faults {
                errors.invalid(path.field("name"), &port["name"], fault);
            }
            if good && !seen.insert(name) {
                errors.duplicate(path.field("name"), &port["name"]);
            }
        }
        match port["containerPort"].as_i64() {
            None | Some(0) => errors.required(path.field("containerPort"), ""),
            Some(_) => number(&port["containerPort"], &path.field("containerPort"), errors),
        }
        if port["hostPort"].as_i64().is_some_and(|port| port != 0) {
            number(&port["hostPort"], &path.field("hostPort"), errors);
        }
        supported(&port["protocol"], &path.field("protocol"), &["SCTP", "TCP", "UDP"], errors);
    }
}

/// A port number.
pub(super) fn number(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !value.as_i64().is_some_and(|port| (1..=65_535).contains(&port)) {
        errors.invalid(path, value, "must be between 1 and 65535, inclusive");
    }
}

/// `requests` and `limits` of a container, or of what containers have beside them.
pub(super) fn resources(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    amounts(resources, resource_name, path, errors);
}

/// `requests` and `limits` of all containers together.
pub(super) fn pod_resources(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    amounts(resources, pod_resource, path, errors);
}

fn amounts(resources: &Value, name_check: fn(&str, &Path<'_>, &mut Errors), path: &Path<'_>, errors: &mut Errors) {
    let parse = |value: &Value| Quantity::parse(value.as_str().unwrap_or_default()).ok();
    let limits = path.field("limits");
    for (name, amount) in resources["limits"].as_object().into_iter().flatten() {
        name_check(name, &limits.key(name), errors);
        amount_of(name, amount, &limits.key(name), errors);
    }
    let requests = path.field("requests");
    for (name, amount) in resources["requests"].as_object().into_iter().flatten() {
        name_check(name, &requests.key(name), errors);
        amount_of(name, amount, &requests.key(name), errors);
        let limit = &resources["limits"][name.as_str()];
        match (parse(amount), parse(limit)) {
            (Some(request), Some(bound)) => {
                if !overcommits(name) && request != bound {
                    errors.invalid(requests, amount, format!("must be equal to {name} limit of {bound}"));
                } else if request > bound {
                    errors.invalid(requests, amount, format!("must be less than or equal to {name} limit of {bound}"));
                }
            }
            (Some(_), None) if !overcommits(name) => {
                errors.required(limits, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    let given = |wanted: fn(&str) -> bool| {
        let all = ["limits", "requests"].into_iter().filter_map(|list| resources[list].as_object()).flatten();
        all.into_iter().any(|(name, _)| wanted(name))
    };
    if given(|name| name.starts_with(HUGE)) && !given(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
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
    let faults = names::qualified(name);
    let good = faults.is_empty();
    for fault in faults {
        errors.invalid(path, &json!(name), fault);
    }
    let is_known = STANDARD.contains(&name)
        || quota::is_standard(name)
        || name == "storage"
        || name.strip_prefix("requests.").unwrap_or(name).starts_with(HUGE);
    if good && !name.contains('/') && !is_known {
        errors.invalid(path, &json!(name), "must be a standard resource type or fully qualified");
    }
}

fn amount_of(name: &str, amount: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Ok(quantity) = Quantity::parse(amount.as_str().unwrap_or_default()) else { return };
    if quantity.is_negative() {
        errors.invalid(path, amount, "must be greater than or equal to 0");
    }
    if names::is_extended_resource(name) && quantity.millis() % 1000 != 0 {
        errors.invalid(path, amount, "must be an integer");
    }
    if let Some(size) = name.strip_prefix(HUGE) {
        let size = Quantity::parse(size).ok().filter(|size| size.units() > 0 && size.millis() % 1000 == 0);
        if size.is_none_or(|size| quantity.units() % size.units() != 0) {
            errors.invalid(path, amount, format!("{quantity} is not positive integer multiple of {name}"));
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
        check(&spec, &container, &Path::Root.field("c"), &Named::of(&spec, Volumes::new()), &mut errors);
        restart_policy(&container, &Path::Root.field("c"), &mut errors);
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
        pod_resources(&json!({ "limits": { "ephemeral-storage": "1" } }), &Path::Root.field("r"), &mut errors);
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
