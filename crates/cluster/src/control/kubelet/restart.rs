//! Whether a container that has ended is started again.

// upstream: pkg/api/v1/pod/util.go ContainerShouldRestart, FindMatchingContainerRestartRule (v1.36)

use klab_api_machinery::views::{self, ContainerRestartRule, Pod};

use super::container::{Container, Role};

/// Whether the pod's policy, or the container's own, asks for another start after this exit code.
pub(super) fn restarts(pod: Pod<'_>, container: &Container<'_>, code: i64) -> bool {
    if container.role == Role::Ephemeral {
        return false;
    }
    let done = container.role == Role::Init && code == 0;
    let own = container.spec.restart_policy();
    if own.is_some() && container.spec.restart_policy_rules().any(|rule| fits(rule, code)) {
        return !done;
    }
    match own.unwrap_or(pod.spec().restart_policy()) {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => !done,
    }
}

/// Whether all containers of the pod start again when this one has ended with this exit code.
// upstream: pkg/kubelet/container/helpers.go ShouldAllContainersRestart (v1.36)
pub(super) fn restarts_all(container: views::Container<'_>, code: i64) -> bool {
    let first = container.restart_policy_rules().find(|rule| fits(*rule, code));
    first.is_some_and(|rule| rule.action() == ALL)
}

/// Whether a container of a pod may have all of them start again.
pub(super) fn may_restart_all(pod: Pod<'_>) -> bool {
    let containers = pod.spec().init_containers().chain(pod.spec().containers());
    containers.flat_map(views::Container::restart_policy_rules).any(|rule| rule.action() == ALL)
}

/// The action of a rule by which all containers start again.
const ALL: &str = "RestartAllContainers";

fn fits(rule: ContainerRestartRule<'_>, code: i64) -> bool {
    let codes = rule.exit_codes();
    let listed = codes.values().any(|value| value == code);
    match codes.operator() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::container::containers;
    use super::*;

    #[test]
    fn policies_of_pod_and_container() {
        let rules = json!([{ "action": "Restart", "exitCodes": { "operator": "In", "values": [42] } }]);
        for (policy, container, init, code, expected) in [
            ("Always", json!({}), false, 0, true),
            ("OnFailure", json!({}), false, 0, false),
            ("OnFailure", json!({}), false, 1, true),
            ("Never", json!({}), false, 1, false),
            ("Always", json!({}), true, 0, false),
            ("Always", json!({}), true, 1, true),
            ("Never", json!({}), true, 1, false),
            ("Never", json!({ "restartPolicy": "Always" }), true, 0, true),
            ("Never", json!({ "restartPolicy": "Never", "restartPolicyRules": rules }), false, 42, true),
            ("Always", json!({ "restartPolicy": "Never", "restartPolicyRules": rules }), false, 1, false),
        ] {
            let list = if init { "initContainers" } else { "containers" };
            let pod = json!({ "spec": { "restartPolicy": policy, list: [container] } });
            let pod = Pod(&pod);
            assert_eq!(restarts(pod, &containers(pod)[0], code), expected, "{} {code}", pod.0);
        }
    }
}
