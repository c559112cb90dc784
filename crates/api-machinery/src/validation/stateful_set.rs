//! StatefulSets.

// upstream: pkg/apis/apps/validation/validation.go ValidateStatefulSetSpec, ValidateStatefulSetUpdate (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::{Errors, Place, claim_spec, workload};
use crate::views::{RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec};

/// A new set.
pub fn create(value: &Value, errors: &mut Errors) {
    let spec = Place::<StatefulSetSpec<'_>>::of_spec(value);
    strategy(&spec, errors);
    spec.volume_claim_templates().each().for_each(|claim| claim_spec::check(&claim.spec(), errors));
    counts(&spec, errors);
    spec.service_name().check_if_set(names::label, errors);
    pods(&spec, errors);
}

fn strategy(spec: &Place<'_, StatefulSetSpec<'_>>, errors: &mut Errors) {
    let policy = spec.pod_management_policy();
    if !matches!(*policy, "" | "OrderedReady" | "Parallel") {
        errors.invalid_at(&policy, "must be 'OrderedReady' or 'Parallel'");
    }
    let strategy = spec.update_strategy();
    let rolling = strategy.rolling_update();
    match *strategy.type_() {
        "OnDelete" if rolling.is_set() => {
            errors.invalid_as(rolling, &shown(*rolling), "only allowed for updateStrategy 'RollingUpdate'");
        }
        "RollingUpdate" => {
            rolling.partition().not_negative(errors);
            let most = rolling.max_unavailable();
            if workload::int_or_percent(&most, errors) == Some(0) {
                errors.invalid_at(&most, "cannot be 0");
            }
            workload::at_most_all(&most, errors);
        }
        "" | "OnDelete" => {}
        _ => {
            let rolling = if rolling.is_set() { shown(*rolling) } else { "null".to_owned() };
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", strategy.type_().json);
            errors.invalid_as(strategy, &shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
    let retention = spec.persistent_volume_claim_retention_policy();
    for policy in [retention.when_deleted(), retention.when_scaled()] {
        policy.supported(&["Retain", "Delete"], errors);
    }
}

/// A way of rolling out as Go prints it.
fn shown(rolling: RollingUpdateStatefulSetStrategy<'_>) -> String {
    let partition = rolling.partition().unwrap_or_default();
    format!("{{\"Partition\":{partition},\"MaxUnavailable\":{}}}", rolling.max_unavailable())
}

fn counts(spec: &Place<'_, StatefulSetSpec<'_>>, errors: &mut Errors) {
    spec.replicas().not_negative(errors);
    spec.min_ready_seconds().not_negative(errors);
    spec.ordinals().start().not_negative(errors);
}

/// The selector, and the template with the volumes that claims become and without what each pod gets of its own.
fn pods(spec: &Place<'_, StatefulSetSpec<'_>>, errors: &mut Errors) {
    workload::selector(&spec.selector(), "empty selector is invalid for statefulset", errors);
    let template = spec.template();
    let mut complete = template.json.clone();
    let pod = &mut complete["spec"];
    if let Some(pod) = pod.as_object_mut() {
        pod.remove("subdomain");
        pod.remove("hostname");
    }
    let claims = spec.volume_claim_templates();
    let made: HashSet<&str> = claims.each().map(|claim| *claim.metadata().name()).collect();
    if !made.is_empty() && pod.is_object() {
        let of_claim = |name: &str| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } });
        let own = template.spec();
        let own = own.volumes();
        let own = own.each().filter(|volume| !made.contains(*volume.name())).map(|volume| volume.json.clone());
        pod["volumes"] = claims.each().map(|claim| of_claim(*claim.metadata().name())).chain(own).collect();
    }
    workload::template(&spec.selector(), &Place::new(template.path, &complete), "StatefulSet", errors);
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
    let spec = Place::<StatefulSetSpec<'_>>::of_spec(new);
    strategy(&spec, errors);
    counts(&spec, errors);
    pods(&spec, errors);
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(map) = spec.as_object_mut() {
            map.retain(|field, _| !FREE.contains(&field.as_str()));
        }
        spec
    };
    if fixed(StatefulSet(old).spec().0) != fixed(spec.json) {
        errors.forbidden(
            spec,
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
