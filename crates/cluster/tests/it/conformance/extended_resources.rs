//! Extended resources that are devices: the claims that the scheduler makes for pods that request them.

use serde_json::{Value, json};

use super::devices::{CLAIMS, GROUP, PODS, class, names, phase, reserved, slice};
use super::ground::Ground;

/// A pod whose containers ask for resources.
fn asking(name: &str, containers: &[&[(&str, &str)]]) -> Value {
    let container = |(at, requests): (usize, &&[(&str, &str)])| {
        let amounts: serde_json::Map<String, Value> =
            requests.iter().map(|(name, amount)| ((*name).to_owned(), json!(amount))).collect();
        json!({ "name": format!("c{at}"), "image": "nginx:1.27", "resources": { "requests": amounts, "limits": amounts } })
    };
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": {
        "terminationGracePeriodSeconds": 0, "containers": containers.iter().enumerate().map(container).collect::<Vec<_>>() } })
}

/// A cluster with one node of so many devices, which are a resource.
fn extended(devices: usize) -> Ground {
    let ground = Ground::with_nodes(1);
    let mut mapped = class("gpu");
    mapped["spec"]["extendedResourceName"] = json!("example.com/gpu");
    ground.post(&format!("{GROUP}/deviceclasses"), &mapped).good();
    ground.post(&format!("{GROUP}/resourceslices"), &slice(&names(&ground)[0], devices)).good();
    ground
}

// upstream: test/e2e/dra/dra.go "must run a pod with explicit extended resource with three containers one resource each" (v1.36)
// upstream: test/e2e/dra/dra.go "must run a pod with implicit extended resource with one container one resource" (v1.36)
// upstream: test/e2e/dra/dra.go "must accurately populate ExtendedResourceClaimStatus" (v1.36)
// upstream: test/e2e/dra/dra.go "must prevent overcommitment of extended resources" (v1.36)
#[test]
fn devices_are_had_as_a_resource() {
    let ground = extended(4);
    let one: &[(&str, &str)] = &[("cpu", "10m"), ("example.com/gpu", "1")];
    ground.post(PODS, &asking("three", &[one, one, one])).good();
    assert_eq!(phase(&ground, "three"), "Running");
    let three = ground.get(&format!("{PODS}/three")).good();
    let status = &three["status"]["extendedResourceClaimStatus"];
    let name = status["resourceClaimName"].as_str().unwrap();
    assert!(name.starts_with("three-extended-resources-"), "{name}");
    assert_eq!(
        status["requestMappings"][1],
        json!({
        "containerName": "c1", "resourceName": "example.com/gpu", "requestName": "container-1-request-1" })
    );
    let claim = ground.get(&format!("{CLAIMS}/{name}")).good();
    assert_eq!(claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"], "true");
    assert_eq!(claim["spec"]["devices"]["requests"].as_array().unwrap().len(), 3);
    assert_eq!(claim["status"]["allocation"]["devices"]["results"].as_array().unwrap().len(), 3);
    assert_eq!(reserved(&claim), 1);
    // By the name of its class, and more than there is.
    ground.post(PODS, &asking("implicit", &[&[("deviceclass.resource.kubernetes.io/gpu", "1")]])).good();
    assert_eq!(phase(&ground, "implicit"), "Running");
    ground.post(PODS, &asking("late", &[one])).good();
    assert_eq!(phase(&ground, "late"), "Pending");
    let pending = ground.get(&format!("{PODS}/late")).good();
    assert!(
        pending["status"]["conditions"][0]["message"].as_str().unwrap().contains("cannot allocate all claims"),
        "{pending}"
    );
    ground.delete(&format!("{PODS}/three")).good();
    ground.pass(20);
    ground.get(&format!("{CLAIMS}/{name}")).refused(404);
    assert_eq!(phase(&ground, "late"), "Running");
}

// upstream: test/e2e/dra/dra.go "must cleanup extended resource claims when pods complete" (v1.36)
// upstream: test/e2e/dra/dra.go "must process extended resource after Device Class creation" (v1.36)
// upstream: test/e2e/dra/dra.go "must run a pod with extended resource requesting zero" (v1.36)
#[test]
fn a_resource_becomes_devices_when_a_class_says_so_and_ends_with_its_pod() {
    let ground = Ground::with_nodes(1);
    ground.post(&format!("{GROUP}/resourceslices"), &slice(&names(&ground)[0], 1)).good();
    let mut job = asking("p", &[&[("example.com/gpu", "1")]]);
    job["spec"]["restartPolicy"] = json!("Never");
    job["spec"]["containers"][0]["image"] = json!("busybox");
    job["spec"]["containers"][0]["command"] = json!(["sleep", "60"]);
    ground.post(PODS, &job).good();
    assert_eq!(phase(&ground, "p"), "Pending");
    let mut mapped = class("gpu");
    mapped["spec"]["extendedResourceName"] = json!("example.com/gpu");
    ground.post(&format!("{GROUP}/deviceclasses"), &mapped).good();
    assert_eq!(phase(&ground, "p"), "Running");
    assert_eq!(ground.get(CLAIMS).good()["items"].as_array().unwrap().len(), 1);
    ground.pass(90);
    assert_eq!(phase(&ground, "p"), "Succeeded");
    assert_eq!(ground.get(CLAIMS).good()["items"], json!([]));
    ground.post(PODS, &asking("none", &[&[("example.com/gpu", "0")]])).good();
    assert_eq!(phase(&ground, "none"), "Running");
    assert_eq!(ground.get(CLAIMS).good()["items"], json!([]));
}

// upstream: pkg/quota/v1/evaluator/core/resource_claims_test.go TestResourceClaimEvaluatorUsage (v1.36)
#[test]
fn a_quota_counts_no_device_twice() {
    let ground = extended(4);
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let (own, implicit) = ("requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/gpu");
    let devices = "gpu.deviceclass.resource.k8s.io/devices";
    ground
        .post(
            quotas,
            &json!({
                "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "gpus" },
                "spec": { "hard": { own: "3", implicit: "10", devices: "10" } },
            }),
        )
        .good();
    let used = || {
        let used = ground.get(&format!("{quotas}/gpus")).good()["status"]["used"].clone();
        [own, implicit, devices].map(|name| used[name].as_str().unwrap_or_default().to_owned())
    };
    ground.post(PODS, &asking("two", &[&[("example.com/gpu", "2")]])).good();
    assert_eq!(phase(&ground, "two"), "Running");
    assert_eq!(used(), ["2", "2", "2"]);
    // A claim of the class takes of it, too.
    let claim = |name: &str| {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": name },
            "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "gpu" } }] } },
        })
    };
    ground.post(CLAIMS, &claim("own")).good();
    assert_eq!(used(), ["3", "3", "3"]);
    let message = ground.post(CLAIMS, &claim("more")).refused(403);
    let over = "exceeded quota: gpus, requested: requests.example.com/gpu=1, used: requests.example.com/gpu=3, limited: requests.example.com/gpu=3";
    assert!(message.ends_with(over), "{message}");
    ground.delete(&format!("{PODS}/two")).good();
    ground.pass(20);
    assert_eq!(used(), ["1", "1", "1"]);
}
