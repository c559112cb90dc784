//! Fields that belong to a feature gate: a cluster with the gate off drops them.

// upstream: dropDisabledFields of pkg/registry/<group>/<kind>/strategy.go; pkg/api/pod/util.go dropDisabledFields,
// pkg/api/resourceclaimspec/util.go DropDisabledFields, pkg/apis/apps/v1/defaults.go SetDefaults_StatefulSet (v1.36)

use klab_scheduler::features::{Features, Gate};
use serde_json::{Value, json};

use super::super::resource::{
    CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, DEVICE_CLASSES, HORIZONTAL_POD_AUTOSCALERS, JOBS, POD_TEMPLATES, PODS,
    REPLICA_SETS, REPLICATION_CONTROLLERS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, ResourceId,
    STATEFUL_SETS,
};

/// A gate, the part of objects that it is about, and its fields there. `[]` is each entry of a list; a value behind `!` stays.
type Row = (Gate, fn(ResourceId) -> Option<&'static str>, &'static [&'static str]);

const ROWS: &[Row] = &[
    (
        Gate::ContainerRestartRules,
        pod_spec,
        &[
            "initContainers.[].restartPolicy!Always",
            "initContainers.[].restartPolicyRules",
            "containers.[].restartPolicy",
            "containers.[].restartPolicyRules",
            "ephemeralContainers.[].restartPolicy",
            "ephemeralContainers.[].restartPolicyRules",
        ],
    ),
    (
        Gate::EnvFiles,
        pod_spec,
        &[
            "initContainers.[].env.[].valueFrom.fileKeyRef",
            "containers.[].env.[].valueFrom.fileKeyRef",
            "ephemeralContainers.[].env.[].valueFrom.fileKeyRef",
        ],
    ),
    (Gate::HostnameOverride, pod_spec, &["hostnameOverride"]),
    (Gate::MatchLabelKeysInPodTopologySpread, pod_spec, &["topologySpreadConstraints.[].matchLabelKeys"]),
    (Gate::DRAPrioritizedList, claim_spec, &["devices.requests.[].firstAvailable"]),
    (
        Gate::DRADeviceTaints,
        claim_spec,
        &["devices.requests.[].exactly.tolerations", "devices.requests.[].firstAvailable.[].tolerations"],
    ),
    (Gate::DRADeviceTaints, slice_spec, &["devices.[].taints"]),
    (
        Gate::DRADeviceBindingConditions,
        slice_spec,
        &["devices.[].bindingConditions", "devices.[].bindingFailureConditions", "devices.[].bindsToNode"],
    ),
    (
        Gate::DRAPartitionableDevices,
        slice_spec,
        &[
            "sharedCounters",
            "perDeviceNodeSelection",
            "devices.[].consumesCounters",
            "devices.[].nodeName",
            "devices.[].nodeSelector",
            "devices.[].allNodes",
        ],
    ),
    (Gate::DRAExtendedResource, |kind| (kind == DEVICE_CLASSES).then_some("spec"), &["extendedResourceName"]),
    (
        Gate::HPAConfigurableTolerance,
        |kind| (kind == HORIZONTAL_POD_AUTOSCALERS).then_some("spec.behavior"),
        &["scaleUp.tolerance", "scaleDown.tolerance"],
    ),
    (
        Gate::MaxUnavailableStatefulSet,
        |kind| (kind == STATEFUL_SETS).then_some("spec.updateStrategy.rollingUpdate"),
        &["maxUnavailable"],
    ),
];

/// Where a kind has the spec of a pod.
fn pod_spec(kind: ResourceId) -> Option<&'static str> {
    match kind {
        PODS => Some("spec"),
        POD_TEMPLATES => Some("template.spec"),
        REPLICATION_CONTROLLERS | REPLICA_SETS | DEPLOYMENTS | STATEFUL_SETS | DAEMON_SETS | JOBS => {
            Some("spec.template.spec")
        }
        CRON_JOBS => Some("spec.jobTemplate.spec.template.spec"),
        _ => None,
    }
}

fn claim_spec(kind: ResourceId) -> Option<&'static str> {
    match kind {
        RESOURCE_CLAIMS => Some("spec"),
        RESOURCE_CLAIM_TEMPLATES => Some("spec.spec"),
        _ => None,
    }
}

fn slice_spec(kind: ResourceId) -> Option<&'static str> {
    (kind == RESOURCE_SLICES).then_some("spec")
}

/// Drops the fields of gates that are off, unless the version that it replaces has one of them; defaults those of gates that
/// are on where they are off elsewhere.
pub fn settle(features: Features, kind: ResourceId, old: Option<&Value>, new: &mut Value) {
    for (_, part, fields) in ROWS.iter().filter(|(gate, ..)| !features.has(*gate)) {
        let Some(part) = part(kind) else { continue };
        let Some(new) = new.pointer_mut(&pointer(part)) else { continue };
        let old = old.and_then(|old| old.pointer(&pointer(part)));
        let is_used = |old: &Value| fields.iter().any(|field| has(old, field));
        if !old.is_some_and(is_used) {
            fields.iter().for_each(|field| drop_field(new, field));
        }
    }
    if kind == STATEFUL_SETS && features.has(Gate::MaxUnavailableStatefulSet) {
        let strategy = &mut new["spec"]["updateStrategy"];
        if strategy["type"] == "RollingUpdate" && strategy["rollingUpdate"]["maxUnavailable"].is_null() {
            strategy["rollingUpdate"]["maxUnavailable"] = json!(1);
        }
    }
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// Whether a value has a field.
fn has(value: &Value, path: &str) -> bool {
    match path.split_once('.') {
        Some(("[]", rest)) => value.as_array().into_iter().flatten().any(|entry| has(entry, rest)),
        Some((field, rest)) => value.get(field).is_some_and(|value| has(value, rest)),
        None => {
            let (field, kept) = path.split_once('!').unwrap_or((path, ""));
            value.get(field).is_some_and(|value| !value.is_null() && value != kept)
        }
    }
}

fn drop_field(value: &mut Value, path: &str) {
    match path.split_once('.') {
        Some(("[]", rest)) => {
            value.as_array_mut().into_iter().flatten().for_each(|entry| drop_field(entry, rest));
        }
        Some((field, rest)) => {
            if let Some(value) = value.get_mut(field) {
                drop_field(value, rest);
            }
        }
        None if has(value, path) => {
            let field = path.split('!').next().unwrap_or_default();
            value.as_object_mut().map(|fields| fields.remove(field));
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_go_with_their_gate_unless_they_were_there() {
        let settings = serde_json::from_value(json!({ "featureGates": {
            "ContainerRestartRules": false, "RestartAllContainersOnContainerExits": false,
        } }));
        let features = settings.unwrap();
        let own = || {
            json!({ "spec": {
                "initContainers": [{ "restartPolicy": "Always" }, { "restartPolicy": "Never", "restartPolicyRules": [] }],
                "containers": [{ "name": "a" }, { "restartPolicy": "Never", "restartPolicyRules": [{}] }],
            } })
        };
        let mut new = own();
        settle(features, PODS, None, &mut new);
        let containers = json!([{ "name": "a" }, {}]);
        assert_eq!(
            new["spec"],
            json!({ "initContainers": [{ "restartPolicy": "Always" }, {}], "containers": containers })
        );
        let mut changed = own();
        settle(features, PODS, Some(&own()), &mut changed);
        assert_eq!(changed, own());
        settle(Features::default(), PODS, None, &mut changed);
        assert_eq!(changed, own());
    }
}
