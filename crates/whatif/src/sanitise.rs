//! What is kept of an object: the fields that placement depends on, as `kept.json` lists them; all others are left out.

use std::sync::LazyLock;

use klab_api_machinery::views::{Job, Pod};
use serde_json::{Map, Value};

use crate::kinds::Kind;

/// For each kind the fields that are kept. `true` keeps a whole value, a text is the name of another entry.
static KEPT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(include_str!("kept.json")).unwrap_or_default());

/// Finalizers whose controllers are part of the copy; others would keep objects for ever.
const FINALIZERS: [&str; 4] = [
    "batch.kubernetes.io/job-tracking",
    "kubernetes.io/pvc-protection",
    "kubernetes.io/pv-protection",
    "resource.kubernetes.io/delete-protection",
];

/// What of an object of this kind matters for where pods go. Gives nothing for what holds no room and wants none: pods
/// and Jobs that have ended, objects that are being deleted, what has no name.
pub fn sanitised(kind: &Kind, object: &Value) -> Option<Value> {
    let metadata = &object["metadata"];
    if has_ended(kind.kind, object)
        || !metadata["deletionTimestamp"].is_null()
        || metadata["name"].as_str().is_none_or(str::is_empty)
    {
        return None;
    }
    let shape = &KEPT["objects"][kind.plural];
    let Value::Object(fields) = keep(object, shape)? else { return None };
    let mut kept =
        Map::from_iter([("apiVersion".to_owned(), kind.api_version.into()), ("kind".to_owned(), kind.kind.into())]);
    kept.extend(fields);
    let mut kept = Value::Object(kept);
    if let Some(finalizers) = kept.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|finalizer| finalizer.as_str().is_some_and(|name| FINALIZERS.contains(&name)));
    }
    if kind.kind == "Namespace"
        && let Some(labels) = kept.pointer_mut("/metadata/labels").and_then(Value::as_object_mut)
    {
        // Their rules read fields that are left out.
        labels.retain(|key, _| !key.starts_with("pod-security.kubernetes.io/"));
    }
    if let Some(spec) = pod_spec(&mut kept)
        && let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut)
    {
        volumes.retain(|volume| volume.as_object().is_some_and(|volume| volume.len() > 1));
    }
    Some(kept)
}

/// Whether all that a pod or a Job was for is over.
pub(crate) fn has_ended(kind: &str, object: &Value) -> bool {
    match kind {
        "Pod" => matches!(Pod(object).status().phase(), "Succeeded" | "Failed"),
        "Job" => ["Complete", "Failed"].iter().any(|end| Job(object).status().conditions().is_true(end)),
        _ => false,
    }
}

/// Whether the pods of an owner of this kind come and go with their node: no drain moves them.
pub(crate) fn stays(owner_kind: &str) -> bool {
    matches!(owner_kind, "DaemonSet" | "Node")
}

/// Whether a copy makes the pods of an owner of this kind again.
pub(crate) fn is_remade(kind: &str) -> bool {
    ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"].contains(&kind)
}

/// The specification of an object's pods, where it has one.
pub(crate) fn pod_spec(object: &mut Value) -> Option<&mut Value> {
    let path = match object["kind"].as_str()? {
        "Pod" => "/spec",
        "ControllerRevision" => "/data/spec/template/spec",
        _ => "/spec/template/spec",
    };
    object.pointer_mut(path).filter(|spec| spec.is_object())
}

