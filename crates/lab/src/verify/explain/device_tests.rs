//! What is said of claims that are not allocated, device by device, and what would mend it.
//!
//! The language of these tests: `name == value` of an attribute; it fails where there is none.

use std::sync::Arc;

use insta::assert_snapshot;
use klab_scheduler::{DeviceFacts, DeviceSelector, SelectorLanguage};
use serde_json::{Value, json};

use super::explain;
use crate::report::{Styles, explanation_json, explanation_text};
use crate::verify::tests::fixture::{Cluster, from};
use crate::verify::{Context, DeviceObjects, Snapshot};

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
        let attribute = device.attributes.get(&self.0).ok_or_else(|| format!("no such key: {}", self.0))?;
        Ok(attribute.string.as_deref() == Some(&self.1))
    }

    fn reads(&self, device: &DeviceFacts<'_>) -> Vec<(String, String)> {
        let value = device.attributes.get(&self.0).and_then(|attribute| attribute.string.clone());
        value.map(|value| (self.0.clone(), value)).into_iter().collect()
    }
}

fn gpu(name: &str, changes: Value) -> Value {
    let mut device = json!({"name": name, "attributes": {"model": {"string": "a100"}, "kind": {"string": "gpu"}}});
    json_patch::merge(&mut device, &changes);
    device
}

fn one(name: &str, changes: Value) -> Value {
    let mut exactly = json!({"deviceClassName": "gpu"});
    json_patch::merge(&mut exactly, &changes);
    json!({"name": name, "exactly": exactly})
}

/// Nodes `main-0`, …, each with these devices, and pods that hold and want some.
struct World(Snapshot);

impl World {
    fn new(nodes: u32, devices: &[Value]) -> Self {
        let mut snapshot = Cluster::default().pool("main", nodes).snapshot;
        let class =
            json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "kind == gpu"}}]}});
        let slices = (0..nodes).map(|number| {
            let node = format!("main-{number}");
            from(json!({"metadata": {"name": format!("s-{node}")}, "spec": {"driver": "gpu.example.com", "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "devices": devices}}))
        });
        snapshot.devices = Some(DeviceObjects {
            classes: vec![from(class)],
            slices: slices.collect(),
            claims: Vec::new(),
            templates: Vec::new(),
            language: Some(Arc::new(Plain)),
        });
        Self(snapshot)
    }

    fn claim(mut self, name: &str, requests: Value, rest: Value) -> Self {
        let mut claim = json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"devices": {"requests": requests}}});
        json_patch::merge(&mut claim, &rest);
        self.0.devices.as_mut().unwrap().claims.push(from(claim));
        self
    }

    /// A pod, on a node or Pending, that uses a claim.
    fn pod(mut self, name: &str, node: Option<&str>, claim: &str) -> Self {
        let status = if node.is_some() {
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
        } else {
            json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]})
        };
        self.0.pods.push(from(json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}],
                "resourceClaims": [{"name": "devices", "resourceClaimName": claim}]},
            "status": status,
        })));
        self
    }

    /// A pod on a node that has these devices.
    fn holder(self, name: &str, node: &str, devices: &[&str]) -> Self {
        let results: Vec<Value> = devices
            .iter()
            .map(|device| json!({"request": "r", "driver": "gpu.example.com", "pool": node, "device": device}))
            .collect();
        let status = json!({"status": {"allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": format!("uid-{name}")}]}});
        let claim = format!("of-{name}");
        self.claim(&claim, json!([one("r", json!({"count": devices.len()}))]), status).pod(name, Some(node), &claim)
    }

    fn said(&self, pod: &str) -> String {
        let explanations = explain(&self.0, &Context::default(), pod, None).unwrap();
        explanation_text(&explanations, Styles::plain())
    }
}

