//! The roles every cluster has, and whom they are bound to, read from the table beside this file.

use serde_json::{Value, json};

use crate::rbac::aggregated;

const GROUP: &str = "rbac.authorization.k8s.io";
/// What the names of the roles of controllers begin with: each is bound to the ServiceAccount that the rest names.
const OF_CONTROLLERS: &str = "system:controller:";

/// A line begins with what it makes (`ClusterRole`, `Role` and their bindings, then a namespace where there is one), or is
/// indented: then it is a rule of the role, or a subject of the binding, above it. `part-of:edit` behind a name has `edit`
/// gather the role, which `gathers`.
// upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go, controller_policy.go, namespace_policy.go (v1.36)
const TABLE: &str = include_str!("roles.txt");

/// Roles and their bindings.
pub(super) fn objects() -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (line.strip_prefix("  "), all.last_mut()) {
            (Some(_), Some(object)) => add(object, &words),
            _ => all.extend(object(&words)),
        }
    }
    let of_controllers: Vec<Value> = all.iter().filter_map(binding_of_controller).collect();
    all.extend(of_controllers);
    // The controller would gather the same as soon as it looks; what a role gathers may be gathered itself.
    for name in ["view", "edit", "admin"] {
        let is_role = |object: &&Value| object["kind"] == "ClusterRole";
        let Some(at) = all.iter().position(|object| object["metadata"]["name"] == name) else { continue };
        all[at]["rules"] = Value::Array(aggregated(&all[at], all.iter().filter(is_role).collect()));
    }
    all
}

/// A role without rules, or a binding without subjects.
fn object(words: &[&str]) -> Option<Value> {
    let (&kind, mut rest) = words.split_first()?;
    let mut metadata = json!({
        "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
    });
    if !kind.starts_with("Cluster") {
        let (&namespace, others) = rest.split_first()?;
        metadata["namespace"] = json!(namespace);
        rest = others;
    }
    let (&name, rest) = rest.split_first()?;
    metadata["name"] = json!(name);
    let mut object = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": kind });
    if let Some(role) = kind.strip_suffix("Binding") {
        let role_name = rest.first().unwrap_or(&name);
        object["roleRef"] = json!({ "apiGroup": GROUP, "kind": role, "name": role_name });
    } else {
        object["rules"] = json!([]);
        for word in rest {
            if let Some(whole) = word.strip_prefix("part-of:") {
                metadata["labels"][aggregation_label(whole)] = json!("true");
            } else {
                let label = aggregation_label(name);
                object["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { label: "true" } }] });
            }
        }
    }
    object["metadata"] = metadata;
    Some(object)
}

fn aggregation_label(role: &str) -> String {
    format!("{GROUP}/aggregate-to-{role}")
}

/// Adds a rule to a role or a subject to a binding.
fn add(object: &mut Value, words: &[&str]) {
    let list = |text: &str| -> Value {
        text.split(',').map(|word| if word == "core" { json!("") } else { json!(word) }).collect()
    };
    let (field, item) = match words {
        ["ServiceAccount", namespace, name] => {
            ("subjects", json!({ "kind": "ServiceAccount", "name": name, "namespace": namespace }))
        }
        [kind @ ("User" | "Group"), name] => ("subjects", json!({ "apiGroup": GROUP, "kind": kind, "name": name })),
        [verbs, "at", paths @ ..] => ("rules", json!({ "nonResourceURLs": paths, "verbs": list(verbs) })),
        [verbs, groups, resources, rest @ ..] => {
            let mut rule = json!({ "apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs) });
            if let ["named", names] = rest {
                rule["resourceNames"] = list(names);
            }
            ("rules", rule)
        }
        _ => return,
    };
    match object[field].as_array_mut() {
        Some(items) => items.push(item),
        None => object[field] = json!([item]),
    }
}

fn binding_of_controller(role: &Value) -> Option<Value> {
    let name = role["metadata"]["name"].as_str().filter(|_| role["kind"] == "ClusterRole")?;
    let account = name.strip_prefix(OF_CONTROLLERS)?;
    let mut binding = object(&["ClusterRoleBinding", name])?;
    add(&mut binding, &["ServiceAccount", "kube-system", account]);
    Some(binding)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_table_is_read_to_its_end() {
        let all = objects();
        let mut counts = BTreeMap::new();
        for object in &all {
            *counts.entry(object["kind"].as_str().unwrap()).or_insert(0) += 1;
            let has = |field: &str| object[field].as_array().is_some_and(|items| !items.is_empty());
            let name = object["metadata"]["name"].as_str().unwrap();
            // No subject is bound to what nodes may do: the node authorizer decides with more knowledge.
            assert!(has("rules") || has("subjects") || name == "system:node", "{object}");
        }
        // upstream: bootstrappolicy/testdata
        let wanted = [("ClusterRole", 69), ("ClusterRoleBinding", 50), ("Role", 7), ("RoleBinding", 7)];
        assert_eq!(counts, BTreeMap::from(wanted));
        let lines = TABLE.lines().filter(|line| line.starts_with("  ")).count();
        let made = |object: &Value| {
            let of_controller = object["kind"] == "ClusterRoleBinding"
                && object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(OF_CONTROLLERS));
            let gathers = object["aggregationRule"].is_object();
            let items = object["rules"].as_array().or_else(|| object["subjects"].as_array());
            items.filter(|_| !of_controller && !gathers).map_or(0, Vec::len)
        };
        assert_eq!(all.iter().map(made).sum::<usize>(), lines);
    }

    #[test]
    fn a_line_is_what_the_api_server_makes() {
        let all = objects();
        let find = |kind: &str, namespace: &str, name: &str| {
            let metadata = |object: &&Value| {
                object["kind"] == kind
                    && object["metadata"]["name"] == name
                    && object["metadata"]["namespace"].as_str().unwrap_or_default() == namespace
            };
            all.iter().find(metadata).cloned().unwrap()
        };
        assert_eq!(
            find("Role", "kube-public", "system:controller:bootstrap-signer"),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {
                    "name": "system:controller:bootstrap-signer", "namespace": "kube-public",
                    "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
                    "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
                },
                "rules": [
                    { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"] },
                    {
                        "apiGroups": [""], "resourceNames": ["cluster-info"], "resources": ["configmaps"],
                        "verbs": ["update"],
                    },
                    {
                        "apiGroups": ["", "events.k8s.io"], "resources": ["events"],
                        "verbs": ["create", "patch", "update"],
                    },
                ],
            })
        );
        let binding = find("RoleBinding", "kube-system", "system::extension-apiserver-authentication-reader");
        assert_eq!(binding["roleRef"]["name"], "extension-apiserver-authentication-reader");
        assert_eq!(binding["roleRef"]["kind"], "Role");
        let node = find("ClusterRoleBinding", "", "system:node");
        assert_eq!(node["subjects"], Value::Null);
        let controller = find("ClusterRoleBinding", "", "system:controller:job-controller");
        assert_eq!(
            controller["subjects"],
            json!([{ "kind": "ServiceAccount", "name": "job-controller", "namespace": "kube-system" }])
        );
        let edit = find("ClusterRole", "", "edit");
        assert_eq!(edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"], "true");
        assert!(edit["rules"].as_array().unwrap().len() > 20);
    }
}
