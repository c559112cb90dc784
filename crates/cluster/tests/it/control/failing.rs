//! Pods that fail as soon as they are made: the clock goes on, whatever owns them.

use super::*;

/// What makes pods, and how many it wants.
const MAKERS: [(&str, &str); 6] = [
    ("v1", "ReplicationController"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
];

fn maker(api_version: &str, kind: &str) -> Value {
    let mut template = template("web", "nginx");
    template["spec"]["nodeName"] = json!("node-0");
    template["spec"]["containers"][0]["resources"]["requests"] = json!({ "cpu": "64" });
    let mut spec = json!({ "template": template });
    match kind {
        "Job" => {
            spec["template"]["spec"]["restartPolicy"] = json!("Never");
            spec["podFailurePolicy"] = json!({ "rules": [{ "action": "Ignore", "onPodConditions": [
                { "type": "DisruptionTarget", "status": "False" }] }] });
        }
        "ReplicationController" => spec["selector"] = json!({ "app": "web" }),
        _ => spec["selector"] = json!({ "matchLabels": { "app": "web" } }),
    }
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "web" }, "spec": spec })
}

#[test]
fn a_full_node_gets_a_bounded_number_of_pods() {
    for (api_version, kind) in MAKERS {
        let mut lab = Lab::new(1);
        lab.apply(maker(api_version, kind));
        lab.seconds(600);
        let (pods, now) = (lab.pods().len(), lab.cluster.version());
        assert!((1..=20).contains(&pods), "{kind}: {pods} pods after ten minutes");
        assert!(lab.pods().iter().any(|pod| pod["status"]["reason"] == "OutOfcpu"), "{kind}");
        lab.seconds(3_600);
        assert!(lab.cluster.version() - now < 1_000, "{kind}: {} changes in an hour", lab.cluster.version() - now);
    }
}

#[test]
fn a_set_goes_on_once_its_pods_no_longer_fail() {
    let mut lab = Lab::new(1);
    lab.apply(maker("apps/v1", "ReplicaSet"));
    lab.seconds(60);
    lab.change(NODES, "node-0", |node| node["metadata"]["labels"]["roomy"] = json!("yes"));
    lab.change(REPLICA_SETS, "web", |set| {
        set["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = json!({ "cpu": "1" });
    });
    lab.seconds(120);
    assert_eq!(lab.running(), 1);
}
