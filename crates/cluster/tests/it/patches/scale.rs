//! Who manages the number of replicas that is written through the subresource `scale`.

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::resource::DEPLOYMENTS;
use klab_api_machinery::status::Status;
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, Part, WriteOptions};
use klab_fields::Patch;
use serde_json::{Value, json};

fn cluster() -> Cluster {
    Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7)
}

fn apply(cluster: &Cluster, replicas: Option<i64>) {
    let mut value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
            },
        },
    });
    if let Some(replicas) = replicas {
        value["spec"]["replicas"] = json!(replicas);
    }
    let patch = Patch::Apply { value, force: false };
    let options = WriteOptions::client("test");
    cluster.patch(DEPLOYMENTS, Part::Main, "default", "web", patch, &options).expect("applied");
}

fn to(replicas: i64) -> Patch {
    Patch::Merge(json!({ "spec": { "replicas": replicas } }))
}

fn applied(replicas: i64, force: bool) -> Patch {
    let value = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": { "replicas": replicas } });
    Patch::Apply { value, force }
}

fn scale(cluster: &Cluster, manager: &str, patch: &Patch) -> Result<Value, Status> {
    cluster.scale_patch(DEPLOYMENTS, "default", "web", patch, &WriteOptions::client(manager)).map(|(scale, _)| scale)
}

/// Manager, operation and subresource of those who manage the number of replicas.
fn owners(cluster: &Cluster) -> Vec<String> {
    let object = cluster.get(DEPLOYMENTS, "default", "web").expect("a deployment");
    let list = object.managed_fields();
    let list = list.as_array().into_iter().flatten();
    let owners = list.filter(|entry| entry["fieldsV1"]["f:spec"]["f:replicas"].is_object()).map(|entry| {
        assert_eq!(entry["apiVersion"], "apps/v1");
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("manager"), text("operation"), text("subresource"))
    });
    owners.collect()
}

/// upstream: scalehandler_test.go TestTransformingManagedFieldsToParent.
#[test]
fn who_scales_manages_the_number_by_way_of_the_subresource() {
    let cluster = cluster();
    apply(&cluster, Some(3));
    assert_eq!(owners(&cluster), ["test Apply "]);
    scale(&cluster, "scale", &to(3)).expect("nothing to do");
    assert_eq!(owners(&cluster), ["test Apply "]);
    scale(&cluster, "scale", &to(4)).expect("scaled");
    assert_eq!(owners(&cluster), ["scale Update scale"]);
    scale(&cluster, "scale", &to(5)).expect("scaled");
    scale(&cluster, "other", &to(6)).expect("scaled");
    assert_eq!(owners(&cluster), ["other Update scale"]);
    let refused = scale(&cluster, "scale", &applied(7, false)).expect_err("a conflict");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            409,
            "Apply failed with 1 conflict: conflict with \"other\" with subresource \"scale\" using autoscaling/v1: .spec.replicas"
        )
    );
    scale(&cluster, "scale", &applied(7, true)).expect("forced");
    assert_eq!(owners(&cluster), ["scale Apply scale"]);
    scale(&cluster, "third", &applied(7, false)).expect("shared");
    assert_eq!(owners(&cluster), ["scale Apply scale", "third Apply scale"]);
    apply(&cluster, Some(7));
    assert_eq!(owners(&cluster), ["scale Apply scale", "third Apply scale", "test Apply "]);
}

#[test]
fn where_nobody_manages_the_number_nobody_does_after_an_update() {
    let cluster = cluster();
    apply(&cluster, None);
    scale(&cluster, "scale", &to(4)).expect("scaled");
    assert!(owners(&cluster).is_empty());
    let wrong = json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
    let refused = scale(&cluster, "scale", &Patch::Apply { value: wrong, force: false }).expect_err("refused");
    assert_eq!((refused.code, refused.message.as_str()), (400, "invalid object type: apps/v1, Kind=Deployment"));
}
