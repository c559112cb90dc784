//! Claims against small clusters: which claim gets which device, where, and the message when none does.
//!
//! The language of these tests: `name == value` of an attribute (`missing name` where it is not there), `driver value`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{DeviceFacts, DeviceSelector, SelectorLanguage};
use crate::queue::{Place, Queue};
use crate::{Cluster, Decision, Outcome, PodKey, TieBreak};

#[derive(Debug)]
struct Plain;

#[derive(Debug)]
struct Equals(String, String);

impl SelectorLanguage for Plain {
    fn compile(&self, expression: &str) -> Result<Arc<dyn DeviceSelector>, String> {
        let (name, value) = expression.split_once(" == ").ok_or("no comparison")?;
        Ok(Arc::new(Equals(name.to_owned(), value.to_owned())))
    }
}

impl DeviceSelector for Equals {
    fn selects(&self, device: &DeviceFacts<'_>) -> Result<bool, String> {
        if self.0 == "driver" {
            return Ok(device.driver == self.1);
        }
        let attribute = device.attributes.get(&self.0).ok_or_else(|| format!("no such key: {}", self.0))?;
        Ok(attribute.string.as_deref() == Some(&self.1))
    }
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn cluster(nodes: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(TieBreak::FirstName);
    cluster.set_selector_language(Arc::new(Plain));
    for name in nodes {
        let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "20"});
        cluster.set_node(&read(json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}}))).unwrap();
    }
    cluster.set_device_class(&read(json!({
        "metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "driver == gpu.example.com"}}]},
    })));
    cluster
}

fn slice(name: &str, node: &str, devices: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"driver": "gpu.example.com", "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "devices": devices}})
}

fn device(name: &str, model: &str) -> Value {
    json!({"name": name, "attributes": {"model": {"string": model}}})
}

fn claim(name: &str, requests: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"devices": {"requests": requests}}})
}

fn one(name: &str, extra: Value) -> Value {
    let mut exactly = json!({"deviceClassName": "gpu"});
    exactly.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"name": name, "exactly": exactly})
}

fn pod(name: &str, claims: &[&str]) -> Pod {
    let claims: Vec<_> = claims.iter().map(|claim| json!({"name": claim, "resourceClaimName": claim})).collect();
    read(json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "image": "x"}], "resourceClaims": claims}}))
}

/// Schedules a pod, and checks that the full attempt agrees.
fn schedule(cluster: &mut Cluster, pod: &Pod) -> Decision {
    let decision = cluster.schedule(pod).unwrap();
    assert_eq!(decision, cluster.attempt(pod).unwrap().decision);
    decision
}

/// The node and the devices by request, or the message.
fn outcome(cluster: &mut Cluster, pod: &Pod) -> String {
    let decision = schedule(cluster, pod);
    let Some(node) = decision.outcome.node() else { return decision.message };
    let results = decision.allocations.iter().filter_map(|claim| claim.allocation.as_ref()?.devices.as_ref());
    let devices = results.flat_map(|devices| devices.results.iter().flatten());
    let devices: Vec<_> = devices.map(|result| format!("{}={}", result.request, result.device)).collect();
    format!("{node}: {}", devices.join(" "))
}

