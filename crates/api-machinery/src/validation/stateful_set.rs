//! StatefulSets.

// upstream: pkg/apis/apps/validation/validation.go ValidateStatefulSetSpec, ValidateStatefulSetUpdate (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, not_negative, supported, text};
use super::{Errors, claim_spec, workload};
use crate::schema::Path;

/// A new set.
pub fn create(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    strategy(spec, &path, errors);
    let list = path.field("volumeClaimTemplates");
    for (at, claim) in entries(spec, "volumeClaimTemplates") {
        claim_spec::check(&claim["spec"], &list.index(at).field("spec"), errors);
    }
    counts(spec, &path, errors);
    let service = text(spec, "serviceName");
    if !service.is_empty() {
        for fault in names::label(service) {
            errors.invalid(path.field("serviceName"), &spec["serviceName"], fault);
        }
    }
    pods(spec, &path, errors);
}

fn strategy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = &spec["podManagementPolicy"];
    if !matches!(text(spec, "podManagementPolicy"), "" | "OrderedReady" | "Parallel") {
        errors.invalid(path.field("podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'");
    }
    let (strategy, place) = (&spec["updateStrategy"], path.field("updateStrategy"));
    let (rolling, rolling_place) = (&strategy["rollingUpdate"], place.field("rollingUpdate"));
    let shown = || {
        let rolling = match rolling {
            Value::Null => "null".to_owned(),
            _ => shown_rolling(rolling),
        };
        format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", strategy["type"])
    };
    match text(strategy, "type") {
        "OnDelete" if !rolling.is_null() => {
            let fault = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid_as(rolling_place, &shown_rolling(rolling), fault);
        }
        "RollingUpdate" => {
            not_negative(&rolling["partition"], &rolling_place.field("partition"), errors);
            let most = &rolling["maxUnavailable"];
            let place = rolling_place.field("maxUnavailable");
            if workload::int_or_percent(most, &place, errors) == Some(0) {
                errors.invalid(place, most, "cannot be 0");
            }
            workload::at_most_all(most, &place, errors);
        }
        "" | "OnDelete" => {}
        _ => errors.invalid_as(place, &shown(), "must be 'RollingUpdate' or 'OnDelete'"),
    }
    let retention = path.field("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        let policy = &spec["persistentVolumeClaimRetentionPolicy"][field];
        supported(policy, &retention.field(field), &["Retain", "Delete"], errors);
    }
}

/// A way of rolling out as Go prints it.
fn shown_rolling(rolling: &Value) -> String {
    let partition = rolling["partition"].as_i64().unwrap_or_default();
    format!("{{\"Partition\":{partition},\"MaxUnavailable\":{}}}", rolling["maxUnavailable"])
}

fn counts(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["replicas", "minReadySeconds"] {
        not_negative(&spec[field], &path.field(field), errors);
    }
    not_negative(&spec["ordinals"]["start"], &path.field("ordinals.start"), errors);
}

/// The selector, and the template with the volumes that claims become and without what each pod gets of its own.
fn pods(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    workload::selector(spec, path, "empty selector is invalid for statefulset", errors);
    let mut complete = spec.clone();
    let pod = &mut complete["template"]["spec"];
    if let Some(pod) = pod.as_object_mut() {
        pod.remove("subdomain");
        pod.remove("hostname");
    }
    let of_claims: Vec<Value> = entries(spec, "volumeClaimTemplates")
        .map(|(_, claim)| &claim["metadata"]["name"])
        .map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }))
        .collect();
    if !of_claims.is_empty() && pod.is_object() {
        let made: HashSet<&Value> = of_claims.iter().map(|made| &made["name"]).collect();
        let is_other = |volume: &Value| !made.contains(&volume["name"]);
        let own = entries(&spec["template"]["spec"], "volumes").map(|(_, volume)| volume.clone());
        let own: Vec<Value> = own.filter(is_other).collect();
        pod["volumes"] = Value::Array(of_claims.iter().cloned().chain(own).collect());
    }
    workload::template(&complete, path, "StatefulSet", errors);
}

/// A changed set: most of it stays.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let spec = &new["spec"];
    let path = Path::Root.field("spec");
    strategy(spec, &path, errors);
    counts(spec, &path, errors);
    pods(spec, &path, errors);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_say_how_they_change_and_what_they_keep() {
        let faults = |change: &Value| {
            let mut spec = json!({
                "podManagementPolicy": "OrderedReady", "updateStrategy": { "type": "RollingUpdate" },
                "selector": { "matchLabels": { "a": "b" } },
                "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }],
                "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "restartPolicy": "Always", "hostname": "A_B", "containers": [{ "name": "a", "image": "b", "volumeDevices": [{ "name": "data", "devicePath": "/dev/x" }] }] } },
            });
            for (field, value) in change.as_object().into_iter().flatten() {
                spec[field.as_str()] = value.clone();
            }
            Errors::found(|errors| create(&json!({ "spec": spec }), errors))
        };
        for (change, wanted) in [
            (json!({}), vec![]),
            (
                json!({ "podManagementPolicy": "x" }),
                vec!["podManagementPolicy: Invalid value: \"x\": must be 'OrderedReady' or 'Parallel'"],
            ),
            (
                json!({ "updateStrategy": { "type": "foo" } }),
                vec![
                    "updateStrategy: Invalid value: {\"Type\":\"foo\",\"RollingUpdate\":null}: must be 'RollingUpdate' or 'OnDelete'",
                ],
            ),
            (
                json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": { "partition": 1 } } }),
                vec![
                    "updateStrategy.rollingUpdate: Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'",
                ],
            ),
            (
                json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": -1, "maxUnavailable": 0 } } }),
                vec![
                    "updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
                    "updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0",
                ],
            ),
            (
                json!({ "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "x" } }),
                vec![
                    "persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: \"x\": supported values: \"Retain\", \"Delete\"",
                ],
            ),
            (
                json!({ "ordinals": { "start": -1 } }),
                vec!["ordinals.start: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (json!({ "serviceName": "a.b" }), vec!["serviceName: Invalid value: \"a.b\": must not contain dots"]),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("spec.{fault}")).collect();
            assert_eq!(faults(&change), wanted, "{change}");
        }
        let claims = json!({ "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"] } }] });
        assert_eq!(faults(&claims), ["spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"]);
    }
}
