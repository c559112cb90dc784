//! What a kubelet writes of a pod and its containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::events::reference;
use super::super::value::{items, text, time_text};
use super::super::view::{NodeInfo, PodInfo};
use klab_scheduler::hash::fnv64;

pub(super) fn container_names(pod: &Value) -> Vec<&str> {
    items(&pod["spec"]["containers"]).iter().map(|container| text(container, &["name"])).collect()
}

/// What a kubelet says of every pod it has.
pub(super) fn base_status(pod: &Value, node: &NodeInfo, now: Timestamp) -> Value {
    let generation = pod["metadata"]["generation"].clone();
    json!({
        "observedGeneration": generation, "hostIP": node.address, "hostIPs": [{ "ip": node.address }],
        "startTime": time_text(now),
    })
}

/// The four conditions a kubelet keeps, in its order.
pub(super) fn conditions(pod: &Value, ready: bool, containers: &[&str], now: Timestamp) -> Vec<Value> {
    let generation = pod["metadata"]["generation"].clone();
    let names = containers.join(" ");
    let held = if ready { "True" } else { "False" };
    [("PodReadyToStartContainers", held), ("Initialized", "True"), ("Ready", held), ("ContainersReady", held)]
        .into_iter()
        .map(|(kind, status)| {
            let mut condition = json!({
                "type": kind, "observedGeneration": generation, "status": status, "lastProbeTime": null,
                "lastTransitionTime": time_text(now),
            });
            if !ready && matches!(kind, "Ready" | "ContainersReady") {
                condition["reason"] = json!("ContainersNotReady");
                condition["message"] = json!(format!("containers with unready status: [{names}]"));
            }
            condition
        })
        .collect()
}

pub(super) fn unstarted(container: &Value, state: Value) -> Value {
    json!({
        "name": container["name"], "state": state, "lastState": {}, "ready": false, "restartCount": 0,
        "image": container["image"], "imageID": "", "started": false,
    })
}

/// Status of a container that has been made: its ids are derived, stable for a pod.
pub(super) fn identified(container: &Value, pod_uid: &str) -> Value {
    let name = text(container, &["name"]);
    let part = |part: u8| fnv64(&[&[part], pod_uid.as_bytes(), name.as_bytes()]);
    let id = format!("{:016x}{:016x}{:016x}{:016x}", part(0), part(1), part(2), part(3));
    json!({
        "name": name, "lastState": {}, "ready": true, "restartCount": 0, "image": container["image"],
        "imageID": image_id(text(container, &["image"])), "containerID": format!("containerd://{id}"),
    })
}

/// A full image reference. Nothing was pulled, so the digest is zero.
fn image_id(image: &str) -> String {
    let first = image.split('/').next().unwrap_or_default();
    let full = if !image.contains('/') {
        format!("docker.io/library/{image}")
    } else if first.contains(['.', ':']) || first == "localhost" {
        image.to_owned()
    } else {
        format!("docker.io/{image}")
    };
    if full.contains('@') { full } else { format!("{full}@sha256:{:064}", 0) }
}

pub(super) fn container_reference(pod: &PodInfo, field: &str, container: &str) -> Value {
    let mut about = reference(&pod.object);
    about["fieldPath"] = json!(format!("spec.{field}{{{container}}}"));
    about
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_ids_are_full_references() {
        let zeros = "0".repeat(64);
        assert_eq!(image_id("nginx:1.27"), format!("docker.io/library/nginx:1.27@sha256:{zeros}"));
        assert_eq!(image_id("acme/web"), format!("docker.io/acme/web@sha256:{zeros}"));
        assert_eq!(image_id("mcr.microsoft.com/x:1"), format!("mcr.microsoft.com/x:1@sha256:{zeros}"));
        assert_eq!(image_id("a.io/x@sha256:1"), "a.io/x@sha256:1");
    }
}