/// Writes down what a decision gives to the claims, and binds the pod.
fn commit(cluster: &mut Cluster, pod: &Pod, claims: &[Value]) {
    let decision = schedule(cluster, pod);
    let node = decision.outcome.node().expect("scheduled").clone();
    for given in decision.allocations {
        let mut claim = claims.iter().find(|claim| claim["metadata"]["name"] == *given.name).unwrap().clone();
        claim["status"]["allocation"] = serde_json::to_value(given.allocation).unwrap();
        claim["status"]["reservedFor"] =
            json!([{"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}]);
        cluster.set_resource_claim(&read(claim));
    }
    cluster.bind(pod, &node).unwrap();
}

const NOWHERE: &str = "cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are available: 2 \
                       Preemption is not helpful for scheduling.";

fn two_nodes() -> Cluster {
    let mut cluster = cluster(&["n1", "n2"]);
    cluster.set_resource_slice(&read(slice("s1", "n1", json!([device("g0", "a100"), device("g1", "a100")]))));
    let devices = json!([device("g0", "h100"), device("g1", "a100"), device("g2", "h100")]);
    cluster.set_resource_slice(&read(slice("s2", "n2", devices)));
    cluster
}

fn with(cluster: &mut Cluster, name: &str, requests: Value) -> Pod {
    cluster.set_resource_claim(&read(claim(name, requests)));
    pod(name, &[name])
}

#[test]
fn selectors_and_counts_decide_the_node() {
    let mut cluster = two_nodes();
    let h100 = json!({"selectors": [{"cel": {"expression": "model == h100"}}]});
    let first = with(&mut cluster, "first", json!([one("r", h100)]));
    assert_eq!(outcome(&mut cluster, &first), "n2: r=g0");
    let three = with(&mut cluster, "three", json!([one("r", json!({"count": 3}))]));
    assert_eq!(outcome(&mut cluster, &three), "n2: r=g0 r=g1 r=g2");
    let four = with(&mut cluster, "four", json!([one("r", json!({"count": 4}))]));
    assert_eq!(outcome(&mut cluster, &four), format!("0/2 nodes are available: 2 {NOWHERE}"));
}

#[test]
fn allocations_are_of_the_node_and_name_request_driver_and_pool() {
    let mut cluster = two_nodes();
    let pod = with(&mut cluster, "c", json!([one("r", json!({}))]));
    let decision = schedule(&mut cluster, &pod);
    let allocation = serde_json::to_value(&decision.allocations[0].allocation).unwrap();
    let node = json!([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]);
    assert_eq!(
        allocation,
        json!({
            "devices": {"results": [{"device": "g0", "driver": "gpu.example.com", "pool": "n1", "request": "r"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": node}]},
        })
    );
}

#[test]
fn devices_are_given_once_until_they_are_given_back() {
    let mut cluster = two_nodes();
    let all: Vec<Value> = (0..6).map(|at| claim(&format!("c{at}"), json!([one("r", json!({}))]))).collect();
    for claim in &all {
        cluster.set_resource_claim(&read(claim.clone()));
    }
    for at in 0..5 {
        let name = format!("c{at}");
        commit(&mut cluster, &pod(&name, &[&name]), &all);
    }
    let last = pod("c5", &["c5"]);
    assert_eq!(outcome(&mut cluster, &last), format!("0/2 nodes are available: 2 {NOWHERE}"));
    let event = cluster.set_resource_claim(&read(all[0].clone()));
    assert!(matches!(event, Some(crate::queue::Event::ResourceClaimChanged { deallocated: true, .. })));
    assert!(outcome(&mut cluster, &last).ends_with("r=g0"));
}

#[test]
fn all_devices_must_be_free() {
    let mut cluster = two_nodes();
    let all = json!({"allocationMode": "All", "selectors": [{"cel": {"expression": "model == a100"}}]});
    let every = claim("every", json!([one("r", all)]));
    cluster.set_resource_claim(&read(every.clone()));
    let hog = pod("hog", &["every"]);
    assert_eq!(outcome(&mut cluster, &hog), "n1: r=g0 r=g1");
    let single = claim("single", json!([one("r", json!({}))]));
    cluster.set_resource_claim(&read(single.clone()));
    commit(&mut cluster, &pod("single", &["single"]), &[single]);
    assert_eq!(outcome(&mut cluster, &hog), "n2: r=g1");
}

#[test]
fn constraints_hold_over_requests() {
    let mut cluster = two_nodes();
    let mut pair = claim("pair", json!([one("a", json!({})), one("b", json!({}))]));
    pair["spec"]["devices"]["constraints"] = json!([{"distinctAttribute": "gpu.example.com/model"}]);
    cluster.set_resource_claim(&read(pair.clone()));
    assert_eq!(outcome(&mut cluster, &pod("p", &["pair"])), "n2: a=g0 b=g1");
    pair["spec"]["devices"]["constraints"] =
        json!([{"matchAttribute": "gpu.example.com/model", "requests": ["a", "b"]}]);
    pair["metadata"]["name"] = json!("same");
    cluster.set_resource_claim(&read(pair.clone()));
    assert_eq!(outcome(&mut cluster, &pod("p", &["same"])), "n1: a=g0 b=g1");
    pair["spec"]["devices"]["constraints"] = json!([{"matchAttribute": "gpu.example.com/nothing"}]);
    pair["metadata"]["name"] = json!("none");
    cluster.set_resource_claim(&read(pair));
    assert!(outcome(&mut cluster, &pod("p", &["none"])).contains("cannot allocate all claims"));
}

#[test]
fn the_first_alternative_that_can_be_had_is_taken_and_earlier_ones_count_more() {
    let mut cluster = two_nodes();
    let h100 = json!([{"cel": {"expression": "model == h100"}}]);
    let alternatives = json!([{"name": "r", "firstAvailable": [
        {"name": "big", "deviceClassName": "gpu", "count": 4},
        {"name": "fast", "deviceClassName": "gpu", "selectors": h100},
        {"name": "any", "deviceClassName": "gpu"}]}]);
    let pod = with(&mut cluster, "either", alternatives);
    assert_eq!(outcome(&mut cluster, &pod), "n2: r/fast=g0");
}

#[test]
fn tainted_devices_are_for_those_who_tolerate_them() {
    let mut cluster = cluster(&["n1", "n2"]);
    let mut tainted = device("g0", "a100");
    tainted["taints"] = json!([{"key": "broken", "value": "yes", "effect": "NoSchedule"}]);
    cluster.set_resource_slice(&read(slice("s1", "n1", json!([tainted]))));
    let avoids = with(&mut cluster, "avoid", json!([one("r", json!({}))]));
    assert!(outcome(&mut cluster, &avoids).contains("2 cannot allocate all claims"));
    let tolerations = json!({"tolerations": [{"key": "broken", "operator": "Exists"}]});
    let brave = with(&mut cluster, "brave", json!([one("r", tolerations)]));
    assert_eq!(outcome(&mut cluster, &brave), "n1: r=g0");
}

#[test]
fn admin_access_takes_nothing_away() {
    let mut cluster = cluster(&["n1"]);
    cluster.set_resource_slice(&read(slice("s1", "n1", json!([device("g0", "a100")]))));
    let root = claim("root", json!([one("r", json!({"adminAccess": true}))]));
    cluster.set_resource_claim(&read(root.clone()));
    commit(&mut cluster, &pod("root", &["root"]), &[root]);
    let user = claim("user", json!([one("r", json!({}))]));
    cluster.set_resource_claim(&read(user.clone()));
    commit(&mut cluster, &pod("user", &["user"]), &[user]);
    let again = with(&mut cluster, "again", json!([one("r", json!({"adminAccess": true}))]));
    assert_eq!(outcome(&mut cluster, &again), "n1: r=g0");
}

#[test]
fn parts_of_one_device_share_its_counters() {
    let mut cluster = cluster(&["n1"]);
    let counters = json!({"metadata": {"name": "s0"}, "spec": {"driver": "gpu.example.com", "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 2},
        "sharedCounters": [{"name": "memory", "counters": {"slots": {"value": "4"}}}]}});
    let part = |name: &str, slots: &str| {
        let mut device = device(name, "part");
        device["consumesCounters"] = json!([{"counterSet": "memory", "counters": {"slots": {"value": slots}}}]);
        device
    };
    let mut parts = slice("s1", "n1", json!([part("whole", "4"), part("half", "2"), part("other", "2")]));
    parts["spec"]["pool"]["resourceSliceCount"] = json!(2);
    cluster.set_resource_slice(&read(parts));
    let two = with(&mut cluster, "two", json!([one("r", json!({"count": 2}))]));
    assert!(outcome(&mut cluster, &two).contains("cannot allocate all claims"), "the pool is incomplete");
    cluster.set_resource_slice(&read(counters));
    assert_eq!(outcome(&mut cluster, &two), "n1: r=half r=other");
    let first = claim("first", json!([one("r", json!({}))]));
    cluster.set_resource_claim(&read(first.clone()));
    commit(&mut cluster, &pod("first", &["first"]), &[first]);
    let rest = with(&mut cluster, "rest", json!([one("r", json!({}))]));
    assert!(outcome(&mut cluster, &rest).contains("cannot allocate all claims"), "the whole is taken");
}

#[test]
fn shared_devices_give_what_is_left_of_their_capacity() {
    let mut cluster = cluster(&["n1"]);
    let mut shared = device("g0", "a100");
    shared["allowMultipleAllocations"] = json!(true);
    shared["capacity"] = json!({"memory": {"value": "10Gi", "requestPolicy": {"default": "1Gi",
        "validRange": {"min": "1Gi", "step": "1Gi"}}}});
    cluster.set_resource_slice(&read(slice("s1", "n1", json!([shared]))));
    let wants = |name: &str, memory: &str| {
        claim(name, json!([one("r", json!({"capacity": {"requests": {"memory": memory}}}))]))
    };
    let first = wants("first", "5500Mi");
    cluster.set_resource_claim(&read(first.clone()));
    let decision = schedule(&mut cluster, &pod("first", &["first"]));
    let allocation = decision.allocations[0].allocation.clone().unwrap();
    let result = &allocation.devices.unwrap().results.unwrap()[0];
    assert_eq!(result.consumed_capacity.as_ref().unwrap()["memory"].0, "6Gi");
    assert_eq!(result.share_id.as_ref().unwrap().len(), 36);
    commit(&mut cluster, &pod("first", &["first"]), &[first]);
    cluster.set_resource_claim(&read(wants("fits", "4Gi")));
    assert_eq!(outcome(&mut cluster, &pod("fits", &["fits"])), "n1: r=g0");
    cluster.set_resource_claim(&read(wants("large", "5Gi")));
    assert!(outcome(&mut cluster, &pod("large", &["large"])).contains("cannot allocate all claims"));
}

#[test]
fn a_class_that_is_missing_is_named() {
    let mut cluster = two_nodes();
    let request = json!([{"name": "r", "exactly": {"deviceClassName": "nowhere"}}]);
    let pod = with(&mut cluster, "c", request);
    let end =
        "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(
        outcome(&mut cluster, &pod),
        format!("0/2 nodes are available: request r: device class nowhere does not exist. {end}")
    );
}

#[test]
fn a_selector_that_fails_stops_the_attempt() {
    let mut cluster = two_nodes();
    let colour = json!({"selectors": [{"cel": {"expression": "colour == red"}}]});
    let pod = with(&mut cluster, "c", json!([one("r", colour)]));
    let decision = schedule(&mut cluster, &pod);
    assert_eq!(decision.outcome, Outcome::Failed);
    let message = "running \"DynamicResources\" filter plugin: claim default/c: selector #0: CEL runtime error: no such \
                   key: colour";
    assert_eq!(decision.message, message);
}

#[test]
fn a_pod_follows_a_claim_that_is_allocated_unless_it_is_idle_and_in_the_way() {
    let mut cluster = two_nodes();
    let shared = claim("shared", json!([one("r", json!({}))]));
    cluster.set_resource_claim(&read(shared.clone()));
    commit(&mut cluster, &pod("first", &["shared"]), &[shared]);
    let second = pod("second", &["shared"]);
    assert_eq!(outcome(&mut cluster, &second), "n1: ");
    cluster.set_node(&read(json!({"metadata": {"name": "n1"}, "spec": {"unschedulable": true}}))).unwrap();
    let decision = schedule(&mut cluster, &second);
    assert!(decision.message.contains("1 node(s) were unschedulable, 1 resourceclaim not available on the node."));
    assert!(decision.message.contains("still not schedulable"), "somebody uses it: {}", decision.message);
    assert_eq!(decision.deallocate, None);
}

#[test]
fn pods_wait_for_their_claims_and_are_tried_when_they_come() {
    let mut cluster = two_nodes();
    let mut queue = Queue::new();
    let late = pod("late", &["c"]);
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    queue.set(&late, now).unwrap();
    let key = queue.pop(now).unwrap();
    assert_eq!(schedule(&mut cluster, &late).outcome, Outcome::AwaitingClaims);
    queue.awaits_claims(&key);
    assert_eq!(queue.place(&PodKey::new("default", "late")), Some(Place::AwaitingClaims));
    assert_eq!(queue.next_wake(), None);
    let event = cluster.set_resource_claim(&read(claim("other", json!([one("r", json!({}))])))).unwrap();
    assert_eq!(queue.event(&event, &|_| false, now), 0);
    let event = cluster.set_resource_claim(&read(claim("c", json!([one("r", json!({}))])))).unwrap();
    assert_eq!(queue.event(&event, &|_| false, now), 1);
    assert_eq!(queue.pop(now), Some(key));
    assert_eq!(outcome(&mut cluster, &late), "n1: r=g0");
}

#[test]
fn a_claim_made_for_another_pod_is_not_used() {
    let mut cluster = two_nodes();
    let mut made = claim("p-c-x", json!([one("r", json!({}))]));
    made["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "another", "controller": true}]);
    cluster.set_resource_claim(&read(made));
    let pod: Pod = read(json!({"metadata": {"name": "p", "namespace": "default", "uid": "uid-p"},
        "spec": {"containers": [], "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]},
        "status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "p-c-x"}]}}));
    assert_eq!(schedule(&mut cluster, &pod).outcome, Outcome::AwaitingClaims);
}

#[test]
fn a_search_without_end_is_given_up() {
    let mut cluster = cluster(&["n1"]);
    let devices: Vec<_> = (0..60).map(|at| device(&format!("g{at}"), &format!("m{at}"))).collect();
    cluster.set_resource_slice(&read(slice("s1", "n1", json!(devices))));
    let mut claim = claim("c", json!([one("a", json!({"count": 12})), one("b", json!({"count": 12}))]));
    claim["spec"]["devices"]["constraints"] = json!([{"matchAttribute": "gpu.example.com/model", "requests": ["b"]}]);
    cluster.set_resource_claim(&read(claim));
    let decision = cluster.schedule(&pod("p", &["c"])).unwrap();
    assert_eq!(
        decision.message,
        "running \"DynamicResources\" filter plugin: node n1: timed out trying to allocate devices"
    );
}

// The facts of these tables are those of upstream's: staging/src/k8s.io/dynamic-resource-allocation/structured/internal/
// allocatortesting/allocator_testing.go (v1.36).

#[test]
fn what_a_share_of_a_device_consumes_follows_its_request_policy() {
    let range = |changes: Value| {
        let mut range = json!({"min": "2Gi"});
        range.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json!({"default": "2Gi", "validRange": range})
    };
    let values = json!({"default": "1Gi", "validValues": ["1Gi", "4Gi"]});
    for (policy, request, consumed) in [
        (Value::Null, Some("3Gi"), Some("3Gi")),
        (Value::Null, None, Some("10Gi")),
        (Value::Null, Some("11Gi"), None),
        (json!({"default": "1Gi"}), None, Some("1Gi")),
        (range(json!({})), Some("1Gi"), Some("2Gi")),
        (range(json!({"step": "2Gi"})), Some("3Gi"), Some("4Gi")),
        (range(json!({"step": "2Gi"})), Some("4Gi"), Some("4Gi")),
        (range(json!({"max": "4Gi"})), Some("5Gi"), None),
        (values.clone(), Some("2Gi"), Some("4Gi")),
        (values.clone(), Some("5Gi"), None),
        (values, None, Some("1Gi")),
    ] {
        let mut cluster = cluster(&["n1"]);
        let mut shared = device("g0", "a100");
        shared["allowMultipleAllocations"] = json!(true);
        shared["capacity"] = json!({"memory": {"value": "10Gi"}});
        if !policy.is_null() {
            shared["capacity"]["memory"]["requestPolicy"] = policy.clone();
        }
        cluster.set_resource_slice(&read(slice("s1", "n1", json!([shared]))));
        let wish = request.map_or_else(|| json!({}), |amount| json!({"capacity": {"requests": {"memory": amount}}}));
        let pod = with(&mut cluster, "c", json!([one("r", wish)]));
        let decision = schedule(&mut cluster, &pod);
        let allocation = decision.allocations.first().and_then(|given| given.allocation.clone());
        let devices = allocation.and_then(|allocation| allocation.devices?.results);
        let given = devices.and_then(|results| results[0].consumed_capacity.clone()).map(|it| it["memory"].0.clone());
        assert_eq!(given.as_deref(), consumed, "{policy} {request:?}: {}", decision.message);
    }
}

#[test]
fn a_capacity_that_no_device_has_is_not_given() {
    let mut cluster = two_nodes();
    let pod = with(&mut cluster, "c", json!([one("r", json!({"capacity": {"requests": {"colours": "3"}}}))]));
    assert!(outcome(&mut cluster, &pod).contains("2 cannot allocate all claims"));
}

#[test]
fn a_shared_device_is_given_to_several_requests_but_once_to_each() {
    let mut cluster = cluster(&["n1"]);
    let mut shared = device("g0", "a100");
    shared["allowMultipleAllocations"] = json!(true);
    cluster.set_resource_slice(&read(slice("s1", "n1", json!([shared]))));
    let twice = with(&mut cluster, "twice", json!([one("r", json!({"count": 2}))]));
    assert!(outcome(&mut cluster, &twice).contains("cannot allocate all claims"));
    let each = with(&mut cluster, "each", json!([one("a", json!({})), one("b", json!({}))]));
    assert_eq!(outcome(&mut cluster, &each), "n1: a=g0 b=g0");
}

#[test]
fn all_means_every_device_that_is_selected_and_at_least_one() {
    let all = |model: &str| {
        json!([one(
            "r",
            json!({"allocationMode": "All", "selectors": [{"cel": {"expression": format!("model == {model}")}}]})
        )])
    };
    let mut cluster = cluster(&["n1"]);
    cluster.set_resource_slice(&read(slice(
        "s1",
        "n1",
        json!([device("g0", "a"), device("g1", "b"), device("g2", "a")]),
    )));
    let both = with(&mut cluster, "both", all("a"));
    assert_eq!(outcome(&mut cluster, &both), "n1: r=g0 r=g2");
    let none = with(&mut cluster, "none", all("c"));
    assert!(outcome(&mut cluster, &none).contains("cannot allocate all claims"));
    let first = claim("first", json!([one("r", json!({"selectors": [{"cel": {"expression": "model == a"}}]}))]));
    cluster.set_resource_claim(&read(first.clone()));
    commit(&mut cluster, &pod("first", &["first"]), &[first]);
    assert!(outcome(&mut cluster, &both).contains("cannot allocate all claims"), "one of them is taken");
}

#[test]
fn more_devices_than_a_claim_can_hold_are_refused_and_alternatives_that_need_fewer_taken() {
    let mut cluster = cluster(&["n1"]);
    let devices: Vec<_> = (0..40).map(|at| device(&format!("g{at:02}"), "a")).collect();
    cluster.set_resource_slice(&read(slice("s1", "n1", json!(devices))));
    let pod = with(&mut cluster, "many", json!([one("r", json!({"count": 33}))]));
    let message = "claim default/many: number of requested devices 33 exceeds the claim limit of 32";
    assert!(outcome(&mut cluster, &pod).contains(message));
    let alternatives = json!([one("a", json!({"count": 31})), {"name": "b", "firstAvailable": [
        {"name": "many", "deviceClassName": "gpu", "count": 2}, {"name": "one", "deviceClassName": "gpu"}]}]);
    let pod = with(&mut cluster, "either", alternatives);
    assert!(outcome(&mut cluster, &pod).ends_with("b/one=g31"));
}

#[test]
fn counters_are_used_up_by_parts_on_other_nodes() {
    let mut cluster = cluster(&["n1", "n2"]);
    let part = |name: &str, node: &str| {
        let mut device = device(name, "part");
        device["nodeName"] = json!(node);
        device["consumesCounters"] = json!([{"counterSet": "fabric", "counters": {"lanes": {"value": "2"}}}]);
        device
    };
    let pool = json!({"name": "fabric", "generation": 1, "resourceSliceCount": 2});
    cluster.set_resource_slice(&read(json!({"metadata": {"name": "s0"}, "spec": {"driver": "gpu.example.com",
        "allNodes": true, "pool": pool,
        "sharedCounters": [{"name": "fabric", "counters": {"lanes": {"value": "3"}}}]}})));
    cluster.set_resource_slice(&read(json!({"metadata": {"name": "s1"}, "spec": {"driver": "gpu.example.com",
        "perDeviceNodeSelection": true, "pool": pool, "devices": [part("on1", "n1"), part("on2", "n2")]}})));
    let first = claim("first", json!([one("r", json!({}))]));
    cluster.set_resource_claim(&read(first.clone()));
    commit(&mut cluster, &pod("first", &["first"]), &[first]);
    let second = with(&mut cluster, "second", json!([one("r", json!({}))]));
    assert!(outcome(&mut cluster, &second).contains("2 cannot allocate all claims"));
}

#[test]
fn constraints_and_tolerations_are_those_of_the_alternative_that_is_tried() {
    let mut cluster = cluster(&["n1"]);
    let mut tainted = device("g0", "a");
    tainted["taints"] = json!([{"key": "old", "effect": "NoExecute"}]);
    cluster.set_resource_slice(&read(slice("s1", "n1", json!([tainted, device("g1", "b"), device("g2", "b")]))));
    let two = json!([one("x", json!({})), {"name": "y", "firstAvailable": [
        {"name": "same", "deviceClassName": "gpu"},
        {"name": "old", "deviceClassName": "gpu", "tolerations": [{"key": "old", "operator": "Exists"}]}]}]);
    let mut wants = claim("wants", two.clone());
    wants["spec"]["devices"]["constraints"] =
        json!([{"matchAttribute": "gpu.example.com/model", "requests": ["x", "y/same"]}]);
    cluster.set_resource_claim(&read(wants));
    assert_eq!(outcome(&mut cluster, &pod("p", &["wants"])), "n1: x=g1 y/same=g2");
    let mut differ = claim("differ", two);
    differ["spec"]["devices"]["constraints"] =
        json!([{"distinctAttribute": "gpu.example.com/model", "requests": ["x", "y"]}]);
    cluster.set_resource_claim(&read(differ));
    assert_eq!(outcome(&mut cluster, &pod("q", &["differ"])), "n1: x=g1 y/old=g0");
}
