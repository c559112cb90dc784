//! DaemonSets: which nodes, updates.

use super::*;

fn daemon_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": name },
        "spec": { "selector": { "matchLabels": { "app": name } }, "template": template(name, "redis:7.6") },
    })
}

#[test]
fn run_on_every_node_that_their_pods_tolerate() {
    let mut lab = Lab::new(3);
    lab.change(NODES, "node-2", |node| {
        node["spec"]["taints"] = json!([{ "key": "dedicated", "value": "special", "effect": "NoSchedule" }]);
    });
    lab.change(NODES, "node-1", |node| node["spec"]["unschedulable"] = json!(true));
    lab.apply(daemon_set("agent"));
    let status = lab.get(DAEMON_SETS, "agent")["status"].clone();
    assert_eq!(
        status,
        json!({
            "currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 2, "numberReady": 2,
            "observedGeneration": 1, "updatedNumberScheduled": 2, "numberAvailable": 2,
        })
    );
    let pod = &lab.pods()[0];
    let keys: Vec<_> =
        pod["spec"]["tolerations"].as_array().expect("tolerations").iter().map(|it| &it["key"]).collect();
    assert_eq!(
        keys,
        ["not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"]
            .map(|key| format!("node.kubernetes.io/{key}"))
            .iter()
            .collect::<Vec<_>>()
    );
    assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "1");
    lab.change(DAEMON_SETS, "agent", |agent| {
        agent["spec"]["template"]["spec"]["tolerations"] = json!([{ "key": "dedicated", "operator": "Exists" }]);
    });
    lab.seconds(5);
    assert_eq!(lab.get(DAEMON_SETS, "agent")["status"]["numberReady"], 3);
    assert_eq!(lab.list(CONTROLLER_REVISIONS).len(), 2);
}

#[test]
fn a_taint_leaves_running_pods_and_bars_new_ones() {
    let mut lab = Lab::new(2);
    lab.apply(daemon_set("agent"));
    lab.change(NODES, "node-1", |node| {
        node["spec"]["taints"] = json!([{ "key": "dedicated", "effect": "NoSchedule" }]);
    });
    assert_eq!(lab.pods().len(), 2);
    let pod = lab.pods().into_iter().find(|pod| pod["spec"]["nodeName"] == "node-1").expect("a pod");
    lab.delete(PODS, pod["metadata"]["name"].as_str().expect("a name"), Propagation::Background);
    assert_eq!(lab.pods().len(), 1);
    assert_eq!(lab.get(DAEMON_SETS, "agent")["status"]["desiredNumberScheduled"], 1);
}

#[test]
fn a_new_node_gets_its_pod_and_an_update_goes_node_by_node() {
    let mut lab = Lab::with(2, recorded());
    lab.apply(daemon_set("agent"));
    lab.seconds(2);
    lab.cluster.create(NODES, "", node("node-9", 9), &WriteOptions::by("test")).expect("node");
    lab.seconds(2);
    assert_eq!(lab.running(), 3);
    lab.change(DAEMON_SETS, "agent", |agent| {
        agent["spec"]["template"]["spec"]["containers"][0]["image"] = json!("redis:7.7");
    });
    let mut fewest = 3;
    for _ in 0..60 {
        lab.pass(SignedDuration::from_millis(100));
        fewest = fewest.min(lab.running());
    }
    assert_eq!(fewest, 2);
    assert!(lab.pods().iter().all(|pod| pod["spec"]["containers"][0]["image"] == "redis:7.7"));
}

#[test]
fn of_very_many_nodes_leave_others_their_turn() {
    let mut lab = Lab::new(600);
    let (cluster, write) = (Arc::clone(&lab.cluster), WriteOptions::client("test"));
    cluster.create(DAEMON_SETS, "default", daemon_set("agent"), &write).expect("created");
    let set = json!({ "metadata": { "name": "web" }, "spec": {
        "selector": { "matchLabels": { "app": "web" } }, "template": template("web", "nginx:1.27") } });
    cluster.create(REPLICA_SETS, "default", set, &write).expect("created");
    lab.plane.run();
    let of = |app: &str| {
        let mut versions: Vec<u64> =
            lab.pods().iter().filter(|pod| pod["metadata"]["labels"]["app"] == app).map(made).collect();
        versions.sort_unstable();
        versions
    };
    let (agents, web) = (of("agent"), of("web"));
    assert_eq!((agents.len(), web.len()), (600, 1));
    assert!(web[0] < agents[300], "the other controller waited for one burst");
    assert_eq!(lab.running(), 601);
}

/// In which order pods were placed.
fn made(pod: &Value) -> u64 {
    pod["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).expect("a version")
}
