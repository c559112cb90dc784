//! Endpoints and EndpointSlices: ports by name, mirroring, how many one slice holds.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ground::Ground;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str, app: &str, ports: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": app } },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1.27", "ports": ports }] },
    })
}

fn service(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": spec })
}

fn slices(ground: &Ground, service: &str) -> Vec<Value> {
    let path = format!("{SLICES}?labelSelector=kubernetes.io%2Fservice-name%3D{service}");
    ground.get(&path).good()["items"].as_array().cloned().unwrap_or_default()
}

/// The ports of each slice with the pods behind them.
fn by_ports(slices: &[Value]) -> BTreeSet<(Vec<i64>, Vec<String>)> {
    slices
        .iter()
        .map(|slice| {
            let ports = slice["ports"].as_array().into_iter().flatten().filter_map(|port| port["port"].as_i64());
            let pods = slice["endpoints"].as_array().into_iter().flatten();
            let pods = pods.map(|endpoint| endpoint["targetRef"]["name"].as_str().unwrap_or_default().to_owned());
            (ports.collect(), pods.collect())
        })
        .collect()
}

/// The same of the subsets of Endpoints.
fn by_subset(endpoints: &Value) -> BTreeSet<(Vec<i64>, Vec<String>)> {
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    subsets
        .map(|subset| {
            let ports = subset["ports"].as_array().into_iter().flatten().filter_map(|port| port["port"].as_i64());
            let pods = subset["addresses"].as_array().into_iter().flatten();
            let pods = pods.map(|address| address["targetRef"]["name"].as_str().unwrap_or_default().to_owned());
            (ports.collect(), pods.collect())
        })
        .collect()
}

fn set(groups: &[(&[i64], &[&str])]) -> BTreeSet<(Vec<i64>, Vec<String>)> {
    groups.iter().map(|(ports, pods)| (ports.to_vec(), pods.iter().map(ToString::to_string).collect())).collect()
}

// upstream test: [sig-network] EndpointSlice should create Endpoints and EndpointSlices for Pods matching a Service [Conformance]
// upstream test: [sig-network] EndpointsController should create Endpoints for Pods matching a Service [Conformance]
#[test]
fn a_named_port_may_be_another_one_in_each_pod() {
    let ground = Ground::with_nodes(1);
    ground.post(PODS, &pod("one", "shop", json!([{ "name": "web", "containerPort": 8080 }]))).good();
    ground.post(PODS, &pod("two", "shop", json!([{ "name": "web", "containerPort": 9090 }]))).good();
    let ports = json!([{ "name": "http", "port": 80, "targetPort": "web" }]);
    ground.post(SERVICES, &service("shop", json!({ "selector": { "app": "shop" }, "ports": ports }))).good();
    let wanted = set(&[(&[8080], &["one"]), (&[9090], &["two"])]);
    assert_eq!(by_ports(&slices(&ground, "shop")), wanted);
    assert_eq!(by_subset(&ground.get(&format!("{ENDPOINTS}/shop")).good()), wanted);
    let owner = slices(&ground, "shop")[0]["metadata"]["ownerReferences"][0].clone();
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"]),
        (&json!("Service"), &json!("shop"), &json!(true))
    );
    ground.delete(&format!("{PODS}/two?gracePeriodSeconds=0")).good();
    assert_eq!(by_ports(&slices(&ground, "shop")), set(&[(&[8080], &["one"])]));
    ground.delete(&format!("{SERVICES}/shop")).good();
    assert_eq!(slices(&ground, "shop").len(), 0);
    ground.get(&format!("{ENDPOINTS}/shop")).refused(404);
}

// upstream test: [sig-network] Services should serve multiport endpoints from pods [Conformance]
#[test]
fn pods_may_have_some_of_the_ports() {
    let ground = Ground::with_nodes(1);
    let ports = json!([
        { "name": "first", "port": 80, "targetPort": "one" }, { "name": "second", "port": 81, "targetPort": "two" },
    ]);
    ground.post(SERVICES, &service("shop", json!({ "selector": { "app": "shop" }, "ports": ports }))).good();
    assert_eq!(slices(&ground, "shop").len(), 1, "an empty one there is always");
    ground.post(PODS, &pod("a", "shop", json!([{ "name": "one", "containerPort": 100 }]))).good();
    ground.post(PODS, &pod("b", "shop", json!([{ "name": "two", "containerPort": 101 }]))).good();
    let both = json!([{ "name": "one", "containerPort": 100 }, { "name": "two", "containerPort": 101 }]);
    ground.post(PODS, &pod("c", "shop", both)).good();
    let wanted = set(&[(&[100], &["a"]), (&[101], &["b"]), (&[100, 101], &["c"])]);
    assert_eq!(by_ports(&slices(&ground, "shop")), wanted);
    let endpoints = ground.get(&format!("{ENDPOINTS}/shop")).good();
    assert_eq!(by_subset(&endpoints), set(&[(&[100], &["a", "c"]), (&[101], &["b", "c"])]));
}

