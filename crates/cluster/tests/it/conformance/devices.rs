//! Dynamic resource allocation: claims, where their devices come from, and who may say what of them.

use serde_json::{Value, json};

use super::ground::Ground;

pub(super) const GROUP: &str = "/apis/resource.k8s.io/v1";
pub(super) const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
const DRIVER: &str = "gpu.example.com";

/// A cluster whose nodes have two devices each, and their class.
fn ground(nodes: usize) -> Ground {
    let ground = Ground::with_nodes(nodes);
    ground.post(&format!("{GROUP}/deviceclasses"), &class("gpu")).good();
    for node in names(&ground) {
        ground.post(&format!("{GROUP}/resourceslices"), &slice(&node, 2)).good();
    }
    ground
}

pub(super) fn names(ground: &Ground) -> Vec<String> {
    let nodes = ground.get("/api/v1/nodes").good();
    let nodes = nodes["items"].as_array().cloned().unwrap_or_default();
    nodes.iter().map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

pub(super) fn class(name: &str) -> Value {
    json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": name },
        "spec": { "selectors": [{ "cel": { "expression": format!("device.driver == '{DRIVER}'") } }] } })
}

pub(super) fn slice(node: &str, devices: usize) -> Value {
    let device =
        |number: usize| json!({ "name": format!("gpu-{number}"), "attributes": { "number": { "int": number } } });
    json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": node },
        "spec": { "driver": DRIVER, "nodeName": node, "devices": (0..devices).map(device).collect::<Vec<_>>(),
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 } } })
}

fn spec(exactly: Value) -> Value {
    json!({ "devices": { "requests": [{ "name": "r", "exactly": exactly }] } })
}

fn claim(name: &str, exactly: Value) -> Value {
    json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": name }, "spec": spec(exactly) })
}

fn pod(name: &str, field: &str, of: &str) -> Value {
    let container =
        |name: &str| json!({ "name": name, "image": "nginx:1.27", "resources": { "claims": [{ "name": "c" }] } });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "terminationGracePeriodSeconds": 0, "containers": [container("main"), container("other")],
            "initContainers": [{ "name": "init", "image": "busybox", "command": ["true"], "resources": { "claims": [{ "name": "c" }] } }],
            "resourceClaims": [{ "name": "c", field: of }] } })
}

pub(super) fn phase(ground: &Ground, name: &str) -> String {
    ground.pass(10);
    ground.get(&format!("{PODS}/{name}")).good()["status"]["phase"].as_str().unwrap().to_owned()
}

pub(super) fn reserved(claim: &Value) -> usize {
    claim["status"]["reservedFor"].as_array().map_or(0, Vec::len)
}

fn is_allocated(claim: &Value) -> bool {
    claim["status"]["allocation"].is_object()
}

// upstream test: [sig-node] [DRA] control plane supports simple pod referencing inline resource claim
// upstream test: [sig-node] [DRA] control plane supports inline claim referenced by multiple containers
// upstream test: [sig-node] [DRA] control plane supports init containers
#[test]
fn a_pod_has_a_claim_made_that_goes_with_it() {
    let ground = ground(1);
    let template = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": "t" },
        "spec": { "metadata": { "labels": { "from": "t" } }, "spec": spec(json!({ "deviceClassName": "gpu" })) } });
    ground.post(TEMPLATES, &template).good();
    ground.post(PODS, &pod("inline", "resourceClaimTemplateName", "t")).good();
    assert_eq!(phase(&ground, "inline"), "Running");
    let claims = ground.get(&format!("{CLAIMS}?labelSelector=from%3Dt")).good();
    let claim = &claims["items"][0];
    assert!(is_allocated(claim) && reserved(claim) == 1, "{claim}");
    assert_eq!(claim["metadata"]["generateName"], "inline-c-");
    assert_eq!(claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"], "c");
    ground.delete(&format!("{PODS}/inline")).good();
    ground.pass(10);
    assert_eq!(ground.get(CLAIMS).good()["items"], json!([]));
}

