//! Why a container cannot be created: its environment is read from what is not there, a part of a volume has no name, or it would run
//! as root and may not.

// upstream: pkg/kubelet/kubelet_pods.go makeEnvironmentVariables, makeMounts (v1.36)
// upstream: pkg/kubelet/kuberuntime/security_context_others.go verifyRunAsNonRoot (v1.36)

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::environment::{Environment, Sources, environment, substituted, values};
use crate::image::{User, user};
use crate::objects::{Kind, Objects};
use crate::value::security_setting;
use klab_api_machinery::value::{items, text};

/// What a kubelet says of a container that it cannot create, if it cannot: the first thing that it finds.
pub fn create_error(objects: &Arc<dyn Objects>, pod: &Value, container: &Value) -> Option<String> {
    missing_source(&**objects, pod, container)
        .or_else(|| unusable_part(objects, pod, container))
        .or_else(|| would_be_root(pod, container))
}

/// What a kubelet says of a ConfigMap or Secret that is not there.
fn not_found(kind: Kind, name: &str) -> String {
    format!("{} \"{name}\" not found", format!("{kind:?}").to_lowercase())
}

/// The first variable whose value is nowhere.
fn missing_source<'a>(objects: &dyn Objects, pod: &Value, container: &'a Value) -> Option<String> {
    let namespace = text(pod, &["metadata", "namespace"]);
    let either = |from: &'a Value, secret: &str, map: &str| match from.get(secret) {
        Some(reference) => (Kind::Secret, reference),
        None => (Kind::ConfigMap, &from[map]),
    };
    let whole = items(&container["envFrom"]).iter().map(|from| either(from, "secretRef", "configMapRef"));
    let single = items(&container["env"]).iter().filter(|variable| text(variable, &["value"]).is_empty());
    let single = single.map(|variable| either(&variable["valueFrom"], "secretKeyRef", "configMapKeyRef"));
    whole.chain(single).filter(|(_, reference)| reference.is_object()).find_map(|(kind, reference)| {
        let (name, optional) = (text(reference, &["name"]), reference["optional"] == true);
        let Some(object) = objects.get(kind, namespace, name) else {
            return (!optional).then(|| not_found(kind, name));
        };
        let key = reference["key"].as_str()?;
        // What is binary is no value of a variable.
        let is_there = object["data"].get(key).is_some();
        (!is_there && !optional).then(|| format!("couldn't find key {key} in {kind:?} {namespace}/{name}"))
    })
}

/// The first volume of which a part is mounted that is none.
fn unusable_part(objects: &Arc<dyn Objects>, pod: &Value, container: &Value) -> Option<String> {
    let expressions: Vec<&str> = items(&container["volumeMounts"])
        .iter()
        .filter_map(|mount| mount["subPathExpr"].as_str().filter(|expression| !expression.is_empty()))
        .collect();
    if expressions.is_empty() {
        return None;
    }
    let sources = Sources { objects: Some(objects), pod, container, started: None, services: true };
    let environment = environment(&sources);
    expressions.into_iter().find_map(|expression| fault_of_part(expression, &environment))
}

fn fault_of_part(expression: &str, environment: &Environment) -> Option<String> {
    let (mut missing, mut unknown) = (BTreeSet::new(), false);
    let part = substituted(expression, |name| {
        let value = environment.value(name).unwrap_or_default();
        if value.is_empty() {
            unknown |= environment.more.is_some() || environment.unknown.contains_key(name);
            missing.insert(name.to_owned());
        }
        Some(value.to_owned())
    });
    if unknown {
        return None;
    }
    if !missing.is_empty() {
        return Some(format!("missing value for {}", missing.into_iter().collect::<Vec<_>>().join(", ")));
    }
    if part.starts_with('/') {
        return Some(format!("error SubPath `{part}` must not be an absolute path"));
    }
    let steps_back = part.split('/').any(|step| step == "..");
    steps_back.then(|| format!("unable to provision SubPath `{part}`: must not contain '..'"))
}

/// Why a container that may not be root's would be, or may be for all that its node can tell.
fn would_be_root(pod: &Value, container: &Value) -> Option<String> {
    let of = |field: &str| security_setting(pod, container, field);
    if *of("runAsNonRoot") != true || pod["spec"]["os"]["name"] == "windows" {
        return None;
    }
    let metadata = |field: &str| text(pod, &["metadata", field]);
    let named = format!("{}_{}({})", metadata("name"), metadata("namespace"), metadata("uid"));
    let whose = format!("(pod: {named:?}, container: {})", text(container, &["name"]));
    if let Some(user) = of("runAsUser").as_i64() {
        return (user == 0).then(|| format!("container's runAsUser breaks non-root policy {whose}"));
    }
    match user(text(container, &["image"]))? {
        User::Root => Some(format!("container has runAsNonRoot and image will run as root {whose}")),
        User::Named(name) => Some(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {whose}"
        )),
    }
}