// upstream test: [sig-network] EndpointSliceMirroring should mirror a custom Endpoints resource through create update and delete [Conformance]
#[test]
fn endpoints_kept_by_hand_are_mirrored() {
    let ground = Ground::with_nodes(1);
    ground.post(SERVICES, &service("outside", json!({ "ports": [{ "port": 80 }] }))).good();
    let mut endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "outside", "labels": { "team": "dba" } },
        "subsets": [{ "addresses": [{ "ip": "10.1.2.3" }], "ports": [{ "port": 80 }] }],
    });
    ground.post(ENDPOINTS, &endpoints).good();
    let mirror = slices(&ground, "outside").remove(0);
    assert_eq!(mirror["endpoints"], json!([{ "addresses": ["10.1.2.3"], "conditions": { "ready": true } }]));
    assert_eq!(mirror["ports"], json!([{ "name": "", "port": 80, "protocol": "TCP" }]));
    assert_eq!(mirror["metadata"]["labels"]["team"], "dba");
    assert_eq!(mirror["metadata"]["ownerReferences"][0]["kind"], "Endpoints");
    endpoints["subsets"][0]["addresses"][0]["ip"] = json!("10.2.3.4");
    ground.put(&format!("{ENDPOINTS}/outside"), &endpoints).good();
    let changed = slices(&ground, "outside").remove(0);
    assert_eq!(changed["endpoints"][0]["addresses"], json!(["10.2.3.4"]));
    assert_eq!(changed["metadata"]["name"], mirror["metadata"]["name"], "the slice stays the same one");
    ground.delete(&format!("{ENDPOINTS}/outside")).good();
    assert_eq!(slices(&ground, "outside").len(), 0);
}

// upstream test: [sig-network] EndpointSliceMirroring should mirror a custom Endpoint with multiple subsets and same IP address
#[test]
fn one_address_may_be_mirrored_with_several_ports() {
    let ground = Ground::with_nodes(1);
    ground.post(SERVICES, &service("outside", json!({ "ports": [{ "port": 80 }] }))).good();
    let subset = |name: &str, port: i64| json!({ "addresses": [{ "ip": "10.0.0.9" }], "ports": [{ "name": name, "port": port }] });
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "outside" },
        "subsets": [subset("http", 80), subset("metrics", 9100)],
    });
    ground.post(ENDPOINTS, &endpoints).good();
    let slices = slices(&ground, "outside");
    let ports: BTreeSet<i64> = slices.iter().filter_map(|slice| slice["ports"][0]["port"].as_i64()).collect();
    assert_eq!(ports, BTreeSet::from([80, 9100]));
    assert!(slices.iter().all(|slice| slice["endpoints"][0]["addresses"] == json!(["10.0.0.9"])));
}

#[test]
fn a_slice_holds_a_hundred_endpoints_and_keeps_those_it_has() {
    let ground = Ground::with_nodes(3);
    ground.post(SERVICES, &service("shop", json!({ "selector": { "app": "shop" }, "ports": [{ "port": 80 }] }))).good();
    for at in 0..150 {
        ground.post(PODS, &pod(&format!("p{at:03}"), "shop", json!([]))).good();
    }
    let sizes = |ground: &Ground| -> BTreeSet<usize> {
        slices(ground, "shop").iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).collect()
    };
    assert_eq!(sizes(&ground), BTreeSet::from([50, 100]));
    let full = |ground: &Ground| {
        let all = slices(ground, "shop");
        all.into_iter().find(|slice| slice["endpoints"].as_array().map(Vec::len) == Some(100)).unwrap()
    };
    let before = full(&ground);
    let other =
        slices(&ground, "shop").into_iter().find(|slice| slice["metadata"]["name"] != before["metadata"]["name"]);
    let leaving = other.unwrap()["endpoints"][0]["targetRef"]["name"].as_str().unwrap().to_owned();
    ground.delete(&format!("{PODS}/{leaving}?gracePeriodSeconds=0")).good();
    assert_eq!(sizes(&ground), BTreeSet::from([49, 100]));
    assert_eq!(
        full(&ground)["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"],
        "it was not written"
    );
}

#[test]
fn pods_that_are_not_ready_are_published_if_that_is_asked() {
    let ground = Ground::with_nodes(1);
    let mut waiting = pod("waiting", "db", json!([]));
    waiting["spec"]["hostname"] = json!("first");
    waiting["spec"]["subdomain"] = json!("db");
    ground.post(PODS, &waiting).good();
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    ground
        .merge("/api/v1/nodes/node-0", &json!({ "metadata": { "annotations": { "klab.dev/heartbeat": "stopped" } } }));
    ground.merge(&format!("{PODS}/waiting/status"), &status).good();
    let spec = json!({ "clusterIP": "None", "selector": { "app": "db" }, "ports": [{ "port": 5432 }] });
    ground.post(SERVICES, &service("db", spec)).good();
    let endpoints = |ground: &Ground| ground.get(&format!("{ENDPOINTS}/db")).good();
    assert_eq!(endpoints(&ground)["subsets"][0]["notReadyAddresses"][0]["hostname"], "first");
    assert_eq!(endpoints(&ground)["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    ground.merge(&format!("{SERVICES}/db"), &json!({ "spec": { "publishNotReadyAddresses": true } })).good();
    assert_eq!(endpoints(&ground)["subsets"][0]["addresses"][0]["hostname"], "first");
    let told = slices(&ground, "db")[0]["endpoints"][0]["conditions"].clone();
    assert_eq!(told, json!({ "ready": true, "serving": false, "terminating": false }));
}
