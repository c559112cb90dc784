//! The cluster autoscaler: pools grow for pods that wait, and shrink when nobody needs their nodes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use klab_api_machinery::node_pools::{ADDRESS, NAME, NODE_POOLS, NodeNames, NodePool, POOL_LABEL, PROFILE};

use super::*;

const SYSTEM: &str = "kube-system";

fn pool(name: &str, min: u32, max: u32, third: u8) -> NodePool {
    let mut template = node(NAME, 0);
    template["metadata"]["labels"]["kubernetes.io/hostname"] = json!(NAME);
    template["metadata"]["labels"][POOL_LABEL] = json!(name);
    template["spec"] = json!({});
    template["status"]["addresses"][0]["address"] = json!(ADDRESS);
    NodePool {
        min,
        max,
        group: format!("aks-{name}-vmss"),
        names: NodeNames::ScaleSet(format!("aks-{name}-vmss")),
        first_address: Ipv4Addr::new(10, 224, third, 4),
        templates: vec![template],
        capacity: None,
        start_seconds: 30,
        starting: Vec::new(),
    }
}

/// A cluster of one node outside of all pools, and these pools.
fn lab(pools: Vec<(&str, NodePool)>, profile: Value) -> Lab {
    let mut lab = Lab::new(1);
    let pools: BTreeMap<String, NodePool> = pools.into_iter().map(|(name, pool)| (name.to_owned(), pool)).collect();
    lab.apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": PROFILE, "namespace": SYSTEM }, "data": profile,
    }));
    lab.apply(NodePool::config_map(&pools));
    lab
}

fn work(name: &str, replicas: i64, cpu: &str) -> Value {
    let mut deployment = deployment(name, replicas);
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": cpu } });
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({ POOL_LABEL: "burst" });
    deployment
}

