//! ReplicationControllers, and what becomes of their pods when they are deleted.

use serde_json::{Value, json};

use super::ground::Ground;

const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn controller(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "app": name },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
            },
        },
    })
}

fn pods(ground: &Ground) -> Vec<Value> {
    ground.get(PODS).good()["items"].as_array().cloned().unwrap_or_default()
}

fn owner(pod: &Value) -> &str {
    pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default()
}

fn delete(ground: &Ground, name: &str, policy: Option<&str>) {
    let query = policy.map(|policy| format!("?propagationPolicy={policy}")).unwrap_or_default();
    ground.delete(&format!("{CONTROLLERS}/{name}{query}")).good();
}

// upstream test: [sig-apps] ReplicationController should adopt matching pods on creation [Conformance]
#[test]
fn pods_that_match_are_adopted() {
    let ground = Ground::with_nodes(1);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "alone", "labels": { "app": "keeper" } },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
    });
    ground.post(PODS, &pod).good();
    ground.post(CONTROLLERS, &controller("keeper", 1)).good();
    let pods = pods(&ground);
    assert_eq!(pods.len(), 1);
    assert_eq!((&pods[0]["metadata"]["name"], owner(&pods[0])), (&json!("alone"), "keeper"));
    let reference = &pods[0]["metadata"]["ownerReferences"][0];
    assert_eq!((&reference["kind"], &reference["controller"]), (&json!("ReplicationController"), &json!(true)));
}

// upstream test: [sig-apps] ReplicationController should release no longer matching pods [Conformance]
#[test]
fn pods_that_no_longer_match_are_released() {
    let ground = Ground::with_nodes(1);
    ground.post(CONTROLLERS, &controller("keeper", 1)).good();
    let name = pods(&ground)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    ground.merge(&format!("{PODS}/{name}"), &json!({ "metadata": { "labels": { "app": "other" } } })).good();
    let released = ground.get(&format!("{PODS}/{name}")).good();
    assert!(released["metadata"]["ownerReferences"].is_null(), "{released}");
    assert_eq!(pods(&ground).iter().filter(|pod| owner(pod) == "keeper").count(), 1, "another one took its place");
}

// upstream test: [sig-apps] ReplicationController should get and update a ReplicationController scale [Conformance]
#[test]
fn the_scale_is_read_and_written() {
    let ground = Ground::with_nodes(1);
    ground.post(CONTROLLERS, &controller("keeper", 1)).good();
    let path = format!("{CONTROLLERS}/keeper/scale");
    let mut scale = ground.get(&path).good();
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(1)));
    assert_eq!(scale["status"]["selector"], "app=keeper");
    scale["spec"]["replicas"] = json!(2);
    ground.put(&path, &scale).good();
    assert_eq!(ground.get(&format!("{CONTROLLERS}/keeper")).good()["status"]["readyReplicas"], 2);
}

// upstream test: [sig-apps] ReplicationController should test the lifecycle of a ReplicationController [Conformance]
#[test]
fn a_controller_is_made_patched_scaled_and_deleted() {
    let ground = Ground::with_nodes(1);
    ground.post(CONTROLLERS, &controller("keeper", 1)).good();
    let path = format!("{CONTROLLERS}/keeper");
    let labelled = ground.merge(&path, &json!({ "metadata": { "labels": { "made": "patched" } } })).good();
    assert_eq!(labelled["metadata"]["labels"]["made"], "patched");
    ground
        .merge(&format!("{path}/status"), &json!({ "status": { "readyReplicas": 0, "availableReplicas": 0 } }))
        .good();
    assert_eq!(ground.get(&path).good()["status"]["availableReplicas"], 1, "the controller counts again");
    ground.merge(&format!("{path}/scale"), &json!({ "spec": { "replicas": 2 } })).good();
    let status = ground.get(&path).good()["status"].clone();
    assert_eq!(
        status,
        json!({
            "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 2,
        })
    );
    let all = ground.get(&format!("{CONTROLLERS}?labelSelector=made%3Dpatched")).good();
    assert_eq!(all["items"].as_array().map(Vec::len), Some(1));
    ground.delete(&format!("{CONTROLLERS}?labelSelector=made%3Dpatched")).good();
    ground.get(&path).refused(404);
}

// upstream test: [sig-apps] ReplicationController should surface a failure condition on a common issue like exceeded quota [Conformance]
#[test]
fn a_quota_that_is_used_up_is_a_condition() {
    let ground = Ground::with_nodes(1);
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few" }, "spec": { "hard": { "pods": "2" } },
    });
    ground.post("/api/v1/namespaces/default/resourcequotas", &quota).good();
    ground.post(CONTROLLERS, &controller("keeper", 3)).good();
    let path = format!("{CONTROLLERS}/keeper");
    let condition = ground.get(&path).good()["status"]["conditions"][0].clone();
    let told = (&condition["type"], &condition["status"], &condition["reason"]);
    assert_eq!(told, (&json!("ReplicaFailure"), &json!("True"), &json!("FailedCreate")));
    ground.merge(&path, &json!({ "spec": { "replicas": 2 } })).good();
    assert!(ground.get(&path).good()["status"]["conditions"].is_null(), "it is gone when there is nothing left to do");
}