// upstream test: [sig-node] [DRA] control plane truncates the name of a generated resource claim
#[test]
fn the_name_of_a_claim_that_is_made_is_cut() {
    let ground = ground(1);
    let template = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": "t" },
        "spec": { "spec": spec(json!({ "deviceClassName": "gpu" })) } });
    ground.post(TEMPLATES, &template).good();
    let name = "p".repeat(63);
    ground.post(PODS, &pod(&name, "resourceClaimTemplateName", "t")).good();
    assert_eq!(phase(&ground, &name), "Running");
    let made = ground.get(CLAIMS).good()["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(made.len() <= 63 && made.starts_with("pppp"), "{made}");
}

// upstream test: [sig-node] [DRA] control plane supports simple pod referencing external resource claim
// upstream test: [sig-node] [DRA] control plane supports external claim referenced by multiple pods
// upstream test: [sig-node] [DRA] control plane supports external claim referenced by multiple containers of multiple pods
// upstream test: [sig-node] [DRA] control plane supports sharing a claim concurrently
// upstream test: [sig-node] [DRA] control plane deallocate after use
#[test]
fn a_claim_is_shared_until_nobody_uses_it() {
    let ground = ground(3);
    ground.post(CLAIMS, &claim("shared", json!({ "deviceClassName": "gpu" }))).good();
    let mut nodes = Vec::new();
    for name in ["one", "two", "three"] {
        ground.post(PODS, &pod(name, "resourceClaimName", "shared")).good();
        assert_eq!(phase(&ground, name), "Running");
        nodes.push(ground.get(&format!("{PODS}/{name}")).good()["spec"]["nodeName"].clone());
    }
    nodes.dedup();
    assert_eq!(nodes.len(), 1, "all are where the device is");
    let shared = || ground.get(&format!("{CLAIMS}/shared")).good();
    assert_eq!(reserved(&shared()), 3);
    assert_eq!(shared()["metadata"]["finalizers"], json!(["resource.kubernetes.io/delete-protection"]));
    for name in ["one", "two"] {
        ground.delete(&format!("{PODS}/{name}")).good();
    }
    ground.pass(10);
    assert!(is_allocated(&shared()) && reserved(&shared()) == 1);
    ground.delete(&format!("{PODS}/three")).good();
    ground.pass(10);
    assert_eq!((&shared()["status"], &shared()["metadata"]["finalizers"]), (&json!({}), &Value::Null));
}

// upstream test: [sig-node] [DRA] control plane supports reusing resources
// upstream test: [sig-node] [DRA] control plane with node-local resources uses all resources
#[test]
fn devices_are_used_up_and_used_again() {
    let ground = ground(2);
    for number in 0..5 {
        let name = format!("pod-{number}");
        ground.post(CLAIMS, &claim(&name, json!({ "deviceClassName": "gpu" }))).good();
        ground.post(PODS, &pod(&name, "resourceClaimName", &name)).good();
    }
    ground.pass(10);
    let running = |ground: &Ground| {
        let pods = ground.get(PODS).good();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
    };
    assert_eq!(running(&ground), 4);
    ground.delete(&format!("{PODS}/pod-0")).good();
    ground.pass(30);
    assert_eq!(running(&ground), 4);
    assert_eq!(phase(&ground, "pod-4"), "Running");
}

