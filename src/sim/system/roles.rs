//! The roles every cluster has for people: cluster-admin, admin, edit, view.

use serde_json::{Value, json};

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// ClusterRoles and the binding of administrators.
pub(super) fn objects() -> Vec<Value> {
    let role = |name: &str, rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {
                "name": name, "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
                "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
            },
            "rules": rules,
        })
    };
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let core = [
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "serviceaccounts",
        "services",
    ];
    let apps = [
        "daemonsets",
        "deployments",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ];
    let work = |verbs: &[&str]| {
        vec![
            rule("", &core, verbs),
            rule("", &["events", "limitranges", "namespaces", "pods/log", "pods/status", "resourcequotas"], &READ),
            rule("apps", &apps, verbs),
            rule("batch", &["cronjobs", "jobs"], verbs),
            rule("autoscaling", &["horizontalpodautoscalers"], verbs),
            rule("policy", &["poddisruptionbudgets"], verbs),
        ]
    };
    let edit = {
        let mut rules = work(&WRITE);
        rules.push(rule("", &["secrets"], &WRITE));
        rules.push(rule(
            "",
            &["pods/attach", "pods/exec", "pods/eviction", "pods/portforward", "pods/proxy"],
            &["create", "get"],
        ));
        rules
    };
    let admin = {
        let mut rules = edit.clone();
        rules.push(rule("rbac.authorization.k8s.io", &["rolebindings", "roles"], &WRITE));
        rules
    };
    vec![
        role(
            "cluster-admin",
            json!([
                { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
                { "nonResourceURLs": ["*"], "verbs": ["*"] },
            ]),
        ),
        role("admin", Value::Array(admin)),
        role("edit", Value::Array(edit)),
        role("view", Value::Array(work(&READ))),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {
                "name": "cluster-admin", "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
                "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
            },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters" }],
        }),
    ]
}