// upstream test: [sig-cli] Kubectl client Kubectl patch should add annotations for pods in rc [Conformance]
#[test]
fn pods_of_a_controller_are_patched() {
    let ground = Ground::with_nodes(1);
    ground.post(CONTROLLERS, &controller("keeper", 2)).good();
    for pod in pods(&ground) {
        let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
        let patched = ground.merge(&path, &json!({ "metadata": { "annotations": { "x": "y" } } })).good();
        assert_eq!(patched["metadata"]["annotations"]["x"], "y");
    }
}

// upstream test: [sig-api-machinery] Garbage collector should delete pods created by rc when not orphaning [Conformance]
#[test]
fn pods_go_with_their_controller() {
    let ground = Ground::with_nodes(1);
    ground.post(CONTROLLERS, &controller("keeper", 2)).good();
    assert_eq!(pods(&ground).len(), 2);
    delete(&ground, "keeper", Some("Background"));
    ground.pass(60);
    assert_eq!(pods(&ground).len(), 0);
}

// upstream test: [sig-api-machinery] Garbage collector should orphan pods created by rc if delete options say so [Serial] [Conformance]
// upstream test: [sig-api-machinery] Garbage collector should orphan pods created by rc if deleteOptions.OrphanDependents is nil
#[test]
fn pods_are_left_alone_if_that_is_asked_or_nothing_is() {
    for policy in [Some("Orphan"), None] {
        let ground = Ground::with_nodes(1);
        ground.post(CONTROLLERS, &controller("keeper", 2)).good();
        delete(&ground, "keeper", policy);
        ground.pass(60);
        ground.get(&format!("{CONTROLLERS}/keeper")).refused(404);
        let pods = pods(&ground);
        assert_eq!(pods.len(), 2, "{policy:?}");
        assert!(pods.iter().all(|pod| pod["metadata"]["ownerReferences"].is_null()));
    }
}

// upstream test: [sig-api-machinery] Garbage collector should keep the rc around until all its pods are deleted if the deleteOptions says so [Serial] [Conformance]
#[test]
fn a_controller_waits_for_its_pods() {
    let ground = Ground::with_nodes(1);
    ground.post(CONTROLLERS, &controller("keeper", 2)).good();
    let name = pods(&ground)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("{PODS}/{name}");
    ground.merge(&path, &json!({ "metadata": { "finalizers": ["example.com/hold"] } })).good();
    delete(&ground, "keeper", Some("Foreground"));
    ground.pass(60);
    let waiting = ground.get(&format!("{CONTROLLERS}/keeper")).good();
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    ground.merge(&path, &json!({ "metadata": { "finalizers": null } })).good();
    ground.pass(60);
    ground.get(&format!("{CONTROLLERS}/keeper")).refused(404);
}

// upstream test: [sig-api-machinery] Garbage collector should not delete dependents that have both valid owner and owner that's waiting for dependents to be deleted [Serial] [Conformance]
#[test]
fn pods_that_have_another_owner_stay() {
    let ground = Ground::with_nodes(1);
    ground.post(CONTROLLERS, &controller("leaving", 2)).good();
    let staying = ground.post(CONTROLLERS, &controller("staying", 0)).good();
    let shared = pods(&ground)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("{PODS}/{shared}");
    let mut owners = ground.get(&path).good()["metadata"]["ownerReferences"].as_array().cloned().unwrap();
    owners.push(json!({
        "apiVersion": "v1", "kind": "ReplicationController", "name": "staying", "uid": staying["metadata"]["uid"],
    }));
    ground.merge(&path, &json!({ "metadata": { "ownerReferences": owners } })).good();
    delete(&ground, "leaving", Some("Foreground"));
    ground.pass(60);
    ground.get(&format!("{CONTROLLERS}/leaving")).refused(404);
    let pods = pods(&ground);
    assert_eq!(pods.iter().map(owner).collect::<Vec<_>>(), ["staying"], "it is owned by that one alone now");
}

// upstream test: [sig-storage] EmptyDir wrapper volumes should not cause race condition when used for configmaps [Serial] [Conformance]
#[test]
fn pods_with_many_config_maps_run() {
    let ground = Ground::with_nodes(1);
    let volumes: Vec<Value> = (0..50)
        .map(|at| {
            let name = format!("part-{at}");
            let map =
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "b" } });
            ground.post("/api/v1/namespaces/default/configmaps", &map).good();
            json!({ "name": name, "configMap": { "name": name } })
        })
        .collect();
    let mut keeper = controller("keeper", 5);
    keeper["spec"]["template"]["spec"]["volumes"] = json!(volumes);
    ground.post(CONTROLLERS, &keeper).good();
    assert_eq!(ground.get(&format!("{CONTROLLERS}/keeper")).good()["status"]["readyReplicas"], 5);
}
