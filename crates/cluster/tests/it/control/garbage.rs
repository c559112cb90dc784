//! Garbage collection and the end of namespaces.

use super::*;

#[test]
fn background_deletion_takes_sets_and_pods_along() {
    let mut lab = Lab::new(2);
    lab.apply(deployment("web", 3));
    lab.delete(DEPLOYMENTS, "web", Propagation::Background);
    assert!(lab.list(REPLICA_SETS).is_empty());
    assert!(lab.pods().is_empty());
}

#[test]
fn foreground_deletion_keeps_the_owner_to_the_last() {
    let mut lab = Lab::with(2, recorded());
    lab.apply(deployment("web", 3));
    lab.seconds(3);
    lab.delete(DEPLOYMENTS, "web", Propagation::Foreground);
    assert!(!lab.get(DEPLOYMENTS, "web")["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(lab.pods().len(), 3);
    lab.seconds(2);
    assert!(lab.pods().is_empty() && lab.list(REPLICA_SETS).is_empty() && lab.list(DEPLOYMENTS).is_empty());
}

#[test]
fn orphans_stay_and_are_adopted_again() {
    let mut lab = Lab::new(2);
    lab.apply(deployment("web", 2));
    let names: Vec<_> = lab.pods().iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    lab.delete(DEPLOYMENTS, "web", Propagation::Orphan);
    assert!(lab.list(DEPLOYMENTS).is_empty());
    assert!(lab.list(REPLICA_SETS)[0]["metadata"]["ownerReferences"].is_null());
    lab.apply(deployment("web", 2));
    assert_eq!(lab.list(REPLICA_SETS)[0]["metadata"]["ownerReferences"][0]["name"], "web");
    let after: Vec<_> = lab.pods().iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    assert_eq!(names, after);
}

#[test]
fn an_object_whose_owner_never_was_is_collected() {
    let mut lab = Lab::new(1);
    lab.apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "child", "ownerReferences": [
            { "apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000001" },
        ]},
    }));
    assert!(lab.cluster.get(CONFIG_MAPS, "default", "child").is_none());
}

#[test]
fn a_namespace_ends_when_its_content_has() {
    let mut lab = Lab::with(1, recorded());
    lab.apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } }));
    lab.apply(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x", "namespace": "team" },
        "spec": { "containers": [{ "name": "x", "image": "nginx" }], "terminationGracePeriodSeconds": 30 },
    }));
    lab.seconds(2);
    lab.apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "held", "namespace": "team", "finalizers": ["lab.example/hold"] },
    }));
    lab.delete(NAMESPACES, "team", Propagation::Background);
    lab.seconds(4);
    assert_eq!(lab.cluster.list(PODS, Some("team")).0.len(), 1);
    lab.seconds(4);
    let namespace = lab.get(NAMESPACES, "team");
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert_eq!(condition(&namespace, "NamespaceFinalizersRemaining")["status"], "True");
    assert!(lab.cluster.list(PODS, Some("team")).0.is_empty());
    lab.cluster
        .modify(CONFIG_MAPS, Part::Main, "team", "held", &WriteOptions::by("test"), |value| {
            value["metadata"]["finalizers"] = json!([]);
        })
        .expect("released");
    lab.plane.run();
    assert!(lab.cluster.get(NAMESPACES, "", "team").is_none());
}