#[test]
fn who_has_the_devices_is_told_device_by_device() {
    let world = World::new(
        1,
        &[
            gpu("g0", json!({})),
            gpu("g1", json!({})),
            gpu("g2", json!({})),
            gpu("nic", json!({"attributes": {"kind": {"string": "nic"}}})),
        ],
    )
    .holder("a", "main-0", &["g0", "g1"])
    .claim("wants", json!([one("r", json!({"count": 2}))]), json!({}))
    .pod("late", None, "wants");
    assert_snapshot!(world.said("late"), @"
    late  Pending (K0514)
      fits on none of 1 node:
        main-0  request r of claim wants asks for 2 devices of class gpu, 1 of 4 available: 2 allocated, 1 not of the class
                  g2: free
                  g0, g1: allocated to claim of-a of pod a
                  nic: not of class gpu: `kind == gpu` is false (kind is nic)
      fix: ask for 1 instead of 2 devices in request `r` of ResourceClaim wants (make it and the pods again, as what a claim asks for cannot be changed)
       or: add 1 node to pool main
       or: delete pod a, which has such devices:
           kubectl delete pod a
    ");
    let document = explanation_json("late", &explain(&world.0, &Context::default(), "late", None).unwrap());
    let reason = &document["explanations"][0]["pending"]["refusals"][0]["reasons"][0];
    assert_eq!(reason["reason"], "no-devices-free");
    let devices = reason["requests"][0]["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 4);
    assert_eq!(devices[0]["reason"], "allocated");
    assert_eq!(devices[0]["allocated_to"], json!([{"namespace": "default", "claim": "of-a", "pods": ["a"]}]));
    assert_eq!((&devices[2]["free"], &devices[3]["reason"]), (&json!(true), &json!("class-selector")));
}

#[test]
fn many_holders_are_summed_up_and_alike_nodes_told_together() {
    let devices: Vec<Value> = (0..8).map(|at| gpu(&format!("g{at}"), json!({}))).collect();
    let mut world = World::new(2, &devices).claim("wants", json!([one("r", json!({"count": 4}))]), json!({}));
    for node in ["main-0", "main-1"] {
        for at in 0..6 {
            world = world.holder(&format!("p{at}-{node}"), node, &[&format!("g{at}")]);
        }
    }
    assert_snapshot!(world.pod("late", None, "wants").said("late"), @"
    late  Pending (K0514)
      fits on none of 2 nodes:
        main-0, main-1  request r of claim wants asks for 4 devices of class gpu, 2 of 8 on each available: allocated
                          12 of 16 are allocated to claim of-p0-main-0 of pod p0-main-0, claim of-p0-main-1 of pod p0-main-1, claim of-p1-main-0 of pod p1-main-0, claim of-p1-main-1 of pod p1-main-1 and 8 more
                          main-0/g6, main-0/g7, main-1/g6, main-1/g7: free
      fix: ask for 2 instead of 4 devices in request `r` of ResourceClaim wants (make it and the pods again, as what a claim asks for cannot be changed)
       or: add 1 node to pool main
       or: delete pods p0-main-1 and p1-main-1, which have such devices:
           kubectl delete pod p0-main-1 p1-main-1
    ");
}

#[test]
fn taints_selectors_and_capacity_are_told_with_what_would_mend_them() {
    let tainted = json!({"taints": [{"key": "broken", "value": "yes", "effect": "NoSchedule"}]});
    let world = World::new(1, &[gpu("g0", tainted), gpu("g1", json!({"attributes": {"model": {"string": "h100"}}}))])
        .claim("wants", json!([one("r", json!({"selectors": [{"cel": {"expression": "model == a100"}}]}))]), json!({}))
        .pod("late", None, "wants")
        .claim("large", json!([one("r", json!({"capacity": {"requests": {"memory": "80Gi"}}}))]), json!({}))
        .pod("greedy", None, "large");
    assert_snapshot!(world.said("late"), @"
    late  Pending (K0514)
      fits on none of 1 node:
        main-0  request r of claim wants asks for a device of class gpu, 0 of 2 available: 1 tainted, 1 not selected
                  g0: its taint broken=yes:NoSchedule is not tolerated
                  g1: not selected: `model == a100` is false (model is h100)
      fix: tolerate the device taint broken=yes:NoSchedule in request `r` of ResourceClaim wants (make it and the pods again, as what a claim asks for cannot be changed)
    ");
    assert_snapshot!(world.said("greedy"), @"
    greedy  Pending (K0514)
      fits on none of 1 node:
        main-0  request r of claim large asks for a device of class gpu, 0 of 2 available: 1 tainted, 1 without such a capacity
                  g0: its taint broken=yes:NoSchedule is not tolerated
                  g1: it has no capacity memory
      no single change that klab knows of would let it in
    ");
}

#[test]
fn constraints_and_contests_are_told() {
    let world = World::new(1, &[gpu("g0", json!({})), gpu("g1", json!({"attributes": {"model": {"string": "h100"}}}))]);
    let alike = json!({"spec": {"devices": {"constraints": [{"matchAttribute": "gpu.example.com/model"}]}}});
    let by_nothing = json!({"spec": {"devices": {"constraints": [{"matchAttribute": "gpu.example.com/rack"}]}}});
    let world = world
        .claim("alike", json!([one("r", json!({"count": 2}))]), alike)
        .claim("racks", json!([one("r", json!({}))]), by_nothing)
        .claim("three", json!([one("a", json!({"count": 2})), one("b", json!({}))]), json!({}))
        .pod("p", None, "alike")
        .pod("q", None, "racks")
        .pod("s", None, "three");
    assert_snapshot!(world.said("p"), @"
    p  Pending (K0514)
      fits on none of 1 node:
        main-0  claim alike asks for 2 devices with one value of gpu.example.com/model; free are 1 of a100, 1 of h100
      no single change that klab knows of would let it in
    ");
    assert_snapshot!(world.said("q"), @"
    q  Pending (K0514)
      fits on none of 1 node:
        main-0  request r of claim racks asks for a device of class gpu, 0 of 2 available: 2 that cannot be compared
                  g0, g1: it has no attribute gpu.example.com/rack, by which the claim compares its devices
      no single change that klab knows of would let it in
    ");
    assert_snapshot!(world.said("s"), @"
    s  Pending (K0514)
      fits on none of 1 node:
        main-0  the requests ask for 3 devices together, and there are 2 for all of them
      no single change that klab knows of would let it in
    ");
}

#[test]
fn parts_of_one_device_are_used_up_by_the_others() {
    let part = |name: &str, slots: &str| {
        gpu(name, json!({"consumesCounters": [{"counterSet": "card", "counters": {"slots": {"value": slots}}}]}))
    };
    let mut world = World::new(1, &[part("half", "2"), part("whole", "4")]);
    let objects = world.0.devices.as_mut().unwrap();
    let mut slice = serde_json::to_value(&*objects.slices[0]).unwrap();
    slice["spec"]["pool"]["resourceSliceCount"] = json!(2);
    objects.slices = vec![
        from(slice),
        from(json!({"metadata": {"name": "counters"}, "spec": {"driver": "gpu.example.com", "nodeName": "main-0",
            "pool": {"name": "main-0", "generation": 1, "resourceSliceCount": 2},
            "sharedCounters": [{"name": "card", "counters": {"slots": {"value": "4"}}}]}})),
    ];
    let world = world
        .holder("a", "main-0", &["half"])
        .claim("wants", json!([one("r", json!({}))]), json!({}))
        .pod("late", None, "wants");
    assert_snapshot!(world.said("late"), @"
    late  Pending (K0514)
      fits on none of 1 node:
        main-0  request r of claim wants asks for a device of class gpu, 0 of 2 available: 1 allocated, 1 whose hardware is used up
                  half: allocated to claim of-a of pod a
                  whole: it takes 4 slots of card, which has 2 left
      fix: add 1 node to pool main
       or: delete pod a, which has such devices:
           kubectl delete pod a
    ");
}

#[test]
fn a_selector_that_fails_is_told_in_the_words_of_its_language() {
    let world = World::new(1, &[gpu("g0", json!({}))])
        .claim("wants", json!([one("r", json!({"selectors": [{"cel": {"expression": "colour == red"}}]}))]), json!({}))
        .pod("late", None, "wants");
    assert_snapshot!(world.said("late"), @"
    late  Pending (K0514)
      fits on none of 1 node:
        main-0  claim default/wants: selector #0: CEL runtime error: no such key: colour
                  g0: `colour == red` fails: no such key: colour
      no single change that klab knows of would let it in
    ");
}

#[test]
fn claims_that_are_not_there_are_waited_for() {
    let mut world = World::new(1, &[gpu("g0", json!({}))])
        .claim("wants", json!([one("r", json!({}))]), json!({}))
        .pod("slip", None, "wnats")
        .claim(
            "going",
            json!([one("r", json!({}))]),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"reservedFor": [{"resource": "pods", "name": "old", "uid": "o"}]}}),
        )
        .pod("waits", None, "going");
    world.0.pods.push(from(json!({
        "metadata": {"name": "made", "namespace": "default", "uid": "uid-made"},
        "spec": {"containers": [{"name": "c", "image": "x"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "nowhere"}]},
        "status": {"phase": "Pending"},
    })));
    assert_snapshot!(world.said("slip"), @"
    slip  Pending (K0515)
      waits for its resource claims:
        devices: there is no resource claim wnats in namespace default; did you mean wants?
    ");
    assert_snapshot!(world.said("waits"), @"
    waits  Pending (K0515)
      waits for its resource claims:
        devices: resource claim going is being deleted, which waits for the end of old: `kubectl delete pod old`, then make the claim again
    ");
    assert_snapshot!(world.said("made"), @"
    made  Pending (K0515)
      waits for its resource claims:
        gpu: there is no resource claim template nowhere in namespace default to make it from
    ");
    world.0.devices = None;
    assert_snapshot!(world.said("slip"), @"
    slip  Pending
      resource claims:
        devices: resource claims and devices could not be read, so they are left aside here
      1 node would take it now: main-0
    ");
}

#[test]
fn a_class_that_is_missing_and_a_pool_that_is_not_complete() {
    let mut world = World::new(1, &[gpu("g0", json!({}))])
        .claim("other", json!([{"name": "r", "exactly": {"deviceClassName": "tpu"}}]), json!({}))
        .pod("late", None, "other")
        .claim("wants", json!([one("r", json!({}))]), json!({}))
        .pod("next", None, "wants");
    assert_snapshot!(world.said("late"), @"
    late  Pending (K0514)
      fits on none of 1 node:
        main-0  request r is for devices of class tpu, which does not exist
      no single change that klab knows of would let it in
    ");
    let objects = world.0.devices.as_mut().unwrap();
    let mut slice = serde_json::to_value(&*objects.slices[0]).unwrap();
    slice["spec"]["pool"]["resourceSliceCount"] = json!(2);
    objects.slices = vec![from(slice)];
    assert_snapshot!(world.said("next"), @"
    next  Pending (K0514)
      fits on none of 1 node:
        main-0  request r of claim wants asks for a device of class gpu, and the node has none to give; the pool of devices main-0 of gpu.example.com gives nothing yet: some of its ResourceSlices are not published
      no single change that klab knows of would let it in
    ");
}

#[test]
fn resources_that_are_devices_are_told_like_claims() {
    let mut world = World::new(1, &[gpu("g0", json!({}))]);
    let objects = world.0.devices.as_mut().unwrap();
    let mut class = serde_json::to_value(&*objects.classes[0]).unwrap();
    class["spec"]["extendedResourceName"] = json!("example.com/gpu");
    objects.classes = vec![from(class)];
    world.0.pods.push(from(json!({
        "metadata": {"name": "late", "namespace": "default", "uid": "uid-late"},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"example.com/gpu": "2"}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]},
    })));
    assert_snapshot!(world.said("late"), @"
    late  Pending (K0514)
      fits on none of 1 node:
        main-0  container-0-request-0 of its extended resources asks for 2 devices of class gpu, 1 of 1 available
                  g0: free
      no single change that klab knows of would let it in
    ");
    assert!(DeviceObjects::are_asked_for(&world.0.pods));
}
