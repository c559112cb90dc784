//! Volumes and claims: phases, what is in use stays, and whose the claims of a StatefulSet are.

use serde_json::{Value, json};

use super::ground::Ground;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

fn volume(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": size }, "accessModes": ["ReadWriteOnce"], "storageClassName": "slow",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": format!("/mnt/{name}") },
        },
    })
}

fn claim(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "slow", "resources": { "requests": { "storage": size } },
        },
    })
}

fn pod(name: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "containers": [{ "name": "main", "image": "nginx:1.27" }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }],
        },
    })
}

fn phase(ground: &Ground, path: &str) -> String {
    ground.get(path).good()["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

// upstream test: [sig-storage] PV Protection Verify "immediate" deletion of a PV that is not bound to a PVC
#[test]
fn a_volume_that_is_not_bound_goes_at_once() {
    let ground = Ground::with_nodes(1);
    ground.post(VOLUMES, &volume("disk", "1Gi")).good();
    let disk = ground.get(&format!("{VOLUMES}/disk")).good();
    assert_eq!(disk["status"]["phase"], "Available");
    assert_eq!(disk["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    ground.delete(&format!("{VOLUMES}/disk")).good();
    ground.get(&format!("{VOLUMES}/disk")).refused(404);
}

// upstream test: [sig-storage] PV Protection Verify that PV bound to a PVC is not removed immediately
#[test]
fn a_volume_that_is_bound_stays_until_it_is_not() {
    let ground = Ground::with_nodes(1);
    ground.post(VOLUMES, &volume("disk", "5Gi")).good();
    ground.post(CLAIMS, &claim("data", "1Gi")).good();
    let (disk, data) = (format!("{VOLUMES}/disk"), format!("{CLAIMS}/data"));
    assert_eq!((phase(&ground, &disk), phase(&ground, &data)), ("Bound".to_owned(), "Bound".to_owned()));
    ground.delete(&disk).good();
    let leaving = ground.get(&disk).good();
    assert!(leaving["metadata"]["deletionTimestamp"].is_string() && leaving["status"]["phase"] == "Bound", "{leaving}");
    ground.delete(&data).good();
    ground.get(&data).refused(404);
    ground.get(&disk).refused(404);
}

// upstream test: [sig-storage] PVC Protection Verify "immediate" deletion of a PVC that is not in active use by a pod
#[test]
fn a_claim_that_is_in_use_stays_until_it_is_not() {
    let ground = Ground::with_nodes(1);
    ground.post(VOLUMES, &volume("disk", "5Gi")).good();
    ground.post(CLAIMS, &claim("data", "1Gi")).good();
    ground.post(PODS, &pod("user", "data")).good();
    let data = format!("{CLAIMS}/data");
    assert_eq!(ground.get(&data).good()["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    ground.delete(&data).good();
    assert!(ground.get(&data).good()["metadata"]["deletionTimestamp"].is_string());
    ground.delete(&format!("{PODS}/user?gracePeriodSeconds=0")).good();
    ground.pass(60);
    ground.get(&data).refused(404);
    assert_eq!(phase(&ground, &format!("{VOLUMES}/disk")), "Released");
}

// upstream test: [sig-storage] PVC Protection Verify that scheduling of a pod that uses PVC that is being deleted fails and the pod becomes Unschedulable
#[test]
fn a_claim_that_is_being_deleted_takes_no_further_pods() {
    let ground = Ground::with_nodes(1);
    ground.post(VOLUMES, &volume("disk", "5Gi")).good();
    ground.post(CLAIMS, &claim("data", "1Gi")).good();
    ground.post(PODS, &pod("first", "data")).good();
    ground.delete(&format!("{CLAIMS}/data")).good();
    ground.post(PODS, &pod("second", "data")).good();
    let second = ground.get(&format!("{PODS}/second")).good();
    let condition = &second["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("PodScheduled"), &json!("Unschedulable")));
    assert!(condition["message"].as_str().unwrap().contains("persistentvolumeclaim \"data\" is being deleted"));
}

#[test]
fn a_volume_that_is_released_waits_for_somebody_to_free_it() {
    let ground = Ground::with_nodes(1);
    ground.post(VOLUMES, &volume("disk", "5Gi")).good();
    ground.post(CLAIMS, &claim("first", "1Gi")).good();
    ground.delete(&format!("{CLAIMS}/first")).good();
    let disk = format!("{VOLUMES}/disk");
    assert_eq!(phase(&ground, &disk), "Released");
    ground.post(CLAIMS, &claim("second", "1Gi")).good();
    assert_eq!(phase(&ground, &format!("{CLAIMS}/second")), "Pending");
    ground.merge(&disk, &json!({ "spec": { "claimRef": null } })).good();
    assert_eq!(phase(&ground, &format!("{CLAIMS}/second")), "Bound");
}

#[test]
fn the_smallest_volume_that_fits_is_taken() {
    let ground = Ground::with_nodes(1);
    for (name, size) in [("large", "9Gi"), ("fitting", "3Gi"), ("small", "1Gi")] {
        ground.post(VOLUMES, &volume(name, size)).good();
    }
    ground.post(CLAIMS, &claim("data", "2Gi")).good();
    assert_eq!(ground.get(&format!("{CLAIMS}/data")).good()["spec"]["volumeName"], "fitting");
    ground.delete(&format!("{VOLUMES}/large")).good();
    ground.post(CLAIMS, &claim("more", "2Gi")).good();
    assert_eq!(phase(&ground, &format!("{CLAIMS}/more")), "Pending");
}

/// A StatefulSet with a claim for each pod and volumes for them.
#[test]
fn volumes_are_made_by_every_provisioner() {
    let ground = Ground::with_nodes(1);
    for (number, provisioner, kind) in [
        (0, "disk.csi.azure.com", "csi"),
        (1, "docker.io/hostpath", "hostPath"),
        (2, "kubernetes.io/aws-ebs", "csi"),
        (3, "My_Provisioner", "hostPath"),
    ] {
        let (class, data) = (format!("class-{number}"), format!("data-{number}"));
        let of_class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": class },
            "provisioner": provisioner,
        });
        ground.post("/apis/storage.k8s.io/v1/storageclasses", &of_class).good();
        let mut claim = claim(&data, "1Gi");
        claim["spec"]["storageClassName"] = json!(class);
        ground.post(CLAIMS, &claim).good();
        ground.pass(5);
        let claim = ground.get(&format!("{CLAIMS}/{data}")).good();
        assert_eq!(claim["status"]["phase"], "Bound", "{provisioner}");
        let volume = claim["spec"]["volumeName"].as_str().unwrap();
        let volume = ground.get(&format!("{VOLUMES}/{volume}")).good();
        assert!(volume["spec"][kind].is_object(), "{provisioner}: {}", volume["spec"]);
    }
}

fn database(ground: &Ground, deleted: &str, scaled: &str) {
    for at in 0..3 {
        ground.post(VOLUMES, &volume(&format!("disk-{at}"), "1Gi")).good();
    }
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
        "spec": {
            "replicas": 3, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
            "persistentVolumeClaimRetentionPolicy": { "whenDeleted": deleted, "whenScaled": scaled },
            "template": {
                "metadata": { "labels": { "app": "db" } },
                "spec": { "terminationGracePeriodSeconds": 0, "containers": [{ "name": "main", "image": "postgres:16" }] },
            },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "slow", "resources": { "requests": { "storage": "1Gi" } },
            }}],
        },
    });
    ground.post(SETS, &set).good();
    ground.pass(60);
    assert_eq!(ground.get(&format!("{SETS}/db")).good()["status"]["readyReplicas"], 3);
}

