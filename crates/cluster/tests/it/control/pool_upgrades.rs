//! Upgrades of node pools, case by case as AKS documents them.

use std::net::Ipv4Addr;

use klab_api_machinery::node_pools::{ADDRESS, NAME, NodeNames, NodePool, POOL_LABEL};
use klab_api_machinery::pool_upgrades::{
    BlueGreen, End, POOL_UPGRADES, PoolUpgrade, UPGRADE_STATUS_LABEL, UsedVersion,
};

use super::*;

const SYSTEM: &str = "kube-system";
const START: i64 = 60;

fn machines(version: &str) -> NodePool {
    let mut template = node(NAME, 0);
    template["metadata"]["labels"] = json!({ "kubernetes.io/hostname": NAME, POOL_LABEL: "apps" });
    template["spec"] = json!({});
    template["status"]["addresses"][0]["address"] = json!(ADDRESS);
    template["status"]["nodeInfo"]["kubeletVersion"] = json!(version);
    NodePool {
        min: 0,
        max: 0,
        group: "aks-apps-vmss".to_owned(),
        names: NodeNames::ScaleSet("aks-apps-vmss".to_owned()),
        first_address: Ipv4Addr::new(10, 224, 1, 4),
        templates: vec![template],
        capacity: None,
        start_seconds: u32::try_from(START).unwrap(),
        starting: Vec::new(),
    }
}

fn name(number: u32) -> String {
    format!("aks-apps-vmss{number:06}")
}

fn address(number: u32) -> String {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 224, 1, 4)) + number).to_string()
}

/// Nodes of the pool at 1.30, and a control plane.
fn lab(nodes: u32) -> Lab {
    with(nodes, Settings::default())
}

fn with(nodes: u32, settings: Settings) -> Lab {
    let mut lab = Lab::with(0, settings);
    for number in 0..nodes {
        let text = machines("v1.30.0").templates[0].to_string();
        let text = text.replace(NAME, &name(number)).replace(ADDRESS, &address(number));
        let value = serde_json::from_str(&text).unwrap();
        lab.cluster.create(NODES, "", value, &WriteOptions::by("test")).expect("node");
    }
    lab.plane.run();
    lab
}

/// An upgrade to 1.31 of this many nodes, with AKS's defaults.
fn upgrade(nodes: u32) -> PoolUpgrade {
    let pool = machines("v1.31.0");
    let members = (0..nodes).filter_map(|number| PoolUpgrade::member(&pool, &name(number), &address(number)));
    PoolUpgrade {
        nodes: members.collect(),
        surge: 1,
        at_once: 1,
        drain_timeout: 30 * 60,
        soak: 0,
        quarantines: false,
        replaces: false,
        blue_green: None,
        rollback: None,
        surge_nodes: Vec::new(),
        end: None,
        pool,
    }
}

fn begin(lab: &mut Lab, upgrade: &PoolUpgrade) {
    let text = serde_json::to_string(upgrade).unwrap();
    let _gone = lab.cluster.delete(CONFIG_MAPS, SYSTEM, POOL_UPGRADES, &DeleteOptions::default());
    lab.apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": POOL_UPGRADES, "namespace": SYSTEM },
        "data": { "apps": text },
    }));
}

fn state(lab: &Lab) -> PoolUpgrade {
    let map = lab.cluster.get(CONFIG_MAPS, SYSTEM, POOL_UPGRADES).expect("a ConfigMap").value();
    PoolUpgrade::read(&map).remove("apps").expect("an upgrade")
}

fn failure(lab: &Lab) -> String {
    match state(lab).end {
        Some(End::Failed(message)) => message,
        other => panic!("{other:?}"),
    }
}