// upstream test: [sig-node] [DRA] control plane retries pod scheduling after creating device class
// upstream test: [sig-node] [DRA] control plane retries pod scheduling after updating device class
#[test]
fn a_pod_waits_for_its_class() {
    let ground = ground(1);
    ground.post(CLAIMS, &claim("c", json!({ "deviceClassName": "late" }))).good();
    ground.post(PODS, &pod("p", "resourceClaimName", "c")).good();
    assert_eq!(phase(&ground, "p"), "Pending");
    let message = ground.get(&format!("{PODS}/p")).good()["status"]["conditions"][0]["message"].clone();
    assert!(message.as_str().unwrap().contains("request r: device class late does not exist"), "{message}");
    let mut late = class("late");
    late["spec"]["selectors"][0]["cel"]["expression"] = json!("false");
    ground.post(&format!("{GROUP}/deviceclasses"), &late).good();
    assert_eq!(phase(&ground, "p"), "Pending");
    let late = json!({ "spec": { "selectors": [] } });
    ground.merge(&format!("{GROUP}/deviceclasses/late"), &late).good();
    assert_eq!(phase(&ground, "p"), "Running");
}

// upstream test: [sig-node] [DRA] control plane with different ResourceSlices keeps pod pending because of CEL runtime errors
#[test]
fn an_expression_that_fails_keeps_a_pod_pending() {
    let ground = ground(1);
    let selector = json!([{ "cel": { "expression": format!("device.attributes['{DRIVER}'].nope == 1") } }]);
    ground.post(CLAIMS, &claim("c", json!({ "deviceClassName": "gpu", "selectors": selector }))).good();
    ground.post(PODS, &pod("p", "resourceClaimName", "c")).good();
    assert_eq!(phase(&ground, "p"), "Pending");
    let condition = ground.get(&format!("{PODS}/p")).good()["status"]["conditions"][0].clone();
    assert_eq!(condition["reason"], "SchedulerError");
    assert!(condition["message"].as_str().unwrap().contains("CEL runtime error: no such key: nope"), "{condition}");
}

/// Gives a device of a slice these taints.
fn taint(ground: &Ground, slice: &str, device: usize, taints: &Value) {
    let path = format!("{GROUP}/resourceslices/{slice}");
    let mut slice = ground.get(&path).good();
    slice["spec"]["devices"][device]["taints"] = taints.clone();
    ground.put(&path, &slice).good();
}