fn claims(ground: &Ground) -> Vec<String> {
    let all = ground.get(CLAIMS).good();
    let items = all["items"].as_array().into_iter().flatten();
    items.map(|claim| claim["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn owners(ground: &Ground, claim: &str) -> Vec<(String, String)> {
    let claim = ground.get(&format!("{CLAIMS}/{claim}")).good();
    let references = claim["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    references.iter().map(|owner| (text(&owner["kind"]), text(&owner["name"]))).collect()
}

/// Gives a claim another controller.
fn take_over(ground: &Ground, claim: &str) {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "stranger" } });
    let stranger = ground.post("/api/v1/namespaces/default/configmaps", &map).good();
    let owner = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "stranger", "uid": stranger["metadata"]["uid"],
        "controller": true,
    }]);
    ground.merge(&format!("{CLAIMS}/{claim}"), &json!({ "metadata": { "ownerReferences": owner } })).good();
}

// upstream test: [sig-apps] StatefulSet Non-retain StatefulSetPersistentVolumeClaimPolicy should not delete PVC with OnScaledown policy if another controller owns the PVC
#[test]
fn a_claim_that_another_controller_owns_outlives_its_pod() {
    let ground = Ground::with_nodes(1);
    database(&ground, "Retain", "Delete");
    take_over(&ground, "data-db-1");
    ground.merge(&format!("{SETS}/db/scale"), &json!({ "spec": { "replicas": 0 } })).good();
    ground.pass(120);
    assert_eq!(claims(&ground), ["data-db-1"], "the others went with their pods");
    assert_eq!(owners(&ground, "data-db-1"), [("ConfigMap".to_owned(), "stranger".to_owned())]);
}

// upstream test: [sig-apps] StatefulSet Non-retain StatefulSetPersistentVolumeClaimPolicy should not delete PVCs when there is another controller
#[test]
fn a_claim_that_another_controller_owns_outlives_its_set() {
    let ground = Ground::with_nodes(1);
    database(&ground, "Delete", "Retain");
    let own = [("StatefulSet".to_owned(), "db".to_owned())];
    assert!(claims(&ground).iter().all(|claim| owners(&ground, claim) == own));
    take_over(&ground, "data-db-1");
    ground.delete(&format!("{SETS}/db?propagationPolicy=Background")).good();
    ground.pass(120);
    assert_eq!(claims(&ground), ["data-db-1"]);
}

#[test]
fn claims_go_with_the_set_if_it_says_so_and_their_owners_are_put_right() {
    let ground = Ground::with_nodes(1);
    database(&ground, "Retain", "Retain");
    assert_eq!(owners(&ground, "data-db-0"), []);
    let policy = json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Delete" } } });
    ground.merge(&format!("{SETS}/db"), &policy).good();
    let own = [("StatefulSet".to_owned(), "db".to_owned())];
    assert_eq!(owners(&ground, "data-db-0"), own);
    ground.merge(&format!("{CLAIMS}/data-db-0"), &json!({ "metadata": { "ownerReferences": null } })).good();
    assert_eq!(owners(&ground, "data-db-0"), own);
    ground.merge(&format!("{SETS}/db/scale"), &json!({ "spec": { "replicas": 1 } })).good();
    ground.pass(120);
    assert_eq!(claims(&ground), ["data-db-0"]);
    ground.delete(&format!("{SETS}/db?propagationPolicy=Background")).good();
    ground.pass(120);
    assert!(claims(&ground).is_empty());
}