/// Each node with the minor version of its kubelet, and what it is marked with.
fn nodes(lab: &Lab) -> Vec<String> {
    let (nodes, _) = lab.cluster.list(NODES, None);
    let told = |node: &Arc<Object>| {
        let value = node.value();
        let version = value["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap()[3..5].to_owned();
        let cordoned = if value["spec"]["unschedulable"] == true { " cordoned" } else { "" };
        let mark = value["metadata"]["labels"][UPGRADE_STATUS_LABEL].as_str().map(|mark| format!(" {mark}"));
        format!("{}:{version}{cordoned}{}", &node.name[node.name.len() - 1..], mark.unwrap_or_default())
    };
    nodes.iter().map(told).collect()
}

/// What the upgrader said, in order: seconds since the beginning, type, reason, message without the names' common part.
fn said(lab: &Lab) -> Vec<String> {
    let mut events: Vec<_> =
        lab.list(EVENTS).into_iter().filter(|event| event["source"]["component"] == "upgrader").collect();
    let order = |event: &Value| event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    events.sort_by_key(order);
    let began: Timestamp = "2026-06-01T08:00:00Z".parse().unwrap();
    let told = |event: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let at: Timestamp = text(&event["firstTimestamp"]).parse().unwrap();
        let seconds = at.duration_since(began).as_secs();
        let count = event["count"].as_i64().filter(|count| *count > 1).map(|count| format!(" x{count}"));
        let message = text(&event["message"]).replace("aks-apps-vmss00000", "");
        format!("{seconds} {} {} {message}{}", text(&event["type"]), text(&event["reason"]), count.unwrap_or_default())
    };
    events.iter().map(told).collect()
}

fn work(app: &str, replicas: i64) -> Value {
    let mut deployment = deployment(app, replicas);
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({ POOL_LABEL: "apps" });
    deployment
}

fn budget(name: &str, spec: Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name },
        "spec": { "selector": { "matchLabels": { "app": name } } },
    });
    budget["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    budget
}

/// The rolling example of upgrade-conceptual: two nodes, `maxSurge` 1. Events as in the AKS tutorial and Azure/AKS#3927.
#[test]
fn a_surge_node_comes_each_node_is_drained_and_reimaged_and_the_surge_node_goes() {
    let mut lab = lab(2);
    lab.apply(work("web", 4));
    begin(&mut lab, &upgrade(2));
    lab.seconds(START - 1);
    assert_eq!(nodes(&lab), ["0:30", "1:30"], "nothing is drained before the surge node is there");
    lab.seconds(1);
    assert_eq!(nodes(&lab), ["1:30", "2:31"], "the node is deleted from the API server while it is reimaged");
    lab.seconds(START);
    assert_eq!(nodes(&lab), ["0:31", "2:31"]);
    lab.seconds(START);
    assert_eq!((nodes(&lab), lab.running()), (vec!["0:31".to_owned(), "1:31".to_owned()], 4));
    assert_eq!(
        said(&lab),
        [
            "60 Normal Surge Created a surge node 2 for agentpool apps",
            "60 Normal Drain Draining node: 0",
            "60 Normal Upgrade Deleting node 0 from API server",
            "120 Normal Upgrade Successfully reimaged node: 0",
            "120 Normal Upgrade Successfully upgraded node: 0",
            "120 Normal Drain Draining node: 1",
            "120 Normal Upgrade Deleting node 1 from API server",
            "180 Normal Upgrade Successfully reimaged node: 1",
            "180 Normal Upgrade Successfully upgraded node: 1",
            "180 Normal Surge Removing surge node: 2",
            "180 Normal Drain Draining node: 2",
        ]
    );
    assert_eq!(state(&lab).end, Some(End::Succeeded));
}

/// upgrade-aks-node-pools-rolling: with max surge, as many nodes are drained at the same time as there are buffer nodes.
#[test]
fn a_set_is_as_large_as_the_surge_and_the_next_one_waits_for_it() {
    let mut lab = lab(5);
    lab.apply(work("web", 10));
    begin(&mut lab, &PoolUpgrade { surge: 2, at_once: 2, ..upgrade(5) });
    let mut most = 0;
    let mut seen = Vec::new();
    for _ in 0..7 {
        lab.seconds(START / 2);
        most = most.max(nodes(&lab).len());
        seen.push(nodes(&lab).len());
    }
    assert_eq!(state(&lab).end, None);
    lab.seconds(START);
    assert_eq!((most, seen), (6, vec![5, 5, 5, 5, 5, 6, 6]), "two surge nodes, two that are reimaged");
    assert_eq!(nodes(&lab), ["0:31", "1:31", "2:31", "3:31", "4:31"]);
    assert_eq!((state(&lab).end, lab.running()), (Some(End::Succeeded), 10));
}

