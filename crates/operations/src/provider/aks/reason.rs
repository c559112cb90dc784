//! Why something failed in Azure: what Azure keeps with it, else what its last operation says.

use serde_json::Value;

use super::answer::{AgentPool, ManagedCluster, Status};
use super::failure::Failure;
use super::site::Site;

/// The failure of a cluster in state Failed.
pub(super) fn of_failed_cluster(site: Site<'_>, cluster: &ManagedCluster) -> Failure {
    let kept = cluster.status.as_ref().and_then(Status::failure);
    kept.or_else(|| of_cluster(site)).unwrap_or_else(|| unknown(&cluster.provisioning_state))
}

/// The failure of a pool in state Failed.
pub(super) fn of_failed_pool(site: Site<'_>, pool: &AgentPool) -> Failure {
    let kept = pool.status.as_ref().and_then(Status::failure);
    let asked =
        || site.az.latest_operation(site.place, Some(&pool.name)).ok().and_then(|operation| failure_of(&operation));
    kept.or_else(asked).unwrap_or_else(|| unknown(&pool.provisioning_state))
}

/// What the cluster's last operation failed with; none where it did not fail or Azure does not say.
pub(super) fn of_cluster(site: Site<'_>) -> Option<Failure> {
    failure_of(&site.az.latest_operation(site.place, None).ok()?)
}

/// The error of an operation, with what is behind it.
fn failure_of(operation: &Value) -> Option<Failure> {
    let error = serde_json::from_value(operation["error"].clone()).ok()?;
    Status { provisioning_error: Some(error) }.failure().filter(|failure| !failure.words.is_empty())
}

fn unknown(state: &str) -> Failure {
    Failure::from_words(None, format!("Azure says `{state}` and gives no reason"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::aks::catalogue::Class;

    #[test]
    fn operation_that_failed_tells_why() {
        let operation = json!({ "name": "o", "status": "Failed", "error": { "code": "ReconcileVMSSAgentPoolFailed",
            "message": "VMSS failed", "details": [{ "code": "AllocationFailed", "message": "No capacity." }] } });
        let failure = failure_of(&operation).unwrap();
        assert_eq!(failure.class, Class::Capacity);
        assert!(failure.words.contains("(AllocationFailed) No capacity."), "{}", failure.words);
        assert!(failure_of(&json!({ "status": "Succeeded" })).is_none());
        assert!(failure_of(&json!({ "status": "Succeeded", "error": null })).is_none());
    }
}
