//! The scheduler's loop: reasons, requeueing, preemption.

use super::*;

fn pod(name: &str, cpu: &str, more: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [
            { "name": "main", "image": "nginx:1.27", "resources": { "requests": { "cpu": cpu } } },
        ]},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

#[test]
fn a_pod_that_fits_nowhere_says_why_and_is_placed_when_it_can_be() {
    let mut lab = Lab::new(2);
    lab.apply(pod("picky", "1", json!({ "nodeSelector": { "disk": "ssd" } })));
    let picky = lab.get(PODS, "picky");
    let message = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to \
                   deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(
        *condition(&picky, "PodScheduled"),
        json!({
            "type": "PodScheduled", "observedGeneration": 1, "status": "False", "lastProbeTime": null,
            "lastTransitionTime": "2026-06-01T08:00:00Z", "reason": "Unschedulable", "message": message,
        })
    );
    assert_eq!(lab.messages("FailedScheduling"), [message]);
    lab.seconds(5);
    lab.change(NODES, "node-1", |node| node["metadata"]["labels"]["disk"] = json!("ssd"));
    let picky = lab.get(PODS, "picky");
    assert_eq!(picky["spec"]["nodeName"], "node-1");
    assert_eq!(condition(&picky, "PodScheduled")["status"], "True");
    assert_eq!(lab.messages("Scheduled"), ["Successfully assigned default/picky to node-1"]);
}

#[test]
fn a_gated_pod_waits_for_its_gates() {
    let mut lab = Lab::new(1);
    lab.apply(pod("gated", "1", json!({ "schedulingGates": [{ "name": "lab.example/hold" }] })));
    let gated = lab.get(PODS, "gated");
    assert_eq!(condition(&gated, "PodScheduled")["reason"], "SchedulingGated");
    assert!(lab.messages("FailedScheduling").is_empty());
    lab.change(PODS, "gated", |pod| pod["spec"]["schedulingGates"] = json!([]));
    assert_eq!(lab.running(), 1);
}

#[test]
fn room_that_is_made_is_used() {
    let mut lab = Lab::new(1);
    lab.apply(pod("first", "3", json!({})));
    lab.apply(pod("second", "3", json!({})));
    assert_eq!(lab.running(), 1);
    lab.delete(PODS, "first", Propagation::Background);
    lab.seconds(2);
    assert_eq!(lab.get(PODS, "second")["spec"]["nodeName"], "node-0");
}

#[test]
fn a_more_important_pod_takes_the_place_of_lesser_ones() {
    for hollow in [HollowDelays::default(), HollowDelays::recorded()] {
        let mut lab = Lab::with(1, Settings { hollow, ..Settings::default() });
        lab.apply(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "gold" },
            "value": 100_000,
        }));
        lab.apply(pod("low", "3", json!({})));
        lab.seconds(2);
        lab.apply(pod("high", "3", json!({ "priorityClassName": "gold" })));
        if !hollow.stop.is_zero() {
            assert_eq!(lab.get(PODS, "high")["status"]["nominatedNodeName"], "node-0");
            assert_eq!(condition(&lab.get(PODS, "low"), "DisruptionTarget")["reason"], "PreemptionByScheduler");
        }
        lab.seconds(5);
        let high = lab.get(PODS, "high");
        assert_eq!(high["spec"]["nodeName"], "node-0");
        assert!(is_ready(&high));
        assert!(lab.get(PODS, "low").is_null());
        let uid = high["metadata"]["uid"].as_str().expect("a uid");
        assert_eq!(lab.messages("Preempted"), [format!("Preempted by pod {uid} on node node-0")]);
        assert_eq!(lab.messages("FailedScheduling"), ["0/1 nodes are available: 1 Insufficient cpu."]);
    }
}

#[test]
fn a_scheduler_name_picks_the_profile_of_a_configured_scheduler() {
    let configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [
            { "schedulerName": "default-scheduler" },
            { "schedulerName": "packing", "pluginConfig": [
                { "name": "NodeResourcesFit", "args": { "scoringStrategy": {
                    "type": "MostAllocated", "resources": [{ "name": "cpu", "weight": 1 }] } } },
                { "name": "NodeResourcesBalancedAllocation", "args": { "resources": [{ "name": "cpu" }] } },
            ] },
        ],
    });
    let seed = json!({ "scheduler": configuration, "tiesByName": true });
    let seed: klab_cluster::seed::Seed = serde_json::from_value(seed).expect("a seed");
    let kept: klab_cluster::seed::Seed = serde_json::from_value(json!(seed)).expect("what is kept");
    let mut lab = Lab::with(3, kept.settings());
    for (name, scheduler) in [("a", "packing"), ("b", "packing"), ("c", "default-scheduler"), ("d", "unknown")] {
        lab.apply(pod(name, "1", json!({ "schedulerName": scheduler })));
    }
    let place = |name: &str| lab.get(PODS, name)["spec"]["nodeName"].clone();
    let first = place("a");
    assert!(first.is_string());
    assert_eq!((place("b"), place("d")), (first.clone(), Value::Null));
    assert_ne!(place("c"), first);
    assert_eq!(lab.get(PODS, "d")["status"]["conditions"], Value::Null, "another scheduler has to look at it");
    let speakers: Vec<_> = lab.list(EVENTS).into_iter().filter(|event| event["reason"] == "Scheduled").collect();
    let mut speakers: Vec<_> = speakers.iter().map(|event| event["reportingComponent"].as_str().unwrap()).collect();
    speakers.sort_unstable();
    assert_eq!(speakers, ["default-scheduler", "packing", "packing"]);

    let wrong = serde_json::from_value::<klab_cluster::seed::Seed>(json!({ "scheduler": { "kind": "Other" } }));
    assert!(wrong.unwrap_err().to_string().starts_with("scheduler: Object 'apiVersion' is missing"));
}

#[test]
fn the_order_of_names_is_the_same_in_every_run() {
    let placements = || {
        let mut lab = Lab::new(5);
        lab.apply(deployment("web", 8));
        lab.pods()
            .iter()
            .map(|pod| (pod["metadata"]["name"].to_string(), pod["spec"]["nodeName"].to_string()))
            .collect::<Vec<_>>()
    };
    let first = placements();
    assert_eq!(first.len(), 8);
    assert_eq!(first, placements());
}

#[test]
fn pods_of_a_replication_controller_are_spread_as_those_of_other_controllers() {
    let spread = |kind: &str, version: &str, selector: Value| {
        let mut lab = Lab::new(1);
        // Alone, the largest node would always have the most left.
        let resources = json!({ "cpu": "64", "memory": "256Gi", "pods": "110" });
        let mut large = node("large", 1);
        (large["status"]["capacity"], large["status"]["allocatable"]) = (resources.clone(), resources);
        lab.apply(large);
        lab.apply(json!({
            "apiVersion": version, "kind": kind, "metadata": { "name": "web" },
            "spec": { "replicas": 4, "selector": selector, "template": template("web", "nginx:1.27") },
        }));
        lab.seconds(5);
        lab.pods().iter().filter(|pod| pod["spec"]["nodeName"] == "large").count()
    };
    assert_eq!(spread("ReplicaSet", "apps/v1", json!({ "matchLabels": { "app": "web" } })), 2);
    assert_eq!(spread("ReplicationController", "v1", json!({ "app": "web" })), 2);
}
