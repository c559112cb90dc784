//! `podFailurePolicy` of Jobs: what the failure of a pod means for its Job.

// upstream: pkg/controller/job/pod_failure_policy.go matchPodFailurePolicy (v1.36)

use klab_api_machinery::views::{
    ContainerStatus, Pod, PodCondition, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule,
};

/// What the first rule that fits a failed pod says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// `Ignore`, `Count`, `FailJob`, `FailIndex`.
    pub(super) action: String,
    /// Which rule and why, as the Job's condition says it.
    pub(super) message: String,
}

/// Judges a failed pod; `None` when no rule fits, so that it counts as usual.
pub(super) fn verdict(policy: PodFailurePolicy<'_>, pod: Pod<'_>) -> Option<Verdict> {
    let name = format!("{}/{}", pod.metadata().namespace(), pod.metadata().name());
    policy.rules().enumerate().find_map(|(index, rule)| {
        let action = rule.action().to_owned();
        let fits = format!("matching {action} rule at index {index}");
        let message = if rule.on_exit_codes().is_set() {
            let (container, code) = failed_container(rule.on_exit_codes(), pod)?;
            format!("Container {container} for pod {name} failed with exit code {code} {fits}")
        } else {
            let condition = matching_condition(rule, pod)?;
            format!("Pod {name} has condition {condition} {fits}")
        };
        Some(Verdict { action, message })
    })
}

/// The first container that ended with an exit code the rule means.
fn failed_container<'a>(rule: PodFailurePolicyOnExitCodesRequirement<'_>, pod: Pod<'a>) -> Option<(&'a str, i64)> {
    let all = pod.status().container_statuses().chain(pod.status().init_container_statuses());
    let meant = |container: &ContainerStatus<'_>| rule.container_name().is_none_or(|name| container.name() == name);
    all.filter(meant).find_map(|container| {
        let code = container.state().terminated().exit_code();
        let listed = rule.values().any(|value| value == code);
        let fits = code != 0 && (rule.operator() == "NotIn") != listed;
        fits.then(|| (container.name(), code))
    })
}

fn matching_condition<'a>(rule: PodFailurePolicyRule<'_>, pod: Pod<'a>) -> Option<&'a str> {
    let wanted = |have: &PodCondition<'_>| {
        rule.on_pod_conditions().any(|one| one.type_() == have.type_() && one.status() == have.status())
    };
    pod.status().conditions().find(wanted).map(PodCondition::type_)
}

#[cfg(test)]
mod tests {
    use klab_api_machinery::views::Job;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let job = json!({"spec": {"podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42, 43]}},
            {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1]}},
        ]}}});
        let pod = |code: i64, conditions: Value| {
            json!({"metadata": {"namespace": "default", "name": "p"}, "status": {
                "conditions": conditions,
                "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]}})
        };
        let policy = Job(&job).spec().pod_failure_policy();
        let said = |pod: Value| verdict(policy, Pod(&pod)).map(|verdict| (verdict.action, verdict.message));
        let expected = |action: &str, message: &str| Some((action.to_owned(), message.to_owned()));
        assert_eq!(
            said(pod(42, json!([]))),
            expected(
                "FailJob",
                "Container main for pod default/p failed with exit code 42 matching FailJob rule at index 1"
            )
        );
        assert_eq!(
            said(pod(42, json!([{"type": "DisruptionTarget", "status": "True"}]))),
            expected("Ignore", "Pod default/p has condition DisruptionTarget matching Ignore rule at index 0")
        );
        assert_eq!(said(pod(42, json!([{"type": "DisruptionTarget", "status": "False"}]))).unwrap().0, "FailJob");
        assert_eq!(said(pod(7, json!([]))).unwrap().0, "Count");
        assert_eq!(said(pod(1, json!([]))), None);
        assert_eq!(said(pod(0, json!([]))), None);
    }
}
