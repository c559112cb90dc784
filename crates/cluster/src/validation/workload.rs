//! Workloads that keep pods running.

// upstream: pkg/apis/apps/validation/validation.go ValidateDeployment, ValidateStatefulSet, ValidateDaemonSet (v1.36)

use serde_json::{Value, json};

use super::field::{entries, not_negative, supported, text};
use super::{Errors, metadata, pod};
use crate::schema::Path;

pub(crate) fn deployment(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    not_negative(&spec["replicas"], &path.field("replicas"), errors);
    selector(spec, &path, "empty selector is invalid for deployment", errors);
    template(spec, &path, errors);
    let strategy = &spec["strategy"];
    let strategy_path = path.field("strategy");
    match text(strategy, "type") {
        "Recreate" => {
            if !strategy["rollingUpdate"].is_null() {
                errors.forbidden(
                    strategy_path.field("rollingUpdate"),
                    "may not be specified when strategy `type` is 'Recreate'",
                );
            }
        }
        "RollingUpdate" => {
            rolling(&strategy["rollingUpdate"], &strategy_path.field("rollingUpdate"), errors);
        }
        _ => errors.unsupported(strategy_path.field("type"), &strategy["type"], &["Recreate", "RollingUpdate"]),
    }
    not_negative(&spec["minReadySeconds"], &path.field("minReadySeconds"), errors);
    not_negative(&spec["revisionHistoryLimit"], &path.field("revisionHistoryLimit"), errors);
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64() {
        let path = path.field("progressDeadlineSeconds");
        not_negative(&spec["progressDeadlineSeconds"], &path, errors);
        if deadline <= spec["minReadySeconds"].as_i64().unwrap_or_default() {
            errors.invalid(path, &spec["progressDeadlineSeconds"], "must be greater than minReadySeconds");
        }
    }
}

pub(crate) fn replica_set(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    not_negative(&spec["replicas"], &path.field("replicas"), errors);
    not_negative(&spec["minReadySeconds"], &path.field("minReadySeconds"), errors);
    selector(spec, &path, "empty selector is invalid for deployment", errors);
    template(spec, &path, errors);
}

pub(crate) fn replication_controller(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    not_negative(&spec["replicas"], &path.field("replicas"), errors);
    if spec["selector"].as_object().is_none_or(serde_json::Map::is_empty) {
        errors.required(path.field("selector"), "");
    }
    if spec["template"].is_null() {
        errors.required(path.field("template"), "");
    } else {
        template(
            &json!({ "selector": { "matchLabels": spec["selector"] }, "template": spec["template"] }),
            &path,
            errors,
        );
    }
}

pub(crate) fn daemon_set(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    selector(spec, &path, "empty selector is invalid for daemonset", errors);
    template(spec, &path, errors);
    not_negative(&spec["minReadySeconds"], &path.field("minReadySeconds"), errors);
    let strategy = &spec["updateStrategy"];
    let strategy_path = path.field("updateStrategy");
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling(&strategy["rollingUpdate"], &strategy_path.field("rollingUpdate"), errors);
        }
        _ => errors.unsupported(strategy_path.field("type"), &strategy["type"], &["OnDelete", "RollingUpdate"]),
    }
}

pub(crate) fn stateful_set(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    supported(&spec["podManagementPolicy"], &path.field("podManagementPolicy"), &["OrderedReady", "Parallel"], errors);
    supported(
        &spec["updateStrategy"]["type"],
        &path.field("updateStrategy").field("type"),
        &["OnDelete", "RollingUpdate"],
        errors,
    );
    not_negative(
        &spec["updateStrategy"]["rollingUpdate"]["partition"],
        &path.field("updateStrategy").field("rollingUpdate").field("partition"),
        errors,
    );
    not_negative(&spec["replicas"], &path.field("replicas"), errors);
    not_negative(&spec["minReadySeconds"], &path.field("minReadySeconds"), errors);
    selector(spec, &path, "empty selector is invalid for statefulset", errors);
    // Volumes of claims are not in the template, so mounts are looked at with them.
    let mut complete = spec.clone();
    for (_, claim) in entries(spec, "volumeClaimTemplates") {
        let name = &claim["metadata"]["name"];
        let known = entries(&complete["template"]["spec"], "volumes").any(|(_, volume)| volume["name"] == *name);
        if !known {
            let volumes = &mut complete["template"]["spec"]["volumes"];
            match volumes.as_array_mut() {
                Some(list) => list.push(json!({ "name": name, "emptyDir": {} })),
                None => *volumes = json!([{ "name": name, "emptyDir": {} }]),
            }
        }
    }
    template(&complete, &path, errors);
}