/// upgrade-aks-node-pools-rolling, "View AKS node upgrade events": the words of the soak time.
#[test]
fn a_drained_node_soaks_before_it_is_reimaged() {
    let mut lab = lab(1);
    begin(&mut lab, &PoolUpgrade { soak: 300, ..upgrade(1) });
    lab.seconds(START + 299);
    assert_eq!(nodes(&lab), ["0:30 cordoned", "1:31"]);
    lab.seconds(1);
    assert_eq!(nodes(&lab), ["1:31"]);
    assert_eq!(said(&lab)[2], "60 Normal Upgrade Soak duration 5m0s after draining node: 0");
}

/// upgrade-aks-node-pools-rolling, "Customize unavailable nodes": existing nodes are cordoned and no surge node comes.
#[test]
fn without_surge_nodes_are_upgraded_in_place() {
    let mut lab = lab(3);
    lab.apply(work("web", 3));
    begin(&mut lab, &PoolUpgrade { surge: 0, at_once: 2, ..upgrade(3) });
    lab.seconds(1);
    assert_eq!(nodes(&lab), ["2:30"]);
    assert_eq!(lab.running(), 3, "the pods have gone to the node that is left");
    lab.seconds(2 * START);
    assert_eq!(nodes(&lab), ["0:31", "1:31", "2:31"]);
    assert_eq!(state(&lab).end, Some(End::Succeeded));
    assert!(!said(&lab).iter().any(|line| line.contains("Surge")));
}

/// Two pods on one node, of which one is not ready: the budget allows nothing, although it is not impossible.
fn blocked(nodes: u32) -> Lab {
    let mut lab = lab(nodes);
    let mut stuck = work("db", 1);
    stuck["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/hostname"] = json!(name(0));
    lab.apply(stuck);
    lab.apply(budget("db", json!({ "minAvailable": 1 })));
    lab
}

/// Azure/AKS#4306: the event of each eviction that a budget refuses. What blocks may be mended while the drain goes on.
#[test]
fn a_budget_blocks_the_drain_until_it_is_mended() {
    let mut lab = blocked(2);
    begin(&mut lab, &upgrade(2));
    lab.seconds(START + 160);
    assert_eq!(nodes(&lab), ["0:30 cordoned", "1:30", "2:31"]);
    let refused = said(&lab).into_iter().find(|line| line.contains("Warning")).unwrap();
    let words = "60 Warning Drain Eviction blocked by Too many Requests (usually a pdb): db-";
    assert!(refused.starts_with(words) && refused.ends_with(" x25"), "of the others nothing is said: {refused}");
    lab.delete(POD_DISRUPTION_BUDGETS, "db", Propagation::Background);
    lab.seconds(5);
    assert_eq!(nodes(&lab), ["1:30", "2:31"]);
    lab.seconds(3 * START);
    assert_eq!((nodes(&lab), state(&lab).end), (vec!["0:31".to_owned(), "1:31".to_owned()], Some(End::Succeeded)));
}

/// API reference, UndrainableNodeBehavior Schedule: blocked nodes are schedulable and not upgraded, surge nodes are deleted, the
/// operation fails. upgrade-aks-node-pools-rolling: the upgrade stops, and the next one resumes it.
#[test]
fn when_the_drain_timeout_is_over_the_upgrade_stops_and_can_be_resumed() {
    let mut lab = blocked(3);
    begin(&mut lab, &upgrade(3));
    lab.seconds(START + 30 * 60 - 1);
    assert_eq!((nodes(&lab)[0].as_str(), state(&lab).end), ("0:30 cordoned", None));
    lab.seconds(1);
    assert_eq!(nodes(&lab), ["0:30", "1:30", "2:30"]);
    let pod = lab.pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(
        failure(&lab),
        format!(
            "Drain node aks-apps-vmss000000 failed when evicting pod {pod} failed with Too Many Requests error. This is often \
             caused by a restrictive Pod Disruption Budget (PDB) policy. See https://aka.ms/aks/debugdrainfailures. Original \
             error: Cannot evict pod as it would violate the pod's disruption budget.. PDB debug info: default/{pod} blocked \
             by pdb db with 0 unready pods."
        )
    );
    lab.delete(POD_DISRUPTION_BUDGETS, "db", Propagation::Background);
    begin(&mut lab, &upgrade(3));
    lab.seconds(4 * START);
    assert_eq!(
        (nodes(&lab), state(&lab).end.unwrap()),
        (["0:31", "1:31", "2:31"].map(str::to_owned).to_vec(), End::Succeeded)
    );
}

