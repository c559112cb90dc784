//! The fields of a status as a kubelet fills them in.

use jiff::Timestamp;
use klab_api_machinery::value::{map_mut, time_text};
use klab_api_machinery::views::{Container, Pod, ResourceRequirements};
use klab_scheduler::hash::fnv64;
use serde_json::{Value, json};

use super::super::view::NodeInfo;

/// What a kubelet says of every pod it has.
pub(super) fn base_status(pod: Pod<'_>, node: &NodeInfo, now: Timestamp) -> Value {
    json!({
        "observedGeneration": pod.metadata().generation(), "hostIP": node.address, "hostIPs": [{ "ip": node.address }],
        "startTime": time_text(now),
    })
}

/// Status of a container that has not been made.
pub(super) fn unstarted(container: Container<'_>, state: Value) -> Value {
    json!({
        "name": container.name(), "state": state, "lastState": {}, "ready": false, "restartCount": 0,
        "image": container.image(), "imageID": "", "started": false,
    })
}

/// Status of a container that has been made: its ids are derived, stable for a pod and a start.
pub(super) fn identified(container: Container<'_>, pod_uid: &str, restarts: i64, with_resources: bool) -> Value {
    let (name, image) = (container.name(), container.image());
    let start = if restarts == 0 { String::new() } else { restarts.to_string() };
    let part = |part: u8| fnv64(&[&[part], pod_uid.as_bytes(), name.as_bytes(), start.as_bytes()]);
    let id = format!("{:016x}{:016x}{:016x}{:016x}", part(0), part(1), part(2), part(3));
    let mut status = json!({
        "name": name, "lastState": {}, "ready": true, "restartCount": restarts, "image": image,
        "imageID": image_id(image), "containerID": format!("containerd://{id}"),
    });
    if with_resources {
        put_resources(&mut status, container.resources());
    }
    status
}

/// Writes into a container's status what it has been given.
pub(super) fn put_resources(status: &mut Value, resources: ResourceRequirements<'_>) {
    let mut given = resources.0.clone();
    map_mut(&mut given).remove("claims");
    let requests = given["requests"].clone();
    let fields = map_mut(status);
    for (field, value) in [("allocatedResources", requests), ("resources", given)] {
        if value.as_object().is_none_or(serde_json::Map::is_empty) && field == "allocatedResources" {
            fields.remove(field);
        } else {
            fields.insert(field.to_owned(), value);
        }
    }
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