fn events(ground: &Ground, reason: &str) -> Vec<String> {
    let events = ground.get("/api/v1/namespaces/default/events").good();
    let events = events["items"].as_array().cloned().unwrap_or_default();
    let of_reason = events.iter().filter(|event| event["reason"] == *reason);
    of_reason.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

// upstream: test/e2e/dra/dra.go "NoSchedule keeps pod pending" (v1.36)
// upstream: test/integration/dra/device_taints.go testEvictCluster (v1.36)
#[test]
fn a_pod_goes_when_its_device_is_tainted() {
    let ground = ground(1);
    let no_execute = json!([{ "key": "health", "value": "bad", "effect": "NoExecute" }]);
    ground.post(CLAIMS, &claim("c", json!({ "deviceClassName": "gpu" }))).good();
    let mut slow = pod("p", "resourceClaimName", "c");
    // It is to be seen as it goes.
    slow["metadata"]["finalizers"] = json!(["example.com/seen"]);
    ground.post(PODS, &slow).good();
    assert_eq!(phase(&ground, "p"), "Running");
    let node = &names(&ground)[0];
    taint(&ground, node, 1, &no_execute);
    assert_eq!(phase(&ground, "p"), "Running", "its own device is sound");
    taint(&ground, node, 0, &no_execute);
    ground.pass(1);
    let gone = ground.get(&format!("{PODS}/p")).good();
    assert!(gone["metadata"]["deletionTimestamp"].is_string(), "{gone}");
    let conditions = gone["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!(condition["reason"], "DeletionByDeviceTaintManager");
    assert_eq!(condition["message"], "Device Taint manager: deleting due to NoExecute taint");
    assert_eq!(events(&ground, "DeviceTaintManagerEviction"), ["Marking for deletion"]);
    ground.merge(&format!("{PODS}/p"), &json!({ "metadata": { "finalizers": null } })).good();
    ground.pass(10);
    ground.get(&format!("{PODS}/p")).refused(404);
    ground.post(PODS, &pod("q", "resourceClaimName", "c")).good();
    assert_eq!(phase(&ground, "q"), "Pending");
}

// upstream: pkg/controller/devicetainteviction/device_taint_eviction_test.go (v1.36)
#[test]
fn a_tainted_device_is_tolerated_for_a_while_or_for_ever() {
    let ground = ground(1);
    let tolerate = |seconds: Value| {
        json!({ "deviceClassName": "gpu", "tolerations": [
            { "key": "health", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds }] })
    };
    for (name, seconds) in [("while", json!(60)), ("ever", Value::Null)] {
        ground.post(CLAIMS, &claim(name, tolerate(seconds))).good();
        ground.post(PODS, &pod(name, "resourceClaimName", name)).good();
        assert_eq!(phase(&ground, name), "Running");
    }
    let node = &names(&ground)[0];
    let bad = json!([{ "key": "health", "effect": "NoExecute" }]);
    taint(&ground, node, 0, &bad);
    taint(&ground, node, 1, &bad);
    ground.pass(30);
    assert_eq!(phase(&ground, "while"), "Running");
    // A taint that goes in time changes nothing.
    taint(&ground, node, 0, &json!([]));
    ground.pass(60);
    assert_eq!(phase(&ground, "while"), "Running");
    assert_eq!(events(&ground, "DeviceTaintManagerEviction"), ["Cancelling deletion"]);
    taint(&ground, node, 0, &bad);
    ground.pass(70);
    ground.get(&format!("{PODS}/while")).refused(404);
    assert_eq!(phase(&ground, "ever"), "Running");
}

/// A cluster with a device that has to be made ready before a pod is bound to it, and a pod that waits for it.
fn conditional() -> Ground {
    let ground = Ground::with_nodes(1);
    ground.post(&format!("{GROUP}/deviceclasses"), &class("gpu")).good();
    let mut published = slice(&names(&ground)[0], 1);
    published["spec"]["devices"][0]["bindingConditions"] = json!(["example.com/attached"]);
    published["spec"]["devices"][0]["bindingFailureConditions"] = json!(["example.com/failed"]);
    ground.post(&format!("{GROUP}/resourceslices"), &published).good();
    ground.post(CLAIMS, &claim("c", json!({ "deviceClassName": "gpu" }))).good();
    ground.post(PODS, &pod("p", "resourceClaimName", "c")).good();
    assert_eq!(phase(&ground, "p"), "Pending");
    ground
}

/// What a driver says of the device of the claim.
fn say(ground: &Ground, condition: &str) {
    let path = format!("{CLAIMS}/c");
    let mut claim = ground.get(&path).good();
    let device = claim["status"]["allocation"]["devices"]["results"][0].clone();
    claim["status"]["devices"] = json!([{
        "driver": device["driver"], "pool": device["pool"], "device": device["device"],
        "conditions": [{ "type": condition, "status": "True", "reason": "Testing", "message": "seen",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }],
    }]);
    ground.put(&format!("{path}/status"), &claim).good();
    ground.pass(20);
}

fn scheduled(ground: &Ground) -> Value {
    let pod = ground.get(&format!("{PODS}/p")).good();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "PodScheduled").unwrap_or_default()
}

// upstream: test/integration/dra/binding_conditions.go testDeviceBindingConditionsBasicFlow (v1.36)
#[test]
fn a_pod_is_bound_once_its_device_is_ready() {
    let ground = conditional();
    let node = names(&ground)[0].clone();
    let message = format!("waiting for binding conditions for device on node {node}");
    assert_eq!(events(&ground, "BindingConditionsPending"), [message.as_str()]);
    let claim = ground.get(&format!("{CLAIMS}/c")).good();
    let device = &claim["status"]["allocation"]["devices"]["results"][0];
    assert_eq!(device["bindingConditions"], json!(["example.com/attached"]));
    assert_eq!(reserved(&claim), 1);
    assert!(ground.get(&format!("{PODS}/p")).good()["spec"]["nodeName"].is_null());
    say(&ground, "example.com/failed");
    let message =
        "running PreBind plugin \"DynamicResources\": device binding failed: claim=c, reason=Testing, message=\"seen\"";
    assert!(
        events(&ground, "FailedScheduling").iter().any(|event| event == message),
        "{:?}",
        events(&ground, "FailedScheduling")
    );
    let claim = ground.get(&format!("{CLAIMS}/c")).good();
    assert!(is_allocated(&claim) && claim["status"]["devices"].is_null(), "it is tried again: {claim}");
    say(&ground, "example.com/attached");
    assert_eq!(phase(&ground, "p"), "Running");
}

// upstream: test/integration/dra/binding_conditions.go testDeviceBindingConditionsTimeoutReached,
// testDeviceBindingConditionsTimeoutRecovery (v1.36)
#[test]
fn a_device_that_does_not_get_ready_is_given_up() {
    let ground = conditional();
    ground.pass(500);
    assert_eq!(phase(&ground, "p"), "Pending");
    let node = names(&ground)[0].clone();
    let mut other = slice(&node, 1);
    other["metadata"]["name"] = json!("other");
    other["spec"]["pool"]["name"] = json!("other");
    other["spec"]["devices"][0]["name"] = json!("ready");
    ground.post(&format!("{GROUP}/resourceslices"), &other).good();
    ground.pass(60);
    assert_eq!(scheduled(&ground)["status"], json!(null), "nothing is said while it waits");
    ground.pass(60);
    let message = "running PreBind plugin \"DynamicResources\": device binding timeout: claim=c";
    assert!(
        events(&ground, "FailedScheduling").iter().any(|event| event == message),
        "{:?}",
        events(&ground, "FailedScheduling")
    );
    assert_eq!(phase(&ground, "p"), "Running");
    let claim = ground.get(&format!("{CLAIMS}/c")).good();
    assert_eq!(claim["status"]["allocation"]["devices"]["results"][0]["device"], "ready");
}

// upstream test: [sig-node] [DRA] control plane validate ResourceClaimTemplate and ResourceClaim for admin access
#[test]
fn admin_access_is_for_namespaces_that_say_so() {
    let ground = ground(1);
    let root = claim("root", json!({ "deviceClassName": "gpu", "adminAccess": true }));
    let message = ground.post(CLAIMS, &root).refused(422);
    let rule = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";
    assert_eq!(
        message,
        format!(
            "ResourceClaim.resource.k8s.io \"root\" is invalid: spec.devices.requests[0].adminAccess: Forbidden: {rule}"
        )
    );
    let template = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": "t" },
        "spec": { "spec": root["spec"] } });
    assert!(ground.post(TEMPLATES, &template).refused(422).contains(rule));
    let label = json!({ "metadata": { "labels": { "resource.kubernetes.io/admin-access": "true" } } });
    ground.merge("/api/v1/namespaces/default", &label).good();
    ground.post(CLAIMS, &root).good();
    ground.post(TEMPLATES, &template).good();
}