/// The restrictive example of upgrade-conceptual: two nodes, `maxSurge` 2, `Cordon`. One surge node stays for the blocked node.
#[test]
fn a_node_that_cannot_be_drained_is_quarantined_and_the_upgrade_goes_on() {
    let mut lab = blocked(2);
    lab.apply(work("web", 2));
    begin(&mut lab, &PoolUpgrade { surge: 2, at_once: 1, quarantines: true, drain_timeout: 300, ..upgrade(2) });
    lab.seconds(START + 300);
    assert_eq!(nodes(&lab), ["0:30 cordoned Quarantined", "2:31", "3:31"], "the other node is being reimaged");
    lab.seconds(START);
    assert_eq!(nodes(&lab), ["0:30 cordoned Quarantined", "1:31", "2:31"]);
    assert!(failure(&lab).starts_with("Drain node aks-apps-vmss000000 failed when evicting pod db-"));
    assert_eq!(lab.running(), 3, "the pod that could not go is where it was");
}

/// API reference, UndrainableNodeBehavior Cordon: with too few surge nodes for the blocked nodes the operation is canceled. The
/// words of AKS are those of canonical/bundle-kubeflow#1339.
#[test]
fn quarantine_ends_where_the_surge_nodes_are_used_up() {
    for (surge, canceled) in [(1, false), (0, true)] {
        let mut lab = blocked(3);
        begin(&mut lab, &PoolUpgrade { surge, quarantines: true, drain_timeout: 300, ..upgrade(3) });
        lab.seconds(START + 400);
        let (is_canceled, message) = match state(&lab).end {
            Some(End::Failed(message)) => (false, message),
            Some(End::Canceled(message)) => (true, message),
            other => panic!("{other:?}"),
        };
        assert_eq!(is_canceled, canceled);
        assert!(
            message.starts_with("Cordoned nodes have used all surge nodes but there are more nodes to be upgraded.")
        );
        assert_eq!(nodes(&lab)[..3], ["0:30 cordoned Quarantined", "1:30", "2:30"]);
    }
}

/// API reference: a pod whose grace period is longer than the rest of the timeout blocks a node, too.
#[test]
fn a_pod_that_does_not_end_in_time_blocks_its_node() {
    let hollow = HollowDelays { stop: SignedDuration::from_mins(10), ..HollowDelays::default() };
    let mut lab = with(1, Settings { hollow, ..Settings::default() });
    let mut slow = work("slow", 1);
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(3600);
    lab.apply(slow);
    begin(&mut lab, &PoolUpgrade { drain_timeout: 300, ..upgrade(1) });
    lab.seconds(START + 300);
    assert_eq!((nodes(&lab), state(&lab).end), (vec!["0:30".to_owned(), "1:31 cordoned".to_owned()], None));
    lab.seconds(300);
    let message = failure(&lab);
    assert!(message.starts_with("Drain of aks-apps-vmss000000 did not complete"), "{message}");
    assert_eq!(nodes(&lab), ["0:30", "1:31"], "its successor does not leave the surge node in time either");
}

/// What DaemonSets run ends with the old machine and begins on the new one; labels that were put on by hand are lost.
#[test]
fn a_reimaged_node_is_a_new_node() {
    let mut lab = lab(1);
    lab.apply(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": { "selector": { "matchLabels": { "app": "agent" } }, "template": {
            "metadata": { "labels": { "app": "agent" } },
            "spec": { "containers": [{ "name": "c", "image": "registry.k8s.io/pause:3.10" }] },
        } },
    }));
    lab.change(NODES, &name(0), |node| node["metadata"]["labels"]["by"] = json!("hand"));
    let (before, pod) = (lab.get(NODES, &name(0)), lab.pods()[0]["metadata"]["uid"].clone());
    begin(&mut lab, &upgrade(1));
    lab.seconds(2 * START);
    let after = lab.get(NODES, &name(0));
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(after["metadata"]["labels"]["by"], Value::Null);
    assert_eq!(after["status"]["addresses"], before["status"]["addresses"]);
    let pods = lab.pods();
    assert_eq!((pods.len(), lab.running()), (1, 1));
    assert_ne!(pods[0]["metadata"]["uid"], pod);
}