fn quick() -> Value {
    json!({ "scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "1m" })
}

fn nodes(lab: &Lab) -> Vec<String> {
    let (nodes, _) = lab.cluster.list(NODES, None);
    nodes.iter().map(|node| node.name.to_string()).filter(|name| name != "node-0").collect()
}

fn status(lab: &Lab) -> String {
    let status = lab.cluster.get(CONFIG_MAPS, SYSTEM, "cluster-autoscaler-status").expect("a status");
    status.value()["data"]["status"].as_str().unwrap_or_default().to_owned()
}

fn system_events(lab: &Lab, reason: &str) -> Vec<String> {
    let (events, _) = lab.cluster.list(EVENTS, Some(SYSTEM));
    let events = events.iter().map(|event| event.value()).filter(|event| event["reason"] == reason);
    events.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_pool_grows_from_nothing_for_pods_that_wait_and_shrinks_when_they_are_gone() {
    let mut lab = lab(vec![("burst", pool("burst", 0, 3, 1))], quick());
    lab.seconds(13);
    lab.apply(work("web", 3, "3"));
    assert_eq!((nodes(&lab).len(), lab.running()), (0, 0));
    // The next tick comes after 20 seconds.
    lab.seconds(7);
    assert_eq!(lab.messages("TriggeredScaleUp")[0], "pod triggered scale-up: [{aks-burst-vmss 0->3 (max: 3)}]");
    assert_eq!(lab.messages("TriggeredScaleUp").len(), 3);
    let told = status(&lab);
    assert!(told.contains("    cloudProviderTarget: 3\n") && told.contains("      unregistered: 3\n"), "{told}");
    assert!(nodes(&lab).is_empty(), "machines take their time");
    lab.seconds(30);
    assert_eq!(nodes(&lab), ["aks-burst-vmss000000", "aks-burst-vmss000001", "aks-burst-vmss000002"]);
    assert_eq!(lab.running(), 3);
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(1));
    lab.seconds(20);
    let marked = |lab: &Lab| {
        let marked = |name: &String| {
            let node = lab.get(NODES, name);
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            taints.iter().any(|taint| taint["key"] == "DeletionCandidateOfClusterAutoscaler")
        };
        nodes(lab).iter().filter(|name| marked(name)).count()
    };
    assert_eq!((nodes(&lab).len(), marked(&lab)), (3, 2));
    assert!(status(&lab).contains("candidates: 2\n"));
    lab.seconds(90);
    assert_eq!((nodes(&lab).len(), marked(&lab), lab.running()), (1, 0, 1));
    let gone = system_events(&lab, "ScaleDownEmpty");
    assert!(gone.iter().any(|text| text.ends_with("removed")), "{gone:?}");
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(0));
    lab.seconds(120);
    assert!(nodes(&lab).is_empty());
    let version = lab.cluster.version();
    lab.seconds(600);
    assert_eq!(lab.cluster.version(), version, "nothing is to be done any more");
}

#[test]
fn a_pool_at_its_maximum_and_a_pod_that_no_pool_takes_say_so() {
    let mut lab = lab(vec![("burst", pool("burst", 1, 1, 1)), ("other", pool("other", 0, 3, 2))], quick());
    lab.seconds(60);
    assert_eq!(nodes(&lab), ["aks-burst-vmss000000"], "the least is kept");
    lab.apply(work("web", 2, "3"));
    lab.seconds(60);
    assert_eq!((lab.running(), nodes(&lab).len()), (1, 1));
    assert_eq!(
        lab.messages("NotTriggerScaleUp"),
        [
            "pod didn't trigger scale-up: 1 max node group size reached, 1 node(s) didn't match Pod's node affinity/selector"
        ]
    );
    lab.apply(work("huge", 1, "64"));
    lab.seconds(60);
    assert_eq!(nodes(&lab).len(), 1);
    // A greater maximum helps the one, and not the other.
    let (mut burst, other) = (pool("burst", 1, 5, 1), pool("other", 0, 3, 2));
    burst.start_seconds = 0;
    let pools = BTreeMap::from([("burst".to_owned(), burst), ("other".to_owned(), other)]);
    let write = WriteOptions::client("test");
    let change = |map: &mut Value| map["data"] = NodePool::config_map(&pools)["data"].clone();
    lab.cluster.modify(CONFIG_MAPS, Part::Main, SYSTEM, NODE_POOLS, &write, change).unwrap();
    lab.seconds(60);
    assert_eq!((lab.running(), nodes(&lab).len()), (2, 2));
    let told = lab.messages("NotTriggerScaleUp");
    let huge = "pod didn't trigger scale-up: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector";
    assert!(told.contains(&huge.to_owned()), "{told:?}");
}

#[test]
fn a_node_is_drained_where_budgets_allow_and_kept_where_they_do_not() {
    let mut lab = lab(vec![("burst", pool("burst", 0, 5, 1))], quick());
    lab.apply(work("web", 4, "1500m"));
    lab.seconds(60);
    assert_eq!((nodes(&lab).len(), lab.running()), (2, 4));
    lab.apply(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "web" } } },
    }));
    // One pod goes from each node: both are then used by less than half.
    let first_of = |lab: &Lab, node: &str| {
        let pods = lab.pods();
        let mut pods = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node);
        pods.next().unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
    };
    for node in nodes(&lab) {
        let pod = first_of(&lab, &node);
        lab.cluster
            .modify(PODS, Part::Main, "default", &pod, &WriteOptions::client("test"), |pod| {
                pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] = json!("-100");
            })
            .unwrap();
    }
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(2));
    lab.seconds(200);
    assert_eq!((nodes(&lab).len(), lab.running()), (2, 2), "the budget allows no eviction");
    lab.change(POD_DISRUPTION_BUDGETS, "web", |budget| budget["spec"]["maxUnavailable"] = json!(1));
    // A node that could not go is looked at again after five minutes.
    lab.seconds(500);
    assert_eq!((nodes(&lab).len(), lab.running()), (1, 2));
    assert_eq!(lab.messages("ScaleDown").iter().filter(|text| text.starts_with("deleting pod")).count(), 1);
    let told = system_events(&lab, "ScaleDown");
    assert!(told.iter().any(|text| text.contains("removed with drain")), "{told:?}");
}

#[test]
fn a_lab_without_an_autoscaled_pool_is_not_woken() {
    let mut lab = Lab::new(1);
    lab.apply(work("web", 1, "1"));
    let without =
        Settings { switched_off: [klab_cluster::Controller::ClusterAutoscaler].into(), ..Settings::default() };
    let mut other = Lab::with(1, without);
    other.apply(work("web", 1, "1"));
    assert_eq!(lab.plane.run(), other.plane.run());
    assert!(lab.cluster.get(CONFIG_MAPS, SYSTEM, "cluster-autoscaler-status").is_none());
}

