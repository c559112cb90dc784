//! Which rules hold for a user: those of the roles that bindings bind to the user.

use klab_api_machinery::resource::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use klab_api_machinery::status::Status;
use serde::Deserialize;

use super::{PolicyRule, User};
use crate::store::Store;

/// The rules that hold for a user, each with the words that say where it comes from.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) rules: Vec<(PolicyRule, String)>,
    /// Bindings to roles that do not exist, mostly.
    errors: Vec<String>,
}

impl Rules {
    /// What hindered the resolution, as Go writes a list of errors.
    pub(crate) fn errors_text(&self) -> Option<String> {
        let mut seen: Vec<&str> = Vec::new();
        for error in &self.errors {
            if !seen.contains(&error.as_str()) {
                seen.push(error);
            }
        }
        match seen.as_slice() {
            [] => None,
            [one] => Some((*one).to_owned()),
            more => Some(format!("[{}]", more.join(", "))),
        }
    }
}

/// A reference to a role.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RoleReference {
    pub(super) api_group: String,
    pub(super) kind: String,
    pub(super) name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BoundSubject {
    kind: String,
    name: String,
    namespace: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Binding {
    role_ref: RoleReference,
    subjects: Option<Vec<BoundSubject>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Role {
    rules: Option<Vec<PolicyRule>>,
}

/// All rules that hold for the user in a namespace; cluster-wide ones only, when that is empty.
// upstream: pkg/registry/rbac/validation/rule.go DefaultRuleResolver.VisitRulesFor (v1.36)
pub(crate) fn rules_for(store: &Store, user: &User, namespace: &str) -> Rules {
    let mut found = Rules::default();
    let local = (!namespace.is_empty()).then_some((ROLE_BINDINGS, Some(namespace)));
    for (resource, within) in [(CLUSTER_ROLE_BINDINGS, None)].into_iter().chain(local) {
        for object in store.list(resource, within) {
            let Ok(binding) = object.decode::<Binding>() else { continue };
            let subjects = binding.subjects.unwrap_or_default();
            let Some(subject) = subjects.iter().find(|subject| subject.is(user, &object.namespace)) else { continue };
            let role = &binding.role_ref;
            match referenced_rules(store, role, &object.namespace) {
                Err(status) => found.errors.push(status.message),
                Ok(rules) => {
                    let name = match within {
                        Some(namespace) => format!("{}/{namespace}", object.name),
                        None => object.name.to_string(),
                    };
                    let source = format!(
                        "{} \"{name}\" of {} \"{}\" to {}",
                        resource.row().kind,
                        role.kind,
                        role.name,
                        subject.text(&object.namespace)
                    );
                    found.rules.extend(rules.into_iter().map(|rule| (rule, source.clone())));
                }
            }
        }
    }
    found
}

impl BoundSubject {
    // upstream: pkg/registry/rbac/validation/rule.go appliesToUser (v1.36)
    fn is(&self, user: &User, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => user.name == self.name,
            "Group" => user.groups.contains(&self.name),
            "ServiceAccount" => {
                let namespace = self.namespace_or(binding_namespace);
                let account = user.name.strip_prefix("system:serviceaccount:");
                let own = |account: &str| {
                    account.strip_prefix(namespace).and_then(|rest| rest.strip_prefix(':')) == Some(&self.name)
                };
                !namespace.is_empty() && account.is_some_and(own)
            }
            _ => false,
        }
    }

    fn namespace_or<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }

    // upstream: pkg/registry/rbac/validation/rule.go describeSubject (v1.36)
    fn text(&self, binding_namespace: &str) -> String {
        match self.kind.as_str() {
            "ServiceAccount" => format!("ServiceAccount \"{}/{}\"", self.name, self.namespace_or(binding_namespace)),
            kind => format!("{kind} \"{}\"", self.name),
        }
    }
}

/// The rules of the role that a binding refers to.
// upstream: pkg/registry/rbac/validation/rule.go DefaultRuleResolver.GetRoleReferenceRules (v1.36)
pub(super) fn referenced_rules(
    store: &Store,
    role: &RoleReference,
    binding_namespace: &str,
) -> Result<Vec<PolicyRule>, Status> {
    let (resource, namespace) = match role.kind.as_str() {
        "Role" => (ROLES, binding_namespace),
        "ClusterRole" => (CLUSTER_ROLES, ""),
        kind => {
            let because = format!("unsupported role reference kind: {}", super::quoted(kind));
            return Err(Status::new(500, "InternalError", format!("Internal error occurred: {because}")));
        }
    };
    let Some(object) = store.get(resource, namespace, &role.name) else {
        // The lister that upstream asks names the resource in the singular.
        let kind = resource.row().singular();
        let mut status = Status::not_found(resource.row(), &role.name);
        status.message = format!("{kind}.{} \"{}\" not found", resource.row().group, role.name);
        status.details["kind"] = kind.into();
        return Err(status);
    };
    Ok(object.decode::<Role>().unwrap_or_default().rules.unwrap_or_default())
}
