//! What differs from kind to kind in how the registry treats objects.

use serde_json::{Value, json};

use crate::sim::resource::{self as kinds, ResourceId};

/// Whether the kind has a `status` subresource, so that its status is written only there.
pub(super) fn has_status(resource: ResourceId) -> bool {
    [
        kinds::NAMESPACES,
        kinds::NODES,
        kinds::PODS,
        kinds::SERVICES,
        kinds::RESOURCE_QUOTAS,
        kinds::PERSISTENT_VOLUMES,
        kinds::PERSISTENT_VOLUME_CLAIMS,
        kinds::REPLICATION_CONTROLLERS,
        kinds::DEPLOYMENTS,
        kinds::REPLICA_SETS,
        kinds::DAEMON_SETS,
        kinds::STATEFUL_SETS,
        kinds::JOBS,
        kinds::CRON_JOBS,
        kinds::HORIZONTAL_POD_AUTOSCALERS,
        kinds::POD_DISRUPTION_BUDGETS,
    ]
    .contains(&resource)
}

/// Whether the kind counts the versions of its spec in `metadata.generation`.
pub(super) fn has_generation(resource: ResourceId) -> bool {
    [
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

/// The status a new object of the kind starts with; `None` where the body's is kept (nodes register with theirs).
pub(super) fn initial_status(resource: ResourceId) -> Option<Value> {
    match resource {
        kinds::NODES => None,
        kinds::NAMESPACES => Some(json!({ "phase": "Active" })),
        kinds::PODS | kinds::PERSISTENT_VOLUMES | kinds::PERSISTENT_VOLUME_CLAIMS => {
            Some(json!({ "phase": "Pending" }))
        }
        kinds::SERVICES => Some(json!({ "loadBalancer": {} })),
        _ if has_status(resource) => Some(json!({})),
        _ => None,
    }
}

/// Whether the two versions differ in what `metadata.generation` counts.
pub(super) fn spec_differs(resource: ResourceId, old: &Value, new: &Value) -> bool {
    match resource {
        kinds::PRIORITY_CLASSES => false,
        kinds::ENDPOINT_SLICES => ["addressType", "endpoints", "ports"].iter().any(|field| old[field] != new[field]),
        _ => old["spec"] != new["spec"],
    }
}

/// Whether dependents of a deleted object stay when the request does not say: so for kinds older than the garbage
/// collector, whose clients deleted dependents themselves.
pub(super) fn orphans_by_default(resource: ResourceId) -> bool {
    matches!(resource, kinds::JOBS | kinds::REPLICATION_CONTROLLERS)
}
