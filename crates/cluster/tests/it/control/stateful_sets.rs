//! StatefulSets: order, partitions.

use super::*;

fn stateful_set(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "serviceName": name, "selector": { "matchLabels": { "app": name } },
            "template": template(name, "postgres:16"), "podManagementPolicy": "OrderedReady",
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
        },
    })
}

#[test]
fn start_one_after_the_other() {
    let mut lab = Lab::with(2, recorded());
    lab.apply(stateful_set("db", 3));
    assert_eq!(lab.pods().len(), 1);
    lab.seconds(10);
    let db = lab.get(STATEFUL_SETS, "db");
    let revision = db["status"]["updateRevision"].as_str().expect("a revision").to_owned();
    assert_eq!(
        db["status"],
        json!({
            "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
            "currentRevision": revision, "updateRevision": revision, "collisionCount": 0, "availableReplicas": 3,
        })
    );
    assert_eq!(
        lab.messages("SuccessfulCreate"),
        [0, 1, 2].map(|at| format!("Create Pod db-{at} in StatefulSet db successful"))
    );
    let pod = lab.get(PODS, "db-1");
    assert_eq!(pod["spec"]["hostname"], "db-1");
    assert_eq!(pod["spec"]["subdomain"], "db");
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], revision.as_str());
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
}

#[test]
fn update_from_the_last_to_the_partition() {
    let mut lab = Lab::new(2);
    lab.apply(stateful_set("db", 3));
    lab.change(STATEFUL_SETS, "db", |db| {
        db["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(1);
        db["spec"]["template"]["spec"]["containers"][0]["image"] = json!("postgres:17");
    });
    let image = |lab: &Lab, pod: &str| lab.get(PODS, pod)["spec"]["containers"][0]["image"].clone();
    assert_eq!(image(&lab, "db-0"), "postgres:16");
    assert_eq!(image(&lab, "db-1"), "postgres:17");
    assert_eq!(image(&lab, "db-2"), "postgres:17");
    assert_eq!(lab.list(CONTROLLER_REVISIONS).len(), 2);
    lab.change(STATEFUL_SETS, "db", |db| db["spec"]["replicas"] = json!(1));
    assert_eq!(lab.pods().len(), 1);
}
