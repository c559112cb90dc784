//! Workloads that keep pods running, but for StatefulSets.

// upstream: pkg/apis/apps/validation/validation.go ValidateDeployment, ValidateDaemonSet (v1.36)

use serde_json::{Value, json};

use super::field::{entries, not_negative, text};
use super::{Errors, metadata, pod};
use crate::schema::Path;

pub fn deployment(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    not_negative(&spec["replicas"], &path.field("replicas"), errors);
    selector(spec, &path, "empty selector is invalid for deployment", errors);
    template(spec, &path, "ReplicaSet", errors);
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

pub fn replica_set(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    not_negative(&spec["replicas"], &path.field("replicas"), errors);
    not_negative(&spec["minReadySeconds"], &path.field("minReadySeconds"), errors);
    selector(spec, &path, "empty selector is invalid for deployment", errors);
    template(spec, &path, "ReplicaSet", errors);
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
            "ReplicationController",
            errors,
        );
    }
}

pub fn daemon_set(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    selector(spec, &path, "empty selector is invalid for daemonset", errors);
    template(spec, &path, "DaemonSet", errors);
    not_negative(&spec["minReadySeconds"], &path.field("minReadySeconds"), errors);
    let strategy = &spec["updateStrategy"];
    let strategy_path = path.field("updateStrategy");
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            daemons_in_turn(&strategy["rollingUpdate"], &strategy_path.field("rollingUpdate"), errors);
        }
        _ => errors.unsupported(strategy_path.field("type"), &strategy["type"], &["RollingUpdate", "OnDelete"]),
    }
    not_negative(&spec["revisionHistoryLimit"], &path.field("revisionHistoryLimit"), errors);
}

/// Either the old daemon of a node goes before the new one comes, or after.
// upstream: pkg/apis/apps/validation/validation.go ValidateRollingUpdateDaemonSet (v1.36)
fn daemons_in_turn(rolling: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (before, after) = (path.field("maxUnavailable"), path.field("maxSurge"));
    let counts = [(&rolling["maxUnavailable"], &before), (&rolling["maxSurge"], &after)];
    let [away, more] = counts.map(|(value, path)| int_or_percent(value, path, errors).unwrap_or_default() != 0);
    for (value, path) in counts {
        at_most_all(value, path, errors);
    }
    if away && more {
        errors.invalid(after, &rolling["maxSurge"], "may not be set when maxUnavailable is non-zero");
    } else if !away && !more {
        errors.required(before, "cannot be 0 when maxSurge is 0");
    }
}

/// A selector, once set, stays.
pub(crate) fn same_selector(old: &Value, new: &Value, errors: &mut Errors) {
    if old["spec"]["selector"] != new["spec"]["selector"] {
        errors.invalid("spec.selector", &new["spec"]["selector"], "field is immutable");
    }
}

/// The selector of a workload.
pub fn selector(spec: &Value, path: &Path<'_>, empty: &str, errors: &mut Errors) {
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

/// The template of a workload of a kind, as upstream names it.
pub fn template(spec: &Value, path: &Path<'_>, kind: &str, errors: &mut Errors) {
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
            format!("activeDeadlineSeconds in {kind} is not Supported"),
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
    at_most_all(&rolling["maxUnavailable"], &path.field("maxUnavailable"), errors);
}

/// A percentage is of what there is.
pub(super) fn at_most_all(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if value.as_str().and_then(percent).is_some_and(|percent| percent > 100) {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}

fn percent(text: &str) -> Option<i64> {
    text.strip_suffix('%')?.parse().ok().filter(|percent| *percent >= 0)
}

/// A count or a percentage; its number if it is one.
pub fn int_or_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) -> Option<i64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_go_before_or_after_their_successors() {
        let faults = |away: Value, more: Value| {
            let mut errors = Errors::default();
            let rolling = json!({ "maxUnavailable": away, "maxSurge": more });
            daemons_in_turn(&rolling, &Path::Root.field("r"), &mut errors);
            errors.texts()
        };
        assert_eq!(faults(json!(1), json!(0)), [""; 0]);
        assert_eq!(faults(json!(0), json!("20%")), [""; 0]);
        assert_eq!(faults(json!(0), json!(0)), ["r.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]);
        assert_eq!(
            faults(json!("5%"), json!(1)),
            ["r.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"]
        );
        assert_eq!(
            faults(json!("105%"), json!(0)),
            ["r.maxUnavailable: Invalid value: \"105%\": must not be greater than 100%"]
        );
    }
}