/// What a kubelet says of a volume that is filled from a ConfigMap or Secret, as `source` says, and cannot be.
// upstream: pkg/volume/configmap/configmap.go, pkg/volume/secret/secret.go SetUpAt, MakePayload (v1.36)
pub fn mount_error(objects: &dyn Objects, namespace: &str, kind: Kind, name: &str, source: &Value) -> Option<String> {
    if source["optional"] == true {
        return None;
    }
    let Some(object) = objects.get(kind, namespace, name) else { return Some(not_found(kind, name)) };
    let keys = items(&source["items"]);
    if keys.is_empty() {
        return None;
    }
    let there = values(&object);
    let missing = keys.iter().map(|item| text(item, &["key"])).find(|key| there.iter().all(|(own, _)| own != key))?;
    let words = if kind == Kind::Secret {
        "references non-existent secret key"
    } else {
        "configmap references non-existent config key"
    };
    Some(format!("{words}: {missing}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn environment_of(variables: &[(&str, &str)]) -> Environment {
        let known = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Environment { known, ..Environment::default() }
    }

    #[test]
    fn parts_of_volumes_are_named_by_what_is_known() {
        let environment = environment_of(&[("POD", "web-0"), ("UP", ".."), ("TOP", "/tmp"), ("EMPTY", "")]);
        for (expression, fault) in [
            ("$(POD)/logs", None),
            ("$$(NONE)", None),
            ("$(UP)", Some("unable to provision SubPath `..`: must not contain '..'")),
            ("a/$(UP)/b", Some("unable to provision SubPath `a/../b`: must not contain '..'")),
            ("$(TOP)", Some("error SubPath `/tmp` must not be an absolute path")),
            ("$(Z)/$(EMPTY)/$(A)/$(Z)", Some("missing value for A, EMPTY, Z")),
        ] {
            assert_eq!(fault_of_part(expression, &environment).as_deref(), fault, "{expression}");
        }
        let more = Environment { more: Some("not known".to_owned()), ..Environment::default() };
        assert_eq!(fault_of_part("$(NONE)", &more), None, "what is not known is no fault");
    }

    #[test]
    fn only_what_is_certainly_root_or_nobody_can_tell_is_refused() {
        let whose = "(pod: \"web_default(u)\", container: main)";
        let root = Some(format!("container has runAsNonRoot and image will run as root {whose}"));
        let named = |name: &str| {
            Some(format!(
                "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {whose}"
            ))
        };
        let breaks = Some(format!("container's runAsUser breaks non-root policy {whose}"));
        for (image, pod, own, expected) in [
            ("nginx:1.27", json!({}), json!({ "runAsNonRoot": true }), root.clone()),
            ("nginx:1.27", json!({ "runAsNonRoot": true }), json!({}), root.clone()),
            ("nginx:1.27", json!({ "runAsNonRoot": true }), json!({ "runAsNonRoot": false }), None),
            ("nginx:1.27", json!({ "runAsUser": 101 }), json!({ "runAsNonRoot": true }), None),
            ("acme/web", json!({ "runAsUser": 0 }), json!({ "runAsNonRoot": true }), breaks),
            ("nginx:1.27", json!({}), json!({}), None),
            ("acme/web", json!({}), json!({ "runAsNonRoot": true }), None),
            ("nginxinc/nginx-unprivileged", json!({}), json!({ "runAsNonRoot": true }), None),
            ("registry.k8s.io/pause:3.10", json!({}), json!({ "runAsNonRoot": true }), None),
            ("memcached:1.6", json!({}), json!({ "runAsNonRoot": true }), named("memcache")),
            ("curlimages/curl:8.10.1", json!({}), json!({ "runAsNonRoot": true }), named("curl_user")),
        ] {
            let pod = json!({
                "metadata": { "name": "web", "namespace": "default", "uid": "u" }, "spec": { "securityContext": pod },
            });
            let container = json!({ "name": "main", "image": image, "securityContext": own });
            assert_eq!(would_be_root(&pod, &container), expected, "{image} {container}");
        }
        let mut windows = json!({ "metadata": {}, "spec": { "os": { "name": "windows" } } });
        windows["spec"]["securityContext"] = json!({ "runAsNonRoot": true });
        assert_eq!(would_be_root(&windows, &json!({ "name": "main", "image": "nginx" })), None);
    }
}
