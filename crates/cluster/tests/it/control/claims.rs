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
fn of_kind_are_folders_of_the_node_where_their_pod_runs() {
    let mut lab = Lab::new(0);
    bootstrap(&lab.cluster, Flavour::Kind);
    for number in 0..2 {
        let name = format!("lab-worker{number}");
        let mut node = node(&name, number);
        node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
        lab.cluster.create(NODES, "", node, &WriteOptions::by("test")).expect("node");
    }
    let claim = |name: &str, spec: Value| {
        let mut claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            claim["spec"][field] = value.clone();
        }
        claim
    };
    let pod = |name: &str, claim: &str, node: Option<&str>| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": {
                "containers": [{ "name": "main", "image": "nginx:1.27" }],
                "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }],
            },
        });
        if let Some(node) = node {
            pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
        }
        pod
    };
    lab.apply(claim("data", json!({})));
    lab.apply(pod("first", "data", Some("lab-worker1")));
    lab.seconds(5);
    let bound = lab.get(PERSISTENT_VOLUME_CLAIMS, "data");
    let name = bound["spec"]["volumeName"].as_str().expect("a volume");
    let volume = lab.get(PERSISTENT_VOLUMES, name);
    assert_eq!(volume["metadata"]["annotations"]["local.path.provisioner/selected-node"], "lab-worker1");
    assert_eq!(volume["spec"]["hostPath"]["path"], format!("/var/local-path-provisioner/{name}_default_data"));
    let here = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": ["lab-worker1"] });
    assert_eq!(volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"], json!([here]));
    // Whoever uses it later goes where it is, or nowhere.
    lab.apply(pod("second", "data", None));
    lab.apply(pod("third", "data", Some("lab-worker0")));
    lab.seconds(5);
    assert_eq!(lab.get(PODS, "second")["spec"]["nodeName"], "lab-worker1");
    assert_eq!(lab.get(PODS, "third")["status"]["phase"], "Pending");

    let failed = "failed to provision volume with StorageClass \"standard\": ";
    for (name, spec, because) in [
        (
            "shared",
            json!({ "accessModes": ["ReadWriteMany"] }),
            format!("{failed}NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes"),
        ),
        (
            "chosen",
            json!({ "selector": { "matchLabels": { "disk": "fast" } } }),
            format!("{failed}claim.Spec.Selector is not supported"),
        ),
        (
            "raw",
            json!({ "volumeMode": "Block" }),
            "rancher.io/local-path does not support block volume provisioning".to_owned(),
        ),
    ] {
        lab.apply(claim(name, spec));
        let mut pod = pod(&format!("of-{name}"), name, None);
        if name == "raw" {
            pod["spec"]["containers"][0]["volumeDevices"] = json!([{ "name": "data", "devicePath": "/dev/raw" }]);
        }
        lab.apply(pod);
        lab.seconds(5);
        let messages = lab.messages("ProvisioningFailed");
        assert!(messages.contains(&because), "{name}: {messages:?}");
        assert_eq!(lab.get(PERSISTENT_VOLUME_CLAIMS, name)["status"]["phase"], "Pending", "{name}");
    }
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

fn with_ephemeral_volume() -> Value {
    let volumes = json!([{
        "name": "scratch",
        "ephemeral": {
            "volumeClaimTemplate": {
                "metadata": { "labels": { "type": "scratch" } },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "managed-csi",
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            },
        },
    }]);
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "reader" },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }], "volumes": volumes },
    })
}

#[test]
fn of_ephemeral_volumes_are_made_for_their_pod_and_go_with_it() {
    let mut lab = Lab::new(0);
    bootstrap(&lab.cluster, Flavour::Aks);
    lab.cluster.create(NODES, "", node("node-0", 0), &WriteOptions::by("test")).expect("node");
    lab.apply(with_ephemeral_volume());
    lab.seconds(5);
    assert_eq!(lab.get(PODS, "reader")["status"]["phase"], "Running");
    let claim = lab.get(PERSISTENT_VOLUME_CLAIMS, "reader-scratch");
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(claim["metadata"]["labels"], json!({ "type": "scratch" }));
    let owner = &claim["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"], &owner["blockOwnerDeletion"]),
        (&json!("Pod"), &json!("reader"), &json!(true), &json!(true))
    );
    lab.delete(PODS, "reader", Propagation::Background);
    lab.seconds(60);
    assert!(lab.list(PERSISTENT_VOLUME_CLAIMS).is_empty() && lab.list(PERSISTENT_VOLUMES).is_empty());
}