fn keep(value: &Value, shape: &Value) -> Option<Value> {
    match (shape, value) {
        (_, Value::Null) => None,
        (Value::Bool(true), value) => Some(value.clone()),
        (Value::String(name), value) => keep(value, &KEPT[name.as_str()]),
        (Value::Object(fields), Value::Object(object)) => {
            let each = |(key, shape): (&String, &Value)| Some((key.clone(), keep(object.get(key)?, shape)?));
            Some(Value::Object(fields.iter().filter_map(each).collect()))
        }
        (Value::Array(shapes), Value::Array(items)) => {
            let shape = shapes.first()?;
            Some(items.iter().filter_map(|item| keep(item, shape)).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::KINDS;

    fn kind(plural: &str) -> &'static Kind {
        KINDS.iter().find(|kind| kind.plural == plural).unwrap()
    }

    /// Each name in a shape is that of an entry.
    fn names(shape: &Value) {
        match shape {
            Value::String(name) => assert!(KEPT[name.as_str()].is_object(), "{name}"),
            Value::Object(fields) => fields.values().for_each(names),
            Value::Array(items) => items.iter().for_each(names),
            other => assert_eq!(other, true),
        }
    }

    #[test]
    fn every_kind_has_its_fields_and_every_name_is_an_entry() {
        for kind in KINDS {
            assert!(KEPT["objects"][kind.plural].is_object(), "{}", kind.plural);
        }
        names(&KEPT);
    }

    /// A value in which every text is a secret, with every field that a pod of the schema may have, two levels deep.
    #[test]
    fn nothing_but_listed_fields_of_a_pod_is_kept() {
        let pod = json!({
            "metadata": {
                "name": "web", "namespace": "team", "labels": { "app": "web" },
                "annotations": { "note": "SECRET", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false" },
                "managedFields": [{ "manager": "SECRET" }], "finalizers": ["example.com/SECRET", "batch.kubernetes.io/job-tracking"],
            },
            "spec": {
                "nodeName": "n", "serviceAccountName": "SECRET", "hostname": "SECRET", "imagePullSecrets": [{ "name": "SECRET" }],
                "containers": [{
                    "name": "main", "image": "nginx", "command": ["SECRET"], "args": ["SECRET"], "workingDir": "/SECRET",
                    "env": [{ "name": "A", "value": "SECRET" }], "envFrom": [{ "secretRef": { "name": "SECRET" } }],
                    "resources": { "requests": { "cpu": "1" } }, "readinessProbe": { "exec": { "command": ["SECRET"] } },
                    "lifecycle": { "preStop": { "exec": { "command": ["SECRET"] } } }, "volumeMounts": [{ "mountPath": "/SECRET" }],
                }],
                "volumes": [
                    { "name": "a", "secret": { "secretName": "SECRET" } },
                    { "name": "b", "persistentVolumeClaim": { "claimName": "data" } },
                ],
            },
            "status": { "phase": "Running", "message": "SECRET", "conditions": [{ "type": "Ready", "status": "True", "message": "SECRET" }] },
        });
        let kept = sanitised(kind("pods"), &pod).unwrap();
        assert!(!kept.to_string().contains("SECRET"), "{kept}");
        assert_eq!(kept["spec"]["volumes"], json!([{ "name": "b", "persistentVolumeClaim": { "claimName": "data" } }]));
        assert_eq!(kept["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
        assert_eq!(kept["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
    }

    #[test]
    fn what_has_ended_or_goes_away_is_left_out() {
        let pod = |more: Value| {
            let mut pod = json!({ "metadata": { "name": "a" }, "spec": {} });
            klab_merge(&mut pod, more);
            sanitised(kind("pods"), &pod).is_some()
        };
        assert!(pod(json!({})));
        assert!(!pod(json!({ "status": { "phase": "Failed" } })));
        assert!(!pod(json!({ "metadata": { "deletionTimestamp": "2026-06-01T00:00:00Z" } })));
        assert!(!pod(json!({ "metadata": { "name": "" } })));
        let ended = json!({ "metadata": { "name": "a" }, "status": { "conditions": [{ "type": "Complete", "status": "True" }] } });
        assert_eq!(sanitised(kind("jobs"), &ended), None);
    }

    fn klab_merge(object: &mut Value, more: Value) {
        for (key, value) in more.as_object().unwrap() {
            for (inner, value) in value.as_object().unwrap() {
                object[key][inner] = value.clone();
            }
        }
    }

    #[test]
    fn values_of_other_types_are_dropped() {
        let pod =
            json!({ "metadata": { "name": "a" }, "spec": { "containers": { "name": "x" }, "volumes": "SECRET" } });
        assert_eq!(sanitised(kind("pods"), &pod).unwrap()["spec"], json!({}));
    }
}
