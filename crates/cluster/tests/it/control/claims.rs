//! Claims and volumes.

use super::*;

#[test]
fn of_a_stateful_set_are_bound_where_its_pods_run() {
    let mut lab = Lab::new(0);
    bootstrap(&lab.cluster, Flavour::Aks);
    let mut first = node("node-0", 0);
    first["metadata"]["labels"]["topology.disk.csi.azure.com/zone"] = json!("westeurope-1");
    lab.cluster.create(NODES, "", first, &WriteOptions::by("test")).expect("node");
    lab.apply(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
        "spec": {
            "replicas": 2, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
            "template": template("db", "postgres:16"),
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "managed-csi",
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            }],
        },
    }));
    lab.seconds(5);
    assert_eq!(lab.running(), 2);
    let claim = lab.get(PERSISTENT_VOLUME_CLAIMS, "data-db-1");
    assert_eq!(
        claim["status"],
        json!({ "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } })
    );
    let volume = lab.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"].as_str().expect("a volume"));
    assert_eq!(volume["status"]["phase"], "Bound");
    assert_eq!(
        volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"],
        json!(["westeurope-1"])
    );
    lab.delete(STATEFUL_SETS, "db", Propagation::Background);
    assert_eq!(lab.list(PERSISTENT_VOLUME_CLAIMS).len(), 2, "claims are kept");
    lab.delete(PERSISTENT_VOLUME_CLAIMS, "data-db-1", Propagation::Background);
    assert_eq!(lab.cluster.list(PERSISTENT_VOLUMES, None).0.len(), 1);
}

#[test]
fn without_a_class_wait_for_a_volume() {
    let mut lab = Lab::new(1);
    lab.apply(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }));
    assert_eq!(
        lab.messages("FailedBinding"),
        ["no persistent volumes available for this claim and no storage class is set"]
    );
}
