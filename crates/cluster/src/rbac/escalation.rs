//! No user grants what the user does not hold: the checks before roles and bindings are written.

use klab_api_machinery::resource::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{ClusterRole, metadata};
use serde_json::{Value, json};

use super::resolve::{RoleReference, referenced_rules, rules_for};
use super::{Attributes, PolicyRule, ResourceSubject, Subject, User, authorize, quoted};
use crate::store::Store;
use klab_api_machinery::access::{compacted, quoted_list, text, uncovered};

/// Refuses a new role or binding (or one that replaces `old`) that would grant what the user neither holds nor may
/// grant by the verbs `escalate` and `bind`. The name in the path of a POST is empty.
// upstream: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased/storage.go (v1.36)
pub(crate) fn refuse_escalation(
    store: &Store,
    user: &User,
    resource: ResourceId,
    (namespace, name_in_path): (&str, &str),
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Status> {
    let of_roles = [ROLES, CLUSTER_ROLES].contains(&resource);
    if user.is_master() || !(of_roles || [ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS].contains(&resource)) {
        return Ok(());
    }
    if old.is_some_and(|old| is_for_garbage_collection(old, new)) {
        return Ok(());
    }
    let row = resource.row();
    let name = metadata(new).name();
    let may = |verb, subject| authorize(store, user, &Attributes { verb, to: Subject::Resource(subject) }).allowed;
    if of_roles {
        let (group, plural, asked) = (row.group, row.plural, name_in_path);
        let subject = ResourceSubject { group, resource: plural, namespace, name: asked, ..Default::default() };
        if may("escalate", subject) {
            return Ok(());
        }
        let rules: Vec<PolicyRule> = serde_json::from_value(new["rules"].clone()).unwrap_or_default();
        confirm(store, user, resource, namespace, name, &rules)?;
        let aggregates = |role: &Value| !ClusterRole(role).aggregation_rule().cluster_role_selectors().is_empty();
        if resource == CLUSTER_ROLES && (aggregates(new) || old.is_some_and(aggregates)) {
            let because = "must have cluster-admin privileges to use the aggregationRule";
            confirm(store, user, resource, namespace, name, &full_authority())
                .map_err(|_| refusal(resource, name, because))?;
        }
        return Ok(());
    }
    let role: RoleReference = serde_json::from_value(new["roleRef"].clone()).unwrap_or_default();
    let plural = match role.kind.as_str() {
        "ClusterRole" => CLUSTER_ROLES.row().plural,
        "Role" => ROLES.row().plural,
        _ => "",
    };
    let group = role.api_group.as_str();
    let subject = ResourceSubject { group, resource: plural, namespace, name: &role.name, ..Default::default() };
    if !plural.is_empty() && may("bind", subject) {
        return Ok(());
    }
    let rules = referenced_rules(store, &role, namespace)?;
    confirm(store, user, resource, namespace, name, &rules)
}

// upstream: pkg/registry/rbac/validation/rule.go ConfirmNoEscalation (v1.36)
fn confirm(
    store: &Store,
    user: &User,
    resource: ResourceId,
    namespace: &str,
    name: &str,
    wanted: &[PolicyRule],
) -> Result<(), Status> {
    let held = rules_for(store, user, namespace);
    let errors = held.errors_text().map_or_else(String::new, |text| format!("; resolution errors: [{text}]"));
    let held: Vec<PolicyRule> = held.rules.into_iter().map(|(rule, _)| rule).collect();
    let missing = uncovered(&held, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let mut missing: Vec<String> = compacted(missing).iter().map(text).collect();
    missing.sort();
    missing.dedup();
    let because = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}{errors}",
        quoted(&user.name),
        quoted_list(&user.groups),
        missing.join("\n")
    );
    Err(refusal(resource, name, &because))
}

fn refusal(resource: ResourceId, name: &str, because: &str) -> Status {
    let mut status = Status::forbidden(resource.row(), name, because);
    if name.is_empty() {
        status.message = format!("{} is forbidden: {because}", resource.row().qualified());
    }
    status
}

fn full_authority() -> Vec<PolicyRule> {
    let all = || vec!["*".to_owned()];
    vec![
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), paths: all(), ..PolicyRule::default() },
    ]
}

/// Whether only what the garbage collector writes differs.
// upstream: pkg/registry/rbac/helpers.go IsOnlyMutatingGCFields (v1.36)
fn is_for_garbage_collection(old: &Value, new: &Value) -> bool {
    let rest = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.retain(|field, value| {
                let collector =
                    matches!(field.as_str(), "ownerReferences" | "finalizers" | "managedFields" | "resourceVersion");
                // Nothing and an empty map are the same.
                !collector && *value != json!({}) && !value.is_null()
            });
        }
        value
    };
    rest(old) == rest(new)
}