#[test]
fn an_autoscaler_that_starts_again_goes_on_where_the_last_one_was() {
    let mut lab = lab(vec![("burst", pool("burst", 0, 3, 1))], quick());
    lab.apply(work("web", 1, "3"));
    lab.seconds(15);
    assert!(status(&lab).contains("unregistered: 1"));
    // The machine is on its way; the node then stands empty and is marked.
    lab.plane = ControlPlane::new(Arc::clone(&lab.cluster), Settings::default());
    lab.seconds(40);
    assert_eq!((nodes(&lab).len(), lab.running()), (1, 1));
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(0));
    lab.seconds(45);
    lab.plane = ControlPlane::new(Arc::clone(&lab.cluster), Settings::default());
    lab.seconds(40);
    assert!(nodes(&lab).is_empty(), "the taint tells since when nobody needs it");
}

#[test]
fn a_restart_takes_back_a_removal_that_was_under_way() {
    let mut lab = lab(vec![("burst", pool("burst", 0, 3, 1))], json!({ "scale-down-unneeded-time": "60m" }));
    lab.apply(work("web", 1, "3"));
    lab.seconds(60);
    let name = nodes(&lab)[0].clone();
    let taint = json!({ "key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule" });
    lab.change(NODES, &name, |node| node["spec"]["taints"] = json!([taint]));
    lab.plane = ControlPlane::new(Arc::clone(&lab.cluster), Settings::default());
    lab.seconds(1);
    assert!(lab.get(NODES, &name)["spec"]["taints"].is_null());
}

#[test]
fn a_pool_that_is_taken_from_the_autoscaler_keeps_no_marks() {
    for others in [true, false] {
        let mut pools = vec![("burst", pool("burst", 0, 3, 1))];
        if others {
            pools.push(("other", pool("other", 0, 3, 2)));
        }
        let mut lab = lab(pools, json!({ "scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "0m" }));
        lab.apply(work("web", 2, "3"));
        lab.seconds(60);
        lab.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(0));
        // One is on its way out, both are marked.
        let is_leaving =
            |lab: &Lab| lab.get(NODES, &nodes(lab)[0])["spec"]["taints"].to_string().contains("ToBeDeleted");
        let begun = (0..100).any(|_| {
            lab.seconds(1);
            is_leaving(&lab)
        });
        assert!(begun, "no node is about to go");
        let change = |map: &mut Value| drop(map["data"].as_object_mut().unwrap().remove("burst"));
        lab.cluster.modify(CONFIG_MAPS, Part::Main, SYSTEM, NODE_POOLS, &WriteOptions::client("test"), change).unwrap();
        lab.seconds(300);
        assert_eq!(nodes(&lab).len(), 2, "other pools: {others}");
        for name in nodes(&lab) {
            let taints = lab.get(NODES, &name)["spec"]["taints"].to_string();
            assert_eq!(taints, "null", "{name}, other pools: {others}");
        }
    }
}

#[test]
fn settings_that_mean_nothing_are_told_and_the_others_hold() {
    let mut lab =
        lab(vec![("burst", pool("burst", 0, 1, 1))], json!({ "scan-interval": "30s", "expander": "cheapest" }));
    lab.seconds(1);
    let told = system_events(&lab, "InvalidProfile");
    assert_eq!(told, ["`expander` cannot be `cheapest`: it takes least-waste, most-pods, priority or random"]);
    lab.apply(work("web", 1, "3"));
    lab.seconds(25);
    assert!(lab.messages("TriggeredScaleUp").is_empty());
    lab.seconds(10);
    assert_eq!(lab.messages("TriggeredScaleUp").len(), 1);
}

#[test]
fn priorities_of_the_config_map_choose_the_pool() {
    let profile = json!({ "expander": "priority" });
    let mut lab = lab(vec![("main", pool("main", 0, 3, 1)), ("spot", pool("spot", 0, 3, 2))], profile);
    let priorities = |text: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "priorities": text },
            "metadata": { "name": "cluster-autoscaler-priority-expander", "namespace": SYSTEM },
        })
    };
    lab.apply(priorities("10:\n  - .*\n50:\n  - aks-spot-.*\n"));
    let mut filler = deployment("filler", 3);
    filler["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "3" } });
    lab.apply(filler);
    lab.seconds(60);
    assert_eq!(nodes(&lab), ["aks-spot-vmss000000", "aks-spot-vmss000001"]);
    let write = WriteOptions::client("test");
    let change = |map: &mut Value| map["data"]["priorities"] = json!("x");
    let name = "cluster-autoscaler-priority-expander";
    lab.cluster.modify(CONFIG_MAPS, Part::Main, SYSTEM, name, &write, change).unwrap();
    lab.change(DEPLOYMENTS, "filler", |filler| filler["spec"]["replicas"] = json!(4));
    lab.seconds(60);
    assert_eq!(lab.running(), 4);
    assert!(
        system_events(&lab, "PriorityConfigMapInvalid")[0].starts_with("Wrong configuration for priority expander")
    );
}