// upstream test: [sig-node] [DRA] control plane supports count/resourceclaims.resource.k8s.io ResourceQuota
// upstream test: [sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a ResourceClaim [FeatureGate:DynamicResourceAllocation] [DRA]
#[test]
fn a_quota_counts_claims_and_devices_of_a_class() {
    let ground = ground(1);
    let hard = json!({ "count/resourceclaims.resource.k8s.io": "2", "gpu.deviceclass.resource.k8s.io/devices": "3" });
    let quota =
        json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q" }, "spec": { "hard": hard } });
    let path = "/api/v1/namespaces/default/resourcequotas";
    ground.post(path, &quota).good();
    let used = || ground.get(&format!("{path}/q")).good()["status"]["used"].clone();
    ground.post(CLAIMS, &claim("two", json!({ "deviceClassName": "gpu", "count": 2 }))).good();
    let counts = |claims: &str, devices: &str| json!({ "count/resourceclaims.resource.k8s.io": claims, "gpu.deviceclass.resource.k8s.io/devices": devices });
    assert_eq!(used(), counts("1", "2"));
    let message = ground.post(CLAIMS, &claim("more", json!({ "deviceClassName": "gpu", "count": 2 }))).refused(403);
    assert!(message.contains("exceeded quota: q, requested: gpu.deviceclass.resource.k8s.io/devices=2"), "{message}");
    ground.delete(&format!("{CLAIMS}/two")).good();
    assert_eq!(used(), counts("0", "0"));
}

