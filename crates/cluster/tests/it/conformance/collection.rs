//! What goes with what: owners in a circle, the order in which a namespace is emptied, and what is put back.

use serde_json::{Value, json};

use super::ground::Ground;

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
    })
}

fn own(ground: &Ground, name: &str, owner: &Value) {
    let reference = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    ground.merge(&format!("{PODS}/{name}"), &json!({ "metadata": { "ownerReferences": reference } })).good();
}

// upstream test: [sig-api-machinery] Garbage collector should not be blocked by dependency circle [Conformance]
#[test]
fn pods_that_own_each_other_in_a_circle_go_together() {
    let ground = Ground::with_nodes(1);
    let pods: Vec<Value> = ["one", "two", "three"].iter().map(|name| ground.post(PODS, &pod(name)).good()).collect();
    own(&ground, "one", &pods[2]);
    own(&ground, "two", &pods[0]);
    own(&ground, "three", &pods[1]);
    ground.delete(&format!("{PODS}/one?propagationPolicy=Foreground")).good();
    ground.pass(120);
    assert_eq!(ground.get(PODS).good()["items"], json!([]));
}

// upstream test: [sig-api-machinery] OrderedNamespaceDeletion namespace deletion should delete pod first [Conformance]
#[test]
fn the_pods_of_a_namespace_go_first() {
    let ground = Ground::with_nodes(1);
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "doomed" } });
    ground.post("/api/v1/namespaces", &namespace).good();
    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    ground.post("/api/v1/namespaces/doomed/pods", &held).good();
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "needed" } });
    ground.post("/api/v1/namespaces/doomed/configmaps", &map).good();
    ground.delete("/api/v1/namespaces/doomed").good();
    ground.pass(120);
    ground.get("/api/v1/namespaces/doomed/configmaps/needed").good();
    let status = ground.get("/api/v1/namespaces/doomed").good()["status"].clone();
    assert_eq!(status["phase"], "Terminating");
    ground.merge("/api/v1/namespaces/doomed/pods/held", &json!({ "metadata": { "finalizers": null } })).good();
    ground.pass(120);
    ground.get("/api/v1/namespaces/doomed").refused(404);
}

// upstream test: [sig-auth] ServiceAccounts should guarantee kube-root-ca.crt exist in any namespace [Conformance]
#[test]
fn the_certificate_of_a_namespace_is_put_back() {
    let ground = Ground::with_nodes(1);
    let path = format!("{MAPS}/kube-root-ca.crt");
    let data = ground.get(&path).good()["data"].clone();
    ground.delete(&path).good();
    assert_eq!(ground.get(&path).good()["data"], data);
    ground.merge(&path, &json!({ "data": { "ca.crt": "", "other": "x" } })).good();
    assert_eq!(ground.get(&path).good()["data"], data);
}

#[test]
fn the_account_of_a_namespace_is_put_back() {
    let ground = Ground::with_nodes(1);
    let path = "/api/v1/namespaces/default/serviceaccounts/default";
    let before = ground.get(path).good();
    ground.delete(path).good();
    assert_ne!(ground.get(path).good()["metadata"]["uid"], before["metadata"]["uid"]);
}

#[test]
fn what_names_an_owner_elsewhere_is_not_owned() {
    let ground = Ground::with_nodes(1);
    let map = |name: &str, owner: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "ownerReferences": [owner] } });
    let plain = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "owner" } });
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } });
    ground.post("/api/v1/namespaces", &namespace).good();
    let elsewhere = ground.post("/api/v1/namespaces/other/configmaps", &plain).good()["metadata"]["uid"].clone();
    let here = ground.post(MAPS, &plain).good()["metadata"]["uid"].clone();
    let of =
        |kind: &str, name: &str, uid: &Value| json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": uid });
    for (name, owner) in [
        ("foreign", of("ConfigMap", "owner", &elsewhere)),
        ("misnamed", of("ConfigMap", "somebody", &here)),
        ("mistyped", of("Secret", "owner", &here)),
    ] {
        ground.post(MAPS, &map(name, owner));
        ground.get(&format!("{MAPS}/{name}")).refused(404);
    }
    let unknown = json!({ "apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "7" });
    for (name, owner) in [("owned", of("ConfigMap", "owner", &here)), ("unknown", unknown)] {
        ground.post(MAPS, &map(name, owner)).good();
        ground.get(&format!("{MAPS}/{name}")).good();
    }
    ground.delete(&format!("{MAPS}/owner?propagationPolicy=Background")).good();
    ground.get(&format!("{MAPS}/owned")).refused(404);
}
