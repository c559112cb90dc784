//! ClusterRoles that gather the rules of others.

use klab_scheduler::selector::Selector;
use serde_json::Value;

/// The rules that a role with an `aggregationRule` gathers from all roles: selector by selector, by name, each once.
// upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go syncClusterRole (v1.36)
pub fn aggregated(role: &Value, mut roles: Vec<&Value>) -> Vec<Value> {
    let name = |role: &Value| role["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let own = name(role);
    roles.retain(|other| name(other) != own);
    roles.sort_by_key(|role| name(role));
    let mut rules: Vec<Value> = Vec::new();
    for selector in role["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten() {
        let selector = Selector::from_json(selector);
        let selected = |role: &&&Value| selector.matches_by(|key| role["metadata"]["labels"][key].as_str());
        for other in roles.iter().filter(selected) {
            for rule in other["rules"].as_array().into_iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}