// upstream test: [sig-node] [DRA] ResourceSlice Controller creates slices
#[test]
fn slices_are_found_by_driver_and_node() {
    let ground = ground(2);
    let list = |selector: &str| {
        let list = ground.get(&format!("{GROUP}/resourceslices?fieldSelector={selector}")).good();
        list["items"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(list("spec.driver%3Dgpu.example.com"), 2);
    assert_eq!(list(&format!("spec.nodeName%3D{}", names(&ground)[0])), 1);
    assert_eq!(list("spec.driver%3Dother"), 0);
    let path = format!("{GROUP}/resourceslices/{}", names(&ground)[0]);
    assert_eq!(ground.get(&path).good()["metadata"]["generation"], 1);
    let taints =
        json!([{ "op": "add", "path": "/spec/devices/0/taints", "value": [{ "key": "a", "effect": "NoSchedule" }] }]);
    let patched =
        ground.send("PATCH", &path, &[("content-type", "application/json-patch+json")], taints.to_string()).good();
    assert_eq!(patched["metadata"]["generation"], 2);
    assert!(patched["spec"]["devices"][0]["taints"][0]["timeAdded"].is_string(), "{patched}");
}

// upstream test: [sig-node] [DRA] control plane must be possible for a control-plane ServiceAccount to update the ResourceClaim.Status.Devices once allocated [FeatureGate:DRAResourceClaimDeviceStatus] [Beta]
// upstream test: [sig-node] [DRA] control plane must be possible for a node ServiceAccount to update the node ResourceClaim.Status.Devices once allocated [FeatureGate:DRAResourceClaimDeviceStatus] [Beta]
// upstream test: [sig-node] [DRA] control plane must be impossible for a node ServiceAccount to update the non-node ResourceClaim.Status.Devices once allocated [FeatureGate:DRAResourceClaimDeviceStatus] [Beta]
#[test]
fn who_says_something_of_a_device_must_be_allowed_to() {
    let ground = ground(1);
    let rules = |verb: &str| {
        json!([
            { "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["update"] },
            { "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/driver"], "verbs": [verb], "resourceNames": [DRIVER] },
        ])
    };
    for (account, verb) in [("near", "associated-node:update"), ("far", "arbitrary-node:update")] {
        let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": account }, "rules": rules(verb) });
        ground.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).good();
        let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": account },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": "default" }] });
        ground.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).good();
    }
    ground.post(CLAIMS, &claim("c", json!({ "deviceClassName": "gpu" }))).good();
    ground.post(PODS, &pod("p", "resourceClaimName", "c")).good();
    assert_eq!(phase(&ground, "p"), "Running");
    let node = names(&ground)[0].clone();
    let say = |account: &str, node: &str, data: i64| {
        let mut claim = ground.get(&format!("{CLAIMS}/c")).good();
        let result = claim["status"]["allocation"]["devices"]["results"][0].clone();
        claim["status"]["devices"] = json!([{ "driver": DRIVER, "pool": result["pool"], "device": result["device"], "data": { "number": data } }]);
        let user = format!("system:serviceaccount:default:{account}");
        let headers =
            [("impersonate-user", user.as_str()), ("impersonate-extra-authentication.kubernetes.io%2Fnode-name", node)];
        ground.send("PUT", &format!("{CLAIMS}/c/status"), &headers, claim.to_string())
    };
    say("near", &node, 1).good();
    let message = say("near", "elsewhere", 2).refused(422);
    assert!(
        message.contains(
            "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[arbitrary-node:update]\""
        ),
        "{message}"
    );
    say("far", "elsewhere", 3).good();
    let mut freed = ground.get(&format!("{CLAIMS}/c")).good();
    freed["status"] = json!({});
    let headers = [("impersonate-user", "system:serviceaccount:default:far")];
    let message = ground.send("PUT", &format!("{CLAIMS}/c/status"), &headers, freed.to_string()).refused(422);
    assert!(message.contains("requires resource=\"resourceclaims/binding\", verb=\"update\" permission"), "{message}");
    let freed = ground.put(&format!("{CLAIMS}/c/status"), &freed).good();
    assert_eq!(freed["status"], json!({}), "what was said goes with the devices");
}