/// resize-node-pool, "Resize a VMSS node pool in place": new nodes of the target size, old nodes drained, old nodes deleted.
#[test]
fn nodes_that_change_their_size_are_replaced_by_surge_nodes() {
    let mut lab = lab(3);
    lab.apply(work("web", 6));
    begin(&mut lab, &PoolUpgrade { surge: 2, at_once: 2, replaces: true, ..upgrade(3) });
    lab.seconds(START);
    assert_eq!(nodes(&lab), ["2:30", "3:31", "4:31"]);
    let (all, _) = lab.cluster.list(NODES, None);
    let mut shown: Vec<Value> = all.iter().map(|node| (*node.value()).clone()).collect();
    state(&lab).settle(&mut shown);
    assert_eq!(shown.len(), 3, "of the pool's nodes, surge nodes stand for those that have gone");
    lab.seconds(START);
    assert_eq!((nodes(&lab), lab.running()), (vec!["3:31".to_owned(), "4:31".to_owned(), "5:31".to_owned()], 6));
    assert_eq!(state(&lab).end, Some(End::Succeeded));
    assert!(!said(&lab).iter().any(|line| line.contains("Removing surge node") || line.contains("reimaged")));
}

/// The same engine: with `Schedule`, the surge node of a node that cannot be drained goes, and the resize ends.
#[test]
fn a_resize_that_is_blocked_leaves_as_many_nodes_as_there_were() {
    let mut lab = blocked(3);
    let first_and_last = |mut upgrade: PoolUpgrade| {
        upgrade.nodes.rotate_left(1);
        upgrade
    };
    begin(&mut lab, &first_and_last(PoolUpgrade { replaces: true, drain_timeout: 300, ..upgrade(3) }));
    lab.seconds(3 * START);
    assert_eq!(nodes(&lab), ["0:30 cordoned", "3:31", "4:31", "5:31"]);
    lab.seconds(300);
    assert_eq!(nodes(&lab), ["0:30", "3:31", "4:31"]);
    assert!(failure(&lab).starts_with("Drain node aks-apps-vmss000000 failed"));
}

/// AKS's defaults for a blue-green upgrade: batches of 10%, 15 minutes between them, an hour at the end.
fn blue_green(nodes: u32) -> PoolUpgrade {
    let end = Some(BlueGreen { final_soak: 60 * 60, until: None, is_undone: false });
    PoolUpgrade { surge: nodes, at_once: 1, soak: 15 * 60, replaces: true, blue_green: end, ..upgrade(nodes) }
}

/// blue-green-node-pool-upgrade, "Upgrade and commit scenario": blue nodes are cordoned, green nodes come, batches are drained with a
/// pause between them, and after the final soak blue nodes are deleted.
#[test]
fn old_nodes_stay_cordoned_beside_new_ones_until_the_final_soak_is_over() {
    let mut lab = lab(2);
    lab.apply(work("web", 4));
    begin(&mut lab, &blue_green(2));
    assert_eq!((nodes(&lab), lab.running()), (vec!["0:30 cordoned".to_owned(), "1:30 cordoned".to_owned()], 4));
    lab.seconds(START);
    let both = ["0:30 cordoned", "1:30 cordoned", "2:31", "3:31"];
    let pods_on = |lab: &Lab, number: u32| {
        lab.pods().iter().filter(|pod| pod["spec"]["nodeName"] == name(number).as_str()).count()
    };
    assert_eq!((nodes(&lab), pods_on(&lab, 0), pods_on(&lab, 1)), (both.map(str::to_owned).to_vec(), 0, 2));
    lab.seconds(15 * 60 - 1);
    assert_eq!((pods_on(&lab, 1), state(&lab).progress()), (2, (0, 2)));
    lab.seconds(1);
    assert_eq!((pods_on(&lab, 1), lab.running(), state(&lab).progress()), (0, 4, (2, 2)));
    let (all, _) = lab.cluster.list(NODES, None);
    let mut counted: Vec<Value> = all.iter().map(|node| (*node.value()).clone()).collect();
    state(&lab).settle(&mut counted);
    assert_eq!(counted.len(), 2, "green nodes do not count before blue ones go");
    lab.seconds(60 * 60 - 1);
    assert_eq!((nodes(&lab), state(&lab).end), (both.map(str::to_owned).to_vec(), None));
    lab.seconds(1);
    assert_eq!((nodes(&lab), lab.running()), (vec!["2:31".to_owned(), "3:31".to_owned()], 4));
    assert_eq!(state(&lab).end, Some(End::Succeeded));
    assert!(!said(&lab).iter().any(|line| line.contains("Removing surge node") || line.contains("reimaged")));
}

