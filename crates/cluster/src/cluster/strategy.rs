//! What differs from kind to kind in how the registry treats objects.

use serde_json::{Value, json};

use crate::resource::{self as kinds, ResourceId};

/// Whether the kind counts the versions of its spec in `metadata.generation`.
pub(super) fn has_generation(resource: ResourceId) -> bool {
    resource.row().custom
        || [
            kinds::CUSTOM_RESOURCE_DEFINITIONS,
            kinds::PODS,
            kinds::REPLICATION_CONTROLLERS,
            kinds::DEPLOYMENTS,
            kinds::REPLICA_SETS,
            kinds::DAEMON_SETS,
            kinds::STATEFUL_SETS,
            kinds::JOBS,
            kinds::CRON_JOBS,
            kinds::POD_DISRUPTION_BUDGETS,
            kinds::PRIORITY_CLASSES,
            kinds::ENDPOINT_SLICES,
        ]
        .contains(&resource)
}

/// The status a new object of the kind starts with; `None` where the body's is kept (nodes register with theirs),
/// null for none. `has_status` says whether it has the subresource.
pub(super) fn initial_status(resource: ResourceId, has_status: bool) -> Option<Value> {
    match resource {
        kinds::NODES => None,
        kinds::NAMESPACES => Some(json!({ "phase": "Active" })),
        kinds::PODS | kinds::PERSISTENT_VOLUMES | kinds::PERSISTENT_VOLUME_CLAIMS => {
            Some(json!({ "phase": "Pending" }))
        }
        kinds::CUSTOM_RESOURCE_DEFINITIONS => Some(Value::Null),
        _ if has_status && resource.row().custom => Some(Value::Null),
        _ if has_status => Some(json!({})),
        _ => None,
    }
}

/// Whether the two versions differ in what `metadata.generation` counts.
pub(super) fn spec_differs(resource: ResourceId, old: &Value, new: &Value) -> bool {
    match resource {
        kinds::PRIORITY_CLASSES => false,
        // A Deployment's annotations go to its ReplicaSets, so that they count, too.
        // upstream: pkg/registry/apps/deployment/strategy.go PrepareForUpdate (v1.36)
        kinds::DEPLOYMENTS => {
            let annotations = |value: &Value| {
                let annotations = value["metadata"]["annotations"].as_object();
                annotations.filter(|annotations| !annotations.is_empty()).cloned()
            };
            old["spec"] != new["spec"] || annotations(old) != annotations(new)
        }
        _ if resource.row().custom => {
            let fields = |value: &Value| {
                let mut value = value.clone();
                if let Some(map) = value.as_object_mut() {
                    map.retain(|name, _| !matches!(name.as_str(), "metadata" | "status"));
                }
                value
            };
            fields(old) != fields(new)
        }
        kinds::ENDPOINT_SLICES => ["addressType", "endpoints", "ports"].iter().any(|field| old[field] != new[field]),
        _ => old["spec"] != new["spec"],
    }
}

/// Whether dependents of a deleted object stay when the request does not say: so for kinds older than the garbage
/// collector, whose clients deleted dependents themselves.
pub(super) fn orphans_by_default(resource: ResourceId) -> bool {
    matches!(resource, kinds::JOBS | kinds::REPLICATION_CONTROLLERS)
}

/// A namespace is labelled with its name, so that selectors can find it.
pub(super) fn label_namespace(resource: ResourceId, name: &str, value: &mut Value) {
    if resource == crate::resource::NAMESPACES && value["metadata"].is_object() {
        value["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
    }
}

/// What a DaemonSet is told about its template by, for clients older than its generation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Counts the versions of a DaemonSet's template in its annotation.
pub(super) fn count_template(old: Option<&Value>, new: &mut Value) {
    let generation = match old {
        None => 1,
        Some(old) => {
            let had = old["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
            let had: i64 = had.and_then(|text| text.parse().ok()).unwrap_or(1);
            had + i64::from(old["spec"]["template"] != new["spec"]["template"])
        }
    };
    if new["metadata"].is_object() {
        new["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(generation.to_string());
    }
}