#[test]
fn a_pod_that_is_bound_without_its_devices_waits_for_them() {
    let ground = ground(1);
    ground.post(CLAIMS, &claim("c", json!({ "deviceClassName": "gpu" }))).good();
    let mut bound = pod("bound", "resourceClaimName", "c");
    bound["spec"]["nodeName"] = json!(names(&ground)[0]);
    ground.post(PODS, &bound).good();
    assert_eq!(phase(&ground, "bound"), "Pending");
    ground.post(PODS, &pod("first", "resourceClaimName", "c")).good();
    assert_eq!(phase(&ground, "first"), "Running");
    // The claim has devices now, and is reserved for the other pod when that is looked at again.
    ground.merge(&format!("{PODS}/bound"), &json!({ "metadata": { "labels": { "a": "b" } } })).good();
    assert_eq!(phase(&ground, "bound"), "Running");
}

#[test]
fn hollow_nodes_publish_the_devices_that_they_are_said_to_have() {
    let ground = Ground::with_nodes(1);
    let node = names(&ground)[0].clone();
    let say = |devices: Value| {
        let annotations = json!({ "metadata": { "annotations": { "klab.dev/devices": devices.to_string() } } });
        ground.merge(&format!("/api/v1/nodes/{node}"), &annotations).good();
    };
    say(json!([{ "class": DRIVER, "count": 2, "attributes": { "memory": "40Gi" } }]));
    let slice = format!("{GROUP}/resourceslices/{node}-{DRIVER}");
    assert_eq!(ground.get(&slice).good()["spec"]["devices"].as_array().unwrap().len(), 2);
    let memory = json!([{ "cel": { "expression": format!("device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0") } }]);
    ground.post(CLAIMS, &claim("c", json!({ "deviceClassName": DRIVER, "selectors": memory }))).good();
    ground.post(PODS, &pod("p", "resourceClaimName", "c")).good();
    assert_eq!(phase(&ground, "p"), "Running");
    ground.delete(&slice).good();
    say(json!([{ "class": DRIVER, "count": 1 }]));
    let made = ground.get(&slice).good();
    assert_eq!(made["spec"]["devices"].as_array().unwrap().len(), 1, "made again");
    say(json!("what nobody can read"));
    ground.get(&slice).refused(404);
    say(json!([{ "class": "No Class", "count": 1 }]));
    assert_eq!(ground.get(&format!("{GROUP}/resourceslices")).good()["items"], json!([]));
}

