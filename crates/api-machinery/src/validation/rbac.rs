//! Roles and their bindings.

// upstream: pkg/apis/rbac/validation/validation.go (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::{Errors, Place, metadata};
use crate::views::{ClusterRole, RbacSubject, RoleBinding};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A role, of a namespace or of all.
pub fn role(value: &Value, namespaced: bool, errors: &mut Errors) {
    let role = Place::<ClusterRole<'_>>::root(value);
    for rule in role.rules().each() {
        let (verbs, paths) = (rule.verbs(), rule.non_resource_urls());
        let (groups, resources, names) = (rule.api_groups(), rule.resources(), rule.resource_names());
        verbs.needed_for("verbs must contain at least one value", errors);
        if !paths.is_empty() {
            if namespaced {
                errors.invalid_at(&paths, "namespaced rules cannot apply to non-resource URLs");
            }
            if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
                errors.invalid_at(&paths, "rules cannot apply to both regular resources and non-resource URLs");
            }
            continue;
        }
        groups.needed_for("resource rules must supply at least one api group", errors);
        resources.needed_for("resource rules must supply at least one resource", errors);
    }
    let aggregation = role.aggregation_rule();
    let selectors = aggregation.cluster_role_selectors();
    if aggregation.is_set() && selectors.is_empty() {
        errors.required(&selectors, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    selectors.each().for_each(|selector| metadata::selector(&selector, errors));
}

/// A binding, of a namespace or of all.
pub(crate) fn role_binding(value: &Value, namespaced: bool, errors: &mut Errors) {
    let binding = Place::<RoleBinding<'_>>::root(value);
    let role = binding.role_ref();
    role.api_group().one_of(&[GROUP], errors);
    role.kind().one_of(if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] }, errors);
    role.name().needed_as(names::path_segment, errors);
    binding.subjects().each().for_each(|one| subject(&one, namespaced, errors));
}

fn subject(subject: &Place<'_, RbacSubject<'_>>, namespaced: bool, errors: &mut Errors) {
    subject.name().needed(errors);
    match *subject.kind() {
        "ServiceAccount" => {
            subject.name().check_if_set(names::subdomain, errors);
            subject.api_group().one_of(&[""], errors);
            if !namespaced {
                subject.namespace().needed(errors);
            }
        }
        "User" | "Group" => subject.api_group().one_of(&[GROUP], errors),
        _ => subject.kind().one_of(&["ServiceAccount", "User", "Group"], errors),
    }
}

/// A binding stays with its role.
pub(crate) fn role_binding_update(old: &Value, new: &Value, errors: &mut Errors) {
    let role = RoleBinding(new).role_ref();
    if RoleBinding(old).role_ref() != role {
        // Upstream shows the fields of its own type.
        let shown = json!({ "APIGroup": role.api_group(), "Kind": role.kind(), "Name": role.name() });
        errors.invalid("roleRef", &shown, "cannot change roleRef");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(namespaced: bool, role: Value, subject: Value) -> Vec<String> {
        Errors::found(|errors| role_binding(&json!({ "roleRef": role, "subjects": [subject] }), namespaced, errors))
    }

    #[test]
    fn bindings_name_a_role_and_who_has_it() {
        let role = json!({ "apiGroup": GROUP, "kind": "ClusterRole", "name": "edit" });
        let user = json!({ "apiGroup": GROUP, "kind": "User", "name": "anna" });
        assert_eq!(faults(false, role.clone(), user.clone()), [""; 0]);
        for (subject, wanted) in [
            (json!({ "kind": "ServiceAccount", "name": "default", "namespace": "a" }), vec![]),
            (json!({ "kind": "ServiceAccount", "name": "default" }), vec!["subjects[0].namespace: Required value"]),
            (
                json!({ "kind": "Robot", "name": "r", "apiGroup": "x" }),
                vec![
                    "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
                ],
            ),
            (
                json!({ "kind": "User", "name": "", "apiGroup": "" }),
                vec![
                    "subjects[0].name: Required value",
                    "subjects[0].apiGroup: Unsupported value: \"\": supported values: \"rbac.authorization.k8s.io\"",
                ],
            ),
            (
                json!({ "kind": "ServiceAccount", "name": "default", "namespace": "a", "apiGroup": "x" }),
                vec!["subjects[0].apiGroup: Unsupported value: \"x\": supported values: \"\""],
            ),
        ] {
            assert_eq!(faults(false, role.clone(), subject.clone()), wanted, "{subject}");
        }
        let wrong = json!({ "apiGroup": GROUP, "kind": "Role", "name": "a/b" });
        assert_eq!(
            faults(false, wrong.clone(), user.clone()),
            [
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
            ]
        );
        assert_eq!(faults(true, wrong, user), ["roleRef.name: Invalid value: \"a/b\": may not contain '/'"]);
    }
}
