//! `podFailurePolicy` of Jobs: what the failure of a pod means for its Job.

// upstream: pkg/controller/job/pod_failure_policy.go matchPodFailurePolicy (v1.36)

use klab_api_machinery::value::{items, text};
use serde_json::Value;

/// What the first rule that fits a failed pod says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// `Ignore`, `Count`, `FailJob`, `FailIndex`.
    pub(super) action: String,
    /// Which rule and why, as the Job's condition says it.
    pub(super) message: String,
}

/// Judges a failed pod; `None` when no rule fits, so that it counts as usual.
pub(super) fn verdict(job: &Value, pod: &Value) -> Option<Verdict> {
    let name = format!("{}/{}", text(pod, &["metadata", "namespace"]), text(pod, &["metadata", "name"]));
    items(&job["spec"]["podFailurePolicy"]["rules"]).iter().enumerate().find_map(|(index, rule)| {
        let action = text(rule, &["action"]).to_owned();
        let fits = format!("matching {action} rule at index {index}");
        let message = if rule["onExitCodes"].is_object() {
            let (container, code) = failed_container(&rule["onExitCodes"], pod)?;
            format!("Container {container} for pod {name} failed with exit code {code} {fits}")
        } else {
            let condition = matching_condition(items(&rule["onPodConditions"]), pod)?;
            format!("Pod {name} has condition {condition} {fits}")
        };
        Some(Verdict { action, message })
    })
}

/// The first container that ended with an exit code the rule means.
fn failed_container<'a>(rule: &Value, pod: &'a Value) -> Option<(&'a str, i64)> {
    let status = &pod["status"];
    let all = items(&status["containerStatuses"]).iter().chain(items(&status["initContainerStatuses"]));
    let meant = |container: &&Value| rule["containerName"].as_str().is_none_or(|name| container["name"] == name);
    all.filter(meant).find_map(|container| {
        let code = container["state"]["terminated"]["exitCode"].as_i64().filter(|code| *code != 0)?;
        let listed = items(&rule["values"]).iter().any(|value| value.as_i64() == Some(code));
        let fits = if rule["operator"] == "NotIn" { !listed } else { listed };
        fits.then(|| (text(container, &["name"]), code))
    })
}

fn matching_condition<'a>(patterns: &[Value], pod: &'a Value) -> Option<&'a str> {
    let wanted = |have: &Value| {
        patterns.iter().any(|pattern| pattern["type"] == have["type"] && pattern["status"] == have["status"])
    };
    items(&pod["status"]["conditions"]).iter().find(|have| wanted(have)).map(|have| text(have, &["type"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let said = |pod: Value| verdict(&job, &pod).map(|verdict| (verdict.action, verdict.message));
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