/// Changes the ConfigMap of pools as somebody with kubectl does.
fn change_pools(lab: &mut Lab, change: impl FnOnce(&mut Value)) {
    let write = WriteOptions::client("test");
    lab.cluster.modify(CONFIG_MAPS, Part::Main, SYSTEM, NODE_POOLS, &write, change).unwrap();
    lab.plane.run();
}

#[test]
fn a_minimum_that_no_cluster_can_have_is_cut_off() {
    let mut lab = lab(vec![("burst", pool("burst", 4_000_000_000, u32::MAX, 1))], quick());
    lab.seconds(15);
    let told = status(&lab);
    assert!(told.contains("unregistered: 1000\n") || told.contains("unregistered: 2000\n"), "{told}");
    assert!(told.contains("minSize: 10000\n") && told.contains("maxSize: 10000\n"), "{told}");
}

#[test]
fn the_autoscaler_writes_nothing_of_a_pool_but_its_machines() {
    let mut lab = lab(vec![("burst", pool("burst", 0, 3, 1))], quick());
    change_pools(&mut lab, |map| {
        let mut pool: Value = serde_json::from_str(map["data"]["burst"].as_str().unwrap()).unwrap();
        pool["of"] = json!("another version");
        map["data"]["burst"] = json!(pool.to_string());
    });
    lab.apply(work("web", 1, "3"));
    for (seconds, starting) in [(15, 1), (40, 0)] {
        lab.seconds(seconds);
        let map = lab.cluster.get(CONFIG_MAPS, SYSTEM, NODE_POOLS).unwrap().value();
        let pool: Value = serde_json::from_str(map["data"]["burst"].as_str().unwrap()).unwrap();
        assert_eq!(pool["of"], "another version");
        assert_eq!(pool["starting"].as_array().map(Vec::len), Some(starting));
    }
    assert_eq!(nodes(&lab).len(), 1);
}

#[test]
fn machines_that_cannot_be_noted_are_not_announced() {
    let mut lab = lab(vec![("burst", pool("burst", 0, 3, 1))], quick());
    change_pools(&mut lab, |map| map["immutable"] = json!(true));
    lab.apply(work("web", 1, "3"));
    lab.seconds(60);
    let failed = system_events(&lab, "FailedToScaleUpGroup");
    assert!(failed.iter().all(|text| text.starts_with("Scale-up failed for group aks-burst-vmss: ")), "{failed:?}");
    assert!(!failed.is_empty() && lab.messages("TriggeredScaleUp").is_empty());
    let told = system_events(&lab, "ScaledUpGroup");
    assert!(told.iter().all(|text| text.contains("setting group")), "{told:?}");
}

#[test]
fn wrong_settings_are_told_when_they_are_written() {
    let mut lab = lab(vec![("burst", pool("burst", 0, 1, 1))], quick());
    lab.seconds(30);
    assert!(system_events(&lab, "InvalidProfile").is_empty());
    for setting in ["scan-interval", "scan-interval", "expander"] {
        let change = |map: &mut Value| map["data"][setting] = json!("often");
        lab.cluster.modify(CONFIG_MAPS, Part::Main, SYSTEM, PROFILE, &WriteOptions::client("test"), change).unwrap();
        lab.seconds(30);
    }
    let told = system_events(&lab, "InvalidProfile");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().any(|text| text.starts_with("`scan-interval` cannot be `often`")), "{told:?}");
}

/// A pool of which the cloud has only so many machines, and which is given up after a minute.
fn scarce(capacity: u32, others: Vec<(&str, NodePool)>) -> Lab {
    let mut profile = quick();
    profile["max-node-provision-time"] = json!("1m");
    let burst = NodePool { capacity: Some(capacity), ..pool("burst", 0, 5, 1) };
    lab([("burst", burst)].into_iter().chain(others).collect(), profile)
}

