//! Endpoints of Services.

use super::*;

fn service(spec: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "labels": { "app": "web" } },
        "spec": spec,
    })
}

#[test]
fn have_endpoints_of_their_ready_pods() {
    let mut lab = Lab::new(2);
    lab.apply(deployment("web", 2));
    lab.apply(service(json!({
        "selector": { "app": "web" }, "ports": [{ "port": 80, "protocol": "TCP", "targetPort": 8080 }],
    })));
    let endpoints = lab.get(ENDPOINTS, "web");
    assert_eq!(endpoints["subsets"][0]["ports"], json!([{ "port": 8080, "protocol": "TCP" }]));
    let addresses = endpoints["subsets"][0]["addresses"].as_array().expect("addresses");
    let ips: Vec<_> = addresses.iter().map(|address| address["ip"].as_str().unwrap().to_owned()).collect();
    let mut wanted: Vec<_> = lab.pods().iter().map(|pod| pod["status"]["podIP"].as_str().unwrap().to_owned()).collect();
    wanted.sort();
    assert_eq!(ips, wanted);
    let slice = &lab.list(ENDPOINT_SLICES)[0];
    assert_eq!(slice["endpoints"][0]["conditions"], json!({ "ready": true, "serving": true, "terminating": false }));
    assert!(slice["endpoints"][0]["zone"].as_str().unwrap().starts_with("westeurope-"));
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "web");
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(0));
    assert!(lab.get(ENDPOINTS, "web")["subsets"].is_null());
    assert!(lab.list(ENDPOINT_SLICES)[0]["endpoints"].is_null());
    lab.delete(SERVICES, "web", Propagation::Background);
    assert!(lab.list(ENDPOINTS).is_empty() && lab.list(ENDPOINT_SLICES).is_empty());
}

#[test]
fn list_pods_that_are_not_ready_apart() {
    let mut lab = Lab::with(1, recorded());
    let mut web = deployment("web", 1);
    web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("x:does-not-exist");
    lab.apply(web);
    lab.apply(service(json!({ "selector": { "app": "web" }, "ports": [{ "port": 80, "protocol": "TCP" }] })));
    lab.seconds(2);
    let subset = &lab.get(ENDPOINTS, "web")["subsets"][0];
    assert!(subset["addresses"].is_null());
    assert_eq!(subset["notReadyAddresses"].as_array().map(Vec::len), Some(1));
}