/// blue-green-node-pool-upgrade, `drainTimeoutInMinutes`: if exceeded, the upgrade fails. It names no node that goes then, so all stay;
/// an upgrade that stopped is resumed with other settings.
#[test]
fn a_blue_green_upgrade_that_is_blocked_leaves_old_and_new_nodes_and_goes_on_from_there() {
    let mut lab = blocked(2);
    begin(&mut lab, &PoolUpgrade { drain_timeout: 60, at_once: 2, ..blue_green(2) });
    lab.seconds(START + 60);
    assert_eq!(nodes(&lab), ["0:30 cordoned", "1:30 cordoned", "2:31", "3:31"]);
    assert!(failure(&lab).starts_with("Drain node aks-apps-vmss00000"), "{}", failure(&lab));
    let stopped = state(&lab);
    assert!(stopped.is_halfway(), "{stopped:?}");
    lab.delete(POD_DISRUPTION_BUDGETS, "db", Propagation::Background);
    let again = stopped.resumed(60, 0, 2, 0);
    begin(&mut lab, &again);
    lab.seconds(120);
    assert_eq!((nodes(&lab), state(&lab).end), (vec!["2:31".to_owned(), "3:31".to_owned()], Some(End::Succeeded)));
}

/// When an upgrade is aborted.
const ABORTED: Timestamp = Timestamp::constant(1_780_300_920, 0);

/// A pool of two blue and two green nodes, with its upgrade aborted in its final soak.
fn aborted() -> Lab {
    let mut lab = lab(2);
    lab.apply(work("web", 4));
    let rollback = UsedVersion { kubernetes: "1.30.0".to_owned(), node_image: "one".to_owned(), used: None };
    begin(&mut lab, &PoolUpgrade { at_once: 2, rollback: Some(rollback), ..blue_green(2) });
    lab.seconds(START);
    assert_eq!(state(&lab).progress(), (2, 2));
    let aborted = state(&lab).aborted(ABORTED).unwrap();
    assert!(aborted.is_halfway() && aborted.clone().aborted(ABORTED).is_none());
    begin(&mut lab, &aborted);
    lab.seconds(2 * 60 * 60);
    assert_eq!(
        (nodes(&lab), lab.running()),
        (["0:30 cordoned", "1:30 cordoned", "2:31", "3:31"].map(str::to_owned).to_vec(), 4)
    );
    lab
}

/// blue-green-node-pool-upgrade, "Upgrade and roll back scenario": blue nodes are uncordoned, green nodes are drained and deleted.
#[test]
fn an_upgrade_that_is_aborted_in_its_final_soak_goes_back_to_the_old_nodes_or_on() {
    let mut lab = aborted();
    let undone = state(&lab).undone(machines("v1.30.0")).unwrap();
    begin(&mut lab, &undone);
    assert_eq!((nodes(&lab), lab.running()), (vec!["0:30".to_owned(), "1:30".to_owned()], 4));
    assert_eq!((state(&lab).end, state(&lab).rollback), (Some(End::Succeeded), None));
    let mut lab = aborted();
    let on = state(&lab).resumed(60, 0, 2, 60);
    begin(&mut lab, &on);
    lab.seconds(60);
    assert_eq!((nodes(&lab), state(&lab).end), (vec!["2:31".to_owned(), "3:31".to_owned()], Some(End::Succeeded)));
    assert!(state(&lab).rollback.unwrap().used.unwrap() > ABORTED);
}