#[test]
fn of_ephemeral_volumes_are_not_those_that_somebody_else_has_made() {
    let mut lab = Lab::new(1);
    lab.apply(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "reader-scratch" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }));
    lab.apply(with_ephemeral_volume());
    let of_other = "PVC default/reader-scratch was not created for pod default/reader (pod is not owner)";
    let messages = lab.messages("FailedBinding");
    assert!(messages.contains(&format!("ephemeral volume scratch: {of_other}")), "{messages:?}");
    let [told] = &*lab.messages("FailedScheduling") else { panic!("{:?}", lab.messages("FailedScheduling")) };
    assert!(told.starts_with(&format!("0/1 nodes are available: {of_other}. ")), "{told}");
}

#[test]
fn of_ephemeral_volumes_are_waited_for() {
    let mut lab = Lab::new(1);
    lab.apply(json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "none" },
        "spec": { "hard": { "persistentvolumeclaims": "0" } },
    }));
    lab.apply(with_ephemeral_volume());
    let refused = "ephemeral volume scratch: create PVC reader-scratch: persistentvolumeclaims \"reader-scratch\" is forbidden: exceeded quota: none, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=0, limited: persistentvolumeclaims=0";
    assert_eq!(lab.messages("FailedBinding")[0], refused);
    let waits = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"reader-scratch\"";
    let [told] = &*lab.messages("FailedScheduling") else { panic!("{:?}", lab.messages("FailedScheduling")) };
    assert!(told.starts_with(&format!("0/1 nodes are available: {waits}. ")), "{told}");
    lab.delete(RESOURCE_QUOTAS, "none", Propagation::Background);
    lab.apply(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "disk" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" }, "storageClassName": "managed-csi",
            "hostPath": { "path": "/disk" },
        },
    }));
    lab.seconds(300);
    assert_eq!(lab.get(PERSISTENT_VOLUME_CLAIMS, "reader-scratch")["status"]["phase"], "Bound");
    assert_eq!(lab.get(PODS, "reader")["status"]["phase"], "Running");
}

// upstream: pkg/controller/volume/vacprotection/vac_protection_controller_test.go (v1.36)
#[test]
fn keep_their_class_of_attributes() {
    use klab_api_machinery::resource::VOLUME_ATTRIBUTES_CLASSES;
    let mut lab = Lab::new(0);
    let finalizers = |lab: &Lab| lab.get(VOLUME_ATTRIBUTES_CLASSES, "fast")["metadata"]["finalizers"].clone();
    lab.apply(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": { "name": "fast" },
        "driverName": "disk.csi.azure.com", "parameters": { "iops": "500" },
    }));
    assert_eq!(finalizers(&lab), json!(["kubernetes.io/vac-protection"]));
    lab.change(VOLUME_ATTRIBUTES_CLASSES, "fast", |class| class["metadata"]["finalizers"] = Value::Null);
    assert_eq!(finalizers(&lab), json!(["kubernetes.io/vac-protection"]), "it is put back");
    lab.apply(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeAttributesClassName": "fast",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    }));
    lab.delete(VOLUME_ATTRIBUTES_CLASSES, "fast", Propagation::Background);
    lab.seconds(60);
    assert!(lab.get(VOLUME_ATTRIBUTES_CLASSES, "fast")["metadata"]["deletionTimestamp"].is_string());
    lab.delete(PERSISTENT_VOLUME_CLAIMS, "data", Propagation::Background);
    assert_eq!(lab.get(VOLUME_ATTRIBUTES_CLASSES, "fast"), Value::Null);
}
