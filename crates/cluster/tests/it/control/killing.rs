//! Containers that another program than the kubelet kills.

use klab_cluster::{Killing, kill};

use super::*;

/// Kills the container of the only pod, and lets its kubelet see that; gives the container's status.
fn after(lab: &mut Lab, killing: Killing) -> Value {
    let mut pod = lab.pods().remove(0);
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(kill(&mut pod, "main", killing), "{pod}");
    let status = pod["status"].take();
    let options = WriteOptions::by("test");
    let change = |pod: &mut Value| pod["status"] = status;
    lab.cluster.modify(PODS, Part::Status, "default", &name, &options, change).expect("a pod");
    lab.pass(SignedDuration::from_mins(6));
    let pod = lab.pods().remove(0);
    let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
    assert!(pod["status"]["conditions"].as_array().unwrap().iter().any(is_ready), "{pod}");
    pod["status"]["containerStatuses"][0].clone()
}

fn running(policy: &str) -> Lab {
    let mut lab = Lab::new(1);
    lab.apply(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
        "spec": { "restartPolicy": policy, "containers": [{ "name": "main", "image": "nginx" }] },
    }));
    lab.pass(SignedDuration::from_mins(1));
    lab
}

#[test]
fn a_stopped_container_starts_again_and_a_removed_one_leaves_nothing() {
    let mut lab = running("Always");
    let lost = after(&mut lab, Killing::Removed);
    let last = &lost["lastState"]["terminated"];
    assert_eq!((&lost["restartCount"], &last["exitCode"], &last["startedAt"]), (&json!(1), &json!(137), &Value::Null));
    assert_eq!(last["reason"], "ContainerStatusUnknown");
    assert!(lost["state"]["running"].is_object() && lost["containerID"].is_string(), "{lost}");
    assert_eq!(after(&mut lab, Killing::Removed)["restartCount"], 1, "its log is gone, too");
    let stopped = after(&mut lab, Killing::Stopped);
    let last = &stopped["lastState"]["terminated"];
    assert_eq!(
        (&stopped["restartCount"], &last["exitCode"], &last["reason"]),
        (&json!(2), &json!(137), &json!("Error"))
    );
    assert!(last["containerID"].is_string() && last["containerID"] != stopped["containerID"], "{stopped}");
    assert_eq!(after(&mut lab, Killing::Removed)["lastState"], stopped["lastState"]);
    let events = lab.cluster.list(EVENTS, None).0;
    assert!(!events.iter().any(|event| event.value()["reason"] == "Killing"), "the kubelet has killed nothing");
}

#[test]
fn a_stopped_container_that_does_not_start_again_has_failed() {
    let mut lab = running("Never");
    let mut pod = lab.pods().remove(0);
    assert!(!kill(&mut pod.clone(), "other", Killing::Stopped) && kill(&mut pod, "main", Killing::Stopped));
    let status = pod["status"].take();
    lab.cluster
        .modify(PODS, Part::Status, "default", "web", &WriteOptions::by("test"), |pod| pod["status"] = status)
        .expect("a pod");
    lab.pass(SignedDuration::from_secs(2));
    let pod = lab.pods().remove(0);
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
}