/// A budget that blocks the way back keeps it open, as it does with the way on.
#[test]
fn a_way_back_that_is_blocked_goes_on_once_it_is_free() {
    let mut lab = aborted();
    lab.apply(json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "all", "namespace": "default" },
        "spec": { "minAvailable": 4, "selector": {} } }));
    let undone = PoolUpgrade { drain_timeout: 60, ..state(&lab).undone(machines("v1.30.0")).unwrap() };
    begin(&mut lab, &undone);
    lab.seconds(60);
    assert!(failure(&lab).starts_with("Drain node"), "{:?}", state(&lab));
    assert_eq!(nodes(&lab), ["0:30", "1:30", "2:31", "3:31"]);
    lab.delete(POD_DISRUPTION_BUDGETS, "all", Propagation::Background);
    let again = state(&lab).undone(machines("v1.30.0")).unwrap();
    begin(&mut lab, &again);
    assert_eq!((nodes(&lab), state(&lab).end), (vec!["0:30".to_owned(), "1:30".to_owned()], Some(End::Succeeded)));
}

/// While nodes are drained, an upgrade that is aborted pauses: it goes on, and does not go back.
#[test]
fn an_upgrade_that_is_aborted_while_it_drains_pauses() {
    let mut lab = blocked(2);
    begin(&mut lab, &blue_green(2));
    lab.seconds(START + 10);
    assert_eq!(state(&lab).drained_nodes().count(), 1);
    let aborted = state(&lab).aborted(ABORTED).unwrap();
    assert_eq!((aborted.drained_nodes().count(), aborted.clone().undone(machines("v1.30.0"))), (0, None));
    assert_eq!(upgrade(2).aborted(ABORTED), None, "only blue-green upgrades are known to pause");
    begin(&mut lab, &aborted);
    lab.seconds(60 * 60);
    assert_eq!(nodes(&lab), ["0:30 cordoned", "1:30 cordoned", "2:31", "3:31"]);
}

/// roll-back-node-pool-version: available for seven days after the upgrade is done, and not after one that failed.
#[test]
fn what_a_pool_can_be_rolled_back_to_is_forgotten_after_seven_days() {
    let before = UsedVersion {
        kubernetes: "1.30.0".to_owned(),
        node_image: "AKSUbuntu-2404gen2containerd-202607.20.0".to_owned(),
        used: None,
    };
    let mut lab = lab(1);
    begin(&mut lab, &PoolUpgrade { rollback: Some(before.clone()), ..upgrade(1) });
    lab.seconds(2 * START);
    let used: Timestamp = "2026-06-01T08:02:00Z".parse().unwrap();
    assert_eq!(state(&lab).rollback, Some(UsedVersion { used: Some(used), ..before.clone() }));
    lab.plane = ControlPlane::new(Arc::clone(&lab.cluster), Settings::default());
    lab.seconds(7 * 24 * 3600 - 1);
    assert!(state(&lab).rollback.is_some());
    lab.seconds(1);
    assert_eq!((state(&lab).rollback, state(&lab).end), (None, Some(End::Succeeded)));
    let mut lab = blocked(1);
    begin(&mut lab, &PoolUpgrade { rollback: Some(before), drain_timeout: 300, ..upgrade(1) });
    lab.seconds(START + 300);
    assert!(failure(&lab).starts_with("Drain node") && state(&lab).rollback.is_none());
}

/// A server that was ended goes on where the ConfigMap says; an upgrade whose entry is taken away ends.
#[test]
fn an_upgrade_survives_its_control_plane_and_can_be_given_up() {
    let mut lab = blocked(2);
    begin(&mut lab, &upgrade(2));
    lab.seconds(START + 20);
    lab.plane = ControlPlane::new(Arc::clone(&lab.cluster), Settings::default());
    lab.seconds(20);
    assert_eq!(nodes(&lab), ["0:30 cordoned", "1:30", "2:31"]);
    lab.cluster.delete(CONFIG_MAPS, SYSTEM, POOL_UPGRADES, &DeleteOptions::default()).expect("deleted");
    lab.delete(POD_DISRUPTION_BUDGETS, "db", Propagation::Background);
    lab.seconds(3600);
    assert_eq!(nodes(&lab), ["0:30 cordoned", "1:30", "2:31"]);
}