// upstream test: [sig-node] [DRA] control plane supports claim and class parameters
#[test]
fn an_allocation_has_the_parameters_of_class_and_claim() {
    let ground = ground(1);
    let opaque = |of: &str| json!({ "opaque": { "driver": DRIVER, "parameters": { "of": of } } });
    let config = json!({ "spec": { "config": [opaque("class")] } });
    ground.merge(&format!("{GROUP}/deviceclasses/gpu"), &config).good();
    let mut wanted = claim("c", json!({ "deviceClassName": "gpu" }));
    wanted["spec"]["devices"]["config"] = json!([opaque("claim")]);
    ground.post(CLAIMS, &wanted).good();
    ground.post(PODS, &pod("p", "resourceClaimName", "c")).good();
    assert_eq!(phase(&ground, "p"), "Running");
    let config = ground.get(&format!("{CLAIMS}/c")).good()["status"]["allocation"]["devices"]["config"].clone();
    let of = |source: &str, of: &str| json!({ "opaque": opaque(of)["opaque"], "source": source });
    let mut class = of("FromClass", "class");
    class["requests"] = json!(["r"]);
    assert_eq!(config, json!([class, of("FromClaim", "claim")]));
}

// upstream test: [sig-node] [DRA] control plane runs a pod without a generated resource claim
#[test]
fn a_pod_that_needs_none_of_its_claims_runs() {
    let ground = ground(1);
    ground.post(PODS, &pod("p", "resourceClaimTemplateName", "absent")).good();
    assert_eq!(phase(&ground, "p"), "Pending");
    let status = json!({ "status": { "resourceClaimStatuses": [{ "name": "c" }] } });
    ground.merge(&format!("{PODS}/p/status"), &status).good();
    assert_eq!(phase(&ground, "p"), "Running");
    assert_eq!(ground.get(CLAIMS).good()["items"], json!([]));
}

// upstream test: [sig-node] [DRA] control plane must apply per-node permission checks
#[test]
fn slices_are_for_the_driver_on_their_node() {
    let ground = Ground::with_nodes(1);
    let account = "system:serviceaccount:default:plugin";
    let rules = json!([{ "apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["*"] }]);
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "plugin" }, "rules": rules });
    ground.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).good();
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "plugin" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "plugin" },
        "subjects": [{ "kind": "ServiceAccount", "name": "plugin", "namespace": "default" }] });
    ground.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).good();
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let resource = json!({ "apiGroups": ["resource.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["resourceslices"] });
    let message = "\"this user running on node '\" + variables.user + \"' may not modify \" + (variables.node == \"\" ? \"cluster resourceslices\" : \
                   \"resourceslices on node '\" + variables.node + \"'\")";
    let policy = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": "slices" },
        "spec": {
            "failurePolicy": "Fail", "matchConstraints": { "resourceRules": [resource] },
            "matchConditions": [{ "name": "restricted", "expression": format!("request.userInfo.username == \"{account}\"") }],
            "variables": [
                { "name": "user", "expression": "request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0].orValue('')" },
                { "name": "node", "expression": "(request.operation == \"DELETE\" ? oldObject : object).spec.?nodeName.orValue(\"\")" },
            ],
            "validations": [{ "expression": "variables.user == variables.node", "messageExpression": message }],
        } });
    ground.post(policies, &policy).good();
    let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": "slices" },
        "spec": { "policyName": "slices", "validationActions": ["Deny"] } });
    ground.post("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", &binding).good();
    let ask = |method: &str, node: &str, path: &str, body: &Value| {
        let headers =
            [("impersonate-user", account), ("impersonate-extra-authentication.kubernetes.io%2Fnode-name", node)];
        ground.send(method, path, &headers, if body.is_null() { String::new() } else { body.to_string() })
    };
    let slices = format!("{GROUP}/resourceslices");
    let own = slice("fictional", 1);
    let message = ask("POST", "real", &slices, &own).refused(422);
    assert!(
        message.contains("this user running on node 'real' may not modify resourceslices on node 'fictional'"),
        "{message}"
    );
    let made = ask("POST", "fictional", &slices, &own).good();
    let path = format!("{slices}/fictional");
    ask("PUT", "real", &path, &made).refused(422);
    ask("PUT", "fictional", &path, &made).good();
    ask("DELETE", "real", &path, &Value::Null).refused(422);
    ask("DELETE", "fictional", &path, &Value::Null).good();
}