#[test]
fn machines_that_the_cloud_does_not_have_are_given_up_and_the_pool_is_left_alone() {
    let mut lab = scarce(2, Vec::new());
    lab.apply(work("web", 3, "3"));
    lab.seconds(75);
    assert_eq!((nodes(&lab).len(), lab.running()), (2, 2));
    assert!(status(&lab).contains("unregistered: 1\n") && lab.messages("NotTriggerScaleUp").is_empty());
    // Asked for after ten seconds, given up at the first tick after a minute.
    lab.seconds(10);
    assert_eq!(
        system_events(&lab, "ScaleUpTimedOut"),
        ["Nodes added to group aks-burst-vmss failed to register within 1m10s"]
    );
    assert_eq!(lab.messages("NotTriggerScaleUp"), ["pod didn't trigger scale-up: 1 in backoff after failed scale-up"]);
    let told = status(&lab);
    let info = "  scaleUp:\n    backoffInfo:\n      errorCode: timeout\n      \
                errorMessage: Scale-up timed out for node group aks-burst-vmss after 1m10s\n";
    assert!(told.contains(info) && told.contains("    status: Backoff\n"), "{told}");
    assert!(told.contains("cloudProviderTarget: 2\n") && told.contains("unregistered: 0\n"), "{told}");
    // Two of three have come: what is taken back is the third alone, which cannot be refused.
    assert_eq!(system_events(&lab, "FailedToRevertScaleUp"), Vec::<String>::new());
    // Five minutes later it is tried again, and left alone for twice as long.
    let failures = |lab: &Lab| system_events(lab, "ScaleUpTimedOut").len();
    let tried = |lab: &Lab| lab.messages("TriggeredScaleUp").iter().filter(|text| text.contains("2->3")).count();
    lab.seconds(290);
    assert_eq!(tried(&lab), 0);
    lab.seconds(20);
    assert_eq!(tried(&lab), 1);
    lab.seconds(80);
    assert!(status(&lab).contains("status: Backoff\n"));
    lab.seconds(590);
    assert!(status(&lab).contains("status: Backoff\n"));
    lab.seconds(30);
    assert!(status(&lab).contains("status: InProgress\n"));
    assert!(failures(&lab) >= 1);
    // The cloud gets more machines: the one that is waited for comes.
    change_pools(&mut lab, |map| {
        let text = map["data"]["burst"].as_str().unwrap().replace("\"capacity\":2", "\"capacity\":3");
        map["data"]["burst"] = json!(text);
    });
    lab.seconds(15);
    assert_eq!((nodes(&lab).len(), lab.running()), (3, 3));
}

#[test]
fn a_pool_that_has_no_machines_leaves_the_pods_to_another() {
    let mut other = pool("other", 0, 3, 2);
    other.templates[0]["metadata"]["labels"]["kind"] = json!("burst");
    let mut lab = scarce(0, vec![("other", other)]);
    change_pools(&mut lab, |map| {
        let mut pool: Value = serde_json::from_str(map["data"]["burst"].as_str().unwrap()).unwrap();
        pool["templates"][0]["metadata"]["labels"]["kind"] = json!("burst");
        map["data"]["burst"] = json!(pool.to_string());
    });
    let mut web = work("web", 1, "3");
    web["spec"]["template"]["spec"]["nodeSelector"] = json!({ "kind": "burst" });
    // The expander chooses the pool that has no machines.
    let name = "cluster-autoscaler-priority-expander";
    let priorities = "50:\n  - aks-burst-.*\n10:\n  - .*\n";
    lab.apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "priorities": priorities },
        "metadata": { "name": name, "namespace": SYSTEM },
    }));
    let change = |map: &mut Value| map["data"]["expander"] = json!("priority");
    lab.cluster.modify(CONFIG_MAPS, Part::Main, SYSTEM, PROFILE, &WriteOptions::client("test"), change).unwrap();
    lab.apply(web);
    lab.seconds(75);
    assert_eq!((nodes(&lab).len(), lab.running()), (0, 0));
    lab.seconds(60);
    assert_eq!((nodes(&lab), lab.running()), (vec!["aks-other-vmss000000".to_owned()], 1));
    let version = lab.cluster.version();
    lab.seconds(100);
    assert_eq!(lab.cluster.version(), version, "nothing is to be done while a pool is left alone");
}