pub(crate) fn stateful_set_update(old: &Value, new: &Value, errors: &mut Errors) {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(map) = spec.as_object_mut() {
            map.retain(|field, _| !FREE.contains(&field.as_str()));
        }
        spec
    };
    if fixed(&old["spec"]) != fixed(&new["spec"]) {
        errors.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}

/// A selector, once set, stays.
pub(crate) fn same_selector(old: &Value, new: &Value, errors: &mut Errors) {
    if old["spec"]["selector"] != new["spec"]["selector"] {
        errors.invalid("spec.selector", &new["spec"]["selector"], "field is immutable");
    }
}

fn selector(spec: &Value, path: &Path<'_>, empty: &str, errors: &mut Errors) {
    let path = path.field("selector");
    let given = &spec["selector"];
    if given.is_null() {
        errors.required(path, "");
        return;
    }
    metadata::selector(given, &path, errors);
    let count =
        given["matchLabels"].as_object().map_or(0, serde_json::Map::len) + entries(given, "matchExpressions").count();
    if count == 0 {
        errors.invalid(path, given, empty);
    }
}

fn template(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.field("template");
    let labels = &spec["template"]["metadata"]["labels"];
    if !spec["selector"].is_null() && !matches(&spec["selector"], labels) {
        errors.invalid(path.field("metadata").field("labels"), labels, "`selector` does not match template `labels`");
    }
    pod::template(&spec["template"], &path, errors);
    let pod = &spec["template"]["spec"];
    if pod["restartPolicy"] != "Always" {
        errors.unsupported(path.field("spec").field("restartPolicy"), &pod["restartPolicy"], &["Always"]);
    }
    if !pod["activeDeadlineSeconds"].is_null() {
        errors.forbidden(
            path.field("spec").field("activeDeadlineSeconds"),
            "activeDeadlineSeconds in ReplicaSet is not Supported",
        );
    }
}

fn matches(selector: &Value, labels: &Value) -> bool {
    let have = |key: &str| labels.get(key).and_then(Value::as_str);
    let equal =
        selector["matchLabels"].as_object().into_iter().flatten().all(|(key, value)| have(key) == value.as_str());
    equal
        && entries(selector, "matchExpressions").all(|(_, term)| {
            let value = have(text(term, "key"));
            let listed = entries(term, "values").any(|(_, one)| one.as_str() == value && value.is_some());
            match text(term, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// `maxUnavailable` and `maxSurge`.
fn rolling(rolling: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut zero = [false; 2];
    for (at, field) in ["maxUnavailable", "maxSurge"].into_iter().enumerate() {
        zero[at] = int_or_percent(&rolling[field], &path.field(field), errors) == Some(0);
    }
    if zero == [true, true] {
        errors.invalid(path.field("maxUnavailable"), &rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0");
    }
    if rolling["maxUnavailable"].as_str().and_then(percent).is_some_and(|percent| percent > 100) {
        errors.invalid(path.field("maxUnavailable"), &rolling["maxUnavailable"], "must not be greater than 100%");
    }
}

fn percent(text: &str) -> Option<i64> {
    text.strip_suffix('%')?.parse().ok().filter(|percent| *percent >= 0)
}

/// A count or a percentage; its number if it is one.
pub(crate) fn int_or_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) -> Option<i64> {
    match value {
        Value::String(text) => {
            let number = percent(text);
            if number.is_none() {
                errors.invalid(path, value, "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')");
            }
            number
        }
        Value::Number(_) => {
            not_negative(value, path, errors);
            value.as_i64()
        }
        _ => None,
    }
}
