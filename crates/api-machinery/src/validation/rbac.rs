//! Roles and their bindings.

// upstream: pkg/apis/rbac/validation/validation.go (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, supported, text};
use super::{Errors, Place, metadata};
use crate::schema::Path;

const GROUP: &str = "rbac.authorization.k8s.io";

/// A role, of a namespace or of all.
pub fn role(value: &Value, namespaced: bool, errors: &mut Errors) {
    let list = Path::Root.field("rules");
    for (at, rule) in entries(value, "rules") {
        let path = list.index(at);
        let is_empty = |field: &str| entries(rule, field).next().is_none();
        if is_empty("verbs") {
            errors.required(path.field("verbs"), "verbs must contain at least one value");
        }
        if !is_empty("nonResourceURLs") {
            let paths = &rule["nonResourceURLs"];
            if namespaced {
                let because = "namespaced rules cannot apply to non-resource URLs";
                errors.invalid(path.field("nonResourceURLs"), paths, because);
            }
            if ["apiGroups", "resources", "resourceNames"].into_iter().any(|field| !is_empty(field)) {
                let because = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(path.field("nonResourceURLs"), paths, because);
            }
            continue;
        }
        if is_empty("apiGroups") {
            errors.required(path.field("apiGroups"), "resource rules must supply at least one api group");
        }
        if is_empty("resources") {
            errors.required(path.field("resources"), "resource rules must supply at least one resource");
        }
    }
    let aggregation = &value["aggregationRule"];
    let list = Path::Root.field("aggregationRule");
    let list = list.field("clusterRoleSelectors");
    if aggregation.is_object() && entries(aggregation, "clusterRoleSelectors").next().is_none() {
        errors.required(list, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (at, selector) in entries(aggregation, "clusterRoleSelectors") {
        metadata::selector(&Place::new(list.index(at), selector), errors);
    }
}

/// A binding, of a namespace or of all.
pub(crate) fn role_binding(value: &Value, namespaced: bool, errors: &mut Errors) {
    let path = Path::Root.field("roleRef");
    let role = &value["roleRef"];
    supported(&json!(text(role, "apiGroup")), &path.field("apiGroup"), &[GROUP], errors);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    supported(&json!(text(role, "kind")), &path.field("kind"), kinds, errors);
    if text(role, "name").is_empty() {
        errors.required(path.field("name"), "");
    }
    for fault in names::path_segment(text(role, "name")) {
        errors.invalid(path.field("name"), &role["name"], fault);
    }
    let list = Path::Root.field("subjects");
    for (at, one) in entries(value, "subjects") {
        subject(one, namespaced, &list.index(at), errors);
    }
}

fn subject(subject: &Value, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    let name = text(subject, "name");
    if name.is_empty() {
        errors.required(path.field("name"), "");
    }
    let group = json!(text(subject, "apiGroup"));
    let kinds = ["ServiceAccount", "User", "Group"];
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                for fault in names::subdomain(name) {
                    errors.invalid(path.field("name"), &subject["name"], fault);
                }
            }
            supported(&group, &path.field("apiGroup"), &[""], errors);
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.required(path.field("namespace"), "");
            }
        }
        "User" | "Group" => supported(&group, &path.field("apiGroup"), &[GROUP], errors),
        kind => errors.unsupported(path.field("kind"), &json!(kind), &kinds),
    }
}

/// A binding stays with its role.
pub(crate) fn role_binding_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["roleRef"] != new["roleRef"] {
        // Upstream shows the fields of its own type.
        let role = &new["roleRef"];
        let shown = json!({ "APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"] });
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
