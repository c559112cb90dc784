//! Who may do what: the answer that roles and bindings give.
//!
//! Members of `system:masters` may do everything; nothing is looked up for them.

mod escalation;
mod node;
mod resolve;

pub use klab_api_machinery::access::User;
pub(crate) use klab_api_machinery::access::{
    Attributes, Decision, PolicyRule, ResourceSubject, Subject, aggregated, forbidden,
};
pub(crate) use klab_api_machinery::go_text::quoted;

use super::store::Store;

pub(crate) use escalation::refuse_escalation;
pub(crate) use node::authorize_node;
pub(crate) use resolve::rules_for;

/// Whether the user may do it.
// upstream: plugin/pkg/auth/authorizer/rbac/rbac.go RBACAuthorizer.Authorize, and before it
// staging/src/k8s.io/apiserver/pkg/authorization/authorizerfactory NewPrivilegedGroups (v1.36)
pub(crate) fn authorize(store: &Store, user: &User, asked: &Attributes<'_>) -> Decision {
    if user.is_master() {
        return Decision { allowed: true, reason: String::new() };
    }
    let of_node = match authorize_node(store, user, asked) {
        Some(Ok(())) => return Decision { allowed: true, reason: String::new() },
        Some(Err(because)) => because,
        None => String::new(),
    };
    let namespace = match &asked.to {
        Subject::Resource(subject) => subject.namespace,
        Subject::Path(_) => "",
    };
    let found = rules_for(store, user, namespace);
    if let Some((_, source)) = found.rules.iter().find(|(rule, _)| rule.allows(asked)) {
        return Decision { allowed: true, reason: format!("RBAC: allowed by {source}") };
    }
    let of_roles = found.errors_text().map_or_else(String::new, |text| format!("RBAC: {text}"));
    let reason =
        if of_node.is_empty() || of_roles.is_empty() { of_node + &of_roles } else { of_node + "\n" + &of_roles };
    Decision { allowed: false, reason }
}
