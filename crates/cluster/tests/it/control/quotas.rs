//! Quotas and the controllers they stop.

use super::*;

#[test]
fn stop_a_replica_set_which_goes_on_when_there_is_room() {
    let mut lab = Lab::new(2);
    lab.apply(json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "compute" },
        "spec": { "hard": { "pods": "4" } },
    }));
    lab.apply(deployment("web", 6));
    assert_eq!(lab.running(), 4);
    let web = lab.get(DEPLOYMENTS, "web");
    assert_eq!(condition(&web, "Available")["status"], "False");
    let failure = condition(&web, "ReplicaFailure");
    assert_eq!(failure["reason"], "FailedCreate");
    let said = failure["message"].as_str().expect("a message");
    assert!(
        said.ends_with("is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4"),
        "{said}"
    );
    assert_eq!(web["status"]["unavailableReplicas"], 2);
    assert!(!lab.messages("FailedCreate").is_empty());
    lab.change(RESOURCE_QUOTAS, "compute", |quota| quota["spec"]["hard"]["pods"] = json!("10"));
    assert_eq!(lab.running(), 6);
    assert!(condition(&lab.get(DEPLOYMENTS, "web"), "ReplicaFailure").is_null());
}
